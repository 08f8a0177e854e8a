"""Filters as SQL over passages, with exactly the meaning of `core.filters.matches`."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from math import isinf, isnan
from typing import Any

from treering.core.filters import METADATA, And, Compare, Filter, Not, Or
from treering.ports.passages import Reach
from treering.stores.postgres.connection.failures import to_column
from treering.stores.postgres.connection.transactions import Row, Transaction
from treering.stores.rows.fold import FILTERED_COLUMNS
from treering.stores.rows.passage_log import SeenReach, scopes_seen, sees_all_scopes

Scalar = str | int | float | bool

ALWAYS, NEVER = "true", "false"

_FIELDS: Mapping[str, str] = {
    **FILTERED_COLUMNS,
    "scope": "(SELECT scope FROM passage_scopes c WHERE c.space = p.space AND c.id = p.scope_id)",
}
_ORDER = {"lt": "<", "lte": "<=", "gt": ">", "gte": ">="}
_IN_ORDER = (
    "replace(replace(replace({column}, chr(1), chr(1) || chr(2)), chr(983040) || '0', chr(1) || chr(1)), "
    "chr(983040) || '1', chr(983040))"
)
"""A column in the form in which texts are ordered: what stands for a NUL (`to_column`) does not stand there."""

_HUGE = "1e10000"
"""Stands for infinity, which neither JSON nor a filter's other numbers reach."""


@dataclass(frozen=True, slots=True)
class PassageCondition:
    """A truth value in SQL (never NULL) over the table `passages p`, and what it binds."""

    sql: str
    bindings: Mapping[str, Any] = field(default_factory=dict)


def condition(where: Filter) -> PassageCondition:
    """Write a filter as SQL."""
    writer = _Writer()
    return PassageCondition(writer.write(where), writer.bindings)


def stored_metadata(metadata: Mapping[str, Scalar]) -> str:
    """Return metadata in the form in which they are kept, as JSON."""
    return json.dumps({to_column(name): _stored(value) for name, value in metadata.items()}).replace(
        f'"{_HUGE}"', _HUGE
    )


class _Writer:
    """Writes conditions, and gives each value that they bind a name."""

    def __init__(self) -> None:
        self.bindings: dict[str, Any] = {}

    def write(self, where: Filter) -> str:
        match where:
            case And(parts):
                return self._joined(parts, "AND", ALWAYS)
            case Or(parts):
                return self._joined(parts, "OR", NEVER)
            case Not(part):
                return f"(NOT {self.write(part)})"
            case Compare(name, "ne", value):
                return f"(NOT {self.write(Compare(name, 'eq', value))})"
            case Compare(name, "exists", value):
                return self._existence(name, value)
            case Compare(name) if name.startswith(METADATA):
                return self._of_metadata(name.removeprefix(METADATA), where)
            case Compare(name) if name in _FIELDS:
                return self._tested(_FIELDS[name], "", where)
            case _:
                return NEVER

    def _joined(self, parts: Sequence[Filter], word: str, empty: str) -> str:
        return f"({f' {word} '.join(map(self.write, parts))})" if parts else empty

    def _existence(self, name: str, value: object) -> str:
        if name.startswith(METADATA):
            key = name.removeprefix(METADATA)
            present = f"jsonb_exists(p.metadata, {self._bound(to_column(key))})" if _is_text(key) else NEVER
        else:
            present = f"({_FIELDS[name]} IS NOT NULL)" if name in _FIELDS else NEVER
        wanted = [form for form, truth in ((present, True), (f"(NOT {present})", False)) if value == truth]
        return wanted[0] if wanted else NEVER

    def _of_metadata(self, name: str, where: Compare) -> str:
        if not _is_text(name):
            return NEVER
        bound = self._bound(to_column(name))
        return self._tested(f"(p.metadata ->> {bound})", f"jsonb_typeof(p.metadata -> {bound})", where)

    def _tested(self, column: str, kind: str, where: Compare) -> str:
        """Compare a column. `kind`: what tells the type of its value; empty where it is always text."""
        value = where.value
        match where.operator:
            case "in":
                return self._one_of(column, kind, value if isinstance(value, tuple) else ())
            case "prefix":
                return self._starting(column, kind, str(value))
            case "eq":
                return NEVER if isinstance(value, tuple) else self._one_of(column, kind, (value,))
            case _:
                return NEVER if isinstance(value, tuple | bool) else self._ordered(column, kind, where.operator, value)

    def _one_of(self, column: str, kind: str, values: Sequence[Scalar]) -> str:
        texts = [to_column(one) for one in values if isinstance(one, str) and _is_text(one)]
        truths = [one for one in values if isinstance(one, bool)]
        numbers = [_number(one) for one in values if isinstance(one, int | float) and not isinstance(one, bool)]
        parts = []
        if texts:
            parts.append(_of_kind(kind, "string", f"{column} = ANY({self._bound(texts)}::text[])"))
        if kind and truths:
            parts.append(_of_kind(kind, "boolean", f"({column})::boolean = ANY({self._bound(truths)}::boolean[])"))
        if kind and (known := [one for one in numbers if one is not None]):
            parts.append(_of_kind(kind, "number", f"({column})::numeric = ANY({self._bound(known)}::numeric[])"))
        return f"({' OR '.join(parts)})" if parts else NEVER

    def _ordered(self, column: str, kind: str, operator: str, value: str | float) -> str:
        if isinstance(value, str):
            sign, bound = _ORDER[operator], _orderable(value)
            if bound != value:  # no stored text equals it
                sign = "<" if sign.startswith("<") else ">="
            in_order = _IN_ORDER.format(column=column)
            return _of_kind(kind, "string", f'{in_order} {sign} {self._bound(_in_order(bound))} COLLATE "C"')
        number = _number(value)
        if not kind or number is None:
            return NEVER
        return _of_kind(kind, "number", f"({column})::numeric {_ORDER[operator]} {self._bound(number)}::numeric")

    def _starting(self, column: str, kind: str, prefix: str) -> str:
        if not _is_text(prefix):
            return NEVER
        return _of_kind(kind, "string", f"starts_with({column}, {self._bound(to_column(prefix))})")

    def _bound(self, value: Any) -> str:
        name = f"where_{len(self.bindings)}"
        self.bindings[name] = value
        return f"%({name})s"


