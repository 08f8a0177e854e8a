"""Which texts wait for a vector, whose vectors changed, and which process may embed."""

from collections.abc import Callable, Iterable, Sequence

import apsw

from treering.edges.index_rows.passage_log import LOG_KEPT, Moment, follow_log
from treering.edges.index_rows.waiting import PRIORITY
from treering.edges.stores.sqlite.tables import is_under_way, read_state

_WAITING = (
    f"SELECT :model, text_id, {PRIORITY} FROM passages p "  # noqa: S608 - a constant
    "WHERE live = 1 AND until_seq IS NULL AND NOT EXISTS "
    "(SELECT 1 FROM passage_vectors v WHERE v.text_id = p.text_id AND v.model_id = :model) GROUP BY text_id"
)
EPOCH = "vectors_epoch"
"""State that is counted up when passages get new keys, so that tables in memory start over."""


def settle_texts(connection: apsw.Connection, text_ids: Sequence[int]) -> None:
    """Queue texts that current passages have and no vector; forget texts that no passage has any more."""
    models = [model for (model,) in connection.execute("SELECT id FROM passage_models")]
    unshown: list[int] = []
    for text_id in text_ids:
        sql = f"SELECT {PRIORITY} FROM passages WHERE text_id = ? AND live = 1 AND until_seq IS NULL"  # noqa: S608 - a constant
        priority = next(connection.execute(sql, (text_id,)))[0]
        for model in models:
            _settle(connection, model, text_id, priority)
        if priority is None:
            unshown.append(text_id)
    forget_unused(connection, unshown)


def forget_unused(connection: apsw.Connection, text_ids: Sequence[int]) -> None:
    """Forget those of the texts that no passage has, and no object whose passages are still to be made."""
    holders = ["passages", *(["waiting_texts"] if text_ids and is_under_way(connection) else [])]
    for text_id in text_ids:
        held = (connection.execute(f"SELECT 1 FROM {table} WHERE text_id = ? LIMIT 1", (text_id,)) for table in holders)  # noqa: S608 - our tables
        if not any(next(rows, None) for rows in held):
            connection.execute("DELETE FROM passage_vectors WHERE text_id = ?", (text_id,))
            connection.execute("DELETE FROM passage_texts WHERE id = ?", (text_id,))


def fill_queue(connection: apsw.Connection, model_id: int) -> None:
    """Queue everything current that has no vector of a model the space did not know so far."""
    connection.execute(f"INSERT INTO vector_queue(model_id, text_id, priority) {_WAITING}", {"model": model_id})


def queue_differences(connection: apsw.Connection, model_id: int) -> int:
    """Count the entries that are in the queue and should not be, or the other way round."""
    queued = "SELECT model_id, text_id, priority FROM vector_queue WHERE model_id = :model"
    sql = (
        f"SELECT (SELECT count(*) FROM ({_WAITING} EXCEPT {queued})) + "  # noqa: S608 - constants
        f"(SELECT count(*) FROM ({queued} EXCEPT {_WAITING}))"
    )
    return int(next(connection.execute(sql, {"model": model_id}))[0])


def log_vectors(connection: apsw.Connection, keys: Iterable[int]) -> None:
    """Note that the vectors of these passages begin or cease to be searched."""
    connection.executemany("INSERT INTO vector_log(key) VALUES(?)", ((key,) for key in keys))
    # Who has fallen further behind loads everything anew.
    connection.execute(
        "DELETE FROM vector_log WHERE position <= (SELECT max(position) FROM vector_log) - ?", (LOG_KEPT,)
    )


class SqliteLog:
    """`index_rows.passage_log.PassageLog` over a connection inside a transaction."""

    def __init__(self, connection: apsw.Connection) -> None:
        self.connection = connection

    def moment(self) -> Moment:
        """Return the moment of the connection's snapshot."""
        row = next(self.connection.execute("SELECT max(position) FROM vector_log"), None)
        return read_state(self.connection, EPOCH), int(row[0] or 0) if row else 0

    def logged_after(self, position: int) -> Sequence[int] | None:
        """Return the passages logged after a position, or `None` where the log does not reach back so far."""
        oldest = next(self.connection.execute("SELECT min(position) FROM vector_log"))[0]
        if oldest is None or oldest > position + 1:
            return None
        sql = "SELECT DISTINCT key FROM vector_log WHERE position > ?"
        return [key for (key,) in self.connection.execute(sql, (position,))]


def catch_up(
    connection: apsw.Connection,
    seen: Moment | None,
    *,
    load: Callable[[apsw.Connection], None],
    reread: Callable[[apsw.Connection, Sequence[int]], None],
) -> Moment:
    """Bring a table in memory to the moment of the connection's snapshot, as `follow_log` does."""
    return follow_log(
        SqliteLog(connection), seen, load=lambda: load(connection), reread=lambda keys: reread(connection, keys)
    )


def _settle(connection: apsw.Connection, model_id: int, text_id: int, priority: int | None) -> None:
    if priority is None or _has_vector(connection, model_id, text_id):
        sql = "DELETE FROM vector_queue WHERE model_id = ? AND text_id = ?"
        connection.execute(sql, (model_id, text_id))
        return
    sql = "INSERT OR REPLACE INTO vector_queue(model_id, text_id, priority) VALUES(?, ?, ?)"
    connection.execute(sql, (model_id, text_id, priority))


def _has_vector(connection: apsw.Connection, model_id: int, text_id: int) -> bool:
    sql = "SELECT 1 FROM passage_vectors WHERE text_id = ? AND model_id = ?"
    return next(connection.execute(sql, (text_id, model_id)), None) is not None
