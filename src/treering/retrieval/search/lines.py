"""The lines of a passage that answer a query, for people and models who see only a few of them."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from treering.retrieval.text.analysis import telling_terms

MAX_SHOWN_LINES = 6
_MAX_LINES = 400
"""Lines of a passage that are compared with a query; the rest of a longer one is not."""


@dataclass(frozen=True, slots=True)
class AnsweringLines:
    """Indexes of lines of a text, in order: those to show, and those among them that have words of the query."""

    shown: tuple[int, ...]
    matched: frozenset[int]


def answering_lines(text: str, query: str, *, most: int = MAX_SHOWN_LINES) -> AnsweringLines:
    """Choose the lines of a text that answer a query: first the fewest with all of its words, then lines next to them.

    A word counts the less the more lines have it. The first lines are shown if none has a word of the query.
    """
    lines = text.split("\n")[:_MAX_LINES]
    asked = frozenset(telling_terms(query))
    held = [asked.intersection(telling_terms(line)) if line.strip() else frozenset[str]() for line in lines]
    matched = _covering(held, most)
    shown = list(matched) or [place for place, line in enumerate(lines) if line.strip()][:1]
    for place in _beside(shown, lines):
        if len(shown) >= min(most, len(lines)):
            break
        shown.append(place)
    return AnsweringLines(tuple(sorted(shown)), frozenset(matched))


def _covering(held: Sequence[frozenset[str]], most: int) -> list[int]:
    """Return the lines that together have most of the words, each the one that adds most to those before it."""
    counts = Counter(word for words in held for word in words)
    left = {place: words for place, words in enumerate(held) if words}
    chosen: list[int] = []
    seen: frozenset[str] = frozenset()
    while left and len(chosen) < most:
        # All words of the line break ties between lines that add the same new ones.
        gain = {
            place: (sum(1 / counts[word] for word in words - seen), sum(1 / counts[word] for word in words))
            for place, words in left.items()
        }
        best = max(gain, key=lambda place: (gain[place], -place))
        if not gain[best][0] and chosen:
            break
        chosen.append(best)
        seen |= left.pop(best)
    return chosen


def _beside(chosen: Sequence[int], lines: Sequence[str]) -> list[int]:
    """Return the lines below and above the chosen ones that say something, those nearest to the best one first."""
    found: dict[int, None] = {}
    for distance in range(1, MAX_SHOWN_LINES):
        for place in chosen:
            for near in (place + distance, place - distance):
                if 0 <= near < len(lines) and lines[near].strip() and near not in chosen:
                    found.setdefault(near)
    return list(found)
