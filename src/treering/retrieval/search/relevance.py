"""Whether what was found is relevant to what was asked, by idf: how rare the words are that both have."""

from collections import Counter
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import log2
from unicodedata import normalize

from treering.core.evidence import Turn
from treering.ports.passages import Reach
from treering.ports.search import TextFound, TextRequest
from treering.retrieval.index.code_places import NO_PLACE
from treering.retrieval.index.rounds import Steps
from treering.retrieval.index.ties import is_turn
from treering.retrieval.search.fusion import VECTORS
from treering.retrieval.search.idf import IdfWeights
from treering.retrieval.search.question import Meaning, Question, is_long, speaker_of
from treering.retrieval.search.retrieval import Hit, Retrieval
from treering.retrieval.text.analysis import index_text, query_terms, query_words
from treering.retrieval.text.dates import asked_ranges
from treering.retrieval.text.typed_words import TypedWords, WordsKnown, names_written, pairs_of_names, unknown_among

RELEVANT = 0.6
"""The least `IdfWeights.coverage` of a passage that is relevant to a question (`benchmarks/precision.py`)."""

RELEVANT_IN_TALK = 0.5
"""The same of a turn of a conversation: it is short, seldom repeats a question, and is far from most in meaning."""

RELEVANT_IF_DISTANT = 0.8
"""The same of anything else, where every passage has a vector and none of them is near to the question."""

COVERAGE_COUNTS = 0.45
"""What `IdfWeights.coverage` counts for beside nearness, in a small space."""

BROKEN_COUNTS = 0.2
"""What it counts for against nearness that no hit has the names of a question whole; twice that against coverage."""

NAMELESS_COUNTS = 0.1
"""The same of a question none of whose names the best hits have."""

RELEVANT_TOGETHER = 0.2
"""The least of the two together that is relevant in a small space, of texts and knowledge."""

RELEVANT_TOGETHER_IN_TALK = 0.1
"""The same where most hits are turns of a conversation."""

RELEVANT_BY_WORDS = 0.95
"""The least coverage that is relevant in a small space however far the text is in meaning: an embedder may be poor."""

RELATED_COVERAGE = 0.1
"""The least `IdfWeights.coverage` of a turn that has to do with a question, where another one is relevant to it."""

RELATED_SHARE = 0.14
"""So far below unrelated, as a part of the way from there to the same, a text may be in meaning and have to do with it.

Both, and to ask `any_relevant` first, were found on three conversations of LoCoMo: of the turns that answer among the
first 20, 1.8 % are left out; of questions about other conversations 26 % still bring something, of 82 % without it.
"""

WEAK_SHARE = 0.4
"""Part of the best score below which a hit is weak; of what answers among the first ten, 0 to 0.5 % is below it."""

WEAK_SHARE_BY_WORDS = 0.3
"""The same where not all hits were compared by a vector: 0 to 0.6 %."""

MOST_CHECKED = 10
"""So many of the best hits are checked for whether any is relevant."""


def any_relevant(idf: IdfWeights, question: Question, hits: Sequence[Hit]) -> bool:
    """Tell whether any of the hits is relevant to a question, by its words or by its meaning.

    In a small space by both together: there a word in common says little of a text that is far in meaning (fitted on
    parts of four sets of 10 to 200 passages, and on statements as knowledge; `docs/decisions`).
    """
    meaning = question.meaning
    if idf.largeness < FITTED_FROM and meaning is not None and meaning.quick is None and all(map(_is_told, hits)):
        return bool(hits) and _is_relevant_together(idf, question, hits)
    if meaning is not None and any(_cosine(hit) >= idf.near_from(meaning) for hit in hits):
        return True
    return any(idf.coverage(_terms_of(hit)) >= _least(hit, far=_is_compared(hit)) for hit in hits)


def _is_relevant_together(idf: IdfWeights, question: Question, hits: Sequence[Hit]) -> bool:
    said = list(map(_said_terms, hits))
    nearness, covered = _nearness(question.meaning, hits), list(map(idf.coverage, said))
    best = _best_first(nearness, covered)
    names = _names_asked(idf, question, hits)
    against = BROKEN_COUNTS * _broken(question, said) + NAMELESS_COUNTS * _nameless(names, best, said)
    near = max(nearness) - against
    least = RELEVANT_TOGETHER_IN_TALK if is_talk(hits) else RELEVANT_TOGETHER
    by_words = max(covered) - 2 * against >= RELEVANT_BY_WORDS
    return near >= 0 or by_words or near + COVERAGE_COUNTS * max(covered) >= least


