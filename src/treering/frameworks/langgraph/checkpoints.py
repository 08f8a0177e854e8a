"""Checkpoints of LangGraph as records: one per checkpoint, per write of a task, and per value of a channel.

Data serialized by LangGraph is stored compressed, as text.
"""

import zlib
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple, get_checkpoint_id, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from treering.extensions.client.record_names import KeptRecord, RecordCollection, RecordDraft, RecordName, key_of
from treering.extensions.client.records import Records

Kind = Literal["checkpoint", "write", "blob"]
KINDS: tuple[Kind, ...] = ("checkpoint", "write", "blob")
Typed = tuple[str, bytes]
"""The result of a LangGraph serializer: the kind of the data, and the data."""
_LINE = 12
"""Characters of one line of data: no secret is so short, so that chance leaves nothing in it to be redacted."""


@dataclass(frozen=True, slots=True)
class CheckpointPlace:
    """The location of checkpoints: a thread and one of its namespaces."""

    thread: str
    namespace: str

    def name(self, collection: RecordCollection, kind: Kind, *parts: str) -> RecordName:
        """Return the name of a record of this place."""
        return collection.name(key_of(kind, self.thread, self.namespace, *parts))

    def config(self, identity: str) -> RunnableConfig:
        """Return the configuration that names a checkpoint of this place."""
        named = {"thread_id": self.thread, "checkpoint_ns": self.namespace, "checkpoint_id": identity}
        return {"configurable": named}


@dataclass(frozen=True, slots=True)
class KeptCheckpoint:
    """A checkpoint from its record."""

    record: KeptRecord

    @property
    def id(self) -> str:
        """Its id in LangGraph."""
        return str(self.record.value["id"])

    @property
    def place(self) -> CheckpointPlace:
        """Its location."""
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
        """Its metadata."""
        return unpacked(self.record.value["metadata"])

    def blobs(self, collection: RecordCollection) -> dict[str, RecordName]:
        """Return by channel the name of the record of its value."""
        place = self.place
        return {
            channel: place.name(collection, "blob", channel, str(version)) for channel, version in self.versions.items()
        }


def place_of(record: KeptRecord) -> CheckpointPlace:
    """Return the location of a checkpoint's record."""
    return CheckpointPlace(str(record.value["thread"]), str(record.value["namespace"]))


def drafted(collection: RecordCollection, place: CheckpointPlace, kind: Kind, *parts: str, **told: Any) -> RecordDraft:
    """Return a record of a place."""
    value = {"thread": place.thread, "namespace": place.namespace, "parts": [*parts], **told}
    return RecordDraft(place.name(collection, kind, *parts), value)


def copied(collection: RecordCollection, record: KeptRecord, thread: str) -> RecordDraft:
    """Return a record for another thread."""
    [kind] = (kind for kind in KINDS if record.key.startswith(f"{kind}/"))
    place = CheckpointPlace(thread, place_of(record).namespace)
    return RecordDraft(place.name(collection, kind, *record.value["parts"]), {**record.value, "thread": thread})


def packed(typed: Typed) -> list[str]:
    """Return serialized data as JSON data."""
    text = b64encode(zlib.compress(typed[1])).decode()
    return [typed[0], "\n".join(text[at : at + _LINE] for at in range(0, len(text), _LINE))]


def unpacked(data: Iterable[str]) -> Typed:
    """Decompress a value of `packed`."""
    kind, text = data
    return kind, zlib.decompress(b64decode(text.replace("\n", "")))


# The checkpoints of a saver as they lie in a space: read whole, listed, and removed without breaking others.


REASON = "Checkpoints of LangGraph"
_COUNTERS = "counters_since_delta_snapshot"
"""The metadata of a checkpoint with the channels that changed since their last snapshot."""


