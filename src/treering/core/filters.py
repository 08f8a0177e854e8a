"""Filters over records, as a small syntax tree. `matches` is the reference implementation for every store.

JSON form: `{"kind": "decision"}`, `{"updated_at": {"gte": "2026-01-01T00:00:00Z"}}`,
`{"or": [{"kind": "fact"}, {"not": {"status": "stale"}}]}`; several keys in one object are joined with AND.
"""

import json
import operator as operators
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, cast, get_args

from treering.core.canonical import parse_time, render_time
from treering.core.errors import InvalidInput, nearest

Operator = Literal["eq", "ne", "in", "lt", "lte", "gt", "gte", "exists", "prefix"]
Scalar = str | int | float | bool

FIELDS = frozenset(
    {"type", "kind", "status", "scope", "origin", "title", "channel", "created_at", "updated_at", "role"}
)
TIMES = frozenset({"created_at", "updated_at"})
METADATA = "metadata."
MOST_CONDITIONS = 200
"""Conditions in one filter, including `and`, `or` and `not`."""
MOST_VALUES = 10_000
"""Values in the lists of one filter, together."""
_MAX_DEPTH = 12
_SHOWN_CHARS = 80


@dataclass(frozen=True, slots=True)
class Compare:
    """One field against one value. A missing field fails every operator but `exists: false` and `ne`."""

    field: str
    operator: Operator
    value: Scalar | tuple[Scalar, ...]


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold; true when there are none."""

    parts: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Or:
    """Some part holds; false when there are none."""

    parts: tuple["Filter", ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: "Filter"


Filter = Compare | And | Or | Not
EVERYTHING = And(())


def matches(where: Filter, record: Mapping[str, Any]) -> bool:
    """Return whether a flat record (fields of `FIELDS` and `metadata.<key>`) passes: the reference implementation."""
    match where:
        case Compare(field, operator, value):
            return _compare(record.get(field), operator, value)
        case And(parts):
            return all(matches(part, record) for part in parts)
        case Or(parts):
            return any(matches(part, record) for part in parts)
        case Not(part):
            return not matches(part, record)


def element_name(name: str, value: Scalar | None = None) -> str:
    """Return the key by which a record states that its list `name` contains `value`, or is a list if `None`."""
    if value is None:
        return f"{name}[]"
    whole = isinstance(value, float) and value.is_integer()
    return f"{name}[]{json.dumps(int(value) if whole else value, ensure_ascii=False)}"


def comparisons(where: Filter) -> Iterator[Compare]:
    """Return all comparisons of a filter."""
    waiting = [where]
    while waiting:
        match waiting.pop():
            case And(parts) | Or(parts):
                waiting += parts
            case Not(part):
                waiting.append(part)
            case Compare() as compare:
                yield compare


def asked_texts(where: Filter) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Return text fields with the values a filter allows for them; a record that passes fulfills all of them.

    Stores use it to narrow down by an index before they look at each record.
    """
    match where:
        case And(parts) | Or((_,) as parts):
            for part in parts:
                yield from asked_texts(part)
        case Compare(field, "eq", str(value)):
            yield field, (value,)
        case Compare(field, "in", tuple(values)):
            yield field, tuple(one for one in values if isinstance(one, str))
        case _:
            pass


def parse_filter(data: Mapping[str, Any] | None) -> Filter:
    """Read a filter from JSON. Raises `InvalidInput` naming an unknown field or operator, or the limit it exceeds."""
    where = EVERYTHING if not data else _parse(data, depth=0)
    _check_size(where)
    return where


def _check_size(where: Filter) -> None:
    """Raise `InvalidInput` for a filter that would make a query of unbounded cost."""
    conditions, values, waiting = 0, 0, [where]
    while waiting:
        conditions += 1
        match waiting.pop():
            case And(parts) | Or(parts):
                waiting += parts
            case Not(part):
                waiting.append(part)
            case Compare(value=tuple(several)):
                values += len(several)
            case _:
                pass
    _check_limit(conditions, MOST_CONDITIONS, "conditions")
    _check_limit(values, MOST_VALUES, "values in its lists")


def _check_limit(count: int, most: int, things: str) -> None:
    if count > most:
        raise InvalidInput(
            f"The filter has {count} {things}; at most {most} are allowed.",
            hint="Use a narrower filter, or split it into several queries.",
            details={"count": count, "most": most},
        )


