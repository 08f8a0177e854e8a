"""How far a text is trusted: by the channel it came through and its status, never by what it says of itself."""

from collections.abc import Mapping
from typing import Literal

TrustLevel = Literal["high", "medium", "low"]

LEVELS: tuple[TrustLevel, ...] = ("high", "medium", "low")
"""From the most to the least trusted."""

CHANNEL_TRUST: Mapping[str, TrustLevel] = {
    "user": "high",
    "system": "high",
    "adapter": "medium",
    "agent": "low",
    "import": "low",
}
"""What a person said; what was read from files somebody named; what a program or a model passes on."""

TRUST_WEIGHTS: Mapping[TrustLevel, float] = {"high": 1.0, "medium": 0.9, "low": 0.8}
"""What a score counts for by trust (`docs/poisoning.md`)."""

_WORDS = frozenset({"title", "summary", "name", "aliases", "payload", "segments", "resolution"})


def trust_of(channel: str, status: str, levels: Mapping[str, TrustLevel] = CHANNEL_TRUST) -> TrustLevel:
    """Return the trust in an object: that of its channel, and one level less for a candidate."""
    place = LEVELS.index(levels[channel])
    return LEVELS[min(place + (status == "candidate"), len(LEVELS) - 1)]


def less_trusted(one: str, other: str, levels: Mapping[str, TrustLevel]) -> bool:
    """Tell whether the channel `one` is trusted less than the channel `other`."""
    return LEVELS.index(levels[one]) > LEVELS.index(levels[other])


def changes_words(fields: Mapping[str, object]) -> bool:
    """Tell whether changing these fields changes what an object says."""
    return not _WORDS.isdisjoint(fields)
