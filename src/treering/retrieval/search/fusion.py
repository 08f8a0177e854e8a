"""Combine the scores of several arms into one ranking.

A convex sum of normalized scores beats reciprocal rank fusion by 3 to 5 points of recall on dialogue
(`benchmarks/recall.py`). It needs the exact score of every candidate in every arm that has one.
"""

from collections import ChainMap
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from functools import cached_property
from math import inf, nextafter
from statistics import median_low
from typing import NamedTuple, cast

from treering.ports.passages import AskedDays, Passage
from treering.retrieval.index.passages import days_of
from treering.retrieval.index.projection import places_of
from treering.retrieval.tuning import TUNING

VECTORS = "vectors"
QUICK = "quick"
WORDS = "words"
NAMES = "names"
PLACES = "places"
DATED = "dated"
EXACT = "exact"
DEFINES = "defines"
RELEASE = "release"
NEIGHBOURS = "neighbours"

WALKED = "walked"
BRIDGED = "bridged"
TITLE_MATCH = "title_match"
NAMED = "named"


WITH_FLOOR = frozenset((WORDS, NAMES, DATED, WALKED, BRIDGED, TITLE_MATCH, NAMED))
"""Arms whose raw score 0 means nothing in common."""

EQUAL_WEIGHTS: Mapping[str, float] = dict.fromkeys((VECTORS, WORDS, NAMES, PLACES, WALKED), 1.0)
"""The weights of the arms for turns, code and mixed forms: fitted ones gained too little (`benchmarks/notes`)."""

FIRST_WEIGHTS: Mapping[str, float] = {**EQUAL_WEIGHTS, QUICK: TUNING.fusion.quick_share}
"""The weights of the first ranking, before the graph is read, and of lookups."""

WITH_CEILING = frozenset((DATED, WALKED, BRIDGED, TITLE_MATCH, NAMED))
"""Arms whose raw score 1 means everything in common; other arms are scaled to their best score."""


@dataclass(frozen=True, slots=True)
class ArmScore:
    """The score of a candidate in one arm. `rank` counts from 1; `normalised` is between 0 and 1."""

    rank: int
    raw: float
    normalised: float


class Fused(NamedTuple):
    """A candidate with its score between 0 and 1, and its parts by arm."""

    key: int
    score: float
    parts: Mapping[str, ArmScore]


def fuse(
    arms: Mapping[str, Mapping[int, float]],
    weights: Mapping[str, float] = FIRST_WEIGHTS,
    *,
    limit: int | None = None,
) -> list[Fused]:
    """Rank all candidates of `arms` (raw scores by key, higher is better) by the weighted sum of their scores.

    Each arm is scaled to 0..1, between its floor and its ceiling or best score. A candidate without a score gets 0 in
    an arm of `WITH_FLOOR`, and the median in another arm, whose score is unknown (such as a pending embedding). Ties go
    to the lower key, and a missing weight counts as 0.

    `QUICK` is not an arm: it contains the expected cosines of passages that only the quick model embedded. Its weight,
    relative to 1, is how far these scores may differ from the median.
    """
    quick = arms.get(QUICK, {})
    scales = {
        arm: _Scale.of(arm, scores, quick if arm == VECTORS else {})
        for arm, scores in arms.items()
        if scores and arm != QUICK
    }
    totals = _totals(set().union(*arms.values()), scales, weights)
    best = _best(totals, limit)
    if quick:
        scales[QUICK] = _Scale.of(QUICK, quick, {})
    return [Fused(key, totals[key], _Parts(key, scales)) for key in best]


