"""Context packs: how much of the evidence is in them.

Every labelled set is asked in a space of its own, and so are the questions about repositories. Code is asked by words
alone, as right after ingest; all else with vectors too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Literal

import numpy as np

from benchmarks.cached_embedder import CachedEmbedder
from benchmarks.code_data import CodeQuestion, clone_of, load_questions
from benchmarks.code_files import space_at
from benchmarks.data import MissingData, load
from benchmarks.figures import Figure, Missing, Row
from benchmarks.labelled_space import LabelledSpace
from benchmarks.paired import estimates
from benchmarks.plan import Plan
from treering import Space
from treering.retrieval.search.packing import ContextPack, PackItem
from treering.verbs.query.context import ContextReport

BUDGETS = (1_000, 2_000, 4_000)
"""Tokens of the packs that are asked for."""

SETS: Mapping[str, "Form"] = {
    "locomo": "dialogue",
    "longmemeval": "dialogue",
    "hotpotqa": "prose",
    "musique": "prose",
}
_ASKED = 100
"""Questions of each space for which packs are made."""
_QUICK = 5

Form = Literal["code", "prose", "dialogue"]


@dataclass(frozen=True, slots=True)
class PackedSpace:
    """A space, and questions with the evidence that answers them; `named` says which evidence an item is."""

    name: str
    form: Form
    space: Space
    questions: Sequence[tuple[str, frozenset[str]]]
    named: Callable[[PackItem], str]
    vectors: bool

    def pack(self, task: str, *, max_tokens: int | None = None, semantic: bool) -> ContextReport:
        """Ask for a context pack."""
        options = {"semantic": semantic, **({"max_tokens": max_tokens} if max_tokens else {})}
        report = self.space.query("context", input={"task": task}, options=options)
        assert isinstance(report, ContextReport)
        return report


def measure(plan: Plan) -> list[Row]:
    """Measure what is there. `quick`: few questions, by words alone."""
    spaces, missing = open_spaces(plan)
    survived = (row for _, alike in groupby(spaces, key=set_of) for row in _survival(list(alike), plan))
    return [*missing, *survived]


def open_spaces(plan: Plan) -> tuple[Sequence[PackedSpace], Sequence[Missing]]:
    """Open a space for every set and repository that is there, and say which are not."""
    spaces: list[PackedSpace] = []
    missing: list[Missing] = []
    opening: list[Callable[[Plan], Iterator[PackedSpace]]] = [*(partial(_labelled, name) for name in SETS), _code]
    for opened in opening:
        try:
            spaces += opened(plan)
        except MissingData as absent:
            missing.append(Missing("context packs", str(absent)))
    return spaces, missing


def set_of(space: PackedSpace) -> str:
    """Return the name of the set that a space was made of."""
    return space.name.partition(" ")[0]


def _labelled(name: str, plan: Plan) -> Iterator[PackedSpace]:
    embedder = CachedEmbedder(plan.cache / "vectors.db")
    for collection in load(name).collections:
        held = LabelledSpace.of(collection, embedder)
        held.cover(0 if plan.quick else 100)
        asked = [(question.text, question.gold) for question in collection.questions]
        called = f"{name} {collection.name}"
        yield PackedSpace(called, SETS[name], held.space, asked, _passage_of(held), not plan.quick)


def _code(plan: Plan) -> Iterator[PackedSpace]:
    for (repository, commit), asked in groupby(load_questions("questions"), key=_commit_of):
        space = space_at(clone_of(repository), commit, plan.cache)
        questions = [(question.text, question.gold) for question in asked]
        yield PackedSpace(f"code {repository}", "code", space, questions, _file_of(space), False)


def _commit_of(question: CodeQuestion) -> tuple[str, str]:
    return question.repository, question.commit


def _passage_of(held: LabelledSpace) -> Callable[[PackItem], str]:
    return lambda item: held.passages.get((item.object_id, item.segment_id), "")


def _file_of(space: Space) -> Callable[[PackItem], str]:
    def named(item: PackItem) -> str:
        head = space.engine.ledger.heads([item.object_id]).get(item.object_id)
        return head.origin.rpartition("#")[2] if head else ""

    return named


def _survival(spaces: Sequence[PackedSpace], plan: Plan) -> Iterator[Figure]:
    """Return what part of the evidence is in packs of each budget; part of a passage counts as the passage."""
    found = np.array([row for space in spaces for row in _survived(space, plan)])
    for budget, estimate in zip(BUDGETS, estimates(found), strict=True):
        note = f"95 % [{estimate.low:.1f}, {estimate.high:.1f}], {len(found)} questions"
        yield Figure(f"{set_of(spaces[0])}: evidence in a pack of {budget:,} tokens", estimate.mean, "%", None, note)


def _survived(space: PackedSpace, plan: Plan) -> Iterator[list[float]]:
    for text, gold in space.questions[: _QUICK if plan.quick else _ASKED]:
        packs = [space.pack(text, max_tokens=budget, semantic=space.vectors).pack for budget in BUDGETS]
        shown = [{space.named(item) for item in _with_replies(pack)} for pack in packs]
        yield [100 * len(gold & names) / len(gold) for names in shown]


def _with_replies(pack: ContextPack) -> Iterator[PackItem]:
    """Return the items, and once more those that hold the turn that answers their own, under the id of that turn."""
    segments = {citation.mark: citation.segment_id for citation in pack.citations}
    for item in pack.items:
        yield item
        if item.section == "sources" and "cut" not in item.flags:
            yield from (item.model_copy(update={"segment_id": segments[mark]}) for mark in item.citations[1:])
