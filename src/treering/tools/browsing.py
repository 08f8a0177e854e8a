"""`query` in modes `page`, `related`, `recent` and `expand`: going deeper from what an answer named."""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Literal

from pydantic import Field, model_validator

from treering.core.audit import AuditEvent
from treering.core.errors import InvalidInput, NotFound
from treering.core.evidence import Segment
from treering.core.filters import Compare
from treering.core.locator import place_in
from treering.core.objects import Node, Object, ObjectType, Source, title_of
from treering.core.patch import LinkType
from treering.core.references import references_of
from treering.core.times import render_time
from treering.derived.tokens import cut_to_tokens, estimate_tokens
from treering.ports.ledger import AsOf, Selection, head_of
from treering.tools.envelope import Call, Mode, Report, Value
from treering.tools.flagging import flagged
from treering.tools.reading import ReadOptions, parse_moment
from treering.tools.rights import READS
from treering.tools.scoped_ledger import whole
from treering.tools.standing import over_warning, standing

_MOST_SEGMENTS = 200
_DEFAULT_TOKENS = 8_000
_TICK = timedelta(microseconds=1)
_BEGINNING = datetime.min.replace(tzinfo=UTC) + timedelta(days=1)


class PageInput(Value):
    """Which object: its id, or a node's name, slug or alias."""

    id: str = Field(default="", description="An id such as know:01k….")
    name: str = Field(default="", description="A node's name, slug or alias.")

    @model_validator(mode="after")
    def _names_one(self) -> "PageInput":
        if bool(self.id) == bool(self.name):
            raise ValueError("give either 'id' or 'name'")
        return self


class HistoryEntry(Value):
    """One line of an object's history."""

    seq: int
    time: str
    event: str
    actor: str
    status: str = ""
    revision: int | None = None
    reason: str = ""
    patch_id: str = ""


class PageReport(Report):
    """One object with its history, links, and what rests on it."""

    object: dict[str, Any]
    title: str
    history: tuple[HistoryEntry, ...]
    links: tuple[dict[str, str], ...]
    dependents: tuple[str, ...]
    current: bool = True
    """Whether it is how things stand: its status says so, and it is neither past its validity nor archived."""


def page(call: Call, given: PageInput, options: ReadOptions) -> PageReport:
    """Show one object whole."""
    ledger, moment = call.engine.ledger, options.moment()
    item = ledger.get(given.id, as_of=moment) if given.id else _named(call, given.name, options)
    if isinstance(item, Node) and item.merged_into:
        item = ledger.get(item.merged_into, as_of=moment)
    # An object that was seen at that moment may have moved since; what was told of it until then is its page's.
    events = whole(ledger).events_of(item.id)
    until = ledger.sequence(moment)
    shown = shown_object(item, max_tokens=options.max_tokens or _DEFAULT_TOKENS)
    history = tuple(_change(event) for event in events if event.seq <= until)
    return PageReport(
        verb="query",
        mode="page",
        scope=call.scope,
        warnings=(
            *over_warning(call, item, moment),
            *flagged([(item.id, (shown, [change.reason for change in history]))]),
        ),
        ids=(item.id,),
        object=shown,
        title=title_of(item),
        history=history,
        links=tuple(link.model_dump() for link in ledger.links(item.id, as_of=moment)),
        dependents=tuple(_dependents(call, item.id, moment)),
        current=item.id in standing(call, [head_of(item)], moment),
    )


class RelatedInput(Value):
    """Where to start, which relations to follow, how far."""

    id: str = Field(min_length=1, description="The id to start from.")
    types: tuple[LinkType | Literal["refers_to"], ...] = Field(
        default=(), description="Link types to follow; `refers_to` for references in fields. Empty: all."
    )
    direction: Literal["any", "out", "in"] = "any"
    depth: int = Field(default=1, ge=1, le=5)


class Neighbour(Value):
    """An object that was reached, by which relation, from where."""

    id: str
    type: str
    kind: str
    status: str
    title: str
    relation: str
    direction: Literal["out", "in"]
    via: str
    depth: int
    current: bool = True
    """Whether it is how things stand."""


class RelatedReport(Report):
    """Neighbours, nearest first."""

    neighbours: tuple[Neighbour, ...]


