"""Storage of discussions: blocks of messages, each a source whose payload records the progress of its memories."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from pydantic import TypeAdapter

from treering.core.canonical import Instant, chain_hashes
from treering.core.errors import Corrupt, NotFound
from treering.core.objects import Source
from treering.core.patch import Update
from treering.extensions.discussions.identity import DiscussionRef
from treering.ports.ledger import Ledger, SourceState
from treering.verbs.ingest.turns import PAUSE, stored_turns


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """A stored message. `source_id` and `segment_ids` cite it; a deleted message has no text.

    `after`: it starts a part that does not continue the previous message; see `alignment.ConversationPart`.
    """

    position: int
    role: str
    speaker: str
    text: str
    at: datetime | None
    chain: str
    source_id: str
    segment_ids: tuple[str, ...]
    deleted: bool = False
    after: int | None = None


ChunkStatus = Literal["pending", "done", "empty", "failed"]


@dataclass(frozen=True, slots=True)
class ChunkState:
    """The progress of one chunk of messages. `attempts`, `error` and `retry_at` describe failures."""

    first: int
    last: int
    key: str
    status: ChunkStatus
    memories: tuple[str, ...] = ()
    attempts: int = 0
    error: str = ""
    retry_at: Instant | None = None
    rejected: tuple[str, ...] = field(default=())
    """Unusable parts of the generator's answer, with the reasons."""


BLOCK_MESSAGES = 40
"""The maximum number of messages in a block."""
FORMERLY = "formerly"
"""The payload key for the ids of withdrawn sources that contained the same positions."""


@dataclass(frozen=True, slots=True)
class BlockHead:
    """A block as known without reading it: its position, its number of messages, and the chain of the last message."""

    first: int
    count: int
    chain: str
    source_id: str
    revision: int

    @property
    def end(self) -> int:
        """The position after its last message."""
        return self.first + self.count


@dataclass(frozen=True, slots=True)
class Condensation:
    """A memory that replaces the memories of the positions `first` to `last`."""

    first: int
    last: int
    memory: str


@dataclass(frozen=True, slots=True)
class Deletion:
    """The position, role and time of a deleted message.

    `key` identifies the message when it is sent again; an erased message has none.
    """

    position: int
    role: str
    key: str = ""
    at: Instant | None = None


_CHUNKS = TypeAdapter(tuple[ChunkState, ...])
_CONDENSATIONS = TypeAdapter(tuple[Condensation, ...])
_DELETIONS = TypeAdapter(tuple[Deletion, ...])
"""The parts of a block's payload."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block as read from the ledger. `closed`: another block follows."""

    head: BlockHead
    source: Source
    messages: tuple[StoredMessage, ...]
    chunks: tuple[ChunkState, ...] = ()
    condensations: tuple[Condensation, ...] = ()
    deletions: tuple[Deletion, ...] = ()
    closed: bool = False
    formerly: tuple[str, ...] = ()
    """Withdrawn sources that contained the same positions."""

    @property
    def begins(self) -> dict[int, int]:
        """The positions that start a part, with the position that each part continues."""
        return {message.position: message.after for message in self.messages if message.after is not None}

    @property
    def unfinished(self) -> tuple[int, ...]:
        """The positions of messages whose memories are not made yet."""
        finished = [state for state in self.chunks if state.status in {"done", "empty"}]
        done = {position for state in finished for position in range(state.first, state.last + 1)}
        return tuple(each.position for each in self.messages if not each.deleted and each.position not in done)

    def messages_in(self, first: int, last: int) -> list[StoredMessage]:
        """Return the messages from position `first` to `last` that are not deleted."""
        return [each for each in self.messages if first <= each.position <= last and not each.deleted]

    def changed(
        self,
        *,
        chunks: Sequence[ChunkState] | None = None,
        condensations: Sequence[Condensation] | None = None,
    ) -> Update:
        """Return the operation that writes chunk states or condensations. It fails if the block was changed since."""
        payload = payload_of(
            chunks=self.chunks if chunks is None else sorted(chunks, key=lambda chunk: chunk.first),
            condensations=self.condensations if condensations is None else condensations,
            deletions=self.deletions,
            begins=self.begins,
            closed=self.closed,
            noted=self.source.payload,
        )
        return Update(id=self.source.id, expected_revision=self.source.revision, changes={"payload": payload})

    def with_chunk(self, state: ChunkState) -> Update:
        """Return the operation that writes the state of a chunk, replacing an earlier state of the same chunk."""
        return self.changed(chunks=[*(chunk for chunk in self.chunks if chunk.key != state.key), state])


