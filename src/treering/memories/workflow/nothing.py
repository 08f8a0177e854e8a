"""What nodes say where there is nothing to give. The one table of such texts."""

from collections.abc import Mapping
from typing import Literal

Missing = Literal["memories", "newer_memories", "messages", "summary", "state", "found"]

NOTHING_YET: Mapping[Missing, str] = {
    "memories": "There are no memories of this conversation yet.",
    "newer_memories": "There are no memories newer than the summary.",
    "messages": "Nothing has been said in this conversation yet.",
    "summary": "There is no summary of this conversation yet.",
    "state": "Nothing is noted yet about what is true now.",
    "found": "Nothing was found.",
}


def or_nothing(text: str, missing: Missing) -> str:
    """Return a text, or what stands for it where it is empty."""
    return text if text.strip() else NOTHING_YET[missing]
