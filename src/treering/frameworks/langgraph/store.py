"""A LangGraph store over a space: values under namespaces and keys, with semantic search and times to live."""

import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
    TTLConfig,
    get_text_at_path,
)

from treering.core.arguments import check_items, check_type
from treering.core.canonical import parse_time, render_time
from treering.core.errors import Conflict, InvalidInput
from treering.core.filters import METADATA, And, Compare, Filter, Or
from treering.extensions.client.record_names import KeptRecord, RecordCollection, RecordDraft, RecordName, key_of
from treering.extensions.client.records import Records, searchable
from treering.frameworks.client import AnyClient, blocking, in_thread, origins_of
from treering.verbs.engine import retry_on_conflict

Namespace = tuple[str, ...]
WHOLE = "$"
_FIELD = "value."
"""The prefix of the texts of a value in filters."""
_LONGEST = 1e9
"""Minutes that a time to live has at most: about 1,900 years."""
_REFRESHED_FROM = 0.01
"""The part of its time to live by which a reading has to move the end of an item, so that not each one writes."""
_ORDERS: Mapping[str, Callable[[Any, Any], bool]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item of a store from its record."""

    record: KeptRecord

    @property
    def namespace(self) -> Namespace:
        """Its namespace."""
        return tuple(self.record.value["namespace"])

    @property
    def key(self) -> str:
        """Its key there."""
        return str(self.record.value["key"])

    @property
    def value(self) -> dict[str, Any]:
        """Its value."""
        return dict(self.record.value["value"])

    @property
    def item(self) -> Item:
        """The item as LangGraph returns it."""
        return Item(
            namespace=self.namespace,
            key=self.key,
            value=self.value,
            created_at=self.record.created_at,
            updated_at=self.record.updated_at,
        )

    def found(self, *, scored: bool) -> SearchItem:
        """Return the item as a search returns it."""
        score = self.record.similarity_score if scored else None
        return SearchItem(self.namespace, self.key, self.value, self.record.created_at, self.record.updated_at, score)

    def is_expired(self, now: datetime) -> bool:
        """Return whether its time to live is over."""
        end = self._end
        return end is not None and end <= now

    def refreshed(self, name: RecordName, now: datetime) -> RecordDraft | None:
        """Return the record with its time to live restarted; `None` if that changes almost nothing."""
        minutes, end = self.record.value.get("ttl"), self._end
        if minutes is None or end is None:
            return None
        lasts = _lasting(minutes)
        if now + lasts - end < lasts * _REFRESHED_FROM:
            return None
        value = {**self.record.value, "expires": render_time(now + lasts)}
        record = self.record
        return RecordDraft(name, value, record.text, record.metadata, expected_revision=record.revision)

    @property
    def _end(self) -> datetime | None:
        told = self.record.value.get("expires")
        return parse_time(told) if told else None


def name_of(collection: RecordCollection, namespace: Namespace, key: str) -> RecordName:
    """Return the name of the record of an item."""
    return collection.name(key_of(*namespace, key))


def draft_of(name: RecordName, put: PutOp, fields: Sequence[str], now: datetime) -> RecordDraft:
    """Return the record of an item to put. `fields`: the default paths of the searched texts."""
    if not isinstance(put.value, Mapping | None):
        raise InvalidInput(
            f"value: {type(put.value).__name__} is not a dictionary.", hint="Store such as {'text': 'Uses uv.'}."
        )
    value = dict(put.value or {})
    paths = fields if put.index is None else put.index or ()
    told: dict[str, Any] = {"namespace": [*put.namespace], "key": put.key, "value": value}
    if put.ttl is not None:
        told |= {"ttl": put.ttl, "expires": render_time(now + _lasting(put.ttl))}
    texts = {key: one for key, one in value.items() if isinstance(one, str)}
    metadata = {f"{_FIELD}{key}": one for key, one in texts.items()}
    return RecordDraft(name, told, searchable("\n".join(_texts(value, paths))), metadata)


def narrowing(origins: Sequence[str], filters: Mapping[str, Any] | None) -> Filter:
    """Return a condition that all items below some origins that pass a filter satisfy, for use in a ranked search."""
    parts: list[Filter] = [
        Compare(f"{METADATA}{_FIELD}{key}", "eq", wanted)
        for key, wanted in (filters or {}).items()
        if isinstance(wanted, str)
    ]
    if origins:
        parts.append(Or(tuple(Compare("origin", "prefix", f"{origin}/") for origin in origins)))
    return And(tuple(parts))


def passes(value: Mapping[str, Any], filters: Mapping[str, Any] | None) -> bool:
    """Return whether a value passes a filter: fields equal to others, or compared by `$eq`, `$ne`, `$gt` and so on.

    Numbers are compared as numbers, other texts as texts; a missing field is neither greater nor less.
    Raises `ValueError` for an unknown operator.
    """
    return all(_fits(value.get(key), wanted) for key, wanted in (filters or {}).items())


def _lasting(minutes: float) -> timedelta:
    return timedelta(minutes=min(minutes, _LONGEST))


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(key.startswith("$") for key in wanted):
            return all(_compared(value, name, operand) for name, operand in wanted.items())
        return isinstance(value, Mapping) and all(_fits(value.get(key), part) for key, part in wanted.items())
    if isinstance(wanted, list | tuple):
        alike = isinstance(value, list | tuple) and len(value) == len(wanted)
        return alike and all(map(_fits, value, wanted))
    return bool(value == wanted)


def _compared(value: Any, name: str, operand: Any) -> bool:
    if name == "$eq":
        return bool(value == operand)
    if name == "$ne":
        return bool(value != operand)
    if name not in _ORDERS:
        raise ValueError(f"Unsupported operator: {name}")
    try:
        return _ORDERS[name](float(value), float(operand))
    except (TypeError, ValueError):  # a missing field, or texts such as dates
        return isinstance(value, str) and isinstance(operand, str) and _ORDERS[name](value, operand)


def _texts(value: dict[str, Any], paths: Iterable[str]) -> list[str]:
    texts: list[str] = []
    for path in paths:
        texts += _all_texts(value) if path == WHOLE else get_text_at_path(value, path)
    return texts


def _all_texts(value: Any) -> list[str]:
    """Return every text in a value, without the names of its fields."""
    match value:
        case str():
            return [value]
        case Mapping():
            return [text for part in value.values() for text in _all_texts(part)]
        case list() | tuple():
            return [text for part in value for text in _all_texts(part)]
        case _:
            return []


_HOME = "langgraph-store"
_REASON = "A LangGraph store"
_MOST_FOUND = 200
"""Items that one search looks at, best first."""


class TreeringStore(BaseStore):
    """A LangGraph store: `builder.compile(store=TreeringStore(client))`.

    One batch is one patch, and its reads see the state before it. Values are JSON; secrets in them are redacted. A
    search with a query uses all texts of a value, or those at `fields`; `client.retrieve` finds them too. Without a
    query it returns the latest values first.

    `name`: stores with different names share nothing. `ttl`: as in LangGraph; expired items are not returned, and
    `sweep_ttl` removes them. `erase`: delete permanently, which the client's author must be allowed to do; otherwise
    deleted items are withdrawn and stay in the history of the space.
    """

    supports_ttl = True

    def __init__(
        self,
        client: AnyClient,
        *,
        name: str = "default",
        fields: Sequence[str] = (WHOLE,),
        ttl: TTLConfig | None = None,
        erase: bool = False,
    ) -> None:
        self.ttl_config = ttl
        self._client = blocking(client)
        self._collection = RecordCollection((_HOME, name))
        check_items(fields, str, name="fields", expected="a list of paths", hint="Give such as ['text'].")
        self._fields = tuple(fields)
        self._erase = erase

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Run some operations: first all reads, then all writes; the last write to a key counts."""
        given = [*ops]
        for op in given:
            _check(op)
        results = [self._read(op) for op in given]
        puts = {(tuple(op.namespace), op.key): op for op in given if isinstance(op, PutOp)}
        if puts:
            self._put([*puts.values()])
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run `batch` in a thread."""
        return await in_thread(partial(self.batch, [*ops]))

    def sweep_ttl(self) -> int:
        """Delete expired items; return their number."""
        now = self._now()
        expired = [one.record for one in self._items(()) if one.is_expired(now)]
        names = [self._collection.name(record.key) for record in expired]
        return self._records.remove(names, reason=_REASON, erase=self._erase)

    @property
    def _records(self) -> Records:
        return self._client.records

    def _now(self) -> datetime:
        return self._records.engine.clock.now()

    def _read(self, op: Op) -> Result:
        match op:
            case GetOp():
                return self._get(op)
            case SearchOp():
                return self._search(op)
            case ListNamespacesOp():
                return self._namespaces(op)
            case PutOp():
                return None
        raise ValueError(f"Unknown operation type: {type(op)}")

    def _get(self, op: GetOp) -> Result:
        name = name_of(self._collection, op.namespace, op.key)
        found = [StoredItem(record) for record in self._records.get([name]).values()]
        shown = [one for one in found if not one.is_expired(self._now())]
        if op.refresh_ttl:
            self._refresh(shown)
        return shown[0].item if shown else None

    def _search(self, op: SearchOp) -> list[SearchItem]:
        now, asked = self._now(), bool(op.query and op.query.strip())
        items = self._ranked(op) if asked else self._items(op.namespace_prefix)
        passing = [one for one in items if not one.is_expired(now) and passes(one.value, op.filter)]
        shown = passing[op.offset : op.offset + op.limit]
        if op.refresh_ttl:
            self._refresh(shown)
        return [one.found(scored=asked) for one in shown]

    def _ranked(self, op: SearchOp) -> list[StoredItem]:
        """Return the items that answer a query, best first, after the filters that can be applied before ranking."""
        namespace = key_of(*op.namespace_prefix)
        where = narrowing(origins_of(self._client, self._collection, namespace) if namespace else (), op.filter)
        found = self._records.search(self._collection, op.query or "", limit=_MOST_FOUND, where=where)
        return [StoredItem(record) for record in found if record.text]

    def _items(self, namespace: Namespace) -> list[StoredItem]:
        """Return the items of a namespace and the namespaces below it, last updated first."""
        stored = map(StoredItem, self._records.all_of(self._collection, below=key_of(*namespace)))
        depth = len(namespace)
        items = [one for one in stored if one.namespace[:depth] == tuple(namespace)]
        return sorted(items, key=lambda one: one.record.updated_at, reverse=True)

    def _namespaces(self, op: ListNamespacesOp) -> list[Namespace]:
        now = self._now()
        namespaces = {one.namespace for one in self._items(()) if not one.is_expired(now)}
        matching = [one for one in namespaces if all(_matches(one, rule) for rule in op.match_conditions or ())]
        cut = sorted({one if op.max_depth is None else one[: op.max_depth] for one in matching})
        return cut[op.offset : op.offset + op.limit]

    def _refresh(self, items: Sequence[StoredItem]) -> None:
        now = self._now()
        drafts = [one.refreshed(self._collection.name(one.record.key), now) for one in items]
        if changed := [draft for draft in drafts if draft]:
            try:
                self._records.write(changed, reason=_REASON)
            except Conflict:  # it was written or deleted in the meantime, which takes precedence
                return

    def _put(self, puts: Sequence[PutOp]) -> None:
        now = self._now()
        named = [(name_of(self._collection, put.namespace, put.key), put) for put in puts]
        drafts: list[RecordDraft] = [
            draft_of(name, put, self._fields, now) for name, put in named if put.value is not None
        ]
        gone = [name for name, put in named if put.value is None]
        erased = [record.id for record in self._records.get(gone).values()] if self._erase else []
        retry_on_conflict(lambda: self._records.write(drafts, remove=gone, reason=_REASON))
        self._records.erase(erased, reason=_REASON)


def _check(op: Op) -> None:
    """Raise `InvalidInput` for an operation with a value of a wrong type, such as a text as a namespace."""
    match op:
        case GetOp() | PutOp():
            namespaces: Sequence[object] = [op.namespace]
        case SearchOp():
            namespaces = [op.namespace_prefix]
            check_type(op.query, str | None, name="query", expected="text")
            check_type(op.filter, Mapping | None, name="filter", expected="a dictionary")
        case _:
            namespaces = [rule.path for rule in op.match_conditions or ()]
    for namespace in namespaces:
        check_items(
            namespace, str, name="namespace", expected="a tuple of texts", hint="Give such as ('users', 'ann')."
        )
    if isinstance(op, SearchOp | ListNamespacesOp):
        check_type(op.limit, int, name="limit", expected="a number")
        check_type(op.offset, int, name="offset", expected="a number")
    if isinstance(op, PutOp):
        check_items(
            op.index or (), str, name="index", expected="a list of paths", hint="Give such as ['text'], or False."
        )
        check_type(op.ttl, float | int | None, name="ttl", expected="a number of minutes")


def _matches(namespace: Namespace, rule: MatchCondition) -> bool:
    """Return whether a namespace has the prefix or suffix of a rule; `*` matches any label."""
    path = tuple(rule.path)
    if rule.match_type not in {"prefix", "suffix"}:
        raise ValueError(f"Unsupported match type: {rule.match_type}")
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if rule.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
