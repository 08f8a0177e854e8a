"""The contents of a space for a page: the state of its log and backlog, and lists of objects."""

from datetime import datetime
from itertools import islice
from typing import Literal

from pydantic import Field

from treering.core.canonical import Instant
from treering.core.characters import one_line
from treering.core.filters import And, Compare, Filter
from treering.core.objects import Knowledge, Object, title_of
from treering.core.policy import CURRENT, is_over
from treering.ports.ledger import Altered, Selection, head_of
from treering.retrieval.index.passages import passages_of
from treering.retrieval.index.rounds import lag_of
from treering.verbs.envelope import READS, Call, Nothing, Operation, Value
from treering.verbs.index_warnings import lag_seen
from treering.verbs.read_reports import altered_warnings
from treering.verbs.reading import ReadOptions, moment_of, time_of
from treering.verbs.stale import stale_knowledge
from treering.verbs.trees import notes_of_objects

_MAX_SCOPES = 200
_MAX_WAITING = 100
_MAX_STATEMENT_CHARS = 200
_MAY_EXPIRE = ("active", "contested")


class OverviewOptions(Value):
    """The moment."""

    as_of: int | None = Field(default=None, ge=0, description="State at this audit sequence number; default: now.")


class Overview(Value):
    """The contents of a space and its pending work."""

    sequence: int
    """The audit sequence number of the newest change; 0 in an empty space."""
    at: Instant | None
    """The time of that event, or of the newest one."""
    scopes: tuple[str, ...]
    """The first scopes below the root."""
    passages: int
    pending_vectors: int
    quick_vectors: int
    """Passages among these that have a vector of the quick model so far."""
    behind: int
    """Objects that the index does not know yet."""
    waiting: int
    """Patches that wait for review, up to a hundred."""


def overview(call: Call, _given: Nothing, options: OverviewOptions) -> Overview:
    """Return the contents of a space and its pending work."""
    ledger = call.engine.ledger
    sequence = ledger.sequence()
    shown = sequence if options.as_of is None else min(options.as_of, sequence)
    lag = lag_seen(call.engine, lag_of(call.engine.index))
    return Overview(
        sequence=sequence,
        at=time_of(call, shown) if shown else None,
        scopes=tuple(ledger.scopes(call.scope)[:_MAX_SCOPES]),
        passages=lag.total,
        pending_vectors=lag.pending,
        quick_vectors=lag.quick,
        behind=lag.behind,
        waiting=len(ledger.patches(status="proposed", limit=_MAX_WAITING)),
    )


class ObjectsInput(Value):
    """The objects to list. Sources are many: use `recent` and `search` for them."""

    type: Literal["knowledge", "work_item", "activity", "node"] = Field(description="Type of object.")
    kinds: tuple[str, ...] = Field(default=(), description="Kinds; empty: all.")
    statuses: tuple[str, ...] = Field(
        default=(), description="Statuses; empty: all. `stale` includes knowledge that is stale only on the branch."
    )


class ObjectsOptions(ReadOptions):
    """The number of objects, and the moment."""

    limit: int = Field(default=100, ge=1, le=1000, description="Maximum number of objects.")
    expired: bool = Field(default=False, description="Only objects past their validity.")


class ListedObject(Value):
    """One object of a list."""

    id: str
    type: str
    kind: str
    status: str
    scope: str
    title: str
    updated_at: Instant
    current: bool
    """Whether it is current."""
    note: str = ""
    """Why it is not current in the requested tree."""
    statement: str = ""
    """What contested knowledge states, on one line."""


class ObjectList(Value):
    """Objects in order of their ids, the newest first."""

    items: tuple[ListedObject, ...]
    more: bool = False
    """Whether there are more than the limit."""
    warnings: tuple[str, ...] = ()


def objects(call: Call, given: ObjectsInput, options: ObjectsOptions) -> ObjectList:
    """List objects of one type."""
    moment = moment_of(call, options)
    altered: Altered = {}
    now = time_of(call, moment)
    selection = Selection(
        scope=call.scope,
        descend=options.descend,
        types=(given.type,),
        where=_where(given, expired=options.expired),
        as_of=moment,
        # One more than the limit, to know whether there are more. The validity is checked below.
        newest=0 if options.expired else options.limit + 1,
    )
    selected = call.engine.ledger.select(selection, altered=altered)
    matching = [item for item in selected if not options.expired or _expired(item, now)]
    stale = _stale(call, given, options, altered)
    if stale is not None:
        others = (item for item in matching if item.status != "stale" and item.id not in stale)
        matching = sorted((*others, *(item for item, _ in stale.values())), key=lambda item: item.id)
    shown = list(islice(reversed(matching), options.limit))
    lost = {identity: f"stale on {tree}" for identity, (_, tree) in (stale or {}).items() if tree}
    notes = {**notes_of_objects(call.tree, call.engine.ledger, map(head_of, shown), read=shown), **lost}
    return ObjectList(
        items=tuple(
            ListedObject(
                id=item.id,
                type=item.type,
                kind=item.kind,
                status=item.status,
                scope=item.scope,
                title=title_of(item),
                updated_at=item.updated_at,
                current=item.status in CURRENT[item.type] and not is_over(item, now=now) and item.id not in notes,
                note=notes.get(item.id, ""),
                statement=_statement(item),
            )
            for item in shown
        ),
        more=len(matching) > len(shown),
        warnings=altered_warnings(altered),
    )


def _statement(item: Object) -> str:
    if not isinstance(item, Knowledge) or item.status != "contested":
        return ""
    return one_line(passages_of(item)[0].text, most=_MAX_STATEMENT_CHARS)


def _stale(
    call: Call, given: ObjectsInput, options: ObjectsOptions, altered: Altered
) -> dict[str, tuple[Knowledge, str]] | None:
    """Return the stale knowledge of the requested kinds as lint reports it; `None` if it is not requested.

    The branches of an earlier moment are unknown, so only the statuses of that moment count then.
    """
    if given.type != "knowledge" or "stale" not in given.statuses or options.as_of is not None:
        return None
    stale = stale_knowledge(call.engine, call.scope, altered)
    return {identity: one for identity, one in stale.items() if not given.kinds or one[0].kind in given.kinds}


def _where(given: ObjectsInput, *, expired: bool) -> Filter:
    conditions = (("kind", given.kinds), ("status", given.statuses), ("status", _MAY_EXPIRE if expired else ()))
    return And(tuple(Compare(field, "in", values) for field, values in conditions if values))


def _expired(item: Object, now: datetime) -> bool:
    return isinstance(item, Knowledge) and item.status in _MAY_EXPIRE and is_over(item, now=now)


OVERVIEW = Operation.of("overview", "Summarize the contents and the backlog of a space.", overview, rights=READS)
OBJECTS = Operation.of("objects", "List the objects of a type, by kind and status.", objects, rights=READS)
