"""From a question to ranked hits: arms, fusion, diversity, re-check. Each step is a function on values.

The index proposes; the ledger decides. A hit is read again from the ledger, where state, scope and time are
checked, so that a late or damaged index can never show what was withdrawn.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treering.core.evidence import Segment
from treering.core.injection import instruction_flags
from treering.core.lifecycle import CURRENT
from treering.core.locator import Locator
from treering.core.objects import Source
from treering.core.scope import sees
from treering.derived.analysis import index_text, query_terms
from treering.derived.association import Association, associate
from treering.derived.clues import WEIGHTS as CLUE_WEIGHTS
from treering.derived.clues import clues_of, is_turn, thread_clue
from treering.derived.diversity import Candidate, diversify
from treering.derived.fusion import (
    BRIDGED,
    CODE_WEIGHTS,
    DIALOGUE_WEIGHTS,
    ENTITLED,
    LOOKUP_WEIGHTS,
    NAMED,
    NAMES,
    PLACES,
    POOL,
    PROSE_WEIGHTS,
    VECTORS,
    WALKED,
    WORDS,
    Fused,
    favour,
    fuse,
    lend_to_neighbours,
)
from treering.derived.passages import passages_of
from treering.ports.index import Index, PassageHead, Reach, Scored, TextQuery, Vector
from treering.ports.ledger import Head, Ledger

RELATED_AT = 0.62
"""Cosine below which a text that shares no word with the question is taken to say nothing about it."""

_OVERFETCH = 3


@dataclass(frozen=True, slots=True)
class Question:
    """What is asked: its text, its terms, and its vector where the embedder could make one."""

    text: str
    terms: TextQuery
    vector: Vector | None

    @classmethod
    def of(cls, text: str, *, embed: Callable[[str], Vector] | None) -> "Question":
        """Prepare a question."""
        return cls(text, query_terms(text), embed(text) if embed else None)


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that answers, as the ledger holds it."""

    head: PassageHead
    state: Head
    text: str
    locator: Locator | None
    score: float
    fused: Fused

    @property
    def flags(self) -> tuple[str, ...]:
        """Name what in the text is shaped like instructions to a model."""
        return instruction_flags(self.text)


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Hits, best first, and the trace of how they came to be."""

    hits: tuple[Hit, ...]
    trace: Mapping[str, Any]
    association: Association | None = None


def retrieve(
    question: Question,
    *,
    index: Index,
    ledger: Ledger,
    reach: Reach,
    limit: int,
    max_per_source: int | None = None,
) -> Retrieval:
    """Find the passages that answer a question within reach."""
    heads = _Heads(index)
    arms = search_arms(question, index=index, reach=reach)
    related = _related(question, arms, heads)
    pool = max(POOL, limit * _OVERFETCH)
    ranked = fuse(related, LOOKUP_WEIGHTS, limit=pool)
    association = _associated(question, ranked, arms, index=index, reach=reach)
    if association:
        widened = widen(question, related, ranked, association, index=index, reach=reach)
        apart = _weighed_apart(heads.of(set().union(*widened.values())))
        ranked = fuse(widened, PROSE_WEIGHTS, apart=apart, limit=2 * pool)
    ranked = lend_to_neighbours(ranked, index.neighbours([hit.key for hit in ranked]), limit=2 * pool)
    near = heads.of(hit.key for hit in ranked)
    clues = {**clues_of(question.text, near), **thread_clue(ranked, near)}
    ranked = favour(ranked, clues, CLUE_WEIGHTS, limit=pool)
    read, dropped = _recheck(ranked, near, ledger=ledger, reach=reach, limit=limit * _OVERFETCH)
    hits = _diverse(read, limit=limit, max_per_source=max_per_source)
    trace = {
        "terms": {"words": question.terms.words, "identifiers": question.terms.identifiers},
        "arms": {name: len(scores) for name, scores in arms.items()},
        "weights": dict(PROSE_WEIGHTS if association else LOOKUP_WEIGHTS),
        "candidates": len(ranked),
        "unrelated": len(arms.get(VECTORS, {})) - len(related.get(VECTORS, {})),
        "graph": _told(association, index) if association else _why_not_walked(reach),
        "dropped": dropped,
        "duplicates": len(read) - len(hits) if len(hits) < limit else 0,
    }
    return Retrieval(tuple(hits), trace, association)


def search_arms(question: Question, *, index: Index, reach: Reach) -> dict[str, dict[int, float]]:
    """Ask every arm for candidates, then fill in the exact cosine of all of them."""
    arms = {
        WORDS: _scores(index.by_words(question.terms, reach=reach, limit=POOL)),
        NAMES: _scores(index.by_names(_parts_of_names(question, index), reach=reach, limit=POOL)),
        PLACES: _scores(_places(question.text, index, reach)),
    }
    if question.vector is not None:
        near = _scores(index.by_vector(question.vector, reach=reach, limit=POOL))
        others = sorted(set().union(*arms.values()) - near.keys())
        arms[VECTORS] = {**near, **index.similarities(question.vector, others)}
    return arms


def widen(
    question: Question,
    arms: Mapping[str, Mapping[int, float]],
    ranked: Sequence[Fused],
    association: Association,
    *,
    index: Index,
    reach: Reach,
) -> dict[str, Mapping[int, float]]:
    """Add to the arms what the graph found, and the exact cosine of what only it found."""
    known = {hit.key for hit in ranked}
    reached = sorted(association.walked.keys() - known)
    known |= index.visible(reached, reach=reach)
    by_graph = {
        WALKED: association.walked,
        BRIDGED: association.bridged,
        ENTITLED: association.entitled,
        NAMED: association.named,
    }
    wide = {name: {key: score for key, score in scores.items() if key in known} for name, scores in by_graph.items()}
    vectors = arms.get(VECTORS, {})
    if question.vector is not None:
        vectors = {**vectors, **index.similarities(question.vector, sorted(known - vectors.keys()))}
    return {**arms, VECTORS: vectors, **wide}


def _weighed_apart(heads: Mapping[int, PassageHead]) -> dict[int, Mapping[str, float]]:
    """Give the weights of passages that are not prose: what finds a turn or a symbol is not what finds a paragraph."""
    return {
        key: DIALOGUE_WEIGHTS if is_turn(head) else CODE_WEIGHTS
        for key, head in heads.items()
        if is_turn(head) or head.role != "prose"
    }


def _associated(
    question: Question,
    ranked: Sequence[Fused],
    arms: Mapping[str, Mapping[int, float]],
    *,
    index: Index,
    reach: Reach,
) -> Association | None:
    """Walk the graph, which knows only what is current. A plain lookup is served best by what it names."""
    if reach.at is not None or reach.withdrawn or not ranked or _is_lookup(question, arms):
        return None
    found = [(hit.key, hit.score) for hit in ranked[:POOL]]
    return associate(question.text, question.terms, found, graph=index.graph, reach=reach)


def _is_lookup(question: Question, arms: Mapping[str, Mapping[int, float]]) -> bool:
    return bool(arms[PLACES]) or len(question.text.split()) <= _LOOKUP_WORDS


def _told(association: Association, index: Index) -> dict[str, Any]:
    """Say where the walk began, in names."""
    facts = association.facts
    ends = {end for fact in facts for end in (fact.subject, fact.object)}
    names = index.graph.names(sorted(ends | association.seeds.keys()))
    return {
        "seeds": {names[node]: round(weight, 6) for node, weight in association.seeds.items() if node in names},
        "facts": [f"{names.get(fact.subject, '')} — {names.get(fact.object, '')} ({fact.score:.3f})" for fact in facts],
        "reached": len(association.walked),
    }


def _why_not_walked(reach: Reach) -> str:
    past = reach.at is not None or reach.withdrawn
    return "not walked: it knows only what is current" if past else "not walked: a lookup needs none"


def _parts_of_names(question: Question, index: Index) -> TextQuery:
    """Give the names to look for as parts of others.

    Looking for a part walks the postings of every three characters of it, which for common ones are long. So in a
    longer question a name that occurs whole is left to the words; a short one may be the beginning of a name.
    """
    names = question.terms.identifiers
    if len(question.text.split()) <= _PART_WORDS:
        return TextQuery(identifiers=names)
    wholes = {name: words[0] for name in names if (words := index_text(name).split())}
    known = index.knows(sorted(set(wholes.values())))
    return TextQuery(identifiers=tuple(name for name in names if wholes.get(name) not in known))


def _places(text: str, index: Index, reach: Reach) -> Sequence[Scored]:
    """Look for an exact id, path or title; a question in many words names none."""
    return index.by_place(text.strip(), reach=reach, limit=POOL) if len(text.split()) <= _PLACE_WORDS else ()


_PLACE_WORDS = 6
_PART_WORDS = 3
_LOOKUP_WORDS = 2


def _related(
    question: Question, arms: Mapping[str, Mapping[int, float]], heads: "_Heads"
) -> dict[str, Mapping[int, float]]:
    """Leave out candidates that share nothing with the question but being the nearest there is.

    Turns stay: short and full of pronouns, they are far from every question.
    """
    found = set().union(*(scores for name, scores in arms.items() if name != VECTORS))
    vectors = arms.get(VECTORS, {})
    if question.vector is None or not vectors:
        return dict(arms)
    far = [key for key, score in vectors.items() if key not in found and score < RELATED_AT]
    if not found and len(far) == len(vectors):
        return {**arms, VECTORS: {}}
    turns = {key for key, head in heads.of(far).items() if is_turn(head)}
    dropped = set(far) - turns
    return {**arms, VECTORS: {key: score for key, score in vectors.items() if key not in dropped}}


class _Heads:
    """Heads of passages, each read once per question."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._read: dict[int, PassageHead] = {}

    def of(self, keys: Iterable[int]) -> dict[int, PassageHead]:
        """Give the heads of passages; what is gone meanwhile has none."""
        wanted = list(keys)
        self._read |= self._index.heads([key for key in wanted if key not in self._read])
        return {key: self._read[key] for key in wanted if key in self._read}