def _parse(data: Any, *, depth: int) -> Filter:
    if not isinstance(data, Mapping) or depth > _MAX_DEPTH:
        raise InvalidInput(f"A filter is an object of fields, nested at most {_MAX_DEPTH} levels deep.", hint=_EXAMPLE)
    parts = tuple(_parse_entry(str(key), value, depth=depth + 1) for key, value in data.items())
    return parts[0] if len(parts) == 1 else And(parts)


def _parse_entry(key: str, value: Any, *, depth: int) -> Filter:
    match key:
        case "and" | "or":
            if not isinstance(value, Sequence) or isinstance(value, str):
                raise InvalidInput(f"{key!r} takes a list of filters.", hint=_EXAMPLE)
            _check_limit(len(value), MOST_CONDITIONS, "conditions")
            parts = tuple(_parse(part, depth=depth) for part in value)
            return And(parts) if key == "and" else Or(parts)
        case "not":
            return Not(_parse(value, depth=depth))
        case _:
            return _parse_field(_known_field(key), value)


def _parse_field(field: str, value: Any) -> Filter:
    if isinstance(value, Mapping):
        parts = tuple(_comparison(field, str(operator), operand) for operator, operand in value.items())
        return parts[0] if len(parts) == 1 else And(parts)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return _comparison(field, "in", value)
    return _comparison(field, "eq", value)


def _comparison(field: str, operator: str, operand: Any) -> Compare:
    if operator not in get_args(Operator):
        raise InvalidInput(f"Unknown operator {_shown(operator)}.", hint=nearest(operator, get_args(Operator)))
    name = cast("Operator", operator)
    if name == "in":
        if not isinstance(operand, Sequence) or isinstance(operand, str):
            raise InvalidInput(f"{field}: 'in' takes a list.", hint=_EXAMPLE)
        _check_limit(len(operand), MOST_VALUES, "values in its lists")
        return Compare(field, name, tuple(_scalar(field, part) for part in operand))
    if (name == "exists" and not isinstance(operand, bool)) or (name == "prefix" and not isinstance(operand, str)):
        raise InvalidInput(f"{field}: wrong operand for {name!r}: {_shown(operand)}.", hint=_EXAMPLE)
    if name == "prefix":
        return Compare(field, name, str(operand))
    return Compare(field, name, _scalar(field, operand))


def _scalar(field: str, value: Any) -> Scalar:
    if field in TIMES and isinstance(value, str):
        # Times are compared as text, which orders them only in the one stored form.
        return render_time(parse_time(value))
    if isinstance(value, str | int | float | bool):
        return value
    raise InvalidInput(f"{field}: {_shown(value)} is not a string, number or boolean.", hint=_EXAMPLE)


def _known_field(key: str) -> str:
    if key in FIELDS or (key.startswith(METADATA) and len(key) > len(METADATA)):
        return key
    raise InvalidInput(f"Unknown filter field {_shown(key)}.", hint=nearest(key, [*sorted(FIELDS), METADATA + "<key>"]))


def _shown(value: object) -> str:
    whole = repr(value)
    return whole if len(whole) <= _SHOWN_CHARS else f"{whole[:_SHOWN_CHARS]}…"


def _compare(actual: Any, operator: Operator, value: Scalar | tuple[Scalar, ...]) -> bool:
    if operator == "exists":
        return (actual is not None) == value
    if operator == "ne":
        return not _equal(actual, value)
    if actual is None:
        return False
    match operator:
        case "eq":
            return _equal(actual, value)
        case "in":
            return isinstance(value, tuple) and any(_equal(actual, part) for part in value)
        case "prefix":
            return isinstance(actual, str) and actual.startswith(str(value))
        case _:
            return _ordered(actual, operator, value)


def _equal(actual: Any, value: object) -> bool:
    # True == 1 in Python; a filter distinguishes booleans and numbers.
    return isinstance(actual, bool) == isinstance(value, bool) and bool(actual == value)


def _ordered(actual: Any, operator: Operator, value: Any) -> bool:
    both_text = isinstance(actual, str) and isinstance(value, str)
    both_numbers = _is_number(actual) and _is_number(value)
    return (both_text or both_numbers) and bool(_ORDER[operator](actual, value))


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


_ORDER = {"lt": operators.lt, "lte": operators.le, "gt": operators.gt, "gte": operators.ge}
_EXAMPLE = 'For example {"kind": "decision", "updated_at": {"gte": "2026-01-01T00:00:00Z"}}.'
