"""Convert the rows of a ledger to records and back."""

import json
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from itertools import islice
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from treering.core.audit import AuditEvent
from treering.core.canonical import canonical_json
from treering.core.errors import Corrupt, InvalidInput
from treering.core.objects import Object, no_export
from treering.core.patch import PatchRecord
from treering.core.scope import sees
from treering.core.writing.copying import LinkRow
from treering.core.writing.draft import Erased, Put, Write
from treering.ports.index import Change
from treering.ports.ledger import TABLES, Record
from treering.ports.runtime import LONGEST_SECONDS, IsKept, JobRow
from treering.retrieval.index.projection import Named, origins_in, sources_in
from treering.stores.rows.packing import RESTORE, json_of, pack_sealed, row_of, unpack, unpack_json, unpack_sealed
from treering.stores.rows.read_checks import Body, Stored
from treering.stores.rows.verification import EventRow

_LINK_COLUMNS = ("type", "source", "target", "patch_id", "added", "removed")


class ExportedRows(Protocol):
    """The rows of a ledger in one snapshot, each table in the order of its records (`ports.ledger.Record`)."""

    def event_rows(self) -> Iterable[EventRow]:
        """Return the audit log."""
        ...

    def stored_revisions(self) -> Iterable[Stored]:
        """Return the rows of all revisions."""
        ...

    def segment_rows(self) -> Iterable[tuple[str, str, Body]]:
        """Return source id, segment id and text of all segments."""
        ...

    def link_rows(self) -> Iterable[LinkRow]:
        """Return all links."""
        ...

    def patch_rows(self) -> Iterable[tuple[str, str, Body]]:
        """Return id, status and stored record of all patches."""
        ...

    def receipt_rows(self) -> Iterable[tuple[str, Body]]:
        """Return all idempotency keys with their sealed values."""
        ...


class LoadedObjects(Protocol):
    """The object tables of an empty ledger, in the transaction that fills it."""

    def keep_revision(self, identity: str, revision: int, seq: int, stored: str) -> None:
        """Store a revision."""
        ...

    def keep_words(self, source_id: str, segment_id: str, text: str) -> None:
        """Store the text of a segment. Its place is stored later."""
        ...

    def keep_link(self, row: LinkRow) -> None:
        """Store a link."""
        ...

    def revision(self, identity: str, number: int) -> Object | None:
        """Return one of the stored revisions."""
        ...

    def settle_loaded(self, item: Object) -> None:
        """Update the tables that are read in place of revisions."""
        ...


class LoadedLog(Protocol):
    """The log of an empty ledger, in the transaction that fills it."""

    def keep_events(self, events: Sequence[AuditEvent]) -> None:
        """Store events."""
        ...

    def keep_new_records(self, records: Sequence[PatchRecord]) -> None:
        """Store the records of new patches."""
        ...

    def keep_key(self, key: str, outcome: str) -> None:
        """Store the value of an idempotency key, as JSON."""
        ...


def records_of(rows: ExportedRows, only: Collection[str] = TABLES) -> Iterator[Record]:
    """Return the records of some tables, in the order of `TABLES`.

    Raises `Corrupt` for a row with values that JSON cannot represent.
    """
    for table in TABLES:
        for row in _READ[table](rows) if table in only else ():
            if any(isinstance(value, bytes) for value in row.values()):
                raise Corrupt(f"A stored {table} cannot be read: it contains bytes instead of text.", hint=RESTORE)
            yield Record(table, row)


_Rows = Iterator[dict[str, Any]]


def _events(rows: ExportedRows) -> _Rows:
    return (unpack_json(body) for *_, body in rows.event_rows())


def _revisions(rows: ExportedRows) -> _Rows:
    for one in rows.stored_revisions():
        yield {"id": one.identity, "revision": one.number, "seq": one.seq, "body": unpack_json(one.body)}


def _segments(rows: ExportedRows) -> _Rows:
    for source_id, segment_id, body in rows.segment_rows():
        yield {"source_id": source_id, "segment_id": segment_id, "text": unpack(body)}


