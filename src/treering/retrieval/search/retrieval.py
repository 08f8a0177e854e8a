"""Retrieve hits for a question: rank candidates in the index, and read them from the ledger without duplicates.

Every hit is read from the ledger, which checks its state, scope and time, so that a late or damaged index never shows
withdrawn objects.
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
from treering.ports.ledger import Head, ObjectRequest, ObjectsFound
from treering.ports.passages import PassageHead, PassageRequest, PassagesFound, Reach
from treering.ports.search import TextFound, TextRequest
from treering.retrieval import limits
from treering.retrieval.graph.association import Association
from treering.retrieval.index.code_places import NO_PLACE
from treering.retrieval.index.passages import is_shown, is_withheld, passages_of, repeats_turns
from treering.retrieval.index.rounds import ModelRequest, Steps
from treering.retrieval.index.ties import is_turn
from treering.retrieval.search.adjustment import Adjusting, Adjustment
from treering.retrieval.search.fusion import Fused
from treering.retrieval.search.idf import IdfWeights
from treering.retrieval.search.later_turns import SaidTurn, raised_scores
from treering.retrieval.search.question import Question, asks, asks_for_state, reply_among
from treering.retrieval.search.ranking import Ranking, form_of, rank
from treering.retrieval.search.reranking import (
    Candidate,
    DiverseChoice,
    Reranking,
    RerankingCost,
    blended,
    diversify,
)
from treering.retrieval.search.trust import (
    Trusted,
    Wording,
    identifiers_in,
    is_name,
    needs_weighing,
    repetition_flags,
    trust_in,
    weigh_by_trust,
)
from treering.retrieval.tuning import TUNING


@dataclass(frozen=True, slots=True)
class CandidateWords:
    """The text of a passage from the ledger, and its object if the passage is a whole object."""

    text: str
    heading: str = ""
    locator: Locator | None = None
    item: Object | None = None
    segment: Segment | None = None
    source: Source | None = None


@dataclass(slots=True)
class CandidateReader:
    """Read candidates from the ledger, each once. Objects that fail verification are left out and noted."""

    reach: Reach
    whole: bool = False
    """Read whole sources instead of their segments."""
    question: Question | None = None
    sequence: int = 0
    """The audit sequence number of the last answer."""
    policy: Policy = field(default_factory=Policy)
    states: dict[str, Head] = field(default_factory=dict)
    altered: dict[str, str] = field(default_factory=dict)
    resting: dict[str, tuple[Head, ...]] = field(default_factory=dict)
    """By source of the segments read, the knowledge with this evidence; empty in reads of the past."""
    _asked: set[int] = field(default_factory=set)
    _segments: dict[tuple[str, str], Segment] = field(default_factory=dict)
    _objects: dict[str, Object] = field(default_factory=dict)

    def read(self, candidates: Sequence[PassageHead], shown: Sequence[PassageHead]) -> Steps[None]:
        """Read the states of `candidates`, and the texts of `shown` that were not read yet."""
        new = [head for head in shown if head.key not in self._asked]
        if not new and not candidates and self.sequence:
            return
        found: ObjectsFound = yield ObjectRequest(
            heads=tuple(dict.fromkeys(head.object_id for head in candidates)),
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
        """Return the objects read that are over, best first."""
        return tuple(item for item in self._objects.values() if is_withheld(item, self.reach))

    def segments(self, heads: Iterable[PassageHead]) -> list[Segment]:
        """Return the segments of passages that were read."""
        segments = (self._segments.get((head.object_id, head.part)) for head in heads)
        return [segment for segment in segments if segment]

    def day_weight(self, words: CandidateWords) -> float:
        """Return the factor of a turn by its day, if the question asks for a single day; else 1."""
        place = words.locator
        if self.question is None or not isinstance(place, Turn):
            return 1.0
        return TUNING.clues.other_day_weight if self.question.is_of_other_day(words.text, place.at) else 1.0

    def words(self, head: PassageHead) -> CandidateWords | None:
        """Return the text of a passage that was read: of its segment, or of its object."""
        item = self._objects.get(head.object_id)
        if segment := self._segments.get((head.object_id, head.part)):
            source = item if isinstance(item, Source) else None
            return CandidateWords(segment.excerpt, segment.heading, segment.locator, segment=segment, source=source)
        if head.part:
            return None
        if item is None or is_withheld(item, self.reach) or repeats_turns(item, self.reach):
            return None
        return CandidateWords(passages_of(item)[0].text, item=item)


_HITS_PER_SPARE = 5
"""The first read of texts includes one spare candidate for this number of hits; mostly no other can be a hit."""

_PAIR = 2

_READ_AT_ONCE = 2
"""Candidates per hit up to which all texts are read at once, because a second read costs more than a few texts."""


@dataclass(frozen=True, slots=True)
class Hit:
    """A passage found, as the ledger has it."""

    head: PassageHead
    state: Head
    text: str
    locator: Locator | None
    score: float
    fused: Fused
    trusted: Trusted
    repeats: bool = False
    item: Object | None = None
    """Its object; `None` for a segment of a source."""
    source_id: str = ""
    """Its source, or the first source of its knowledge."""
    reread: float | None = None
    """The score of the reranker, from 0 to 1; `None` if it was not reranked."""
    adjustment: Adjustment | None = None
    """The change of its score by feedback."""
    segment: Segment | None = None
    """Its segment; `None` for an object."""
    source: Source | None = None
    """The source of its segment, if whole sources were requested."""
    repeating_factor: float = 1.0
    """The factor of its score for repeating the question."""
    reply: Segment | None = None
    """The next turn, if this one ends in a question and another speaker replies."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of text that resembles instructions to a model, and of repeating the question."""
        reply = (self.reply.heading, self.reply.excerpt) if self.reply else ()
        shown = "\n".join((self.head.title, self.head.heading, self.text, *reply))
        return (*instruction_flags(shown), *repetition_flags(self.repeats))

    @property
    def titled_text(self) -> str:
        """Its title, heading and text."""
        return f"{self.head.title}\n{self.head.heading}\n{self.text}"

    @property
    def text_with_reply(self) -> str:
        """Its text, followed by its reply, if any, with the speaker."""
        if self.reply is None:
            return self.text
        reply = f"{self.reply.heading}: {self.reply.excerpt}" if self.reply.heading else self.reply.excerpt
        return f"{self.text}\n\n{reply}"

    @property
    def repeats_with_less_trust(self) -> bool:
        """Whether it repeats the question and other hits are trusted more."""
        return self.repeats and self.trusted.factor < 1


