"""Weight hits by trust, and lower less trusted texts that repeat the question.

A text made to be found first repeats the question, and so does an honest note that answers it. No similarity measure
distinguishes them. But if more trusted hits have the words of the question too, the less trusted text ranks behind
them; otherwise it is the only answer, and its rank does not change.
"""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from itertools import islice, pairwise
from math import ceil, inf, nextafter
from typing import TYPE_CHECKING

from treering.core.policy import Policy, TrustLevel, trust_of
from treering.core.screening import without_disguise
from treering.retrieval.search.idf import IdfWeights
from treering.retrieval.text.analysis import content_words, index_text, stretches_of
from treering.retrieval.tuning import TUNING

if TYPE_CHECKING:
    from treering.retrieval.search.retrieval import Hit

_MAX_WORDS = 64
_MAX_CHARS = 2_000


@dataclass(frozen=True, slots=True)
class Trusted:
    """The trust in an object, and the factor of its score."""

    channel: str
    level: TrustLevel
    factor: float
    weight: float
    """The weight of its level in the policy."""


def trust_in(found: Mapping[str, tuple[str, str]], policy: Policy) -> dict[str, Trusted]:
    """Return the trust in objects, by id, from the channel and status of each.

    Factors are relative to the most trusted object, so they are exactly 1 if all are trusted equally.
    """
    levels = {
        (channel, status): trust_of(channel, status, policy.channel_trust) for channel, status in set(found.values())
    }
    best = max((policy.trust_weights[level] for level in levels.values()), default=1.0)
    weights = {origin: policy.trust_weights[level] for origin, level in levels.items()}
    trusted = {
        origin: Trusted(origin[0], level, factor=weights[origin] / best, weight=weights[origin])
        for origin, level in levels.items()
    }
    return {identity: trusted[origin] for identity, origin in found.items()}


def repetition_flags(repeats: bool) -> tuple[str, ...]:
    """Return the flag of a text that repeats the question."""
    return ("repeats_question",) if repeats else ()


@dataclass(frozen=True, slots=True)
class Wording:
    """The content words of a question, to recognize texts that repeat it. Empty for a short question."""

    words: frozenset[str]
    pairs: frozenset[tuple[str, str]]

    @classmethod
    def of(cls, question: str) -> "Wording":
        """Prepare a question. One with few content words may be repeated by chance; an address or path is one word."""
        read = question[:_MAX_CHARS]
        words = content_words(read)[:_MAX_WORDS]
        names = identifiers_in(read)
        in_names = sum(len(content_words(name)) - 1 for name in names)
        if len(words) - in_names < TUNING.trust.min_question_words:
            return cls(frozenset(), frozenset())
        return cls(frozenset(words), frozenset(pairwise(words)))

    def repeated_in(self, text: str) -> bool:
        """Return whether a text has most pairs of neighboring words of the question.

        The order matters: an honest answer has the words of the question too, but seldom in the same order.
        """
        if not self.pairs or not self._may_be_in(without_disguise(text)):
            return False
        return len(self.pairs - set(pairwise(content_words(text)))) <= self._spare

    @property
    def _spare(self) -> int:
        return len(self.pairs) - ceil(TUNING.trust.min_repeated_share * len(self.pairs))

    def _may_be_in(self, plain: str) -> bool:
        """Rule out most texts without splitting them into words: each missing word makes a pair missing."""
        most = self._spare
        missing = (True for word in self.words if word not in plain)
        return sum(islice(missing, most + 1)) <= most


MAX_NAMES = 16
"""Names of a question that are searched in the texts; a pasted log has hundreds."""

_PARTS = re.compile(r"\d.*[./:\-]|[./:\-].*\d|[/_]|\w{2,}\.\w{2,}")
_NUMBER_OR_RANGE = re.compile(r"\d+[./:\-]{1,2}\d+")


def identifiers_in(question: str) -> frozenset[str]:
    """Return the first identifiers in a question, folded: addresses, ids, paths, tickets.

    They have several parts with a digit, a slash, an underscore, or a dot between two words. Two numbers, such as a
    range of years, are no identifier.
    """
    names = (name for name in stretches_of(question[:_MAX_CHARS]) if _PARTS.search(name))
    return frozenset(islice((name.casefold() for name in names if not _NUMBER_OR_RANGE.fullmatch(name)), MAX_NAMES))


def is_name(question: str) -> bool:
    """Return whether a question is only an identifier."""
    return len(stretches_of(question[:_MAX_CHARS])) == 1 == len(identifiers_in(question))


