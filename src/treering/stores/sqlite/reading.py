"""Reading the tables of a SQLite file: what a read may see, as SQL and as FTS5 expressions, and what all reads share.

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
    """A truth value in SQL (never NULL), and what it binds."""

    sql: str
    bindings: tuple[Binding, ...] = ()


ALWAYS = Condition("1")
NEVER = Condition("0")

PASSAGE_FIELDS: Mapping[str, str] = {
    **FILTERED_COLUMNS,
    "scope": "(SELECT scope FROM passage_scopes WHERE id = p.scope_id)",
}
"""Columns of `passages p` by the field they hold; with the alias come its metadata."""

OBJECT_FIELDS: Mapping[str, str] = {
    name: name for name in ("type", "kind", "status", "scope", "origin", "title", "channel", "created_at", "updated_at")
}
"""Columns of `objects` by the field they hold."""

INDEXED_FIELDS: Mapping[str, str] = {name: name for name in ("scope", "status", "origin", "title")}
"""Columns of `objects` that an index orders."""

_FEW_VALUES = 100

_ORDER = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}


def condition(where: Filter, fields: Mapping[str, str] = PASSAGE_FIELDS) -> Condition:
    """Write a filter as SQL over the table whose columns `fields` names."""
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
    """Write what a filter asks of some columns in the form that finds an index; where it passes, this does too.

    `condition` writes truth values, which SQLite computes row by row.
    """
    asked = [(fields[field], texts) for field, texts in asked_texts(where) if field in fields]
    return joined([_equal_to(column, texts) for column, texts in asked if 0 < len(texts) <= _FEW_VALUES], "AND")


def _equal_to(column: str, texts: Sequence[str]) -> Condition:
    marks = ", ".join([_TEXT] * len(texts))
    test = f"= {marks}" if len(texts) == 1 else f"IN ({marks})"
    return Condition(f"({column} {test})", tuple(map(_text, texts)))


def joined(parts: Sequence[Condition], word: str, *, empty: Condition = ALWAYS) -> Condition:
    """Join conditions with `AND` or `OR`, as a balanced tree: SQLite bounds the depth of an expression."""
    if not parts:
        return empty
    if len(parts) == 1:
        return parts[0]
    middle = len(parts) // 2
    left, right = joined(parts[:middle], word), joined(parts[middle:], word)
    return Condition(f"({left.sql} {word} {right.sql})", left.bindings + right.bindings)


def stored_scalar(value: Scalar) -> Binding:
    """Return the form in which a metadata value is kept, so that truth values and numbers stay apart."""
    if isinstance(value, bool):
        return bytes([value])
    if isinstance(value, int) and not -(2**63) <= value < 2**63:
        return _as_float(value)
    return value


def fts_query(terms: Iterable[str]) -> str:
    """Write an FTS5 expression that matches a row with any of `terms`; with none it matches no row.

    A term of several words is a phrase. Every term is quoted, so none can be read as syntax. The whole is in
    parentheses: it may be joined with others by `AND`.
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
    """Compare with a list by `IN`, for which SQLite makes an index; a chain of comparisons is one scan per value."""
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
    """Compare like with like. Columns that are not `typed` hold nothing but text."""
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
    if not start:  # a part of an empty value would be NULL
        return Condition(f"({is_text})")
    # As bytes: SQLite's functions on text stop at a NUL character.
    sql = f"(({is_text} AND substr(CAST({column} AS BLOB), 1, {len(start)}) = ?) IS TRUE)"
    return Condition(sql, (start,))


# A filter may hold half of a surrogate pair, which no stored text does; bound as bytes it compares in order.
_TEXT = "CAST(? AS TEXT)"


def _text(value: str) -> bytes:
    return value.encode("utf-8", "surrogatepass")


def _as_float(value: int) -> float:
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")


# What a reach lets a read see of the scopes, states and roles of passages.


