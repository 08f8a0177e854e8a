"""Everything a ledger holds as records, and back."""

import json
from collections.abc import Iterable, Iterator
from typing import Any

import apsw
from pydantic import ValidationError

from treering.core.audit import AuditEvent
from treering.core.canonical import canonical_json
from treering.core.errors import Corrupt, InvalidInput
from treering.core.objects import Source, no_export
from treering.core.patch import PatchRecord
from treering.core.times import render_time
from treering.edges.stores.sqlite.failures import RESTORE
from treering.edges.stores.sqlite.object_tables import ObjectTables
from treering.edges.stores.sqlite.packing import json_of, pack_row, pack_sealed, unpack, unpack_json, unpack_sealed
from treering.ports.ledger import Record
from treering.ports.projection import Change


def read_records(connection: apsw.Connection) -> Iterator[Record]:
    """Return every record, in the order the port names. Raises `Corrupt` for a row that holds what JSON cannot."""
    for record in _records(connection):
        if any(isinstance(value, bytes) for value in record.row.values()):
            raise Corrupt(f"A stored {record.table} cannot be read: it has bytes in place of text.", hint=RESTORE)
        yield record


def _records(connection: apsw.Connection) -> Iterator[Record]:
    for (body,) in connection.execute("SELECT body FROM audit ORDER BY seq"):
        yield Record("event", unpack_json(body))
    for identity, revision, seq, body in connection.execute(
        "SELECT id, revision, seq, body FROM revisions ORDER BY seq, id, revision"
    ):
        yield Record("revision", {"id": identity, "revision": revision, "seq": seq, "body": unpack_json(body)})
    for source_id, segment_id, body in connection.execute(
        "SELECT source_id, segment_id, texts.body FROM segments JOIN texts ON texts.row = segments.text_row "
        "ORDER BY source_id, segment_id"
    ):
        yield Record("segment", {"source_id": source_id, "segment_id": segment_id, "text": unpack(body)})
    columns = ("type", "source", "target", "patch_id", "added", "removed")
    for row in connection.execute(
        "SELECT type, source, target, patch_id, added, removed FROM links ORDER BY added, type, source, target"
    ):
        yield Record("link", dict(zip(columns, row, strict=True)))
    for (body,) in connection.execute("SELECT body FROM patches ORDER BY id"):
        yield Record("patch", unpack_json(body))
    for key, body in connection.execute("SELECT key, body FROM receipts ORDER BY key"):
        yield Record("receipt", {"key": key, "receipt": json_of(unpack_sealed(body, name=str(key)))})


def load_records(connection: apsw.Connection, records: Iterable[Record]) -> list[Change]:
    """Write records into an empty ledger; return the changes its followers have to see, in order.

    Raises `InvalidInput` for what is no export.
    """
    try:
        return _load_all(connection, records)
    except (KeyError, TypeError, ValidationError, apsw.ConstraintError) as error:
        raise no_export(error) from error


def _load_all(connection: apsw.Connection, records: Iterable[Record]) -> list[Change]:
    revisions: list[tuple[int, str, int]] = []
    tables = ObjectTables(connection)
    for record in records:
        if record.table == "revision":
            row = record.row
            tables.keep_revision(row["id"], row["revision"], row["seq"], canonical_json(row["body"]))
            revisions.append((row["seq"], row["id"], row["revision"]))
        else:
            _load(connection, tables, record)
    return [_change(tables, *revision) for revision in revisions]


def _load(connection: apsw.Connection, tables: ObjectTables, record: Record) -> None:
    row: Any = record.row
    match record.table:
        case "event":
            event = AuditEvent.model_validate(row)
            connection.execute(
                "INSERT INTO audit(seq, target, timestamp, hash, body) VALUES(?, ?, ?, ?, ?)",
                (event.seq, event.target, render_time(event.timestamp), event.hash, pack_row(event.model_dump_json())),
            )
        case "segment":
            tables.keep_words(row["source_id"], row["segment_id"], row["text"])
        case "link":
            sql = "INSERT INTO links(type, source, target, patch_id, added, removed) VALUES(?, ?, ?, ?, ?, ?)"
            connection.execute(
                sql, (row["type"], row["source"], row["target"], row["patch_id"], row["added"], row["removed"])
            )
        case "patch":
            patch = PatchRecord.model_validate(row)
            sql = "INSERT INTO patches(id, status, body) VALUES(?, ?, ?)"
            connection.execute(sql, (patch.id, patch.status, pack_row(patch.model_dump_json())))
        case "receipt":
            sql = "INSERT INTO receipts(key, body) VALUES(?, ?)"
            connection.execute(sql, (row["key"], pack_sealed(json.dumps(row["receipt"]), name=row["key"])))
        case other:
            raise InvalidInput(
                f"The export has an unknown table {other!r}.", hint="Check that Treering exported it, and this version."
            )


def _change(tables: ObjectTables, seq: int, identity: str, revision: int) -> Change:
    after = tables.revision(identity, revision)
    if after is None:
        raise InvalidInput(f"Revision {revision} of {identity} is not in the export.", hint="Export the space again.")
    tables.set_current(after)
    if isinstance(after, Source):
        tables.keep_places(after)
    return Change(seq, identity, tables.revision(identity, revision - 1), after)