@dataclass(frozen=True, slots=True)
class RelevanceEvidence:
    """What the best hits share with a question, for telling it from what chance brings."""

    near: float | None
    """The best cosine, above what is unrelated (0 to 1, at least -0.3); `None` without vectors."""
    covered: float
    """`IdfWeights.coverage` of the hit that covers most."""
    largeness: float
    length: float
    """Binary logarithm of how many terms the hit has that covers most: a long text covers more by chance."""
    missing: float
    """What part of the weights names have that the best hit does not have, those of speakers set aside."""
    rare: float
    """Of the weights of the two rarest terms that some passage has, the part of those that the first hits have."""
    broken: float
    """Of the pairs of neighbouring words of names ("Corey Taylor") in it, the part that no hit has together."""
    nameless: float
    """1 where it has names, those of speakers set aside, and the three best hits have none of them; else 0."""
    talk: bool
    """Whether most of the hits are turns of a conversation; else they are prose."""

    @classmethod
    def of(cls, idf: IdfWeights, question: Question, hits: Sequence[Hit]) -> "RelevanceEvidence | None":
        """Weigh hits; `None` where nothing was fitted: small spaces, code, knowledge, long questions, quick vectors."""
        least = cls.at_least(idf, question, hits)
        return least and least.with_texts(idf, question, hits)

    @classmethod
    def at_least(cls, idf: IdfWeights, question: Question, hits: Sequence[Hit]) -> "RelevanceEvidence | None":
        """Weigh hits whose texts are not analysed, as if they had no word of the question and were as long as can be.

        Where chance does not even bring this, it does not bring the hits. `None` as for `of`.
        """
        meaning = question.meaning
        if not hits or idf.largeness < FITTED_FROM or not all(map(_is_text, hits)) or is_long(question.text):
            return None
        if meaning is not None and meaning.quick is not None:
            return None
        most = _TERMS_PER_CHAR * max(len(normalize("NFKC", _shown(hit))) for hit in hits)
        names = frozenset(names_written(question.text))
        return cls(
            near=max(_nearness(meaning, hits)) if meaning is not None and any(map(_is_compared, hits)) else None,
            covered=0.0,
            largeness=idf.largeness,
            length=log2(1 + most),
            missing=idf.share(names),
            rare=0.0,
            broken=float(any(pairs_of_names(question.text))),
            nameless=float(bool(names)),
            talk=is_talk(hits),
        )

    def with_texts(self, idf: IdfWeights, question: Question, hits: Sequence[Hit]) -> "RelevanceEvidence":
        """Return what was weighed `at_least`, with what the texts of the hits say."""
        said = list(map(_said_terms, hits))
        covered = list(map(idf.coverage, said))
        names, best = _names_asked(idf, question, hits), _best_first(_nearness(question.meaning, hits), covered)
        known = sorted(idf.weights.keys() - idf.unknown, key=lambda term: (-idf.weights[term], term))[:_RAREST]
        rare = set(known) & set[str]().union(*said[:_FIRST])
        return replace(
            self,
            covered=max(covered),
            length=log2(1 + max(zip(covered, map(len, said), strict=True))[1]),
            missing=idf.share(names.difference(said[best[0]])),
            broken=_broken(question, said),
            nameless=_nameless(names, best, said),
            rare=idf.share(rare) / (idf.share(known) or 1.0),
        )

    @property
    def signals(self) -> tuple[float, ...]:
        """The numbers that are weighed."""
        return (
            self.near or 0.0,
            self.covered,
            self.largeness,
            self.length,
            self.missing,
            self.rare,
            self.broken,
            self.nameless,
            1.0,
        )

    @property
    def is_chance(self) -> bool:
        """Tell whether chance brings as much."""
        weights = _WEIGHTS["near" if self.near is not None else "words", "talk" if self.talk else "prose"]
        return sum(weight * signal for weight, signal in zip(weights, self.signals, strict=True)) < 0


_WEIGHTS: Mapping[tuple[str, str], tuple[float, ...]] = {
    ("near", "prose"): (10.75, 2.25, -2.0, -0.75, -3.5, 0.0, -2.0, 0.0, 5.6),
    ("near", "talk"): (8.5, 3.25, -4.0, -0.5, -4.25, 1.0, 0.0, -2.0, 5.4),
    ("words", "prose"): (0.0, 4.75, -2.75, -1.0, 0.0, 1.25, -4.0, 0.0, 4.5),
    ("words", "talk"): (0.0, 4.25, -5.5, -0.5, -6.75, 0.5, -4.0, -2.0, 6.7),
}
"""Weights of the signals, with vectors or by words alone, as `python -m benchmarks.chance` fits them."""

