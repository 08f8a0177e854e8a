"""Making passages anew from the ledger, and comparing what there is with what that would give."""

from collections.abc import Iterator, Sequence
from zlib import crc32

import apsw

from treering.edges.stores.sqlite.graph import graph_contents, graph_damage
from treering.edges.stores.sqlite.object_tables import ObjectTables
from treering.edges.stores.sqlite.projection import apply_changes
from treering.edges.stores.sqlite.tables import (
    FULL_TEXT,
    PROJECTION_VERSION,
    SHOWN,
    create_tables,
    drop_passages,
    has_tables,
    read_state,
    write_state,
)
from treering.edges.stores.sqlite.vector_queue import EPOCH, queue_differences
from treering.edges.stores.sqlite.words import damaged_words, word_counts
from treering.ports.extractor import Extractor
from treering.ports.projection import Change

_VERSION = "projection_version"
_EXTRACTOR = "extractor"
_MOST_NAMED = 20

_ROWS = (
    "SELECT object_id, part, from_seq, until_seq, position, type, kind, status, scope, role, title, heading, origin, "
    "channel, created_at, updated_at, live, hex(hash), p.key FROM passages p "
    "JOIN passage_scopes s ON s.id = p.scope_id JOIN passage_texts t ON t.id = p.text_id"
)

_Row = tuple[object, ...]


def passages_prepared(connection: apsw.Connection, extractor: Extractor) -> bool:
    """Tell whether all tables are there, with passages that this version and this extractor made."""
    return has_tables(connection) and all(read_state(connection, name) == it for name, it in _made_by(extractor))


def prepare_passages(connection: apsw.Connection, extractor: Extractor) -> None:
    """Make missing tables; rebuild passages another version or extractor made. In a write transaction."""
    create_tables(connection)
    if not passages_prepared(connection, extractor):
        rebuild_passages(connection, extractor)
        for name, value in _made_by(extractor):
            write_state(connection, name, value)


def rebuild_passages(connection: apsw.Connection, extractor: Extractor) -> int:
    """Throw away the passages and make them anew; vectors of texts that are still there stay. Give their number."""
    drop_passages(connection)
    create_tables(connection)
    connection.execute("DELETE FROM vector_queue")
    _replay(connection, connection, extractor)
    unused = "NOT IN (SELECT text_id FROM passages)"
    connection.execute(f"DELETE FROM passage_vectors WHERE text_id {unused}")  # noqa: S608 - a constant
    connection.execute(f"DELETE FROM passage_texts WHERE id {unused}")  # noqa: S608 - a constant
    write_state(connection, EPOCH, read_state(connection, EPOCH) + 1)
    return int(next(connection.execute("SELECT count(*) FROM passages"))[0])


def passage_differences(connection: apsw.Connection, extractor: Extractor) -> list[str]:
    """Say how the passages differ from those a rebuild would make. Changes nothing."""
    anew = apsw.Connection("")  # a private file that SQLite removes
    try:
        create_tables(anew)
        _copy_models(connection, anew)
        _replay(connection, anew, extractor)
        found = [*_compared(_contents(anew), _contents(connection)), *_damage(connection)]
        if read_state(anew, SHOWN) != read_state(connection, SHOWN):
            found.append("the number of current passages is wrong")
        return found[:_MOST_NAMED]
    finally:
        anew.close()


def _made_by(extractor: Extractor) -> Sequence[tuple[str, int]]:
    return (_VERSION, PROJECTION_VERSION), (_EXTRACTOR, crc32(extractor.extractor_id.encode()))


def _replay(ledger: apsw.Connection, target: apsw.Connection, extractor: Extractor) -> None:
    for (identity,) in list(ledger.execute("SELECT DISTINCT id FROM revisions ORDER BY id")):
        apply_changes(target, _changes(ledger, identity), extractor)


def _changes(ledger: apsw.Connection, identity: str) -> list[Change]:
    rows = ledger.execute("SELECT seq FROM revisions WHERE id = ? ORDER BY revision", (identity,))
    revisions = ObjectTables(ledger).revisions(identity)
    earlier = [None, *revisions]
    return [
        Change(seq, identity, before, after) for (seq,), before, after in zip(rows, earlier, revisions, strict=False)
    ]


def _copy_models(source: apsw.Connection, target: apsw.Connection) -> None:
    models = source.execute("SELECT id, name, dimension FROM passage_models")
    target.executemany("INSERT INTO passage_models(id, name, dimension) VALUES(?, ?, ?)", models)


_Place = tuple[str, str, int]
"""Object, part and first sequence number: what a row is, whatever its key."""


def _contents(connection: apsw.Connection) -> dict[_Place, int]:
    """Return a hash of everything the projection says of each row."""
    counts = word_counts(connection)
    metadata = _grouped(connection, "SELECT key, name, value FROM passage_metadata ORDER BY key, name")
    endings = _grouped(connection, "SELECT key, ending FROM passage_endings ORDER BY key, ending")
    days = _grouped(connection, "SELECT key, first, last FROM passage_days ORDER BY key, first, last")
    ties = graph_contents(connection)
    contents: dict[_Place, int] = {}
    for *row, key in connection.execute(_ROWS):
        sizes = tuple(counts.pop((table, key), None) for table in FULL_TEXT)
        groups = (part.pop(key, None) for part in (metadata, endings, days))
        contents[row[0], row[1], row[2]] = hash((*row, *groups, sizes, ties.pop(key, None)))
    if counts or metadata or endings or days or ties:
        contents["", "", 0] = -1
    return contents


def _grouped(connection: apsw.Connection, sql: str) -> dict[int, tuple[_Row, ...]]:
    groups: dict[int, list[_Row]] = {}
    for key, *values in connection.execute(sql):
        groups.setdefault(key, []).append(tuple(values))
    return {key: tuple(values) for key, values in groups.items()}


def _compared(wanted: dict[_Place, int], actual: dict[_Place, int]) -> Iterator[str]:
    for place in sorted(wanted.keys() | actual.keys()):
        identity, part, seq = place
        name = " ".join(filter(None, (identity, part))) or "entries of no passage"
        if place not in actual:
            yield f"{name} (from {seq}) is missing"
        elif place not in wanted:
            yield f"{name} (from {seq}) should not be there"
        elif wanted[place] != actual[place]:
            yield f"{name} (from {seq}) is not what the ledger says"


def _damage(connection: apsw.Connection) -> Iterator[str]:
    yield from (f"the full text {table} is damaged" for table in damaged_words(connection))
    yield from graph_damage(connection)
    for model_id, name in list(connection.execute("SELECT id, name FROM passage_models")):
        if wrong := queue_differences(connection, model_id):
            yield f"{wrong} texts are wrongly queued, or not queued, for {name}"
