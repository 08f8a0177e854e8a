"""Search by text in the ledger's own database: words and names by FTS5, places and days by indexes."""

from collections.abc import Sequence

import apsw

from treering.edges.ledger_rows.row_failures import REINDEX, rows_of
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.days import rank_days
from treering.edges.stores.sqlite.passing import PassingKeys
from treering.edges.stores.sqlite.places import rank_places
from treering.edges.stores.sqlite.reach import Sight, sight
from treering.edges.stores.sqlite.word_tables import WordTables
from treering.edges.stores.sqlite.words import (
    COLUMNS,
    WEIGHTS,
    count_passages,
    count_words,
    known_words,
    rank_names,
    rank_words,
)
from treering.ports.text import Scored, TextFound, TextRequest


class SqliteTextSearch:
    """`ports.text.TextSearch` over the ledger's `Database`: as new as the ledger."""

    def __init__(self, database: Database, passing: PassingKeys) -> None:
        self._database = database
        self._passing = passing
        self._words = WordTables(WEIGHTS, COLUMNS)

    def search(self, requests: Sequence[TextRequest]) -> Sequence[TextFound]:
        """Search for several requests, all of one moment."""
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
            counts=count_words(connection, request.counted, seen),
            passages=count_passages(connection, seen) if request.counted else 0,
        )

    def _ranked(
        self, connection: apsw.Connection, request: TextRequest, seen: Sight
    ) -> tuple[list[Scored], list[Scored]]:
        """Rank by words, and those of one role once more: in memory what is seen as it is now, else by FTS5."""
        terms, role, limit = request.words, request.words_in, request.limit
        if terms and not seen.of_history and (seen.filtered or seen.scopes is None):
            among = self._passing.of(connection, seen) if seen.filtered else None
            ranked = self._words.rank(connection, terms, limit, role=role, among=among)
            if ranked is not None:
                return ranked
        in_role = rank_words(connection, terms, seen.in_role(role), limit) if role else []
        return rank_words(connection, terms, seen, limit), in_role