@dataclass(frozen=True, slots=True)
class CheckpointRecords:
    """The records of one saver, and their readers."""

    records: Records
    collection: RecordCollection
    serde: SerializerProtocol
    erase: bool

    def tuple_of(self, kept: KeptCheckpoint) -> CheckpointTuple:
        """Return a checkpoint as LangGraph wants it: with the values of its channels and the pending writes."""
        place = kept.place
        checkpoint: Checkpoint = self.serde.loads_typed(kept.data)
        return CheckpointTuple(
            config=place.config(kept.id),
            checkpoint={**checkpoint, "channel_values": self.values_of(kept)},
            metadata=self.serde.loads_typed(kept.metadata),
            parent_config=place.config(kept.parent) if kept.parent else None,
            pending_writes=[
                (write["task"], write["channel"], self.serde.loads_typed(unpacked(write["data"])))
                for write in self._writes(kept)
            ],
        )

    def values_of(self, checkpoint: KeptCheckpoint) -> dict[str, Any]:
        """Return the stored values of a checkpoint by channel."""
        names = checkpoint.blobs(self.collection)
        records = self.records.get([*names.values()])
        return {
            channel: self.serde.loads_typed(unpacked(records[name].value["data"]))
            for channel, name in names.items()
            if name in records
        }

    def _writes(self, checkpoint: KeptCheckpoint) -> Iterable[Mapping[str, Any]]:
        place = checkpoint.place
        records = self.records.all_of(
            self.collection, below=key_of("write", place.thread, place.namespace, checkpoint.id)
        )
        return sorted(
            (record.value for record in records),
            key=lambda write: writes_sort_key(write["path"], write["task"], write["index"]),
        )

    def listed(self, config: RunnableConfig | None, before: RunnableConfig | None) -> Iterable[KeptCheckpoint]:
        """Return the checkpoints that a configuration names, and that lie before another, latest first."""
        settings: Mapping[str, Any] = config["configurable"] if config else {}
        within = [str(settings[key]) for key in ("thread_id", "checkpoint_ns") if key in settings]
        identity, end = settings.get("checkpoint_id"), get_checkpoint_id(before) if before else None
        checkpoints = map(KeptCheckpoint, self.all_of("checkpoint", *within))
        listed = [one for one in checkpoints if (not identity or one.id == identity) and (not end or one.id < end)]
        return sorted(listed, key=lambda one: one.id, reverse=True)

    def says(self, checkpoint: KeptCheckpoint, wanted: Mapping[str, Any]) -> bool:
        """Return whether the metadata of a checkpoint contain some values."""
        metadata = self.serde.loads_typed(checkpoint.metadata)
        return all(metadata.get(key) == value for key, value in wanted.items())

    def needed(self, checkpoints: Sequence[KeptCheckpoint]) -> set[str]:
        """Return the keys of the last checkpoints of all namespaces, and of the checkpoints needed to rebuild them."""
        needed: set[str] = set()
        for namespace in {one.place.namespace for one in checkpoints}:
            by_id = {one.id: one for one in checkpoints if one.place.namespace == namespace}
            chain = _chain(by_id[max(by_id)], by_id)
            waiting = self._deltas(chain)
            for one in chain:
                needed.add(one.record.key)
                waiting -= self.values_of(one).keys()
                if not waiting:
                    break
        return needed

    def _deltas(self, chain: Sequence[KeptCheckpoint]) -> set[str]:
        """Return the channels of the first checkpoint of a chain that are rebuilt from writes of those before it."""
        first = chain[0]
        counted = self.serde.loads_typed(first.metadata).get(_COUNTERS) or {}
        snapshots = {
            channel
            for one in chain
            for channel, value in self.values_of(one).items()
            if isinstance(value, _DeltaSnapshot)
        }
        return {*counted, *(snapshots & first.versions.keys())}

    def keep_only(self, thread: str, staying: set[str]) -> None:
        """Remove all checkpoints of a thread except some, with their writes and unshared values."""
        records = self.all_of("checkpoint", thread)
        checkpoints = [KeptCheckpoint(record) for record in records if record.key in staying]
        used = {name.key for one in checkpoints for name in one.blobs(self.collection).values()}
        places = {(one.place, one.id) for one in checkpoints}
        gone = [record for record in records if record.key not in staying]
        gone += [record for record in self.all_of("blob", thread) if record.key not in used]
        gone += [
            record
            for record in self.all_of("write", thread)
            if (place_of(record), record.value["parts"][0]) not in places
        ]
        self.remove(gone)

    def all_of(self, kind: Kind, *parts: str) -> Sequence[KeptRecord]:
        """Return the records of a kind, optionally only of a thread or one of its namespaces."""
        return self.records.all_of(self.collection, below=key_of(kind, *parts))

    def remove(self, records: Sequence[KeptRecord]) -> None:
        """Withdraw records, or erase them."""
        names: list[RecordName] = [self.collection.name(record.key) for record in records]
        self.records.remove(names, reason=REASON, erase=self.erase)


def _chain(last: KeptCheckpoint, by_id: Mapping[str, KeptCheckpoint]) -> Sequence[KeptCheckpoint]:
    """Return a checkpoint and the stored ones before it."""
    chain, at = [last], last.parent
    while at is not None and (one := by_id.get(at)):
        chain.append(one)
        at = one.parent
    return chain
