"""Titles that may contradict each other: one denies the other, or they differ only in numbers."""

import re
from collections.abc import Iterable

from treering.core.canonical import normalise_text
from treering.core.objects import Knowledge

_DENIAL = re.compile(r"\b(?:not?|never|without|cannot)\b|n[’']t\b", re.IGNORECASE)
_DO_NOT = re.compile(r"\b(?:do(?:es)?|did)(?= not\b|n[’']t\b)|\b(?:always|please)\b", re.IGNORECASE)
"""Words that a denial of a title adds or replaces: `Do not use X`, `Always use X`."""
_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")


def denies(text: str) -> bool:
    """Return whether a text denies something."""
    return _DENIAL.search(text) is not None


def plain_words(title: str) -> list[str]:
    """Return the words of a title without its denial."""
    return normalise_text(_DENIAL.sub(" ", _DO_NOT.sub(" ", title))).split()


def contradicting(items: Iterable[Knowledge]) -> dict[str, Knowledge]:
    """Return by id the first other item with the same kind, scope and words, but a denial or other numbers."""
    groups: dict[tuple[object, ...], list[tuple[tuple[bool, list[str]], Knowledge]]] = {}
    for item in items:
        words = plain_words(_NUMBER.sub(" # ", item.title))
        stated = denies(item.title), _NUMBER.findall(item.title)
        groups.setdefault((item.kind, item.scope, *words), []).append((stated, item))
    others: dict[str, Knowledge] = {}
    for group in groups.values():
        for stated, item in group:
            if other := next((one for value, one in group if value != stated), None):
                others[item.id] = other
    return others
