"""A discussion in the ledger: blocks of messages, each one Source, with how far its memories are in its payload."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any, Literal

from pydantic import TypeAdapter

from treering.core.canonical import Instant, chain_hashes
from treering.core.errors import Corrupt, NotFound
from treering.core.evidence import Segment, Turn
from treering.core.objects import Source
from treering.core.patch import Update
from treering.ports.ledger import Ledger, SourceState


@dataclass(frozen=True, slots=True)
class StoredMessage:
    """One message as it is kept. `source_id` and `segment_ids` cite it; a deleted one says nothing any more.

    `after`: a part begins with it that does not continue the message before; see `alignment.ConversationPart`.
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
    """How far one chunk of messages is. `attempts`, `error` and `retry_at` tell of failures."""

    first: int
    last: int
    key: str
    status: ChunkStatus
    memories: tuple[str, ...] = ()
    attempts: int = 0
    error: str = ""
    retry_at: Instant | None = None
    rejected: tuple[str, ...] = field(default=())
    """What of the generator's answer could not be used, and why."""


BLOCK_MESSAGES = 40
"""A block holds at most so many messages."""
FORMERLY = "formerly"
"""Under this name a block notes withdrawn sources that stood in its place."""
PAUSE = timedelta(hours=4)
"""After such a pause between two messages a new block begins."""


@dataclass(frozen=True, slots=True)
class BlockHead:
    """What is known of a block without reading it: where it begins, how many messages it has, the last one's chain."""

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
    """Memories of the positions `first` to `last` that one memory stands for."""

    first: int
    last: int
    memory: str


@dataclass(frozen=True, slots=True)
class Deletion:
    """A message that was deleted: its place, role and time stay.

    `key` tells it from others when it is sent again; of an erased one not even that remains.
    """

    position: int
    role: str
    key: str = ""
    at: Instant | None = None


_CHUNKS = TypeAdapter(tuple[ChunkState, ...])
_CONDENSATIONS = TypeAdapter(tuple[Condensation, ...])
_DELETIONS = TypeAdapter(tuple[Deletion, ...])
"""What stands in the payload of a block, as data."""


@dataclass(frozen=True, slots=True)
class Block:
    """A block as it was read. `closed`: another one follows it."""

    head: BlockHead
    source: Source
    messages: tuple[StoredMessage, ...]
    chunks: tuple[ChunkState, ...] = ()
    condensations: tuple[Condensation, ...] = ()
    deletions: tuple[Deletion, ...] = ()
    closed: bool = False
    formerly: tuple[str, ...] = ()
    """Withdrawn sources that stood in its place before."""

    @property
    def begins(self) -> dict[int, int]:
        """Where parts begin in it, and which position each continues."""
        return {kept.position: kept.after for kept in self.messages if kept.after is not None}

    def changed(
        self,
        *,
        chunks: Sequence[ChunkState] | None = None,
        condensations: Sequence[Condensation] | None = None,
    ) -> Update:
        """Return the operation that writes chunk states or condensations, if nobody changed the block meanwhile."""
        payload = payload_of(
            chunks=self.chunks if chunks is None else chunks,
            condensations=self.condensations if condensations is None else condensations,
            deletions=self.deletions,
            begins=self.begins,
            closed=self.closed,
            noted=self.source.payload,
        )
        return Update(id=self.source.id, expected_revision=self.source.revision, changes={"payload": payload})

    def with_chunk(self, state: ChunkState) -> Update:
        """Return the operation that writes the state of one chunk, in the place of an earlier one of the same chunk."""
        others = [chunk for chunk in self.chunks if chunk.key != state.key]
        return self.changed(chunks=sorted([*others, state], key=lambda chunk: chunk.first))


def heads_of(ledger: Ledger, *, scope: str, origin: str) -> list[BlockHead]:
    """Return the blocks of a discussion, in order, without reading them."""
    return sorted_heads(ledger.sources(scope=scope, root=origin), status="active")


def sorted_heads(sources: Mapping[str, SourceState], *, status: str) -> list[BlockHead]:
    """Return the blocks of a status among sources by origin, in order."""
    heads = [_head(name, state) for name, state in sources.items() if state.status == status and "#" in name]
    return sorted(heads, key=lambda head: head.first)


def read_block(ledger: Ledger, head: BlockHead) -> Block:
    """Read a block as it stands now; `head` may be older."""
    source = ledger.get(head.source_id)
    if not isinstance(source, Source):
        raise Corrupt(f"{head.source_id} is not a source.", hint="Check the space with lint audit.")
    return block_of(source)


def active_block(ledger: Ledger, head: BlockHead) -> Block | None:
    """Read a block as it stands now; `None` where it was withdrawn."""
    try:
        block = read_block(ledger, head)
    except NotFound:
        return None
    return block if block.source.status == "active" else None


def block_of(source: Source) -> Block:
    """Return the block that a source holds."""
    payload = source.payload
    deletions = _DELETIONS.validate_python(payload.get("deleted", ()))
    begins = {item["position"]: item["after"] for item in payload.get("begins", ())}
    messages = [*_spoken(source, begins), *_deleted(source, deletions, begins)]
    return Block(
        head=_head(source.origin, SourceState(source.id, source.fingerprint, source.status, source.revision)),
        source=source,
        messages=tuple(sorted(messages, key=lambda kept: kept.position)),
        chunks=_CHUNKS.validate_python(payload.get("chunks", ())),
        condensations=_CONDENSATIONS.validate_python(payload.get("condensations", ())),
        deletions=deletions,
        closed=payload.get("closed", False),
        formerly=tuple(payload.get(FORMERLY, ())),
    )


def block_origin(origin: str, first: int) -> str:
    """Name the block that begins at a position."""
    return f"{origin}#{first:09d}"


def fingerprint_of(keys: Sequence[str]) -> str:
    """Tell a block from others: by how many messages it has, and the chain of the last one."""
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
    """Return a block's payload, with whatever else is `noted` in it. Empty parts are left out."""
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
    """Return how many messages each block has, from the times of messages, the first of which begins a block."""
    sizes: list[int] = []
    before: datetime | None = None
    for time in times:
        paused = before is not None and time is not None and time - before >= PAUSE
        if not sizes or paused or sizes[-1] == BLOCK_MESSAGES:
            sizes.append(0)
        sizes[-1] += 1
        before = time
    return sizes


def _head(origin: str, state: SourceState) -> BlockHead:
    count, _, chain = state.fingerprint.partition(":")
    return BlockHead(int(origin.rpartition("#")[2]), int(count), chain, state.id, state.revision)


def _spoken(source: Source, begins: Mapping[int, int]) -> Iterator[StoredMessage]:
    placed = [(segment.locator, segment) for segment in source.segments]
    turns = [(turn, segment) for turn, segment in placed if isinstance(turn, Turn)]
    for _, group in groupby(turns, key=lambda pair: pair[0].turn):
        pairs = list(group)
        turn = pairs[0][0]
        yield _kept(turn, [segment for _, segment in pairs], source.id, begins.get(turn.turn))


def _kept(turn: Turn, segments: Sequence[Segment], source_id: str, after: int | None) -> StoredMessage:
    return StoredMessage(
        position=turn.turn,
        role=turn.role or turn.speaker,
        speaker=turn.speaker,
        text="".join(segment.excerpt for segment in segments),
        at=turn.at,
        chain=turn.chain,
        source_id=source_id,
        segment_ids=tuple(segment.segment_id for segment in segments),
        after=after,
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
