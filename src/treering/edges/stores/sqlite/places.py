"""Finding passages by what they are called: an id, a path, a title, a symbol, or the end of one."""

from collections.abc import Iterable

import apsw

from treering.derived.projection import places_of
from treering.derived.shares import SHORTEST, name_share
from treering.edges.stores.sqlite.reach import Sight
from treering.ports.passages import Passage
from treering.ports.text import Scored

_KEPT_CHARS = 24
_MOST_CANDIDATES = 2_000
_LAST = "\U0010ffff"


def add_places(connection: apsw.Connection, key: int, passage: Passage) -> None:
    """Make a passage findable by the ends of its names."""
    for ending in _endings(places_of(passage)):
        connection.execute("INSERT INTO passage_endings(ending, key) VALUES(?, ?)", (ending, key))


def remove_places(connection: apsw.Connection, key: int) -> None:
    """Forget the names of a passage."""
    sql = "SELECT title, heading, coalesce(origin, '') FROM passages WHERE key = ?"
    for names in connection.execute(sql, (key,)):
        for ending in _endings(names):
            connection.execute("DELETE FROM passage_endings WHERE ending = ? AND key = ?", (ending, key))


def rank_places(connection: apsw.Connection, text: str, sight: Sight, limit: int) -> list[Scored]:
    """Rank passages by how much of an id, origin, title or heading `text` is: 1 for the whole of it.

    A piece that begins inside a word counts half.
    """
    seen = sight.condition()
    sql = (
        "SELECT p.key, 1.0 FROM passages p "  # noqa: S608 - only our own SQL
        f"WHERE (p.object_id = ? OR (p.part = ? AND p.part <> '')) AND {seen.sql} ORDER BY p.key LIMIT ?"
    )
    best: dict[int, float] = dict(connection.execute(sql, (text, text, *seen.bindings, limit)))
    wanted = text.casefold()
    if len(wanted) >= SHORTEST:
        for key, names in _named(connection, wanted, sight):
            best[key] = max(best.get(key, 0.0), name_share(names, text))
    ranked = sorted(((key, share) for key, share in best.items() if share), key=lambda item: (-item[1], item[0]))
    return [Scored(key, share) for key, share in ranked[:limit]]


def _named(connection: apsw.Connection, wanted: str, sight: Sight) -> Iterable[tuple[int, tuple[str, ...]]]:
    """Return passages one of whose names ends with the last characters of `wanted`."""
    ending, seen = _backwards(wanted), sight.condition()
    sql = (
        "SELECT p.key, p.title, p.heading, coalesce(p.origin, '') "  # noqa: S608 - only our own SQL
        "FROM passage_endings e CROSS JOIN passages p ON p.key = e.key "
        f"WHERE e.ending >= ? AND e.ending <= ? AND {seen.sql} LIMIT ?"
    )
    for key, *names in connection.execute(sql, (ending, ending + _LAST, *seen.bindings, _MOST_CANDIDATES)):
        yield key, tuple(names)


def _endings(names: Iterable[str]) -> set[str]:
    return {_backwards(name.casefold()) for name in names if name}


def _backwards(folded: str) -> str:
    return folded[: -_KEPT_CHARS - 1 : -1]
