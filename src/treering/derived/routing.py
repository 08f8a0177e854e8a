"""What kind of question is asked, and so which arms serve it."""

import re
from collections.abc import Mapping
from typing import Literal

from treering.derived.fusion import PLACES

Route = Literal["lookup", "comparison", "question"]

_COMPARES = re.compile(
    r"\b(?:both|either|same|common|or|which (?:of|one))\b"
    r"|\b(?:more|less|\w+er)\b.*\b(?:and|than)\b"
    r"|^(?:are|is|were|was|do|does|did|have|has|can)\b.*\band\b",
    re.IGNORECASE,
)
_LOOKUP_WORDS = 2


def route(text: str, arms: Mapping[str, Mapping[int, float]]) -> Route:
    """Tell a lookup (an id, a path, a title, or a word or two), a comparison ("which of A and B …"), or neither.

    A lookup is served by what it names; a walk would only lead away. A comparison names all it needs, so nothing
    has to be bridged, provided that it names two things that are known.
    """
    if arms.get(PLACES) or len(text.split()) <= _LOOKUP_WORDS:
        return "lookup"
    return "comparison" if _COMPARES.search(text) else "question"
