"""The graph in the ledger's database: one record per current passage, and the names it takes, counted."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

import apsw

from treering.derived.graph_records import HEADER, NumberedTies, pack_ties, reference, unpack_ties
from treering.derived.ties import Ties
from treering.edges.index_rows.graph_checks import content_hashes, graph_faults
from treering.edges.index_rows.graph_names import (
    entity_name,
    names_in,
    numbered,
    object_name,
    plain_name,
    stored_name,
)
from treering.edges.ledger_rows.row_failures import REINDEX, rows_of
from treering.ports.graph import EdgeType

_FEW = 500  # values in one statement

_RECORDS = "SELECT key, body FROM graph_passages"
_HOLD = (
    "INSERT INTO graph_nodes(name, passages) VALUES(?, ?) "
    "ON CONFLICT(name) DO UPDATE SET passages = passages + excluded.passages RETURNING id"
)
_OWN = 4 * HEADER + 1  # where in a record the reference to the passage's own object stands, counted from 1


def settle_ties(connection: apsw.Connection, ties: Mapping[int, Ties | None]) -> None:
    """Bring what the graph holds of passages to what they tie together now; `None` for those that are gone from it."""
    with rows_of("the graph", hint=REINDEX):
        _settle(connection, list(ties), {key: each for key, each in ties.items() if each})


def numbers_of(connection: apsw.Connection, keys: Sequence[str]) -> dict[str, int]:
    """Return the numbers of those of the entity keys that are known."""
    names = {stored_name(entity_name(key)): key for key in keys}
    rows = _in_batches(connection, "SELECT id, name FROM graph_nodes WHERE name IN (?*)", list(names))
    return {names[name]: number for number, name in rows}


def names_of(connection: apsw.Connection, numbers: Sequence[int]) -> dict[int, str]:
    """Return the keys of entities, the ids of objects."""
    rows = _in_batches(connection, "SELECT id, name FROM graph_nodes WHERE id IN (?*)", numbers)
    return {number: plain_name(name) for number, name in rows}


def records_of(connection: apsw.Connection, object_ids: Sequence[str]) -> int:
    """Count the records of objects, by what the records say. Reads all of them."""
    own = [stored_name(object_name(identity)) for identity in object_ids]
    nodes = _in_batches(connection, "SELECT id, name FROM graph_nodes WHERE name IN (?*)", own)
    first = [reference(number, EdgeType.PART).to_bytes(4, "little") for number, _ in nodes]
    sql = f"SELECT key, body FROM graph_passages WHERE substr(body, {_OWN}, 4) IN (?*)"  # noqa: S608 - a constant
    return sum(1 for _ in _in_batches(connection, sql, first))


def graph_contents(connection: apsw.Connection) -> dict[int, int]:
    """Give, by passage key, a hash of its ties by name; of what is damaged another than any."""
    return content_hashes(connection.execute(_RECORDS), dict(connection.execute("SELECT id, name FROM graph_nodes")))


def graph_damage(connection: apsw.Connection) -> Iterator[str]:
    """Say what is wrong with the graph in itself: damaged records, names that are not counted as they are held."""
    counted = dict(connection.execute("SELECT id, passages FROM graph_nodes"))
    return graph_faults(connection.execute(_RECORDS), counted)


def _settle(connection: apsw.Connection, keys: Sequence[int], wanted: Mapping[int, Ties]) -> None:
    released = Counter(number for old in _held(connection, keys) for number in old.numbers())
    held = Counter(name for ties in wanted.values() for name in sorted(names_in(ties)))
    # Held first: a name that goes with one passage and comes with another keeps its number.
    counted = connection.executemany(_HOLD, ((stored_name(name), count) for name, count in held.items()))
    numbers = dict(zip(held, (number for (number,) in counted), strict=True))
    gone = ((key,) for key in keys if key not in wanted)
    connection.executemany("DELETE FROM graph_passages WHERE key = ?", gone)
    records = ((key, pack_ties(numbered(ties, numbers))) for key, ties in wanted.items())
    connection.executemany("INSERT OR REPLACE INTO graph_passages(key, body) VALUES(?, ?)", records)
    less = ((count, number) for number, count in released.items())
    connection.executemany("UPDATE graph_nodes SET passages = passages - ? WHERE id = ?", less)
    unused = ((number,) for number in released)
    connection.executemany("DELETE FROM graph_nodes WHERE id = ? AND passages <= 0", unused)


def _held(connection: apsw.Connection, keys: Sequence[int]) -> Iterator[NumberedTies]:
    """Read what the graph holds of passages so far."""
    rows = _in_batches(connection, "SELECT key, body FROM graph_passages WHERE key IN (?*)", keys)
    return (unpack_ties(body) for _, body in rows)


def _in_batches(
    connection: apsw.Connection, sql: str, values: Sequence[bytes] | Sequence[int]
) -> Iterable[tuple[int, bytes]]:
    """Run a query whose `?*` stands for a list of values, a few hundred at a time."""
    for start in range(0, len(values), _FEW):
        batch = values[start : start + _FEW]
        yield from connection.execute(sql.replace("?*", ",".join("?" * len(batch))), batch)
