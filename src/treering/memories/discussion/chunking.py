"""Which messages make up a chunk, and when it is due. Pure, and the same whenever it is asked."""

from collections.abc import Iterator, Sequence

from treering.core.canonical import digest
from treering.core.conversation import message_key
from treering.derived.tokens import estimate_tokens
from treering.memories.discussion.kept import ChunkState, Kept
from treering.memories.discussion.settings import DiscussionSettings

_KEY_CHARS = 20


def due_chunks(
    messages: Sequence[Kept],
    states: Sequence[ChunkState],
    *,
    settings: DiscussionSettings,
    count: int,
    is_last_block: bool,
) -> list[ChunkState]:
    """Return the chunks of a block that are complete, clear of the lookback, and in no state yet; as pending ones.

    `messages` are all of the block, `count` is how many the discussion has. From the first message that is in no
    chunk on, a chunk is complete with `chunk_tokens` or `max_messages`, right before a chunk that is there, and at
    the end of a block that another one follows. Deleted messages say nothing: they are in no chunk.
    """
    clear = count - settings.lookback
    chunks = _cut(messages, states, settings, is_closed=not is_last_block)
    return [chunk for chunk in map(_pending, chunks) if chunk.last < clear]


def chunk_key(messages: Sequence[Kept]) -> str:
    """Tell a chunk from others: by what its messages say, who says it, and where."""
    said = (f"{message.position} {message_key(message.role, message.text)}" for message in messages)
    return digest("\n".join(said))[:_KEY_CHARS]


def _cut(
    messages: Sequence[Kept], states: Sequence[ChunkState], settings: DiscussionSettings, *, is_closed: bool
) -> Iterator[list[Kept]]:
    """Return the messages of each complete chunk that is in no state yet."""
    covered = {position for state in states for position in range(state.first, state.last + 1)}
    chunk: list[Kept] = []
    for message in messages:
        ends_before = message.position in covered
        if chunk and (ends_before or _is_full(chunk, settings)):
            yield chunk
            chunk = []
        if not ends_before and not message.deleted:
            chunk.append(message)
    if chunk and (is_closed or _is_full(chunk, settings)):
        yield chunk


def _is_full(chunk: Sequence[Kept], settings: DiscussionSettings) -> bool:
    tokens = sum(estimate_tokens(message.text) for message in chunk)
    return len(chunk) >= settings.max_messages or tokens >= settings.chunk_tokens


def _pending(chunk: Sequence[Kept]) -> ChunkState:
    return ChunkState(first=chunk[0].position, last=chunk[-1].position, key=chunk_key(chunk))
