"""The queue of texts without an embedding, and the number of passages that wait for one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from contextlib import contextmanager

import apsw

from treering.stores.rows.fold import PRIORITY
from treering.stores.rows.passage_log import MAX_LOG_ENTRIES
from treering.stores.rows.upkeep import SHOWN
from treering.stores.rows.vectors import QUICK
from treering.stores.sqlite.index.tables import is_under_way
from treering.stores.sqlite.reading import in_batches, write_state

IS_QUICK = f"substr(name, 1, {len(QUICK)}) = '{QUICK}'"
"""Whether a model is a quick model, as SQL over `passage_models`."""

CURRENT = "p.live = 1 AND p.until_seq IS NULL"
"""Whether a passage is current, as SQL over `passages p`."""

QUICK_MODELS = f"SELECT id FROM passage_models WHERE {IS_QUICK}"  # noqa: S608 - a constant

_QUEUED_MODELS = f"SELECT id FROM passage_models WHERE NOT {IS_QUICK}"  # noqa: S608 - a constant
_UNEMBEDDED = (
    f"SELECT :model AS model_id, text_id, {PRIORITY} AS priority FROM passages p "  # noqa: S608 - a constant
    "WHERE live = 1 AND until_seq IS NULL AND NOT EXISTS "
    "(SELECT 1 FROM passage_vectors v WHERE v.text_id = p.text_id AND v.model_id = :model) GROUP BY text_id"
)
_WAITING = f"{_UNEMBEDDED} HAVING priority IS NOT NULL"
_EMBEDDED = "AND EXISTS (SELECT 1 FROM passage_vectors v WHERE v.text_id = q.text_id AND v.model_id = ?)"
_COUNTED_AT = "waiting_counted_at"
_SHORTEN_LOG = (
    "DELETE FROM vector_log WHERE position <= (SELECT max(position) FROM vector_log) "
    "- max(?, coalesce((SELECT value / 8 FROM index_state WHERE name = ?), 0))"
)
"""The position in the log of passages at which the stored counts were correct."""


def settle_texts(connection: apsw.Connection, text_ids: Sequence[int], *, lost: Set[int]) -> None:
    """Queue texts of current passages that have no embedding, and delete texts without a passage.

    Only the texts in `lost`, which lost a passage, can leave the queue without an embedding or be deleted.
    """
    sql = (
        f"SELECT text_id, {PRIORITY} FROM passages WHERE text_id IN (?*) AND live = 1 AND until_seq IS NULL "  # noqa: S608 - a constant
        "GROUP BY text_id"
    )
    priorities = dict.fromkeys(text_ids) | dict(in_batches(connection, sql, text_ids))
    for model in _column(connection, _QUEUED_MODELS):
        _settle(connection, model, priorities, lost)
    forget_unused(connection, [one for one, priority in priorities.items() if priority is None and one in lost])


def forget_unused(connection: apsw.Connection, text_ids: Sequence[int]) -> None:
    """Delete the texts that belong to no passage and to no object that waits for its passages."""
    tables = ["passages", *(["waiting_texts"] if text_ids and is_under_way(connection) else [])]
    for text_id in text_ids:
        rows = (connection.execute(f"SELECT 1 FROM {table} WHERE text_id = ? LIMIT 1", (text_id,)) for table in tables)  # noqa: S608 - our tables
        if not any(next(each, None) for each in rows):
            connection.execute("DELETE FROM passage_vectors WHERE text_id = ?", (text_id,))
            connection.execute("DELETE FROM passage_texts WHERE id = ?", (text_id,))


def fill_queue(connection: apsw.Connection, model_id: int) -> None:
    """Queue all current texts for a new model."""
    connection.execute(f"INSERT INTO vector_queue(model_id, text_id, priority) {_WAITING}", {"model": model_id})


def clear_queue(connection: apsw.Connection) -> None:
    """Empty the queue."""
    connection.execute("DELETE FROM vector_queue")
    connection.execute("DELETE FROM index_state WHERE name GLOB 'waiting_*'")


def queue_differences(connection: apsw.Connection, model_id: int) -> int:
    """Count the queue entries that are missing or superfluous.

    Entries and priorities of an older version may remain: they cost time, but change no answer.
    """
    queued = "SELECT text_id FROM vector_queue WHERE model_id = :model"
    sql = (
        f"SELECT (SELECT count(*) FROM (SELECT text_id FROM ({_WAITING}) EXCEPT {queued})) + "  # noqa: S608 - constants
        f"(SELECT count(*) FROM ({queued} EXCEPT SELECT text_id FROM ({_UNEMBEDDED})))"
    )
    return _first(connection, sql, {"model": model_id})


def log_vectors(connection: apsw.Connection, keys: Iterable[int]) -> None:
    """Add passages to the log because their vectors appear in searches from now on, or no longer do.

    In a large space, the log has an entry for one in eight passages: to read these again takes a fifth of the time to
    load a table.
    """
    connection.executemany("INSERT INTO vector_log(key) VALUES(?)", ((key,) for key in keys))
    connection.execute(_SHORTEN_LOG, (MAX_LOG_ENTRIES, SHOWN))


def waiting_passages(connection: apsw.Connection, model_id: int, *, quick: int = 0) -> int:
    """Return the number of current passages whose text waits for an embedding by a model.

    With `quick`, only those with an embedding by this quick model. The number is stored, except in a space that an
    older version wrote to last: there, the passages are counted.
    """
    if _is_counted(connection) and (count := _state(connection, _count_name(model_id, quick))) is not None:
        return count
    return count_waiting_passages(connection, model_id, quick)


def count_waiting_passages(connection: apsw.Connection, model_id: int, quick: int) -> int:
    """Count the passages of `waiting_passages`. The cost grows with the queue."""
    # CROSS JOIN preserves the order of the tables.
    sql = (
        "SELECT count(*) FROM vector_queue q CROSS JOIN passages p ON p.text_id = q.text_id "  # noqa: S608 - constants
        f"WHERE q.model_id = ? {_EMBEDDED if quick else ''} AND {CURRENT}"
    )
    return _first(connection, sql, (model_id, quick) if quick else (model_id,))


def wrong_counts(connection: apsw.Connection) -> int:
    """Count the stored numbers of waiting passages that are wrong."""
    return sum(
        waiting_passages(connection, model, quick=quick) != count_waiting_passages(connection, model, quick)
        for model, quick in _counted_models(connection)
    )


@contextmanager
def waiting_counted(
    connection: apsw.Connection, text_ids: Sequence[int], gained: Mapping[int, int] | None = None
) -> Iterator[None]:
    """Update the stored numbers of waiting passages after a block that changes the queue entries or vectors of texts.

    The block must log the passages of these texts. `gained`: by text, how many more current passages it has than at the
    beginning of the transaction.
    """
    was_counted = _is_counted(connection)
    before = _waiting_by_models(connection, text_ids, gained or {})
    yield
    after = _waiting_by_models(connection, text_ids, {})
    for models in _counted_models(connection):
        name = _count_name(*models)
        count = _state(connection, name) if was_counted else None
        if count is None:
            write_state(connection, name, count_waiting_passages(connection, *models))
        elif change := after.get(models, 0) - before.get(models, 0):
            write_state(connection, name, count + change)
    write_state(connection, _COUNTED_AT, _position(connection))


def _waiting_by_models(
    connection: apsw.Connection, text_ids: Sequence[int], gained: Mapping[int, int]
) -> dict[tuple[int, int], int]:
    """Count the waiting passages of some texts by model and quick model, without the `gained` ones."""
    sql = (
        "SELECT text_id, count(*) FROM passages WHERE text_id IN (?*) AND live = 1 AND until_seq IS NULL "
        "GROUP BY text_id"
    )
    passages = dict.fromkeys(text_ids, 0) | dict(in_batches(connection, sql, text_ids))
    counts: dict[tuple[int, int], int] = {}
    for models in _counted_models(connection):
        model, quick = models
        sql = f"SELECT text_id FROM vector_queue q WHERE model_id = ? {_EMBEDDED if quick else ''} AND text_id IN (?*)"  # noqa: S608 - constants
        texts = [text for (text,) in in_batches(connection, sql, text_ids, before=models if quick else [model])]
        counts[models] = sum(passages[text] - gained.get(text, 0) for text in texts)
    return counts


def _counted_models(connection: apsw.Connection) -> list[tuple[int, int]]:
    """Return the models whose waiting passages are counted, each alone (with 0) and with each quick model."""
    quick = _column(connection, QUICK_MODELS)
    return [(model, other) for model in _column(connection, _QUEUED_MODELS) for other in (0, *quick)]


def _count_name(model_id: int, quick: int) -> str:
    return f"waiting_passages:{model_id}:{quick}" if quick else f"waiting_passages:{model_id}"


def _is_counted(connection: apsw.Connection) -> bool:
    """Return whether the stored counts are current: an older version logs its changes, but does not count."""
    return _state(connection, _COUNTED_AT) == _position(connection)


def _position(connection: apsw.Connection) -> int:
    return _first(connection, "SELECT coalesce(max(position), 0) FROM vector_log", ())


def _state(connection: apsw.Connection, name: str) -> int | None:
    rows = connection.execute("SELECT value FROM index_state WHERE name = ?", (name,))
    return next((int(value) for (value,) in rows), None)


def _settle(connection: apsw.Connection, model_id: int, priorities: Mapping[int, int | None], lost: Set[int]) -> None:
    """Queue the texts with a priority and no embedding; remove the other ones from the queue."""
    sql = "SELECT text_id FROM passage_vectors WHERE model_id = ? AND text_id IN (?*)"
    embedded = {text_id for (text_id,) in in_batches(connection, sql, list(priorities), before=(model_id,))}
    waiting = {one: priority for one, priority in priorities.items() if priority is not None and one not in embedded}
    settled = ((model_id, text_id) for text_id in sorted(embedded | lost) if text_id not in waiting)
    connection.executemany("DELETE FROM vector_queue WHERE model_id = ? AND text_id = ?", settled)
    sql = "INSERT OR REPLACE INTO vector_queue(model_id, text_id, priority) VALUES(?, ?, ?)"
    connection.executemany(sql, ((model_id, text_id, priority) for text_id, priority in waiting.items()))


def _column(connection: apsw.Connection, sql: str) -> list[int]:
    return [value for (value,) in connection.execute(sql)]


def _first(connection: apsw.Connection, sql: str, bindings: Mapping[str, int] | Sequence[int]) -> int:
    return int(next(connection.execute(sql, bindings))[0])