_TERMS_PER_CHAR = 3
"""A text has no more terms: a sign of a script without spaces gives two, and a letter one of a compound and a stem."""
FITTED_FROM = 0.74
"""`IdfWeights.largeness` of the smallest spaces that were fitted on, of 300 passages."""
_FARTHEST = -0.3
_NEAR_COUNTS = 4.0
"""What nearness counts for beside coverage in the choice of the best hit."""
_RAREST, _FIRST = 2, 3
_TOGETHER = 4
"""Terms from one word of a name to the next at most: an initial or a second name may stand between them."""


def _nearness(meaning: Meaning | None, hits: Sequence[Hit]) -> list[float]:
    """Return how far each hit is above what is unrelated in meaning: 0 to 1, at least -0.3; 0 without vectors."""
    if meaning is None:
        return [0.0] * len(hits)
    unrelated = meaning.unrelated_below
    return [max((_cosine(hit) - unrelated) / (1 - unrelated), _FARTHEST) for hit in hits]


def _best_first(nearness: Sequence[float], covered: Sequence[float]) -> list[int]:
    """Return the places of hits, first that of the one with most in common with the question."""
    both = [_NEAR_COUNTS * near + cover for near, cover in zip(nearness, covered, strict=True)]
    return sorted(range(len(both)), key=lambda at: -both[at])


def _names_asked(idf: IdfWeights, question: Question, hits: Sequence[Hit]) -> set[str]:
    """Return the terms of names in a question, without those of who speaks in one of the hits."""
    speakers = {speaker_of(hit.head) for hit in hits if is_turn(hit.head)}
    return (idf.weights.keys() & set(names_written(question.text))).difference(*map(query_words, speakers))


def _nameless(names: Set[str], best: Sequence[int], said: Sequence[Sequence[str]]) -> float:
    """Return 1 where the best hits have none of some names, else 0."""
    return float(bool(names) and all(names.isdisjoint(said[at]) for at in best[:_FIRST]))


def is_talk(hits: Sequence[Hit]) -> bool:
    """Tell whether most of some hits are turns of a conversation."""
    return 2 * sum(is_turn(hit.head) for hit in hits) > len(hits)


def _broken(question: Question, said: Sequence[Sequence[str]]) -> float:
    """Return the part of the pairs of names in a question that no text has together, in either order."""
    pairs = list(pairs_of_names(question.text))
    if not pairs:
        return 0.0
    wanted = frozenset[str]().union(*(one | other for one, other in pairs))
    placed = [[(at, term) for at, term in enumerate(terms) if term in wanted] for terms in said]
    return sum(not any(_are_together(*pair, terms) for terms in placed) for pair in pairs) / len(pairs)


def _are_together(one: Set[str], other: Set[str], placed: Sequence[tuple[int, str]]) -> bool:
    ones, others = ([at for at, term in placed if term in terms] for terms in (one, other))
    return any(0 < abs(at - near) <= _TOGETHER for at in ones for near in others)


def _is_told(hit: Hit) -> bool:
    """Tell whether a hit is knowledge or a text, and was compared with the question by a vector."""
    return _is_compared(hit) and (hit.item is not None or _is_text(hit))


def _is_text(hit: Hit) -> bool:
    """Tell whether a hit is a turn, or prose of a source that is no file of a project."""
    head = hit.head
    return is_turn(head) or (hit.item is None and head.role == "prose" and head.place_role == NO_PLACE)


def related_hits(idf: IdfWeights, question: Question, hits: Sequence[Hit]) -> Sequence[Hit]:
    """Return the hits that have to do with a question; none where none of the best is relevant to it.

    All of them, where it cannot be told: where the question has no words that tell, or the index is behind.
    """
    if not idf.weights or question.lag.behind:
        return hits
    if not any_relevant(idf, question, hits[:MOST_CHECKED]):
        return ()
    return [hit for hit in hits if _is_related(idf, question, hit)]


def weak_among(found: Retrieval) -> frozenset[int]:
    """Return the keys of the hits that have much less to do with a question than the best of them.

    None of a lookup, and none where files of a project are among them: a task concerns many files.
    """
    hits = found.hits
    if found.trace["route"] == "lookup" or not all(hit.item is not None or _is_text(hit) for hit in hits):
        return frozenset()
    scores = {hit.head.key: hit.score / hit.trusted.factor for hit in hits}
    share = WEAK_SHARE if all(map(_is_compared, hits)) else WEAK_SHARE_BY_WORDS
    least = share * max(scores.values(), default=0.0)
    return frozenset(key for key, score in scores.items() if score < least)


