"""Search by text in the ledger's own database: words and names by postings, places and days by indexes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from treering.core.errors import Unavailable
from treering.edges.ledger_rows.row_failures import REINDEX, rows_of
from treering.edges.stores.postgres.days import rank_days
from treering.edges.stores.postgres.followed_rows import sights_and_states
from treering.edges.stores.postgres.places import exact_places, named_places, rank_places
from treering.edges.stores.postgres.reach import PassageSight
from treering.edges.stores.postgres.space import PostgresSpace
from treering.edges.stores.postgres.transactions import Transaction
from treering.edges.stores.postgres.word_ranking import WordRanking
from treering.edges.stores.postgres.word_tables import FollowedWords
from treering.ports.late_reads import require_newest
from treering.ports.text import Scored, TextFound, TextRequest

_TRIES = 20  # another thread may have read a later moment; a new transaction sees it, too


class PostgresTextSearch:
    """`ports.text.TextSearch` over a `PostgresSpace`: as new as the ledger."""

    def __init__(self, space: PostgresSpace) -> None:
        self._space = space
        self._words = FollowedWords()

    def search(self, requests: Sequence[TextRequest]) -> Sequence[TextFound]:
        """Search for several requests, all of one moment."""
        for _ in range(_TRIES):
            with rows_of("the index", hint=REINDEX), self._space.read() as transaction:
                found = self._search(transaction, requests)
            if found is not None:
                return found
            require_newest()  # a replica may stay behind what this process has read of the primary
        raise Unavailable(f"{self._space.place} is written faster than it can be read.", hint="Try again.")

    def _search(self, transaction: Transaction, requests: Sequence[TextRequest]) -> list[TextFound] | None:
        sights = sights_and_states(transaction, [request.reach for request in requests])
        words = self._words.at(transaction)
        if words is None:
            return None
        ranking = WordRanking(transaction, words)
        ranking.read_ahead(requests)
        found = [ranking.found(request, seen) for request, seen in zip(requests, sights, strict=True)]
        return _with_places_and_days(transaction, requests, sights, found)


def _with_places_and_days(
    transaction: Transaction,
    requests: Sequence[TextRequest],
    sights: Sequence[PassageSight],
    found: Sequence[TextFound],
) -> list[TextFound]:
    """Add what is found by place and by day, asked for all requests together."""
    queries: list[tuple[str, dict[str, Any]]] = []
    for request, seen in zip(requests, sights, strict=True):
        if request.place:
            queries += [exact_places(request.place, seen, request.limit), named_places(request.place, seen)]
        if request.days:
            queries.append(rank_days(request.days, seen, request.days_limit))
    answers = iter(transaction.together(queries) if queries else ())
    whole = []
    for request, so_far in zip(requests, found, strict=True):
        places, days = list[Scored](), list[Scored]()
        if request.place:
            places = rank_places(request.place, next(answers), next(answers), request.limit)
        if request.days:
            days = [Scored(key, float(score)) for key, score in next(answers)]
        whole.append(replace(so_far, places=places, days=days))
    return whole
