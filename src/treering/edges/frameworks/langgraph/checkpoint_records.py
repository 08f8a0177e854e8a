"""The checkpoints of a saver as they lie in a space: read whole, listed, and removed without breaking others."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple, get_checkpoint_id, writes_sort_key
from langgraph.checkpoint.serde.base import SerializerProtocol
from langgraph.checkpoint.serde.types import _DeltaSnapshot

from treering.edges.frameworks.langgraph.checkpoints import KeptCheckpoint, Kind, path, place_of, unpacked
from treering.memories.client.records.names import KeptRecord, RecordCollection, RecordName
from treering.memories.client.records.records import Records

REASON = "Checkpoints of LangGraph"
_COUNTERS = "counters_since_delta_snapshot"
"""What tells in the metadata of a checkpoint which channels changed since their last snapshot."""


@dataclass(frozen=True, slots=True)
class CheckpointRecords:
    """The records of one saver, and what reads them."""

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

    def values_of(self, kept: KeptCheckpoint) -> dict[str, Any]:
        """Return by channel the value that is kept of it at a checkpoint."""
        names = kept.blobs(self.collection)
        found = self.records.get([*names.values()])
        return {
            channel: self.serde.loads_typed(unpacked(found[name].value["data"]))
            for channel, name in names.items()
            if name in found
        }

    def _writes(self, kept: KeptCheckpoint) -> Iterable[Mapping[str, Any]]:
        place = kept.place
        found = self.records.all_of(self.collection, below=path("write", place.thread, place.namespace, kept.id))
        return sorted(
            (record.value for record in found),
            key=lambda write: writes_sort_key(write["path"], write["task"], write["index"]),
        )

    def listed(self, config: RunnableConfig | None, before: RunnableConfig | None) -> Iterable[KeptCheckpoint]:
        """Return the checkpoints that a configuration names, and that lie before another, latest first."""
        asked: Mapping[str, Any] = config["configurable"] if config else {}
        within = [str(asked[key]) for key in ("thread_id", "checkpoint_ns") if key in asked]
        identity, end = asked.get("checkpoint_id"), get_checkpoint_id(before) if before else None
        found = map(KeptCheckpoint, self.all_of("checkpoint", *within))
        listed = [one for one in found if (not identity or one.id == identity) and (not end or one.id < end)]
        return sorted(listed, key=lambda one: one.id, reverse=True)

    def says(self, kept: KeptCheckpoint, wanted: Mapping[str, Any]) -> bool:
        """Tell whether the metadata of a checkpoint hold some values."""
        told = self.serde.loads_typed(kept.metadata)
        return all(told.get(key) == value for key, value in wanted.items())

    def needed(self, kept: Sequence[KeptCheckpoint]) -> set[str]:
        """Return the keys of the last checkpoints of all namespaces, and of those that they are rebuilt from."""
        needed: set[str] = set()
        for namespace in {one.place.namespace for one in kept}:
            by_id = {one.id: one for one in kept if one.place.namespace == namespace}
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
        """Remove the checkpoints of a thread but for some, with their writes and the values that no other one has."""
        checkpoints = self.all_of("checkpoint", thread)
        kept = [KeptCheckpoint(record) for record in checkpoints if record.key in staying]
        used = {name.key for one in kept for name in one.blobs(self.collection).values()}
        places = {(one.place, one.id) for one in kept}
        gone = [record for record in checkpoints if record.key not in staying]
        gone += [record for record in self.all_of("blob", thread) if record.key not in used]
        gone += [
            record
            for record in self.all_of("write", thread)
            if (place_of(record), record.value["parts"][0]) not in places
        ]
        self.remove(gone)

    def all_of(self, kind: Kind, *parts: str) -> Sequence[KeptRecord]:
        """Return the records of a kind; of a thread, and of a namespace of it, where they are given."""
        return self.records.all_of(self.collection, below=path(kind, *parts))

    def remove(self, found: Sequence[KeptRecord]) -> None:
        """Withdraw records, or erase them."""
        names: list[RecordName] = [self.collection.name(record.key) for record in found]
        self.records.remove(names, reason=REASON, erase=self.erase)


def _chain(last: KeptCheckpoint, by_id: Mapping[str, KeptCheckpoint]) -> Sequence[KeptCheckpoint]:
    """Return a checkpoint and those before it, as far as they are there."""
    chain, at = [last], last.parent
    while at is not None and (one := by_id.get(at)):
        chain.append(one)
        at = one.parent
    return chain
