"""The state of an index, the passage log, and reaches and filters as SQL."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from math import isinf, isnan
from typing import Any

import numpy as np
import numpy.typing as npt

from treering.core.filters import METADATA, And, Compare, Filter, Not, Or
from treering.extensions.postgres.connection.failures import to_column
from treering.extensions.postgres.connection.transactions import Row, Transaction
from treering.ports.passages import Reach
from treering.stores.rows import upkeep
from treering.stores.rows.fold import FILTERED_COLUMNS
from treering.stores.rows.passage_log import MAX_LOG_ENTRIES, Moment
from treering.stores.rows.reach import SeenReach, scopes_seen, sees_all_scopes
from treering.stores.rows.upkeep import EPOCH

PROJECTION_VERSION = 4
"""Incremented when passages, postings or the analysis of text change. An older space is rebuilt when it is opened."""

LOG_END = "log_end"
"""The position of the newest entry of `vector_log`."""

PASSAGES, TEXTS, SCOPES, NODES, MODELS = "last_key", "last_text", "last_scope", "last_node", "last_model"
"""Counters: the greatest number of a passage, text, scope, node or model."""


_REPLACE = "ON CONFLICT (space, name) DO UPDATE SET value = excluded.value"
ALL_STATES = "SELECT name, value FROM index_state WHERE space = %(space)s"


def note_states(transaction: Transaction, rows: Sequence[Row]) -> dict[str, int]:
    """Store the rows of `ALL_STATES` in a transaction, and return them by name."""
    numbers = transaction.numbers = dict(rows)
    return numbers


def read_ahead_states(transaction: Transaction) -> None:
    """Read all states. In a block of collected queries, they are available on the second call."""
    if rows := transaction.rows(ALL_STATES):
        note_states(transaction, rows)


def read_state(transaction: Transaction, name: str) -> int:
    """Return a number in the state of the index, or 0. The first call reads all of them."""
    numbers = transaction.numbers
    if numbers is None:
        numbers = note_states(transaction, transaction.rows(ALL_STATES))
    return numbers.get(name, 0)


def write_state(transaction: Transaction, name: str, value: int) -> None:
    """Store a number in the state of the index. The commit writes changed ones."""
    if read_state(transaction, name) == value:
        return
    known = transaction.numbers = transaction.numbers or {}
    known[name] = value
    transaction.changed_numbers.add(name)
    transaction.at_end(_write_changed)


def next_numbers(transaction: Transaction, name: str, count: int) -> range:
    """Reserve numbers of a counter."""
    last = read_state(transaction, name)
    write_state(transaction, name, last + count)
    return range(last + 1, last + count + 1)


def _write_changed(transaction: Transaction) -> None:
    known = transaction.numbers or {}
    rows = [(name, known[name]) for name in sorted(transaction.changed_numbers)]
    transaction.changed_numbers.clear()
    transaction.insert("index_state", ("name text", "value bigint"), rows, conflict=_REPLACE)


def is_under_way(transaction: Transaction) -> bool:
    """Return whether a rebuild in steps is running, so that some objects have no passages yet."""
    return upkeep.is_under_way(partial(read_state, transaction), PROJECTION_VERSION)


def count_waiting(transaction: Transaction) -> int:
    """Count the objects that are queued for a rebuild."""
    if not is_under_way(transaction):
        return 0
    return int(transaction.first("SELECT count(*) FROM waiting_objects WHERE space = %(space)s"))


Integers = npt.NDArray[np.int64]

# Whole columns as bytes, because transferring a row costs more than finding it.
_SHOWN = (
    "SELECT string_agg(int8send(key), ''), string_agg(int8send(scope_id::bigint), ''), "
    "string_agg(int8send(text_id), '') FROM passages WHERE space = %(space)s AND live AND until_seq IS NULL"
)

LOADED_AT_ONCE = 5_000
"""The number of rows of about a kilobyte that are loaded in one round trip."""


class PostgresLog:
    """`rows.passage_log.PassageLog` over a transaction."""

    def __init__(self, transaction: Transaction) -> None:
        self.transaction = transaction

    def moment(self) -> Moment:
        """Return the moment of the transaction's snapshot."""
        return moment_of(self.transaction)

    def logged_after(self, position: int) -> Sequence[int] | None:
        """Return the passages logged after a position, or `None` if some of these entries were deleted."""
        return logged_after(self.transaction, position)

    def shown_passages(self) -> tuple[Integers, Integers, Integers]:
        """Return the keys of all current passages, with the numbers of their scopes and texts."""
        [columns] = self.transaction.rows(_SHOWN)
        keys, scopes, texts = map(integers, columns)
        return keys, scopes, texts


def integers(joined: bytes | None) -> Integers:
    """Return the integers from concatenated results of `int8send`."""
    return np.frombuffer(joined or b"", ">i8").astype(np.int64)


_TRIMMED = 1_000  # entries between two deletions of old entries


def log_passages(transaction: Transaction, keys: Sequence[int]) -> None:
    """Add passages to the log, because they were added or removed or got a vector."""
    if not keys:
        return
    positions = next_numbers(transaction, LOG_END, len(keys))
    rows = list(zip(positions, keys, strict=True))
    transaction.insert("vector_log", ("position bigint", "key bigint"), rows[-MAX_LOG_ENTRIES:])
    # Tables that are further behind are loaded again.
    if positions[-1] // _TRIMMED > (positions[0] - 1) // _TRIMMED:
        sql = "DELETE FROM vector_log WHERE space = %(space)s AND position <= %(least)s"
        transaction.later(sql, least=positions[-1] - MAX_LOG_ENTRIES)


