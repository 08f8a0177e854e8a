"""From a question to ranked candidates: arms, fusion, the graph, and fusion again. Functions on values, in steps."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Literal

from treering.derived.arms import Candidates, related, search_arms, widen, with_meaning
from treering.derived.association import Association, associate
from treering.derived.clues import WEIGHTS as CLUE_WEIGHTS
from treering.derived.clues import clues_of, thread_clue
from treering.derived.fusion import (
    CODE_WEIGHTS,
    COMPARISON_WEIGHTS,
    DIALOGUE_WEIGHTS,
    LOOKUP_WEIGHTS,
    POOL,
    PROSE_WEIGHTS,
    VECTORS,
    WORDS,
    Fused,
    favour,
    fuse,
    lend_to_neighbours,
)
from treering.derived.question import Arms, Question
from treering.derived.roles import CODE, NO_PLACE
from treering.derived.rounds import GraphRequest, Steps
from treering.derived.routing import Route, route
from treering.derived.ties import is_turn
from treering.derived.whole_files import rank_in_files
from treering.ports.graph import GraphView
from treering.ports.passages import PassageHead
from treering.ports.reach import Reach

_LEADS = 2
"""Passages whose titles lead a deep search on, besides the statements nearest to the question."""

_COMPARED = 2

_FIRST = 10
_PREVAILS = 0.9
_CODE_ANSWERS = 0.5
"""Part of the best score in the words arm from which on code is among what answers."""

_BEFORE_FILES = 4
"""Candidates that are ranked by their files, for each that is wanted: what these lift may stand far behind."""

Form = Literal["prose", "turn", "code"]
"""What a passage is, for weighing: prose, a turn of a conversation, or code."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Candidates, best first, with the heads of all of them, and how they came to be."""

    hits: Sequence[Fused]
    heads: Mapping[int, PassageHead]
    trace: Mapping[str, Any]
    association: Association | None
    beside: Mapping[int, Sequence[int]]
    """The turns before and after turns of a conversation, as far as they were read."""


def rank(question: Question, *, reach: Reach, limit: int, deep: bool = False) -> Steps[Ranking]:
    """Rank at least `limit` candidates within reach.

    `deep` asks again with what was found first added to the question, for some six more encodings.
    """
    candidates = Candidates(question, reach)
    pool = max(POOL, limit)
    arms = yield from search_arms(question, reach, pool=pool)
    kind = route(question.text, arms)
    found = yield from _found(question, arms, kind, candidates)
    if deep and found.association:
        question = question.led_by(_leads(found.association, found.ranked, candidates))
        arms = yield from with_meaning(arms, question, reach, pool=pool)
        found = yield from _found(question, arms, kind, candidates)
    first = candidates.known(hit.key for hit in found.ranked[:_FIRST])
    form = form_of(first.values(), in_code=_code_answers(found.arms.get(WORDS, {}), candidates))
    weights = _weights(kind, form, found)
    by_files = form in ("code", None) and any(head.place_role != NO_PLACE for head in candidates.heads.values())
    wanted = (_BEFORE_FILES if by_files else 2) * pool
    ranked, given = found.ranked, found.arms
    if found.association:
        given = yield from widen(question, found.arms, found.association, candidates)
    if found.association or by_files:
        ranked = fuse(given, weights, limit=wanted)
    beside = {hit.key: candidates.beside[hit.key] for hit in ranked if hit.key in candidates.beside}
    ranked = lend_to_neighbours(ranked, beside, limit=wanted)
    near = candidates.known(hit.key for hit in ranked)
    clues = {**clues_of(question.text, near, candidates.dated), **thread_clue(ranked, near)}
    ranked = favour(ranked, clues, CLUE_WEIGHTS, limit=wanted if by_files else pool)
    if by_files:
        ranked = rank_in_files(ranked, near, _said(given, weights), question.text, limit=pool)
    trace = {
        "terms": {"words": question.terms.words, "identifiers": question.terms.identifiers},
        "route": kind,
        "arms": {name: len(scores) for name, scores in arms.items()},
        "weights": dict(weights),
        "candidates": len(ranked),
        "unrelated": len(arms.get(VECTORS, {})) - len(found.arms.get(VECTORS, {})),
        "graph": _told(found.association) if found.association else _why_not_walked(reach, kind),
    }
    return Ranking(ranked, candidates.heads, trace, found.association, candidates.beside)


