"""Finding passages of code by the names they vouch for: what they define, import and use."""

from collections.abc import Iterable, Mapping, Sequence

import apsw

from treering.derived.code_names import name_code
from treering.edges.stores.sqlite.reach import sight
from treering.ports.passages import MOST_NAMED
from treering.ports.reach import Reach

_FEW = 500  # keys in one statement


def settle_names(
    connection: apsw.Connection, *, gone: Mapping[int, Sequence[str]], come: Mapping[int, Sequence[str]]
) -> None:
    """Forget names that passages vouched for, then keep those that they vouch for now, both by key."""
    connection.executemany("DELETE FROM code_names WHERE name = ? AND key = ?", _rows(gone))
    connection.executemany("INSERT OR IGNORE INTO code_names(name, key) VALUES(?, ?)", _rows(come))


def purge_names(connection: apsw.Connection, keys: Sequence[int]) -> None:
    """Forget all names of passages of which nothing else is known any more."""
    for start in range(0, len(keys), _FEW):
        batch = keys[start : start + _FEW]
        marks = ",".join("?" * len(batch))
        connection.execute(f"DELETE FROM code_names WHERE key IN ({marks})", batch)  # noqa: S608 - only marks


def passages_named(connection: apsw.Connection, names: Sequence[str], reach: Reach | None) -> dict[str, list[int]]:
    """Return the current passages that vouch for each name and that a read in reach may see, by key."""
    if not names or reach is None:
        return {}
    seen = sight(connection, reach).condition()
    sql = (
        "SELECT p.key FROM code_names n CROSS JOIN passages p ON p.key = n.key "  # noqa: S608 - only our own SQL
        f"WHERE n.name = ? AND {seen.sql} ORDER BY n.key LIMIT {MOST_NAMED}"
    )
    found = {}
    for name in names:
        keys = [key for (key,) in connection.execute(sql, (name_code(name), *seen.bindings))]
        if keys:
            found[name] = keys
    return found


def _rows(names: Mapping[int, Iterable[str]]) -> list[tuple[int, int]]:
    # In the order of the table, so that neighbours are written together.
    return sorted((name_code(name), key) for key, each in names.items() for name in each)
