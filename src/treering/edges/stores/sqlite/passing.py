"""Which current passages pass a filter: asked of SQL once, and remembered until something is written."""

from dataclasses import replace
from weakref import ref

import apsw

from treering.edges.stores.sqlite.reach import Sight
from treering.edges.stores.sqlite.whole_columns import Integers, integers

_FILTERS_KEPT = 8

_State = tuple[ref[apsw.Connection], int, int]


class PassingKeys:
    """Keys of current passages by what a read may see of them. Safe to use from many threads."""

    def __init__(self) -> None:
        self._known: tuple[_State | None, dict[str, Integers]] = (None, {})

    def of(self, connection: apsw.Connection, sight: Sight) -> Integers:
        """Return the keys of the current passages in sight, in no order."""
        # The time a read asks for decides nothing here, and is another for every read.
        seen = replace(sight, reach=replace(sight.reach, now=None, withdrawn=False))
        asked = repr(seen)  # not the value: Python takes a filter for 1 and one for True to be equal
        state = written_state(connection)
        known_state, known = self._known
        if known_state != state:
            known = {}
            self._known = (state, known)
        if (keys := known.get(asked)) is None:
            if len(known) >= _FILTERS_KEPT:
                known.clear()
            keys = known[asked] = _keys(connection, seen)
        return keys


def written_state(connection: apsw.Connection) -> _State:
    """Return what changes whenever anything is written, here or by another connection."""
    # Not its id(): a thread that ends leaves that to the connection of another one, whose counters begin alike.
    return ref(connection), int(connection.pragma("data_version")), connection.total_changes()


def _keys(connection: apsw.Connection, sight: Sight) -> Integers:
    seen = sight.condition()
    sql = f"SELECT group_concat(p.key) FROM passages p WHERE {seen.sql}"  # noqa: S608 - only our own SQL
    return integers(next(connection.execute(sql, seen.bindings))[0])