def needs_weighing(found: Sequence["Hit"], question: str) -> bool:
    """Return whether `weigh_by_trust` may change anything: a less trusted hit repeats or names the question."""
    if is_name(question):
        return True
    most = max((one.trusted.weight for one in found), default=0.0)
    less = [one for one in found if one.trusted.weight < most]
    names = identifiers_in(question) if less else frozenset()
    return any(one.repeats or _names_in(one.titled_text, names) for one in less)


def weigh_by_trust(found: Sequence["Hit"], question: str, idf: IdfWeights) -> list["Hit"]:
    """Compare each hit with the more trusted ones; return them with new scores in the order given.

    A text with an identifier of the question that no more trusted text has is not lowered by trust, because the others
    answer another question. A text that repeats the question ranks behind the best more trusted text that answers it,
    too. If the question is only an identifier, texts without it rank behind texts with it.
    """
    names = identifiers_in(question)
    having = [_names_in(one.titled_text, names) for one in found]
    weighed = list(found)
    best_rivals: dict[int, float] = {}
    answers = _Answers(found, idf)
    for at, one in enumerate(found):
        if not having[at] and not one.repeats:
            continue
        rivals = [place for place, other in enumerate(found) if other.trusted.weight > one.trusted.weight]
        if rivals and having[at].difference(*(having[place] for place in rivals)):
            trusted = replace(one.trusted, factor=1.0)
            weighed[at] = replace(one, score=one.score / one.trusted.factor, trusted=trusted)
        elif one.repeats and (best := answers.best_rival(at, rivals)) is not None:
            best_rivals[at] = best.score
    weighed = _behind_rivals(weighed, best_rivals)
    return _named_first(weighed, list(map(bool, having))) if is_name(question) else weighed


def _behind_rivals(weighed: Sequence["Hit"], best_rivals: Mapping[int, float]) -> list["Hit"]:
    """Lower each hit that repeats the question below its best rival and the previous such text."""
    others = sorted((one.score for at, one in enumerate(weighed) if at not in best_rivals), reverse=True)
    lowered, ahead = list(weighed), 0
    for at in sorted(best_rivals, key=lambda at: -weighed[at].score):
        before = weighed[at].score
        already = sum(score >= before for score in others)
        behind_rival = min(sum(score >= best_rivals[at] for score in others), already + TUNING.trust.max_places_lost)
        ahead = min(max(already, behind_rival, ahead), len(others))
        score = min(before, nextafter(others[ahead - 1], 0.0)) if ahead else before
        lowered[at] = replace(weighed[at], score=score, repeating_factor=score / before if before else 1.0)
        ahead += TUNING.trust.max_places_lost
    return lowered


def _named_first(weighed: Sequence["Hit"], named: Sequence[bool]) -> list["Hit"]:
    """Scale down the scores of all texts without the name, so that none ranks before one with it."""
    least = min((one.score for one, has in zip(weighed, named, strict=True) if has), default=inf)
    best = max((one.score for one, has in zip(weighed, named, strict=True) if not has), default=0.0)
    part = min(1.0, nextafter(least / best, 0.0)) if best else 1.0
    return [one if has else replace(one, score=one.score * part) for one, has in zip(weighed, named, strict=True)]


@dataclass(slots=True)
class _Answers:
    """The words of a question in texts, which are split into words when they are needed, and once."""

    hits: Sequence["Hit"]
    idf: IdfWeights
    _terms: dict[int, Set[str]] = field(default_factory=dict)

    def best_rival(self, at: int, rivals: Sequence[int]) -> "Hit | None":
        """Return the best of some rivals that answers, too; `None` if there is none.

        Together the rivals must have most of the question's words in the text, and the best rival one of the rarest.
        """
        own = self._terms_of(at)
        least = TUNING.trust.min_rarest_share * max((self.idf.weights[term] for term in own), default=0.0)
        rarest = {term for term in own if self.idf.weights[term] >= least}
        best, absent = None, own
        for place in sorted(rivals, key=lambda place: -self.hits[place].score):
            terms = self._terms_of(place)
            absent = absent - terms
            best = self.hits[place] if best is None and rarest & terms else best
            if best is not None and self.idf.share(absent) <= TUNING.trust.max_unanswered * self.idf.share(own):
                return best
        return None

    def _terms_of(self, place: int) -> Set[str]:
        if place not in self._terms:
            text = self.hits[place].titled_text
            self._terms[place] = self.idf.weights.keys() & index_text(text).split()
        return self._terms[place]


def _names_in(text: str, names: Set[str]) -> frozenset[str]:
    """Return the names that a text contains as a whole, or as the end of a longer one, such as a path."""
    folded = text.casefold() if names else ""
    return frozenset(
        name
        for name in names
        if name in folded and re.search(rf"(?<![\w.\-]){re.escape(name)}(?!\w|[.\-/:]\w)", folded)
    )
