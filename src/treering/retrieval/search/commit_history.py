"""Score files by commit history: a question similar to the subject of a commit leads to the files it touched.

The map of a repository contains the subjects of its last commits with the code files they touched
(`repo_map`). Questions are compared with the subjects by BM25, and the score of a commit is divided
among its files. The map also contains files that changed together, such as a changelog and code.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nlargest
from math import sqrt
from threading import Lock
from typing import Any

from treering.core.filters import EVERYTHING
from treering.core.objects import Source
from treering.ports.ledger import ObjectRequest, ObjectsFound
from treering.ports.passages import PassageHead, PassageRequest, PassagesFound, Reach
from treering.ports.search import TextQuery
from treering.retrieval import limits
from treering.retrieval.index.code_names import file_at, history_name
from treering.retrieval.index.rounds import Steps
from treering.retrieval.index.word_table import bm25
from treering.retrieval.text.analysis import index_text
from treering.retrieval.tuning import TUNING

_MAX_REPOSITORIES = 4
_MAX_CACHED = 8
"""Histories cached in a process."""


@dataclass(frozen=True, slots=True)
class CommitHistory:
    """The commits of one repository, with the BM25 weight of each term in each subject."""

    touched: Sequence[tuple[str, ...]]
    """The origins of the files that each commit touched."""
    weights: Mapping[str, Sequence[tuple[int, float]]]
    companions: Mapping[str, Mapping[str, int]]
    """By origin of a code file, the paths of other files that changed with it, and the number of commits."""

    @classmethod
    def of(cls, root: str, payload: Mapping[str, Any]) -> "CommitHistory":
        """Read the commits from the map of a repository; `root` is the part of origins before the path."""
        subjects = payload.get("commit_subjects", {})
        origins = [f"{root}{path}" for path in subjects.get("paths", ())]
        commits = [(Counter(index_text(subject).split()), at) for subject, *at in subjects.get("commits", ())]
        touched = [tuple(origins[place] for place in at) for _, at in commits]
        weights = bm25([terms for terms, _ in commits])
        return cls(touched, weights, _companions(root, payload.get("changed_together", {})))

    def files(self, terms: Sequence[str]) -> dict[str, float]:
        """Score files by origin for the terms of a question; a repeated term counts twice."""
        commits: dict[int, float] = {}
        for term in terms:
            for number, weight in self.weights.get(term, ()):
                commits[number] = commits.get(number, 0.0) + weight
        files: dict[str, float] = {}
        for number in nlargest(limits.MAX_COMMITS, commits, key=lambda one: (commits[one], -one)):
            touched = self.touched[number]
            share = commits[number] / sqrt(len(touched))
            for origin in touched:
                files[origin] = files.get(origin, 0.0) + share
        return files


def files_by_commits(query: TextQuery, reach: Reach) -> Steps[dict[str, float]]:
    """Score files by origin, from 0 to 1, by the commits in reach; empty in reads of the past."""
    histories = yield from histories_in(reach)
    terms = (*query.words, *query.emphasis)
    return against_the_first({origin: score for one in histories for origin, score in one.files(terms).items()})


def against_the_first(scores: Mapping[str, float]) -> dict[str, float]:
    """Scale scores to 0..1, relative to the mean of the first few.

    Relative to the best alone, one file that many commits touched would leave next to nothing for the others.
    """
    first = nlargest(TUNING.commits.full_score_files, scores.values())
    return {origin: min(1.0, score * len(first) / sum(first)) for origin, score in scores.items()}


def histories_in(reach: Reach) -> Steps[list[CommitHistory]]:
    """Read the histories of the first repositories in reach; none in reads of the past."""
    if reach.at is not None or reach.withdrawn:
        return []
    name = history_name()
    found: PassagesFound = yield PassageRequest((), replace(reach, where=EVERYTHING), named=(name,))
    maps = [found.heads[key] for key in found.named.get(name, ()) if key in found.heads][:_MAX_REPOSITORIES]
    return (yield from _histories(maps))


def companions_of(origins: Sequence[str], histories: Sequence[CommitHistory]) -> list[tuple[str, int]]:
    """Return the paths of other files that changed most often with code files, and the number of commits."""
    counts: Counter[str] = Counter()
    for history in histories:
        for origin in origins:
            counts.update(history.companions.get(origin, {}))
    return [(path, commits) for path, commits in counts.most_common() if commits >= TUNING.commits.min_together]


def _companions(root: str, changed_together: Mapping[str, Any]) -> dict[str, dict[str, int]]:
    paths = changed_together.get("paths", ())
    code = [file_at(path) is not None for path in paths]
    companions: dict[str, dict[str, int]] = {}
    for one, other, commits, *_ in changed_together.get("pairs", ()):
        if code[one] != code[other]:
            file, companion = (one, other) if code[one] else (other, one)
            companions.setdefault(f"{root}{paths[file]}", {})[paths[companion]] = commits
    return companions


_cache: dict[tuple[str, str], CommitHistory] = {}
"""Histories by the id of a map and its segment, whose text never changes."""

_cache_lock = Lock()


def _histories(maps: Sequence[PassageHead]) -> Steps[list[CommitHistory]]:
    """Return the histories of maps from the cache or the ledger."""
    ready = {one.object_id: history for one in maps if (history := _cache.get((one.object_id, one.part)))}
    if unread := tuple(one.object_id for one in maps if one.object_id not in ready):
        read: ObjectsFound = yield ObjectRequest(objects=unread)
        for item in read.objects.values():
            if isinstance(item, Source) and item.segments and item.id in unread:
                ready[item.id] = CommitHistory.of(f"{item.origin}#", item.payload)
                _add_to_cache((item.id, item.segments[0].segment_id), ready[item.id])
    return list(ready.values())


def _add_to_cache(place: tuple[str, str], history: CommitHistory) -> None:
    with _cache_lock:
        if len(_cache) >= _MAX_CACHED:
            del _cache[next(iter(_cache))]
        _cache[place] = history