def _links(rows: ExportedRows) -> _Rows:
    return (dict(zip(_LINK_COLUMNS, row, strict=True)) for row in rows.link_rows())


def _patches(rows: ExportedRows) -> _Rows:
    return (unpack_json(body) for _, _, body in rows.patch_rows())


def _receipts(rows: ExportedRows) -> _Rows:
    for key, body in rows.receipt_rows():
        yield {"key": key, "receipt": json_of(unpack_sealed(body, name=str(key)))}


_READ: dict[str, Callable[[ExportedRows], _Rows]] = {
    "event": _events,
    "revision": _revisions,
    "segment": _segments,
    "link": _links,
    "patch": _patches,
    "receipt": _receipts,
}


_Number = Annotated[int, Field(ge=0, lt=2**63)]
"""An integer that databases can store."""


class _Row(BaseModel):
    """A row of an export. Values are parsed strictly, because the file may have been edited."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, strict=True)


class _RevisionRow(_Row):
    id: str
    revision: _Number
    seq: _Number
    body: Any


class _WordsRow(_Row):
    source_id: str
    segment_id: str
    text: str


class _LinkRow(_Row):
    type: str
    source: str
    target: str
    patch_id: str
    added: _Number
    removed: _Number | None


class _ReceiptRow(_Row):
    key: str
    receipt: Any


def load_records(objects: LoadedObjects, log: LoadedLog, records: Iterable[Record]) -> list[Change]:
    """Write records into an empty ledger; return the changes for its followers, in order.

    Raises `InvalidInput` if the records are not an export.
    """
    events, patches = list[AuditEvent](), list[PatchRecord]()
    revisions: list[tuple[int, str, int]] = []
    try:
        for record in records:
            match record.table:
                case "revision":
                    made = _RevisionRow.model_validate(record.row)
                    objects.keep_revision(made.id, made.revision, made.seq, canonical_json(made.body))
                    revisions.append((made.seq, made.id, made.revision))
                case "event":
                    events.append(AuditEvent.model_validate(record.row))
                case "patch":
                    patches.append(PatchRecord.model_validate(record.row))
                case _:
                    _load(objects, log, record)
        log.keep_events(sorted(events, key=lambda event: event.seq))
        log.keep_new_records(patches)
        return [_settled(objects, *revision) for revision in revisions]
    except (KeyError, TypeError, OverflowError, ValidationError) as error:
        raise no_export(error) from error


def _load(objects: LoadedObjects, log: LoadedLog, record: Record) -> None:
    """Write a record of a table without dependencies."""
    row: Any = record.row
    match record.table:
        case "segment":
            words = _WordsRow.model_validate(row)
            objects.keep_words(words.source_id, words.segment_id, words.text)
        case "link":
            link = _LinkRow.model_validate(row)
            objects.keep_link((link.type, link.source, link.target, link.patch_id, link.added, link.removed))
        case "receipt":
            receipt = _ReceiptRow.model_validate(row)
            log.keep_key(receipt.key, json.dumps(receipt.receipt))
        case other:
            raise InvalidInput(
                f"The export contains an unknown table {other!r}.",
                hint="Check that Treering created it, and with which version.",
            )


def _settled(objects: LoadedObjects, seq: int, identity: str, revision: int) -> Change:
    after = objects.revision(identity, revision)
    if after is None:
        raise InvalidInput(f"Revision {revision} of {identity} is not in the export.", hint="Export the space again.")
    objects.settle_loaded(after)
    return Change(seq, identity, objects.revision(identity, revision - 1), after)


def changes_of(write: Write, seq: int) -> list[Change]:
    """Return the change of an object in a write; nothing for links."""
    match write:
        case Put(before=before, after=after):
            return [Change(seq, after.id, before, after)]
        case Erased(before=before):
            return [Change(seq, before.id, before, None)]
        case _:
            return []


_BATCH = 500


def events_in_batches(
    read: Callable[[int, int], Sequence[AuditEvent]], *, after: int, limit: int | None
) -> Iterator[AuditEvent]:
    """Return audit events in order, in batches, so that a long log does not fill the memory.

    Calls `read` with a sequence number and a maximal number of events. No transaction stays open between batches.
    """
    left = limit
    while left is None or left > 0:
        size = _BATCH if left is None else min(left, _BATCH)
        batch = read(after, size)
        yield from batch
        if len(batch) < size:
            return
        after = batch[-1].seq
        left = None if left is None else left - len(batch)


def packed_job(job_id: str, row: JobRow) -> bytes:
    """Pack a job for its row."""
    return pack_sealed(canonical_json(dict(row)), name=job_id)


def job_of(job_id: str, body: str | bytes) -> JobRow:
    """Unpack a job. Raises `Corrupt` for a damaged row."""
    with row_of("a job"):
        row = json_of(unpack_sealed(body, name=job_id))
    if not isinstance(row, dict):
        raise Corrupt("The record of a job is damaged.", hint="Restore the space from a backup.")
    return row


def _scope_of_job(row: JobRow) -> str:
    """Return the scope of a job. Raises `Corrupt` for a damaged row."""
    with row_of("a job"):
        return str(row["scope"])


def jobs_seen(rows: Iterable[tuple[str, Body]], scope: str, limit: int) -> list[JobRow]:
    """Return the first jobs at, below or above a scope. `rows`: ids and bodies."""
    jobs = (job for row in rows if (job := job_of(*row)).get("scope", "") is not None)
    return list(islice((job for job in jobs if sees(scope, _scope_of_job(job), descend=True)), limit))


def jobs_naming(rows: Iterable[tuple[str, Body]], object_ids: Sequence[str]) -> int:
    """Count the jobs that name one of some objects. `rows`: ids and bodies."""
    named = Named(frozenset(object_ids), frozenset())
    return sum(named.is_in(job_of(*row)) for row in rows)


def without_erased(row: JobRow, erased: Set[str]) -> JobRow:
    """Return a job without its data about erased objects."""
    return Named(erased, frozenset(_origins(row, erased))).without(row) if erased else dict(row)


def changed_by_erasure(jobs: Mapping[str, JobRow], erased: Set[str], origins: Set[str]) -> dict[str, JobRow]:
    """Return the jobs with data about erased objects or their origins, without this data, by id."""
    named = Named(erased, frozenset(origins).union(*(_origins(row, erased) for row in jobs.values())))
    return {job: named.without(row) for job, row in jobs.items() if named.is_in(row)}


class WaitingJobs:
    """Jobs that are stored in the next transaction of their thread (`ports.runtime.JobsInCommits`)."""

    def __init__(self) -> None:
        self._of_thread = threading.local()

    @contextmanager
    def kept_in_commit(self, job_id: str, row: JobRow) -> Iterator[IsKept]:
        """Store the state of a job in the first transaction of the block that changes objects."""
        rows = self._rows()
        rows[job_id] = row
        try:
            yield lambda: job_id not in rows
        finally:
            rows.pop(job_id, None)

    def come_due(self, changes: Sequence[Change]) -> Iterator[tuple[str, JobRow, Sequence[str]]]:
        """Yield the waiting jobs with the ids in them that this transaction does not write, and remove them."""
        rows = self._rows()
        for job_id in list(rows):
            row, standing = rows.pop(job_id), {change.object_id for change in changes if change.after}
            yield job_id, row, [identity for identity in sources_in(row) if identity not in standing]

    def _rows(self) -> dict[str, JobRow]:
        waiting: dict[str, JobRow] = self._of_thread.__dict__.setdefault("rows", {})
        return waiting


def _origins(row: JobRow, ids: Set[str]) -> list[str]:
    with row_of("a job"):
        return list(origins_in(row, ids))


def check_lease_length(seconds: float) -> None:
    """Raise `InvalidInput` if a lease would block others for too long."""
    if seconds > LONGEST_SECONDS:
        raise InvalidInput(
            f"A lease of {seconds:g} seconds is too long; at most {LONGEST_SECONDS:g} are allowed.",
            hint="Request a shorter lease and renew it.",
        )
