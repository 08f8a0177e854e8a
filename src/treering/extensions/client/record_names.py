"""Names and values of records: what is kept, and under which name."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from treering.core.canonical import digest
from treering.core.errors import InvalidInput
from treering.core.objects import Source
from treering.extensions.client.items.documents import PREFIX, content_of, scope_of

_HOME = "/records"
ORIGIN = f"{PREFIX}record"
"""How the origins of records begin; below it stands the key."""
HIDDEN_ORIGIN = "record:"
"""How those of hidden records begin, which are no memories."""
_DIGESTED = "~"
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class RecordCollection:
    """Where records lie together: a path of its own, and the session or nested context they belong to, if any.

    What belongs to a session is seen as its memories are. `hidden`: the records are read by their names alone, such as
    the checkpoints of a program; `retrieve` does not find them.
    """

    path: tuple[str, ...]
    session_id: str | None = None
    hidden: bool = False

    @property
    def scope(self) -> str:
        """The scope of its records."""
        return scope_of(self.session_id) if self.session_id else "/".join([_HOME, *map(_part, self.path)])

    def origin(self, key: str = "") -> str:
        """Return the origin of the source that holds the record of a key; without one, what all of them begin with."""
        parts = [*self.path, *key.split("/")] if key else self.path
        return "/".join([HIDDEN_ORIGIN if self.hidden else ORIGIN, *map(_part, parts)])

    def name(self, key: str) -> "RecordName":
        """Return the name of the record of a key."""
        return RecordName(self, key)


@dataclass(frozen=True, slots=True)
class RecordName:
    """What a record is called: its collection, and its key there."""

    collection: RecordCollection
    key: str

    @property
    def scope(self) -> str:
        """The scope it lies in."""
        return self.collection.scope

    @property
    def origin(self) -> str:
        """The origin of its source."""
        return self.collection.origin(self.key)

    @property
    def title(self) -> str:
        """What a record is called that has no text. One title for many costs one vector in an index."""
        return "/".join(self.collection.path) if self.collection.hidden else self.key


@dataclass(frozen=True, slots=True)
class RecordDraft:
    """A record to be kept. `text` is what is searched; `metadata` what filters compare."""

    name: RecordName
    value: Mapping[str, Any] = field(default_factory=dict)
    text: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    expected_revision: int | None = None
    """The revision it replaces, 0 for a new record; `None`: whatever is there."""


@dataclass(frozen=True, slots=True)
class KeptRecord:
    """A record as it stands."""

    id: str
    key: str
    value: Mapping[str, Any]
    text: str
    metadata: Mapping[str, Any]
    revision: int
    created_at: datetime
    updated_at: datetime
    similarity_score: float = 1.0
    """How well it answers, where it was searched: calibrated, from 0 to 1."""


def record_of(source: Source, similarity: float = 1.0) -> KeptRecord:
    """Return the record that a source holds."""
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


def tells_key(origin: str) -> bool:
    """Tell whether an origin ends as its key does, and not with a digest."""
    return not origin.rpartition("/")[2].startswith(_DIGESTED)


def _part(text: str) -> str:
    """Return a part of a name as it stands in a scope or an origin; what cannot stand there is replaced by a digest."""
    return text if _PLAIN.fullmatch(text) else f"{_DIGESTED}{digest(text)}"
