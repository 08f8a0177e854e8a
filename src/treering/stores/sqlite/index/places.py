"""Find passages by name: an id, a path, a title, a symbol, or the end of one."""

from collections.abc import Iterable

import apsw

from treering.ports.passages import Passage
from treering.ports.search import Scored
from treering.retrieval.index.projection import places_of
from treering.stores.rows.fold import MOST_CANDIDATES, ending_range, endings_of, ranked_places
from treering.stores.sqlite.sight import Sight


def add_places(connection: apsw.Connection, passages: Iterable[tuple[int, Passage]]) -> None:
    """Index the ends of the names of passages."""
    rows = ((ending, key) for key, one in passages for ending in endings_of(places_of(one)))
    connection.executemany("INSERT INTO passage_endings(ending, key) VALUES(?, ?)", rows)


def remove_places(connection: apsw.Connection, key: int) -> None:
    """Remove the names of a passage from the index."""
    sql = "SELECT title, heading, coalesce(origin, '') FROM passages WHERE key = ?"
    for names in connection.execute(sql, (key,)):
        for ending in endings_of(names):
            connection.execute("DELETE FROM passage_endings WHERE ending = ? AND key = ?", (ending, key))


def rank_places(connection: apsw.Connection, text: str, sight: Sight, limit: int) -> list[Scored]:
    """Rank passages by the share of an id, origin, title or heading that `text` covers (`ranked_places`)."""
    seen = sight.condition()
    sql = (
        "SELECT p.key FROM passages p "  # noqa: S608 - only our own SQL
        f"WHERE (p.object_id = ? OR (p.part = ? AND p.part <> '')) AND {seen.sql} ORDER BY p.key LIMIT ?"
    )
    exact = [key for (key,) in connection.execute(sql, (text, text, *seen.bindings, limit))]
    return ranked_places(text, exact, _named(connection, text, sight), limit)


def _named(connection: apsw.Connection, text: str, sight: Sight) -> Iterable[tuple[int, tuple[str, ...]]]:
    """Return passages with a name that ends with the last characters of a text."""
    endings, seen = ending_range(text), sight.condition()
    sql = (
        "SELECT p.key, p.title, p.heading, coalesce(p.origin, '') "  # noqa: S608 - only our own SQL
        "FROM passage_endings e CROSS JOIN passages p ON p.key = e.key "
        f"WHERE e.ending >= ? AND e.ending <= ? AND {seen.sql} LIMIT ?"
    )
    for key, *names in connection.execute(sql, (*endings, *seen.bindings, MOST_CANDIDATES)) if endings else ():
        yield key, tuple(names)
