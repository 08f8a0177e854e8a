"""Ranking passages of a repository by the files they stand in: what a file is for, and all it says of the matter.

Passages of one file support each other: the file that answers says it in several places, and a passage that only
shares the words stands alone (`docs/decisions`).
"""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from treering.ports.passages import PassageHead
from treering.retrieval.index.code_places import NO_PLACE, role_weights
from treering.retrieval.search.fusion import PLACES, ArmScore, Fused
from treering.retrieval.search.question import title_of

FILE = "file"
MENTIONED = "mentioned"
ROLE = "role"

FILE_SHARE = 1.0
"""What the whole file counts for, against 1 for the passage itself."""

MENTIONED_SHARE = 0.2
"""What it counts for that the question names the file."""

SUPPORTING = 5
"""Passages of a file that count for it; each counts `FADING` of the one before."""

FADING = 0.5

_MOST_PLACES = 50
_PATH = re.compile(
    r"(?:[\w.~-]{1,80}[/\\]){1,20}[\w-]{1,80}\.[A-Za-z]{1,5}\b|\b[\w-]{1,80}\.(?:py|[jt]sx?|rs|go|java|cpp|rb)\b"
)
_DOTTED = re.compile(r"\b[A-Za-z_]\w{0,80}(?:\.[A-Za-z_]\w{0,80}){1,8}")
_INDEX_FILES = frozenset({"__init__", "index", "mod"})


def rank_in_files(
    ranked: Sequence[Fused],
    heads: Mapping[int, PassageHead],
    said: Mapping[int, float],
    question: str,
    *,
    limit: int | None = None,
) -> list[Fused]:
    """Rank passages again, each by its own score, by its file's, by the role of its place, and by being named.

    `said` tells how well each passage answers by what it says, which adds up for its file. The parts say what
    counted: `role` (the factor of the place), `file` (what the file says, against the best file) and `mentioned`.
    Scores stay between 0 and 1.
    """
    weights = role_weights(title_of(question))
    placed = [_Placed.of(hit, heads[hit.key], weights) for hit in ranked if hit.key in heads]
    files = _evidence(placed, said)
    named = _named(
        question, {one.head.object_id: path_of(one.head) for one in placed if one.head.place_role != NO_PLACE}
    )
    best = max((one.own for one in placed), default=0.0) or 1.0
    whole = 1 + FILE_SHARE + MENTIONED_SHARE

    def score(one: _Placed) -> float:
        mention = one.weight * named.get(one.head.object_id, 0.0)
        return (one.own / best + FILE_SHARE * files[one.whole] + MENTIONED_SHARE * mention) / whole

    ordered = sorted(((score(one), one) for one in placed), key=lambda pair: (-pair[0], pair[1].hit.key))[:limit]
    return [
        replace(one.hit, score=of, parts={**one.hit.parts, **_parts(one, files[one.whole], named)})
        for of, one in ordered
    ]


def path_of(head: PassageHead) -> str:
    """Return the path of a passage's file in its project."""
    return head.origin.partition("#")[2] or head.title


def places_named(text: str) -> list[tuple[str, ...]]:
    """Return the paths and dotted names in a text as their parts, without the endings of files."""
    paths = [tuple(filter(None, re.split(r"[/\\]", found))) for found in _PATH.findall(text)[:_MOST_PLACES]]
    named = [(*path[:-1], path[-1].rpartition(".")[0]) for path in paths if path]
    dotted = [tuple(found.split(".")) for found in _DOTTED.findall(text)[:_MOST_PLACES]]
    return list(dict.fromkeys((*named, *dotted)))


@dataclass(frozen=True, slots=True)
class _Placed:
    """A candidate with the weight of its place, and its score by that."""

    hit: Fused
    head: PassageHead
    weight: float
    own: float

    @property
    def whole(self) -> str:
        """What it is a part of; what is not a file stands for itself: turns of a conversation speak of many things."""
        return self.head.object_id if self.head.place_role != NO_PLACE else str(self.hit.key)

    @classmethod
    def of(cls, hit: Fused, head: PassageHead, weights: Mapping[str, float]) -> "_Placed":
        # What the question calls by its path or title is asked for, whatever it is.
        weight = 1.0 if PLACES in hit.parts else weights.get(head.place_role, 1.0)
        return cls(hit, head, weight, hit.score * weight)


def _evidence(placed: Iterable[_Placed], said: Mapping[int, float]) -> dict[str, float]:
    """Return, by file, what its best passages say together, against the file that says most."""
    by_file: dict[str, list[float]] = {}
    for one in placed:
        by_file.setdefault(one.whole, []).append(one.weight * said.get(one.hit.key, 0.0))
    totals = {
        identity: sum(score * FADING**place for place, score in enumerate(sorted(scores, reverse=True)[:SUPPORTING]))
        for identity, scores in by_file.items()
    }
    most = max(totals.values(), default=0.0) or 1.0
    return {identity: total / most for identity, total in totals.items()}


def _named(question: str, paths: Mapping[str, str]) -> dict[str, float]:
    """Tell which files a question names: by two parts of their path, or half as surely by their name alone."""
    places = places_named(question)
    neighbours = {pair for place in places for pair in pairwise(place)}
    alone = {place[0] for place in places if len(place) == 1} - _INDEX_FILES
    named = {identity: _likeness(path, neighbours, alone) for identity, path in paths.items()} if places else {}
    return {identity: share for identity, share in named.items() if share}


def _likeness(path: str, neighbours: Collection[tuple[str, str]], alone: Collection[str]) -> float:
    parts = path.split("/")
    module = [*parts[:-1], parts[-1].rpartition(".")[0] or parts[-1]]
    ends = [tuple(module[-2:]), *([tuple(module[-3:-1])] if module[-1] in _INDEX_FILES else [])]
    if any(end in neighbours for end in ends):
        return 1.0
    return 0.5 if module[-1] in alone else 0.0


def _parts(one: _Placed, file: float, named: Mapping[str, float]) -> dict[str, ArmScore]:
    parts = {FILE: ArmScore(0, file, file)}
    if one.weight != 1:
        parts[ROLE] = ArmScore(0, one.weight, one.weight)
    if mention := named.get(one.head.object_id):
        parts[MENTIONED] = ArmScore(0, mention, mention)
    return parts
