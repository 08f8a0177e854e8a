"""What commits say of files: a question that reads like the subject of a commit leads to the files it touched.

The map of a repository keeps the subjects of its last commits with the files of code that they touched
(`repo_map`). A question is compared with the subjects by BM25; a file counts for what the commits
nearest to the question say, each shared out among the files it touched. It also keeps which files changed together:
what is no code and changed with files of code, such as a changelog, is named beside them.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from math import log, sqrt
from threading import Lock
from typing import Any

from treering.core.filters import EVERYTHING
from treering.core.objects import Source
from treering.ports.ledger import ObjectRequest, ObjectsFound
from treering.ports.passages import PassageHead, PassageRequest, PassagesFound, Reach
from treering.ports.search import TextQuery
from treering.retrieval.index.code_names import file_at, history_name
from treering.retrieval.index.rounds import Steps
from treering.retrieval.text.analysis import index_text
from treering.retrieval.tuning import TUNING

_MOST_REPOSITORIES = 4
_KEPT = 8
"""Histories kept ready in a process."""


@dataclass(frozen=True, slots=True)
class CommitHistory:
    """Commits of one repository, ready to be compared: by term, in which subjects it stands, and its weight there."""

    touched: Sequence[tuple[str, ...]]
    """By commit, the origins of the files that it touched."""
    weights: Mapping[str, Sequence[tuple[int, float]]]
    companions: Mapping[str, Mapping[str, int]]
    """By origin of a file of code, paths of what is no code and changed with it: in how many commits."""

    @classmethod
    def of(cls, root: str, payload: Mapping[str, Any]) -> "CommitHistory":
        """Read what the map of a repository tells of its commits; `root` is what origins say before the path."""
        told = payload.get("commit_subjects", {})
        origins = [f"{root}{path}" for path in told.get("paths", ())]
        commits = [(Counter(index_text(subject).split()), at) for subject, *at in told.get("commits", ())]
        usual = sum(terms.total() for terms, _ in commits) / max(1, len(commits))
        k1, b = TUNING.commits.k1, TUNING.commits.b
        found: dict[str, list[tuple[int, float]]] = {}
        for number, (terms, _) in enumerate(commits):
            norm = k1 * (1 - b + b * terms.total() / usual) if usual else k1
            for term, times in terms.items():
                found.setdefault(term, []).append((number, times * (k1 + 1) / (times + norm)))
        weights = {term: _by_rarity(postings, len(commits)) for term, postings in found.items()}
        touched = [tuple(origins[place] for place in at) for _, at in commits]
        return cls(touched, weights, _companions(root, payload.get("changed_together", {})))

    def files(self, terms: Sequence[str]) -> dict[str, float]:
        """Score files by origin for the terms of a question; a term that is given twice counts twice."""
        commits: dict[int, float] = {}
        for term in terms:
            for number, weight in self.weights.get(term, ()):
                commits[number] = commits.get(number, 0.0) + weight
        files: dict[str, float] = {}
        for number in nlargest(TUNING.commits.nearest, commits, key=lambda one: (commits[one], -one)):
            touched = self.touched[number]
            share = commits[number] / sqrt(len(touched))
            for origin in touched:
                files[origin] = files.get(origin, 0.0) + share
        return files


def files_by_commits(query: TextQuery, reach: Reach) -> Steps[dict[str, float]]:
    """Score files by origin, from 0 to 1, by what commits in reach say of them. Of the past nothing is told."""
    histories = yield from histories_in(reach)
    terms = (*query.words, *query.emphasis)
    return against_the_first({origin: score for one in histories for origin, score in one.files(terms).items()})


def against_the_first(scores: Mapping[str, float]) -> dict[str, float]:
    """Bring scores to 0..1, where the mean of the first few counts as all.

    Against the best alone, one file that many commits touched would leave all others next to nothing.
    """
    first = nlargest(TUNING.commits.full_score_files, scores.values())
    return {origin: min(1.0, score * len(first) / sum(first)) for origin, score in scores.items()}


def histories_in(reach: Reach) -> Steps[list[CommitHistory]]:
    """Read the histories of the repositories in reach, the first few; none of the past."""
    if reach.at is not None or reach.withdrawn:
        return []
    name = history_name()
    found: PassagesFound = yield PassageRequest((), replace(reach, where=EVERYTHING), named=(name,))
    maps = [found.heads[key] for key in found.named.get(name, ()) if key in found.heads][:_MOST_REPOSITORIES]
    return (yield from _histories(maps))


def companions_of(origins: Sequence[str], histories: Sequence[CommitHistory]) -> list[tuple[str, int]]:
    """Return what is no code and changed most often with files of code, as its path and in how many commits."""
    counts: Counter[str] = Counter()
    for history in histories:
        for origin in origins:
            counts.update(history.companions.get(origin, {}))
    return [(path, commits) for path, commits in counts.most_common() if commits >= TUNING.commits.min_together]


def _companions(root: str, told: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    paths = told.get("paths", ())
    code = [file_at(path) is not None for path in paths]
    found: dict[str, dict[str, int]] = {}
    for one, other, commits, *_ in told.get("pairs", ()):
        if code[one] != code[other]:
            file, beside = (one, other) if code[one] else (other, one)
            found.setdefault(f"{root}{paths[file]}", {})[paths[beside]] = commits
    return found


def _by_rarity(postings: Sequence[tuple[int, float]], commits: int) -> list[tuple[int, float]]:
    rarity = log(1 + (commits - len(postings) + 0.5) / (len(postings) + 0.5))
    return [(number, weight * rarity) for number, weight in postings]


# Histories that were read, by the map and the segment of it that names its commit: a segment names one text for ever.


_ready: dict[tuple[str, str], CommitHistory] = {}
_changing = Lock()


def _histories(maps: Sequence[PassageHead]) -> Steps[list[CommitHistory]]:
    """Return the histories that maps tell, as they were read before, or from the ledger."""
    ready = {one.object_id: found for one in maps if (found := _ready.get((one.object_id, one.part)))}
    if unread := tuple(one.object_id for one in maps if one.object_id not in ready):
        read: ObjectsFound = yield ObjectRequest(objects=unread)
        for item in read.objects.values():
            if isinstance(item, Source) and item.segments and item.id in unread:
                ready[item.id] = CommitHistory.of(f"{item.origin}#", item.payload)
                _keep((item.id, item.segments[0].segment_id), ready[item.id])
    return list(ready.values())


def _keep(place: tuple[str, str], history: CommitHistory) -> None:
    with _changing:
        if len(_ready) >= _KEPT:
            del _ready[next(iter(_ready))]
        _ready[place] = history