@dataclass(frozen=True, slots=True)
class Retrieval:
    """Hits, best first, and the trace of the search."""

    hits: tuple[Hit, ...]
    trace: Mapping[str, Any]
    sequence: int
    """The audit sequence number of the ledger at the read."""
    policy: Policy
    """The policy that weighted the hits."""
    association: Association | None = None
    altered: Mapping[str, str] = field(default_factory=dict)
    """By id, the problem of omitted objects that differ from the audit log."""
    over: tuple[Object, ...] = ()
    """Omitted objects that are over, with a current status."""
    reranking: RerankingCost | None = None
    """The cost of reranking, if it was requested."""
    further: tuple[Hit, ...] = ()
    """The best passage of each further file of a project, best first, if files were requested."""
    resting: Mapping[str, tuple[Head, ...]] = field(default_factory=dict)
    """By source of the candidates, the knowledge with this evidence; empty for a read of the past."""
    unrelated: bool = False
    """Whether no hit has a word of the question or is near it, so that these are only the nearest."""

    @property
    def outdated(self) -> frozenset[str]:
        """The sources of superseded knowledge."""
        resting = self.resting.items()
        return frozenset(source for source, heads in resting if any(one.status == "superseded" for one in heads))


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
    """Find the passages that answer a question within reach, in steps (see `retrieval.index.rounds`).

    `deep` costs more and finds more (see `ranking.rank`). With `by_source` the limit counts sources, with up to
    `by_source` passages of each. With `reranking` the best turns of conversations are reranked (`_rerank`). With
    `repeating` duplicates are returned, too, for callers that count or remove them. With `whole` each hit has its whole
    source, which should be small. `adjusting` returns the feedback on a passage. `further` is the number of additional
    files of projects to return, by their best candidates.
    """
    wanted = max(limit * limits.CANDIDATES_PER_HIT, reranking.pairs if reranking else 0)
    ranking = yield from rank(question, reach=reach, limit=wanted, deep=deep)
    ranked = [(fused, ranking.heads[fused.key]) for fused in ranking.hits if fused.key in ranking.heads]
    if by_source:
        ranked = _of_best_sources(ranked, sources=limit * limits.SOURCES_PER_HIT, passages=by_source)
        limit = max(len(ranked), 1)
    reader = CandidateReader(reach, whole, question)
    # These are mostly the ones shown, so their texts are read together with the states of all.
    few = len(ranked) <= limit * _READ_AT_ONCE
    at_first = max(len(ranked) if few else _with_spare(limit), reranking.pairs if reranking else 0)
    heads = [head for _, head in ranked]
    yield from reader.read(heads, [*heads[:at_first], *_of_further_files(heads, at_first, further)])
    found, dropped = _weighed(ranked, reader)
    if adjusting:
        found = adjusted(found, adjusting)
    found, cost = yield from _rerank(question.text, found, reader, reranking)
    found = yield from _with_later_turns(question, found, reader)
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
    return Retrieval(
        tuple(hits), trace, *seen, association, altered, over, cost, files, reader.resting, ranking.unrelated
    )