def moment_of(transaction: Transaction) -> Moment:
    """Return the moment of the transaction's snapshot."""
    return read_state(transaction, EPOCH), read_state(transaction, LOG_END)


def reaches_back(transaction: Transaction, position: int) -> bool:
    """Return whether the log contains all entries after a position."""
    return position >= read_state(transaction, LOG_END) - MAX_LOG_ENTRIES


def logged_after(transaction: Transaction, position: int) -> Sequence[int] | None:
    """Return the passages logged after a position, or `None` if some of these entries were deleted."""
    if position >= read_state(transaction, LOG_END):
        return ()
    if not reaches_back(transaction, position):
        return None
    sql = "SELECT DISTINCT key FROM vector_log WHERE space = %(space)s AND position > %(position)s"
    return transaction.column(sql, position=position)


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
"""A column in the form in which texts are compared, without the stand-in for NUL (`to_column`)."""


_HUGE = "1e10000"
"""Stands for infinity, which neither JSON nor other numbers of filters can express."""


@dataclass(frozen=True, slots=True)
class PassageCondition:
    """A Boolean SQL expression (never NULL) over `passages p`, with its bindings."""

    sql: str
    bindings: Mapping[str, Any] = field(default_factory=dict)


def condition(where: Filter) -> PassageCondition:
    """Convert a filter to SQL."""
    writer = _Writer()
    return PassageCondition(writer.write(where), writer.bindings)


def stored_metadata(metadata: Mapping[str, Scalar]) -> str:
    """Return the stored JSON of metadata."""
    return json.dumps({to_column(name): _stored(value) for name, value in metadata.items()}).replace(
        f'"{_HUGE}"', _HUGE
    )


class _Writer:
    """Converts conditions, and names the values that they bind."""

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
        """Compare a column. `kind`: an expression for the type of its value; empty for text."""
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
            if bound != value:  # equals no stored text
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
    """Return a test that is false for values of another type, without evaluating the second part."""
    return f"(CASE WHEN {kind} = '{wanted}' THEN {test} ELSE false END)" if kind else f"(({test}) IS TRUE)"


def _is_text(value: str) -> bool:
    """Return whether a stored text may equal this one. None contains half of a surrogate pair."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _orderable(value: str) -> str:
    """Return a text that is ordered between the same stored texts, without surrogates."""
    for place, char in enumerate(value):
        if "\ud800" <= char <= "\udfff":
            return value[:place] + "\ue000"
    return value


def _in_order(value: str) -> str:
    """Return a text in the form of `_IN_ORDER`: 0 becomes 1 1, and 1 becomes 1 2."""
    return value.replace("\1", "\1\2").replace("\0", "\1\1")


def _number(value: float) -> Decimal | None:
    """Return a number for comparison; `None` for one that equals nothing."""
    if isinstance(value, float) and isnan(value):
        return None
    return Decimal(json.loads(json.dumps(_stored(value)), parse_int=str, parse_float=str))


def _stored(value: Scalar) -> Scalar | None:
    """Return the JSON of a value."""
    if isinstance(value, bool) or not isinstance(value, str | float):
        return value
    if isinstance(value, str):
        return to_column(value)
    if isnan(value):
        return None
    if isinf(value):
        return _HUGE if value > 0 else f"-{_HUGE}"
    return int(value) if value.is_integer() else value


ALL_SCOPES = "SELECT id, scope FROM passage_scopes WHERE space = %(space)s"


@dataclass(frozen=True, slots=True)
class PassageSight(SeenReach):
    """A reach in one space, as SQL."""

    def condition(self) -> PassageCondition:
        """Return the condition for `passages p` in reach, without the space."""
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
        """Return the condition for current passages, without the scope."""
        return replace(self, scopes=None).condition()

    def _state(self) -> str:
        if self.reach.at is not None:
            return "(p.from_seq <= %(at)s AND (p.until_seq IS NULL OR p.until_seq > %(at)s))"
        return "p.until_seq IS NULL" if self.reach.withdrawn else "(p.live AND p.until_seq IS NULL)"


def sight(transaction: Transaction, reach: Reach) -> PassageSight:
    """Return the SQL conditions of a search filter in this space."""
    return sights(transaction, [reach])[0]


def sights(transaction: Transaction, reaches: Sequence[Reach]) -> list[PassageSight]:
    """Return the SQL conditions of each search filter. Reads the scopes once, if any filter needs them."""
    known = [] if all(map(sees_all_scopes, reaches)) else transaction.rows(ALL_SCOPES)
    return [PassageSight(reach, scopes_seen(known, reach)) for reach in reaches]


def sights_and_states(transaction: Transaction, reaches: Sequence[Reach]) -> list[PassageSight]:
    """Return the SQL conditions of each search filter and the state of the index, in one round trip."""
    states, known = transaction.together([(ALL_STATES, {}), (ALL_SCOPES, {})])
    note_states(transaction, states)
    return [PassageSight(reach, scopes_seen(known, reach)) for reach in reaches]
