"""Comparing the passages that there are with those that a rebuild would make."""

from collections.abc import Iterator, Mapping

MOST_NAMED = 20
"""Differences that are told."""

Place = tuple[str, str, int]
"""Object, part and first sequence number: what a row is, whatever its key."""

NOWHERE: Place = ("", "", 0)
"""The place of entries that belong to no passage."""


def compared(wanted: Mapping[Place, int], actual: Mapping[Place, int]) -> Iterator[str]:
    """Say where hashes of rows differ, by what the rows are."""
    for place in sorted(wanted.keys() | actual.keys()):
        identity, part, seq = place
        name = " ".join(filter(None, (identity, part))) or "entries of no passage"
        if place not in actual:
            yield f"{name} (from {seq}) is missing"
        elif place not in wanted:
            yield f"{name} (from {seq}) should not be there"
        elif wanted[place] != actual[place]:
            yield f"{name} (from {seq}) is not what the ledger says"
