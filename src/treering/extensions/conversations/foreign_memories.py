"""Memories of other systems: their content, and the JSON records in which each system lists them."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

from pydantic import JsonValue

from treering.extensions.conversations.loose_json import (
    Record,
    first_moment,
    first_words,
    listed,
    moment,
    record,
    words,
)
from treering.ports.adapter import KnowledgeDraft


@dataclass(frozen=True, slots=True)
class ForeignMemory:
    """A memory of another system: its exact text, with its dates and all other data."""

    system: str
    id: str
    """Unique in its export. Empty: the memory is identified by its text."""
    text: str
    title: str = ""
    at: datetime | None = None
    """The time at which the other system last wrote it."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    about: str = ""
    """The subject of the text; empty if it states nothing that could be true or false."""
    claim: KnowledgeDraft | None = None
    """Its statement, if that is more specific than `about`."""

    @property
    def name(self) -> str:
        """The name of the memory in its export."""
        return self.id or sha256(self.text.encode("utf-8", "replace")).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of an export that is not a memory or cannot be read, with the reason."""

    name: str
    why: str


Told = ForeignMemory | LeftOut

WRITTEN = ("updated_at", "updatedAt", "created_at", "createdAt", "created_at_epoch", "filed_at")
"""The members with the time at which a memory was written, the latest first."""


def written(item: Record) -> datetime | None:
    """Return the time at which a memory was last written, if known."""
    return first_moment(item, *WRITTEN)


def besides(item: Record, *taken: str) -> dict[str, JsonValue]:
    """Return the members of a record except those taken, empty ones, and vectors, which are computed again."""
    omitted = {*taken, *_VECTORS}
    return {name: value for name, value in _json(item).items() if name not in omitted and value not in _EMPTY}


def under_headings(parts: Sequence[tuple[str, str]]) -> str:
    """Join texts, each with its heading."""
    return "\n\n".join(f"{name}: {text.strip()}" if name else text.strip() for name, text in parts if text.strip())


def left_out(name: str, count: int, why: str) -> Iterator[LeftOut]:
    """Yield a note on skipped parts, if there are any."""
    if count:
        yield LeftOut(name, f"{count:,} {why}")


_DIGITS = 16
_VECTORS = ("embedding", "embeddings", "vector", "fact_embedding", "name_embedding")
_EMPTY: tuple[object, ...] = (None, "", [], {})


def _json(item: Record) -> Mapping[str, JsonValue]:
    return item  # type: ignore[return-value]  # a record read from JSON contains only JSON values


RecordReader = Callable[[Record], Told]


def reader_of(value: object) -> RecordReader | None:
    """Return the reader of a record; `None` if it is not a memory of a known format."""
    item = record(value)
    return next((reader for claims, reader in _FORMS if claims(item)), None)


def _is_mem0(item: Record) -> bool:
    known = item.keys() & {"hash", "user_id", "agent_id", "run_id", "app_id", "created_at", "metadata"}
    return bool(words(item.get("memory")).strip()) and "id" in item and bool(known)


def _mem0(item: Record) -> ForeignMemory:
    about = first_words(item, "user_id", "agent_id", "run_id", "app_id")
    end = item.get("expiration_date")
    return ForeignMemory(
        "mem0",
        words(item.get("id")),
        words(item.get("memory")),
        title=_until(end),
        at=written(item),
        metadata=besides(item, "id", "memory", "hash", "score"),
        about="" if end else about or "the user",
    )


def _until(end: object) -> str:
    """Return a title with the day on which a statement ends, which is shown wherever the statement is found."""
    return f"Valid until {words(end)[:10] or 'an unknown day'}" if end else ""


def _is_openmemory(row: Record) -> bool:
    named = row.keys() >= {"id", "created_at"} and bool(row.keys() & {"category_ids", "categories"})
    return named and row.get("state") in _OPENMEMORY_STATES and bool(words(row.get("content")).strip())


_OPENMEMORY_STATES = ("active", "paused", "archived", "deleted")


def _openmemory(row: Record) -> Told:
    identity, state = words(row.get("id")), words(row.get("state"))
    if state == "deleted":
        return LeftOut(identity, "it was deleted in OpenMemory")
    return ForeignMemory(
        "mem0",
        identity,
        words(row.get("content")),
        title="" if state == "active" else state.capitalize(),
        at=written(row),
        metadata=besides(row, "id", "content"),
        about="the user" if state == "active" else "",
    )


_TEXTS = ("text", "content", "memory", "data", "fact")


def _is_store_item(item: Record) -> bool:
    place = item.get("namespace")
    named = isinstance(place, list) and all(isinstance(one, str) for one in place)
    return bool(named) and isinstance(item.get("key"), str) and isinstance(item.get("value"), dict)


def _store_item(item: Record) -> ForeignMemory:
    place, value = "/".join(map(words, listed(item.get("namespace")))), record(item.get("value"))
    text = _only_text(value)
    return ForeignMemory(
        "langgraph",
        f"{place}/{words(item.get('key'))}",
        text or _as_json(value),
        title="" if text else words(item.get("key")),
        at=written(item),
        metadata=besides(item, "score", *(["value"] if text and len(value) == 1 else [])),
        about=place if text else "",
    )


def _as_json(value: Record) -> str:
    try:
        return words(json.dumps(value, indent=2, ensure_ascii=False))
    except RecursionError:  # nested too deeply to be useful
        return ""


def _only_text(value: Record) -> str:
    """Return the only text of a value; empty if it has several."""
    inner = next((record(value[name]) for name in _TEXTS if isinstance(value.get(name), dict)), None)
    texts = [text for name in _TEXTS if (text := words(value.get(name)).strip())]
    if not texts and inner:
        return _only_text(inner)
    return texts[0] if len(texts) == 1 else ""


def _is_drawer(item: Record) -> bool:
    return all(isinstance(item.get(name), str) for name in ("wing", "room")) and bool(_drawn(item))


def _drawn(item: Record) -> str:
    return first_words(item, "content", "text", "document")


def _drawer(item: Record) -> ForeignMemory:
    return ForeignMemory(
        "mempalace",
        first_words(item, "id", "drawer_id"),
        _drawn(item),
        at=written(item),
        metadata=besides(item, "id", "drawer_id", "content", "text", "document"),
    )


def _is_passage(item: Record) -> bool:
    return words(item.get("id")).startswith("passage-") and bool(words(item.get("text")).strip())


def _passage(item: Record) -> ForeignMemory:
    return ForeignMemory(
        "letta",
        words(item.get("id")),
        words(item.get("text")),
        at=written(item),
        metadata=besides(item, "id", "text", "embedding_config"),
        about="the archive of the agent",
    )


_FORMS: tuple[tuple[Callable[[Record], bool], RecordReader], ...] = (
    (_is_mem0, _mem0),
    (_is_openmemory, _openmemory),
    (_is_store_item, _store_item),
    (_is_drawer, _drawer),
    (_is_passage, _passage),
)
"""Formats of records, with their tests and readers."""

HOLDERS = ("results", "memories", "items", "drawers", "passages", "data")
"""The members that hold the list of records in an export."""


def held(item: Mapping[str, object], names: Sequence[str] = HOLDERS) -> Sequence[object]:
    """Return the list of records in a document, in one of some members."""
    return next((listed(item[name]) for name in names if isinstance(item.get(name), list)), ())


def is_fact(value: object) -> bool:
    """Return whether this is a fact of Graphiti or Zep: an edge between two entities."""
    item = record(value)
    ends = item.keys() & {"source_node_uuid", "valid_at", "expired_at"}
    return bool(words(item.get("uuid"))) and bool(words(item.get("fact")).strip()) and bool(ends)


def claims(item: Record) -> bool:
    """Return whether a document contains facts."""
    edges = _edges(item)
    return bool(edges) and is_fact(edges[0])


def read(item: Record) -> Iterator[Told]:
    """Read a document with facts and their entities and episodes."""
    nodes = [record(one) for one in held(item, ("nodes", "entities"))]
    names = {words(one.get("uuid")): words(one.get("name")) for one in nodes}
    yield from facts(_edges(item), names)
    for place, node in enumerate(nodes):
        yield _entity(node) if _summary(node) else LeftOut(f"nodes/{place}", "an entity without any facts")
    for place, one in enumerate(held(item, ("episodes",))):
        episode = record(one)
        yield _episode(episode) if _content(episode) else LeftOut(f"episodes/{place}", "an episode without content")


def facts(item: Iterable[object], names: Mapping[str, str]) -> Iterator[Told]:
    """Read facts. `names`: the names of the entities by id."""
    for place, one in enumerate(item):
        yield _fact(record(one), names) if is_fact(one) else LeftOut(f"edges/{place}", "it is not a fact of Graphiti")


def _edges(item: Record) -> Sequence[object]:
    return held(item, ("edges", "facts"))


def _fact(edge: Record, names: Mapping[str, str]) -> ForeignMemory:
    text = words(edge.get("fact"))
    over = edge.get("invalid_at") or edge.get("expired_at")
    subject = _named(edge, names, "source")
    return ForeignMemory(
        "graphiti",
        words(edge.get("uuid")),
        text,
        title=_until(over),
        at=written(edge) or moment(edge.get("valid_at")),
        metadata=besides(edge, "uuid", "fact"),
        about="" if over else first_words(edge, "group_id", "user_id") or "the graph",
        claim=None if over or not subject else _claim(edge, subject, _named(edge, names, "target"), text),
    )


def _named(edge: Record, names: Mapping[str, str], end: str) -> str:
    return first_words(edge, f"{end}_node_name", f"{end}_name") or names.get(words(edge.get(f"{end}_node_uuid")), "")


def _claim(edge: Record, subject: str, other: str, text: str) -> KnowledgeDraft | None:
    relation = words(edge.get("name")).replace("_", " ").lower().strip()
    if not (other and relation):
        return None
    return KnowledgeDraft(
        "fact", text, {"subject": subject, "predicate": relation, "object": other}, segment=0, summary=text
    )


def _entity(node: Record) -> ForeignMemory:
    name = words(node.get("name"))
    taken = besides(node, "uuid", "name", "summary")
    return ForeignMemory(
        "graphiti", words(node.get("uuid")), _summary(node), title=name, at=written(node), metadata=taken, about=name
    )


def _summary(node: Record) -> str:
    return words(node.get("summary")).strip() and words(node.get("name")).strip() and words(node.get("summary"))


def _episode(item: Record) -> ForeignMemory:
    return ForeignMemory(
        "graphiti",
        words(item.get("uuid")),
        _content(item),
        title=words(item.get("name")),
        at=moment(item.get("valid_at")) or written(item),
        metadata=besides(item, "uuid", "content", "name"),
    )


def _content(item: Record) -> str:
    return first_words(item, "content", "body")