def lend_to_neighbours(
    ranked: Sequence[Fused],
    neighbours: Mapping[int, Sequence[int]],
    *,
    share: float = TUNING.fusion.neighbour_share,
    limit: int | None = None,
) -> list[Fused]:
    """Rank again, adding `share` of the scores of the turns before and after to each candidate.

    An answer seldom repeats the words of its question, so a turn next to a good one is likely to be good. `neighbours`
    has the keys of the turns next to a candidate; they join the ranking. A missing neighbor counts as the candidate
    itself, so that single turns lose nothing. Scores stay between 0 and 1.
    """
    if not neighbours:
        return list(ranked[:limit])
    parts = {hit.key: hit.parts for hit in ranked}
    own = {hit.key: hit.score for hit in ranked}
    scores = dict.fromkeys((key for hit in ranked for key in neighbours.get(hit.key, ())), 0.0) | own
    lent = {key: [own.get(other, 0.0) for other in neighbours[key][:2]] for key in neighbours.keys() & scores.keys()}
    raised = scores | {key: _raised(scores[key], others, share) for key, others in lent.items() if others}
    return [
        Fused(key, raised[key], _with_more(parts.get(key, {}), _neighbours_part(lent.get(key, ()))))
        for key in _best(raised, limit)
    ]


def favour(
    ranked: Sequence[Fused],
    clues: Mapping[str, Mapping[int, float]],
    weights: Mapping[str, float],
    *,
    limit: int | None = None,
) -> list[Fused]:
    """Rank again, adding the weight of every clue times its score (0 to 1). Scores stay between 0 and 1."""
    if not clues:
        return list(ranked[:limit])
    whole = 1 + sum(weights[name] for name in clues)
    parts = {hit.key: hit.parts for hit in ranked}
    favoured = {
        hit.key: (hit.score + sum(weights[name] * scores.get(hit.key, 0.0) for name, scores in clues.items())) / whole
        for hit in ranked
    }
    return [
        Fused(
            key,
            favoured[key],
            _with_more(
                parts[key],
                {name: ArmScore(0, scores[key], scores[key]) for name, scores in clues.items() if key in scores},
            ),
        )
        for key in _best(favoured, limit)
    ]


def put_first(ranked: Sequence[Fused], arm: str, keys: Collection[int]) -> list[Fused]:
    """Move the candidates with these keys before all others, in their order. Scores stay between 0 and 1."""
    best = max((hit.score for hit in ranked if hit.key not in keys), default=0.0)
    first = [
        Fused(hit.key, best + (1 - best) * hit.score, _with_more(hit.parts, {arm: ArmScore(0, 1.0, 1.0)}))
        for hit in ranked
        if hit.key in keys
    ]
    most = nextafter(min((hit.score for hit in first), default=inf), 0)  # a tie would be sorted by key
    return [*first, *(hit._replace(score=min(hit.score, most)) for hit in ranked if hit.key not in keys)]


@dataclass(frozen=True)
class _Scale:
    """The scores of one arm, and the raw scores that are scaled to 0 and 1."""

    scores: Mapping[int, float]
    low: float
    high: float
    unknown: float
    expected: Mapping[int, float]
    """Expected scores, which replace some of the scores."""

    @classmethod
    def of(cls, arm: str, scores: Mapping[int, float], expected: Mapping[int, float]) -> "_Scale":
        counted = {**scores, **expected} if expected else scores
        high = 1.0 if arm in WITH_CEILING else max(counted.values())
        if arm in WITH_FLOOR:
            return cls(scores, 0.0, high, 0.0, expected)
        low = min(min(counted.values()), high - TUNING.fusion.min_spread * abs(high))
        scale = cls(scores, low, high, 0.0, expected)
        return replace(scale, unknown=scale.place(median_low(counted.values())))

    def place(self, raw: float) -> float:
        width = self.high - self.low
        return min(1.0, max(0.0, (raw - self.low) / width)) if width > 0 else 0.0

    def placed(self, share: float) -> dict[int, float]:
        """Scale all scores at once, because an arm may have thousands; expected ones are weighted by `share`."""
        low, high, width, middle = self.low, self.high, self.high - self.low, self.unknown
        if width <= 0:
            return dict.fromkeys(self.scores, 0.0)
        # Calls of `place` would cost more than everything else.
        places = {
            key: 0.0 if raw < low else 1.0 if raw > high else (raw - low) / width for key, raw in self._counted.items()
        }
        return places | {key: middle + share * (places[key] - middle) for key in self.expected}

    @property
    def _counted(self) -> Mapping[int, float]:
        return {**self.scores, **self.expected} if self.expected else self.scores

    @cached_property
    def ranks(self) -> Mapping[int, int]:
        """The rank of each key, from 1."""
        return {key: rank for rank, key in enumerate(_best(self._counted, None), start=1)}

    def part(self, key: int) -> ArmScore:
        return ArmScore(self.ranks[key], self.scores[key], self.place(self.expected.get(key, self.scores[key])))


