"""From a question to hits: ranked candidates, read again from the ledger, without repetition.

The index proposes; the ledger decides. A hit is read again from the ledger, where state, scope and time are
checked, so that a late or damaged index can never show what was withdrawn.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from math import ceil, inf, nextafter
from typing import Any

from treering.core.evidence import Locator, Segment, Turn
from treering.core.objects import Knowledge, Object, Source
from treering.core.policy import Policy
from treering.core.screening import instruction_flags
from treering.ports.index import Index
from treering.ports.ledger import Head, Ledger, ObjectRequest, ObjectsFound
from treering.ports.passages import PassageHead, PassageRequest, PassagesFound, Reach
from treering.ports.search import TextFound, TextRequest
from treering.retrieval.graph.association import Association
from treering.retrieval.index.code_places import NO_PLACE
from treering.retrieval.index.passages import is_shown, is_withheld, passages_of
from treering.retrieval.index.rounds import ModelRequest, Steps, run
from treering.retrieval.index.ties import is_turn
from treering.retrieval.search.fusion import Fused
from treering.retrieval.search.idf import IdfWeights
from treering.retrieval.search.question import Question, asks, reply_among
from treering.retrieval.search.ranking import Ranking, form_of, rank
from treering.retrieval.search.reranking import (
    Candidate,
    DiverseChoice,
    Reranked,
    Reranking,
    RerankingCost,
    Rescored,
    diversify,
)
from treering.retrieval.search.trust import (
    FoundText,
    Trusted,
    Weighed,
    Wording,
    identifiers_in,
    is_name,
    needs_weighing,
    repetition_flags,
    trust_in,
    weigh_by_trust,
)
from treering.retrieval.tuning import TUNING

# Reading candidates of a search from the ledger: their states, and the words of some of them.


@dataclass(frozen=True, slots=True)
class CandidateWords:
    """The words of a passage, as the ledger holds them; of one that is a whole object, the object."""

    text: str
    heading: str = ""
    locator: Locator | None = None
    item: Object | None = None
    segment: Segment | None = None
    source: Source | None = None


@dataclass(slots=True)
class CandidateReader:
    """Reads candidates from the ledger, each once; what does not verify is left out and noted."""

    reach: Reach
    whole: bool = False
    """Read sources whole in the place of their segments."""
    question: Question | None = None
    sequence: int = 0
    """The audit sequence number of the newest of the answers."""
    policy: Policy = field(default_factory=Policy)
    states: dict[str, Head] = field(default_factory=dict)
    altered: dict[str, str] = field(default_factory=dict)
    resting: dict[str, tuple[Head, ...]] = field(default_factory=dict)
    """By source of which a segment was read, the knowledge that rests on it; none where it is read as it was."""
    _asked: set[int] = field(default_factory=set)
    _segments: dict[tuple[str, str], Segment] = field(default_factory=dict)
    _objects: dict[str, Object] = field(default_factory=dict)

    def read(self, standing: Sequence[PassageHead], shown: Sequence[PassageHead]) -> Steps[None]:
        """Read the states of candidates, and the texts of some that were not read so far."""
        new = [head for head in shown if head.key not in self._asked]
        if not new and not standing and self.sequence:
            return
        found: ObjectsFound = yield ObjectRequest(
            heads=tuple(dict.fromkeys(head.object_id for head in standing)),
            objects=tuple(dict.fromkeys(head.object_id for head in new if self.whole or not head.part)),
            segments=tuple((head.object_id, head.part) for head in new if head.part and not self.whole),
            resting=tuple(dict.fromkeys(head.object_id for head in new if head.part and self.reach.at is None)),
            as_of=self.reach.at,
            vanished=self.reach.withdrawn and self.reach.at is None,
        )
        self._asked.update(head.key for head in new)
        self.sequence, self.policy = found.sequence, found.policy
        self.states |= found.heads
        self.altered |= found.altered
        self.resting |= {
            identity: tuple(found.heads[one] for one in ids if one in found.heads)
            for identity, ids in found.resting.items()
            if ids
        }
        self._segments |= found.segments
        self._objects |= found.objects
        if self.whole:
            sources = (item for item in found.objects.values() if isinstance(item, Source))
            self._segments |= {(one.id, segment.segment_id): segment for one in sources for segment in one.segments}

    def over(self) -> tuple[Object, ...]:
        """Return the objects that were read and are over, best first."""
        return tuple(item for item in self._objects.values() if is_withheld(item, self.reach))

    def segments(self, heads: Iterable[PassageHead]) -> list[Segment]:
        """Return the segments that were read of some passages."""
        found = (self._segments.get((head.object_id, head.part)) for head in heads)
        return [segment for segment in found if segment]

    def day_weight(self, words: CandidateWords) -> float:
        """Return what the score of a turn counts for, by the day it was said, where a single day is asked for."""
        place = words.locator
        if self.question is None or not isinstance(place, Turn):
            return 1.0
        return TUNING.clues.other_day_weight if self.question.is_of_other_day(words.text, place.at) else 1.0

    def words(self, head: PassageHead) -> CandidateWords | None:
        """Return the words of a passage that was read: those of its segment, or the text form of its object."""
        item = self._objects.get(head.object_id)
        if segment := self._segments.get((head.object_id, head.part)):
            source = item if isinstance(item, Source) else None
            return CandidateWords(segment.excerpt, segment.heading, segment.locator, segment=segment, source=source)
        if head.part:
            return None
        if item is None or is_withheld(item, self.reach):
            return None
        return CandidateWords(passages_of(item)[0].text, item=item)


_AT_FIRST = 1.2
"""Candidates whose texts are read at first, for each hit wanted; mostly no other can be a hit then."""

_ALL_AT_ONCE = 1.75
"""Up to so many candidates, for each hit wanted, are read at once: a second question costs more than a few texts."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage that answers, as the ledger holds it."""

    head: PassageHead
    state: Head
    text: str
    locator: Locator | None
    score: float
    fused: Fused
    trusted: Trusted
    repeats: bool = False
    item: Object | None = None
    """The object whose text form it is; `None` for a segment of a source."""
    source_id: str = ""
    """The source it stands in, or that the knowledge it shows rests on first."""
    reread: float | None = None
    """What the reranker says of it, from 0 to 1 among those it read; `None` where it did not read it."""
    adjustment: "Adjustment | None" = None
    """What feedback adds to its score."""
    segment: Segment | None = None
    """The segment it is; `None` for an object."""
    source: Source | None = None
    """The source it is a segment of, where whole sources were asked for."""
    repeating_factor: float = 1.0
    """What its score was multiplied by because it repeats the question."""
    reply: Segment | None = None
    """The next turn, where this one ends in a question and somebody else speaks next: its answer belongs to it."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Name what in it is shaped like instructions to a model, and whether it repeats the question."""
        replied = (self.reply.heading, self.reply.excerpt) if self.reply else ()
        shown = "\n".join((self.head.title, self.head.heading, self.text, *replied))
        return (*instruction_flags(shown), *repetition_flags(self.repeats))

    @property
    def text_with_reply(self) -> str:
        """What it says, and below that the turn that answers it, if it has one, with who said that."""
        if self.reply is None:
            return self.text
        said = f"{self.reply.heading}: {self.reply.excerpt}" if self.reply.heading else self.reply.excerpt
        return f"{self.text}\n\n{said}"

    @property
    def repeats_with_less_trust(self) -> bool:
        """Return whether it repeats the question and other hits are trusted more."""
        return self.repeats and self.trusted.factor < 1


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Hits, best first, and the trace of how they came to be."""

    hits: tuple[Hit, ...]
    trace: Mapping[str, Any]
    sequence: int
    """The audit sequence number of the ledger that was read."""
    policy: Policy
    """The policy that was in force, by which the hits were weighed."""
    association: Association | None = None
    altered: Mapping[str, str] = field(default_factory=dict)
    """By id, what is wrong with objects that were found and left out: they are not what the audit log says."""
    over: tuple[Object, ...] = ()
    """Objects that were found and left out: their status stands, but they are over."""
    reranking: RerankingCost | None = None
    """What reading the best hits again cost, where that was asked for."""
    further: tuple[Hit, ...] = ()
    """The best passage of each further file of a project, if files were asked for; best first."""
    resting: Mapping[str, tuple[Head, ...]] = field(default_factory=dict)
    """By source in which candidates stand, the knowledge that rests on it; empty for a read of the past."""


@dataclass(frozen=True, slots=True)
class Adjustment:
    """What feedback adds to the score of a passage, as parts of it: that of persons, and that of all others.

    `counts`: what was said how often, such as `right by user`.
    """

    persons: float
    others: float
    counts: Mapping[str, int]


Adjusting = Callable[[str, str], Adjustment | None]
"""From an object and a segment (empty for the object itself) to what feedback says of it for this question."""


def retrieve(
    question: Question,
    *,
    index: Index,
    ledger: Ledger,
    reach: Reach,
    limit: int,
    by_source: int = 0,
    deep: bool = False,
    reranking: Reranking | None = None,
    repeating: bool = False,
    whole: bool = False,
) -> Retrieval:
    """Find the passages that answer a question within reach; `deep` costs more and finds more (see `ranking.rank`).

    With `by_source` the limit counts sources, and so many passages of each are found. With `reranking` the best turns
    of conversations are read again, other hits are not (`_rerank`). With `repeating` hits that say the
    same are all given: for who asks how often something was said, or leaves out repetitions by rules of its own. With
    `whole` each hit comes with all of its source: for sources that are small.
    """
    steps = retrieval(
        question,
        reach=reach,
        limit=limit,
        by_source=by_source,
        deep=deep,
        reranking=reranking,
        repeating=repeating,
        whole=whole,
    )
    return run(steps, index=index, ledger=ledger)


def retrieval(
    question: Question,
    *,
    reach: Reach,
    limit: int,
    by_source: int = 0,
    deep: bool = False,
    reranking: Reranking | None = None,
    repeating: bool = False,
    whole: bool = False,
    adjusting: Adjusting | None = None,
    further: int = 0,
) -> Steps[Retrieval]:
    """Find the passages that answer a question, in steps: see `retrieve`, and `retrieval.index.rounds`.

    `adjusting`: what feedback says of a passage. `further`: files of projects to give beside the hits, by their best
    passages, out of the candidates that were weighed.
    """
    wanted = max(limit * TUNING.candidates.per_hit, reranking.pairs if reranking else 0)
    ranking = yield from rank(question, reach=reach, limit=wanted, deep=deep)
    ranked = [(fused, ranking.heads[fused.key]) for fused in ranking.hits if fused.key in ranking.heads]
    if by_source:
        ranked = _of_best_sources(ranked, sources=ceil(limit * TUNING.candidates.per_source), passages=by_source)
        limit = max(len(ranked), 1)
    reader = CandidateReader(reach, whole, question)
    # Most often these are the ones that are shown: their texts come with the states of all.
    few = len(ranked) <= limit * _ALL_AT_ONCE
    at_first = max(len(ranked) if few else ceil(limit * _AT_FIRST), reranking.pairs if reranking else 0)
    heads = [head for _, head in ranked]
    yield from reader.read(heads, [*heads[:at_first], *_of_further_files(heads, at_first, further)])
    found, dropped = _weighed(ranked, reader)
    if adjusting:
        found = adjusted(found, adjusting)
    found, cost = yield from _rerank(question.text, found, reader, reranking)
    choosing, wording = partial(_repeating if repeating else _diverse, limit=limit), Wording.of(question.text)
    hits, duplicates = yield from _read(question, found, wording, reader, choosing, limit=limit)
    if not by_source:  # passages grouped by source are shown without their replies
        hits = yield from _with_replies(hits, ranking, reader)
    files = _further(found, hits, reader, wording, most=further)
    over = reader.over()
    trace = {**ranking.trace, "dropped": dropped + len(over), "duplicates": duplicates}
    if cost:
        trace["rerank"] = cost.told()
    association, altered = ranking.association, reader.altered
    seen = reader.sequence, reader.policy
    return Retrieval(tuple(hits), trace, *seen, association, altered, over, cost, files, reader.resting)


def read_hits(heads: Sequence[PassageHead], question: Question, reach: Reach) -> Steps[list[Hit]]:
    """Read passages that were found otherwise than by a ranking, as hits of full score, in their order."""
    reader = CandidateReader(reach, question=question)
    yield from reader.read(heads, heads)
    standing, _ = _weighed([(Fused(head.key, 1.0, {}), head) for head in heads], reader)
    wording = Wording.of(question.text)
    return [_hit(one, words, reader, wording) for one in standing if (words := reader.words(one.head))]


def _of_best_sources(
    ranked: Sequence[tuple[Fused, PassageHead]], *, sources: int, passages: int
) -> list[tuple[Fused, PassageHead]]:
    """Keep the best passages of the sources that come first."""
    counts: dict[str, int] = {}
    kept = []
    for fused, head in ranked:
        if head.object_id in counts or len(counts) < sources:
            counts[head.object_id] = counts.get(head.object_id, 0) + 1
            if counts[head.object_id] <= passages:
                kept.append((fused, head))
    return kept


def _of_further_files(heads: Sequence[PassageHead], at_first: int, most: int) -> list[PassageHead]:
    """Return the best passages of files of a project of which none is among the first candidates."""
    near = {head.object_id for head in heads[:at_first]}
    best: dict[str, PassageHead] = {}
    for head in heads[at_first:] if most else ():
        if head.place_role != NO_PLACE and head.object_id not in near:
            best.setdefault(head.object_id, head)
    return list(islice(best.values(), most))


def _further(
    found: Sequence["_Standing"], hits: Sequence[Hit], reader: CandidateReader, wording: Wording, *, most: int
) -> tuple[Hit, ...]:
    """Return the best passage of each file of a project without a hit, out of the passages that were read."""
    shown = {hit.head.object_id for hit in hits}
    best: dict[str, Hit] = {}
    for one in found if most else ():
        if one.head.place_role != NO_PLACE and one.head.object_id not in shown and (words := reader.words(one.head)):
            best.setdefault(one.head.object_id, _hit(one, words, reader, wording))
    return tuple(islice(best.values(), most))


@dataclass(frozen=True, slots=True)
class _Standing:
    """A candidate that may be shown, before its text is read; `score` is weighed by trust."""

    head: PassageHead
    state: Head
    score: float
    fused: Fused
    trusted: Trusted
    reread: float | None = None
    adjustment: Adjustment | None = None


def adjusted(found: Sequence[_Standing], adjusting: Adjusting) -> list[_Standing]:
    """Weigh candidates by feedback, best first.

    That of persons comes first. What others say changes nothing of what a person marked, and lifts nothing above
    what a person marked right that was not above it before.
    """
    told = [replace(one, adjustment=adjusting(one.head.object_id, one.head.part)) for one in found]
    by_persons = [
        replace(one, score=one.score * (1 + one.adjustment.persons)) if one.adjustment else one for one in told
    ]
    marked = sorted(one.score for one in by_persons if one.adjustment and one.adjustment.persons > 0)
    return sorted((_by_others(one, marked) for one in by_persons), key=lambda one: -one.score)


def _by_others(one: _Standing, marked: Sequence[float]) -> _Standing:
    """Weigh a candidate by what others than persons say; `marked` are the scores of what persons marked right."""
    if one.adjustment is None or one.adjustment.persons or not one.adjustment.others:
        return one
    least = next((score for score in marked if score >= one.score), inf)
    lifted = one.score * (1 + one.adjustment.others)
    # Just below: among equals the order before would decide.
    return replace(one, score=min(lifted, max(one.score, nextafter(least, 0.0))))


def _weighed(ranked: Sequence[tuple[Fused, PassageHead]], reader: CandidateReader) -> tuple[list[_Standing], int]:
    """Leave out the candidates that may not be shown, by their state in the ledger, and weigh the rest by trust."""
    shown = [
        (fused, head, state)
        for fused, head in ranked
        if (state := reader.states.get(head.object_id)) and is_shown(state, reader.reach)
    ]
    held = {state.id: (state.origin_channel, state.status) for _, _, state in shown}
    trust = trust_in(held, reader.policy)
    standing = [
        _Standing(head, state, fused.score * trust[state.id].factor, fused, trust[state.id])
        for fused, head, state in shown
    ]
    return sorted(standing, key=lambda one: -one.score), len(ranked) - len(shown)


def _rerank(
    question: str, found: list[_Standing], reader: CandidateReader, reranking: Reranking | None
) -> Steps[tuple[list[_Standing], RerankingCost | None]]:
    """Rank the best candidates by what a reranker says of them too, where nearly all of the first are turns.

    Only there it finds more; the first hop of a chain of statements says nothing of what is asked (`docs/decisions`).
    """
    if reranking is None or not found:
        return found, None
    if form_of(one.head for one in found) != "turn":
        return found, reranking.not_done()
    best = found[: reranking.pairs]
    yield from reader.read((), [one.head for one in best])
    texts = {one.head.key: _with_speaker(words) for one in best if (words := reader.words(one.head))}
    readable = [one for one in best if one.head.key in texts]
    pairs = [Reranked(texts[one.head.key], one.score, one.trusted.factor) for one in readable]
    said: Rescored = yield ModelRequest(partial(reranking.of, question, pairs))
    new = {one.head.key: pair for one, pair in zip(readable, zip(said.scores, said.read, strict=True), strict=True)}
    scored = (replace(one, score=new[one.head.key][0], reread=new[one.head.key][1]) for one in readable)
    rest = (one for one in found if one.head.key not in new)
    return sorted((*scored, *rest), key=lambda one: -one.score), said.cost


def _with_speaker(words: CandidateWords) -> str:
    """Return a turn with the name of who said it; the time it was said pulls turns of one day together."""
    speaker = words.heading.partition(" (")[0]
    return f"{speaker}: {words.text}" if speaker else words.text


_Choosing = Callable[[Sequence[Hit]], DiverseChoice]


def _read(
    question: Question,
    found: Sequence[_Standing],
    wording: Wording,
    reader: CandidateReader,
    choosing: _Choosing,
    *,
    limit: int,
) -> Steps[tuple[list[Hit], int]]:
    """Read the texts of candidates from the ledger, in rank order, until the hits are certain; count what repeats them.

    What repeats the question while others are trusted more is not counted: many copies of it must not keep out what
    comes behind them.
    """
    most = limit * TUNING.candidates.per_hit
    idf: IdfWeights | None = None
    hits: list[Hit] = []
    weighed, choice = hits, DiverseChoice(())
    start, end = 0, ceil(limit * _AT_FIRST)
    while start < len(found):
        batch = found[start:end]
        yield from reader.read((), [one.head for one in batch])
        hits += [_hit(one, words, reader, wording) for one in batch if (words := reader.words(one.head))]
        texts = list(map(_found_text, hits))
        by_trust: Sequence[Hit] = hits
        if needs_weighing(texts, question.text):
            if idf is None and any(one.repeats for one in texts):
                idf = yield from _idf_of(question, reader.reach)
            by_trust = list(map(_weighed_hit, hits, weigh_by_trust(texts, question.text, idf or IdfWeights())))
        weighed = sorted(by_trust, key=lambda hit: -hit.score)[:most]
        choice = choosing(weighed)
        others = sum(not hit.repeats_with_less_trust for hit in hits)
        compared = others < len(hits) or is_name(question.text)
        rivals = min(TUNING.trust.min_rivals - others, len(found) - end) if compared else 0
        more = max(_still_to_read(choice, weighed, found[end:], question, limit=limit), rivals)
        start, end = end, end + more
        if (others >= most and rivals <= 0) or start == end:
            break
    by_key = {hit.head.key: hit for hit in weighed}
    left = len(weighed) - len(choice.keys) if len(choice.keys) < limit else 0
    return [by_key[key] for key in choice.keys], left


def _idf_of(question: Question, reach: Reach) -> Steps[IdfWeights]:
    counted: TextFound = yield TextRequest(reach, 0, counted=tuple(sorted(question.terms.words)))
    return IdfWeights.of(question.terms.words, counted)


def _found_text(hit: Hit) -> FoundText:
    return FoundText(f"{hit.head.title}\n{hit.head.heading}\n{hit.text}", hit.score, hit.trusted, hit.repeats)


def _weighed_hit(hit: Hit, weighed: Weighed) -> Hit:
    return replace(hit, score=weighed.score, trusted=weighed.trusted, repeating_factor=weighed.repeating)


def _still_to_read(
    choice: DiverseChoice, read: Sequence[Hit], rest: Sequence[_Standing], question: Question, *, limit: int
) -> int:
    """Count the next candidates to read: up to the last that may be a hit, or stand for one that repeats it.

    Where hits are missing all that is left may be one; then as many as should give them, by what those read gave.
    """
    if 0 < len(choice.keys) < limit:
        missing = limit - len(choice.keys)
        return min(len(rest), ceil(missing * _AT_FIRST * len(read) / len(choice.keys)))
    least = min((hit.trusted.weight for hit in read), default=0.0)
    may_be_named = bool(identifiers_in(question.text))  # then trust may not count: see `weigh_by_trust`
    highest = ((one.score / one.trusted.factor if may_be_named else one.score, one) for one in rest)
    may_change = (score > choice.open_above or one.trusted.weight > least for score, one in highest)
    return max((at for at, may in enumerate(may_change, start=1) if may), default=0)


def _hit(found: _Standing, words: CandidateWords, reader: CandidateReader, wording: Wording) -> Hit:
    head = _head_from_ledger(found.head, found.state, words)
    return Hit(
        head=head,
        state=found.state,
        text=words.text,
        locator=words.locator,
        score=found.score * reader.day_weight(words),
        fused=found.fused,
        trusted=found.trusted,
        repeats=wording.repeated_in(f"{head.title}\n{head.heading}\n{words.text}"),
        item=words.item,
        segment=words.segment,
        source=words.source,
        source_id=_source_behind(found.state, words.item, reader.states),
        reread=found.reread,
        adjustment=found.adjustment,
    )


def _with_replies(hits: Sequence[Hit], ranking: Ranking, reader: CandidateReader) -> Steps[list[Hit]]:
    """Give each turn that ends in a question the turn that answers it, read from the ledger as every hit is."""
    asking = [hit for hit in hits if is_turn(hit.head) and asks(hit.text)]
    heads, beside = dict(ranking.heads), dict(ranking.beside)
    if unread := tuple(hit.head.key for hit in asking if hit.head.key not in beside):
        near: PassagesFound = yield PassageRequest(unread, beside=True)
        heads |= near.heads
        beside |= near.beside
    others = {hit.head.key: [heads[key] for key in beside.get(hit.head.key, ()) if key in heads] for hit in asking}
    yield from reader.read((), [head for near_hit in others.values() for head in near_hit])
    replies = {
        hit.head.key: reply_among(hit.segment, reader.segments(others[hit.head.key])) for hit in asking if hit.segment
    }
    return [replace(hit, reply=reply) if (reply := replies.get(hit.head.key)) else hit for hit in hits]


def _source_behind(state: Head, item: Object | None, states: Mapping[str, Head]) -> str:
    """Return the id of the source a hit stands in, or that the knowledge it shows rests on first."""
    if state.type != "knowledge":
        return state.id if state.type == "source" else ""
    refs = item.evidence_refs if isinstance(item, Knowledge) else ()
    return next((ref.source_id for ref in refs if ref.source_id in states), "")


def _head_from_ledger(head: PassageHead, state: Head, words: CandidateWords) -> PassageHead:
    """Return a passage's head as the ledger has it: what the index says of it is shown nowhere."""
    told = (state.kind, state.scope, state.title or state.origin, words.heading, state.origin)
    if told == (head.kind, head.scope, head.title, head.heading, head.origin):
        return head
    kind, scope, title, heading, origin = told
    return replace(head, kind=kind, scope=scope, title=title, heading=heading, origin=origin)


def _diverse(hits: Sequence[Hit], *, limit: int) -> DiverseChoice:
    candidates = [Candidate(hit.head.key, hit.score, hit.text, hit.trusted.weight) for hit in hits]
    return diversify(candidates, limit)


def _repeating(hits: Sequence[Hit], *, limit: int) -> DiverseChoice:
    """Choose the best hits, whether or not they say the same."""
    return DiverseChoice(
        tuple(hit.head.key for hit in hits[:limit]),
        open_above=hits[limit - 1].score if 0 < limit <= len(hits) else -inf,
    )
