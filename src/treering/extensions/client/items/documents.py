"""Stored and retrieved values: metadata as JSON, memory documents with their relations, and items."""

import math
import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, fields, is_dataclass
from datetime import UTC, datetime
from enum import Enum
from typing import Any, ClassVar, Self
from uuid import uuid4

import numpy as np
from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, model_validator

from treering.core.canonical import digest, make_id, parse_time, render_time
from treering.core.characters import well_formed
from treering.core.errors import InvalidInput, nearest
from treering.core.objects import Source
from treering.core.patch import LinkType
from treering.core.scope import ROOT, parse_scope
from treering.retrieval.search.replaced import SUPERSEDED

ALIASES: Mapping[str, str] = {"importance": "importance_score", "tool_name": "tool"}
"""Alternative names of metadata keys that hosts use, and the name that is compared."""

TIMES: Mapping[str, str] = {"timestamp": "timestamp", "created_at": "timestamp", "updated_at": "updated_at"}
"""Names of times. `timestamp` is the time of the remembered event; `created_at` is an alias."""

HAPPENED = "timestamp"
CONTEXT = "context"
"""The metadata key of the nested context of a memory until it is merged."""
PART_OF = "part_of"
"""The metadata key of the nested context from which a memory was merged."""
SESSION = "session_id"
AGENT = "agent_type"
UNKNOWN_AGENT = "unknown"
"""The agent type of memories that a model stored without a profile."""
USER = "user_id"
TYPE = "memory_type"
ROLE = "role"
"""The metadata key of the role of a message, such as `user` or `assistant`."""

_DEEPEST = 20
_QUOTED = 200
_MILLISECONDS_FROM = 1e11  # as seconds that would be the year 5138
_LARGEST = 2**63


def known_name(name: str) -> str:
    """Return the name under which a metadata key is stored and compared."""
    return ALIASES.get(name, TIMES.get(name, name))


def normalised(given: Mapping[str, Any] | None, *, now: datetime) -> dict[str, Any]:
    """Return metadata in stored form. Values under an alias are also stored under the main name.

    There is always a `timestamp`: the given one, else `now`. Raises `InvalidInput` for an invalid time or importance.
    """
    metadata: dict[str, Any] = {}
    for key, value in (given or {}).items():
        name = _text(key)
        plain = moment_text(name, value) if name in TIMES and value is not None else plain_value(value)
        metadata[name] = plain
        if known_name(name) not in (given or {}):
            metadata[known_name(name)] = plain
    if metadata.get("importance_score") is not None:
        metadata["importance_score"] = checked_share("importance_score", metadata["importance_score"])
    metadata[HAPPENED] = metadata.get(HAPPENED) or render_time(now)
    return metadata


def moment_text(name: str, value: Any) -> str:
    """Return a time, given in ISO 8601 or in seconds or milliseconds since 1970, in stored form.

    A time without a zone is local time, as from `datetime.now()`. Raises `InvalidInput` for anything else.
    """
    try:
        return render_time(_moment(value))
    except (ValueError, OverflowError, OSError) as error:
        raise InvalidInput(
            f"{name}: {_quoted(value)} is not a valid time.", hint="Give ISO 8601, a datetime, or seconds since 1970."
        ) from error


def checked_share(name: str, value: Any) -> float:
    """Return a number from 0 to 1. Raises `InvalidInput` for anything else."""
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value <= 1:
        return float(value)
    raise InvalidInput(f"{name}: {_quoted(value)} is not a number from 0 to 1.", hint="Give a number such as 0.8.")


def plain_value(value: Any, *, inside: Sequence[Any] = ()) -> Any:
    """Return a value as JSON data: models and dataclasses as objects, sets as lists, unknown types as text.

    `inside`: the enclosing values. Recursive and very deeply nested values become text.
    """
    if len(inside) > _DEEPEST or any(value is one for one in inside):
        return _text(value)
    for fits, plain in _FORMS:
        if fits(value):
            return plain(value, (*inside, value))
    return _text(value)


