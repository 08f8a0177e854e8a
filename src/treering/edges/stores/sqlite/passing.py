"""The current passages that pass a filter: asked of SQL once for as long as nothing is written."""

from dataclasses import replace

import apsw
import numpy as np
import numpy.typing as npt

from treering.edges.stores.sqlite.reach import Sight

State = tuple[int, int, int]
_KEPT = 8


class PassingKeys:
    """Remembers which passages pass the filters that were asked last."""

    def __init__(self) -> None:
        self._known: tuple[State, dict[Sight, npt.NDArray[np.int64]]] = ((0, 0, 0), {})

    def of(self, connection: apsw.Connection, sight: Sight) -> npt.NDArray[np.int64]:
        """Return the keys of the passages in sight."""
        state = state_of(connection)
        if self._known[0] != state:
            self._known = (state, {})
        known = self._known[1]
        if sight not in known:
            if len(known) >= _KEPT:
                known.clear()
            known[sight] = _passing(connection, sight)
        return known[sight]


def state_of(connection: apsw.Connection) -> State:
    """Return what changes whenever anything is written, here or by another connection."""
    return id(connection), int(connection.pragma("data_version")), connection.total_changes()


def _passing(connection: apsw.Connection, sight: Sight) -> npt.NDArray[np.int64]:
    seen = Sight(replace(sight.reach, withdrawn=False), sight.scopes).condition()
    sql = f"SELECT p.key FROM passages p WHERE {seen.sql}"  # noqa: S608 - only our own SQL
    return np.array([key for (key,) in connection.execute(sql, seen.bindings)], np.int64)
