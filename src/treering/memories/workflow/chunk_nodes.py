"""A prompt for each chunk of a conversation, one after the other; what was answered is kept, and not asked again."""

from collections.abc import Iterator, Sequence

from pydantic import Field

from treering.core.canonical import canonical_json, digest
from treering.memories.discussion.generators.parsing import plain_text
from treering.memories.discussion.log.blocks import StoredMessage
from treering.memories.discussion.nothing import or_nothing
from treering.memories.workflow.definition import AskingSettings, Text
from treering.memories.workflow.memory_nodes import DELIMITER
from treering.memories.workflow.registry import NodeType, RunEnded, Step
from treering.memories.workflow.variables import said

CHUNK = "chunk"
BEFORE = "previous_result"
_KEY_CHARS = 24


class ChunkSettings(AskingSettings):
    """The prompt for each chunk. Its templates may use `{chunk}` and `{previous_result}`, what the chunk before gave.

    `chunkSize` messages are a chunk; the last `lookbackMessages` and an incomplete chunk wait.
    """

    prompt: Text
    chunk_size: int = Field(default=10, ge=1, le=1_000)
    lookback_messages: int = Field(default=4, ge=0)
    custom_delimiter: str = DELIMITER


def process(told: ChunkSettings, step: Step) -> str | RunEnded:
    """Ask the model about each chunk and return all answers in order.

    In a kept discussion each answer is durable before the next chunk is read. It is used again as long as the
    messages of its chunk, the texts of the prompts and, where they use it, the result before it are the same, so a
    run that broke off goes on where it was. Other variables in the prompts do not count.
    """
    results: list[str] = []
    for messages in _chunks(step.scene.recollection.messages(), told):
        if step.cancelled():
            return RunEnded("The run was cancelled.", cancelled=True)
        results.append(_result(told, step, messages, before=results[-1] if results else ""))
    return or_nothing(told.custom_delimiter.join(results), "messages")


def _result(told: ChunkSettings, step: Step, messages: Sequence[StoredMessage], *, before: str) -> str:
    kept, key = step.scene.results, _key(told, step, messages, before)
    known = kept.find(key) if kept else None
    if known is not None:
        return known
    own = {CHUNK: said(messages), BEFORE: before}
    answer = plain_text(step.ask(step.fill(told.prompt, own), system=step.fill(told.system_prompt, own)))
    if kept:
        kept.keep(key, answer, messages, made_by=step.model_id)
    return answer


def _key(told: ChunkSettings, step: Step, messages: Sequence[StoredMessage], before: str) -> str:
    uses_before = BEFORE in {*told.prompt.names, *told.system_prompt.names}
    segments = [segment for kept in messages for segment in kept.segment_ids]
    words = [step.node_id, told.prompt.text, told.system_prompt.text, segments, before if uses_before else ""]
    return digest(canonical_json(words))[:_KEY_CHARS]


def _chunks(messages: Sequence[StoredMessage], told: ChunkSettings) -> Iterator[list[StoredMessage]]:
    """Return the complete chunks. They begin at fixed positions, so a deleted message changes only its own."""
    end = (messages[-1].position + 1 if messages else 0) - told.lookback_messages
    for first in range(0, end - told.chunk_size + 1, told.chunk_size):
        chunk = [kept for kept in messages if first <= kept.position < first + told.chunk_size and not kept.deleted]
        if chunk:
            yield chunk


CHUNK_NODES = (
    NodeType(
        "ConversationChunkProcessor",
        "a prompt for each chunk of the conversation, each answered once",
        ChunkSettings,
        process,
        remembers=True,
        variables=(CHUNK, BEFORE),
    ),
)
