"""What all reads share: options, points in time, how a hit is shown, and why an answer is empty."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationInfo

from treering.core.canonical import Instant, parse_time
from treering.core.characters import label
from treering.core.errors import InvalidInput
from treering.core.evidence import Lines, place_in
from treering.core.filters import EVERYTHING, And, Compare, Filter, parse_filter
from treering.core.objects import Knowledge, Object
from treering.core.policy import CURRENT, TrustLevel, is_over
from treering.core.scope import ROOT, is_within
from treering.ports.ledger import AsOf, Head, ObjectRequest
from treering.ports.passages import PassageRequest, Reach
from treering.ports.search import Lag, NamePart, TextRequest
from treering.retrieval.graph.association import WaysBack, passages_on, tell_path
from treering.retrieval.index.code_places import NO_PLACE
from treering.retrieval.index.passages import is_shown, is_withheld, told_once
from treering.retrieval.index.rounds import lag_of
from treering.retrieval.search.fusion import QUICK, WALKED
from treering.retrieval.search.lines import ShownLine, shown_lines
from treering.retrieval.search.question import Question
from treering.retrieval.search.reranking import MOST_PAIRS
from treering.retrieval.search.retrieval import Hit, Retrieval
from treering.retrieval.text.misspelling import spellings_of
from treering.retrieval.text.time_zones import TimeZone, parse_zone
from treering.retrieval.text.typed_words import TypedWords, WordsKnown
from treering.verbs.confined_ledger import ConfinedLedger
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call, Report, UnderstoodDays, Value
from treering.verbs.replaced_turns import ReplacingTurn
from treering.verbs.scoped_ledger import whole
from treering.verbs.trees import notes_of_objects

_LAST_SEQUENCE = 2**63 - 1

WEAK = "weak"
USUAL = frozenset({"active", "finalized", "open"})
"""Statuses that need no mention."""
"""The flag of a hit that has much less to do with the question than the best one, or of all where none answers it."""

SUPERSEDED = "superseded"
"""The flag of a passage on which only superseded knowledge rests."""

EmptyReason = Literal["unknown_entity", "known_but_empty", "out_of_scope", "filtered_out", "not_indexed_yet"]


def _says_something(text: str, about: ValidationInfo) -> str:
    if not text.strip():
        raise ValueError(f"the {about.field_name} is empty")
    return text


Asked = Annotated[str, Field(min_length=1), AfterValidator(_says_something)]
"""What somebody asks; white space asks nothing."""


def _is_zone(name: str) -> str:
    try:
        parse_zone(name)
    except InvalidInput as error:
        raise ValueError(f"{error.message} {error.hint}") from error
    return name


TimeZoneName = Annotated[str, Field(max_length=80), AfterValidator(_is_zone)]
"""The name of a time zone; empty for the one of the settings."""


class ReadOptions(Value):
    """Options of every read."""

    as_of: Annotated[int, Field(ge=0, le=_LAST_SEQUENCE)] | str | None = Field(
        default=None, description="The state at this audit sequence number or ISO time."
    )
    descend: bool = Field(default=False, description="Include scopes below the given one.")
    explain: bool = Field(default=False, description="Explain how each hit was found and ranked.")
    max_tokens: int | None = Field(default=None, ge=50, description="Limit the answer to this many estimated tokens.")
    at: str = Field(
        default="",
        max_length=300,
        description="Answer for this branch or commit; default: the caller's work tree.",
    )
    at_least: int = Field(
        default=0,
        ge=0,
        le=_LAST_SEQUENCE,
        description="A state that includes this audit event, even if a replica is behind.",
    )

    def moment(self) -> AsOf:
        """Return the point in history asked for. Raises `InvalidInput` for a text that is not a time."""
        return parse_time(self.as_of) if isinstance(self.as_of, str) else self.as_of


class DayOptions(ReadOptions):
    """Options of reads that may contain days."""

    timezone: TimeZoneName = Field(
        default="", description="Time zone of days, such as Europe/Berlin or +05:30; default: the setting."
    )


class SearchOptions(DayOptions):
    """Options of ranked reads."""

    limit: int = Field(default=10, ge=1, le=200, description="Maximum number of hits.")
    filter: dict[str, Any] = Field(
        default={}, description='Such as {"type": "knowledge", "updated_at": {"gte": "2026-01-01T00:00:00Z"}}.'
    )
    withdrawn: bool = Field(default=False, description="Include stale, superseded and archived objects.")
    semantic: bool = Field(default=True, description="false: words and names only.")
    deep: bool = Field(default=False, description="Search again with the results: finds more, takes longer.")
    rerank: int = Field(
        default=0,
        ge=0,
        le=MOST_PAIRS,
        description="Rerank this many of the best turns, 20 to 50 ms each.",
    )


class ShownReply(Value):
    """The turn after a hit that ends with a question, by another speaker. `text` is data."""

    segment_id: str
    heading: str
    """The speaker, and the time if known."""
    text: str
    place: str


def no_columns(columns: tuple[int, ...]) -> bool:
    """Return whether all lines are shown from their start."""
    return not any(columns)


class ShownPassage(Value):
    """Another matching passage of a source. `text` is data, whatever its content."""

    text: str
    heading: str
    segment_id: str
    place: str
    score: float
    first_line: int = 0
    lines: tuple[int, ...] = ()
    columns: tuple[int, ...] = Field(default=(), exclude_if=no_columns)
    flags: tuple[str, ...] = ()


def flag_in_words(flag: str) -> str:
    """Return a warning about a text as people read it, such as "repeats the question"."""
    return "repeats the question" if flag == "repeats_question" else flag.replace("_", " ")


class ShownHit(Value):
    """A ranked passage. `text` is data, whatever its content."""

    origin: str
    title: str
    text: str
    score: float
    source_id: str
    segment_id: str
    object_id: str
    type: str
    kind: str
    status: str
    scope: str
    heading: str
    place: str
    """Its place, such as `src/app.py#L10-L20 @ 1f3c…`."""
    first_line: int = 0
    """The number of the first line of `text` in its file; 0 without a file."""
    lines: tuple[int, ...] = ()
    """The lines of `text` to show first, counted from 0: matching lines and their neighbors."""
    columns: tuple[int, ...] = Field(
        default=(), exclude_if=no_columns, description="In each of `lines`, the column at which the answer begins."
    )
    updated_at: Instant
    flags: tuple[str, ...] = ()
    """Warnings, such as `ignore_instructions`; `weak`: it has much less to do with the question than the best hit.

    `superseded`: only knowledge that was superseded rests on it.
    """
    channel: str
    """The channel of its author: `user`, `agent`, `adapter`, `import` or `system`."""
    trust: TrustLevel
    """How far the policy trusts that channel, which counts in the ranking."""
    reply: ShownReply | None = None
    """In a conversation, the turn that answers a hit which ends in a question."""
    current: bool = True
    """Whether it is current in the requested tree."""
    note: str = ""
    """Why it is not: `not on this branch (feature/x)`, `changed since: …`, or `superseded by "TITLE"`."""
    superseded_by: str = Field(
        default="",
        exclude_if=lambda identity: not identity,
        description="For a superseded passage: the id of the knowledge, or source and segment of the turn, that "
        "replaced it.",
    )
    explain: dict[str, Any] | None = None
    more: tuple[ShownPassage, ...] = ()
    """With grouping by source: its other matching passages, best first."""

    @property
    def doubts(self) -> str:
        """Why it is to be read with care: it is not current, hardly trusted, or flagged, for example as `weak`."""
        is_usual = self.status in USUAL and self.current
        state = "" if is_usual else shown_status(self.status, current=self.current, note=self.note)
        flags = warnings_in(self.flags, self.note)
        return "; ".join(filter(None, [state, "low trust" if self.trust == "low" else "", *flags]))


def warnings_in(flags: Iterable[str], note: str) -> list[str]:
    """Return the flags of a text that it does not show by itself, or by its note."""
    shown = ("cut", SUPERSEDED) if note.startswith(SUPERSEDED) else ("cut",)
    return [flag_in_words(flag) for flag in flags if flag not in shown]


class Empty(Value):
    """The reason for an empty answer, with the number of results that would match otherwise."""

    reason: EmptyReason
    count: int = 0
    hint: str


def understood_days(question: Question, now: datetime) -> tuple[UnderstoodDays, ...]:
    """Return what words such as "yesterday" in a question that is asked `now` were taken for."""
    name = question.zone.name(now) if question.understood else ""
    return tuple(
        UnderstoodDays(text=one.text, first=one.first, last=one.last, time_zone=name) for one in question.understood
    )


class ReadReport(Report):
    """Fields of every ranked answer."""

    empty: Empty | None = None
    left_out: tuple[str, ...] = ()
    """Ids that did not fit; fetch them with mode `expand`."""
    as_of: int | None = None
    """The audit sequence number of the answer."""
    answer: str = Field(default="", exclude_if=lambda name: not name, description="Id of this answer for feedback.")
    trace: dict[str, Any] = Field(default={}, description="Details of the search.")

    def named(self) -> Iterable[tuple[str, str, str]]:
        """Return the places that it shows, each by its origin, object and segment."""
        return ()


def reach_of(call: Call, options: SearchOptions) -> Reach:
    """Turn options into what the read may see. Raises `InvalidInput` for a bad filter or time."""
    moment = options.moment()
    at = None if moment is None else call.engine.ledger.sequence(moment)
    return Reach(
        scope=call.scope,
        descend=options.descend,
        where=_confined(call, parse_filter(options.filter) if options.filter else EVERYTHING),
        withdrawn=options.withdrawn,
        at=at,
        now=time_of(call, moment),
    )


def _confined(call: Call, where: Filter) -> Filter:
    """Leave out in the ranking already what a confined caller is shown nothing of, so that it starves no result."""
    ledger = whole(call.engine.ledger)
    return And((where, Compare("scope", "prefix", ledger.scope))) if isinstance(ledger, ConfinedLedger) else where


def time_of(call: Call, moment: AsOf) -> datetime:
    """Return the time a read is about: now, the time it asks for, or that of the event it names."""
    if isinstance(moment, datetime):
        return moment
    events = whole(call.engine.ledger).events(after=moment - 1, limit=1) if moment else iter(())
    return next((event.timestamp for event in events), call.engine.clock.now())


def zone_of(call: Call, options: DayOptions) -> TimeZone:
    """Return the time zone whose days a read means: the one it names, or the one of the settings."""
    return parse_zone(options.timezone) if options.timezone else call.engine.time_zone


def question_of(
    call: Call, text: str, *, semantic: bool = True, now: datetime | None = None, zone: TimeZone | None = None
) -> Question:
    """Prepare a question, asked `now`; no model is asked that no passage has a vector of.

    `zone`: whose days it means; by default as the settings say.
    """
    engine = call.engine
    lag = lag_of(engine.index)
    embedder = engine.embedder if semantic and lag.without < lag.total else None
    quick = engine.quick if lag.quick else None
    question = Question.of(
        text,
        embedder=embedder,
        quick=quick,
        now=now or engine.clock.now(),
        zone=zone or engine.time_zone,
        lag=lag,
        rarity=engine.rarity,
    )
    reach = Reach(call.scope, descend=True)
    if doubtful := question.doubtful():
        misspelt = doubtful - _counts(engine, reach, doubtful).keys()
        spellings = frozenset[str]().union(*map(spellings_of, misspelt))
        question = question.corrected(misspelt, _counts(engine, reach, spellings)) if misspelt else question
    if not (compounds := question.compounds()):
        return question
    parts = {term for one in compounds for term in (*one.whole, *one.parts)}
    return question.with_parts(compounds, _counts(engine, reach, parts))


def _counts(engine: Engine, reach: Reach, terms: Set[str]) -> Mapping[str, int]:
    """Count the passages that have each of some terms."""
    (found,) = engine.index.text.search([TextRequest(reach, 0, counted=tuple(sorted(terms)))])
    return found.counts


def note_recalled(engine: Engine, hits: Iterable[Hit]) -> None:
    """Have those of the hits embedded first that only the quick model has read."""
    if keys := [hit.head.key for hit in hits if QUICK in hit.fused.parts]:
        engine.vectoriser.prefer(keys)


@dataclass(frozen=True, slots=True)
class Replaced:
    """What superseded a passage: knowledge, or a later turn. Neither if the call may not read it."""

    by: Knowledge | None = None
    turn: ReplacingTurn | None = None

    @property
    def note(self) -> str:
        """What is to be said of the passage."""
        if self.turn:
            return f"{SUPERSEDED} {self.turn.words}"
        return f"{SUPERSEDED} by {label(self.by.title)}" if self.by else SUPERSEDED

    @property
    def reference(self) -> str:
        """The id of the knowledge, or the source and segment of the turn."""
        return " ".join(self.turn.place) if self.turn else self.by.id if self.by else ""


def show(
    hit: Hit,
    *,
    now: datetime,
    explanations: "Explanations | None",
    note: str = "",
    weak: bool = False,
    replaced: Replaced | None = None,
) -> ShownHit:
    """Show a hit as a read about the time `now` found it, with why it is there where that is asked for.

    `note`: why it does not hold in the tree that is asked about. `weak`: it is flagged as such.
    """
    head, state = hit.head, hit.state
    note = note or (replaced.note if replaced else "")
    return ShownHit(
        origin=head.origin or head.object_id,
        title=head.title,
        text=told_once("", hit.text) if hit.item else hit.text,
        score=round(hit.score, 6),
        source_id=hit.source_id,
        segment_id=head.part,
        object_id=head.object_id,
        type=state.type,
        kind=state.kind,
        status=state.status,
        scope=state.scope,
        heading=head.heading,
        place=place_in(hit.locator, head.origin) if hit.locator else head.object_id,
        first_line=hit.locator.start if isinstance(hit.locator, Lines) else 0,
        updated_at=state.updated_at,
        flags=(*hit.flags, *([WEAK] if weak else []), *([SUPERSEDED] if replaced else [])),
        channel=hit.trusted.channel,
        trust=hit.trusted.level,
        reply=_shown_reply(hit),
        current=not note and state.status in CURRENT[state.type] and not (hit.item and is_over(hit.item, now=now)),
        note=note,
        superseded_by=replaced.reference if replaced else "",
        explain=explanations.of(hit) if explanations else None,
    )


def lines_shown_of(passage: ShownHit | ShownPassage, terms: frozenset[str], *, max_chars: int) -> Iterator[ShownLine]:
    """Write the lines of a passage that answer. `terms`: the index terms of the query; `max_chars`: of one line."""
    return shown_lines(
        passage.text,
        passage.lines,
        terms,
        columns=passage.columns,
        first_line=passage.first_line,
        max_chars=max_chars,
    )


def _shown_reply(hit: Hit) -> ShownReply | None:
    if hit.reply is None:
        return None
    place = place_in(hit.reply.locator, hit.head.origin)
    return ShownReply(segment_id=hit.reply.segment_id, heading=hit.reply.heading, text=hit.reply.excerpt, place=place)


class Explanations:
    """Say of the hits of one retrieval why they are there."""

    def __init__(self, call: Call, retrieval: Retrieval) -> None:
        """Take what was found."""
        self._paths: Mapping[int, list[str]] = {}
        if retrieval.association:
            walked = [hit.head.key for hit in retrieval.hits if WALKED in hit.fused.parts]
            self._paths = _paths_told(call, WaysBack(retrieval.association), walked)

    def of(self, hit: Hit) -> dict[str, Any]:
        """Say per arm which rank and score brought the hit here, and by which way the graph led to it."""
        head = hit.head
        arms = {
            name: {"rank": part.rank, "raw": round(part.raw, 4), "normalised": round(part.normalised, 4)}
            for name, part in hit.fused.parts.items()
        }
        told: dict[str, Any] = {
            "fused": round(hit.fused.score, 4),
            "arms": arms,
            "trust": {"level": hit.trusted.level, "factor": round(hit.trusted.factor, 4)},
        }
        if head.place_role != NO_PLACE:
            told["role"] = head.place_role
        if hit.reply:
            told["reply"] = "The hit ends with a question; the next turn is by another speaker."
        if hit.repeating_factor < 1:
            told["repeats_question"] = {"factor": round(hit.repeating_factor, 4)}
        if hit.adjustment is not None:
            told["feedback"] = {
                "persons": round(hit.adjustment.persons, 4),
                "others": round(hit.adjustment.others, 4),
                **hit.adjustment.counts,
            }
        if hit.reread is not None:
            told["rerank"] = round(hit.reread, 4)
        if (path := self._paths.get(head.key)) is not None:
            told["path"] = path
        return told


def _paths_told(call: Call, ways: WaysBack, keys: Sequence[int]) -> dict[int, list[str]]:
    """Give, by passage key, the way on which the walk came to it, in names; all are read at once."""
    view, paths = ways.view, ways.paths_to(keys)
    nodes = dict.fromkeys(chain.from_iterable(paths))
    passages = tuple(passages_on(nodes, view))
    (found,) = call.engine.index.passages.read([PassageRequest(passages)])
    titles = {key: " — ".join(filter(None, (head.title, head.heading))) for key, head in found.heads.items()}
    names = view.names(list(nodes))
    return {key: tell_path(path, view, names=names, titles=titles) for key, path in zip(keys, paths, strict=True)}


def why_empty(call: Call, question: Question, reach: Reach) -> Empty:
    """Find out why a read gave nothing, from the closest reason to the widest."""
    index = call.engine.index
    if not question.terms.words and not question.terms.identifiers:
        return Empty(reason="unknown_entity", hint="The question has no searchable words.")
    if question.lag.behind:
        # Whatever else were found out would be about the part that the index knows.
        hint = "The index is being rebuilt or updated; try again later."
        return Empty(reason="not_indexed_yet", count=question.lag.behind, hint=hint)
    unfiltered = _matches(call, question, replace(reach, where=EVERYTHING))
    if reach.where != EVERYTHING and unfiltered:
        return Empty(reason="filtered_out", count=unfiltered, hint="The filter excludes every match; loosen it.")
    # Only what options.descend would show: nothing is told of scopes beside this one.
    below = _matches(call, question, replace(reach, where=EVERYTHING, descend=True))
    if below:
        hint = "There are matches below this scope; set options.descend, or name one of those scopes."
        return Empty(reason="out_of_scope", count=below, hint=hint)
    withdrawn = 0 if reach.withdrawn else _matches(call, question, replace(reach, where=EVERYTHING, withdrawn=True))
    if withdrawn:
        hint = "Only withdrawn knowledge matches; options.withdrawn shows it, lint explains it."
        return Empty(reason="known_but_empty", count=withdrawn, hint=hint)
    words = TypedWords.of(question.text).sought()
    terms = {*question.terms.words, *(term for terms in words.values() for term in terms)}
    (found,) = index.text.search([TextRequest(reach, 0, counted=tuple(sorted(terms)))])
    told = WordsKnown.of(words, found.counts).told()
    if question.lag.without and question.is_known:  # a vector would not find what it does not know
        hint = f"{told} Embedding is still running; try again later.".lstrip()
        return Empty(reason="not_indexed_yet", count=question.lag.without, hint=hint)
    if found.counts:
        return Empty(reason="known_but_empty", hint=f"{told} No indexed text mentions that.".lstrip())
    hint = f"{told or 'No word of the question occurs here.'} Add sources that mention it."
    return Empty(reason="unknown_entity", hint=hint)


def scope_warnings(call: Call, options: ReadOptions, found: Iterable[str]) -> tuple[str, ...]:
    """Warn where nothing lies at the scope of a read or below it: then all that is found lies above it.

    `found`: the scopes of what was found.
    """
    if call.scope == ROOT or options.as_of is not None or any(is_within(one, call.scope) for one in found):
        return ()
    above = call.scope.rpartition("/")[0] or ROOT
    if any(is_within(one, call.scope) for one in whole(call.engine.ledger).scopes(above)):
        return ()
    return (f"The scope {call.scope} and the scopes below it are empty; these results are from scopes above it.",)


def lag_warning(lag: Lag) -> tuple[str, ...]:
    """Warn where the index lacks objects or passages have no vector, for meaning is then found less well than words."""
    if not lag.without:
        return behind_warning(lag.behind)
    pending = f"{lag.without} of {lag.total} passages are not embedded yet: they are found only by words and names."
    return (*behind_warning(lag.behind), pending)


def behind_warning(behind: int) -> tuple[str, ...]:
    """Warn of objects or changes that an index does not know yet: what is not found may be there all the same."""
    if not behind:
        return ()
    return (f"The index is being rebuilt or updated: {behind} new or changed objects are not found yet.",)


def warnings_of(question: Question) -> tuple[str, ...]:
    """Warn where an answer may lack something: vectors lag, or the question is longer than what is read of it."""
    if not question.unread:
        return lag_warning(question.lag)
    read = len(question.text)
    cut = f"The question has {read + question.unread} characters; only the first {read} were searched for."
    return (cut, *lag_warning(question.lag))


def altered_warnings(altered: Mapping[str, str]) -> tuple[str, ...]:
    """Warn of what was left out because it is not what the audit log says."""
    shown = [f"{identity} was left out: {what}" for identity, what in sorted(altered.items())[:_ALTERED_SHOWN]]
    more = [f"{len(altered) - len(shown)} more were left out."] if len(altered) > len(shown) else []
    return (*shown, *more, *([_ALTERED_HINT] if shown else []))


_ALTERED_SHOWN = 5
_ALTERED_HINT = "The space's file was changed outside Treering: run lint audit at the scope /."


def answered_sequence(found: Retrieval, reach: Reach) -> int:
    """Return the sequence number an answer stands for."""
    return found.sequence if reach.at is None else reach.at


def parse_moment(text: str | None) -> datetime | None:
    """Read an optional time."""
    return parse_time(text) if text else None


def _matches(call: Call, question: Question, reach: Reach) -> int:
    index, terms = call.engine.index, question.terms
    names = tuple(map(NamePart, terms.identifiers))
    (hits,) = index.text.search([TextRequest(reach, _COUNTED, words=(*terms.words, *terms.phrases), names=names)])
    keys = dict.fromkeys(hit.key for hit in (*hits.words, *hits.names))
    (found,) = index.passages.read([PassageRequest(tuple(keys))])
    # The call's own view may not descend, and below it is where this looks.
    ids = tuple(dict.fromkeys(head.object_id for head in found.heads.values()))
    whole_ones = tuple(head.object_id for head in found.heads.values() if not head.part)
    (read,) = whole(call.engine.ledger).read([ObjectRequest(heads=ids, objects=whole_ones, as_of=reach.at)])
    over = {identity for identity, item in read.objects.items() if is_withheld(item, reach)}
    shown = (head.object_id for head in found.heads.values() if head.object_id not in over)
    return sum(is_shown(read.heads.get(identity), reach) for identity in shown)


_COUNTED = 1000


# Which of some objects stand at the time of a read, for answers that name objects without searching for them.


_STANDING = frozenset[str]().union(*CURRENT.values())
_MAY_BE_OVER = frozenset({"knowledge", "work_item"})


@dataclass(frozen=True, slots=True)
class StandingObjects:
    """Which objects may be presented as how things stand, and what is to be said of those that do not in the tree."""

    ids: frozenset[str]
    notes: Mapping[str, str]

    def __contains__(self, identity: object) -> bool:
        """Tell whether an object may be presented as how things stand."""
        return identity in self.ids

    def note(self, identity: str) -> str:
        """Return why an object does not hold in the tree that is asked about; empty where it does."""
        return self.notes.get(identity, "")


def standing(call: Call, heads: Iterable[Head], moment: AsOf) -> StandingObjects:
    """Return which of the objects may be presented as how things stand, in the tree that is asked about."""
    asked = list(heads)
    notes = notes_of_objects(call.tree, call.engine.ledger, asked)
    current = [head for head in asked if head.status in CURRENT[head.type] and head.id not in notes]
    lasting = tuple(head.id for head in current if head.type in _MAY_BE_OVER)
    if not lasting:
        return StandingObjects(frozenset(head.id for head in current), notes)
    (found,) = call.engine.ledger.read([ObjectRequest(objects=lasting, as_of=moment)])
    now = time_of(call, moment)
    over = {identity for identity, item in found.objects.items() if is_over(item, now=now)}
    return StandingObjects(frozenset(head.id for head in current) - over, notes)


def shown_status(status: str, *, current: bool, note: str = "") -> str:
    """Return a status for people, with what is to be said of it; `over` stands beside one that does not say so."""
    if note.startswith(SUPERSEDED):
        return note
    if note:
        return f"{status}, {note}"
    return status if current or status not in _STANDING else f"{status}, over"


def over_warning(call: Call, item: Object, moment: AsOf) -> tuple[str, ...]:
    """Warn where an object that is shown is over, although its status says nothing of it."""
    if item.status not in CURRENT[item.type] or not is_over(item, now=time_of(call, moment)):
        return ()
    until = getattr(item, "valid_until", None)
    why = f"it was valid until {until:%Y-%m-%d}" if until else "it was archived"
    return (f"{item.id} is not current: {why}.",)