def _moment(value: Any) -> datetime:
    if isinstance(value, datetime):
        return value.astimezone(UTC)
    if isinstance(value, str):
        return datetime.fromisoformat(value.strip()).astimezone(UTC)
    if isinstance(value, int | float) and not isinstance(value, bool):
        return datetime.fromtimestamp(value / 1000 if value > _MILLISECONDS_FROM else value, UTC)
    raise ValueError(value)


def _moment_or_text(value: datetime, inside: Sequence[Any]) -> str:
    try:
        return render_time(value)
    except (ValueError, OverflowError):  # the first and last days of the calendar have no time in UTC
        return _text(value, inside)


def _text(value: Any, _inside: Sequence[Any] = ()) -> str:
    try:
        text = str(value)
    except Exception:  # noqa: BLE001 - `str` of a host's object may raise anything
        text = f"<{type(value).__name__}>"
    return well_formed(text)


def _quoted(value: Any) -> str:
    return repr(value if isinstance(value, str | int | float) else _text(value))[:_QUOTED]


def _number(value: int | float, _inside: Sequence[Any]) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    return value if abs(value) < _LARGEST else _text(value)


def _mapping(value: Mapping[Any, Any], inside: Sequence[Any]) -> dict[str, Any]:
    return {_text(key): plain_value(one, inside=inside) for key, one in value.items()}


def _list(value: Any, inside: Sequence[Any]) -> list[Any]:
    ordered = sorted(value, key=_text) if isinstance(value, Set) else value
    return [plain_value(one, inside=inside) for one in ordered]


def _fields(value: Any, inside: Sequence[Any]) -> dict[str, Any]:
    """Return the fields of a model or a dataclass; they may contain values that the model cannot write as JSON."""
    if isinstance(value, BaseModel):
        return _mapping({**dict(value), **(value.model_extra or {})}, inside)
    return _mapping({one.name: getattr(value, one.name, None) for one in fields(value)}, inside)


def _is(*types: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, types)


_FORMS: Sequence[tuple[Callable[[Any], bool], Callable[[Any, Sequence[Any]], Any]]] = (
    (lambda value: value is None or isinstance(value, bool), lambda value, _: value),
    (_is(Enum), lambda value, inside: plain_value(value.value, inside=inside)),
    (_is(str), _text),
    (_is(int, float), _number),
    (_is(datetime), lambda value, inside: _moment_or_text(value, inside)),
    (_is(bytes, bytearray, memoryview), lambda value, _: f"{len(value)} bytes"),
    (_is(Mapping), _mapping),
    (lambda value: isinstance(value, BaseModel) or (is_dataclass(value) and not isinstance(value, type)), _fields),
    (_is(np.generic), lambda value, inside: plain_value(value.item(), inside=inside)),
    (_is(np.ndarray), lambda value, inside: plain_value(value.tolist(), inside=inside)),
    (_is(Sequence, Set), _list),
)


KEY = "memory_key"
"""The metadata key of the name under which a memory replaces an earlier one of the same user."""
PREFIX = "memory:"
"""The prefix of the origins of memories."""

RELATIONS: Mapping[str, LinkType] = {
    "follows": "follows",
    "caused_by": "caused_by",
    "references": "references",
    "similar_to": "similar_to",
    "part_of": "part_of",
    "replaces": "supersedes",
}
"""Metadata keys that name other memories, and the type of the resulting links."""


@dataclass(frozen=True, slots=True)
class MemoryItem:
    """A retrieved memory. `content` is data, whatever it contains.

    `similarity_score` is calibrated from 0 to 1; scores below 0.7 are not distinguishable from chance. `timestamp` is
    the time of the remembered event.
    """

    id: str
    content: str
    metadata: Mapping[str, Any]
    similarity_score: float
    timestamp: datetime
    lines: tuple[int, ...] = ()
    """The lines of `content` that answer the query, counted from 0, if it is longer than an excerpt."""
    replaced_by: str = ""
    """The id of the memory that replaced it; empty if it is current."""
    replaced_at: datetime | None = None
    """The time of the event in the memory that replaced it."""

    @property
    def mark(self) -> str:
        """The mark for a model, such as `superseded by src:01k… (2026-05-04)`; empty if it is current."""
        day = f" ({self.replaced_at:%Y-%m-%d})" if self.replaced_at else ""
        return f"{SUPERSEDED} by {self.replaced_by}{day}" if self.replaced_by else ""

    @property
    def replacement(self) -> dict[str, str]:
        """Id and time of the memory that replaced it, as JSON data; nothing if it is current."""
        at = {"replaced_at": render_time(self.replaced_at)} if self.replaced_at else {}
        return {"replaced_by": self.replaced_by, **at} if self.replaced_by else {}


