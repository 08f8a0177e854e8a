"""Convert reaches and filters to SQL and FTS5 expressions, and read the tables of a SQLite file.

Filters have exactly the meaning of `core.filters.matches`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, partial
from typing import Any
from weakref import ref

import apsw
import numpy as np
import numpy.typing as npt

from treering.core.filters import METADATA, And, Compare, Filter, Not, Or, asked_texts
from treering.ports.passages import Reach
from treering.stores.rows.fold import FILTERED_COLUMNS
from treering.stores.rows.packing import REINDEX, row_of
from treering.stores.rows.reach import Scopes, SeenReach, role_term, scopes_seen, seen_terms, sees_all_scopes
from treering.stores.sqlite.database import remembered

Binding = str | int | float | bytes
Scalar = str | int | float | bool


@dataclass(frozen=True, slots=True)
class Condition:
    """A Boolean SQL expression (never NULL) with its bindings."""

    sql: str
    bindings: tuple[Binding, ...] = ()


ALWAYS = Condition("1")
NEVER = Condition("0")

PASSAGE_FIELDS: Mapping[str, str] = {
    **FILTERED_COLUMNS,
    "scope": "(SELECT scope FROM passage_scopes WHERE id = p.scope_id)",
}
"""The columns of `passages p` by field. Filters with these fields may also use metadata."""

OBJECT_FIELDS: Mapping[str, str] = {
    name: name for name in ("type", "kind", "status", "scope", "origin", "title", "channel", "created_at", "updated_at")
}
"""The columns of `objects` by field."""

INDEXED_FIELDS: Mapping[str, str] = {name: name for name in ("scope", "status", "origin", "title")}
"""The columns of `objects` with an index."""

_FEW_VALUES = 100

_ORDER = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def condition(where: Filter, fields: Mapping[str, str] = PASSAGE_FIELDS) -> Condition:
    """Convert a filter to SQL over the columns in `fields`."""
    match where:
        case And(parts):
            return joined([condition(part, fields) for part in parts], "AND")
        case Or(parts):
            return joined([condition(part, fields) for part in parts], "OR", empty=NEVER)
        case Not(part):
            return _not(condition(part, fields))
        case Compare(field, "ne", value):
            return _not(condition(Compare(field, "eq", value), fields))
        case Compare(field, "exists", value):
            return _existence(field, value, fields)
        case Compare(field) if field.startswith(METADATA) and fields is PASSAGE_FIELDS:
            return _metadata(field.removeprefix(METADATA), _tested("m.value", where, typed=True))
        case Compare(field) if field in fields:
            return _tested(fields[field], where, typed=False)
        case _:
            return NEVER


def equalities(where: Filter, fields: Mapping[str, str]) -> Condition:
    """Return a condition for columns in a form that uses indexes. All rows that pass the filter satisfy it.

    `condition` returns expressions that SQLite evaluates row by row.
    """
    tests = [(fields[field], texts) for field, texts in asked_texts(where) if field in fields]
    return joined([_equal_to(column, texts) for column, texts in tests if 0 < len(texts) <= _FEW_VALUES], "AND")


def _equal_to(column: str, texts: Sequence[str]) -> Condition:
    marks = ", ".join([_TEXT] * len(texts))
    test = f"= {marks}" if len(texts) == 1 else f"IN ({marks})"
    return Condition(f"({column} {test})", tuple(map(_text, texts)))


def joined(parts: Sequence[Condition], word: str, *, empty: Condition = ALWAYS) -> Condition:
    """Join conditions with `AND` or `OR` as a balanced tree, because SQLite limits the depth of expressions."""
    if not parts:
        return empty
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    left, right = joined(parts[:middle], word), joined(parts[middle:], word)
    return Condition(f"({left.sql} {word} {right.sql})", left.bindings + right.bindings)


def stored_scalar(value: Scalar) -> Binding:
    """Return the stored form of a metadata value, in which Booleans differ from numbers."""
    if isinstance(value, bool):
        return bytes([value])
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return _as_float(value)
    return value


def fts_query(terms: Iterable[str]) -> str:
    """Return an FTS5 expression that matches rows with any of the terms; without terms it matches none.

    A term of several words is a phrase. Terms are quoted, so that they contain no syntax. The expression is in
    parentheses and can be combined by `AND`.
    """
    quoted = " OR ".join('"{}"'.format(term.replace('"', '""').replace("\0", " ")) for term in terms)
    return f"({quoted})" if quoted else '("")'


def _not(part: Condition) -> Condition:
    return Condition(f"NOT {part.sql}", part.bindings)


def _existence(field: str, value: object, fields: Mapping[str, str]) -> Condition:
    if field.startswith(METADATA) and fields is PASSAGE_FIELDS:
        present = _metadata(field.removeprefix(METADATA), ALWAYS)
    else:
        present = Condition(f"({fields[field]} IS NOT NULL)") if field in fields else NEVER
    wanted = [form for form, truth in ((present, True), (_not(present), False)) if value == truth]
    return wanted[0] if wanted else NEVER


def _metadata(name: str, test: Condition) -> Condition:
    sql = f"EXISTS (SELECT 1 FROM passage_metadata m WHERE m.key = p.key AND m.name = {_TEXT} AND {test.sql})"  # noqa: S608 - only our own SQL
    return Condition(sql, (_text(name), *test.bindings))


def _tested(column: str, where: Compare, *, typed: bool) -> Condition:
    value = where.value
    match where.operator:
        case "in":
            return _one_of(column, value if isinstance(value, tuple) else (), typed=typed)
        case "prefix":
            return _starting(column, str(value))
        case "eq":
            return NEVER if isinstance(value, tuple) else _compared(column, "=", value, typed=typed)
        case _:
            if isinstance(value, tuple | bool):
                return NEVER
            return _compared(column, _ORDER[where.operator], value, typed=typed)


def _one_of(column: str, values: Sequence[Scalar], *, typed: bool) -> Condition:
    """Compare with a list by `IN`, for which SQLite builds an index, instead of a chain of comparisons."""
    texts = [one for one in values if isinstance(one, str)]
    truths = [one for one in values if isinstance(one, bool)]
    numbers = [one for one in values if not isinstance(one, str | bool)]
    parts = []
    if texts:
        parts.append(_listed(column, "'text'" if typed else "", _TEXT, [_text(one) for one in texts]))
    if typed and truths:
        parts.append(_listed(column, "'blob'", "?", [stored_scalar(one) for one in truths]))
    if typed and numbers:
        parts.append(_listed(column, "'integer', 'real'", "?", [stored_scalar(one) for one in numbers]))
    return joined(parts, "OR", empty=NEVER)


def _listed(column: str, kinds: str, mark: str, values: Sequence[Binding]) -> Condition:
    kind = f"typeof({column}) IN ({kinds}) AND " if kinds else ""
    marks = ", ".join([mark] * len(values))
    return Condition(f"(({kind}{column} IN ({marks})) IS TRUE)", tuple(values))


def _compared(column: str, sign: str, value: Scalar, *, typed: bool) -> Condition:
    """Compare values of the same type. Columns that are not `typed` contain only text."""
    if isinstance(value, str):
        kind = f"typeof({column}) = 'text' AND " if typed else ""
        return Condition(f"(({kind}{column} {sign} {_TEXT}) IS TRUE)", (_text(value),))
    if not typed:
        return NEVER
    kind = "'blob'" if isinstance(value, bool) else "'integer', 'real'"
    return Condition(f"((typeof({column}) IN ({kind}) AND {column} {sign} ?) IS TRUE)", (stored_scalar(value),))


def _starting(column: str, prefix: str) -> Condition:
    is_text = f"typeof({column}) = 'text'"
    start = _text(prefix)
    if not start:  # substr of an empty value would be NULL
        return Condition(f"({is_text})")
    # As bytes, because SQLite's text functions stop at a NUL character.
    sql = f"(({is_text} AND substr(CAST({column} AS BLOB), 1, {len(start)}) = ?) IS TRUE)"
    return Condition(sql, (start,))


# A filter may contain half of a surrogate pair, unlike stored texts. Bound as bytes, it is compared in order.
_TEXT = "CAST(? AS TEXT)"


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


@dataclass(frozen=True, slots=True)
class Sight(SeenReach):
    """A reach in one space, as SQL and as terms of scopes."""

    role: str = ""
    """The role of places to which it is limited, in addition to the filter; empty for all."""

    def condition(self) -> Condition:
        """Return the condition for passages in reach."""
        return joined([self.state(), self.place(), self.filter()], "AND")

    def state(self) -> Condition:
        """Return the condition on the state of passages."""
        if (at := self.reach.at) is not None:
            return Condition("(p.from_seq <= ? AND (p.until_seq IS NULL OR p.until_seq > ?))", (at, at))
        return Condition("(p.until_seq IS NULL)" if self.reach.withdrawn else "(p.live = 1 AND p.until_seq IS NULL)")

    def place(self) -> Condition:
        """Return the condition on the scope of passages."""
        if self.scopes is None:
            return ALWAYS
        return Condition(f"(p.scope_id IN ({','.join(map(str, sorted(self.scopes)))}))")

    def filter(self) -> Condition:
        """Return the condition of the filter."""
        return condition(self.reach.where)

    def in_role(self, role: str) -> "Sight":
        """Limit the sight to places in one role."""
        if self.of_history:  # the role of earlier passages is only in their rows
            narrowed = And((self.reach.where, Compare("role", "eq", role)))
            return replace(self, reach=replace(self.reach, where=narrowed))
        return replace(self, role=role)

    def match(self, terms: str) -> str:
        """Limit an FTS5 expression over the word tables to the visible scopes and the role."""
        scopes = self.match_of_scopes()
        return f"{scopes} AND {terms}" if scopes else terms

    def match_of_scopes(self) -> str:
        """Return the FTS5 expression for the visible scopes and the role; empty if there is no limit."""
        bounds = [] if self.scopes is None else [f"scope : {fts_query(seen_terms(self.reach))}"]
        if self.role:
            bounds.append(f"scope : {fts_query([role_term(self.role)])}")
        return " AND ".join(bounds)


def sight(connection: apsw.Connection, reach: Reach) -> Sight:
    """Return the sight of a reach in this space."""
    known = [] if sees_all_scopes(reach) else remembered(connection, "scopes", partial(_scopes, connection))
    # A scope term makes every query read another list of postings. It is left out if it excludes nothing.
    return Sight(reach, scopes_seen(known, reach))


def _scopes(connection: apsw.Connection) -> list[tuple[int, str]]:
    return list(connection.execute("SELECT id, scope FROM passage_scopes"))


def read_state(connection: apsw.Connection, name: str) -> int:
    """Return a number in the state of the index, or 0."""
    row = next(connection.execute("SELECT value FROM index_state WHERE name = ?", (name,)), None)
    with row_of(f"the state {name!r} of the index", hint=REINDEX):
        return int(row[0]) if row else 0


def write_state(connection: apsw.Connection, name: str, value: int) -> None:
    """Store a number in the state of the index."""
    connection.execute("INSERT OR REPLACE INTO index_state(name, value) VALUES(?, ?)", (name, value))


_State = tuple[ref[apsw.Connection], int, int]


def written_state(connection: apsw.Connection) -> _State:
    """Return a value that changes with every write to the file."""
    # Not its id(), which the connection of a later thread may have, with equal counters.
    return ref(connection), int(connection.pragma("data_version")), connection.total_changes()


Integers = npt.NDArray[np.int64]

_SHOWN = (
    "SELECT group_concat(key), group_concat(scope_id), group_concat(text_id) FROM passages "
    "WHERE live = 1 AND until_seq IS NULL"
)


def integers(joined: str | None) -> Integers:
    """Parse the integers that `group_concat` joined. Passing one text is faster than passing many rows."""
    return np.fromstring(joined or "", np.int64, sep=",")


def shown_passages(connection: apsw.Connection) -> tuple[Integers, Integers, Integers]:
    """Return the keys of all current passages, with the numbers of their scopes and texts."""
    keys, scopes, texts = map(integers, next(connection.execute(_SHOWN)))
    return keys, scopes, texts


def passing_keys(connection: apsw.Connection, reach: Reach, scopes: Scopes) -> Integers:
    """Return the keys of the current passages in reach, unordered."""
    seen = Sight(replace(reach, withdrawn=False), scopes).condition()
    sql = f"SELECT group_concat(p.key) FROM passages p WHERE {seen.sql}"  # noqa: S608 - only our own SQL
    return integers(next(connection.execute(sql, seen.bindings))[0])


_FEW_AT_ONCE = 500  # values in one statement
_STEPS = (1, 2, 4, 8, 16, 32, 64, 100, 128, 192, 256, 384, 500)


def in_batches(
    connection: apsw.Connection,
    sql: str,
    values: Sequence[int] | Sequence[bytes] | Sequence[str],
    *,
    before: Sequence[str | int | float | bytes] = (),
) -> Iterator[Any]:
    """Run a query with `IN (?*)` for batches of a few hundred values. `before`: the bindings before them.

    Values may be repeated.
    """
    for start in range(0, len(values), _FEW_AT_ONCE):
        batch = _in_steps(values[start : start + _FEW_AT_ONCE])
        yield from connection.execute(_with_marks(sql, len(batch)), (*before, *batch))


def _in_steps(values: Sequence[Any]) -> list[Any]:
    """Pad values by repeating the last one. Few different lengths mean few statements to prepare."""
    size = min(step for step in _STEPS if step >= len(values))
    return [*values, *[values[-1]] * (size - len(values))]


@lru_cache(maxsize=1_000)
def _with_marks(sql: str, count: int) -> str:
    return sql.replace("?*", ",".join("?" * count))