def related(call: Call, given: RelatedInput, options: ReadOptions) -> RelatedReport:
    """Walk the links and references around an object, breadth first."""
    moment = options.moment()
    start = call.engine.ledger.get(given.id, as_of=moment)
    seen = {start.id}
    frontier, found = [start.id], list[Neighbour]()
    for depth in range(1, given.depth + 1):
        edges = [edge for identity in frontier for edge in _edges(call, identity, given, moment)]
        fresh = {edge[1]: edge for edge in reversed(edges) if edge[1] not in seen}
        heads = call.engine.ledger.heads(fresh, as_of=moment)
        current = standing(call, heads.values(), moment)
        for identity, (via, _, relation, direction) in fresh.items():
            head = heads.get(identity)
            if head:
                found.append(
                    Neighbour(
                        id=identity,
                        type=head.type,
                        kind=head.kind,
                        status=head.status,
                        title=head.title,
                        relation=relation,
                        direction=direction,
                        via=via,
                        depth=depth,
                        current=identity in current,
                    )
                )
        seen |= fresh.keys()
        # The walk ends where the read's sight ends: what lies behind something hidden would tell of it.
        frontier = sorted(heads)
    return RelatedReport(
        verb="query",
        mode="related",
        scope=call.scope,
        status="ok" if found else "empty",
        warnings=flagged((neighbour.id, neighbour.title) for neighbour in found),
        ids=tuple(neighbour.id for neighbour in found),
        neighbours=tuple(sorted(found, key=lambda one: (one.depth, one.relation, one.id))),
    )


class RecentInput(Value):
    """A window of time; open ends are the beginning and now."""

    since: str | None = Field(default=None, description="ISO time.")
    until: str | None = Field(default=None, description="ISO time.")
    types: tuple[ObjectType, ...] = Field(default=(), description="Object types; empty: all.")
    limit: int = Field(default=50, ge=1, le=1000)


class RecentChange(HistoryEntry):
    """A change, and what it changed."""

    id: str
    type: str
    title: str
    current: bool = True
    """Whether what it changed is how things stand."""


class RecentReport(Report):
    """Changes, newest first."""

    changes: tuple[RecentChange, ...]
    more: int = 0
    """Changes in the window beyond the limit."""


def recent(call: Call, given: RecentInput, options: ReadOptions) -> RecentReport:
    """List what changed in a window of time, the base of reports."""
    ledger = call.engine.ledger
    since, until = parse_moment(given.since), parse_moment(given.until)
    moment = options.moment()
    last = ledger.sequence(moment)
    # An event of the very moment `since` belongs to the window.
    first = ledger.sequence(since - _TICK) if since and since > _BEGINNING else 0
    events = [event for event in whole(ledger).events(after=first, limit=last - first) if _within(event, since, until)]
    heads = ledger.heads((event.target for event in events), as_of=moment)
    shown: list[RecentChange] = []
    for event in reversed(events):
        head = heads.get(event.target)
        if head and (not given.types or head.type in given.types):
            change = _change(event).model_dump()
            shown.append(RecentChange(**change, id=head.id, type=head.type, title=head.title))
    current = standing(call, [heads[change.id] for change in shown[: given.limit]], moment)
    kept = tuple(one.model_copy(update={"current": one.id in current}) for one in shown[: given.limit])
    return RecentReport(
        verb="query",
        mode="recent",
        scope=call.scope,
        status="ok" if kept else "empty",
        warnings=flagged((change.id, (change.title, change.reason)) for change in kept),
        ids=tuple(dict.fromkeys(change.id for change in kept)),
        changes=kept,
        more=len(shown) - len(kept),
    )


class ExpandInput(Value):
    """Ids from an earlier answer: object ids, or `source_id segment_id` for one place."""

    ids: tuple[str, ...] = Field(min_length=1, max_length=100)
    around: int = Field(default=1, ge=0, le=20, description="Segments before and after a place.")


class Expanded(Value):
    """One id, opened."""

    id: str
    title: str
    status: str
    versions: int
    text: str
    places: tuple[str, ...] = ()
    object: dict[str, Any] | None = None
    cut: bool = False
    current: bool = True
    """Whether it is how things stand."""


class ExpandReport(Report):
    """What stands behind the ids, word for word; what is not there is named."""

    items: tuple[Expanded, ...]
    missing: tuple[str, ...] = ()


