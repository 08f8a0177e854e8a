"""Search by text in the ledger's own database: words and names by FTS5, places and days by indexes."""

from collections.abc import Sequence
from functools import partial

import apsw

from treering.ports.search import Scored, TextFound, TextRequest
from treering.stores.rows.damage import REINDEX, rows_of
from treering.stores.rows.reach import PassingCache
from treering.stores.rows.upkeep import SHOWN
from treering.stores.sqlite.database import Database
from treering.stores.sqlite.index.days import rank_days
from treering.stores.sqlite.index.kept_tables import SqliteSavedTable
from treering.stores.sqlite.index.passage_log import SqliteLog
from treering.stores.sqlite.index.places import rank_places
from treering.stores.sqlite.index.word_tables import WordTables
from treering.stores.sqlite.index.words import (
    count_passages,
    count_words,
    known_words,
    rank_names,
    rank_words,
    with_past,
)
from treering.stores.sqlite.reading import Integers, read_state, written_state
from treering.stores.sqlite.sight import Sight, passing_keys, sight


class SqliteTextSearch:
    """`ports.search.TextSearch` over the ledger's `Database`, always up to date."""

    def __init__(self, database: Database, passing: PassingCache, *, saves_at_once: bool = True) -> None:
        self._database = database
        self._passing = passing
        self._words = WordTables(SqliteSavedTable(database, "words", at_once=saves_at_once))

    def is_due(self) -> bool:
        """Return whether the saved table is missing, or much has changed since."""
        with rows_of("the index", hint=REINDEX), self._database.read() as connection:
            return self._words.is_due(SqliteLog(connection), read_state(connection, SHOWN))

    def prepare(self) -> None:
        """Save the table for all processes."""
        with rows_of("the index", hint=REINDEX), self._database.read() as connection:
            self._words.prepare(SqliteLog(connection))

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
        counts |= count_words(connection, [word for word in words if word not in counts], seen)
        return {word: count for word, count in counts.items() if count}

    def _passing_of(self, connection: apsw.Connection, seen: Sight) -> Integers:
        state, read = written_state(connection), partial(passing_keys, connection)
        return self._passing.of(state, seen.reach, seen.scopes, read)
