"""Full text of passages: words ranked by BM25, names by substrings.

Contentless FTS5 stores only the inverted index. Current passages are in one table, earlier ones in another with the
same columns, so that withdrawn text neither slows down nor affects the ranking of current text.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from heapq import nsmallest
from itertools import chain, starmap
from math import log

import apsw
import numpy as np

from treering.ports.passages import Passage
from treering.ports.runtime import check_interrupt
from treering.ports.search import MOST_COUNTED, Scored
from treering.retrieval.index.projection import terms_of
from treering.retrieval.index.tables import Keys
from treering.retrieval.index.word_table import K1, B
from treering.stores.rows.reach import place_terms
from treering.stores.sqlite.filters import ALWAYS, Condition, joined
from treering.stores.sqlite.index.tables import FULL_TEXT, NAMES, NAMES_HISTORY, WORDS, WORDS_HISTORY
from treering.stores.sqlite.readers import ReadConnection, remembered
from treering.stores.sqlite.reading import in_batches
from treering.stores.sqlite.sight import Sight, fts_query

WEIGHTS = (2.0, 1.5, 1.0, 0.0)
"""The weights of title, heading, body and scope (BM25F-like column weights of FTS5)."""


COLUMNS = ("title", "heading", "body", "scope")


_FEW = 500  # keys in one statement


_SHORTEST_NAME = 3  # the minimum for a trigram index


_FIRST_LIST = 1 << 53
"""The number of the first page with removed passages in a table of FTS5."""


_SEGMENT_BITS = 37
"""The bits of the number of a page below the number of its segment."""
_LARGE_SHARE = 1 / 8
"""The share of all pages from which segments are large; chosen by erasing from 136,818 passages of code."""
_ALL_PAGES = 1 << 30


_MERGE_DEFAULTS = (
    ("usermerge", 4),
    ("deletemerge", 10),
)  # https://sqlite.org/fts5.html#the_deletemerge_configuration_option


# The index has the first term of each page. Postings of a frequent term fill pages in which no term begins: it is
# between the last term before them and the first after. A page number is doubled.
_LONG_POSTINGS = (
    f"SELECT term, after FROM (SELECT term, lead(term, 1, x'30f48fbfbf') OVER segment AS after, "  # noqa: S608 - our table
    f"(lead(pgno, 1, 1 << 40) OVER segment - pgno) / 2 AS pages FROM {WORDS}_idx "
    "WINDOW segment AS (PARTITION BY segid ORDER BY term)) WHERE pages > ?"
)
_PAGE_BYTES = 4_050
_LEAST_BYTES = 2
"""The least bytes for each passage in the largest segment; a passage of the only segment takes 3 or more."""

# Terms that FTS5 does not change: see `WORD_TOKENIZER`.
PLAIN_TERM = re.compile(r"[a-z0-9_\u0080-\U0010ffff]+")


def add_words(connection: apsw.Connection, passages: Sequence[tuple[int, Passage]], *, current: bool) -> None:
    """Index the texts of passages, by key."""
    words, names = _tables(current)
    named: list[tuple[int, str]] = []

    def rows() -> Iterator[tuple[int, str, str, str, str]]:
        for key, one in passages:
            text_terms = terms_of(one)
            named.append((key, text_terms.names))
            yield key, text_terms.title, text_terms.heading, text_terms.body, " ".join(place_terms(one))

    connection.executemany(f"INSERT INTO {words}(rowid, title, heading, body, scope) VALUES(?, ?, ?, ?, ?)", rows())
    connection.executemany(f"INSERT INTO {names}(rowid, name) VALUES(?, ?)", named)


def remove_words(connection: apsw.Connection, key: int, *, current: bool) -> None:
    """Remove a passage from the index. Its words remain in the file until `purge_words`."""
    for table in _tables(current):
        connection.execute(f"DELETE FROM {table} WHERE rowid = ?", (key,))  # noqa: S608 - our tables


def purge_words(connection: apsw.Connection, keys: Collection[int]) -> None:
    """Rewrite the segments of the index that still contain removed passages.

    The cost grows with the segments: a passage that was added last is in a small one, most others are in the largest.
    """
    for table in FULL_TEXT:
        segments = _with_removed(connection, table, keys)
        if segments and not _are_large(connection, table, segments):
            _merge(connection, table)
            segments = _with_removed(connection, table, keys)
        if segments:
            connection.execute(f"INSERT INTO {table}({table}) VALUES('optimize')")


def _with_removed(connection: apsw.Connection, table: str, keys: Collection[int]) -> set[int]:
    """Return the segments that contain removed passages, which FTS5 lists until it rewrites the segment.

    A page of such a list has the size of its numbers in the first byte, and begins with 8 bytes. Its number contains
    the number of the segment, and is above the numbers of other pages: https://sqlite.org/src/file/ext/fts5/fts5_index.c.
    """
    sql = f"SELECT id, block FROM {table}_data WHERE id >= ?"  # noqa: S608 - our tables
    return {
        (number - _FIRST_LIST) >> _SEGMENT_BITS
        for number, page in connection.execute(sql, (_FIRST_LIST,))
        if np.isin(list(keys), np.frombuffer(page[8:], ">u4" if page[0] == 4 else ">u8")).any()
    }


def _are_large(connection: apsw.Connection, table: str, segments: Collection[int]) -> bool:
    """Return whether segments are too large for a merge of single levels, which would only be repeated for all."""
    sql = f"SELECT segid, count(*) FROM {table}_idx GROUP BY segid"  # noqa: S608 - our tables
    pages: dict[int, int] = dict(connection.execute(sql))
    return sum(pages.get(segment, 0) for segment in segments) >= _LARGE_SHARE * sum(pages.values())


def _merge(connection: apsw.Connection, table: str) -> None:
    """Merge the levels of segments of which one passage in a hundred or more was removed."""
    for command, value in (("usermerge", 16), ("deletemerge", 1), ("merge", _ALL_PAGES), *_MERGE_DEFAULTS):
        connection.execute(f"INSERT INTO {table}({table}, rank) VALUES(?, ?)", (command, value))


def rank_words(connection: apsw.Connection, terms: Sequence[str], sight: Sight, limit: int) -> list[Scored]:
    """Rank by BM25 over words and phrases (terms of several words)."""
    if not terms:
        return []
    match, narrowed = sight.match(fts_query(terms)), _beyond_scope(sight)
    current = _best([ranked_rows(connection, WORDS, match, WEIGHTS, narrowed, limit)], limit)
    return with_past(connection, current, terms, sight, limit)


def with_past(
    connection: apsw.Connection, current: Sequence[Scored], terms: Sequence[str], sight: Sight, limit: int
) -> list[Scored]:
    """Add earlier passages to ranked current ones, if the reach includes them."""
    if not sight.of_history:
        return list(current)
    past = _ranked_past(connection, terms, sight, limit)
    return nsmallest(limit, chain(current, starmap(Scored, past)), key=lambda hit: (-hit.score, hit.key))


def rank_names(connection: apsw.Connection, wanted: Sequence[str], sight: Sight, limit: int) -> list[Scored]:
    """Rank by BM25 over substrings of names."""
    names = [
        name for name in wanted if len(name) >= _SHORTEST_NAME and (sight.of_history or _has_name(connection, name))
    ]
    if not names:
        return []
    match, narrowed = fts_query(names), _all_of([_beyond_scope(sight), sight.place()])
    tables = (NAMES, NAMES_HISTORY) if sight.of_history else (NAMES,)
    return _best([ranked_rows(connection, table, match, (1.0,), narrowed, limit) for table in tables], limit)


def _has_name(connection: apsw.Connection, name: str) -> bool:
    """Return whether current passages have names that contain a text.

    The answer is cached: one question is searched with several filters, and for a missing name each search would read
    the postings of all of its trigrams.
    """
    sql = f"SELECT EXISTS(SELECT 1 FROM {NAMES} WHERE {NAMES} MATCH ?)"  # noqa: S608 - our table
    return remembered(connection, (NAMES, name), lambda: bool(next(connection.execute(sql, (fts_query([name]),)))[0]))


def known_words(connection: apsw.Connection, words: Sequence[str], sight: Sight) -> frozenset[str]:
    """Return the terms that occur in current passages of the visible scopes."""
    sql = f"SELECT 1 FROM {WORDS} WHERE {WORDS} MATCH ? LIMIT 1"  # noqa: S608 - our table
    return frozenset(word for word in words if next(connection.execute(sql, (sight.match(fts_query([word])),)), None))


def count_words(connection: apsw.Connection, words: Sequence[str], sight: Sight) -> dict[str, int]:
    """Count the current passages with each term in the visible scopes, up to `MOST_COUNTED`.

    One query finds out which terms occur at all, because nearly all of the hundreds of possible spellings do not.
    """
    plain = [word for word in words if PLAIN_TERM.fullmatch(word)]
    absent = set(plain).difference(_occurring(connection, set(plain)))
    return {word: _count(connection, sight.match(fts_query([word]))) for word in words if word not in absent}


def _occurring(connection: apsw.Connection, terms: Iterable[str]) -> Iterator[str]:
    """Yield the terms that occur. The next term in the index is read, and terms before it are skipped unread."""
    sql = f"SELECT term FROM {vocabulary(connection, WORDS, 'instance')} WHERE term >= ? LIMIT 1"  # noqa: S608 - our table
    wanted, at = sorted(terms), 0
    while at < len(wanted) and (row := next(connection.execute(sql, (wanted[at],)), None)):
        at = bisect_left(wanted, row[0], at)
        if at < len(wanted) and wanted[at] == row[0]:
            yield row[0]
            at += 1


def count_passages(connection: apsw.Connection, sight: Sight) -> int:
    """Count the current passages in the visible scopes, up to `MOST_COUNTED`."""
    if scopes := sight.match_of_scopes():
        return _count(connection, scopes)
    return min(totals(connection)["rows"], MOST_COUNTED)


def _count(connection: apsw.Connection, match: str) -> int:
    sql = f"SELECT count(*) FROM (SELECT 1 FROM {WORDS} WHERE {WORDS} MATCH ? LIMIT ?)"  # noqa: S608 - our table
    return int(next(connection.execute(sql, (match, MOST_COUNTED)))[0])


def word_contents(connection: apsw.Connection) -> dict[tuple[str, int], int]:
    """Return a hash of all index entries of each passage, by table and key."""
    contents: dict[tuple[str, int], int] = {}
    for table in FULL_TEXT:
        for key, counts in connection.execute(f"SELECT id, sz FROM {table}_docsize"):  # noqa: S608 - our tables
            contents[table, key] = hash(counts)
        terms = vocabulary(connection, table, "instance")
        for key, *place in connection.execute(f"SELECT doc, term, col, offset FROM {terms}"):  # noqa: S608 - as above
            contents[table, key] = contents.get((table, key), 0) + hash(tuple(place))
    return contents


def lost_terms(connection: apsw.Connection) -> dict[str, int]:
    """Count the terms of each table that exist, but are not found by a look-up."""
    lost: dict[str, int] = {}
    for table in FULL_TEXT:
        terms = vocabulary(connection, table, "row")
        same = (
            f"SELECT 1 FROM {terms} found WHERE (found.term, found.doc, found.cnt) = (known.term, known.doc, known.cnt)"  # noqa: S608 - our tables
        )
        sql = f"SELECT count(*) FROM {terms} known WHERE NOT EXISTS ({same})"  # noqa: S608 - as above
        if count := next(connection.execute(sql))[0]:
            lost[table] = count
    return lost


def word_totals(connection: apsw.Connection) -> list[list[int]]:
    """Return the totals of each table (rows, terms per column), on which ranking depends."""
    # FTS5 stores them in the row with this number: https://sqlite.org/fts5.html#the_data_table
    sql = "SELECT block FROM {table}_data WHERE id = 1"
    totals = [numbers_in(next(connection.execute(sql.format(table=table)))[0]).tolist() for table in FULL_TEXT]
    for numbers in totals:
        while numbers and not numbers[-1]:  # an empty table may lack them
            numbers.pop()
    return totals


def vocabulary(connection: apsw.Connection, table: str, kind: str) -> str:
    """Return a table with the terms of another one: https://sqlite.org/fts5.html#the_fts5vocab_virtual_table_module."""
    name = f"temp.{table}_{kind}"
    sql = f"CREATE VIRTUAL TABLE IF NOT EXISTS {name} USING fts5vocab('main', {table}, {kind})"
    if isinstance(connection, ReadConnection):
        connection.make(sql)
    else:
        connection.execute(sql)
    return name


