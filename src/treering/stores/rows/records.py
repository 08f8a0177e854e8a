"""Convert the rows of a ledger to records and back."""

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from typing import Annotated, Any, ClassVar, Protocol

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from treering.core.audit import AuditEvent
from treering.core.canonical import canonical_json
from treering.core.errors import Corrupt, InvalidInput
from treering.core.objects import Object, no_export
from treering.core.patch import PatchRecord
from treering.core.writing.account import LinkRow
from treering.core.writing.draft import Erased, Put, Write
from treering.ports.index import Change
from treering.ports.ledger import TABLES, Record
from treering.stores.rows.damage import RESTORE
from treering.stores.rows.ledger_log import LedgerLog
from treering.stores.rows.packing import json_of, unpack, unpack_json, unpack_sealed
from treering.stores.rows.verification import LedgerRows

_LINK_COLUMNS = ("type", "source", "target", "patch_id", "added", "removed")


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


def records_of(rows: LedgerRows, only: Collection[str] = TABLES) -> Iterator[Record]:
    """Return the records of some tables, in the order of `TABLES`.

    Raises `Corrupt` for a row with values that JSON cannot represent.
    """
    for table in TABLES:
        for row in _READ[table](rows) if table in only else ():
            if any(isinstance(value, bytes) for value in row.values()):
                raise Corrupt(f"A stored {table} cannot be read: it contains bytes instead of text.", hint=RESTORE)
            yield Record(table, row)


_Rows = Iterator[dict[str, Any]]


def _events(rows: LedgerRows) -> _Rows:
    return (unpack_json(body) for *_, body in rows.event_rows())


def _revisions(rows: LedgerRows) -> _Rows:
    for one in rows.stored_revisions():
        yield {"id": one.identity, "revision": one.number, "seq": one.seq, "body": unpack_json(one.body)}


def _segments(rows: LedgerRows) -> _Rows:
    for source_id, segment_id, body in rows.segment_rows():
        yield {"source_id": source_id, "segment_id": segment_id, "text": unpack(body)}


def _links(rows: LedgerRows) -> _Rows:
    return (dict(zip(_LINK_COLUMNS, row, strict=True)) for row in rows.link_rows())


def _patches(rows: LedgerRows) -> _Rows:
    return (unpack_json(body) for _, _, body in rows.patch_rows())


def _receipts(rows: LedgerRows) -> _Rows:
    for key, body in rows.receipt_rows():
        yield {"key": key, "receipt": json_of(unpack_sealed(body, name=str(key)))}


_READ: dict[str, Callable[[LedgerRows], _Rows]] = {
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


def load_records(objects: LoadedObjects, log: LedgerLog, records: Iterable[Record]) -> list[Change]:
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
        if len({patch.id for patch in patches}) < len(patches):
            raise InvalidInput("The export contains a patch twice.", hint="Export the space again.")
        log.keep_records(patches)
        return [_settled(objects, *revision) for revision in revisions]
    except (KeyError, TypeError, OverflowError, ValidationError) as error:
        raise no_export(error) from error


def _load(objects: LoadedObjects, log: LedgerLog, record: Record) -> None:
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