def _recheck(
    ranked: Sequence[Fused], heads: Mapping[int, PassageHead], *, ledger: Ledger, reach: Reach, limit: int
) -> tuple[list[Hit], int]:
    """Read candidates again from the ledger, in rank order, until enough of them hold."""
    states = ledger.heads((head.object_id for head in heads.values()), as_of=reach.at)
    hits: list[Hit] = []
    dropped = 0
    for start in range(0, len(ranked), limit):
        batch = [(fused, heads[fused.key]) for fused in ranked[start : start + limit] if fused.key in heads]
        seen = [(fused, head) for fused, head in batch if is_shown(states.get(head.object_id), reach)]
        words = _words([head for _, head in seen], ledger, reach)
        for fused, head in seen:
            if head.key in words:
                text, locator = words[head.key]
                hits.append(Hit(head, states[head.object_id], text, locator, fused.score, fused))
        dropped += len(batch) - len(seen)
        if len(hits) >= limit:
            break
    return hits[:limit], dropped


def is_shown(state: Head | None, reach: Reach) -> bool:
    """Tell whether an object in this state may be shown to a read: scope and status, filters apart."""
    if state is None:
        return False
    shown = reach.withdrawn or state.status in CURRENT[state.type]
    return shown and sees(reach.scope, state.scope, descend=reach.descend)