class RetrievedMemories(list[MemoryItem]):
    """Memories, best first. `trace` contains details of the search and skipped steps."""

    def __init__(self, items: Sequence[MemoryItem] = (), *, trace: Mapping[str, Any] | None = None) -> None:
        super().__init__(items)
        self.trace: Mapping[str, Any] = trace or {}


def _new_id() -> str:
    return make_id("source", at=datetime.now(UTC), entropy=uuid4().bytes)


class MemoryDocument(BaseModel):
    """A memory with its kind, its author, and its relations."""

    model_config: ClassVar[ConfigDict] = ConfigDict(extra="forbid")

    content: str
    id: str = Field(default_factory=_new_id)
    """The id of the stored memory, used once; a host's own id is stored as metadata `document_id` instead.

    Relations use ids of stored memories.
    """
    metadata: dict[str, Any] = Field(default_factory=dict)
    memory_type: str | None = None
    """`execution_trace tool_execution decision tool_result failure_analysis plan`, or any other word."""
    agent_type: str | None = None
    session_id: str | None = None
    importance_score: float | None = Field(default=None, ge=0, le=1)
    temporal_weight: float | None = Field(default=None, ge=0, le=1)
    """Its weight with temporal weighting, before its age is considered."""
    follows: str | None = None
    caused_by: list[str] = Field(default_factory=list)
    references: list[str] = Field(default_factory=list)
    similar_to: list[str] = Field(default_factory=list)
    part_of: str | None = None
    cross_references: dict[str, list[str]] = Field(default_factory=dict)
    quality_score: float | None = None
    created_at: datetime | None = None
    updated_at: datetime | None = None
    bioinformatics_type: str | None = None
    source_database: str | None = None
    chunks: list[Any] = Field(default_factory=list)
    """The host's parts of the text. They are stored as metadata; the text is searched as a whole."""
    embedding: Any = None
    """The host's vector. It is not stored: the space embeds with its own model."""

    _is_stored: bool = PrivateAttr(default=False)

    @model_validator(mode="before")
    @classmethod
    def _without_empty_id(cls, given: Any) -> Any:
        if isinstance(given, Mapping) and given.get("id", "") is None:
            return {name: value for name, value in given.items() if name != "id"}
        return given

    def __copy__(self) -> Self:
        """Return a copy, which is a new memory with a new id, unless the host named one."""
        return super().__copy__()._with_fresh_id()

    def __deepcopy__(self, memo: dict[int, Any] | None = None) -> Self:
        """Return a deep copy. Hosts copy their state this way: the copy of a stored memory has the same id."""
        copied = super().__deepcopy__(memo)
        return copied if self._is_stored else copied._with_fresh_id()

    @property
    def unused_id(self) -> str | None:
        """The generated id; `None` if the host named one, or it is already used by a stored memory."""
        return None if self._has_own_id or self._is_stored else self.id

    def mark_stored(self) -> None:
        """Record that a memory is stored under the generated id."""
        self._is_stored = True

    @property
    def _has_own_id(self) -> bool:
        return "id" in self.model_fields_set

    def _with_fresh_id(self) -> Self:
        if not self._has_own_id:
            self.__dict__["id"], self._is_stored = _new_id(), False
        return self

    @classmethod
    def from_document(cls, document: Any) -> "MemoryDocument":
        """Read any object with `content`, and optionally `id` and `metadata`, such as a host's own `Document`.

        Raises `InvalidInput` if its `content` is not text.
        """
        if isinstance(document, cls):
            return document
        content = getattr(document, "content", None)
        if not isinstance(content, str):
            raise InvalidInput(
                f"{type(document).__name__} has no text in `content`.",
                hint="Pass a text, a MemoryDocument, or an object with content, id and metadata.",
            )
        values = {name: getattr(document, name, None) for name in cls.model_fields if name != "content"}
        fields = {name: value for name, value in values.items() if value is not None}
        return cls(content=content, **{**fields, "metadata": dict(fields.get("metadata", {}))})

    @property
    def told(self) -> dict[str, Any]:
        """All its fields except the content, as metadata."""
        omitted = {"content", "metadata", "id", "embedding"}
        fields = {name: value for name, value in self if name not in omitted and _is_set(self, name, value)}
        own = {"document_id": self.id} if self._has_own_id else {}
        return {**self.metadata, **own, **fields}


