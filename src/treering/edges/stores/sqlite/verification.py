"""Checking a ledger against its own audit log."""

from collections.abc import Iterator

import apsw

from treering.core.audit import Anchor, AuditEvent, verify_chain
from treering.core.errors import Corrupt
from treering.core.evidence import segment_hash
from treering.core.objects import Source, content_hash
from treering.edges.stores.sqlite.packing import unpack
from treering.edges.stores.sqlite.shelf import Shelf


def verify_ledger(connection: apsw.Connection, *, anchor: Anchor | None) -> Anchor:
    """Check the chain, that every revision is the one the log speaks of, and every segment's words.

    Raises `Corrupt` naming the first thing that does not verify.
    """
    _check_pages(connection)
    head = verify_chain(_events(connection), anchor=anchor)
    expected = _expected_hashes(connection)
    for identity, revision, body in connection.execute("SELECT id, revision, body FROM revisions ORDER BY row"):
        _check_revision(connection, identity, revision, unpack(body), expected.pop((identity, revision), None))
    if expected:
        identity, revision = next(iter(expected))
        raise _wrong(f"revision {revision} of {identity} is missing", identity)
    for identity, status, revision in connection.execute("SELECT id, status, revision FROM objects"):
        _check_current(connection, identity, status, revision)
    return head


def _check_pages(connection: apsw.Connection) -> None:
    found = [problem for (problem,) in connection.execute("PRAGMA quick_check(1)")]
    if found != ["ok"]:
        raise Corrupt(f"The database file is damaged: {found[0]}.", hint="Restore the space from a backup.")


def _events(connection: apsw.Connection) -> Iterator[AuditEvent]:
    for seq, body in connection.execute("SELECT seq, body FROM audit ORDER BY seq"):
        event = AuditEvent.model_validate_json(unpack(body))
        if event.seq != seq:
            raise _wrong(f"audit event {seq} stands in the wrong place", event.target)
        yield event


def _expected_hashes(connection: apsw.Connection) -> dict[tuple[str, int], str]:
    """Give the content hash of every revision the log speaks of, without those erased since."""
    expected: dict[tuple[str, int], str] = {}
    for event in _events(connection):
        if event.after and "hash" in event.after:
            expected[event.target, event.after["revision"]] = event.after["hash"]
        if event.event_type == "erased":
            expected = {key: value for key, value in expected.items() if key[0] != event.target}
    return expected


def _check_revision(
    connection: apsw.Connection, identity: str, revision: int, stored: str, expected: str | None
) -> None:
    item = Shelf(connection).load(stored)
    if item.id != identity or item.revision != revision or content_hash(stored, salt=item.salt) != expected:
        raise _wrong(f"revision {revision} of {identity} is not what the audit log says", identity)
    if isinstance(item, Source):
        for segment in item.segments:
            if segment.hash != segment_hash(segment.excerpt, salt=item.salt):
                raise _wrong(f"the text of segment {segment.segment_id} of {identity} was changed", identity)


def _check_current(connection: apsw.Connection, identity: str, status: str, revision: int) -> None:
    item = Shelf(connection).get(identity)
    if item is None or (item.revision, item.status) != (revision, status):
        raise _wrong(f"the row of {identity} does not agree with its newest revision", identity)


def _wrong(what: str, identity: str) -> Corrupt:
    return Corrupt(
        f"The ledger does not verify: {what}.",
        hint="Restore the space from a backup or an export made before this.",
        details={"id": identity},
    )
