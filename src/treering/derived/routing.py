"""What kind of question is asked, and so which arms serve it."""

import re
from collections.abc import Mapping
from typing import Literal

from treering.derived.fusion import PLACES

Route = Literal["lookup", "comparison", "question"]

_COMPARING = re.compile(r"\b(?:both|either|same|common|or|which (?:of|one))\b", re.IGNORECASE)
_YES_OR_NO = re.compile(r"(?:are|is|were|was|do|does|did|have|has|can)\b", re.IGNORECASE)
_DEGREE = re.compile(r"\b(?:more|less|\w+er)\b", re.IGNORECASE)
_AND = re.compile(r"\band\b", re.IGNORECASE)
_JOINED = re.compile(r"\b(?:and|than)\b", re.IGNORECASE)
_LOOKUP_WORDS = 2


def route(text: str, arms: Mapping[str, Mapping[int, float]]) -> Route:
    """Tell a lookup (an id, a path, a title, or a word or two), a comparison ("which of A and B …"), or neither.

    A lookup is served by what it names; a walk would only lead away. A comparison names all it needs, so nothing
    has to be bridged, provided that it names two things that are known.
    """
    if arms.get(PLACES) or len(text.split()) <= _LOOKUP_WORDS:
        return "lookup"
    return "comparison" if _compares(text) else "question"


def _compares(text: str) -> bool:
    """Tell whether two things are compared: "both", "is A older than B", "are A and B".

    In steps: one pattern of the form "a word, anything, another word" takes the square of a long line.
    """
    lines = text.split("\n")
    return bool(
        _COMPARING.search(text)
        or (_YES_OR_NO.match(lines[0]) and _AND.search(lines[0]))
        or any((degree := _DEGREE.search(line)) and _JOINED.search(line, degree.end()) for line in lines)
    )
