"""Statistics of the commits of a repository: files that change often, files that change together, telling subjects."""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import combinations

from treering.extensions.code.repository.git_objects import CommitFiles

_MAX_FILES = 30
"""Larger commits, such as moves and reformatting, say nothing about relations between their files."""
_MIN_TOGETHER = 2
_MAX_PARTNERS = 8
_MAX_PAIRS = 2_000


@dataclass(frozen=True, slots=True)
class PathHistory:
    """The number of changes of a path in the examined commits, the time of the last one, and the number of authors."""

    path: str
    changes: int
    last_changed: datetime
    authors: int


@dataclass(frozen=True, slots=True)
class ChangedTogether:
    """Two paths touched by the same commits: the number of these commits, and the time of the last one."""

    one: str
    other: str
    commits: int
    last_changed: datetime


def often_changed(commits: Sequence[CommitFiles]) -> list[PathHistory]:
    """Return the history of each path, most often changed first."""
    times: dict[str, list[datetime]] = defaultdict(list)
    authors: dict[str, set[bytes]] = defaultdict(set)
    for commit in commits:
        for path in commit.paths:
            times[path].append(commit.when)
            authors[path].add(commit.author)
    histories = [PathHistory(path, len(dates), max(dates), len(authors[path])) for path, dates in times.items()]
    return sorted(histories, key=lambda one: (-one.changes, one.path))


def changed_together(commits: Sequence[CommitFiles], present: Collection[str]) -> list[ChangedTogether]:
    """Return the pairs of present paths that changed together more than once, most often and latest first.

    At most eight partners per path, and 2,000 pairs in total. Commits that touched very many files are ignored.
    """
    counts: Counter[tuple[str, str]] = Counter()
    last: dict[tuple[str, str], datetime] = {}
    for commit in commits:
        if len(commit.paths) <= _MAX_FILES:
            for pair in combinations(sorted(set(commit.paths)), 2):
                counts[pair] += 1
                last[pair] = max(last.get(pair, commit.when), commit.when)
    pairs = [
        ChangedTogether(*pair, count, last[pair])
        for pair, count in counts.items()
        if count >= _MIN_TOGETHER and pair[0] in present and pair[1] in present
    ]
    pairs.sort(key=lambda one: (-one.commits, -one.last_changed.timestamp(), one.one, one.other))
    return list(_few_each(pairs))[:_MAX_PAIRS]


def telling_commits(commits: Sequence[CommitFiles], present: Collection[str]) -> list[CommitFiles]:
    """Return the commits with a subject that touched some of the present paths, with only these paths.

    Commits that touched very many files are ignored, because they describe none of them.
    """
    described = (
        replace(commit, paths=tuple(path for path in dict.fromkeys(commit.paths) if path in present))
        for commit in commits
        if commit.subject.strip() and len(commit.paths) <= _MAX_FILES
    )
    return [commit for commit in described if commit.paths]


def _few_each(pairs: Sequence[ChangedTogether]) -> Iterator[ChangedTogether]:
    counts: Counter[str] = Counter()
    for pair in pairs:
        if min(counts[pair.one], counts[pair.other]) < _MAX_PARTNERS:
            counts.update((pair.one, pair.other))
            yield pair