def _is_set(document: MemoryDocument, name: str, value: Any) -> bool:
    field = type(document).model_fields[name]
    return value is not None and value != field.get_default(call_default_factory=True)


def relation_type(name: str) -> LinkType:
    """Return the link type of a relation such as `FOLLOWS`. Raises `InvalidInput` naming the nearest known one."""
    known = RELATIONS.get(name.casefold())
    if known is None:
        raise InvalidInput(
            f"Unknown relation {name!r}.", hint=nearest(name.upper(), [one.upper() for one in RELATIONS])
        )
    return known


def related_ids(metadata: Mapping[str, Any]) -> list[tuple[LinkType, str]]:
    """Return the ids in metadata of related objects, with the relations."""
    ids: list[tuple[LinkType, str]] = []
    for key, link in RELATIONS.items():
        value = metadata.get(key)
        several = value if isinstance(value, list) else [value]
        ids += [(link, one) for one in several if isinstance(one, str) and one]
    return ids


def item_of(source: Source, similarity: float = 1.0) -> MemoryItem:
    """Return the memory stored in a source."""
    shown = {name: value for name, value in source.metadata.items() if name != CONTEXT}
    happened_at = shown.get(HAPPENED)
    return MemoryItem(
        id=source.id,
        content=content_of(source),
        metadata=shown,
        similarity_score=round(similarity, 4),
        timestamp=parse_time(happened_at) if isinstance(happened_at, str) else source.captured_at,
    )


def content_of(source: Source) -> str:
    """Return the text of a memory, the concatenation of its segments."""
    return "".join(part.excerpt for part in sorted(source.segments, key=lambda part: part.position))


_HOME = "/session"
_NESTED = ">"
DIGESTED = "~"
"""The prefix of a part of a scope or an origin that is a digest."""
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class NestedContext:
    """The memory of one nested loop: `session_id` is the session of its memories."""

    session_id: str
    parent_session_id: str | None
    loop_id: str

    @property
    def scope(self) -> str:
        """The scope its memories lie in."""
        return scope_of(self.session_id)


def nested_context(parent_session_id: object | None, loop_id: object) -> NestedContext:
    """Return the nested context of a loop; the same parent and loop are the same context in every process.

    Raises `InvalidInput` without a loop, and if contexts are nested deeper than a scope may be.
    """
    if loop_id is None or not str(loop_id):
        raise InvalidInput("loop_id: a nested context needs a loop.", hint="Give a name or number of the loop.")
    parent = session_text(parent_session_id)
    loop = str(loop_id).replace("%", "%25").replace(_NESTED, "%3E")
    context = NestedContext(f"{parent or ''}{_NESTED}{loop}", parent, str(loop_id))
    parse_scope(context.scope)
    return context


def session_text(session_id: object | None) -> str | None:
    """Return a session id as text; `None` if there is none."""
    text = "" if session_id is None else str(session_id)
    return text or None


def is_nested(session_id: str | None) -> bool:
    """Return whether a session id belongs to a nested context."""
    return session_id is not None and _NESTED in session_id


def is_in_context(context: str, start: str) -> bool:
    """Return whether the content of a nested context is visible from the context `start`: in it, or nested in it."""
    return not context or start == context or start.startswith(f"{context}{_NESTED}")


def scope_of(session_id: str | None) -> str:
    """Return the scope of a session or nested context; the root without one."""
    if session_id is None:
        return ROOT
    return "/".join([_HOME, *map(scope_part, session_id.split(_NESTED))])


def scope_part(text: str) -> str:
    """Return an id as one part of a scope. An id that cannot be one is replaced by a digest of it."""
    return text if _PLAIN.fullmatch(text) else f"{DIGESTED}{digest(text)}"
