"""Search by text in the toy store: every row is looked at."""

from collections.abc import Callable, Iterable, Sequence
from math import log

from toy_store.toy_tables import Row, ToyTables
from treering.ports.passages import Reach
from treering.ports.search import MOST_COUNTED, Scored, TextFound, TextRequest
from treering.retrieval.search.fusion import day_share, place_share

_WEIGHTS = (2.0, 1.5, 1.0)
_K1, _B = 1.2, 0.75
_SHORTEST_NAME = 3


def found(tables: ToyTables, request: TextRequest) -> TextFound:
    """Search for one request."""
    rows, limit = tables.seen(request.reach), request.limit
    stock = [row for row in tables.rows.values() if row.stands(request.reach)]
    counts = {term: _having(tables, term, request) for term in request.counted}
    known = {part.whole for part in request.names if part.whole and _having(tables, part.whole, request)}
    names = [part.name for part in request.names if part.whole not in known and len(part.name) >= _SHORTEST_NAME]
    in_role = [row for row in rows if row.passage.place_role == request.words_in]
    return TextFound(
        words=_bm25(request.words, rows, stock, _word_count, _length, limit),
        words_in=_bm25(request.words, in_role, stock, _word_count, _length, limit) if request.words_in else (),
        names=_bm25(
            names, rows, stock, lambda row, name: float(row.names.count(name)), lambda row: len(row.names), limit
        ),
        places=_best(((row, place_share(row.passage, request.place)) for row in rows), limit) if request.place else (),
        days=_best(((row, day_share(row.passage, request.days)) for row in rows), request.days_limit),
        counts={term: min(count, MOST_COUNTED) for term, count in counts.items() if count},
        passages=min(len(_current(tables, request)), MOST_COUNTED) if request.counted else 0,
    )


def _bm25(
    terms: Iterable[str],
    rows: Sequence[Row],
    stock: Sequence[Row],
    count: Callable[[Row, str], float],
    length: Callable[[Row], int],
    limit: int,
) -> list[Scored]:
    scores = dict.fromkeys((row.key for row in rows), 0.0)
    mean = sum(map(length, stock)) / len(stock) if stock else 0.0
    for term in terms:
        having = sum(count(row, term) > 0 for row in stock)
        rarity = log(1 + (len(stock) - having + 0.5) / (having + 0.5))
        for row in rows:
            if often := count(row, term):
                scores[row.key] += rarity * often * (_K1 + 1) / (often + _K1 * (1 - _B + _B * length(row) / mean))
    return _best(((row, scores[row.key]) for row in rows), limit)


def _word_count(row: Row, term: str) -> float:
    if " " not in term:
        return sum(weight * counts[term] for weight, counts in zip(_WEIGHTS, row.counts, strict=True))
    words = term.split()
    runs = ([words == at[start : start + len(words)] for start in range(len(at))] for at in row.fields)
    return sum(weight * sum(run) for weight, run in zip(_WEIGHTS, runs, strict=True))


def _length(row: Row) -> int:
    return sum(map(len, row.fields))


def _having(tables: ToyTables, term: str, request: TextRequest) -> int:
    return sum(_word_count(row, term) > 0 for row in _current(tables, request))


def _current(tables: ToyTables, request: TextRequest) -> list[Row]:
    reach: Reach = request.reach
    return [row for row in tables.current() if reach.sees(row.passage.scope)]


def _best(scored: Iterable[tuple[Row, float]], limit: int) -> list[Scored]:
    """Return the best that have a score, of equal ones the newest first."""
    ranked = sorted(((row, score) for row, score in scored if score > 0), key=lambda pair: (-pair[1], -pair[0].number))
    return [Scored(row.key, score) for row, score in ranked[:limit]]
