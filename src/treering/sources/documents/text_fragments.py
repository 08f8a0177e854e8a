"""Links to a passage of a page: text fragments, which browsers scroll to (WICG, "URL Fragment Text Directives")."""

import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from urllib.parse import quote

_WORDS = (4, 8, 16)
"""So many words name the beginning or the end of a passage: the fewest that are found there first."""
_SHORT = 12
"""A passage of so many words is named whole."""
_PREFIX_WORDS = 4
_LONGEST_PART = 200
MOST_SHOWN = 500_000
"""Of a page with more characters no passage is looked for."""


def text_directive(start: str, end: str = "", *, prefix: str = "") -> str:
    """Return the fragment of an address that leads to a text, from `start` to `end`, after `prefix`."""
    parts = [f"{_encoded(prefix)}-" if prefix else "", _encoded(start), _encoded(end)]
    return f"#:~:text={','.join(part for part in parts if part)}"


class ShownPage:
    """What a browser shows of a page, in which passages are looked for. `shown` has a line for each stretch of text.

    The beginning or the end that a link names stands within a line. Like browsers, it ignores case and accents.
    """

    def __init__(self, shown: str) -> None:
        self._words: list[str] = []
        self._line_of: list[int] = []
        self._places: list[int] = []
        """Where each word begins in `_text`."""
        place, folded = 1, list[str]()
        for number, line in enumerate(shown.split("\n") if len(shown) <= MOST_SHOWN else []):
            for word in line.split():
                folded.append(_folded(word))
                self._words.append(word)
                self._line_of.append(number)
                self._places.append(place)
                place += len(folded[-1]) + 1
        self._text = f" {' '.join(folded)} "

    def fragment(self, passage: str) -> str:
        """Return the fragment that leads to a passage; empty where it does not stand on the page once, in one piece."""
        words = passage.split()
        for tried in (words, [word for word in words if word != "|"]):  # which stands between the cells of a table
            if (span := self._span(tried)) is not None:
                return self._directive(*span)
        return ""

    def _span(self, words: Sequence[str]) -> tuple[int, int] | None:
        """Return the numbers of the first word and of the one after the last."""
        whole = _folded(" ".join(words))
        at = self._text.find(f" {whole} ") if whole else -1
        if at < 0 or self._text.find(whole, at + 2) >= 0:
            return None
        first = bisect_left(self._places, at + 1)
        return first, bisect_left(self._places, at + 1 + len(whole))

    def _directive(self, first: int, last: int) -> str:
        starts, ends = self._edges(first, last)
        for prefix in ("", self._before(first)):
            for start in starts:
                if self._begins(prefix, start, first):
                    end = next((one for one in ends if self._ends(one, start, first, last)), None)
                    return "" if end is None else text_directive(start, end, prefix=prefix)
        return ""

    def _edges(self, first: int, last: int) -> tuple[list[str], list[str]]:
        """Return what may name the beginning and the end of a passage, the shortest first."""
        one_line = self._line_of[first] == self._line_of[last - 1]
        whole = " ".join(self._words[first:last])
        if one_line and last - first <= _SHORT and len(whole) <= _LONGEST_PART:
            return [whole], [""]
        first_line = bisect_right(self._line_of, self._line_of[first]) - first
        last_line = last - bisect_left(self._line_of, self._line_of[last - 1])
        half = (last - first) // 2  # of one line its beginning and its end may not meet
        starts = (" ".join(self._words[first : first + count]) for count in _counts(half if one_line else first_line))
        ends = (" ".join(self._words[last - count : last]) for count in _counts(half if one_line else last_line))
        return [one for one in starts if len(one) <= _LONGEST_PART], [one for one in ends if len(one) <= _LONGEST_PART]

    def _before(self, first: int) -> str:
        """Return the last words before a word: of its line, or of the line above."""
        if not first:
            return ""
        line = bisect_left(self._line_of, self._line_of[first - 1])
        return " ".join(self._words[max(line, first - _PREFIX_WORDS) : first])

    def _begins(self, prefix: str, start: str, first: int) -> bool:
        """Tell whether the first `start` after `prefix` is the one meant."""
        before = f"{_folded(prefix)} " if prefix else ""
        found = self._text.find(before + _folded(start))
        return len(prefix) <= _LONGEST_PART and found == self._places[first] - len(before)

    def _ends(self, end: str, start: str, first: int, last: int) -> bool:
        """Tell whether the first `end` after the beginning is the one meant."""
        if not end:
            return True
        folded = _folded(end)
        stop = self._places[last - 1] + len(_folded(self._words[last - 1]))
        return self._text.find(folded, self._places[first] + len(_folded(start))) == stop - len(folded)


def _counts(most: int) -> list[int]:
    return sorted({min(count, most) for count in _WORDS if most})


def _encoded(text: str) -> str:
    """Percent-encode a text, with the characters that mean something in a directive."""
    return quote(text, safe="").replace("-", "%2D")


def _folded(text: str) -> str:
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(char for char in decomposed if not unicodedata.combining(char)).casefold()
