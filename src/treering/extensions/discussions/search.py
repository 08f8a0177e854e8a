"""Search in discussions: by keywords, by the words of a question, by meaning, or as the space itself searches."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Literal, get_args

from treering.core.arguments import check_type
from treering.core.errors import InvalidInput
from treering.core.evidence import Segment, Turn
from treering.core.filters import And, Compare, Filter, Or
from treering.core.objects import Knowledge, Object, Source
from treering.core.policy import CURRENT
from treering.extensions.discussions.keywords import KeywordText, is_question, keywords_of, question_for
from treering.extensions.discussions.summaries.memories import Memory, memories_in
from treering.extensions.statements.conversations import MACHINES
from treering.extensions.statements.reading import statements_of
from treering.extensions.statements.statement import SaidMessage
from treering.ports.ledger import Selection
from treering.ports.models import Excerpt
from treering.ports.passages import PassageHead, PassageRequest, Reach
from treering.ports.search import NamePart, Scored, TextQuery, TextRequest
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.retrieval.index.rounds import lag_of, nearest, run_together
from treering.retrieval.search.known_words import known_words
from treering.retrieval.search.question import Question, asks, asks_about_past, reply_among
from treering.retrieval.search.relevance import Judgement
from treering.retrieval.search.retrieval import retrieval
from treering.retrieval.text.analysis import query_terms
from treering.retrieval.text.time_zones import TimeZone, parse_zone
from treering.retrieval.tuning import TUNING
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call, UnderstoodDays
from treering.verbs.index_warnings import behind_warning, lag_seen
from treering.verbs.read_reports import ONLY_NEAREST, is_empty_scope, lag_warning, understood_days
from treering.verbs.reading import question_of
from treering.verbs.replaced_turns import (
    FoundTurn,
    ReplacingTurn,
    TurnPlace,
    behind_replacements,
    replaced_turns,
)

RecallKind = Literal["memories", "turns", "both"]
RecallMode = Literal["keywords", "natural", "semantic", "hybrid"]


@dataclass(frozen=True, slots=True)
class FieldWeights:
    """The weights of fields. Text without fields, such as a message, counts as a summary."""

    title: float = 2.0
    summary: float = 1.0
    entities: float = 1.5
    key_phrases: float = 1.5
    topics: float = 1.0

    def __post_init__(self) -> None:
        if min(self.title, self.summary, self.entities, self.key_phrases, self.topics) < 0:
            raise InvalidInput("A weight is below 0.", hint="Use 0 for fields that should not count.")


@dataclass(frozen=True, slots=True)
class DiscussionSearch:
    """A search in discussions and its options. Raises `InvalidInput` for invalid values."""

    what: RecallKind = "memories"
    mode: RecallMode = "keywords"
    limit: int = 10
    weights: FieldWeights | None = None
    """Default: `FieldWeights`, but equal weights in the modes `semantic` and `hybrid`."""
    recency: float | None = None
    """The age in days at which the score of a result is halved."""
    since: datetime | None = None
    until: datetime | None = None
    date_prefix: str = ""
    """Only messages of a year (`2024`), a month (`2024-05`) or a day (`2024-05-01`) of the time zone."""
    asked_at: datetime | None = None
    """The time of the question, which determines its "last week" in the mode `hybrid`; default: now."""
    expand_entities: bool = False
    """Whether to add results that share names with the best ones."""
    max_keywords: int = 60
    related: bool = False
    """In the mode `hybrid`: only relevant results, and none if nothing matches the question."""
    timezone: str = ""
    """The time zone of days, such as `Europe/Berlin` or `+05:30`; default: the setting."""

    def __post_init__(self) -> None:
        _check_types(self)
        parse_zone(self.timezone)
        if self.limit < 1 or self.max_keywords < 1:
            raise InvalidInput("A search needs at least one result and at least one keyword.", hint="Use 1 or more.")
        if self.recency is not None and self.recency <= 0:
            raise InvalidInput("recency must be above 0 days.", hint="Give more.")
        if any(time is not None and time.tzinfo is None for time in (self.since, self.until, self.asked_at)):
            raise InvalidInput("A time has no time zone.", hint="Give since, until and asked_at a time zone.")
        if not _DATE.fullmatch(self.date_prefix):
            raise InvalidInput(
                f"{self.date_prefix!r} is not the start of a date.", hint="Use 2024, 2024-05 or 2024-05-01."
            )

    @property
    def timed(self) -> bool:
        """Whether the search is limited to a time."""
        return bool(self.since or self.until or self.date_prefix)

    def passes(self, at: datetime | None, zone: TimeZone | None = None) -> bool:
        """Return whether a message of this time may be shown. Messages without a time pass only without a limit.

        `zone`: the time zone of `date_prefix`; default: its own time zone, or the machine's.
        """
        if at is None:
            return not self.timed
        after, before = self.since is None or at >= self.since, self.until is None or at <= self.until
        return (
            after and before and (zone or parse_zone(self.timezone)).local(at).isoformat().startswith(self.date_prefix)
        )


def _check_types(search: DiscussionSearch) -> None:
    for name, known in (("what", get_args(RecallKind)), ("mode", get_args(RecallMode))):
        if (value := getattr(search, name)) not in known:
            raise InvalidInput(f"Unknown {name} {value!r}.", hint=f"Use one of: {', '.join(known)}.")
    for name in ("limit", "max_keywords"):
        check_type(getattr(search, name), int, name=name, expected="a number")
    for name in ("since", "until", "asked_at"):
        check_type(getattr(search, name), datetime | None, name=name, expected="a datetime")
    for name in ("date_prefix", "timezone"):
        check_type(getattr(search, name), str, name=name, expected="text")
    check_type(search.recency, int | float | None, name="recency", expected="a number of days")


@dataclass(frozen=True, slots=True)
class TurnReply:
    """The message after a question, by another speaker. Of a long message, the first segment."""

    turn: int
    text: str
    segment_id: str
    speaker: str = ""
    at: datetime | None = None


@dataclass(frozen=True, slots=True)
class DiscussionHit:
    """A result. `source_id` and `segment_id` cite a message; a memory is read by its `id`."""

    kind: Literal["memory", "turn"]
    id: str
    first: int
    last: int
    text: str
    score: float
    title: str = ""
    speaker: str = ""
    at: datetime | None = None
    scope: str = ""
    source_id: str = ""
    segment_id: str = ""
    origin: str = ""
    memory: Memory | None = None
    reply: TurnReply | None = None
    """The message that answers a hit ending with a question, if both are in one block."""
    superseded_by: ReplacingTurn | None = None
    """The later message that replaced the statement of this one."""
    contested_by: ReplacingTurn | None = None
    """A message of another person that contradicts this one."""

    @property
    def fields(self) -> Mapping[str, str]:
        """Its texts, by the names of `FieldWeights`."""
        if self.memory is None:
            return {"summary": self.text, "entities": self.speaker}
        item = self.memory.item
        listed = {name: "\n".join(getattr(item, name)) for name in ("entities", "key_phrases", "topics")}
        return {"title": item.title, "summary": item.summary, **listed}


class DiscussionHits(list[DiscussionHit]):
    """The results, best first, and warnings."""

    def __init__(
        self,
        hits: Iterable[DiscussionHit] = (),
        *,
        warnings: Sequence[str] = (),
        understood: Sequence[UnderstoodDays] = (),
    ) -> None:
        super().__init__(hits)
        self.understood: tuple[UnderstoodDays, ...] = tuple(understood)
        """The days that phrases such as "yesterday" were resolved to, in `hybrid` mode."""
        self.warnings: tuple[str, ...] = tuple(warnings)
        """Whether the index is behind, passages lack vectors in a mode that uses them, or there is nothing to find."""


def search(
    engine: Engine, scope: str, query: str, options: DiscussionSearch, *, descend: bool = False, above: str = ""
) -> DiscussionHits:
    """Find memories and messages, best first, in the scope of a discussion, or with `descend` in all below a scope.

    `above`: also search this scope itself, which is above the other.

    Keywords are phrases separated by semicolons; unknown ones find nothing. A question that is a sentence is searched
    by its words. The other modes use the query unchanged. In the mode `hybrid`, messages are in the order of the
    space's own search, but a model's messages that say nothing come last, as in the mode `semantic`; a search for both
    finds messages instead of the memories that rules copied from them. A blank query finds nothing.
    """
    check_type(query, str, name="query", expected="text")
    check_type(options, DiscussionSearch, name="options", expected="a DiscussionSearch")
    if not query.strip():
        return DiscussionHits()
    # Checked before the search: a warning may be outdated when the index catches up, but is never missing.
    lag = lag_seen(engine, lag_of(engine.index))
    run = _Search(engine, scope, descend, options, above)
    hits = run.hits(query)
    if options.expand_entities and hits and len(hits) < options.limit:
        hits += run.relatives(hits)
    by_meaning = options.mode in ("semantic", "hybrid")
    current, unread = run.current_first(hits[: options.limit], query)
    lagging = lag_warning(lag) if by_meaning else behind_warning(lag.behind, exact=lag.exact)
    return DiscussionHits(
        run.with_replies(current),
        warnings=(*run.gaps(hits), *lagging, *unread),
        understood=run.understood(query) if options.mode == "hybrid" else (),
    )


def ranked_by_age(hits: Sequence[DiscussionHit], half_life: float | None) -> list[DiscussionHit]:
    """Return hits, best first. `half_life`: the age in days at which a score is halved."""
    aged = _with_age(hits, half_life) if half_life else hits
    return sorted(aged, key=lambda hit: -hit.score)


def names_of(hit: DiscussionHit) -> tuple[str, ...]:
    """Return the names mentioned in a hit."""
    if hit.memory:
        return hit.memory.item.entities
    (extraction,) = BuiltInExtractor().extract([Excerpt(hit.text, speaker=hit.speaker, form="dialogue")])
    return tuple(entity.name for entity in extraction.entities if entity.name != hit.speaker)


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A passage and its score."""

    head: PassageHead
    score: float


