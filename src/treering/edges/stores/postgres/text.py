"""Search by text in the ledger's own database: words and names by postings, places and days by indexes."""

from collections.abc import Sequence

from treering.edges.ledger_rows.row_failures import REINDEX, rows_of
from treering.edges.stores.postgres.days import rank_days
from treering.edges.stores.postgres.places import exact_places, named_places, rank_places
from treering.edges.stores.postgres.reach import Sight, sights
from treering.edges.stores.postgres.space import PostgresSpace
from treering.edges.stores.postgres.transactions import Transaction
from treering.ports.text import Scored, TextFound, TextRequest


class PostgresTextSearch:
    """`ports.text.TextSearch` over a `PostgresSpace`: as new as the ledger."""

    def __init__(self, space: PostgresSpace) -> None:
        self._space = space

    def search(self, requests: Sequence[TextRequest]) -> Sequence[TextFound]:
        """Search for several requests, all of one moment."""
        with rows_of("the index", hint=REINDEX), self._space.read() as transaction:
            known = sights(transaction, [request.reach for request in requests])
            return [_found(transaction, *each) for each in zip(requests, known, strict=True)]


def _found(transaction: Transaction, request: TextRequest, seen: Sight) -> TextFound:
    return TextFound(places=_places(transaction, request, seen), days=_days(transaction, request, seen))


def _places(transaction: Transaction, request: TextRequest, seen: Sight) -> list[Scored]:
    if not request.place:
        return []
    queries = [exact_places(request.place, seen, request.limit), named_places(request.place, seen)]
    exact, named = transaction.together(queries)
    return rank_places(request.place, exact, named, request.limit)


def _days(transaction: Transaction, request: TextRequest, seen: Sight) -> list[Scored]:
    if not request.days:
        return []
    sql, bindings = rank_days(request.days, seen, request.days_limit)
    return [Scored(key, float(score)) for key, score in transaction.rows(sql, **bindings)]
