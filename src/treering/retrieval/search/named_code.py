"""The definitions that a task names, and a test of them."""

import re
from collections.abc import Iterator, Sequence
from itertools import islice

from treering.core.evidence import Lines
from treering.ports.passages import Reach
from treering.retrieval.index.code_places import is_test_path
from treering.retrieval.index.rounds import Steps
from treering.retrieval.search.excerpts import is_stub
from treering.retrieval.search.question import Question
from treering.retrieval.search.retrieval import Hit, read_hits
from treering.retrieval.search.symbols import defining_passages, names_defined_in
from treering.retrieval.text.analysis import index_text
from treering.retrieval.tuning import TUNING


def named_definitions(question: Question, reach: Reach) -> Steps[list[Hit]]:
    """Find the definitions that the task names, in the order of their files and lines.

    Each file has only the definition with most words of the task; a definition in many parts, only its parts with most
    of them.
    """
    heads = yield from defining_passages(question.text, reach)
    hits: list[Hit] = yield from read_hits(heads, question, reach)
    whole = [hit for hit in hits if not is_stub(hit.text)] or hits
    terms = frozenset(question.terms.words)
    ranked = sorted(whole, key=lambda hit: -len(terms.intersection(index_text(hit.text).split())))
    of_file: dict[str, tuple[str, ...]] = {}
    named = ((hit, names_defined_in(hit.head)) for hit in ranked)
    best = [hit for hit, names in named if of_file.setdefault(hit.head.object_id, names) == names]
    return sorted(best[: TUNING.packing.max_symbols], key=_place)


def _place(hit: Hit) -> tuple[str, int]:
    return hit.head.title, hit.locator.start if isinstance(hit.locator, Lines) else 0


def first_test_of(definitions: Sequence[Hit], hits: Sequence[Hit]) -> Iterator[Hit]:
    """Yield the best passage of a test that calls or names the definitions."""
    names = {name.rpartition(".")[2] for hit in definitions for name in names_defined_in(hit.head)}
    uses = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(names)))})\b") if names else None
    tests = (hit for hit in hits if isinstance(hit.locator, Lines) and is_test_path(hit.locator.path))
    yield from islice((hit for hit in tests if uses and uses.search(hit.text)), 1)