_Ask = Callable[[int], list[_Candidate]]
"""Returns the given number of candidates, best first."""

_Holds = Callable[[KeywordText], list[bool]]
"""Returns for each search term whether a text contains it."""


@dataclass(slots=True)
class _Search:
    """One search with its scope and options. `answered`: whether a hit is relevant, as far as is known."""

    engine: Engine
    scope: str
    descend: bool
    options: DiscussionSearch
    above: str = ""
    answered: bool = True

    @property
    def zone(self) -> TimeZone:
        """The time zone of days in the query."""
        return parse_zone(self.options.timezone) if self.options.timezone else self.engine.time_zone

    def understood(self, query: str) -> tuple[UnderstoodDays, ...]:
        """Return the days that phrases of a question were resolved to."""
        now = self.options.asked_at or self.engine.clock.now()
        return understood_days(Question.of(query, embedder=None, now=now, zone=self.zone), now)

    def hits(self, query: str) -> list[DiscussionHit]:
        match self.options.mode:
            case "keywords":
                hits = self._by_keywords(query)
                return hits if hits or not is_question(query) else self._by_words(query)
            case "natural":
                return self._by_words(query)
            case "semantic":
                return self._ordered(self._enough(lambda limit: self._near(query, limit)), query)
            case "hybrid":
                return self._ordered(self._enough(lambda limit: self._retrieved(query, limit)), query)

    def gaps(self, hits: Sequence[DiscussionHit]) -> tuple[str, ...]:
        """Return a warning if no hit is relevant, or the reason if there are none: no discussion, or no memories."""
        if hits:
            return () if self.answered else (ONLY_NEAREST,)
        if is_empty_scope(self.engine, self.scope):
            return (f"No discussion is stored in {self.scope}.",)
        reach = self._reach()
        memories = Selection(reach.scope, reach.descend, ("knowledge",), reach.where, newest=1)
        if self.options.what == "memories" and not any(self.engine.ledger.select(memories)):
            return ("There are no memories yet. Make them with update, or search messages with what=turns.",)
        return ()

    def relatives(self, hits: Sequence[DiscussionHit]) -> list[DiscussionHit]:
        """Return hits that share names with the best ones, with lower scores than all of them."""
        known, lowest = {hit.id for hit in hits}, min(hit.score for hit in hits)
        names = dict.fromkeys(name for hit in hits[: TUNING.conversations.leading] for name in names_of(hit))
        related = [hit for hit in self._by_keywords("; ".join(names)) if hit.id not in known]
        highest = max((hit.score for hit in related), default=1.0)
        return [replace(hit, score=TUNING.conversations.related * lowest * hit.score / highest) for hit in related]

    def with_replies(self, hits: Sequence[DiscussionHit]) -> list[DiscussionHit]:
        """Return hits with the reply to each message that ends with a question."""
        questions = [hit for hit in hits if hit.kind == "turn" and asks(hit.text)]
        blocks = {identity: self.engine.ledger.get(identity) for identity in {hit.source_id for hit in questions}}
        replies = {hit.id: _reply(hit, blocks[hit.source_id]) for hit in questions}
        return [replace(hit, reply=replies.get(hit.id)) for hit in hits]

    def current_first(self, found: Sequence[DiscussionHit], query: str) -> tuple[list[DiscussionHit], tuple[str, ...]]:
        """Mark messages that later ones replaced, and put each directly behind its replacement.

        Also returns warnings.
        """
        now = self.zone.local(self.options.asked_at or self.engine.clock.now())
        turns = [FoundTurn(_place(one), one.scope, one.origin) for one in found if one.kind == "turn"]
        replaced = replaced_turns(self.engine, turns, query, now)
        marked = [_marked(one, replaced.get(_place(one))) for one in found]
        by_place = {by.place: by for by in replaced.values()}
        ordered = behind_replacements(
            marked,
            {place: by.place for place, by in replaced.items() if by.leads},
            key_of=_place,
            look_up=lambda one, place: self._replacement(one, by_place[place]),
            past=asks_about_past(query),
        )
        return ordered[: self.options.limit], replaced.warnings

    def _replacement(self, one: DiscussionHit, by: ReplacingTurn) -> DiscussionHit | None:
        """Return a message that was not found itself, if it may be shown."""
        if not self.options.passes(by.at, self.zone):
            return None
        return replace(
            one,
            id=by.segment_id,
            source_id=by.source_id,
            segment_id=by.segment_id,
            first=by.turn,
            last=by.turn,
            text=by.text,
            speaker=by.speaker,
            at=by.at,
            superseded_by=None,
            contested_by=None,
        )

    def _by_keywords(self, query: str) -> list[DiscussionHit]:
        keywords = keywords_of(query, most=self.options.max_keywords)
        return self._weighted(question_for(keywords), lambda text: [text.hold(keyword) for keyword in keywords])

    def _by_words(self, query: str) -> list[DiscussionHit]:
        terms = replace(query_terms(query), identifiers=())
        return self._weighted(terms, _holds_words(terms.words))

    def _near(self, query: str, limit: int) -> list[_Candidate]:
        meaning = question_of(Call(self.engine, self.scope), query).meaning
        if meaning is None:
            return []
        (near,) = nearest([meaning.request(reach=self._reach(), limit=limit)], self.engine.index)
        cosines = meaning.cosines(near) | meaning.expected_of(near)
        return self._candidates([Scored(key, score) for key, score in cosines.items()])

    def _retrieved(self, query: str, limit: int) -> list[_Candidate]:
        """Search like the space itself."""
        engine = self.engine
        question = question_of(Call(engine, self.scope), query, now=self.options.asked_at, zone=self.zone)
        reach = self._reach()
        steps = [retrieval(question, reach=reach, limit=limit), known_words(question, reach)]
        results, known = run_together(steps, index=engine.index, ledger=engine.ledger)
        judgement = Judgement.of(known, question, results)
        self.answered = judgement.answers
        weak = judgement.weak if self.options.related else frozenset()
        return [_Candidate(hit.head, hit.score) for hit in results.hits if hit.head.key not in weak]

    def _candidates(self, *rankings: Sequence[Scored]) -> list[_Candidate]:
        """Return the passages of several rankings, best first; the best passage of each ranking scores 1."""
        best: dict[int, float] = {}
        for ranking in rankings:
            top = max((hit.score for hit in ranking), default=0.0) or 1.0
            best |= {hit.key: max(hit.score / top, best.get(hit.key, 0.0)) for hit in ranking}
        (passages,) = self.engine.index.passages.read([PassageRequest(tuple(best))])
        ranked = sorted(passages.heads.values(), key=lambda head: (-best[head.key], head.key))
        return [_Candidate(head, best[head.key]) for head in ranked]

    def _weighted(self, terms: TextQuery, holds: _Holds) -> list[DiscussionHit]:
        """Search for terms, weight hits by the fields that contain some, and drop those without any."""
        reach, names = self._reach(), tuple(map(NamePart, terms.identifiers))

        def ask(limit: int) -> list[_Candidate]:
            request = TextRequest(reach, limit, (*terms.words, *terms.phrases), names=names)
            (answer,) = self.engine.index.text.search([request])
            return self._candidates(answer.words, answer.names)

        weights = self.options.weights or FieldWeights()
        hits = [replace(hit, score=hit.score * _share(hit, holds, weights)) for hit in self._enough(ask)]
        return ranked_by_age([hit for hit in hits if hit.score > 0], self.options.recency)

    def _ordered(self, hits: list[DiscussionHit], query: str) -> list[DiscussionHit]:
        """Keep the order unless weights or recency are given; with weights, fields that contain query words count.

        A model's messages that say nothing, such as `Noted, thank you`, come last: their vectors are near to every
        question.
        """
        recency, weights = self.options.recency, self.options.weights
        holds = _holds_words(query_terms(query).words)
        if weights is not None:
            hits = [replace(hit, score=hit.score * (1 + _share(hit, holds, weights))) for hit in hits]
        ordered = ranked_by_age(hits, recency) if recency or weights is not None else hits
        return sorted(ordered, key=lambda hit: _is_filler(hit) and not any(holds(KeywordText(hit.text))))

    def _enough(self, ask: _Ask) -> list[DiscussionHit]:
        """Request more and more candidates until enough hits pass the filters."""
        options = self.options
        filtered = options.timed or options.recency
        # The summary, the state document and other texts next to memories are no results here.
        spare = 0 if options.what == "turns" else _SPARE_CANDIDATES
        size = max(_MIN_CANDIDATES, _WIDENING * options.limit) if filtered else options.limit + spare
        while True:
            candidates = ask(size)
            hits = [hit for hit in self._read(candidates) if options.passes(hit.at, self.zone)]
            if len(hits) >= options.limit or len(candidates) < size or size >= _MAX_CANDIDATES:
                return hits
            size *= _WIDENING

    def _read(self, candidates: Sequence[_Candidate]) -> list[DiscussionHit]:
        """Read candidates from the ledger; skip those that are not current, and those that are no memory or message."""
        heads = self.engine.ledger.heads(candidate.head.object_id for candidate in candidates)
        current = {identity for identity, head in heads.items() if head.status in CURRENT[head.type]}
        shown = [candidate for candidate in candidates if candidate.head.object_id in current]
        hits = {**self._turns(shown), **self._memories(shown)}
        return [hits[candidate.head.key] for candidate in shown if candidate.head.key in hits]

    def _turns(self, candidates: Iterable[_Candidate]) -> dict[int, DiscussionHit]:
        places = [(each, (each.head.object_id, each.head.part)) for each in candidates if each.head.part]
        segments = self.engine.ledger.segments([place for _, place in places])
        return {
            each.head.key: _turn(each, segments[place], turn)
            for each, place in places
            if place in segments and isinstance(turn := segments[place].locator, Turn)
        }

    def _memories(self, candidates: Iterable[_Candidate]) -> dict[int, DiscussionHit]:
        by_id = {each.head.object_id: each for each in candidates if not each.head.part}
        items = [self.engine.ledger.get(identity) for identity in by_id]
        memories = memories_in(self.engine, [item for item in items if isinstance(item, Knowledge)])
        return {by_id[memory.id].head.key: _memory(by_id[memory.id], memory) for memory in memories}

    def _reach(self) -> Reach:
        below = self.scope.rstrip("/") + "/"
        place: Filter = Compare("scope", "prefix", below) if self.descend else Compare("scope", "eq", self.scope)
        place = Or((place, Compare("scope", "eq", self.above))) if self.above else place
        kinds = [_KINDS[kind] for kind in ("memories", "turns") if self.options.what in (kind, "both")]
        return Reach(self.scope, descend=self.descend, where=And((place, Or(tuple(kinds)))))


