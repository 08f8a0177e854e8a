"""A LangGraph saver over a space: checkpoints of threads, with the writes of tasks and the values of channels."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any
from uuid import uuid4

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    get_checkpoint_id,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from treering.core.errors import InvalidInput
from treering.extensions.client.record_names import RecordCollection, key_of
from treering.extensions.client.records import Records
from treering.frameworks.client import AnyClient, blocking, in_thread
from treering.frameworks.langgraph.checkpoints import (
    KINDS,
    REASON,
    CheckpointPlace,
    CheckpointRecords,
    KeptCheckpoint,
    copied,
    drafted,
    packed,
)
from treering.surfaces.python.space import Space

_HOME = "langgraph-checkpoints"
_STRATEGIES = ("keep_latest", "delete")


@dataclass(frozen=True, slots=True)
class _SpaceRecords:
    """A space in the place of a client: its records are all that is used."""

    records: Records


class TreeringSaver(BaseCheckpointSaver[str]):
    """A saver of checkpoints: `builder.compile(checkpointer=TreeringSaver(client))`, or over an open space.

    A checkpoint is written in one patch, durably; many processes may use one thread. Values of unchanged channels are
    stored once. Checkpoints are found only by their threads, not by `client.retrieve`. They contain data serialized by
    LangGraph, which is not searched for secrets.

    `name`: savers with different names share nothing. `erase`: delete and prune permanently, which the client's author
    must be allowed to do; otherwise checkpoints are withdrawn and stay in the history of the space.
    """

    def __init__(
        self,
        client: AnyClient | Space,
        *,
        name: str = "default",
        serde: SerializerProtocol | None = None,
        erase: bool = False,
    ) -> None:
        super().__init__(serde=serde)
        self._client = _SpaceRecords(Records(client.engine)) if isinstance(client, Space) else blocking(client)
        self._collection = RecordCollection((_HOME, name), hidden=True)
        self._erase = erase

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that a configuration names, or the last one of its thread; `None` for none."""
        place, identity = _place(config), get_checkpoint_id(config)
        records = self._client.records
        if not identity:
            record = records.last_of(self._collection, key_of("checkpoint", place.thread, place.namespace))
        else:
            name = place.name(self._collection, "checkpoint", identity)
            record = records.get([name]).get(name)
        return self._kept.tuple_of(KeptCheckpoint(record)) if record else None

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Return the checkpoints of a thread, or of all, latest first. `filter`: values in their metadata."""
        left, all_kept = limit, self._kept
        for saved in all_kept.listed(config, before):
            if left is not None and left <= 0:
                return
            if filter and not all_kept.says(saved, filter):
                continue
            left = None if left is None else left - 1
            yield all_kept.tuple_of(saved)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Store a checkpoint with the values of channels that have new versions."""
        place = _place(config)
        without: dict[str, Any] = {**checkpoint}
        values = without.pop("channel_values")
        drafts = [
            drafted(self._collection, place, "blob", channel, str(version), data=self._packed(values[channel]))
            for channel, version in new_versions.items()
            if channel in values
        ]
        fields = get_checkpoint_metadata(config, metadata)
        draft = drafted(
            self._collection,
            place,
            "checkpoint",
            checkpoint["id"],
            id=checkpoint["id"],
            parent=config["configurable"].get("checkpoint_id"),
            versions=dict(checkpoint["channel_versions"]),
            run=fields.get("run_id"),
            data=self._packed(without),
            metadata=self._packed(fields),
        )
        self._client.records.keep([*drafts, draft], reason=REASON)
        return place.config(checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Store the writes of a task. Its earlier writes stay, except special ones such as errors."""
        place, identity = _place(config), str(config["configurable"]["checkpoint_id"])
        drafts = {}
        for at, (channel, value) in enumerate(writes):
            index = WRITES_IDX_MAP.get(channel, at)
            fields = {"task": task_id, "index": index, "path": task_path, "channel": channel}
            draft = drafted(
                self._collection, place, "write", identity, task_id, str(index), data=self._packed(value), **fields
            )
            drafts[draft.name] = (index, draft)
        records = self._client.records
        there = records.get([*drafts])
        new = [draft for name, (index, draft) in drafts.items() if index < 0 or name not in there]
        records.keep(new, reason=REASON)

    def delete_thread(self, thread_id: str) -> None:
        """Remove the checkpoints of a thread, with all that belongs to them."""
        checkpoints = self._kept
        checkpoints.remove([record for kind in KINDS for record in checkpoints.all_of(kind, thread_id)])

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Delete the checkpoints of some runs.

        Later checkpoints that need them to rebuild a `DeltaChannel` lose that data.
        """
        all_kept, runs = self._kept, {str(run) for run in run_ids}
        checkpoints = [KeptCheckpoint(record) for record in all_kept.all_of("checkpoint")]
        gone = [one for one in checkpoints if one.record.value.get("run") in runs]
        for thread in {one.place.thread for one in gone}:
            staying = {one.record.key for one in checkpoints if one not in gone}
            all_kept.keep_only(thread, staying)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread to another, with their history."""
        checkpoints = self._kept
        records = [record for kind in KINDS for record in checkpoints.all_of(kind, source_thread_id)]
        checkpoints.records.keep(
            [copied(self._collection, record, target_thread_id) for record in records], reason=REASON
        )

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Delete unneeded data of threads.

        `keep_latest`: the last checkpoint of each namespace stays, with the earlier ones needed to rebuild a
        `DeltaChannel`. `delete`: nothing stays.
        """
        if strategy not in _STRATEGIES:
            raise InvalidInput(f"There is no strategy {strategy!r}.", hint=f"Give one of: {', '.join(_STRATEGIES)}.")
        all_kept = self._kept
        for thread in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread)
            else:
                checkpoints = [KeptCheckpoint(record) for record in all_kept.all_of("checkpoint", thread)]
                all_kept.keep_only(thread, all_kept.needed(checkpoints))

    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Run `get_tuple` in a thread."""
        return await in_thread(partial(self.get_tuple, config))

    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,  # noqa: A002 - LangGraph's name
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Run `list` in a thread."""
        for one in await in_thread(lambda: [*self.list(config, filter=filter, before=before, limit=limit)]):
            yield one

    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Run `put` in a thread."""
        return await in_thread(partial(self.put, config, checkpoint, metadata, new_versions))

    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Run `put_writes` in a thread."""
        await in_thread(partial(self.put_writes, config, writes, task_id, task_path))

    async def adelete_thread(self, thread_id: str) -> None:
        """Run `delete_thread` in a thread."""
        await in_thread(partial(self.delete_thread, thread_id))

    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Run `delete_for_runs` in a thread."""
        await in_thread(partial(self.delete_for_runs, run_ids))

    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Run `copy_thread` in a thread."""
        await in_thread(partial(self.copy_thread, source_thread_id, target_thread_id))

    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Run `prune` in a thread."""
        await in_thread(partial(self.prune, thread_ids, strategy=strategy))

    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return the version after one. Two branches of a thread that go on from one version have different ones."""
        before = int(str(current).partition(".")[0]) if current is not None else 0
        return f"{before + 1:032}.{uuid4().hex}"

    @property
    def _kept(self) -> CheckpointRecords:
        # LangGraph copies a saver to give it another serialiser.
        return CheckpointRecords(self._client.records, self._collection, self.serde, erase=self._erase)

    def _packed(self, value: Any) -> Any:
        return packed(self.serde.dumps_typed(value))


def _place(config: RunnableConfig) -> CheckpointPlace:
    settings = config["configurable"]
    return CheckpointPlace(str(settings["thread_id"]), str(settings.get("checkpoint_ns", "")))