def read_hits(heads: Sequence[PassageHead], question: Question, reach: Reach) -> Steps[list[Hit]]:
    """Read passages that were not found by a ranking, as hits with the score 1, in order."""
    reader = CandidateReader(reach, question=question)
    yield from reader.read(heads, heads)
    candidates, _ = _weighed([(Fused(head.key, 1.0, {}), head) for head in heads], reader)
    wording = Wording.of(question.text)
    return [_hit(one, words, reader, wording) for one in candidates if (words := reader.words(one.head))]


def _with_spare(count: int) -> int:
    return count + ceil(count / _HITS_PER_SPARE)


def _of_best_sources(
    ranked: Sequence[tuple[Fused, PassageHead]], *, sources: int, passages: int
) -> list[tuple[Fused, PassageHead]]:
    """Return the best passages of the best sources."""
    counts: dict[str, int] = {}
    best = []
    for fused, head in ranked:
        if head.object_id in counts or len(counts) < sources:
            counts[head.object_id] = counts.get(head.object_id, 0) + 1
            if counts[head.object_id] <= passages:
                best.append((fused, head))
    return best


def _of_further_files(heads: Sequence[PassageHead], at_first: int, most: int) -> list[PassageHead]:
    """Return the best passages of files that are not among the first candidates."""
    near = {head.object_id for head in heads[:at_first]}
    best: dict[str, PassageHead] = {}
    for head in heads[at_first:] if most else ():
        if head.place_role != NO_PLACE and head.object_id not in near:
            best.setdefault(head.object_id, head)
    return list(islice(best.values(), most))


def _further(
    found: Sequence["_ShownCandidate"], hits: Sequence[Hit], reader: CandidateReader, wording: Wording, *, most: int
) -> tuple[Hit, ...]:
    """Return the best passage of each file without a hit, of the passages that were read, without copies."""
    if not most:
        return ()
    shown = {hit.head.object_id for hit in hits}
    best: dict[str, Hit] = {}
    for one in found:
        if one.head.place_role != NO_PLACE and one.head.object_id not in shown and (words := reader.words(one.head)):
            best.setdefault(one.head.object_id, _hit(one, words, reader, wording))
    distinct = set(_diverse([*hits, *best.values()], limit=len(hits) + len(best)).keys)
    return tuple(islice((hit for hit in best.values() if hit.head.key in distinct), most))


@dataclass(frozen=True, slots=True)
class _ShownCandidate:
    """A candidate that may be shown, before its text is read; `score` includes trust."""

    head: PassageHead
    state: Head
    score: float
    fused: Fused
    trusted: Trusted
    reread: float | None = None
    adjustment: Adjustment | None = None