@dataclass(frozen=True, slots=True)
class Sight(SeenReach):
    """A reach worked out against the scopes a space has, as SQL and as scope tokens."""

    role: str = ""
    """The role of places to which it is narrowed, besides the filter; empty for all."""

    def condition(self) -> Condition:
        """Write all of it as SQL over passages."""
        return joined([self.state(), self.place(), self.filter()], "AND")

    def state(self) -> Condition:
        """Write as SQL which rows are seen by their state."""
        if (at := self.reach.at) is not None:
            return Condition("(p.from_seq <= ? AND (p.until_seq IS NULL OR p.until_seq > ?))", (at, at))
        return Condition("(p.until_seq IS NULL)" if self.reach.withdrawn else "(p.live = 1 AND p.until_seq IS NULL)")

    def place(self) -> Condition:
        """Write as SQL which rows are seen by their scope."""
        if self.scopes is None:
            return ALWAYS
        return Condition(f"(p.scope_id IN ({','.join(map(str, sorted(self.scopes)))}))")

    def filter(self) -> Condition:
        """Write as SQL which rows pass the filter."""
        return condition(self.reach.where)

    def in_role(self, role: str) -> "Sight":
        """Narrow it to places in one role."""
        if self.of_history:  # of what is past the rows alone know the role
            narrowed = And((self.reach.where, Compare("role", "eq", role)))
            return replace(self, reach=replace(self.reach, where=narrowed))
        return replace(self, role=role)

    def match(self, terms: str) -> str:
        """Narrow an FTS5 expression over the word tables to the scopes and the role that are seen."""
        scopes = self.match_of_scopes()
        return f"{scopes} AND {terms}" if scopes else terms

    def match_of_scopes(self) -> str:
        """Write the scopes and the role that are seen as an FTS5 expression; empty where there is no such bound."""
        bounds = [] if self.scopes is None else [f"scope : {fts_query(seen_terms(self.reach))}"]
        if self.role:
            bounds.append(f"scope : {fts_query([role_term(self.role)])}")
        return " AND ".join(bounds)


def sight(connection: apsw.Connection, reach: Reach) -> Sight:
    """Work out which of the space's scopes a reach sees."""
    known = [] if sees_all_scopes(reach) else remembered(connection, "scopes", partial(_scopes, connection))
    # A scope token makes every query walk another list of postings; it is left out where it narrows nothing.
    return Sight(reach, scopes_seen(known, reach))


def _scopes(connection: apsw.Connection) -> list[tuple[int, str]]:
    return list(connection.execute("SELECT id, scope FROM passage_scopes"))


# What the index remembers of itself, and whether anything was written since.


def read_state(connection: apsw.Connection, name: str) -> int:
    """Return a number the projection remembers; 0 where it remembers none."""
    row = next(connection.execute("SELECT value FROM index_state WHERE name = ?", (name,)), None)
    with row_of(f"the state {name!r} of the index", hint=REINDEX):
        return int(row[0]) if row else 0


def write_state(connection: apsw.Connection, name: str, value: int) -> None:
    """Remember a number."""
    connection.execute("INSERT OR REPLACE INTO index_state(name, value) VALUES(?, ?)", (name, value))


_State = tuple[ref[apsw.Connection], int, int]


def written_state(connection: apsw.Connection) -> _State:
    """Return what changes whenever anything is written, here or by another connection."""
    # Not its id(): a thread that ends leaves that to the connection of another one, whose counters begin alike.
    return ref(connection), int(connection.pragma("data_version")), connection.total_changes()


# Reading whole columns as arrays: SQLite joins the values, for to hand over a row costs more than to find it.


Integers = npt.NDArray[np.int64]

_SHOWN = (
    "SELECT group_concat(key), group_concat(scope_id), group_concat(text_id) FROM passages "
    "WHERE live = 1 AND until_seq IS NULL"
)


def integers(joined: str | None) -> Integers:
    """Return the integers that `group_concat` joined."""
    return np.fromstring(joined or "", np.int64, sep=",")


def shown_passages(connection: apsw.Connection) -> tuple[Integers, Integers, Integers]:
    """Return the keys of all current passages, and for each the number of its scope and of its text."""
    keys, scopes, texts = map(integers, next(connection.execute(_SHOWN)))
    return keys, scopes, texts


def passing_keys(connection: apsw.Connection, reach: Reach, scopes: Scopes) -> Integers:
    """Return the keys of the current passages in reach that pass its filter, in no order."""
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
    """Run a query whose `?*` stands for a list of values, a few hundred at a time. `before`: what is bound before.

    It stands inside of `IN (?*)`: a value that comes twice changes nothing.
    """
    for start in range(0, len(values), _FEW_AT_ONCE):
        batch = _in_steps(values[start : start + _FEW_AT_ONCE])
        yield from connection.execute(_with_marks(sql, len(batch)), (*before, *batch))


def _in_steps(values: Sequence[Any]) -> list[Any]:
    """Return values, the last of them repeated, so that there are few lengths: each is a statement to be prepared."""
    size = min(step for step in _STEPS if step >= len(values))
    return [*values, *[values[-1]] * (size - len(values))]


@lru_cache(maxsize=1_000)
def _with_marks(sql: str, count: int) -> str:
    return sql.replace("?*", ",".join("?" * count))
