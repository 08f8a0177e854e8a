"""Search by text in the ledger's own database: words and names by postings, places and days by indexes."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from treering.core.errors import Unavailable
from treering.ports.runtime import require_newest
from treering.ports.search import Scored, TextFound, TextRequest
from treering.stores.postgres.connection.exchange import Row
from treering.stores.postgres.connection.failures import from_column, to_column
from treering.stores.postgres.connection.space import PostgresSpace
from treering.stores.postgres.connection.transactions import Transaction
from treering.stores.postgres.index.filters import PassageSight
from treering.stores.postgres.index.followed_rows import sights_and_states
from treering.stores.postgres.index.passages import rank_days
from treering.stores.postgres.index.word_ranking import WordRanking
from treering.stores.postgres.index.word_tables import FollowedWords
from treering.stores.rows.fold import MOST_CANDIDATES, ending_range, ranked_places
from treering.stores.rows.row_failures import REINDEX, rows_of

_TRIES = 20  # another thread may have read a later moment; a new transaction sees it, too


class PostgresTextSearch:
    """`ports.search.TextSearch` over a `PostgresSpace`: as new as the ledger."""

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


# Finding passages by what they are called: an id, a path, a title, a symbol, or the end of one.


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