def _is_related(idf: IdfWeights, question: Question, hit: Hit) -> bool:
    meaning = question.meaning
    if meaning is None:
        return True  # by words alone too much would be left out that stands beside them
    if not _is_compared(hit):
        return True  # as a body of code, which has no vector
    near = meaning.unrelated_below - RELATED_SHARE * (1 - meaning.unrelated_below)
    return _cosine(hit) >= near or idf.coverage(_terms_of(hit)) >= RELATED_COVERAGE


def _least(hit: Hit, *, far: bool) -> float:
    if is_turn(hit.head):
        return RELEVANT_IN_TALK
    return RELEVANT_IF_DISTANT if far else RELEVANT


def _terms_of(hit: Hit) -> frozenset[str]:
    """Return the index terms of a hit as it is shown."""
    return frozenset(_said_terms(hit))


def _said_terms(hit: Hit) -> tuple[str, ...]:
    """Return the terms of a hit as the index has them, each as often as it is said."""
    return _terms_in(_shown(hit))


def _shown(hit: Hit) -> str:
    return f"{hit.head.title}\n{hit.head.heading}\n{hit.text}"


@lru_cache(maxsize=32)  # each of the best hits is looked at several times for one answer
def _terms_in(shown: str) -> tuple[str, ...]:
    return tuple(index_text(shown).split())


def _is_compared(hit: Hit) -> bool:
    """Tell whether a hit was compared with the question by a vector."""
    return VECTORS in hit.fused.parts


def _cosine(hit: Hit) -> float:
    part = hit.fused.parts.get(VECTORS)
    return part.raw if part else -1.0


# Spreading what is found over its sources: of one page the first passages say most of what it has to say.


FURTHER_WEIGHT = 0.8
"""What a passage counts for beside one of the same source above it; beside two this much again."""


def spread_over_sources(hits: Sequence[Hit]) -> list[Hit]:
    """Rank again, every further passage of a source behind what it would count for as the first one.

    Turns stay where they are: a conversation is one source, and its turns are as many things.
    """
    before: Counter[str] = Counter()
    spread = []
    for hit in hits:
        further = before[hit.head.object_id]
        spread.append(replace(hit, score=hit.score * FURTHER_WEIGHT**further) if further else hit)
        before[hit.head.object_id] += not isinstance(hit.locator, Turn)
    return sorted(spread, key=lambda hit: -hit.score)


# Which words of a question are known where it is asked, and whether what was found answers it.


@dataclass(frozen=True, slots=True)
class KnownWords:
    """Which words of a task occur in the scopes of a read; empty for a read of the past."""

    missing: tuple[str, ...] = ()
    """Names in the task that nothing here mentions."""
    words: WordsKnown = field(default_factory=WordsKnown)
    idf: IdfWeights = field(default_factory=IdfWeights)


def answers(known: KnownWords, question: Question, found: Retrieval, hits: Sequence[Hit]) -> bool:
    """Tell whether any of the best hits is relevant to a question; `True` for a lookup, and where it is unknown."""
    if found.trace["route"] == "lookup" or not known.idf.weights or question.lag.behind:
        return True
    idf = known.idf.undated() if is_talk(hits) else known.idf
    if not any_relevant(idf, question, hits):
        return False
    least = RelevanceEvidence.at_least(idf, question, hits)
    # Most are told by that; texts are analysed for the rest.
    return least is None or not (least.is_chance and least.with_texts(idf, question, hits).is_chance)


def known_words(question: Question, reach: Reach) -> Steps[KnownWords]:
    """Count the words of a task in the scopes of the read."""
    if reach.at is not None:
        return KnownWords()  # which words occurred at that time is not kept
    typed = TypedWords.of(question.text)
    names, words = typed.names(), typed.sought()
    terms = {term for each in (names, words) for terms in each.values() for term in terms}
    found: TextFound = yield TextRequest(reach, 0, counted=tuple(sorted(terms.union(question.terms.words))))
    return KnownWords(
        tuple(unknown_among(names, found.counts)),
        WordsKnown.of(words, found.counts),
        IdfWeights.of(question.terms.words, found, _date_terms(question)),
    )


def _date_terms(question: Question) -> frozenset[str]:
    """Return the terms of a question that only the dates in it have."""
    if not question.days or is_long(question.text):
        return frozenset()
    rest, at = "", 0
    for found in asked_ranges(question.text, None):
        rest += question.text[at : found.start] + " "
        at = max(at, found.end)
    rest += question.text[at:]
    return frozenset(question.terms.words).difference(query_terms(rest).words)
