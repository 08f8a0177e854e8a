"""The options of reads, and the reach and the question that they mean."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace
from datetime import date, datetime
from functools import cache
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any, get_args

from pydantic import AfterValidator, BeforeValidator, Field, ValidationInfo

from treering.core.canonical import parse_time
from treering.core.errors import InvalidInput, NotFound
from treering.core.filters import EVERYTHING, Filter, comparisons, matches, parse_filter
from treering.core.objects import TYPES, Channel, Object
from treering.ports.index import one_moment
from treering.ports.ledger import AsOf, Selection
from treering.ports.passages import Reach
from treering.ports.search import TextRequest
from treering.retrieval.index.code_places import PLACE_ROLES
from treering.retrieval.index.passages import passages_of, record_of
from treering.retrieval.index.rounds import lag_of
from treering.retrieval.search.fusion import QUICK
from treering.retrieval.search.question import Question
from treering.retrieval.search.reranking import MOST_PAIRS, Reranking
from treering.retrieval.text.misspelling import spellings_of
from treering.retrieval.text.time_zones import TimeZone, is_day, parse_zone
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call, Value
from treering.verbs.index_warnings import lag_seen
from treering.verbs.scoped_ledger import whole
from treering.verbs.short_ids import full_id, is_id

if TYPE_CHECKING:
    from treering.retrieval.search.retrieval import Hit

_LAST_SEQUENCE = 2**63 - 1
_NO_RERANKER = "Set TREERING_RERANKER=onnx:FOLDER, or open the space with reranker=…; or omit options.rerank."


def _is_not_blank(text: str, about: ValidationInfo) -> str:
    if not text.strip():
        raise ValueError(f"the {about.field_name} is empty")
    return text


Asked = Annotated[str, Field(min_length=1), AfterValidator(_is_not_blank)]
"""The text of a question or task; not blank."""
Searched = Annotated[str, AfterValidator(lambda text, about: text and _is_not_blank(text, about))]
"""The text of a search: empty, or not blank."""


def _is_zone(name: str) -> str:
    try:
        parse_zone(name)
    except InvalidInput as error:
        raise ValueError(f"{error.message} {error.hint}") from error
    return name


TimeZoneName = Annotated[str, Field(max_length=80), AfterValidator(_is_zone)]
"""The name of a time zone; empty for the zone in the settings."""


def _as_text(as_of: object) -> object:
    return as_of.isoformat() if isinstance(as_of, date) else as_of


class ReadOptions(Value):
    """Options of every read."""

    as_of: Annotated[
        Annotated[int, Field(ge=0, le=_LAST_SEQUENCE)] | str | None,
        BeforeValidator(_as_text),
    ] = Field(
        default=None,
        description="The content recorded by this audit sequence number, ISO time, or the end of this day.",
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


def moment_of(call: Call, options: ReadOptions) -> AsOf:
    """Return the requested point in history (`parse_moment`)."""
    return parse_moment(options.as_of, call.engine.time_zone)


def parse_moment(as_of: int | str | date | None, zone: TimeZone) -> AsOf:
    """Return a point in history from an audit sequence number, a time, or a day of a zone, which counts to its end.

    Raises `InvalidInput` for anything else.
    """
    match as_of:
        case None | int():
            moment = as_of
        case str() if as_of.isdecimal():
            moment = int(as_of)
        case _:
            text = str(_as_text(as_of))
            return zone.window(None, text)[1] if is_day(text) else parse_time(text)
    if moment is not None and not 0 <= moment <= _LAST_SEQUENCE:
        raise InvalidInput(
            f"{moment} is not an audit sequence number.", hint="Give a number from 0 on, a time or a day."
        )
    return moment


def recorded_later(call: Call, moment: AsOf) -> str:
    """Return a sentence for an empty answer about a point in history; empty for now."""
    if moment is None:
        return ""
    sentence = nothing_recorded(call, moment) or "Nothing about it was recorded by then."
    return f"{sentence} `as_of` is the time of recording, not that of a message."


def nothing_recorded(call: Call, moment: AsOf) -> str:
    """Return a sentence if a point in history is before the first entry; else an empty text."""
    ledger = whole(call.engine.ledger)
    if moment is None or ledger.sequence(moment) or not ledger.sequence():
        return ""
    return f"Nothing was recorded by then; the first entry is from {time_of(call, 1):%Y-%m-%d %H:%M} UTC."


def reach_of(call: Call, options: SearchOptions) -> Reach:
    """Return what a read with these options may see. Raises `InvalidInput` for a bad filter or time."""
    moment = moment_of(call, options)
    at = None if moment is None else call.engine.ledger.sequence(moment)
    return Reach(
        scope=call.scope,
        descend=options.descend,
        where=_checked(parse_filter(options.filter)) if options.filter else EVERYTHING,
        withdrawn=options.withdrawn,
        at=at,
        now=time_of(call, moment),
    )


def object_with_id(call: Call, text: str, reach: Reach) -> Object | None:
    """Return the object whose id a text is, also shortened, whatever its status; `None` if the read excludes it."""
    given, ledger = text.strip(), call.engine.ledger
    if not is_id(given):
        return None
    try:
        item = ledger.get(full_id(whole(ledger), given), as_of=reach.at)
    except (NotFound, InvalidInput):
        return None
    return item if matches(reach.where, record_of(passages_of(item)[0])) else None


def _checked(where: Filter) -> Filter:
    """Return a filter. Raises `InvalidInput` if it compares with a kind, type, status, role or channel of no object."""
    for compare in comparisons(where):
        known = _values().get(compare.field)
        if not known or compare.operator not in ("eq", "ne", "in"):
            continue
        values = compare.value if isinstance(compare.value, tuple) else (compare.value,)
        if unknown := [one for one in values if one not in known]:
            raise InvalidInput(
                f"Unknown {compare.field} {unknown[0]!r}.",
                hint=f"Known: {', '.join(known)}.",
                details={"known": list(known)},
            )
    return where


@cache
def _values() -> Mapping[str, tuple[str, ...]]:
    """Return the values of the fields that have a fixed set of values."""

    def of_objects(field: str) -> tuple[str, ...]:
        values = (get_args(kind.model_fields[field].annotation) for kind in TYPES.values())
        return tuple(dict.fromkeys(chain.from_iterable(values)))

    return {
        "type": tuple(TYPES),
        "kind": of_objects("kind"),
        "status": of_objects("status"),
        "channel": get_args(Channel),
        "role": PLACE_ROLES,
    }


def time_of(call: Call, moment: AsOf) -> datetime:
    """Return the time of a point in history; now for `None`."""
    if isinstance(moment, datetime):
        return moment
    events = whole(call.engine.ledger).events(after=moment - 1, limit=1) if moment else iter(())
    return next((event.timestamp for event in events), call.engine.clock.now())


def selection_of(call: Call, options: ReadOptions, kind: str, where: Filter) -> Selection:
    """Return the selection of the objects of a type that a read covers."""
    moment = moment_of(call, options)
    return Selection(call.scope, descend=options.descend, types=(kind,), where=where, as_of=moment)


def zone_of(call: Call, options: DayOptions) -> TimeZone:
    """Return the time zone in the options, or else in the settings."""
    return parse_zone(options.timezone) if options.timezone else call.engine.time_zone


def question_of(
    call: Call, text: str, *, semantic: bool = True, now: datetime | None = None, zone: TimeZone | None = None
) -> Question:
    """Prepare a question: embed it if passages have vectors, correct misspelt words, split compounds.

    `now` and `zone` are for words such as "yesterday"; default: the clock and the settings.
    """
    engine = call.engine
    with one_moment(engine.index):
        lag = lag_of(engine.index)
        question = Question.of(
            text,
            embedder=None,
            now=now or engine.clock.now(),
            zone=zone or engine.time_zone,
            lag=lag_seen(engine, lag) if lag.pending or lag.behind else lag,
            rarity=engine.rarity,
        )
        question = _corrected(engine, question, Reach(call.scope, descend=True))
    if not semantic:
        return question
    embedder = engine.embedder if lag.without < lag.total else None
    return replace(question, likeness=engine.quick).embedded(embedder, quick=engine.quick if lag.quick else None)


def counts_of(engine: Engine, reach: Reach, terms: Set[str]) -> Mapping[str, int]:
    """Count by term the passages that contain it."""
    (found,) = engine.index.text.search([TextRequest(reach, 0, counted=tuple(sorted(terms)))])
    return found.counts


def _corrected(engine: Engine, question: Question, reach: Reach) -> Question:
    """Correct misspelt words of a question, and split compounds."""
    if doubtful := question.doubtful():
        spellings = {term: spellings_of(term) for term in doubtful - counts_of(engine, reach, doubtful).keys()}
        if spellings:
            question = question.corrected(spellings, counts_of(engine, reach, set().union(*spellings.values())))
    if not (compounds := question.compounds()):
        return question
    parts = {term for one in compounds for term in (*one.whole, *one.parts)}
    return question.with_parts(compounds, counts_of(engine, reach, parts))


def note_recalled(engine: Engine, hits: "Iterable[Hit]") -> None:
    """Embed hits first that have a vector of the quick model only."""
    if keys := [hit.head.key for hit in hits if QUICK in hit.fused.parts]:
        engine.vectoriser.prefer(keys)


def reranking_of(call: Call, options: SearchOptions) -> Reranking | None:
    """Return the reranking that a call requests. Raises `InvalidInput` if the space has no reranker."""
    if not options.rerank:
        return None
    reranker = call.engine.reranker
    if reranker is None:
        raise InvalidInput(f"options.rerank is {options.rerank}, but this space has no reranker.", hint=_NO_RERANKER)
    return Reranking(reranker, options.rerank, call.engine.clock)
