"""The table of all node types: the built-in ones, and those of extensions."""

from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TypeVar

from pydantic import AliasChoices, Field

from treering.core.canonical import canonical_json, digest
from treering.extensions.discussions.generators.parsing import plain_text
from treering.extensions.discussions.identity import text_or_placeholder
from treering.extensions.discussions.log.blocks import StoredMessage
from treering.extensions.discussions.summaries.memories import Memory
from treering.extensions.workflows.definition import NOTHING, AskingSettings, NodeSettings, Text, transcript_text
from treering.extensions.workflows.nodes import DELIMITER, MEMORY_NODES, SEARCH_NODES
from treering.extensions.workflows.registry import NodeType, NodeTypes, RunEnded, Step
from treering.registry import brought_by_name
from treering.retrieval.text.analysis import cut_to_tokens, estimate_tokens
from treering.verbs.leases import held

LOCK_SECONDS = 60.0
"""The time after which the lock of an inactive run expires."""
CHUNK = "chunk"
BEFORE = "previous_result"
_KEY_CHARS = 24
_Item = TypeVar("_Item")


class StandardSettings(AskingSettings):
    """A prompt for a model."""

    prompt: Text


class ResponseSettings(NodeSettings):
    """A text."""

    content: Text


class LockSettings(NodeSettings):
    """A lock: its name, and whether it applies to each discussion separately or to the whole space."""

    workflow_lock_id: Text = NOTHING
    per_discussion: bool = True
    seconds: float = Field(default=LOCK_SECONDS, gt=0, le=86_400)


def ask(settings: StandardSettings, step: Step) -> str:
    """Ask the model."""
    return step.ask(step.fill(settings.prompt), system=step.fill(settings.system_prompt))


def respond(settings: ResponseSettings, step: Step) -> str:
    """Return the text."""
    return step.fill(settings.content)


def lock(settings: LockSettings, step: Step) -> str | RunEnded:
    """Hold a lock until the run ends, or end the run because another one holds the lock.

    Does nothing without a stored discussion.
    """
    scene = step.scene
    if scene.leases is None:
        return ""
    name = step.fill(settings.workflow_lock_id)
    lease_name = f"workflow:{scene.scope if settings.per_discussion else ''}:{name}"
    lease = step.hold(held(scene.leases, lease_name, step.run_id, settings.seconds))
    called = f"the lock {name!r}" if name else "the lock"
    if lease is None:
        return RunEnded(f"Another run holds {called}.")
    step.end_when(lambda: lease.lost, f"This run lost {called}.")
    return ""


class ChunkSettings(AskingSettings):
    """The prompt for each chunk. Its templates may contain `{chunk}` and `{previous_result}`, the previous answer.

    A chunk has `chunkSize` messages; the last `lookbackMessages` and an incomplete chunk wait.
    """

    prompt: Text
    chunk_size: int = Field(default=10, ge=1, le=1_000)
    lookback_messages: int = Field(default=4, ge=0)
    custom_delimiter: str = DELIMITER


def process(settings: ChunkSettings, step: Step) -> str | RunEnded:
    """Ask the model about each chunk and return all answers in order.

    In a stored discussion each answer is durable before the next chunk is read. It is reused while the messages of the
    chunk, the prompts and, if they contain it, the previous result are the same, so that an interrupted run continues.
    Other variables in the prompts are not compared.
    """
    results: list[str] = []
    for messages in _chunks(step.scene.recollection.messages(), settings):
        if step.cancelled():
            return RunEnded("The run was cancelled.", cancelled=True)
        results.append(_result(settings, step, messages, before=results[-1] if results else ""))
    return text_or_placeholder(settings.custom_delimiter.join(results), "messages")


def _result(settings: ChunkSettings, step: Step, messages: Sequence[StoredMessage], *, before: str) -> str:
    results, key = step.scene.results, _key(settings, step, messages, before)
    known = results.find(key) if results else None
    if known is not None:
        return known
    own = {CHUNK: transcript_text(messages), BEFORE: before}
    answer = plain_text(step.ask(step.fill(settings.prompt, own), system=step.fill(settings.system_prompt, own)))
    if results:
        results.keep(key, answer, messages, made_by=step.model_id)
    return answer


