"""What trust counts for in a ranking: by the channel of a text, and when a less trusted text repeats the question.

A text made to be found first repeats the question. So does an honest note, which states what somebody may ask. No
measure of likeness can tell them apart, but only one of them competes: where the more trusted texts that were found
have the words of the question too, the less trusted one comes behind them. Where they do not, it is the only text that
answers, and keeps its place.
"""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from itertools import islice, pairwise
from math import ceil, inf, nextafter

from treering.core.policy import Policy, TrustLevel, trust_of
from treering.core.screening import without_disguise
from treering.retrieval.search.idf import IdfWeights
from treering.retrieval.text.analysis import content_words, index_text, stretches_of
from treering.retrieval.tuning import TUNING

_MOST_WORDS = 64
_LONGEST = 2_000  # characters


@dataclass(frozen=True, slots=True)
class Trusted:
    """How far something is trusted, and what its score is multiplied by for it."""

    channel: str
    level: TrustLevel
    factor: float
    weight: float
    """The weight of its level in the policy."""


def trust_in(found: Mapping[str, tuple[str, str]], policy: Policy) -> dict[str, Trusted]:
    """Return the trust in objects, by id, from the channel and status of each.

    Factors are in relation to the most trusted of them: where all are trusted alike every factor is exactly 1.
    """
    levels = {
        (channel, status): trust_of(channel, status, policy.channel_trust) for channel, status in set(found.values())
    }
    best = max((policy.trust_weights[level] for level in levels.values()), default=1.0)
    weights = {held: policy.trust_weights[level] for held, level in levels.items()}
    trusted = {
        held: Trusted(held[0], level, factor=weights[held] / best, weight=weights[held])
        for held, level in levels.items()
    }
    return {identity: trusted[held] for identity, held in found.items()}


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
        """Prepare a question. One of fewer than four telling words may be repeated by chance and is not looked for.

        An address or a path is one word.
        """
        read = question[:_LONGEST]
        words = content_words(read)[:_MOST_WORDS]
        names = identifiers_in(read)
        in_names = sum(len(content_words(name)) - 1 for name in names)
        if len(words) - in_names < TUNING.trust.min_question_words:
            return cls(frozenset(), frozenset())
        return cls(frozenset(words), frozenset(pairwise(words)))

    def repeated_in(self, text: str) -> bool:
        """Tell whether four fifths of the question's pairs of neighbouring words stand in the text.

        The order matters: an honest answer has the words of the question too, but seldom one behind the other.
        """
        if not self.pairs or not self._may_stand_in(without_disguise(text)):
            return False
        return len(self.pairs - set(pairwise(content_words(text)))) <= self._spare

    @property
    def _spare(self) -> int:
        return len(self.pairs) - ceil(TUNING.trust.min_repeated_share * len(self.pairs))

    def _may_stand_in(self, plain: str) -> bool:
        """Rule out most texts without cutting them into words: each word that is missing takes a pair with it."""
        most = self._spare
        missing = (True for word in self.words if word not in plain)
        return sum(islice(missing, most + 1)) <= most


MAX_NAMES = 16
"""Names of a question that are looked for in the texts: a pasted log has hundreds."""

_PARTS = re.compile(r"\d.*[./:\-]|[./:\-].*\d|[/_]|\w{2,}\.\w{2,}")
_NUMBER_OR_RANGE = re.compile(r"\d+[./:\-]{1,2}\d+")


def identifiers_in(question: str) -> frozenset[str]:
    """Return the first names in a question that mean one thing as a whole, folded: an address, an id, a path, a ticket.

    Those are names of several parts with a digit, a slash, an underscore, or a dot between two words; but not two
    numbers, such as a range of years.
    """
    names = (name for name in stretches_of(question[:_LONGEST]) if _PARTS.search(name))
    return frozenset(islice((name.casefold() for name in names if not _NUMBER_OR_RANGE.fullmatch(name)), MAX_NAMES))


def is_name(question: str) -> bool:
    """Return whether a question is an identifier and nothing else."""
    return len(stretches_of(question[:_LONGEST])) == 1 == len(identifiers_in(question))


@dataclass(frozen=True, slots=True)
class FoundText:
    """A text that was found, as it is weighed against others. `repeats`: it repeats the question."""

    text: str
    score: float
    """Weighed by trust."""
    trusted: Trusted
    repeats: bool


@dataclass(frozen=True, slots=True)
class Weighed:
    """The score of a text, the trust that counts for it, and what repeating the question takes from its score."""

    score: float
    trusted: Trusted
    repeating: float = 1.0


