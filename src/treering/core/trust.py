"""How far a text is trusted: by the channel it came through and its status, never by what it says of itself."""

from collections.abc import Mapping
from typing import Literal, cast

from treering.core.objects import Channel

TrustLevel = Literal["high", "medium", "low"]

LEVELS: tuple[TrustLevel, ...] = ("high", "medium", "low")
"""From the most to the least trusted."""

CHANNEL_TRUST: Mapping[Channel, TrustLevel] = {
    "user": "high",
    "system": "high",
    "adapter": "medium",
    "agent": "low",
    "import": "low",
}
"""What a person said; what was read from files somebody named; what a program or a model passes on."""

TRUST_WEIGHTS: Mapping[TrustLevel, float] = {"high": 1.0, "medium": 0.85, "low": 0.7}
"""What a score counts for by trust (`docs/poisoning.md`)."""

_WORDS = frozenset({"title", "summary", "name", "aliases", "payload", "segments", "resolution"})


def trust_of(channel: str, status: str, levels: Mapping[Channel, TrustLevel] = CHANNEL_TRUST) -> TrustLevel:
    """Return the trust in an object: that of its channel, and one level less for a candidate.

    An unknown channel is trusted least.
    """
    place = _place(channel, levels)
    return LEVELS[min(place + (status == "candidate"), len(LEVELS) - 1)]


def less_trusted(one: str, other: str, levels: Mapping[Channel, TrustLevel]) -> bool:
    """Tell whether the channel `one` is trusted less than the channel `other`."""
    return _place(one, levels) > _place(other, levels)


def changes_words(fields: Mapping[str, object]) -> bool:
    """Tell whether changing these fields changes what an object says."""
    return not _WORDS.isdisjoint(fields)


def _place(channel: str, levels: Mapping[Channel, TrustLevel]) -> int:
    # An unknown channel stands in a damaged row: nothing is trusted less.
    return LEVELS.index(levels.get(cast("Channel", channel), LEVELS[-1]))