def _is_filler(hit: DiscussionHit) -> bool:
    """Return whether a model's message has at most one topic, such as `tell` in `Noted, thank you for telling me`.

    Other scripts than Latin are not judged, because statements are read in English, German and Spanish.
    """
    is_said_by_model = hit.kind == "turn" and hit.speaker.casefold() in MACHINES
    if not is_said_by_model or len(hit.text.split()) > _MAX_EMPTY_WORDS or _OTHER_SCRIPT.search(hit.text):
        return False
    statements = statements_of(SaidMessage(0, "", hit.text))  # none of links and notices of bots
    return bool(statements) and not any(one.values or len(one.topics) > 1 for one in statements)


def _marked(one: DiscussionHit, by: ReplacingTurn | None) -> DiscussionHit:
    if by is None:
        return one
    return replace(one, contested_by=by) if by.contests else replace(one, superseded_by=by)


def _place(one: DiscussionHit) -> TurnPlace:
    return one.source_id, one.segment_id or one.id


def _turn(candidate: _Candidate, segment: Segment, turn: Turn) -> DiscussionHit:
    return DiscussionHit(
        kind="turn",
        id=segment.segment_id,
        first=turn.turn,
        last=turn.turn,
        text=segment.excerpt,
        score=candidate.score,
        speaker=turn.speaker,
        at=turn.at,
        scope=candidate.head.scope,
        source_id=candidate.head.object_id,
        segment_id=segment.segment_id,
        origin=candidate.head.origin,
    )


