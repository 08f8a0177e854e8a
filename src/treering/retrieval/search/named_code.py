"""The definitions that a task names, such as `prompt()`, `Context.exit` or `retry_limit`."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from treering.core.evidence import Lines
from treering.ports.passages import PassageHead, PassageRequest, PassagesFound, Reach
from treering.retrieval.index.code_names import CODE_FAMILIES, last_name, names_in_heading
from treering.retrieval.index.code_places import CODE, is_test_path
from treering.retrieval.index.rounds import Steps
from treering.retrieval.search.excerpts import is_stub
from treering.retrieval.search.question import Question
from treering.retrieval.search.retrieval import Hit, read_hits
from treering.retrieval.text.analysis import index_text
from treering.retrieval.tuning import TUNING

_WRITTEN = re.compile(r"(?<![\w./-])(?P<name>[^\W\d]\w*(?:(?:\.|::)[^\W\d]\w*)*)(?P<call>\(\))?(?![\w/(-])")
_IS_SYMBOL = re.compile(r"\w_\w|\w(?:\.|::)\w|[a-z][A-Z]")
_QUOTED = re.compile(r"`([^`\s]{1,80})`")


def symbols_in(task: str) -> tuple[str, ...]:
    """Return the names in a task that are written as code, qualified with dots."""
    quoted = {name.removesuffix("()") for name in _QUOTED.findall(task)}
    named = (
        match["name"].replace("::", ".")
        for match in _WRITTEN.finditer(task)
        if match["call"] or match["name"] in quoted or _IS_SYMBOL.search(match["name"])
    )
    return (*islice(dict.fromkeys(named), TUNING.packing.max_symbols),)


def named_definitions(question: Question, reach: Reach) -> Steps[list[Hit]]:
    """Find the passages that define what the task names, in the order of their files and lines.

    Of each file only the definition with most words of the task, and of one in many parts the parts with most.
    """
    symbols = symbols_in(question.text)
    if not symbols or reach.at is not None:
        return []
    names = {last_name(family, symbol): symbol for symbol in symbols for family in CODE_FAMILIES}
    passages: PassagesFound = yield PassageRequest((), reach=reach, named=tuple(names))
    heads = {head.key: head for symbol in symbols for head in _defining(symbol, names, passages)}
    hits: list[Hit] = yield from read_hits(list(heads.values()), question, reach)
    whole = [hit for hit in hits if not is_stub(hit.text)] or hits
    terms = frozenset(question.terms.words)
    ranked = sorted(whole, key=lambda hit: -len(terms.intersection(index_text(hit.text).split())))
    of_file: dict[str, tuple[str, ...]] = {}
    best = [hit for hit in ranked if of_file.setdefault(hit.head.object_id, _names_of(hit.head)) == _names_of(hit.head)]
    return sorted(best[: TUNING.packing.max_symbols], key=_place)


def _defining(symbol: str, names: dict[str, str], passages: PassagesFound) -> list[PassageHead]:
    """Return the passages of code, tests aside, that define a symbol; none if many definitions have the name."""
    keys = dict.fromkeys(key for name, one in names.items() if one == symbol for key in passages.named.get(name, ()))
    heads = [passages.heads[key] for key in keys if key in passages.heads]
    defining: dict[tuple[str, str], list[PassageHead]] = {}
    for head in heads:
        if head.place_role == CODE and not is_test_path(head.title) and (name := _named(head, symbol)):
            defining.setdefault((head.object_id, name), []).append(head)
    exact = {place: parts for place, parts in defining.items() if place[1] == symbol} or defining
    return [head for parts in exact.values() for head in parts] if len(exact) <= TUNING.packing.max_definitions else []


def _named(head: PassageHead, symbol: str) -> str:
    """Return the qualified name by which a passage defines a symbol; empty if it does not."""
    return next((name for name in _names_of(head) if f".{name}".endswith(f".{symbol}")), "")


def _names_of(head: PassageHead) -> tuple[str, ...]:
    return names_in_heading(head.heading, head.title)


def _place(hit: Hit) -> tuple[str, int]:
    return hit.head.title, hit.locator.start if isinstance(hit.locator, Lines) else 0


def first_test_of(definitions: Sequence[Hit], hits: Sequence[Hit]) -> Iterator[Hit]:
    """Yield the best passage of a test that calls or names the definitions."""
    names = {name.rpartition(".")[2] for hit in definitions for name in _names_of(hit.head)}
    uses = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(names)))})\b") if names else None
    tests = (hit for hit in hits if isinstance(hit.locator, Lines) and is_test_path(hit.locator.path))
    yield from islice((hit for hit in tests if uses and uses.search(hit.text)), 1)
