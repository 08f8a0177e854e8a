"""Messages that imported memories tell of: nothing more is made of them, as the program they come from would not."""

from collections.abc import Collection, Iterator, Sequence
from itertools import groupby

from treering.core.patch import Operation
from treering.memories.discussion.log.blocks import Block, ChunkState, StoredMessage
from treering.memories.discussion.log.message_log import MessageLog
from treering.memories.discussion.summaries.chunks import chunk_key


def cover(log: MessageLog, positions: Collection[int]) -> Iterator[Operation]:
    """Mark the messages at some positions as read, as far as they are in no chunk yet."""
    if not positions:
        return
    for head in log.blocks():
        block = log.block(head)
        states = [_read(run) for run in _runs(block, positions)]
        if states:
            yield block.changed(chunks=sorted([*block.chunks, *states], key=lambda state: state.first))


def _runs(block: Block, positions: Collection[int]) -> Iterator[list[StoredMessage]]:
    """Return the messages of a block that are to be marked, those that follow each other together."""
    taken = {position for state in block.chunks for position in range(state.first, state.last + 1)}

    def is_free(message: StoredMessage) -> bool:
        return message.position in positions and message.position not in taken and not message.deleted

    yield from (list(run) for free, run in groupby(block.messages, key=is_free) if free)


def _read(run: Sequence[StoredMessage]) -> ChunkState:
    return ChunkState(run[0].position, run[-1].position, key=chunk_key(run), status="empty")