def _reply(hit: DiscussionHit, block: Object) -> TurnReply | None:
    segments = block.segments if isinstance(block, Source) else ()
    question = next((segment for segment in segments if segment.segment_id == hit.segment_id), None)
    reply = reply_among(question, segments) if question else None
    if reply is None or not isinstance(turn := reply.locator, Turn):
        return None
    return TurnReply(turn.turn, reply.excerpt, reply.segment_id, turn.speaker, turn.at)


def _memory(candidate: _Candidate, memory: Memory) -> DiscussionHit:
    return DiscussionHit(
        kind="memory",
        id=memory.id,
        first=memory.first,
        last=memory.last,
        text=memory.item.summary,
        score=candidate.score,
        title=memory.item.title,
        at=memory.at,
        scope=candidate.head.scope,
        memory=memory,
    )


def _holds_words(words: Sequence[str]) -> _Holds:
    return lambda text: [f" {word} " in text.terms for word in words]


def _share(hit: DiscussionHit, holds: _Holds, weights: FieldWeights) -> float:
    """Return the share of search terms in a hit; each counts with the highest weight of the fields that contain it."""
    rows = [
        [getattr(weights, name) * held for held in holds(KeywordText(text))]
        for name, text in hit.fields.items()
        if text
    ]
    best = [max(column) for column in zip(*rows, strict=True)]
    return sum(best) / len(best) if best else 0.0


