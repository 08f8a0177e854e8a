"""Telling moved files by what they say: a folder that is gone, and one where most of its files stand again."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

_Parts = tuple[str, ...]
_Folders = tuple[_Parts, _Parts]
_MOST_ALIKE = 20
"""Files that say the same: more of them, such as empty ones, are no sign of a move."""
_BETWEEN = re.compile("[/#]")


def moved_files(gone: Mapping[str, str], there: Mapping[str, str]) -> dict[str, str]:
    """Return, by the origins of files that are gone, the origins at which they stand now.

    `gone` and `there` give fingerprints by origin. A file stands where one of its name says the same. Where more than
    half of the files that are gone from a folder stand again in another one, under the same paths, the folder has
    moved: then so have its other files, whatever they say now. An empty fingerprint is like no other.
    """
    same = _by_fingerprint(there)
    twins = {origin: list(_twins(origin, fingerprint, same)) for origin, fingerprint in gone.items()}
    votes = Counter(folders for found in twins.values() for folders in {_folders(*pair) for pair in found})
    moves: dict[str, str] = {}
    for origin, found in twins.items():
        best = max(found, key=lambda pair: (votes[_folders(*pair)], pair[1]), default=None)
        if best is not None:
            moves[origin] = best[1]
    return moves | _carried_along(gone, there, moves, votes)


def _by_fingerprint(there: Mapping[str, str]) -> Mapping[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for origin, fingerprint in there.items():
        if fingerprint:
            found[fingerprint].append(origin)
    return {fingerprint: origins for fingerprint, origins in found.items() if len(origins) <= _MOST_ALIKE}


def _twins(origin: str, fingerprint: str, there: Mapping[str, list[str]]) -> Iterator[tuple[str, str]]:
    name = _parts(origin)[-1]
    return ((origin, other) for other in there.get(fingerprint, ()) if _parts(other)[-1] == name)


def _folders(before: str, after: str) -> _Folders:
    """Return what differs of two origins: both without the parts at the end that they share."""
    old, new = _parts(before), _parts(after)
    shared = 0
    while shared < min(len(old), len(new)) - 1 and old[-shared - 1] == new[-shared - 1]:
        shared += 1
    return old[: len(old) - shared], new[: len(new) - shared]


def _carried_along(
    gone: Mapping[str, str], there: Mapping[str, str], moves: Mapping[str, str], votes: Counter[_Folders]
) -> dict[str, str]:
    """Return the files that moved with most of their folder and say something else now."""
    places = {_parts(origin): origin for origin in there}
    carried: dict[str, str] = {}
    for (old, new), count in votes.most_common():
        left = [origin for origin in gone if _parts(origin)[: len(old)] == old and len(_parts(origin)) > len(old)]
        for origin in left if 2 * count > len(left) else ():
            place = places.get(new + _parts(origin)[len(old) :])
            if place is not None and origin not in moves:
                carried.setdefault(origin, place)
    return carried


def _parts(origin: str) -> _Parts:
    return tuple(_BETWEEN.split(origin))
