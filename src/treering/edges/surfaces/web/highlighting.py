"""Which words of a passage are words of the question."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from treering.derived.analysis import content_words, stem

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A stretch of a text, and whether it is a word of the question."""

    text: str
    sought: bool


def marked(text: str, question: str) -> list[MarkedText]:
    """Split a text into stretches; words with the stem of a word of the question are marked."""
    sought = {stem(word) for word in content_words(question)}
    return list(_joined(text, sought))


def _joined(text: str, sought: set[str]) -> Iterator[MarkedText]:
    done = 0
    for found in _WORD.finditer(text):
        if stem(found[0].casefold()) in sought:
            if found.start() > done:
                yield MarkedText(text[done : found.start()], sought=False)
            yield MarkedText(found[0], sought=True)
            done = found.end()
    if done < len(text):
        yield MarkedText(text[done:], sought=False)