def adjusted(found: Sequence[_ShownCandidate], adjusting: Adjusting) -> list[_ShownCandidate]:
    """Adjust the scores of candidates by feedback, and rank them again.

    The feedback of persons takes precedence. Other feedback does not change candidates that a person marked, and does
    not lift a candidate above one that a person marked right.
    """
    candidates = [replace(one, adjustment=adjusting(one.head.object_id, one.head.part)) for one in found]
    by_persons = [
        replace(one, score=one.score * (1 + one.adjustment.persons)) if one.adjustment else one for one in candidates
    ]
    marked = sorted(one.score for one in by_persons if one.adjustment and one.adjustment.persons > 0)
    return sorted((_by_others(one, marked) for one in by_persons), key=lambda one: -one.score)


def _by_others(one: _ShownCandidate, marked: Sequence[float]) -> _ShownCandidate:
    """Adjust a candidate by other feedback; `marked` are the scores of candidates that persons marked right."""
    if one.adjustment is None or one.adjustment.persons or not one.adjustment.others:
        return one
    least = next((score for score in marked if score >= one.score), inf)
    lifted = one.score * (1 + one.adjustment.others)
    # Just below, because ties would be in the previous order.
    return replace(one, score=min(lifted, max(one.score, nextafter(least, 0.0))))


def _weighed(ranked: Sequence[tuple[Fused, PassageHead]], reader: CandidateReader) -> tuple[list[_ShownCandidate], int]:
    """Leave out the candidates that may not be shown, by their state in the ledger, and weight the others by trust."""
    shown = [
        (fused, head, state)
        for fused, head in ranked
        if (state := reader.states.get(head.object_id)) and is_shown(state, reader.reach)
    ]
    trust = trust_in({state.id: (state.origin_channel, state.status) for _, _, state in shown}, reader.policy)
    candidates = [
        _ShownCandidate(head, state, fused.score * trust[state.id].factor, fused, trust[state.id])
        for fused, head, state in shown
    ]
    return sorted(candidates, key=lambda one: -one.score), len(ranked) - len(shown)


def _rerank(
    question: str, found: list[_ShownCandidate], reader: CandidateReader, reranking: Reranking | None
) -> Steps[tuple[list[_ShownCandidate], RerankingCost | None]]:
    """Rerank the best candidates if nearly all of the first ones are turns.

    Reranking raises recall only for turns, because the first hop of a chain of statements does not answer the question
    (`docs/decisions`).
    """
    if reranking is None or not found:
        return found, None
    if form_of(one.head for one in found) != "turn":
        return found, reranking.not_done()
    best = found[: reranking.pairs]
    yield from reader.read((), [one.head for one in best])
    texts = {one.head.key: _with_speaker(words) for one in best if (words := reader.words(one.head))}
    readable = [one for one in best if one.head.key in texts]
    reread: Sequence[float]
    cost: RerankingCost
    reread, cost = yield ModelRequest(partial(reranking.of, question, list(texts.values())))
    scores = blended([one.score for one in readable], reread, [one.trusted.factor for one in readable])
    each = zip(readable, scores, reread, strict=True)
    scored = [replace(one, score=score, reread=read) for one, score, read in each]
    rest = (one for one in found if one.head.key not in texts)
    return sorted((*scored, *rest), key=lambda one: -one.score), cost


def _with_later_turns(
    question: Question, best: list[_ShownCandidate], reader: CandidateReader
) -> Steps[list[_ShownCandidate]]:
    """Raise turns among the best candidates that are about the same as earlier ones."""
    turns = [one for one in best[: TUNING.later_turns.most] if is_turn(one.head)]
    if len(turns) < _PAIR or question.likeness is None or not asks_for_state(question.text):
        return best
    yield from reader.read((), [one.head for one in turns])
    timed = {
        one.head.key: SaidTurn(words.text, words.locator.at, words.locator.turn, one.score)
        for one in turns
        if (words := reader.words(one.head)) and isinstance(words.locator, Turn) and words.locator.at
    }
    if len(timed) < _PAIR:
        return best
    raised = dict(zip(timed, raised_scores(list(timed.values()), question.likeness), strict=True))
    return sorted((replace(one, score=raised.get(one.head.key, one.score)) for one in best), key=lambda one: -one.score)


