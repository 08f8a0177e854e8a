"""Search by text in the ledger's own database: words and names by FTS5, places and days by indexes."""

from collections.abc import Sequence

import apsw

from treering.edges.ledger_rows.row_failures import REINDEX, rows_of
from treering.edges.stores.sqlite.database import Database
from treering.edges.stores.sqlite.days import rank_days
from treering.edges.stores.sqlite.places import rank_places
from treering.edges.stores.sqlite.reach import sight
from treering.edges.stores.sqlite.words import known_words, rank_names, rank_words
from treering.ports.text import TextFound, TextRequest


class SqliteTextSearch:
    """`ports.text.TextSearch` over the ledger's `Database`: as new as the ledger."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def search(self, requests: Sequence[TextRequest]) -> Sequence[TextFound]:
        """Search for several requests, all of one moment."""
        with rows_of("the index", hint=REINDEX), self._database.read() as connection:
            return [_found(connection, request) for request in requests]


def _found(connection: apsw.Connection, request: TextRequest) -> TextFound:
    seen, limit = sight(connection, request.reach), request.limit
    wholes = {part.whole for part in request.names if part.whole}
    known = known_words(connection, sorted(wholes.union(request.known)), seen)
    names = [part.name for part in request.names if part.whole not in known]
    return TextFound(
        words=rank_words(connection, request.words, seen, limit),
        names=rank_names(connection, names, seen, limit),
        places=rank_places(connection, request.place, seen, limit) if request.place else (),
        days=rank_days(connection, request.days, seen, request.days_limit),
        known=known.intersection(request.known),
    )