def heads_of(ledger: Ledger, ref: DiscussionRef) -> list[BlockHead]:
    """Return the heads of a discussion's blocks, in order."""
    return sorted_heads(ledger.sources(scope=ref.scope, root=ref.origin), status="active")


def sorted_heads(sources: Mapping[str, SourceState], *, status: str) -> list[BlockHead]:
    """Return the heads of the blocks with a status among sources by origin, in order."""
    heads = [_head(name, state) for name, state in sources.items() if state.status == status and "#" in name]
    return sorted(heads, key=lambda head: head.first)


def read_block(ledger: Ledger, head: BlockHead) -> Block:
    """Read the current state of a block; `head` may be older."""
    source = ledger.get(head.source_id)
    if not isinstance(source, Source):
        raise Corrupt(f"{head.source_id} is not a source.", hint="Check the space with lint audit.")
    payload = source.payload
    deletions = _DELETIONS.validate_python(payload.get("deleted", ()))
    begins = {item["position"]: item["after"] for item in payload.get("begins", ())}
    messages = [*_spoken(source, begins), *_deleted(source, deletions, begins)]
    return Block(
        head=_head(source.origin, source),
        source=source,
        messages=tuple(sorted(messages, key=lambda message: message.position)),
        chunks=_CHUNKS.validate_python(payload.get("chunks", ())),
        condensations=_CONDENSATIONS.validate_python(payload.get("condensations", ())),
        deletions=deletions,
        closed=payload.get("closed", False),
        formerly=tuple(payload.get(FORMERLY, ())),
    )


def active_block(ledger: Ledger, head: BlockHead) -> Block | None:
    """Read the current state of a block; return `None` if it was withdrawn."""
    try:
        block = read_block(ledger, head)
    except NotFound:
        return None
    return block if block.source.status == "active" else None


def block_origin(origin: str, first: int) -> str:
    """Return the origin of the block that begins at a position."""
    return f"{origin}#{first:09d}"


def fingerprint_of(keys: Sequence[str]) -> str:
    """Return a fingerprint of a block's messages: their number, and the chain of the last one."""
    *_, last = chain_hashes(keys)
    return f"{len(keys)}:{last}"


def payload_of(
    *,
    chunks: Iterable[ChunkState],
    condensations: Iterable[Condensation],
    deletions: Iterable[Deletion],
    begins: Mapping[int, int],
    closed: bool,
    noted: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Return a block's payload, with the other entries of `noted`. Empty parts are omitted."""
    parts: dict[str, Any] = {
        "chunks": _CHUNKS.dump_python(tuple(chunks), mode="json", exclude_defaults=True),
        "condensations": _CONDENSATIONS.dump_python(tuple(condensations), mode="json"),
        "deleted": _DELETIONS.dump_python(tuple(deletions), mode="json", exclude_none=True),
        "begins": [{"position": position, "after": after} for position, after in begins.items()],
        "closed": closed,
    }
    others = {name: value for name, value in (noted or {}).items() if name not in parts}
    return {**others, **{name: value for name, value in parts.items() if value}}


def block_sizes(times: Iterable[datetime | None]) -> list[int]:
    """Split consecutive messages into blocks by their times; return the number of messages in each block."""
    sizes: list[int] = []
    before: datetime | None = None
    for time in times:
        paused = before is not None and time is not None and time - before >= PAUSE
        if not sizes or paused or sizes[-1] == BLOCK_MESSAGES:
            sizes.append(0)
        sizes[-1] += 1
        before = time
    return sizes


def _head(origin: str, state: SourceState | Source) -> BlockHead:
    count, _, chain = state.fingerprint.partition(":")
    return BlockHead(int(origin.rpartition("#")[2]), int(count), chain, state.id, state.revision)


def _spoken(source: Source, begins: Mapping[int, int]) -> Iterator[StoredMessage]:
    for turn, segments in stored_turns(source.segments):
        yield StoredMessage(
            position=turn.turn,
            role=turn.role or turn.speaker,
            speaker=turn.speaker,
            text="".join(segment.excerpt for segment in segments),
            at=turn.at,
            chain=turn.chain,
            source_id=source.id,
            segment_ids=tuple(segment.segment_id for segment in segments),
            after=begins.get(turn.turn),
        )


def _deleted(source: Source, deletions: Iterable[Deletion], begins: Mapping[int, int]) -> Iterator[StoredMessage]:
    for one in deletions:
        yield StoredMessage(
            position=one.position,
            role=one.role,
            speaker=one.role,
            text="",
            at=one.at,
            chain="",
            source_id=source.id,
            segment_ids=(),
            deleted=True,
            after=begins.get(one.position),
        )
