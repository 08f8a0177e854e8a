"""What a passage is called, in the form in which an ordered index finds the end of a name."""

from collections.abc import Iterable, Mapping, Sequence

from treering.derived.shares import SHORTEST, name_share
from treering.ports.text import Scored

MOST_CANDIDATES = 2_000
"""Passages with a name that ends as is asked for that are looked at."""

_KEPT_CHARS = 24
_LAST = "\U0010ffff"


def endings_of(names: Iterable[str]) -> set[str]:
    """Return the last characters of names, backwards: "ends with" is a range of them."""
    return {_backwards(name.casefold()) for name in names if name}


def ending_range(text: str) -> tuple[str, str] | None:
    """Return the first and the last ending of names that may end with a text; `None` where it is too short for it."""
    folded = text.casefold()
    if len(folded) < SHORTEST:
        return None
    ending = _backwards(folded)
    return ending, ending + _LAST


def ranked_places(
    text: str, exact: Iterable[int], named: Iterable[tuple[int, Sequence[str]]], limit: int
) -> list[Scored]:
    """Rank passages by how much of what they are called a text is: 1 for the whole of it.

    `exact`: those whose id it is; `named`: others, with what they are called. A piece that begins inside a word
    counts half.
    """
    best: dict[int, float] = dict.fromkeys(exact, 1.0)
    for key, names in named:
        best[key] = max(best.get(key, 0.0), name_share(tuple(names), text))
    return _first(best, limit)


def _first(shares: Mapping[int, float], limit: int) -> list[Scored]:
    ranked = sorted(((key, share) for key, share in shares.items() if share), key=lambda item: (-item[1], item[0]))
    return [Scored(key, share) for key, share in ranked[:limit]]


def _backwards(folded: str) -> str:
    return folded[: -_KEPT_CHARS - 1 : -1]
