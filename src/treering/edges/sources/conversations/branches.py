"""Conversations that fork: where an answer was made anew or a question edited, one way is the current one."""

from collections.abc import Iterable, Mapping

BRANCHES = "message(s) on branches that are not the current one were left out"
"""What a conversation's notes say of the ways not taken."""


def way_to(leaf: str, parents: Mapping[str, str]) -> list[str]:
    """Return the nodes from the root to `leaf`; a circle ends where it closes."""
    way: dict[str, None] = {}
    node = leaf
    while node in parents and node not in way:
        way[node] = None
        node = parents[node]
    return list(reversed(way))


def leaves(parents: Mapping[str, str]) -> Iterable[str]:
    """Return the nodes nothing answers."""
    answered = set(parents.values())
    return [node for node in parents if node not in answered]