def needs_weighing(found: Sequence[FoundText], question: str) -> bool:
    """Return whether `weigh_by_trust` may change anything: a less trusted text repeats or names what is asked."""
    if is_name(question):
        return True
    most = max((one.trusted.weight for one in found), default=0.0)
    less = [one for one in found if one.trusted.weight < most]
    names = identifiers_in(question) if less else frozenset()
    return any(one.repeats or _names_in(one.text, names) for one in less)


def weigh_by_trust(found: Sequence[FoundText], question: str, idf: IdfWeights) -> list[Weighed]:
    """Weigh texts against those of them that are more trusted, in the order given.

    What has a name of the question that none of those has (`identifiers_in`) is not compared by trust: they answer
    another question. What repeats the question comes behind the best of them, if they answer it, too. Where the
    question is a name and nothing else, what does not have it comes behind what does.
    """
    names = identifiers_in(question)
    having = [_names_in(one.text, names) for one in found]
    weighed = [Weighed(one.score, one.trusted) for one in found]
    best_rivals: dict[int, float] = {}
    for at, one in enumerate(found):
        rivals = [place for place, other in enumerate(found) if other.trusted.weight > one.trusted.weight]
        if rivals and having[at].difference(*(having[place] for place in rivals)):
            weighed[at] = Weighed(one.score / one.trusted.factor, replace(one.trusted, factor=1.0))
        elif rivals and one.repeats and (best := _best_answer([found[place] for place in rivals], one, idf)):
            best_rivals[at] = best.score
    weighed = _behind_rivals(weighed, best_rivals)
    return _named_first(weighed, list(map(bool, having))) if is_name(question) else weighed


def _behind_rivals(weighed: Sequence[Weighed], best_rivals: Mapping[int, float]) -> list[Weighed]:
    """Put each text that repeats the question behind its best rival, by that one's score, and behind the one before."""
    others = sorted((one.score for at, one in enumerate(weighed) if at not in best_rivals), reverse=True)
    lowered, ahead = list(weighed), 0
    for at in sorted(best_rivals, key=lambda at: -weighed[at].score):
        before = weighed[at].score
        already = sum(score >= before for score in others)
        behind_rival = min(sum(score >= best_rivals[at] for score in others), already + TUNING.trust.max_places_lost)
        ahead = min(max(already, behind_rival, ahead), len(others))
        score = min(before, nextafter(others[ahead - 1], 0.0)) if ahead else before
        lowered[at] = replace(weighed[at], score=score, repeating=score / before if before else 1.0)
        ahead += TUNING.trust.max_places_lost
    return lowered


def _named_first(weighed: Sequence[Weighed], named: Sequence[bool]) -> list[Weighed]:
    """Lower the scores of all texts without the name alike, so that none comes before one that has it."""
    least = min((one.score for one, has in zip(weighed, named, strict=True) if has), default=inf)
    best = max((one.score for one, has in zip(weighed, named, strict=True) if not has), default=0.0)
    part = min(1.0, nextafter(least / best, 0.0)) if best else 1.0
    return [one if has else replace(one, score=one.score * part) for one, has in zip(weighed, named, strict=True)]


def _best_answer(rivals: Sequence[FoundText], found: FoundText, idf: IdfWeights) -> FoundText | None:
    """Return the best more trusted text that answers, too, if the words of the question in a text are theirs as well.

    Together they need most of those words, and one of the rarest; the best of them has such a one itself.
    """
    terms = [frozenset(index_text(one.text).split()) & idf.weights.keys() for one in rivals]
    own, theirs = idf.weights.keys() & index_text(found.text).split(), frozenset[str]().union(*terms)
    if idf.share(own - theirs) > TUNING.trust.max_unanswered * idf.share(own):
        return None
    least = TUNING.trust.min_rarest_share * max((idf.weights[term] for term in own), default=0.0)
    rarest = {term for term in own if idf.weights[term] >= least}
    naming = (one for one, said in zip(rivals, terms, strict=True) if rarest & said)
    return max(naming, key=lambda one: one.score, default=None)


def _names_in(text: str, names: Set[str]) -> frozenset[str]:
    """Return the names that a text has whole, or at the end of a longer one, such as a path."""
    folded = text.casefold() if names else ""
    return frozenset(
        name
        for name in names
        if name in folded and re.search(rf"(?<![\w.\-]){re.escape(name)}(?!\w|[.\-/:]\w)", folded)
    )