def form_of(heads: Iterable[PassageHead], *, in_code: bool = False) -> Form | None:
    """Return the form that nearly all of the first of some passages have, best first; `None` where forms mix.

    `in_code`: code answers, too. Then the documents of a project are no prose by themselves: they tell of the code.
    """
    forms = [_form(head, in_code=in_code) for head in islice(heads, _FIRST)]
    return next((form for form, count in Counter(forms).items() if count >= _PREVAILS * len(forms)), None)


def _said(arms: Arms, weights: Mapping[str, float]) -> dict[int, float]:
    """Score passages by their words and their meaning alone: what a file says of the matter adds up of these.

    Names and the graph bring passages of a file together by themselves, and would count for it twice.
    """
    telling = {arm: arms.get(arm, {}) for arm in (WORDS, VECTORS)}
    return {hit.key: hit.score for hit in fuse(telling, weights)}


@dataclass(frozen=True, slots=True)
class _Found:
    """What the arms found, without the merely nearest, in order; and what the graph says of it."""

    arms: Arms
    ranked: list[Fused]
    association: Association | None


def _found(question: Question, arms: Arms, kind: Route, candidates: Candidates) -> Steps[_Found]:
    yield from candidates.read(set().union(*arms.values()), in_reach=True)
    kept = related(question, arms, candidates)
    ranked = fuse(kept, LOOKUP_WEIGHTS, limit=POOL)
    reach = candidates.reach
    # The graph knows only what is current.
    if kind == "lookup" or reach.at is not None or reach.withdrawn or not ranked:
        return _Found(kept, ranked, None)
    view: GraphView = yield GraphRequest(reach)
    seeds = [(hit.key, hit.score) for hit in ranked]
    return _Found(kept, ranked, associate(question.text, question.terms, seeds, view))


def _weights(kind: Route, form: Form | None, found: _Found) -> Mapping[str, float]:
    """Choose by the form of what was found first; where forms mix, the weights of code, which serve all.

    All candidates are weighed alike, for scores under different weights do not compare: each form weighed by its
    own put documents below the code they tell of (13 points of reciprocal rank).
    """
    if found.association is None:
        return LOOKUP_WEIGHTS
    if form == "prose":
        compared = kind == "comparison" and len(found.association.named) >= _COMPARED
        return COMPARISON_WEIGHTS if compared else PROSE_WEIGHTS
    return DIALOGUE_WEIGHTS if form == "turn" else CODE_WEIGHTS


def _form(head: PassageHead, *, in_code: bool) -> Form:
    if is_turn(head):
        return "turn"
    return "prose" if head.role == "prose" and not (in_code and head.place_role != NO_PLACE) else "code"


def _code_answers(words: Mapping[int, float], candidates: Candidates) -> bool:
    """Tell whether code shares about as much with a question as the best there is."""
    of_code = [score for key, score in words.items() if (head := candidates.heads.get(key)) and head.place_role == CODE]
    return max(of_code, default=0.0) >= _CODE_ANSWERS * max(words.values(), default=0.0) > 0


def _leads(association: Association, ranked: Sequence[Fused], candidates: Candidates) -> list[str]:
    """Return what to ask again with: the ends of the nearest statements, and what the best passages are called."""
    facts = association.facts
    names = association.view.names(sorted({end for fact in facts for end in (fact.subject, fact.object)}))
    stated = [f"{names.get(fact.subject, '')} {names.get(fact.object, '')}" for fact in facts]
    titles = [head.title for head in candidates.known(hit.key for hit in ranked[:_LEADS]).values()]
    return list(dict.fromkeys(filter(None, map(str.strip, (*stated, *titles)))))


def _told(association: Association) -> dict[str, Any]:
    """Say where the walk began, in names."""
    facts = association.facts
    ends = {end for fact in facts for end in (fact.subject, fact.object)}
    names = association.view.names(sorted(ends | association.seeds.keys()))
    return {
        "seeds": {names[node]: round(weight, 6) for node, weight in association.seeds.items() if node in names},
        "facts": [f"{names.get(fact.subject, '')} — {names.get(fact.object, '')} ({fact.score:.3f})" for fact in facts],
        "reached": len(association.walked),
    }


def _why_not_walked(reach: Reach, kind: Route) -> str:
    if reach.at is not None or reach.withdrawn:
        return "not walked: it knows only what is current"
    return "not walked: a lookup needs none" if kind == "lookup" else "not walked: nothing was found to begin from"