def _tables(current: bool) -> tuple[str, str]:
    return (WORDS, NAMES) if current else (WORDS_HISTORY, NAMES_HISTORY)


def _beyond_scope(sight: Sight) -> Condition:
    """Return the condition on the rows, without the scope; always true for most reads."""
    return _all_of([sight.state() if sight.of_history else ALWAYS, sight.filter()])


def _all_of(parts: Sequence[Condition]) -> Condition:
    return joined([part for part in parts if part != ALWAYS], "AND")


def ranked_rows(
    connection: apsw.Connection, table: str, match: str, weights: Sequence[float], narrowed: Condition, limit: int
) -> Iterable[tuple[int, float]]:
    """Return the keys and scores of the rows of a full-text table that match, best first."""
    rank = f"bm25({table}, {', '.join(map(str, weights))})"
    if narrowed == ALWAYS:
        source, where = table, f"{table} MATCH ?"
    else:
        # CROSS JOIN preserves the order: full text first, then the row of each match.
        source, where = f"{table} CROSS JOIN passages p ON p.key = {table}.rowid", f"{table} MATCH ? AND {narrowed.sql}"
    sql = f"SELECT {table}.rowid, -{rank} FROM {source} WHERE {where} ORDER BY {rank} LIMIT ?"  # noqa: S608 - only our own SQL
    return connection.execute(sql, (match, *narrowed.bindings, limit))