def _words(heads: Sequence[PassageHead], ledger: Ledger, reach: Reach) -> dict[int, tuple[str, Locator | None]]:
    """Read the words of passages: segments one by one, objects in their text form."""
    if reach.at is not None or reach.withdrawn:
        segments = {(head.object_id, head.part): _past_segment(head, ledger, reach) for head in heads if head.part}
    else:
        segments = dict(ledger.segments([(head.object_id, head.part) for head in heads if head.part]))
    words: dict[int, tuple[str, Locator | None]] = {}
    for head in heads:
        segment = segments.get((head.object_id, head.part))
        if segment:
            words[head.key] = (segment.excerpt, segment.locator)
        elif not head.part:
            item = ledger.get(head.object_id, as_of=reach.at)
            words[head.key] = (passages_of(item)[0].text, None)
    return words


def _past_segment(head: PassageHead, ledger: Ledger, reach: Reach) -> Segment | None:
    if reach.at is None:
        return ledger.segment(head.object_id, head.part)
    item = ledger.get(head.object_id, as_of=reach.at)
    parts = item.segments if isinstance(item, Source) else ()
    return next((part for part in parts if part.segment_id == head.part), None)


def _diverse(hits: Sequence[Hit], *, limit: int, max_per_source: int | None) -> list[Hit]:
    candidates = [Candidate(hit.head.key, hit.score, hit.head.object_id, hit.text) for hit in hits]
    chosen = diversify(candidates, limit, max_per_source=max_per_source)
    by_key = {hit.head.key: hit for hit in hits}
    return [by_key[key] for key in chosen.keys]


def _scores(found: Sequence[Scored]) -> dict[int, float]:
    return {hit.key: hit.score for hit in found}
