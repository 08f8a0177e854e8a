"""Which knowledge, work and activities belong to a task: by their words, by what they rest on, by what they name."""

from collections.abc import Sequence

from treering.core.filters import matches
from treering.core.objects import Knowledge, Object
from treering.derived.fusion import PLACES, VECTORS, WORDS
from treering.derived.passages import passages_of, record_of
from treering.derived.question import Question
from treering.derived.retrieval import Hit, is_shown, is_withheld
from treering.ports.ledger import Altered, ObjectRequest, head_of
from treering.ports.reach import Reach
from treering.tools.attached import Attached
from treering.tools.envelope import Call

_BELIEFS = 16
_FAINT = 0.2
"""Part of the best score in the words arm below which a belief is noise."""


def to_the_point(beliefs: Sequence[Hit], sources: Sequence[Hit], question: Question, reach: Reach) -> list[Hit]:
    """Leave out beliefs that share no more with the task than a common word.

    Scores are scaled within each of the two rankings; the raw ones can be compared between them, but not between
    what stands now and what stood once.
    """
    if reach.withdrawn or reach.at is not None:
        return list(beliefs)
    best = max((_raw(hit, WORDS) for hit in (*beliefs, *sources)), default=0.0)
    return [
        hit
        for hit in beliefs
        if _is_near(question, hit) or _raw(hit, WORDS) >= _FAINT * best or PLACES in hit.fused.parts
    ]


def resting_on(
    call: Call, sources: Sequence[Hit], beliefs: Sequence[Hit], reach: Reach, altered: Altered
) -> list[tuple[Object, float]]:
    """Find knowledge that rests on the very segments that answer: it belongs to the task by its evidence."""
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
        refs = item.evidence_refs if isinstance(item, Knowledge) else ()
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


def _is_near(question: Question, hit: Hit) -> bool:
    return question.meaning is not None and question.meaning.is_related(_raw(hit, VECTORS))


def _raw(hit: Hit, arm: str) -> float:
    part = hit.fused.parts.get(arm)
    return part.raw if part else 0.0
