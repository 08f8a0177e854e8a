"""Which words of a passage are words of the question."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from treering.derived.analysis import content_words, index_text, stem

_WORD = re.compile(r"\w+")


@dataclass(frozen=True, slots=True)
class MarkedText:
    """A stretch of a text, and whether it is a word of the question."""

    text: str
    sought: bool


def marked(text: str, question: str) -> list[MarkedText]:
    """Split a text into stretches; words with the stem of a word of the question are marked.

    So are names that are made of such words: `readForm` and `read_form` where somebody asks for forms.
    """
    return list(_joined(text, {stem(word) for word in content_words(question)}))


def words_of(question: str, text: str) -> list[str]:
    """Return the words of a text that are words of the question, as the text writes them, each once."""
    found: dict[str, str] = {}
    for stretch in marked(text, question):
        if stretch.sought:
            found.setdefault(stretch.text.casefold(), stretch.text)
    return list(found.values())


def _joined(text: str, sought: set[str]) -> Iterator[MarkedText]:
    done = 0
    for found in _WORD.finditer(text):
        if _is_sought(found[0], sought):
            if found.start() > done:
                yield MarkedText(text[done : found.start()], sought=False)
            yield MarkedText(found[0], sought=True)
            done = found.end()
    if done < len(text):
        yield MarkedText(text[done:], sought=False)


def _is_sought(word: str, sought: set[str]) -> bool:
    plain = word.casefold()
    if stem(plain) in sought:
        return True
    is_made_of_words = word.isascii() and (plain != word[:1].lower() + word[1:] or "_" in word)
    return is_made_of_words and not sought.isdisjoint(index_text(word).split())
