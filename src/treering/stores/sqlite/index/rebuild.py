"""Making passages anew from the ledger, and comparing what there is with what that would give."""

from collections.abc import Iterator

import apsw

from treering.ports.models import Extractor
from treering.stores.rows.fold import MOST_NAMED, NOWHERE, Place, compared
from treering.stores.rows.vectors import is_damaged
from treering.stores.sqlite.index.graph import graph_contents, graph_damage
from treering.stores.sqlite.index.replay import (
    begin_replay,
    clear_passages,
    is_made,
    is_worth_waiting,
    note_made,
    replay_objects,
    waiting_of,
)
from treering.stores.sqlite.index.tables import (
    FULL_TEXT,
    SHOWN,
    TABLES,
    create_tables,
    has_digests,
    has_tables,
    read_state,
)
from treering.stores.sqlite.index.vectors import queue_differences
from treering.stores.sqlite.index.words import lost_terms, word_contents, word_totals

_ROWS = (
    "SELECT object_id, part, from_seq, until_seq, position, type, kind, status, scope, role, title, heading, origin, "
    "channel, created_at, updated_at, live, hex(hash), place_role, p.key FROM passages p "
    "JOIN passage_scopes s ON s.id = p.scope_id JOIN passage_texts t ON t.id = p.text_id"
)

_Row = tuple[object, ...]


def passages_prepared(connection: apsw.Connection, extractor: Extractor) -> bool:
    """Tell whether all tables are there, with passages that this version and this extractor made or are making."""
    return has_tables(connection) and is_made(connection, extractor)


def prepare_passages(connection: apsw.Connection, extractor: Extractor, *, most_at_once: int) -> None:
    """Make missing tables; make passages anew that another version or extractor made. In a write transaction.

    Where these are more than `most_at_once`, it only begins with it: `advance_replay` goes on.
    """
    create_tables(connection)
    if is_made(connection, extractor):
        return
    if is_worth_waiting(connection, most_at_once=most_at_once):
        begin_replay(connection, extractor)
    else:
        rebuild_passages(connection, extractor)


def rebuild_passages(connection: apsw.Connection, extractor: Extractor) -> int:
    """Throw away the passages and make them anew; vectors of texts that are still there stay. Give their number."""
    drop_damaged(connection)
    clear_passages(connection)
    replay_objects(connection, connection, _all_objects(connection), extractor)
    note_made(connection, extractor)
    unused = "NOT IN (SELECT text_id FROM passages)"
    connection.execute(f"DELETE FROM passage_vectors WHERE text_id {unused}")  # noqa: S608 - a constant
    connection.execute(f"DELETE FROM passage_texts WHERE id {unused}")  # noqa: S608 - a constant
    return int(next(connection.execute("SELECT count(*) FROM passages"))[0])


def passage_differences(connection: apsw.Connection, extractor: Extractor) -> list[str]:
    """Say how the passages differ from those a rebuild would make. Changes nothing.

    Objects whose passages are still to be made are left out.
    """
    if damaged := damaged_tables(connection):
        # What is read from a damaged table says nothing about the others.
        return [f"the table {table} is damaged" for table in damaged][:MOST_NAMED]
    anew = apsw.Connection("")  # a private file that SQLite removes
    try:
        create_tables(anew)
        _copy_models(connection, anew)
        identities = _all_objects(connection)
        waiting = set(waiting_of(connection, identities))
        replay_objects(connection, anew, [one for one in identities if one not in waiting], extractor)
        found = [*compared(_contents(anew), _contents(connection)), *_damage(connection)]
        if read_state(anew, SHOWN) != read_state(connection, SHOWN):
            found.append("the number of current passages is wrong")
        if word_totals(anew) != word_totals(connection):
            found.append("what full text counts of all passages is wrong")
        return found[:MOST_NAMED]
    finally:
        anew.close()


def damaged_tables(connection: apsw.Connection) -> list[str]:
    """Check the inner structure of the index, and each table against what it is found by; name what is damaged."""
    known = {name for (name,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    return [
        table
        for table in TABLES
        if table in known and list(connection.execute(f"PRAGMA integrity_check({table})")) != [("ok",)]
    ]


def _all_objects(ledger: apsw.Connection) -> list[str]:
    return [identity for (identity,) in ledger.execute("SELECT DISTINCT id FROM revisions ORDER BY id")]


def _copy_models(source: apsw.Connection, target: apsw.Connection) -> None:
    models = source.execute("SELECT id, name, dimension FROM passage_models")
    target.executemany("INSERT INTO passage_models(id, name, dimension) VALUES(?, ?, ?)", models)


def _contents(connection: apsw.Connection) -> dict[Place, int]:
    """Return a hash of everything the projection says of each row."""
    words = word_contents(connection)
    metadata = _grouped(connection, "SELECT key, name, value FROM passage_metadata ORDER BY key, name")
    endings = _grouped(connection, "SELECT key, ending FROM passage_endings ORDER BY key, ending")
    days = _grouped(connection, "SELECT key, first, last FROM passage_days ORDER BY key, first, last")
    names = _grouped(connection, "SELECT key, name FROM code_names ORDER BY key, name")
    ties = graph_contents(connection)
    contents: dict[Place, int] = {}
    for *row, key in connection.execute(_ROWS):
        found = tuple(words.pop((table, key), None) for table in FULL_TEXT)
        groups = (part.pop(key, None) for part in (metadata, endings, days, names))
        contents[row[0], row[1], row[2]] = hash((*row, *groups, found, ties.pop(key, None)))
    if words or metadata or endings or days or names or ties:
        contents[NOWHERE] = -1
    return contents


def _grouped(connection: apsw.Connection, sql: str) -> dict[int, tuple[_Row, ...]]:
    groups: dict[int, list[_Row]] = {}
    for key, *values in connection.execute(sql):
        groups.setdefault(key, []).append(tuple(values))
    return {key: tuple(values) for key, values in groups.items()}


def _damage(connection: apsw.Connection) -> Iterator[str]:
    yield from graph_damage(connection)
    yield from (f"{count} terms of {table} are not found" for table, count in lost_terms(connection).items())
    if damaged := count_damaged(connection):
        yield f"{damaged} vectors are damaged"
    for model_id, name in list(connection.execute("SELECT id, name FROM passage_models")):
        if wrong := queue_differences(connection, model_id):
            yield f"{wrong} texts are wrongly queued, or not queued, for {name}"


# Finding stored vectors that are not what was kept, by their digests.


_VECTOR_ROWS = (
    "SELECT v.key, m.name, m.dimension, t.hash, v.vector, {digest} FROM passage_vectors v "
    "LEFT JOIN passage_models m ON m.id = v.model_id LEFT JOIN passage_texts t ON t.id = v.text_id"
)


def count_damaged(connection: apsw.Connection) -> int:
    """Count the vectors that are not what was kept. One without a digest, from an older version, passes."""
    return sum(1 for _ in _damaged(connection))


def drop_damaged(connection: apsw.Connection) -> None:
    """Forget the vectors that are not what was kept, in a write transaction."""
    gone = [(key,) for key in _damaged(connection)]
    connection.executemany("DELETE FROM passage_vectors WHERE key = ?", gone)


def _damaged(connection: apsw.Connection) -> Iterator[int]:
    sql = _VECTOR_ROWS.format(digest="v.digest" if has_digests(connection) else "NULL")
    for key, *row in connection.execute(sql):
        if is_damaged(*row):
            yield key
