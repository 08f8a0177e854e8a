"""Find passages of code by the names they define, import or use."""

from collections.abc import Iterable, Mapping, Sequence

import apsw

from treering.ports.passages import MOST_NAMED, Reach
from treering.retrieval.index.code_names import name_code
from treering.stores.sqlite.reading import in_batches
from treering.stores.sqlite.sight import sight


def settle_names(
    connection: apsw.Connection, *, gone: Mapping[int, Sequence[str]], come: Mapping[int, Sequence[str]]
) -> None:
    """Remove names of code that passages no longer have, then add new ones. Both by key."""
    connection.executemany("DELETE FROM code_names WHERE name = ? AND key = ?", _rows(gone))
    connection.executemany("INSERT OR IGNORE INTO code_names(name, key) VALUES(?, ?)", _rows(come))


def purge_names(connection: apsw.Connection, keys: Sequence[int]) -> None:
    """Remove all names of code of erased passages."""
    for _ in in_batches(connection, "DELETE FROM code_names WHERE key IN (?*)", keys):
        pass  # the statement returns no rows


def passages_named(connection: apsw.Connection, names: Sequence[str], reach: Reach | None) -> dict[str, list[int]]:
    """Return the current passages in reach that define, import or use each name, by key."""
    if not names or reach is None:
        return {}
    seen = sight(connection, reach).condition()
    sql = (
        "SELECT p.key FROM code_names n CROSS JOIN passages p ON p.key = n.key "  # noqa: S608 - only our own SQL
        f"WHERE n.name = ? AND {seen.sql} ORDER BY n.key LIMIT {MOST_NAMED}"
    )
    keys_by_name = {}
    for name in names:
        keys = [key for (key,) in connection.execute(sql, (name_code(name), *seen.bindings))]
        if keys:
            keys_by_name[name] = keys
    return keys_by_name


def _rows(names: Mapping[int, Iterable[str]]) -> list[tuple[int, int]]:
    # In the order of the table, so that neighboring rows are written together.
    return sorted((name_code(name), key) for key, each in names.items() for name in each)
