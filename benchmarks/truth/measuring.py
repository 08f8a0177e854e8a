"""Truth: whether what holds now is shown, and nothing that no longer does, after conversations labelled by hand."""

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import treering
from benchmarks.figures import Figure, Missing, Row, Target, at_least, at_most
from benchmarks.plan import Plan, workplace
from benchmarks.truth.conversations import Conversation, Labels
from benchmarks.truth.marks import Marks, holding, marks_of
from benchmarks.truth.scoring import Score, ShownLine, score
from benchmarks.truth.surfaces import earlier_state, newest_first, state_lines, word_count
from treering import Space
from treering.extensions.discussions.memory import Discussion, DiscussionMemory
from treering.extensions.discussions.search import DiscussionHit, DiscussionSearch
from treering.verbs.ingest.turns import Message

SET = "TREERING_TRUTH_SET"
"""The environment variable that names the set, one of `SETS`: `dev` by default. Sets for tests are run once."""
_MORE_WORDS = 1.7
"""The messages newest first are also shown with so many times the words of the state document."""
_MAX_LOSS = 1.0
"""Percentage points that replacements may cost the first hits for questions about unchanged things."""
_FOUND = DiscussionSearch(what="turns", mode="hybrid", limit=10)


@dataclass(frozen=True, slots=True)
class _Surface:
    """A way to show what holds, with its goals: everything right, what holds shown, stale statements shown."""

    name: str
    lines: Callable[[Conversation, Discussion, Sequence[ShownLine]], Sequence[ShownLine]]
    goals: tuple[Target | None, Target | None, Target | None] = (None, None, None)


_SURFACES = (
    _Surface("state document", lambda _one, _kept, shown: shown, (at_least(65), at_least(88), at_most(18))),
    _Surface("newest first, same words", lambda one, _kept, shown: newest_first(one, word_count(shown))),
    _Surface("newest first, 1.7 times", lambda one, _kept, shown: newest_first(one, _MORE_WORDS * word_count(shown))),
    _Surface("state document before", lambda one, _kept, _shown: earlier_state(one)),
)


@dataclass(slots=True)
class _Asked:
    """Questions whose answer changed, and how their hits were ordered and marked."""

    changed: list[bool] = field(default_factory=list)
    """Whether the answer stands above everything stale."""
    marked: list[bool] = field(default_factory=list)
    """For each stale message among the hits, whether it is marked."""
    unchanged: list[bool] = field(default_factory=list)
    """For questions about unchanged things: whether the answer is first."""
    unchanged_in_five: list[bool] = field(default_factory=list)
    unchanged_by_score: list[bool] = field(default_factory=list)
    """Whether the answer is first if replacements moved nothing."""
    current_marked: list[bool] = field(default_factory=list)
    """For each found message of which all labelled statements hold: whether it is marked as replaced."""
    current_doubted: list[bool] = field(default_factory=list)
    """The same for the weaker mark: a later message may contradict it."""


def measure(plan: Plan) -> list[Row]:
    """Measure the state document and discussion search on a set, by kind."""
    name = os.environ.get(SET, "dev")
    conversations = Labels.of(name).conversations[: 12 if plan.quick else None]
    if not conversations:
        return [Missing(f"truth, {name}", "there are no conversations in this set")]
    scores: dict[str, list[tuple[Conversation, Score]]] = {one.name: [] for one in _SURFACES}
    asked = _Asked()
    with workplace() as folder, treering.open(str(folder / "truth.db"), background=False) as space:
        for conversation in conversations:
            kept = _recorded(space, conversation)
            shown = list(state_lines(kept.state()))
            for surface in _SURFACES:
                scores[surface.name].append(
                    (conversation, score(conversation, surface.lines(conversation, kept, shown)))
                )
            _ask(kept, conversation, asked)
    rows: list[Row] = []
    for surface in _SURFACES:
        rows += _figures(f"{name}, {surface.name}", scores[surface.name], surface.goals)
    for kind in dict.fromkeys(one.kind for one in conversations):
        by_kind = [pair for pair in scores[_SURFACES[0].name] if pair[0].kind == kind]
        rows += _figures(f"{name}, state document, {kind}", by_kind, (None, None, None))
    return [*rows, *_order(name, asked), *_marked(name, [marks_of(one) for one in conversations])]


