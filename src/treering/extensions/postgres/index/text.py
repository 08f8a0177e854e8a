"""Search by text in the ledger's own database: words and names by postings, places and days by indexes."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from heapq import nsmallest
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.core.errors import Unavailable
from treering.extensions.postgres.connection.failures import from_column, to_column
from treering.extensions.postgres.connection.space import PostgresSpace
from treering.extensions.postgres.connection.transactions import Row, Statement, Transaction
from treering.extensions.postgres.index.index_state import PassageSight, sights_and_states
from treering.extensions.postgres.index.word_tables import FollowedWords, Held, Keys, WordsAt, integers
from treering.ports.passages import MOST_NAMED, AskedDays
from treering.ports.runtime import require_newest
from treering.ports.search import MOST_COUNTED, Scored, TextFound, TextRequest
from treering.retrieval.index.code_names import name_code
from treering.retrieval.index.passages import MAX_DAYS
from treering.retrieval.index.word_table import Postings, Scores, WordTable, best
from treering.stores.rows.damage import REINDEX, rows_of
from treering.stores.rows.fold import MOST_CANDIDATES, ending_range, ranked_places

_SHORTEST_NAME = 3  # the length of the shortest indexed substring
_WORD = re.compile(r"[a-z0-9_\u0080-\U0010ffff]+")
_PASSING = (
    "SELECT string_agg(int4send(p.key::integer), ''::bytea) FROM passages p "
    "WHERE p.space = %(space)s AND p.live AND p.until_seq IS NULL AND "
)
_PAST = (
    "SELECT p.key, p.terms, p.trigrams, p.place_role, {seen} FROM passages p WHERE p.space = %(space)s "
    "AND p.key = ANY(%(keys)s::bigint[]) AND NOT (p.live AND p.until_seq IS NULL) ORDER BY p.key"
)
_PAST_NAMES = (
    "SELECT count(*), coalesce(sum(trigrams), 0) FROM passages "
    "WHERE space = %(space)s AND NOT (live AND until_seq IS NULL)"
)

Term = tuple[str, ...]
Mask = npt.NDArray[np.bool_] | None
"""The visible current passages by key; `None` for all of them."""


class WordRanking:
    """Answers questions about words and names from one snapshot."""

    def __init__(self, transaction: Transaction, words: WordsAt) -> None:
        self._transaction = transaction
        self._at = words
        self._postings: dict[Term, Postings] = {}
        """The postings of the requested terms in current passages."""

    def read_ahead(self, requests: Sequence[TextRequest]) -> None:
        """Read the postings of all terms in requests together."""
        texts = (text for one in requests for text in (*one.words, *one.counted, *(part.whole for part in one.names)))
        self._postings = self._at.current_with(self._transaction, filter(None, map(_term, texts)))

    def found(self, request: TextRequest, seen: PassageSight) -> TextFound:
        """Answer the part of a request about words and names."""
        in_scope = None if seen.scopes is None else self._at.shown.in_scopes(seen.scopes)
        names = [one.name for one in request.names if not self._count(one.whole, in_scope)]
        words, words_in = self._words(request, seen, in_scope)
        counts = {text: min(count, MOST_COUNTED) for text in request.counted if (count := self._count(text, in_scope))}
        shown = self._at.shown.scopes > 0 if in_scope is None else in_scope
        return TextFound(
            words=words,
            words_in=words_in,
            names=self._names(names, seen, in_scope, request.limit),
            counts=counts,
            passages=min(int(np.count_nonzero(shown)), MOST_COUNTED) if request.counted else 0,
        )

    def _words(self, request: TextRequest, seen: PassageSight, in_scope: Mask) -> tuple[list[Scored], list[Scored]]:
        terms = [term for text in request.words if (term := _term(text))]
        if not terms:
            return [], []
        limit, role = request.limit, request.words_in
        scores = self._at.words.scores([self._postings[term] for term in terms])
        mask = self._passing(seen, in_scope)
        ranked = _best(scores, limit, mask)
        in_role = _best(scores, limit, _both(mask, self._at.shown.in_role(role))) if role else []
        if seen.of_history:
            past = self._past_words(list(dict.fromkeys(word for term in terms for word in term)), seen)
            ranked = _first([*ranked, *(hit for hit, _ in past)], limit)
            of_role = (hit for hit, place_role in past if place_role == role)
            in_role = _first([*in_role, *of_role], limit) if role else []
        return ranked, in_role

    def _names(self, names: Sequence[str], seen: PassageSight, in_scope: Mask, limit: int) -> list[Scored]:
        wanted = [name for name in names if len(name) >= _SHORTEST_NAME]
        if not wanted:
            return []
        held = [self._at.with_name(self._transaction, name) for name in wanted]
        scores = self._at.names.scores([self._at.current(each) for each in held])
        ranked = _best(scores, limit, self._passing(seen, in_scope))
        return _first([*ranked, *self._past_names(held, seen)], limit) if seen.of_history else ranked

    def _count(self, text: str, in_scope: Mask) -> int:
        """Count the current passages in scope with a term."""
        term = _term(text)
        if not term:
            return 0
        keys = self._postings[term].keys
        return len(keys) if in_scope is None else int(np.count_nonzero(in_scope[keys]))

    def _passing(self, seen: PassageSight, in_scope: Mask) -> Mask:
        """Return which current passages are visible."""
        if not seen.filtered and seen.reach.at is None:
            return in_scope
        where = seen.beyond_scope()
        joined = self._transaction.first(f"{_PASSING} {where.sql}", **where.bindings)
        passing = np.zeros(len(self._at.shown.scopes), np.bool_)
        passing[integers(joined)] = True
        return _both(passing, in_scope)

    def _past_words(self, words: Sequence[str], seen: PassageSight) -> list[tuple[Scored, str]]:
        """Rank earlier passages, with their roles, by the statistics of current text.

        The statistics of earlier text would make a word look common that was edited once.
        """
        held = self._at.with_terms(self._transaction, [(word,) for word in words])
        past = self._past(held.values(), seen)
        having = [len(self._at.shown.among(held[word,][0])) for word in words]
        postings = [_among(held[word,], past.keys) for word in words]
        lengths = np.zeros(int(past.keys.max(initial=-1)) + 1)
        lengths[past.keys] = past.terms
        scores = self._at.words.scores_of_others(lengths, postings, having)[past.keys]
        ranked = zip(past.keys.tolist(), scores.tolist(), past.roles, past.seen.tolist(), strict=True)
        return [(Scored(key, score), role) for key, score, role, is_seen in ranked if is_seen and score]

    def _past_names(self, held: Sequence[Held], seen: PassageSight) -> list[Scored]:
        past = self._past(held, seen)
        if not len(past.keys):
            return []
        rows, total = self._transaction.rows(_PAST_NAMES)[0]
        table = WordTable()
        table.begin(past.keys, past.trigrams, rows=int(rows), total=int(total))
        scores = table.scores([_among(each, past.keys) for each in held])
        return [Scored(key, float(scores[key])) for key in past.keys[past.seen].tolist() if scores[key]]

    def _past(self, held: Iterable[Held], seen: PassageSight) -> "_Past":
        """Read the data of earlier passages."""
        keys = np.unique(np.concatenate([np.zeros(0, np.int64), *(each for each, _ in held)]))
        shown = np.zeros(len(keys), np.bool_)
        shown[self._at.shown.among(keys)] = True
        where = seen.condition()
        sql = _PAST.format(seen=where.sql)
        rows = self._transaction.rows(sql, keys=keys[~shown].tolist(), **where.bindings) if len(keys) else []
        columns = list(zip(*rows, strict=True)) or [(), (), (), (), ()]
        numbers = [np.array(column, np.int64) for column in columns[:3]]
        return _Past(numbers[0], numbers[1], numbers[2], columns[3], np.array(columns[4], np.bool_))


@dataclass(frozen=True, slots=True)
class _Past:
    """Earlier passages: keys, lengths, roles, and whether they are visible."""

    keys: Keys
    terms: Keys
    trigrams: Keys
    roles: Sequence[str]
    seen: npt.NDArray[np.bool_]


def _term(text: str) -> Term:
    """Return the words of a term. Several words are a phrase."""
    return tuple(_WORD.findall(text.lower() if text.isascii() else text))


def _among(held: Held, keys: Keys) -> Postings:
    """Return the postings of some passages."""
    keys_held, counts = held
    inside = np.isin(keys_held, keys)
    return Postings(keys_held[inside].astype(np.int32), (counts[inside] / 2).astype(np.float32))


def _both(one: Mask, other: Mask) -> Mask:
    if one is None or other is None:
        return one if other is None else other
    return one & other


def _best(scores: Scores, limit: int, mask: Mask) -> list[Scored]:
    keys, scores_found = best(scores, limit, among=None if mask is None else np.flatnonzero(mask).astype(np.int32))
    return [Scored(key, score) for key, score in zip(keys.tolist(), scores_found.tolist(), strict=True)]


def _first(hits: Iterable[Scored], limit: int) -> list[Scored]:
    return nsmallest(limit, hits, key=lambda hit: (-hit.score, hit.key))


_TRIES = 20  # another thread may have read a later state, which a new transaction sees as well


class PostgresTextSearch:
    """`ports.search.TextSearch` over a `PostgresSpace`, always up to date."""

    def __init__(self, space: PostgresSpace) -> None:
        self._space = space
        self._words = FollowedWords()

    def search(self, requests: Sequence[TextRequest]) -> Sequence[TextFound]:
        """Answer several requests from one snapshot."""
        for _ in range(_TRIES):
            with rows_of("the index", hint=REINDEX), self._space.read() as transaction:
                answers = self._search(transaction, requests)
            if answers is not None:
                return answers
            require_newest()  # a replica may be behind a state that this process has read from the primary
        raise Unavailable(f"{self._space.place} changes faster than it can be read.", hint="Try again.")

    def _search(self, transaction: Transaction, requests: Sequence[TextRequest]) -> list[TextFound] | None:
        sights = sights_and_states(transaction, [request.reach for request in requests])
        words = self._words.at(transaction)
        if words is None:
            return None
        ranking = WordRanking(transaction, words)
        ranking.read_ahead(requests)
        answers = [ranking.found(request, seen) for request, seen in zip(requests, sights, strict=True)]
        return _with_places_and_days(transaction, requests, sights, answers)


def _with_places_and_days(
    transaction: Transaction,
    requests: Sequence[TextRequest],
    sights: Sequence[PassageSight],
    found: Sequence[TextFound],
) -> list[TextFound]:
    """Add the results by place and by day, read for all requests together."""
    queries: list[Statement] = []
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


def exact_places(text: str, seen: PassageSight, limit: int) -> Statement:
    """Return the query for passages with this id of an object or part."""
    where = seen.condition()
    # Two queries, so that each uses its own index.
    sql = (
        f"SELECT p.key FROM passages p WHERE p.space = %(space)s AND p.object_id = %(place)s AND {where.sql} "  # noqa: S608 - only our own SQL
        f"UNION SELECT p.key FROM passages p WHERE p.space = %(space)s AND p.part = %(place)s AND p.part <> '' "
        f"AND {where.sql} ORDER BY 1 LIMIT %(most)s"
    )
    return sql, {"place": _known_text(text), **where.bindings, "most": limit}


def named_places(text: str, seen: PassageSight) -> Statement:
    """Return the query for passages with a name that ends with the last characters of a text."""
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
    """Rank results by the share of an id, origin, title or heading that the text covers."""
    called = ((key, tuple(map(from_column, names))) for key, *names in named)
    return ranked_places(text, [key for (key,) in exact], called, limit)


def _known_text(text: str) -> str:
    """Return a text without surrogates, as stored texts are."""
    return to_column(text.encode(errors="replace").decode())


_FORGET = (
    "DELETE FROM code_names n USING unnest(%(names)s::bigint[], %(keys)s::bigint[]) AS gone(name, key) "
    "WHERE n.space = %(space)s AND n.name = gone.name AND n.key = gone.key"
)


def settle_names(
    transaction: Transaction, *, gone: Mapping[int, Sequence[str]], come: Mapping[int, Sequence[str]]
) -> None:
    """Remove names of code that passages no longer have, then add new ones. Both by key."""
    if left := _name_rows(gone):
        names, keys = ([row[place] for row in left] for place in range(2))
        transaction.later(_FORGET, names=names, keys=keys)
    transaction.insert("code_names", ("name bigint", "key bigint"), _name_rows(come), conflict="ON CONFLICT DO NOTHING")


def purge_names(transaction: Transaction, keys: Sequence[int]) -> None:
    """Remove all names of code of erased passages."""
    if keys:
        sql = "DELETE FROM code_names WHERE space = %(space)s AND key = ANY(%(keys)s::bigint[])"
        transaction.later(sql, keys=list(keys))


def passages_named(transaction: Transaction, names: Sequence[str], seen: PassageSight) -> dict[str, list[int]]:
    """Return the visible current passages with each name of code, by key, up to `MOST_NAMED`."""
    if not names:
        return {}
    where = seen.condition()
    sql = (
        "SELECT asked.name, found.key FROM unnest(%(codes)s::bigint[]) AS asked(name) CROSS JOIN LATERAL ("  # noqa: S608 - only our own SQL
        "SELECT n.key FROM code_names n JOIN passages p ON p.space = n.space AND p.key = n.key "
        f"WHERE n.space = %(space)s AND n.name = asked.name AND {where.sql} ORDER BY n.key LIMIT {MOST_NAMED}) "
        "AS found ORDER BY found.key"
    )
    by_code: dict[int, list[int]] = {}
    codes = {name: name_code(name) for name in names}
    for code, key in transaction.rows(sql, codes=sorted(set(codes.values())), **where.bindings):
        by_code.setdefault(code, []).append(key)
    return {name: by_code[code] for name, code in codes.items() if code in by_code}


def _name_rows(names: Mapping[int, Iterable[str]]) -> list[tuple[int, int]]:
    return sorted({(name_code(name), key) for key, each in names.items() for name in each})


# The share of a turn's period that is within the requested days. No period is longer than `MAX_DAYS`, so that the
# periods that may overlap are a short range of the index.
_SCORE = (
    "max(a.weight * (least(d.last, a.last) - greatest(d.first, a.first) + 1.0::double precision) "
    "/ (d.last - d.first + 1))"
)
_ASKED = (
    "unnest(%(day_firsts)s::integer[], %(day_lasts)s::integer[], %(day_weights)s::double precision[]) "
    "AS a(first, last, weight)"
)
_TOLD = (
    f"JOIN passage_days d ON d.space = %(space)s AND d.first BETWEEN a.first - {MAX_DAYS} AND a.last "
    "AND d.last >= a.first"
)


def rank_days(asked: Sequence[AskedDays], seen: PassageSight, limit: int) -> Statement:
    """Return the query for turns by the share of their period within the requested days; then the newest first."""
    where = seen.condition()
    sql = (
        f"SELECT d.key, {_SCORE} AS score FROM {_ASKED} {_TOLD} "  # noqa: S608 - only our own SQL
        f"JOIN passages p ON p.space = %(space)s AND p.key = d.key WHERE {where.sql} "
        "GROUP BY d.key ORDER BY score DESC, d.key DESC LIMIT %(most)s"
    )
    return sql, {**_bound(asked), **where.bindings, "most": limit}


def on_days(asked: Sequence[AskedDays], keys: Sequence[int]) -> Statement:
    """Return the query for the scores of passages with requested days."""
    sql = (
        f"SELECT d.key, {_SCORE} FROM {_ASKED} {_TOLD} "  # noqa: S608 - only our own SQL
        "WHERE d.key = ANY(%(keys)s::bigint[]) GROUP BY d.key"
    )
    return sql, {**_bound(asked), "keys": list(keys)}


def _bound(asked: Sequence[AskedDays]) -> dict[str, Any]:
    return {
        "day_firsts": [days.first.toordinal() for days in asked],
        "day_lasts": [days.last.toordinal() for days in asked],
        "day_weights": [float(days.weight) for days in asked],
    }