def _ranked_past(
    connection: apsw.Connection, terms: Sequence[str], sight: Sight, limit: int
) -> Iterable[tuple[int, float]]:
    """Rank earlier passages. Phrases count by their words."""
    words = list(dict.fromkeys(word for term in terms for word in term.split()))
    scores = score_history(connection, words, dict(zip(COLUMNS, WEIGHTS, strict=True)))
    seen, yielded = sight.condition(), 0
    ranked = sorted(scores, key=lambda key: (-scores[key], key))
    for start in range(0, len(ranked), _FEW):
        batch = ranked[start : start + _FEW]
        marks = ",".join("?" * len(batch))
        sql = f"SELECT p.key FROM passages p WHERE p.key IN ({marks}) AND {seen.sql}"  # noqa: S608 - only our own SQL
        visible = {key for (key,) in connection.execute(sql, (*batch, *seen.bindings))}
        yield from ((key, scores[key]) for key in batch if key in visible)
        yielded += len(visible)
        if yielded >= limit:
            return


def _best(rankings: Iterable[Iterable[tuple[int, float]]], limit: int) -> list[Scored]:
    hits = starmap(Scored, chain.from_iterable(rankings))
    return nsmallest(limit, hits, key=lambda hit: (-hit.score, hit.key))


_LEAST_IDF = 1e-6  # as FTS5: a word in most passages counts almost nothing, never negative


