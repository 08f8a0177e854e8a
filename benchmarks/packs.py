"""Context packs: how much of the evidence is in them, and whether they say so where nothing speaks of the task.

Every labelled set is asked in a space of its own, and so are the questions about repositories. Code is asked by words
alone, as right after ingest; all else with vectors too.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import blake2b
from itertools import groupby
from typing import Literal

import numpy as np

from benchmarks import code_packs
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

_SETS: Mapping[str, "Form"] = {
    "locomo": "dialogue",
    "longmemeval": "dialogue",
    "hotpotqa": "prose",
    "musique": "prose",
}
_ASKED = 100
"""Questions of each space for which packs are made."""
_KNOWN, _FOREIGN = 60, 10
"""Questions of its own that a space is asked whether anything speaks of them, and of each other one."""
_QUICK = 5

Form = Literal["code", "prose", "dialogue"]
Nature = Literal["known", "foreign", "akin"]


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
    spaces: list[PackedSpace] = []
    rows: list[Row] = []
    opening: list[Callable[[Plan], Iterator[PackedSpace]]] = [*(partial(_labelled, name) for name in _SETS), _code]
    for opened in opening:
        try:
            spaces += opened(plan)
        except MissingData as missing:
            rows.append(Missing("context packs", str(missing)))
    survived = (row for _, alike in groupby(spaces, key=_set_of) for row in _survival(list(alike), plan))
    of_issues = (row for name in ("issues", "issues-held-out") for row in code_packs.measure(plan, name))
    return [*rows, *survived, *of_issues, *_refusals(spaces, plan)]


def _labelled(name: str, plan: Plan) -> Iterator[PackedSpace]:
    embedder = CachedEmbedder(plan.cache / "vectors.db")
    for collection in load(name).collections:
        held = LabelledSpace.of(collection, embedder)
        held.cover(0 if plan.quick else 100)
        asked = [(question.text, question.gold) for question in collection.questions]
        called = f"{name} {collection.name}"
        yield PackedSpace(called, _SETS[name], held.space, asked, _passage_of(held), not plan.quick)


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


def _set_of(space: PackedSpace) -> str:
    return space.name.partition(" ")[0]


def _survival(spaces: Sequence[PackedSpace], plan: Plan) -> Iterator[Figure]:
    """Return what part of the evidence is in packs of each budget; part of a passage counts as the passage."""
    found = np.array([row for space in spaces for row in _survived(space, plan)])
    for budget, estimate in zip(BUDGETS, estimates(found), strict=True):
        note = f"95 % [{estimate.low:.1f}, {estimate.high:.1f}], {len(found)} questions"
        yield Figure(f"{_set_of(spaces[0])}: evidence in a pack of {budget:,} tokens", estimate.mean, "%", None, note)


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


def _refusals(spaces: Sequence[PackedSpace], plan: Plan) -> Iterator[Figure]:
    """Return how often packs say that nothing speaks of the task: of known tasks, of foreign ones, of akin ones.

    Foreign is a question about something of another form, akin one of another space of the same form: the two may
    have a vocabulary in common. The two halves are those of the questions: one was calibrated on.
    """
    asked: dict[tuple[str, str, Nature, str], list[bool]] = {}
    for space in spaces:
        for nature, text in _tasks(space, spaces, plan):
            for semantic in {False, space.vectors}:
                refused = space.pack(text, semantic=semantic).status == "empty"
                asked.setdefault((space.form, _way(semantic), nature, _half(text)), []).append(refused)
    for (form, way, nature, half), answers in sorted(asked.items()):
        errors = answers.count(nature == "known")
        said = "refused" if nature == "known" else "answered"
        name = f"{form}, {way}: {nature} tasks {said}, {half} half"
        yield Figure(name, 100 * errors / len(answers), "%", None, f"{errors} of {len(answers)}")


def _tasks(space: PackedSpace, spaces: Sequence[PackedSpace], plan: Plan) -> Iterator[tuple[Nature, str]]:
    for other in spaces:
        own = other is space
        most = _QUICK if plan.quick else _KNOWN if own else _FOREIGN
        nature: Nature = "known" if own else "akin" if other.form == space.form else "foreign"
        for text, _ in sorted(other.questions, key=lambda one: _digest(one[0]))[:most]:
            yield nature, text


def _way(semantic: bool) -> str:
    return "with vectors" if semantic else "words only"


def _half(text: str) -> str:
    return "calibrated" if _digest(text)[0] % 2 else "checked"


def _digest(text: str) -> bytes:
    return blake2b(text.encode(), digest_size=8).digest()
