"""Finding passages by what they are called: an id, a path, a title, a symbol, or the end of one."""

from collections.abc import Sequence
from typing import Any

from treering.edges.index_rows.places import MOST_CANDIDATES, ending_range, ranked_places
from treering.edges.stores.postgres.columns import from_column, to_column
from treering.edges.stores.postgres.exchange import Row
from treering.edges.stores.postgres.reach import PassageSight
from treering.ports.text import Scored

Query = tuple[str, dict[str, Any]]


def exact_places(text: str, seen: PassageSight, limit: int) -> Query:
    """Ask for passages whose object or part has this id."""
    where = seen.condition()
    # Each way by its own index.
    sql = (
        f"SELECT p.key FROM passages p WHERE p.space = %(space)s AND p.object_id = %(place)s AND {where.sql} "  # noqa: S608 - only our own SQL
        f"UNION SELECT p.key FROM passages p WHERE p.space = %(space)s AND p.part = %(place)s AND p.part <> '' "
        f"AND {where.sql} ORDER BY 1 LIMIT %(most)s"
    )
    return sql, {"place": _known_text(text), **where.bindings, "most": limit}


def named_places(text: str, seen: PassageSight) -> Query:
    """Ask for passages one of whose names ends with the last characters of a text."""
    first, last = ending_range(text) or ("", "")
    where = seen.condition()
    sql = (
        "SELECT p.key, p.title, p.heading, coalesce(p.origin, '') FROM passage_endings e "  # noqa: S608 - only our own SQL
        "JOIN passages p ON p.space = e.space AND p.key = e.key "
        "WHERE e.space = %(space)s AND e.ending >= %(first_ending)s AND e.ending <= %(last_ending)s "
        f"AND {where.sql} LIMIT %(most)s"
    )
    bindings = {"first_ending": _known_text(first), "last_ending": _known_text(last), "most": MOST_CANDIDATES}
    return sql, {**bindings, **where.bindings}


def rank_places(text: str, exact: Sequence[Row], named: Sequence[Row], limit: int) -> list[Scored]:
    """Rank what was found by how much of an id, origin, title or heading the text is."""
    called = ((key, tuple(map(from_column, names))) for key, *names in named)
    return ranked_places(text, [key for (key,) in exact], called, limit)


def _known_text(text: str) -> str:
    """Return a text to compare stored ones with: none holds half of a surrogate pair."""
    return to_column(text.encode(errors="replace").decode())