def _with_speaker(words: CandidateWords) -> str:
    """Return a turn with its speaker, without its day, which would favor turns of the same day."""
    speaker = words.heading.partition(" (")[0]
    return f"{speaker}: {words.text}" if speaker else words.text


_Choosing = Callable[[Sequence[Hit]], DiverseChoice]


def _read(
    question: Question,
    found: Sequence[_ShownCandidate],
    wording: Wording,
    reader: CandidateReader,
    choosing: _Choosing,
    *,
    limit: int,
) -> Steps[tuple[list[Hit], int]]:
    """Read the texts of candidates from the ledger, in rank order, until the hits are certain; count the duplicates.

    Less trusted candidates that repeat the question do not count, so that many copies do not exclude later ones.
    """
    most = limit * limits.CANDIDATES_PER_HIT
    idf: IdfWeights | None = None
    hits: list[Hit] = []
    weighed, choice = hits, DiverseChoice(())
    start, end = 0, _with_spare(limit)
    while start < len(found):
        batch = found[start:end]
        yield from reader.read((), [one.head for one in batch])
        hits += [_hit(one, words, reader, wording) for one in batch if (words := reader.words(one.head))]
        by_trust: Sequence[Hit] = hits
        if needs_weighing(hits, question.text):
            if idf is None and any(one.repeats for one in hits):
                idf = yield from _idf_of(question, reader.reach)
            by_trust = weigh_by_trust(hits, question.text, idf or IdfWeights())
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


def _still_to_read(
    choice: DiverseChoice, read: Sequence[Hit], rest: Sequence[_ShownCandidate], question: Question, *, limit: int
) -> int:
    """Count the next candidates to read: up to the last that may be a hit or replace a duplicate.

    If hits are missing, estimate how many candidates give them, by the share of hits so far.
    """
    if 0 < len(choice.keys) < limit:
        missing = limit - len(choice.keys)
        return min(len(rest), _with_spare(ceil(missing * len(read) / len(choice.keys))))
    least = min((hit.trusted.weight for hit in read), default=0.0)
    may_be_named = bool(identifiers_in(question.text))  # trust may not count, see `weigh_by_trust`
    highest = ((one.score / one.trusted.factor if may_be_named else one.score, one) for one in rest)
    may_change = (score > choice.open_above or one.trusted.weight > least for score, one in highest)
    return max((at for at, may in enumerate(may_change, start=1) if may), default=0)


def _hit(found: _ShownCandidate, words: CandidateWords, reader: CandidateReader, wording: Wording) -> Hit:
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
    """Add the reply to each turn that ends in a question, read from the ledger."""
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
    """Return the id of the source of a hit, or of the first evidence of its knowledge."""
    if state.type != "knowledge":
        return state.id if state.type == "source" else ""
    refs = item.evidence_refs if isinstance(item, Knowledge) else ()
    return next((ref.source_id for ref in refs if ref.source_id in states), "")


def _head_from_ledger(head: PassageHead, state: Head, words: CandidateWords) -> PassageHead:
    """Return the head of a passage with the values of the ledger, because index values are never shown."""
    title = state.title or state.origin
    if (state.kind, state.scope, title, words.heading, state.origin) == (
        *(head.kind, head.scope, head.title),
        *(head.heading, head.origin),
    ):
        return head
    return head._replace(kind=state.kind, scope=state.scope, title=title, heading=words.heading, origin=state.origin)


def _diverse(hits: Sequence[Hit], *, limit: int) -> DiverseChoice:
    candidates = [Candidate(hit.head.key, hit.score, hit.text, hit.trusted.weight, _exact(hit)) for hit in hits]
    return diversify(candidates, limit)


def _exact(hit: Hit) -> str:
    """Return the type, title and text of an object of the ledger, or of a file without text; empty for a passage.

    Such objects have few words: different ones may have the same text.
    """
    return f"{hit.state.type}\n{hit.titled_text}" if hit.item or not hit.text else ""


def _repeating(hits: Sequence[Hit], *, limit: int) -> DiverseChoice:
    """Choose the best hits, including duplicates."""
    return DiverseChoice(
        tuple(hit.head.key for hit in hits[:limit]),
        open_above=hits[limit - 1].score if 0 < limit <= len(hits) else -inf,
    )
