"""Items of a LangGraph store as records: their names, what is searched of them, and when they expire."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import quote

from langgraph.store.base import Item, PutOp, SearchItem, get_text_at_path

from treering.core.filters import METADATA, And, Compare, Filter
from treering.core.times import parse_time, render_time
from treering.memories.client.records.names import KeptRecord, RecordCollection, RecordDraft, RecordName
from treering.memories.client.records.records import searchable

Namespace = tuple[str, ...]
WHOLE = "$"
_FIELD = "value."
"""How the metadata begin under which the texts of a value are compared."""
_LONGEST = 1e9
"""Minutes that a time to live has at most: about 1,900 years."""
_REFRESHED_FROM = 0.01
"""The part of its time to live by which a reading has to move the end of an item, so that not each one writes."""


@dataclass(frozen=True, slots=True)
class StoredItem:
    """An item of a store, as the record of it tells."""

    record: KeptRecord

    @property
    def namespace(self) -> Namespace:
        """The namespace it lies in."""
        return tuple(self.record.value["namespace"])

    @property
    def key(self) -> str:
        """Its key there."""
        return str(self.record.value["key"])

    @property
    def value(self) -> dict[str, Any]:
        """What was put."""
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
        """Tell whether its time to live is over."""
        end = self._end
        return end is not None and end <= now

    def refreshed(self, name: RecordName, now: datetime) -> RecordDraft | None:
        """Return the record with its time to live begun anew; `None` where that changes next to nothing."""
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


def below(namespace: Iterable[str]) -> str:
    """Return what the keys of the records of a namespace begin with."""
    return "/".join(quote(part, safe="") for part in namespace)


def name_of(collection: RecordCollection, namespace: Namespace, key: str) -> RecordName:
    """Return the name of the record of an item."""
    return collection.name(below((*namespace, key)))


def draft_of(name: RecordName, put: PutOp, fields: Sequence[str], now: datetime) -> RecordDraft:
    """Return the record of an item that is put. `fields`: paths to what is searched, where it does not say itself."""
    value = dict(put.value or {})
    paths = fields if put.index is None else put.index or ()
    told: dict[str, Any] = {"namespace": [*put.namespace], "key": put.key, "value": value}
    if put.ttl is not None:
        told |= {"ttl": put.ttl, "expires": render_time(now + _lasting(put.ttl))}
    texts = {key: one for key, one in value.items() if isinstance(one, str)}
    metadata = {f"{_FIELD}{key}": one for key, one in texts.items()}
    return RecordDraft(name, told, searchable("\n".join(_texts(value, paths))), metadata)


def narrowing(collection: RecordCollection, namespace: Namespace, filters: Mapping[str, Any] | None) -> Filter:
    """Return what holds of all items of a namespace that pass a filter, below the ranking of a search."""
    parts: list[Filter] = [
        Compare(f"{METADATA}{_FIELD}{key}", "eq", wanted) for key, wanted in (filters or {}).items() if _is_text(wanted)
    ]
    if namespace:
        parts.append(Compare("origin", "prefix", f"{collection.origin(below(namespace))}/"))
    return And(tuple(parts))


def passes(value: Mapping[str, Any], filters: Mapping[str, Any] | None) -> bool:
    """Tell whether a value passes a filter: fields equal to others, or compared by `$eq`, `$ne`, `$gt` and so on.

    Raises `ValueError` for an unknown operator.
    """
    return all(_fits(value.get(key), wanted) for key, wanted in (filters or {}).items())


def _lasting(minutes: float) -> timedelta:
    return timedelta(minutes=min(minutes, _LONGEST))


def _is_text(wanted: object) -> bool:
    return isinstance(wanted, str)


def _fits(value: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(key.startswith("$") for key in wanted):
            return all(_compared(value, operator, operand) for operator, operand in wanted.items())
        return isinstance(value, Mapping) and all(_fits(value.get(key), part) for key, part in wanted.items())
    if isinstance(wanted, list | tuple):
        alike = isinstance(value, list | tuple) and len(value) == len(wanted)
        return alike and all(map(_fits, value, wanted))
    return bool(value == wanted)


def _compared(value: Any, operator: str, operand: Any) -> bool:
    match operator:
        case "$eq":
            return bool(value == operand)
        case "$ne":
            return bool(value != operand)
        case "$gt":
            return float(value) > float(operand)
        case "$gte":
            return float(value) >= float(operand)
        case "$lt":
            return float(value) < float(operand)
        case "$lte":
            return float(value) <= float(operand)
        case _:
            raise ValueError(f"Unsupported operator: {operator}")


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
