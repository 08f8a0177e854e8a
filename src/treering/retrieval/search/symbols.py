"""The names of code in a text, such as `prompt()` or `Context.exit`, and the passages that define them."""

import re
from itertools import islice

from treering.ports.passages import PassageHead, PassageRequest, PassagesFound, Reach
from treering.retrieval.index.code_names import CODE_FAMILIES, last_name, names_in_heading
from treering.retrieval.index.code_places import CODE, is_test_path
from treering.retrieval.index.rounds import Steps
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


def defining_passages(text: str, reach: Reach) -> Steps[list[PassageHead]]:
    """Find the passages that define the names of code in a text."""
    symbols = symbols_in(text)
    if not symbols or reach.at is not None:
        return []
    names = {last_name(family, symbol): symbol for symbol in symbols for family in CODE_FAMILIES}
    passages: PassagesFound = yield PassageRequest((), reach=reach, named=tuple(names))
    return list({head.key: head for symbol in symbols for head in _defining(symbol, names, passages)}.values())


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
    """Return the qualified name by which a passage that defines the last name of a symbol defines it; may be empty.

    The heading of a small class does not name its methods.
    """
    wanted = f".{symbol}".casefold()
    names = ((name, f".{name}".casefold()) for name in names_defined_in(head))
    return next((name for name, full in names if full.endswith(wanted) or wanted.startswith(f"{full}.")), "")


def names_defined_in(head: PassageHead) -> tuple[str, ...]:
    """Return the qualified names that a passage of code defines."""
    return names_in_heading(head.heading, head.title)