def score_history(connection: apsw.Connection, terms: Sequence[str], weights: Mapping[str, float]) -> dict[int, float]:
    """Score earlier passages with any of the single terms, by the statistics of current ones."""
    counts_by_term = {term: counts for term in terms if (counts := _weighted_counts(connection, term, weights))}
    lengths = _past_lengths(connection, sorted(set().union(*counts_by_term.values())))
    rows, terms_of_all = totals(connection).values()
    usual = terms_of_all / (rows or 1) or sum(lengths.values()) / max(1, len(lengths))
    scores: dict[int, float] = {}
    for term, counts in counts_by_term.items():
        rarity = _idf(rows, passages_with(connection, term))
        for key, count in counts.items():
            norm = K1 * (1 - B + B * lengths.get(key, usual) / (usual or 1))
            scores[key] = scores.get(key, 0.0) + rarity * count * (K1 + 1) / (count + norm)
    return scores


def passages_with(connection: apsw.Connection, term: str) -> int:
    """Count the current passages with a term, in about a tenth of the time that reading its postings takes."""
    now = vocabulary(connection, WORDS, "row")
    row = next(connection.execute(f"SELECT doc FROM {now} WHERE term = ?", (term,)), None)  # noqa: S608 - our table
    return int(row[0]) if row else 0


