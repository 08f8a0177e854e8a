"""Search by text in the ledger's own database: words and names by FTS5, places and days by indexes.

And reads of passages by key, for showing the results.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import apsw

from treering.ports.passages import MOST_NAMED, AskedDays, Passage, PassageHead, PassageRequest, PassagesFound, Reach
from treering.ports.search import Scored, TextFound, TextRequest
from treering.retrieval.index.code_names import name_code
from treering.retrieval.index.passages import MAX_DAYS
from treering.retrieval.index.projection import places_of
from treering.retrieval.index.ties import DIALOGUE_KINDS
from treering.stores.rows.fold import MOST_CANDIDATES, day_values, ending_range, endings_of, ranked_places
from treering.stores.rows.packing import REINDEX, rows_of
from treering.stores.rows.reach import PassingCache
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.words import (
    COLUMNS,
    WEIGHTS,
    WordTables,
    count_passages,
    count_words,
    known_words,
    rank_names,
    rank_words,
    with_past,
)
from treering.stores.sqlite.reading import Integers, Sight, in_batches, passing_keys, sight, written_state


class SqliteTextSearch:
    """`ports.search.TextSearch` over the ledger's `Database`, always up to date."""

    def __init__(self, database: Database, passing: PassingCache) -> None:
        self._database = database
        self._passing = passing
        self._words = WordTables(WEIGHTS, COLUMNS)

    def search(self, requests: Sequence[TextRequest]) -> Sequence[TextFound]:
        """Answer several requests from one snapshot."""
        with rows_of("the index", hint=REINDEX), self._database.read() as connection:
            return [self._found(connection, request) for request in requests]

    def _found(self, connection: apsw.Connection, request: TextRequest) -> TextFound:
        seen, limit = sight(connection, request.reach), request.limit
        known = known_words(connection, sorted({part.whole for part in request.names if part.whole}), seen)
        names = [part.name for part in request.names if part.whole not in known]
        words, words_in = self._ranked(connection, request, seen)
        return TextFound(
            words=words,
            words_in=words_in,
            names=rank_names(connection, names, seen, limit),
            places=rank_places(connection, request.place, seen, limit) if request.place else (),
            days=rank_days(connection, request.days, seen, request.days_limit),
            counts=self._counts(connection, request.counted, seen),
            passages=count_passages(connection, seen) if request.counted else 0,
        )

    def _ranked(
        self, connection: apsw.Connection, request: TextRequest, seen: Sight
    ) -> tuple[list[Scored], list[Scored]]:
        """Rank passages by words, and those of one role separately.

        Current passages are ranked in memory if all scopes are visible or a filter selects them; otherwise, and for
        earlier revisions, FTS5 ranks them.
        """
        terms, role, limit = request.words, request.words_in, request.limit
        narrowed = seen.in_role(role)
        if terms and seen.reach.at is None and (seen.filtered or seen.scopes is None):
            among = self._passing_of(connection, seen) if seen.filtered else None
            ranked = self._words.rank(connection, terms, limit, role=role, among=among)
            if ranked is not None:
                words, in_role = ranked
                return (
                    with_past(connection, words, terms, seen, limit),
                    with_past(connection, in_role, terms, narrowed, limit) if role else [],
                )
        in_role = rank_words(connection, terms, narrowed, limit) if role else []
        return rank_words(connection, terms, seen, limit), in_role

    def _counts(self, connection: apsw.Connection, words: Sequence[str], seen: Sight) -> dict[str, int]:
        """Count passages per term, in memory if all scopes are visible and the term's postings are loaded."""
        counts = self._words.counts(connection, words) if words and seen.scopes is None else {}
        counts |= count_words(connection, (word for word in words if word not in counts), seen)
        return {word: count for word, count in counts.items() if count}

    def _passing_of(self, connection: apsw.Connection, seen: Sight) -> Integers:
        state, read = written_state(connection), partial(passing_keys, connection)
        return self._passing.of(state, seen.reach, seen.scopes, read)


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


# The share of a turn's period that is within the requested days. No period is longer than `MAX_DAYS`, so that the
# periods that may overlap are a short range of the index.
_SCORE = "max(a.weight * (min(d.last, a.last) - max(d.first, a.first) + 1.0) / (d.last - d.first + 1))"
_TOUCHED = f"d.first BETWEEN a.first - {MAX_DAYS} AND a.last AND d.last >= a.first"


def add_days(connection: apsw.Connection, passages: Iterable[tuple[int, Passage]]) -> None:
    """Index the days on which turns were written and the days they mention."""
    rows = ((key, *period) for key, one in passages for period in day_values(one))
    connection.executemany("INSERT INTO passage_days(key, first, last) VALUES(?, ?, ?)", rows)


def remove_days(connection: apsw.Connection, key: int) -> None:
    """Remove the days of a passage from the index."""
    connection.execute("DELETE FROM passage_days WHERE key = ?", (key,))


def rank_days(connection: apsw.Connection, asked: Sequence[AskedDays], sight: Sight, limit: int) -> list[Scored]:
    """Rank turns by the share of their period that is within the requested days; then the newest first."""
    if not asked:
        return []
    seen = sight.condition()
    sql = (
        f"WITH {_asked(asked)} SELECT d.key, {_SCORE} AS score "  # noqa: S608 - only our own SQL
        f"FROM asked a CROSS JOIN passage_days d ON {_TOUCHED} CROSS JOIN passages p ON p.key = d.key "
        f"WHERE {seen.sql} GROUP BY d.key ORDER BY score DESC, d.key DESC LIMIT ?"
    )
    rows = connection.execute(sql, (*_bound(asked), *seen.bindings, limit))
    return [Scored(key, score) for key, score in rows]


def on_days(connection: apsw.Connection, asked: Sequence[AskedDays], keys: Sequence[int]) -> dict[int, float]:
    """Return the scores of passages with requested days."""
    sql = (
        f"WITH {_asked(asked)} SELECT d.key, {_SCORE} "  # noqa: S608 - only our own SQL
        f"FROM passage_days d CROSS JOIN asked a ON {_TOUCHED} WHERE d.key IN (?*) GROUP BY d.key"
    )
    return dict(in_batches(connection, sql, keys if asked else (), before=_bound(asked)))


def _asked(asked: Sequence[AskedDays]) -> str:
    return f"asked(first, last, weight) AS (VALUES {','.join(['(?,?,?)'] * len(asked))})"


def _bound(asked: Sequence[AskedDays]) -> list[float]:
    return [value for days in asked for value in (days.first.toordinal(), days.last.toordinal(), days.weight)]


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