class _Parts(Mapping[str, ArmScore]):
    """The scores of a candidate by arm, computed on demand, because most are never read."""

    __slots__ = ("_key", "_scales")

    def __init__(self, key: int, scales: Mapping[str, _Scale]) -> None:
        self._key = key
        self._scales = scales

    def __getitem__(self, arm: str) -> ArmScore:
        return self._scales[arm].part(self._key)

    def __iter__(self) -> Iterator[str]:
        return (arm for arm, scale in self._scales.items() if self._key in scale.scores)

    def __len__(self) -> int:
        return sum(1 for _ in self)


def _with_more(parts: Mapping[str, ArmScore], more: dict[str, ArmScore]) -> Mapping[str, ArmScore]:
    return ChainMap(more, cast("dict[str, ArmScore]", parts)) if more else parts  # writes only change the first


def _totals(keys: Collection[int], scales: Mapping[str, _Scale], weights: Mapping[str, float]) -> dict[int, float]:
    """Sum the arms: the scores of unknown candidates first, then the difference of each known one."""
    shares = _shares({arm: weights.get(arm, 0.0) for arm in scales})
    totals = dict.fromkeys(keys, sum(share * scales[arm].unknown for arm, share in shares.items()))
    for arm, share in shares.items():
        scale = scales[arm]
        for key, placed in scale.placed(weights.get(QUICK, 1.0)).items():
            totals[key] += share * (placed - scale.unknown)
    return totals


def _shares(weights: Mapping[str, float]) -> dict[str, float]:
    total = sum(weights.values())
    return {arm: weight / total for arm, weight in weights.items()} if total > 0 else {}


def _best(scores: Mapping[int, float], limit: int | None) -> list[int]:
    """Return the keys of the highest scores; ties by ascending key, because sorting is stable."""
    return sorted(sorted(scores), key=scores.__getitem__, reverse=True)[:limit]


def _raised(score: float, others: Sequence[float], share: float) -> float:
    return (score + share * (sum(others) + score * (2 - len(others)))) / (1 + 2 * share)


def _neighbours_part(others: Sequence[float]) -> dict[str, ArmScore]:
    return {NEIGHBOURS: ArmScore(0, sum(others), sum(others) / 2)} if others else {}


_DAY = timedelta(days=1)


def place_share(passage: Passage, text: str) -> float:
    """Return the share of an id, or of the end of an origin, title or heading, that `text` is; 1 for all of it.

    A match that begins inside a word scores half.
    """
    if text and text in {passage.object_id, passage.part}:
        return 1.0
    return name_share(places_of(passage), text)


def name_share(names: Iterable[str], text: str) -> float:
    """Return the share of a name that `text` is, at its end; the best of several names."""
    wanted = text.casefold()
    if len(wanted) < TUNING.question.min_name_end_chars:
        return 0.0
    return max((_share(wanted, name.casefold()) for name in names), default=0.0)


def day_share(passage: Passage, asked: Sequence[AskedDays]) -> float:
    """Return the share of a period in a turn that a question asks for, times its weight; the best of several."""
    shares = (
        days.weight * (min(last, days.last) - max(first, days.first) + _DAY) / (last - first + _DAY)
        for first, last in (days_of(passage) if asked else ())
        for days in asked
    )
    return max((share for share in shares if share > 0), default=0.0)


def _share(wanted: str, name: str) -> float:
    if not name.endswith(wanted):
        return 0.0
    before = name[: -len(wanted)]
    is_inside = bool(before) and before[-1].isalnum() and wanted[0].isalnum()
    return len(wanted) / len(name) / (2 if is_inside else 1)
