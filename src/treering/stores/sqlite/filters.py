"""Filters as SQL, with exactly the meaning of `core.filters.matches`."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treering.core.canonical import PREFIXES
from treering.core.filters import METADATA, And, Compare, Filter, Not, Or, asked_texts
from treering.stores.rows.fold import FILTERED_COLUMNS

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


def of_types(types: Sequence[str], column: str) -> Condition:
    """Return the condition that an id has the prefix of one of the types, as ranges for an index by id."""
    starts = [f"{PREFIXES[name]}:" for name in types]
    ranges = " OR ".join(f"{column} >= ? AND {column} < ?" for _ in starts)
    # ';' is the character after ':'.
    return Condition(f"({ranges or '1'})", tuple(end for start in starts for end in (start, f"{start[:-1]};")))


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
