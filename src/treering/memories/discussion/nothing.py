"""What is said where there is nothing to give. The one table of such texts, and how they are told from words."""

import re
from collections.abc import Mapping
from typing import Literal

Missing = Literal["memories", "newer_memories", "messages", "summary", "state", "found"]

NOTHING_YET: Mapping[Missing, str] = {
    "memories": "No memories have been generated yet",
    "newer_memories": "There are no memories newer than the summary.",
    "messages": "Nothing has been said in this conversation yet.",
    "summary": "There is no summary of this conversation yet.",
    "state": "Nothing is noted yet about what is true now.",
    "found": "Nothing was found.",
}


def or_nothing(text: str, missing: Missing) -> str:
    """Return a text, or what stands for it where it is empty."""
    return text if text.strip() else NOTHING_YET[missing]


def says_nothing(text: str) -> bool:
    """Tell whether a text is empty, or only says that there is nothing yet, as workflows hand it on."""
    said = " ".join(text.split()).rstrip(" .!").casefold()
    return not said or said in _KNOWN or _NOT_YET.fullmatch(said) is not None


_KNOWN = frozenset(text.rstrip(" .").casefold() for text in NOTHING_YET.values())
_NOT_YET = re.compile(
    r"(?:there (?:is|are) )?(?:no|not(?: yet)?(?: an?y?)?)(?: (?:new|newer|recent|current|chat|rolling))*"
    r" (?:memory|memories|summary|summaries)(?: files?)?"
    r"(?: (?:have|has) been (?:generated|made|written|created|found)| found| available)?(?: yet)?"
)