def frequent_terms(connection: apsw.Connection, least: int, most: int) -> dict[str, int]:
    """Return the terms of text whose number of current passages is in a range, with that number.

    Reading all terms takes up to three times as long. A term whose postings are spread over many segments may be
    missing.
    """
    terms = vocabulary(connection, WORDS, "row")
    sql = f"SELECT term, doc FROM {terms} WHERE term >= ? AND term < ? AND doc BETWEEN ? AND ?"  # noqa: S608 - our table
    found: dict[str, int] = {}
    for low, high in _joined(connection.execute(_LONG_POSTINGS, (least * _LEAST_BYTES // _PAGE_BYTES,))):
        check_interrupt()
        found.update(connection.execute(sql, (_term(low), _term(high), least, most)))
    return {term: count for term, count in found.items() if not term.startswith("_")}


def _joined(ranges: Iterable[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
    """Join overlapping ranges: in a small segment, the range of a term contains many terms of the large ones."""
    first, *others = sorted(ranges) or [(b"", b"")]
    low, high = first
    for start, end in others:
        if start > high:
            yield low, high
            low, high = start, end
        high = max(high, end)
    yield low, high


def _term(bound: bytes) -> str:
    """Return a term, which follows a letter for the index; its last character may be cut."""
    return bound[1:].decode(errors="ignore")


def _weighted_counts(connection: apsw.Connection, term: str, weights: Mapping[str, float]) -> dict[int, float]:
    past = vocabulary(connection, WORDS_HISTORY, "instance")
    sql = f"SELECT doc, col, count(*) FROM {past} WHERE term = ? GROUP BY doc, col"  # noqa: S608 - our table
    counts: dict[int, float] = {}
    for key, column, count in connection.execute(sql, (term,)):
        if weights[column]:
            counts[key] = counts.get(key, 0.0) + weights[column] * count
    return counts


def _past_lengths(connection: apsw.Connection, keys: Sequence[int]) -> dict[int, int]:
    """Return the number of terms of earlier passages, from FTS5's own table."""
    rows = in_batches(connection, f"SELECT id, sz FROM {WORDS_HISTORY}_docsize WHERE id IN (?*)", keys)  # noqa: S608 - our table
    return {key: int(numbers_in(sizes).sum()) for key, sizes in rows}


def _idf(total: int, having: int) -> float:
    return max(_LEAST_IDF, log((total - having + 0.5) / (having + 0.5))) if total >= having else _LEAST_IDF


def totals(connection: apsw.Connection) -> dict[str, int]:
    """Return the numbers of rows and of terms, which FTS5 stores in row 1."""
    return remembered(connection, "totals", partial(_totals, connection))


def _totals(connection: apsw.Connection) -> dict[str, int]:
    rows = connection.execute(f"SELECT block FROM {WORDS}_data WHERE id = 1")  # noqa: S608 - our table
    (block,) = next(rows, (b"",))  # missing in a damaged file
    numbers = numbers_in(block).tolist() or [0]
    return {"rows": numbers[0], "total": sum(numbers[1:])}


def numbers_in(block: bytes) -> Keys:
    """Decode SQLite's variable-length integers: seven bits per byte; all bytes but the last have the high bit set."""
    data = np.frombuffer(block, np.uint8).astype(np.int64)
    ends = np.flatnonzero(data < 0x80)
    sizes = np.diff(ends, prepend=-1)
    numbers = data[ends]
    for back in range(1, int(sizes.max(initial=1))):
        longer = sizes > back
        numbers[longer] |= (data[ends[longer] - back] & 0x7F) << (7 * back)
    return numbers