def _recorded(space: Space, conversation: Conversation) -> Discussion:
    kept = DiscussionMemory(space.engine).open(conversation.id)
    kept.record(
        [
            Message(role=one.role, name="" if one.role == "assistant" else one.speaker, content=one.text, at=one.at)
            for one in conversation.messages
        ]
    )
    return kept


def _ask(kept: Discussion, conversation: Conversation, asked: _Asked) -> None:
    found: dict[int, DiscussionHit] = {}
    for question in conversation.questions:
        hits = kept.search(question.ask, _FOUND)
        found |= {hit.first: hit for hit in hits}
        places = [hit.first for hit in hits]
        rank = places.index(question.answer) if question.answer in places else len(places)
        if not question.stale:
            asked.unchanged.append(rank == 0)
            asked.unchanged_in_five.append(rank < min(5, len(places)))
            asked.unchanged_by_score.append(bool(hits) and _first_by_score(hits).first == question.answer)
            continue
        stale = [place for place in question.stale if place in places]
        asked.changed.append(rank < len(places) and all(rank < places.index(place) for place in stale))
        asked.marked += list(_marks(hits, stale)) if not question.past else []
    current = [hit for place, hit in found.items() if place in holding(conversation)]
    asked.current_marked += [hit.superseded_by is not None for hit in current]
    asked.current_doubted += [hit.contested_by is not None for hit in current]


def _first_by_score(hits: Sequence[DiscussionHit]) -> DiscussionHit:
    """Return the best hit by score. A replacement that was only looked up has the score of the replaced hit."""
    return max(hits, key=lambda hit: (hit.score, hit.superseded_by is not None))


def _marks(hits: Sequence[DiscussionHit], stale: Sequence[int]) -> Iterator[bool]:
    return (hit.superseded_by is not None for hit in hits if hit.first in stale)


def _figures(
    name: str, scores: Sequence[tuple[Conversation, Score]], goals: tuple[Target | None, Target | None, Target | None]
) -> Iterator[Figure]:
    right, holds, ended = goals
    yield _share(f"{name}: everything right", [one.is_right for _, one in scores], right)
    yield _share(f"{name}: what holds is shown", [shown for _, one in scores for shown in one.holds], holds)
    yield _share(f"{name}: stale shown as current", [shown for _, one in scores for shown in one.ended], ended)
    if wrong := [shown for _, one in scores for shown in one.never]:
        yield _share(f"{name}: credited to the wrong person", wrong, at_most(0) if right else None)


def _order(name: str, asked: _Asked) -> Iterator[Figure]:
    yield _share(f"{name}, search: current above stale", asked.changed, at_least(78))
    yield _share(f"{name}, search: stale hits marked", asked.marked, at_least(100))
    least = 100 * sum(asked.unchanged_by_score) / max(1, len(asked.unchanged_by_score)) - _MAX_LOSS
    yield _share(f"{name}, search: first where nothing changed", asked.unchanged, at_least(round(least, 1)))
    yield _share(f"{name}, search: among five where nothing changed", asked.unchanged_in_five, None)
    yield _share(f"{name}, search: current messages marked as replaced", asked.current_marked, None)
    yield _share(f"{name}, search: current messages marked as contested", asked.current_doubted, None)


def _marked(name: str, marks: Sequence[Marks]) -> Iterator[Figure]:
    """Return how the marks of all messages agree with the labels, whatever a search finds."""
    figures = {
        "stale messages marked": [one for each in marks for one in each.stale],
        "current messages marked": [one for each in marks for one in each.current],
        "marks that name another message": [one for each in marks for one in each.sources],
        "changes found": [one for each in marks for one in each.found],
    }
    for label, values in figures.items():
        if values:
            yield _share(f"{name}, marks: {label}", values, None)
    if figures["changes found"]:
        yield Figure(f"{name}, marks: unrelated pairs", float(sum(len(one.unrelated) for one in marks)), "", None)


def _share(name: str, values: Sequence[bool], target: Target | None) -> Figure:
    return Figure(name, 100 * sum(values) / max(1, len(values)), "%", target, f"{sum(values)} of {len(values)}")
