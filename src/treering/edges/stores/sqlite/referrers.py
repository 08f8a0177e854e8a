"""Which objects name which in their fields: an index of every revision, made from the objects."""

from collections.abc import Iterator
from contextlib import suppress

import apsw

from treering.core.errors import Corrupt
from treering.core.objects import Object, parse_object
from treering.core.references import references_of
from treering.edges.ledger_rows.packing import unpack_json
from treering.edges.ledger_rows.row_failures import row_of

REFERRERS = """
CREATE TABLE referrers(
  target TEXT NOT NULL, referrer TEXT NOT NULL, PRIMARY KEY(target, referrer)
) WITHOUT ROWID;
CREATE INDEX referrers_by_referrer ON referrers(referrer);
"""
_HAS_TABLE = "SELECT 1 FROM sqlite_schema WHERE name = 'referrers'"
_KEEP = "INSERT OR IGNORE INTO referrers(target, referrer) VALUES(?, ?)"
# Sources refer to nothing, and are most of a space.
_BODIES = "SELECT id, body FROM revisions WHERE id NOT LIKE 'src:%'"


def find_referrers(connection: apsw.Connection, identity: str) -> list[str]:
    """Return ids of objects of which a revision names this id, in order."""
    if not _is_there(connection):
        # A space of an older version that can only be read.
        return sorted({referrer for target, referrer in _pairs(connection) if target == identity})
    sql = "SELECT referrer FROM referrers WHERE target = ? ORDER BY referrer"
    return [referrer for (referrer,) in connection.execute(sql, (identity,))]


def keep_referrer(connection: apsw.Connection, item: Object) -> None:
    """Note what a revision of an object names. What earlier ones named stays: a read may ask how things stood."""
    for target in references_of(item):
        connection.execute(_KEEP, (target, item.id))


def forget_referrer(connection: apsw.Connection, identity: str) -> None:
    """Drop what an erased object named."""
    connection.execute("DELETE FROM referrers WHERE referrer = ?", (identity,))


def references_noted(connection: apsw.Connection, identity: str) -> frozenset[str] | None:
    """Return what an object is noted to name; `None` in a space of an older version, where nothing is."""
    if not _is_there(connection):
        return None
    rows = connection.execute("SELECT target FROM referrers WHERE referrer = ?", (identity,))
    return frozenset(target for (target,) in rows)


def fill_referrers(connection: apsw.Connection) -> None:
    """Note what all revisions of a space of an older version name."""
    for pair in list(_pairs(connection)):
        connection.execute(_KEEP, pair)


def _is_there(connection: apsw.Connection) -> bool:
    return next(connection.execute(_HAS_TABLE), None) is not None


def _pairs(connection: apsw.Connection) -> Iterator[tuple[str, str]]:
    for identity, body in connection.execute(_BODIES):
        # A damaged row keeps no space from opening: whoever reads it, and lint audit, say so.
        with suppress(Corrupt), row_of(identity):
            yield from ((target, identity) for target in references_of(parse_object(unpack_json(body))))
