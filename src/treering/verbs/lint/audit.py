"""`lint` in mode `audit`: verify the log and the ledger, and list changes with author, values and reason."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from itertools import islice
from typing import Any, ClassVar

from pydantic import Field

from treering.core.audit import Anchor, AuditEvent
from treering.core.canonical import Instant, is_patch, render_time
from treering.core.errors import NotFound, TreeringError
from treering.core.objects import Object
from treering.core.patch import Author, Create, Operation, PatchStatus, RecordedOperation, Update
from treering.core.scope import ROOT, is_within
from treering.core.writing.draft import FieldChange, asked, fields_changed
from treering.ports.ledger import Ledger
from treering.ports.runtime import check_interrupt
from treering.verbs.envelope import READS, Call, Mode, Report, TextInput, Value
from treering.verbs.index_warnings import index_warning
from treering.verbs.naming import id_given
from treering.verbs.query.browsing import shown_object
from treering.verbs.scoped_ledger import scope_of_patch

_EVENTS_PER_BATCH = 500
_SHOWN_TOKENS = 500
_NOT_VERIFIED = "The space does not verify. Run lint audit at the scope / to see what differs."
_DIFFERS = "The index of the space differs from its ledger. Run this at the scope / to see where."
_Revisions = Callable[[str, int], Object | None]


class AuditInput(TextInput):
    """The object whose history to print; empty: the newest changes."""

    TEXT: ClassVar[str] = "id"

    id: str | None = Field(default=None, description="An object or patch id.")
    after: int = Field(default=0, ge=0, description="Show events after this sequence number.")


class AuditOptions(Value):
    """The number of events to show."""

    limit: int = Field(default=200, ge=1, le=10_000, description="Maximum number of events; the newest are shown.")


class AuditedChange(Value):
    """One event of the log. `before` and `after` contain revision, status and content hash, or a link, or a patch."""

    seq: int
    id: str
    timestamp: Instant
    event_type: str
    actor: str
    channel: str
    target: str
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    reason: str
    patch_id: str
    fields: tuple[FieldChange, ...] = ()
    """For a requested object or patch: the changed fields with old and new values."""


class AuditedPatch(Value):
    """A requested patch with its operations."""

    id: str
    source: Author
    operations: tuple[dict[str, Any], ...]
    """The requested operations; after an erasure, only their targets."""
    operations_left_out: int = 0
    reason: str
    status: PatchStatus
    created_at: Instant
    decided_by: str = ""
    reverts: str = ""
    reverted_by: str = ""


class AuditReport(Report):
    """The head of the verified log, and its changes with author and reason."""

    head: Anchor | None
    verified: bool
    problem: str = ""
    differences: tuple[str, ...]
    events: tuple[str, ...]
    """The changes, one line each."""
    changes: tuple[AuditedChange, ...] = ()
    """The same events as values, with old and new values."""
    patch: AuditedPatch | None = None


def audit(call: Call, given: AuditInput, options: AuditOptions) -> AuditReport:
    """Verify the log against its anchor and the ledger against the log; print changes."""
    ledger = call.engine.ledger
    subject = id_given(call.engine, given.id) if given.id else ""
    head, problem, differences = None, "", tuple[str, ...]()
    try:
        call.engine.progress("Verifying the audit log", 0, None)
        head = ledger.verify()
        call.engine.progress("Comparing the index with the ledger", 0, None)
        # The index is compared only with a verified ledger.
        differences = shown_differences(call, call.engine.index.upkeep.differences())
    except TreeringError as error:
        check_interrupt()  # an interrupted audit is no problem of the space
        problem = f"{error.message} {error.hint}" if call.scope == ROOT else _NOT_VERIFIED
    about_subject = (event for event in ledger.events(after=given.after) if not subject or subject in _named_in(event))
    events = _newest(_within(call, about_subject), options.limit)
    about = "" if problem else subject
    return AuditReport(
        verb="lint",
        mode="audit",
        scope=call.scope,
        status="failed" if problem else "ok",
        warnings=index_warning(call.engine) if head else (),
        head=head,
        verified=not problem,
        problem=problem,
        differences=differences,
        events=tuple(map(_line, events)),
        changes=tuple(_changes(ledger, events, whole=bool(about))),
        patch=_patch(ledger, about, options.limit) if is_patch(about) else None,
    )


def shown_differences(call: Call, differences: Sequence[str]) -> tuple[str, ...]:
    """Return the differences at the root; below it only a note, because they name objects of other scopes."""
    return tuple(differences) if call.scope == ROOT or not differences else (_DIFFERS,)


def _named_in(event: AuditEvent) -> tuple[str, str]:
    return event.target, event.patch_id


def _newest(events: Iterable[AuditEvent], limit: int) -> deque[AuditEvent]:
    """Return the last events."""
    return deque(events, maxlen=limit)


def _within(call: Call, events: Iterable[AuditEvent]) -> Iterator[AuditEvent]:
    """Leave out events above the scope; at the root none, not even events of erased objects."""
    if call.scope == ROOT:
        yield from events
        return
    pending = iter(events)
    while batch := list(islice(pending, _EVENTS_PER_BATCH)):
        yield from _below(call, batch)


def _below(call: Call, events: Sequence[AuditEvent]) -> list[AuditEvent]:
    ledger, targets = call.engine.ledger, {event.target for event in events}
    patches = {target for target in targets if is_patch(target)}
    scopes = {identity: head.scope for identity, head in ledger.heads(targets - patches).items()}
    scopes |= {identity: scope_of_patch(ledger, identity) for identity in patches}
    return [event for event in events if is_within(scopes.get(event.target, ROOT), call.scope)]


def _line(event: AuditEvent) -> str:
    what = f"{event.actor} ({event.channel}) {event.event_type} {event.target}{_move(event)}"
    return f"{event.seq} {render_time(event.timestamp)} {what}" + (f": {event.reason}" if event.reason else "")


def _move(event: AuditEvent) -> str:
    """Return the revision and status of an object before and after."""
    before, after = _state(event.before), _state(event.after)
    return f" ({' → '.join(filter(None, (before, after)))})" if before or after else ""


def _state(state: dict[str, Any] | None) -> str:
    # A damaged log is printed as far as it can be read.
    return f"r{state['revision']} {state.get('status', '')}".rstrip() if state and "revision" in state else ""


def _changes(ledger: Ledger, events: Iterable[AuditEvent], *, whole: bool) -> Iterator[AuditedChange]:
    """Return events as values; with `whole`, with the fields of the objects that changed."""
    revision = _revisions(ledger)
    shown = set(AuditedChange.model_fields) - {"fields"}
    for event in events:
        fields = _fields(event, revision) if whole else ()
        yield AuditedChange(**{name: getattr(event, name) for name in shown}, fields=fields)


def _fields(event: AuditEvent, revision: _Revisions) -> tuple[FieldChange, ...]:
    numbers = [(state or {}).get("revision") for state in (event.before, event.after)]
    before, after = (revision(event.target, number) if number else None for number in numbers)
    return fields_changed(before, after) if after and (before or not numbers[0]) else ()


def _revisions(ledger: Ledger) -> _Revisions:
    """Return a function that reads a revision of an object, or `None` if it was erased."""

    @cache
    def history(identity: str) -> Sequence[Object]:
        try:
            return ledger.history(identity)
        except NotFound:
            return ()

    def revision(identity: str, number: int) -> Object | None:
        return next((item for item in history(identity) if item.revision == number), None)

    return revision


def _patch(ledger: Ledger, identity: str, limit: int) -> AuditedPatch | None:
    try:
        record = ledger.patch(identity)
    except NotFound:
        return None
    revision = _revisions(ledger)
    names = set(AuditedPatch.model_fields) - {"operations", "operations_left_out"}
    return AuditedPatch(
        **{name: getattr(record, name) for name in names},
        operations=tuple(_shown_operation(asked(one, revision)) for one in record.operations[:limit]),
        operations_left_out=max(0, len(record.operations) - limit),
    )


def _shown_operation(operation: Operation | RecordedOperation) -> dict[str, Any]:
    """Return an operation as JSON data, with shortened texts of sources, as in `query page`."""
    match operation:
        case Create(object=item):
            return {"op": "create", "object": shown_object(item, max_tokens=_SHOWN_TOKENS)}
        case Update(changes=changes) if "segments" in changes:
            fields = operation.model_dump(mode="json")
            return {**fields, "changes": {**changes, "segments": f"{len(changes['segments'])} segments"}}
        case _:
            return operation.model_dump(mode="json")


AUDIT = Mode.of("audit", "Verify the audit log; who changed what and why.", audit, rights=READS, whole_space=True)