def expand(call: Call, given: ExpandInput, options: ReadOptions) -> ExpandReport:
    """Open ids: exact source lines with their neighbours, whole objects, number of versions."""
    budget = max(1, (options.max_tokens or _DEFAULT_TOKENS) // len(given.ids))
    items, missing = [], []
    for reference in given.ids:
        try:
            items.append(_expanded(call, reference, given.around, options, budget))
        except NotFound:
            missing.append(reference)
    return ExpandReport(
        verb="query",
        mode="expand",
        scope=call.scope,
        status="ok" if not missing else "partial" if items else "empty",
        warnings=flagged((item.id, (item.title, item.text, item.object)) for item in items),
        ids=tuple(item.id for item in items),
        items=tuple(items),
        missing=tuple(missing),
    )


def shown_object(item: Object, *, max_tokens: int) -> dict[str, Any]:
    """Return an object as JSON data without its salt, long sources cut to whole segments."""
    data = item.model_dump(mode="json", exclude={"salt"})
    if isinstance(item, Source):
        shown, used = list[dict[str, Any]](), 0
        for segment in data["segments"][:_MOST_SEGMENTS]:
            used += estimate_tokens(segment["excerpt"])
            if used > max_tokens and shown:
                break
            shown.append(segment)
        data["segments"], data["segments_left_out"] = shown, len(item.segments) - len(shown)
    return data


def _named(call: Call, name: str, options: ReadOptions) -> Object:
    wanted = name.casefold()
    selection = Selection(
        scope=call.scope,
        descend=options.descend,
        types=("node",),
        where=Compare("status", "eq", "active"),
        as_of=options.moment(),
    )
    for item in call.engine.ledger.select(selection):
        if isinstance(item, Node) and wanted in {text.casefold() for text in (item.name, item.slug, *item.aliases)}:
            return item
    raise NotFound(f"No node in this scope is called {name!r}.", hint="Search for it, or give its id.")


def _edges(
    call: Call, identity: str, given: RelatedInput, moment: AsOf
) -> Iterable[tuple[str, str, str, Literal["out", "in"]]]:
    for link in call.engine.ledger.links(identity, as_of=moment):
        if not given.types or link.type in given.types:
            if link.source == identity and given.direction != "in":
                yield identity, link.target, link.type, "out"
            if link.target == identity and given.direction != "out":
                yield identity, link.source, link.type, "in"
    if not given.types or "refers_to" in given.types:
        if given.direction != "in":
            item = call.engine.ledger.get(identity, as_of=moment)
            yield from ((identity, target, "refers_to", "out") for target in references_of(item))
        if given.direction != "out":
            yield from ((identity, other, "refers_to", "in") for other in _dependents(call, identity, moment))


def _dependents(call: Call, identity: str, moment: AsOf) -> list[str]:
    """Return the knowledge that rests on an object, or rested on it at a point in history."""
    ledger = call.engine.ledger
    now = list(ledger.dependents(identity))
    if moment is None:
        return now
    then = ledger.heads(now, as_of=moment)
    return [other for other in now if other in then and identity in references_of(ledger.get(other, as_of=moment))]


def _within(event: AuditEvent, since: datetime | None, until: datetime | None) -> bool:
    return (since is None or event.timestamp >= since) and (until is None or event.timestamp <= until)


def _change(event: AuditEvent) -> HistoryEntry:
    after = event.after or {}
    return HistoryEntry(
        seq=event.seq,
        time=render_time(event.timestamp),
        event=event.event_type,
        actor=event.actor,
        status=str(after.get("status", "")),
        revision=after.get("revision"),
        reason=event.reason,
        patch_id=event.patch_id,
    )


def _expanded(call: Call, reference: str, around: int, options: ReadOptions, budget: int) -> Expanded:
    identity, _, segment_id = reference.strip().partition(" ")
    item = call.engine.ledger.get(identity, as_of=options.moment())
    versions = item.revision
    current = item.id in standing(call, [head_of(item)], options.moment())
    if not isinstance(item, Source):
        if segment_id:
            raise InvalidInput(f"{identity} has no segments.", hint="Give the id alone.")
        data = shown_object(item, max_tokens=budget)
        return Expanded(
            id=reference,
            title=title_of(item),
            status=item.status,
            versions=versions,
            text=title_of(item),
            object=data,
            current=current,
        )
    parts = _around(call, item, segment_id, around) if segment_id else item.segments
    text = "\n\n".join(part.excerpt for part in parts)
    fitted = cut_to_tokens(text, budget)
    return Expanded(
        id=reference,
        title=item.title,
        status=item.status,
        versions=versions,
        text=fitted,
        places=tuple(place_in(part.locator, item.origin) for part in parts),
        cut=len(fitted) < len(text),
        current=current,
    )


def _around(call: Call, item: Source, segment_id: str, around: int) -> Sequence[Segment]:
    ordered = sorted(item.segments, key=lambda part: part.position)
    for index, part in enumerate(ordered):
        if part.segment_id == segment_id:
            return ordered[max(0, index - around) : index + around + 1]
    return [call.engine.ledger.segment(item.id, segment_id)]


PAGE = Mode(
    "page", "One object with its history, links and dependents.", PageInput, ReadOptions, PageReport, page, rights=READS
)
RELATED = Mode(
    "related",
    "Neighbours of an object by link type, direction and depth.",
    RelatedInput,
    ReadOptions,
    RelatedReport,
    related,
    rights=READS,
)
RECENT = Mode(
    "recent", "What changed, by window of time.", RecentInput, ReadOptions, RecentReport, recent, rights=READS
)
EXPAND = Mode(
    "expand",
    "Exact source lines, neighbours and versions behind ids.",
    ExpandInput,
    ReadOptions,
    ExpandReport,
    expand,
    rights=READS,
)
