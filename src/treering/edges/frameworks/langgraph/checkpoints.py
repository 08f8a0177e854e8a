"""Checkpoints of LangGraph as records: one for each checkpoint, each write of a task, and each value of a channel.

What LangGraph has serialised is kept compressed, as text.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from langchain_core.runnables import RunnableConfig

from treering.memories.client.records.names import KeptRecord, RecordCollection, RecordDraft, RecordName

Kind = Literal["checkpoint", "write", "blob"]
KINDS: tuple[Kind, ...] = ("checkpoint", "write", "blob")
Typed = tuple[str, bytes]
"""What a serialiser of LangGraph gives: the kind of the data, and the data."""
_LINE = 12
"""Characters of one line of data: no secret is so short, so that chance leaves nothing in it to be redacted."""


@dataclass(frozen=True, slots=True)
class CheckpointPlace:
    """Where checkpoints lie: a thread, and a namespace of it."""

    thread: str
    namespace: str

    def name(self, collection: RecordCollection, kind: Kind, *parts: str) -> RecordName:
        """Return the name of a record of this place."""
        return collection.name(path(kind, self.thread, self.namespace, *parts))

    def config(self, identity: str) -> RunnableConfig:
        """Return the configuration that names a checkpoint of this place."""
        named = {"thread_id": self.thread, "checkpoint_ns": self.namespace, "checkpoint_id": identity}
        return {"configurable": named}


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """A checkpoint, as the record of it tells."""

    record: KeptRecord

    @property
    def id(self) -> str:
        """The id that LangGraph gave it."""
        return str(self.record.value["id"])

    @property
    def place(self) -> CheckpointPlace:
        """Where it lies."""
        return place_of(self.record)

    @property
    def parent(self) -> str | None:
        """The checkpoint before it."""
        parent: str | None = self.record.value["parent"]
        return parent

    @property
    def versions(self) -> Mapping[str, Any]:
        """The version of each channel."""
        return dict(self.record.value["versions"])

    @property
    def data(self) -> Typed:
        """The checkpoint without the values of its channels."""
        return unpacked(self.record.value["data"])

    @property
    def metadata(self) -> Typed:
        """What is told of it."""
        return unpacked(self.record.value["metadata"])

    def blobs(self, collection: RecordCollection) -> dict[str, RecordName]:
        """Return by channel the name of the record of its value."""
        place = self.place
        return {
            channel: place.name(collection, "blob", channel, str(version)) for channel, version in self.versions.items()
        }


def path(*parts: str) -> str:
    """Return the key of parts that may hold any characters."""
    return "/".join(quote(part, safe="") for part in parts)


def place_of(record: KeptRecord) -> CheckpointPlace:
    """Return where a record of a checkpoint lies."""
    return CheckpointPlace(str(record.value["thread"]), str(record.value["namespace"]))


def drafted(collection: RecordCollection, place: CheckpointPlace, kind: Kind, *parts: str, **told: Any) -> RecordDraft:
    """Return a record of a place."""
    value = {"thread": place.thread, "namespace": place.namespace, "parts": [*parts], **told}
    return RecordDraft(place.name(collection, kind, *parts), value)


def copied(collection: RecordCollection, record: KeptRecord, thread: str) -> RecordDraft:
    """Return a record as it lies in another thread."""
    [kind] = (kind for kind in KINDS if record.key.startswith(f"{kind}/"))
    place = CheckpointPlace(thread, place_of(record).namespace)
    return RecordDraft(place.name(collection, kind, *record.value["parts"]), {**record.value, "thread": thread})


def packed(typed: Typed) -> list[str]:
    """Return what was serialised as JSON data."""
    text = b64encode(zlib.compress(typed[1])).decode()
    return [typed[0], "\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))]


def unpacked(kept: Iterable[str]) -> Typed:
    """Return what `packed` was given."""
    kind, text = kept
    return kind, zlib.decompress(b64decode(text.replace("\n", "")))
