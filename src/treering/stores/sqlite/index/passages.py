"""Read passages by key: the data to show, their visibility, and their neighbors."""

from collections.abc import Mapping, Sequence

import apsw

from treering.ports.passages import PassageHead, PassageRequest, PassagesFound, Reach
from treering.retrieval.index.ties import DIALOGUE_KINDS
from treering.stores.rows.damage import REINDEX, rows_of
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.code_names import passages_named
from treering.stores.sqlite.index.days import on_days
from treering.stores.sqlite.reading import in_batches
from treering.stores.sqlite.sight import sight

_HEADS = (
    "SELECT key, object_id, part, type, kind, scope, role, title, heading, coalesce(origin, ''), "
    "place_role "
    "FROM passages p JOIN passage_scopes s ON s.id = p.scope_id WHERE p.key IN (?*)"
)


# The neighbors of a turn have the next or the previous position in the same object and the same state.
_BESIDE = (
    "SELECT p.key, n.key FROM passages p JOIN passages n ON n.object_id = p.object_id "
    "AND n.position IN (p.position - 1, p.position + 1) AND n.until_seq IS p.until_seq "
    "WHERE p.key IN (?*) ORDER BY n.position"
)


class SqlitePassages:
    """`ports.passages.Passages` over the ledger's `Database`."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self, requests: Sequence[PassageRequest]) -> Sequence[PassagesFound]:
        """Answer several requests from one snapshot."""
        with rows_of("the index", hint=REINDEX), self._database.read() as connection:
            return [_found(connection, request) for request in requests]

    def count(self, reach: Reach) -> int:
        """Return the number of passages in reach."""
        with rows_of("the index", hint=REINDEX), self._database.read() as connection:
            seen = sight(connection, reach).condition()
            sql = f"SELECT count(*) FROM passages p WHERE {seen.sql}"  # noqa: S608 - only our own SQL
            return int(next(connection.execute(sql, seen.bindings))[0])

    def places(self, reach: Reach) -> Sequence[tuple[str, str]]:
        """Return the object and the part of each passage in reach, ordered by object."""
        with rows_of("the index", hint=REINDEX), self._database.read() as connection:
            seen = sight(connection, reach).condition()
            sql = f"SELECT p.object_id, p.part FROM passages p WHERE {seen.sql} ORDER BY 1, 2"  # noqa: S608 - as above
            return [(str(identity), str(part)) for identity, part in connection.execute(sql, seen.bindings)]


def _found(connection: apsw.Connection, request: PassageRequest) -> PassagesFound:
    heads = _heads(connection, request.keys)
    beside = _beside(connection, heads) if request.beside else {}
    new = dict.fromkeys(key for keys in beside.values() for key in keys if key not in heads)
    named = passages_named(connection, request.named, request.reach)
    more = dict.fromkeys((*new, *(key for keys in named.values() for key in keys if key not in heads)))
    heads |= _heads(connection, list(more))
    visible = _visible(connection, request.keys, request.reach) if request.reach else frozenset()
    return PassagesFound(heads, visible, beside, on_days(connection, request.days, list(heads)), named)


def _heads(connection: apsw.Connection, keys: Sequence[int]) -> dict[int, PassageHead]:
    return {row[0]: PassageHead(*row) for row in in_batches(connection, _HEADS, keys)}


def _beside(connection: apsw.Connection, heads: Mapping[int, PassageHead]) -> dict[int, list[int]]:
    turns = [key for key, head in heads.items() if head.kind in DIALOGUE_KINDS]
    neighbors: dict[int, list[int]] = {}
    for key, other in in_batches(connection, _BESIDE, turns):
        neighbors.setdefault(key, []).append(other)
    return neighbors


def _visible(connection: apsw.Connection, keys: Sequence[int], reach: Reach) -> frozenset[int]:
    seen = sight(connection, reach).condition()
    sql = f"SELECT p.key FROM passages p WHERE {seen.sql} AND p.key IN (?*)"  # noqa: S608 - only our own SQL
    return frozenset(key for (key,) in in_batches(connection, sql, keys, before=seen.bindings))