def _key(settings: ChunkSettings, step: Step, messages: Sequence[StoredMessage], before: str) -> str:
    uses_before = BEFORE in {*settings.prompt.names, *settings.system_prompt.names}
    segments = [segment for message in messages for segment in message.segment_ids]
    words = [step.node_id, settings.prompt.text, settings.system_prompt.text, segments, before if uses_before else ""]
    return digest(canonical_json(words))[:_KEY_CHARS]


def _chunks(messages: Sequence[StoredMessage], settings: ChunkSettings) -> Iterator[list[StoredMessage]]:
    """Yield the complete chunks. They begin at fixed positions, so that a deleted message changes only its own."""
    end = (messages[-1].position + 1 if messages else 0) - settings.lookback_messages
    size = settings.chunk_size
    for first in range(0, end - size + 1, size):
        chunk = [one for one in messages if first <= one.position < first + size and not one.deleted]
        if chunk:
            yield chunk


class CompactorSettings(NodeSettings):
    """How many tokens each part may take, and how many of the last messages to leave out."""

    recent_context_tokens: int = Field(default=20_000, ge=0)
    old_context_tokens: int = Field(default=20_000, ge=0)
    oldest_context_tokens: int = Field(default=2_000, ge=0)
    skip: int = Field(default=0, ge=0, validation_alias=AliasChoices("skip", "lookbackStartTurn"))


def compact(settings: CompactorSettings, step: Step) -> str:
    """Return the conversation in few tokens, from stored memories and summary, without a model."""
    recollection = step.scene.recollection
    messages = [each for each in recollection.messages() if not each.deleted]
    messages = messages[: len(messages) - settings.skip] if settings.skip else messages
    recent = _newest(messages, [f"{each.speaker}: {each.text}" for each in messages], settings.recent_context_tokens)
    older = messages[: len(messages) - len(recent)]
    oldest = old = ""
    if older:
        begins = recent[0].position if recent else messages[-1].position + 1
        memories = [memory for memory in recollection.all_memories() if memory.first < begins]
        oldest = cut_to_tokens(recollection.summary(), settings.oldest_context_tokens)
        old = _old(older, memories, settings.old_context_tokens)
    parts = {
        "Oldest, as a summary": oldest,
        "Old, as memories": old,
        "Recent, word for word": transcript_text(recent),
    }
    text = "\n\n".join(f"## {name}\n\n{part}" for name, part in parts.items() if part)
    return text if older else text_or_placeholder(text, "messages")


def _old(messages: Sequence[StoredMessage], memories: Sequence[Memory], tokens: int) -> str:
    """Return memories and messages without memories, in order: as many of the newest as fit."""
    covered = {position for memory in memories for position in range(memory.first, memory.last + 1)}
    uncovered = [(one.position, f"{one.speaker}: {one.text}") for one in messages if one.position not in covered]
    entries = [*((memory.first, memory.item.summary) for memory in memories), *uncovered]
    texts = [text for _, text in sorted(entries, key=lambda entry: entry[0])]
    return "\n".join(_newest(texts, texts, tokens))


def _newest(items: Sequence[_Item], texts: Iterable[str], tokens: int) -> Sequence[_Item]:
    """Return as many of the last items as fit into the token budget."""
    left = tokens
    for count, text in enumerate(reversed(list(texts))):
        left -= estimate_tokens(text) + 1
        if left < 0:
            return items[len(items) - count :]
    return items


_BUILT_IN = NodeTypes(
    [
        NodeType("Standard", "calls a language model", StandardSettings, ask),
        NodeType("StaticResponse", "returns a text", ResponseSettings, respond),
        NodeType(
            "WorkflowLock", "lets one run at a time continue; other runs end there", LockSettings, lock, remembers=True
        ),
        *MEMORY_NODES,
        *SEARCH_NODES,
        NodeType(
            "ContextCompactor",
            "the conversation in few tokens: recent messages word for word, older as memories, oldest as a summary",
            CompactorSettings,
            compact,
            remembers=True,
        ),
        NodeType(
            "ConversationChunkProcessor",
            "one prompt per chunk of the conversation, each answered once",
            ChunkSettings,
            process,
            remembers=True,
            variables=(CHUNK, BEFORE),
        ),
    ]
)
NODE_TYPES = _BUILT_IN.with_types(*brought_by_name("node_types", attrgetter("name"), taken=_BUILT_IN))
"""The default table for checking workflows; `with_types` returns an extended one."""