def _of_kind(kind: str, wanted: str, test: str) -> str:
    """Write a test that is false for values of another type. What is compared only then may be read as that type."""
    return f"(CASE WHEN {kind} = '{wanted}' THEN {test} ELSE false END)" if kind else f"(({test}) IS TRUE)"


def _is_text(value: str) -> bool:
    """Tell whether a stored text can be this one: none holds half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _orderable(value: str) -> str:
    """Return a text that stands between the same stored texts: none holds half of a surrogate pair."""
    for place, char in enumerate(value):
        if "\ud800" <= char <= "\udfff":
            return value[:place] + "\ue000"
    return value


def _in_order(value: str) -> str:
    """Return a text in the form of `_IN_ORDER`: 0 is written as 1 1, and 1 as 1 2."""
    return value.replace("\1", "\1\2").replace("\0", "\1\1")


def _number(value: float) -> Decimal | None:
    """Return a number as it is compared; `None` for one that equals nothing."""
    if isinstance(value, float) and isnan(value):
        return None
    return Decimal(json.loads(json.dumps(_stored(value)), parse_int=str, parse_float=str))


def _stored(value: Scalar) -> Scalar | None:
    """Return what is written as JSON for a value."""
    if isinstance(value, bool) or not isinstance(value, str | float):
        return value
    if isinstance(value, str):
        return to_column(value)
    if isnan(value):
        return None
    if isinf(value):
        return _HUGE if value > 0 else f"-{_HUGE}"
    return int(value) if value.is_integer() else value


# What a read may see, as SQL over passages.


ALL_SCOPES = "SELECT id, scope FROM passage_scopes WHERE space = %(space)s"


@dataclass(frozen=True, slots=True)
class PassageSight(SeenReach):
    """A reach worked out against the scopes a space has, as SQL."""

    def condition(self) -> PassageCondition:
        """Write all of it as SQL over `passages p`, the space apart."""
        where = condition(self.reach.where)
        bindings = dict(where.bindings)
        parts = [self._state(), where.sql]
        if self.reach.at is not None:
            bindings["at"] = self.reach.at
        if self.scopes is not None:
            bindings["seen_scopes"] = sorted(self.scopes)
            parts.append("p.scope_id = ANY(%(seen_scopes)s::integer[])")
        return PassageCondition(f"({' AND '.join(parts)})", bindings)

    def beyond_scope(self) -> PassageCondition:
        """Write all of it but the scope, of what is current."""
        return replace(self, scopes=None).condition()

    def _state(self) -> str:
        if self.reach.at is not None:
            return "(p.from_seq <= %(at)s AND (p.until_seq IS NULL OR p.until_seq > %(at)s))"
        return "p.until_seq IS NULL" if self.reach.withdrawn else "(p.live AND p.until_seq IS NULL)"


def sight(transaction: Transaction, reach: Reach) -> PassageSight:
    """Work out which of the space's scopes a reach sees."""
    return sights(transaction, [reach])[0]


def sights(transaction: Transaction, reaches: Sequence[Reach]) -> list[PassageSight]:
    """Work out which of the space's scopes each reach sees. The scopes are read once, where any of them asks."""
    known = [] if all(map(sees_all_scopes, reaches)) else transaction.rows(ALL_SCOPES)
    return [sight_among(known, reach) for reach in reaches]


def sight_among(known: Sequence[Row], reach: Reach) -> PassageSight:
    """Work out which of some scopes (number and name) a reach sees."""
    return PassageSight(reach, scopes_seen([(number, scope) for number, scope in known], reach))
