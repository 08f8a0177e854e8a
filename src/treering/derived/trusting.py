"""What trust and repetition of the question count for in a ranking.

Whoever can add one text can make it match a question best: the question, word for word, and then whatever they
want to be believed (PoisonedRAG, Zou et al. 2024). How well a text matches therefore says nothing of whether it is
true. What the reader can rely on is the channel it came through.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from math import ceil

from treering.core.injection import as_a_model_reads
from treering.core.policy import Policy
from treering.core.trust import TrustLevel, trust_of
from treering.derived.analysis import content_words

REPEATING_WEIGHT = 0.3
"""What the score of a less trusted text counts for that repeats the question."""

_LEAST_WORDS = 4
_REPEATED_AT = 0.8
_MOST_WORDS = 64
_LONGEST = 2_000  # characters


@dataclass(frozen=True, slots=True)
class Trusted:
    """How far something is trusted, and what its score is multiplied by for it."""

    channel: str
    level: TrustLevel
    factor: float


def trust_in(found: Mapping[str, tuple[str, str]], policy: Policy) -> dict[str, Trusted]:
    """Return the trust in objects, by id, from the channel and status of each.

    Factors are in relation to the most trusted of them: where all are trusted alike every factor is exactly 1.
    """
    held = {
        identity: (channel, trust_of(channel, status, policy.channel_trust))
        for identity, (channel, status) in found.items()
    }
    best = max((policy.trust_weights[level] for _, level in held.values()), default=1.0)
    return {
        identity: Trusted(channel, level, policy.trust_weights[level] / best)
        for identity, (channel, level) in held.items()
    }


def repetition_flags(repeats: bool) -> tuple[str, ...]:
    """Return the flag of a text that repeats the question it was found for, if it does."""
    return ("repeats_question",) if repeats else ()


@dataclass(frozen=True, slots=True)
class Wording:
    """The telling words of a question as it was asked, to find texts that repeat it. Empty for a short question."""

    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, question: str) -> "Wording":
        """Prepare a question. One of fewer than four telling words may be repeated by chance and is not looked for."""
        words = content_words(question[:_LONGEST])[:_MOST_WORDS]
        if len(words) < _LEAST_WORDS:
            return cls(frozenset(), frozenset())
        return cls(frozenset(words), frozenset(pairwise(words)))

    def repeated_in(self, text: str) -> bool:
        """Tell whether four fifths of the question's pairs of neighbouring words stand in the text.

        The order matters: an honest answer has the words of the question too, but seldom one behind the other.
        """
        if not self.pairs or not self._may_stand_in(as_a_model_reads(text)):
            return False
        return len(self.pairs - set(pairwise(content_words(text)))) <= self._spare

    @property
    def _spare(self) -> int:
        return len(self.pairs) - ceil(_REPEATED_AT * len(self.pairs))

    def _may_stand_in(self, plain: str) -> bool:
        """Rule out most texts without cutting them into words: each word that is missing takes a pair with it."""
        most = self._spare
        missing = (True for word in self.words if word not in plain)
        return sum(islice(missing, most + 1)) <= most