def _with_age(hits: Sequence[DiscussionHit], half_life: float) -> list[DiscussionHit]:
    """Reduce scores by age in days. Hits without a time count as the oldest."""
    times = [hit.at for hit in hits if hit.at]
    if not times:
        return list(hits)
    newest, oldest = max(times), min(times)
    days = [(newest - (hit.at or oldest)).total_seconds() / _DAY for hit in hits]
    return [replace(hit, score=hit.score * 0.5 ** (age / half_life)) for hit, age in zip(hits, days, strict=True)]


_DATE = re.compile(r"(\d{4}(-\d\d(-\d\d)?)?)?")
_DAY = 86_400.0
_MAX_EMPTY_WORDS = 12  # longer messages are not read: they say something
_OTHER_SCRIPT = re.compile(r"[^\W\d_\u0000-\u024f]")
_MIN_CANDIDATES = 50  # if results are filtered
_SPARE_CANDIDATES = 5
_WIDENING = 4  # the factor by which more candidates are read if too few remain
_MAX_CANDIDATES = 4_000
_KINDS: Mapping[str, Filter] = {
    "memories": And((Compare("type", "eq", "knowledge"), Compare("kind", "eq", "summary"))),
    "turns": And((Compare("type", "eq", "source"), Compare("kind", "eq", "conversation"))),
}
