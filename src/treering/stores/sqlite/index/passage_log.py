"""The passage log of a SQLite file, and moments of it."""

from collections.abc import Sequence

import apsw

from treering.stores.rows.damage import row_of
from treering.stores.rows.passage_log import Moment
from treering.stores.rows.upkeep import EPOCH
from treering.stores.rows.vector_feed import FeedPlace, short_hash
from treering.stores.sqlite.readers import remembered
from treering.stores.sqlite.reading import Integers, integers, read_state

# Two queries, because one query for both ends reads the whole log.
_SHOWN = (
    "SELECT group_concat(key), group_concat(scope_id), group_concat(text_id) FROM passages "
    "WHERE live = 1 AND until_seq IS NULL"
)
_LOGGED = "SELECT (SELECT min(position) FROM vector_log), (SELECT max(position) FROM vector_log)"


class SqliteLog:
    """`rows.passage_log.PassageLog` over a connection in a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection

    def moment(self) -> Moment:
        """Return the moment of the connection's snapshot."""
        return remembered(self.connection, "moment", self._moment)

    def _moment(self) -> Moment:
        row = next(self.connection.execute("SELECT max(position) FROM vector_log"), None)
        return read_state(self.connection, EPOCH), int(row[0] or 0) if row else 0

    def logged_after(self, position: int) -> Sequence[int] | None:
        """Return the passages logged after a position, or `None` if some of these entries were deleted."""
        oldest = next(self.connection.execute("SELECT min(position) FROM vector_log"))[0]
        if oldest is None or oldest > position + 1:
            return None
        sql = "SELECT DISTINCT key FROM vector_log WHERE position > ?"
        return [key for (key,) in self.connection.execute(sql, (position,))]

    def shown_passages(self) -> tuple[Integers, Integers, Integers]:
        """Return the keys of all current passages, with the numbers of their scopes and texts."""
        keys, scopes, texts = map(integers, next(self.connection.execute(_SHOWN)))
        return keys, scopes, texts


def place_now(connection: apsw.Connection) -> FeedPlace:
    """Return the moment of the connection's snapshot, with the head of the audit log."""
    row = next(connection.execute("SELECT seq, hash FROM audit ORDER BY seq DESC LIMIT 1"), (0, ""))
    with row_of("the audit log"):
        return FeedPlace(*SqliteLog(connection).moment(), int(row[0]), short_hash(row[1]))


def known_place(connection: apsw.Connection, moment: str) -> FeedPlace | None:
    """Parse a moment; return `None` if this space never had it or its log does not reach back to it."""
    place = FeedPlace.read(moment)
    if place is None or not _is_of(connection, place):
        return None
    first, last = next(connection.execute(_LOGGED))
    reached = place.position <= (last or 0) and (first is None or first <= place.position + 1)
    return place if reached else None


def count_forgotten(connection: apsw.Connection, after: int) -> int:
    """Count the passages logged after a position that no longer have a row, such as those of erased objects."""
    sql = (
        "SELECT count(DISTINCT l.key) FROM vector_log l LEFT JOIN passages p ON p.key = l.key "
        "WHERE l.position > ? AND p.key IS NULL"
    )
    return int(next(connection.execute(sql, (after,)))[0])


def _is_of(connection: apsw.Connection, place: FeedPlace) -> bool:
    if place.epoch != SqliteLog(connection).moment()[0]:
        return False
    row = next(connection.execute("SELECT hash FROM audit WHERE seq = ?", (place.sequence,)), None)
    return place.sequence == 0 or (row is not None and short_hash(row[0]) == place.hash)
