"""Names and values of records."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import quote

from treering.core.errors import InvalidInput
from treering.core.objects import Source
from treering.extensions.client.items.documents import DIGESTED, PREFIX, content_of, scope_of, scope_part

_HOME = "/records"
ORIGIN = f"{PREFIX}record"
"""The prefix of the origins of records; the key follows."""
HIDDEN_ORIGIN = "record:"
"""The prefix of the origins of hidden records, which are no memories."""
_OWNED = "@"
"""The sign before the user in the origin of a user's record."""


@dataclass(frozen=True, slots=True)
class RecordCollection:
    """A group of records: its path, and the session or nested context it belongs to, if any.

    Records of a session are as visible as its memories. `hidden`: the records are only read by name, such as the
    checkpoints of a program; `retrieve` does not find them.
    """

    path: tuple[str, ...]
    session_id: str | None = None
    hidden: bool = False

    @property
    def scope(self) -> str:
        """The scope of its records."""
        return scope_of(self.session_id) if self.session_id else "/".join([_HOME, *map(scope_part, self.path)])

    def origin(self, key: str = "", *, user_id: str | None = None) -> str:
        """Return the origin of the source of a record; without a key, the common prefix of all of them.

        `user_id`: the user of the record; `None`: it has none, or an earlier version stored it.
        """
        parts = [*self.path, *key.split("/")] if key else self.path
        owner = "" if user_id is None else f"{_OWNED}{scope_part(user_id)}"
        return "/".join([f"{HIDDEN_ORIGIN if self.hidden else ORIGIN}{owner}", *map(scope_part, parts)])

    def name(self, key: str) -> "RecordName":
        """Return the name of a record."""
        return RecordName(self, key)


def key_of(*parts: str) -> str:
    """Join parts, which may contain any characters, to the key of a record."""
    return "/".join(quote(part, safe="") for part in parts)


@dataclass(frozen=True, slots=True)
class RecordName:
    """The name of a record: its collection, and its key in it."""

    collection: RecordCollection
    key: str

    @property
    def scope(self) -> str:
        """The scope of its collection."""
        return self.collection.scope

    def origin(self, user_id: str | None) -> str:
        """Return the origin of its source, for a user."""
        return self.collection.origin(self.key, user_id=user_id)

    @property
    def title(self) -> str:
        """The title of a record without text. Records with the same title share one vector in an index."""
        return "/".join(self.collection.path) if self.collection.hidden else self.key


@dataclass(frozen=True, slots=True)
class RecordDraft:
    """A record to be stored. `text` is searched; `metadata` can be filtered."""

    name: RecordName
    value: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    expected_revision: int | None = None
    """The revision it replaces, 0 for a new record; `None` for any."""


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """A stored record."""

    id: str
    key: str
    value: Mapping[str, Any]
    text: str
    metadata: Mapping[str, Any]
    revision: int
    created_at: datetime
    updated_at: datetime
    similarity_score: float = 1.0
    """Its similarity to the query of a search: calibrated, from 0 to 1."""


def record_of(source: Source, similarity: float = 1.0) -> KeptRecord:
    """Return the record stored in a source."""
    key, value = source.payload.get("key"), source.payload.get("value")
    if not isinstance(key, str) or not isinstance(value, Mapping):
        raise InvalidInput(f"{source.id} is not a memory client record.", hint="Read it with `query expand`.")
    return KeptRecord(
        id=source.id,
        key=key,
        value=value,
        text=content_of(source),
        metadata=source.metadata,
        revision=source.revision,
        created_at=source.created_at,
        updated_at=source.updated_at,
        similarity_score=similarity,
    )


def has_plain_key(origin: str) -> bool:
    """Return whether an origin ends with its key instead of a digest."""
    return not origin.rpartition("/")[2].startswith(DIGESTED)
