"""Which knowledge, work and activities belong to a task: by their words, by what they rest on, by what they name."""

from collections.abc import Sequence, Set
from dataclasses import dataclass
from statistics import median

from treering.core.filters import matches
from treering.core.knowledge_payloads import Fact
from treering.core.objects import Knowledge, Object
from treering.derived.analysis import telling_terms
from treering.derived.fusion import PLACES, VECTORS, WORDS
from treering.derived.passages import passages_of, record_of
from treering.derived.question import Question
from treering.derived.retrieval import Hit
from treering.derived.showing import is_shown, is_withheld
from treering.ports.ledger import Altered, ObjectRequest, head_of
from treering.ports.reach import Reach
from treering.tools.attached import Attached
from treering.tools.envelope import Call

_BELIEFS = 16
_FAINT = 0.2
"""Part of the best score in the words arm below which a belief is noise."""

_OF_PEOPLE = 0.4
"""Part of what the passages beside it reach that knowledge has to reach which people or agents wrote: it is short."""

_NAMED = 2
"""Words of a subject that a question has to have, and half of them, to have named it."""

_COPIED = "adapter"
"""The channel of what an adapter read off a source: the source says it too, and is found there."""


def to_the_point(beliefs: Sequence[Hit], sources: Sequence[Hit], question: Question, reach: Reach) -> list[Hit]:
    """Leave out beliefs that have less to do with the task than the passages beside them.

    By words or by meaning, whichever says more. Scores are scaled within each of the two rankings; the raw ones can
    be compared between them, but not between what stands now and what stood once.
    """
    if reach.withdrawn or reach.at is not None:
        return list(beliefs)
    bar = _Bar.of(sources, question, loudest=max((_raw(hit, WORDS) for hit in (*beliefs, *sources)), default=0.0))
    asked = frozenset(question.terms.words)
    copied = {hit.head.key: copy for hit in beliefs if (copy := _CopiedAttribute.of(hit, asked))}
    told = [
        hit for hit in beliefs if PLACES in hit.fused.parts or bar.is_reached_by(hit, copied=copied.get(hit.head.key))
    ]
    # The version of acme is what was asked for, not that of each of its parts.
    named = {hit.head.key for hit in told if hit.head.key in copied and copied[hit.head.key].names_all_of_its_subject}
    return [hit for hit in told if not named or hit.head.key in named or hit.head.key not in copied]


@dataclass(frozen=True, slots=True)
class _CopiedAttribute:
    """What a question has to do with an attribute that an adapter read off a source, such as a version of a package.

    There are many, all short and full of the name of their subject, which in a repository stands everywhere.
    """

    names_all_of_its_subject: bool
    is_asked_for: bool
    """Whether the question has a word of the attribute, or most of the name of its subject."""

    @classmethod
    def of(cls, hit: Hit, asked: Set[str]) -> "_CopiedAttribute | None":
        payload = hit.item.payload if isinstance(hit.item, Knowledge) else None
        if hit.state.origin_channel != _COPIED or not isinstance(payload, Fact) or payload.value is None:
            return None
        subject = set(telling_terms(payload.subject))
        told = set(telling_terms(f"{payload.predicate} {payload.value}"))
        named = len(subject & asked)
        is_named = named >= _NAMED and 2 * named >= len(subject)
        return cls(subject <= asked, is_named or bool((asked - subject) & told))


@dataclass(frozen=True, slots=True)
class _Bar:
    """What the passages found for a task reach in the middle of their ranks, by words and by meaning."""

    loudest: float
    """The best score in the words arm."""
    nearest: float
    """The best cosine."""
    words: float
    meaning: float | None
    """How far the cosine is above that of what is unrelated; `None` without vectors."""
    unrelated: float

    @classmethod
    def of(cls, sources: Sequence[Hit], question: Question, *, loudest: float) -> "_Bar":
        words = median([_raw(hit, WORDS) for hit in sources] or [0.0])
        if question.meaning is None:
            return cls(loudest, 0.0, words, None, 0.0)
        unrelated = question.meaning.unrelated_below
        cosines = [_raw(hit, VECTORS) for hit in sources] or [unrelated]
        return cls(loudest, max(cosines), words, max(0.0, median(cosines) - unrelated), unrelated)

    def is_reached_by(self, hit: Hit, *, copied: _CopiedAttribute | None) -> bool:
        if copied and not copied.is_asked_for:
            return self.meaning is not None and _raw(hit, VECTORS) > self.nearest
        part = 1.0 if hit.state.origin_channel == _COPIED else _OF_PEOPLE
        words, above = _raw(hit, WORDS), _raw(hit, VECTORS) - self.unrelated
        by_words = words >= max(part * self.words, _FAINT * self.loudest) and words > 0
        return by_words or (self.meaning is not None and above >= max(0.0, part * self.meaning))


def resting_on(
    call: Call, sources: Sequence[Hit], beliefs: Sequence[Hit], reach: Reach, altered: Altered
) -> list[tuple[Object, float]]:
    """Find knowledge that rests on the very segments that answer: it belongs to the task by its evidence.

    What an adapter copied from them does not: it says nothing that they do not say.
    """
    if reach.at is not None or not sources:
        return []
    known = {hit.head.object_id for hit in beliefs}
    best = {(hit.head.object_id, hit.head.part): hit.score for hit in reversed(sources)}
    ids = tuple(dict.fromkeys(hit.head.object_id for hit in sources))
    (read,) = call.engine.ledger.read([ObjectRequest(dependents=ids)])
    altered |= read.altered
    found: dict[str, float] = {}
    for identity in (one for source_id in ids for one in read.dependents.get(source_id, ())):
        item = read.objects.get(identity)
        refs = item.evidence_refs if isinstance(item, Knowledge) and item.origin_channel != _COPIED else ()
        score = max((best.get((ref.source_id, ref.segment_id), 0.0) for ref in refs), default=0.0)
        if score and identity not in known:
            found[identity] = score
    ranked = sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:_BELIEFS]
    return [(read.objects[identity], score) for identity, score in ranked]


def objects_of(
    hits: Sequence[Hit], attached: Sequence[Attached], related: Sequence[tuple[Object, float]], reach: Reach
) -> list[tuple[Object, float]]:
    """Return what was found, each once: what answers, what is attached to what the task names, what is only related.

    All of it passes the same gate.
    """
    near = [(item, score) for item, score in related if is_shown(head_of(item), reach) and not is_withheld(item, reach)]
    found = [
        *((hit.item, hit.score) for hit in hits if hit.item),
        *((item, 0.0) for one in attached for item in one.items),
        *(one for one in near if matches(reach.where, record_of(passages_of(one[0])[0]))),
    ]
    return list({item.id: (item, score) for item, score in reversed(found)}.values())[::-1]


def _raw(hit: Hit, arm: str) -> float:
    part = hit.fused.parts.get(arm)
    return part.raw if part else 0.0
