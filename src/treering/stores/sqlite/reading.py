"""Read the state of an index, whole columns, and rows for lists of values."""

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any
from weakref import ref

import apsw
import numpy as np
import numpy.typing as npt

from treering.stores.rows.damage import REINDEX, row_of


def read_state(connection: apsw.Connection, name: str) -> int:
    """Return a number in the state of the index, or 0."""
    row = next(connection.execute("SELECT value FROM index_state WHERE name = ?", (name,)), None)
    with row_of(f"the state {name!r} of the index", hint=REINDEX):
        return int(row[0]) if row else 0


def write_state(connection: apsw.Connection, name: str, value: int) -> None:
    """Store a number in the state of the index."""
    connection.execute("INSERT OR REPLACE INTO index_state(name, value) VALUES(?, ?)", (name, value))


_State = tuple[ref[apsw.Connection], int, int]


def written_state(connection: apsw.Connection) -> _State:
    """Return a value that changes with every write to the file."""
    # Not its id(), which the connection of a later thread may have, with equal counters.
    return ref(connection), int(connection.pragma("data_version")), connection.total_changes()


Integers = npt.NDArray[np.int64]


def integers(joined: str | None) -> Integers:
    """Parse the integers that `group_concat` joined. Passing one text is faster than passing many rows."""
    return np.fromstring(joined or "", np.int64, sep=",")


_FEW_AT_ONCE = 500  # values in one statement


_STEPS = (1, 2, 4, 8, 16, 32, 64, 100, 128, 192, 256, 384, 500)


def in_batches(
    connection: apsw.Connection,
    sql: str,
    values: Sequence[int] | Sequence[bytes] | Sequence[str],
    *,
    before: Sequence[str | int | float | bytes] = (),
) -> Iterator[Any]:
    """Run a query with `IN (?*)` for batches of a few hundred values. `before`: the bindings before them.

    Values may be repeated.
    """
    for start in range(0, len(values), _FEW_AT_ONCE):
        batch = _in_steps(values[start : start + _FEW_AT_ONCE])
        yield from connection.execute(_with_marks(sql, len(batch)), (*before, *batch))


def _in_steps(values: Sequence[Any]) -> list[Any]:
    """Pad values by repeating the last one. Few different lengths mean few statements to prepare."""
    size = min(step for step in _STEPS if step >= len(values))
    return [*values, *[values[-1]] * (size - len(values))]


@lru_cache(maxsize=1_000)
def _with_marks(sql: str, count: int) -> str:
    return sql.replace("?*", ",".join("?" * count))
