"""The table of all node types: those that come with workflows, then those that parts bring."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TypeVar

from pydantic import AliasChoices, Field

from treering.core.canonical import canonical_json, digest
from treering.parts.discussions.generators.parsing import plain_text
from treering.parts.discussions.identity import text_or_placeholder
from treering.parts.discussions.log.blocks import StoredMessage
from treering.parts.discussions.summaries.memories import Memory
from treering.parts.workflows.definition import NOTHING, AskingSettings, NodeSettings, Text, transcript_text
from treering.parts.workflows.nodes import DELIMITER, MEMORY_NODES, SEARCH_NODES
from treering.parts.workflows.registry import NodeType, NodeTypes, RunEnded, Scene, Step
from treering.registry import brought_by_name
from treering.retrieval.text.analysis import cut_to_tokens, estimate_tokens
from treering.verbs.leases import held

# Nodes that need no memory: a model's answer, a text, a lock.


LOCK_SECONDS = 60.0
"""How long a run that shows no sign of life keeps others out."""


class StandardSettings(AskingSettings):
    """A prompt for a model."""

    prompt: Text


class ResponseSettings(NodeSettings):
    """A text."""

    content: Text


class LockSettings(NodeSettings):
    """A lock: its name, and whether every discussion has one of this name, or the space has a single one."""

    workflow_lock_id: Text = NOTHING
    per_discussion: bool = True
    seconds: float = Field(default=LOCK_SECONDS, gt=0, le=86_400)


def ask(told: StandardSettings, step: Step) -> str:
    """Ask the model."""
    return step.ask(step.fill(told.prompt), system=step.fill(told.system_prompt))


def respond(told: ResponseSettings, step: Step) -> str:
    """Return the text."""
    return step.fill(told.content)


def lock(told: LockSettings, step: Step) -> str | RunEnded:
    """Hold a lock until the run ends, or end it here because another run holds it.

    Messages at hand have nothing that two runs could want at once: there it does nothing.
    """
    scene = step.scene
    if scene.leases is None:
        return ""
    name = step.fill(told.workflow_lock_id)
    lease = step.hold(held(scene.leases, _lease_name(scene, told, name), step.run_id, told.seconds))
    called = f"the lock {name!r}" if name else "the lock"
    if lease is None:
        return RunEnded(f"Another run holds {called}.")
    step.end_when(lambda: lease.lost, f"This run lost {called}.")
    return ""


def _lease_name(scene: Scene, told: LockSettings, name: str) -> str:
    return f"workflow:{scene.scope if told.per_discussion else ''}:{name}"


NODES = (
    NodeType("Standard", "calls a language model", StandardSettings, ask),
    NodeType("StaticResponse", "returns a text", ResponseSettings, respond),
    NodeType(
        "WorkflowLock", "lets one run at a time continue; other runs end there", LockSettings, lock, remembers=True
    ),
)


# A prompt for each chunk of a conversation, one after the other; what was answered is kept, and not asked again.


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
    return text_or_placeholder(told.custom_delimiter.join(results), "messages")


def _result(told: ChunkSettings, step: Step, messages: Sequence[StoredMessage], *, before: str) -> str:
    kept, key = step.scene.results, _key(told, step, messages, before)
    known = kept.find(key) if kept else None
    if known is not None:
        return known
    own = {CHUNK: transcript_text(messages), BEFORE: before}
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
        "one prompt per chunk of the conversation, each answered once",
        ChunkSettings,
        process,
        remembers=True,
        variables=(CHUNK, BEFORE),
    ),
)


# A conversation in few tokens: recent messages as they were said, older ones as memories, the oldest as a summary.


_Item = TypeVar("_Item")


class CompactorSettings(NodeSettings):
    """How many tokens each part may take, and how many of the last messages to leave out."""

    recent_context_tokens: int = Field(default=20_000, ge=0)
    old_context_tokens: int = Field(default=20_000, ge=0)
    oldest_context_tokens: int = Field(default=2_000, ge=0)
    skip: int = Field(default=0, ge=0, validation_alias=AliasChoices("skip", "lookbackStartTurn"))


@dataclass(frozen=True, slots=True)
class Windows:
    """The three parts, oldest first."""

    oldest: str
    old: str
    recent: str

    def __str__(self) -> str:
        parts = {
            "Oldest, as a summary": self.oldest,
            "Old, as memories": self.old,
            "Recent, word for word": self.recent,
        }
        return "\n\n".join(f"## {name}\n\n{text}" for name, text in parts.items() if text)


def compact(told: CompactorSettings, step: Step) -> str:
    """Return the conversation in few tokens. No model is asked: memories and summary are those that are kept."""
    recollection = step.scene.recollection
    kept = [each for each in recollection.messages() if not each.deleted]
    messages = kept[: len(kept) - told.skip] if told.skip else kept
    recent = _newest(messages, [f"{each.speaker}: {each.text}" for each in messages], told.recent_context_tokens)
    older = messages[: len(messages) - len(recent)]
    if not older:
        return text_or_placeholder(str(Windows("", "", transcript_text(recent))), "messages")
    begins = recent[0].position if recent else messages[-1].position + 1
    memories = [memory for memory in recollection.all_memories() if memory.first < begins]
    return str(
        Windows(
            oldest=cut_to_tokens(recollection.summary(), told.oldest_context_tokens),
            old=_old(older, memories, told.old_context_tokens),
            recent=transcript_text(recent),
        )
    )


def _old(messages: Sequence[StoredMessage], memories: Sequence[Memory], tokens: int) -> str:
    """Return memories, and messages that no memory tells of, in order: as many of the newest as fit."""
    told = {position for memory in memories for position in range(memory.first, memory.last + 1)}
    untold = [(kept.position, f"{kept.speaker}: {kept.text}") for kept in messages if kept.position not in told]
    lines = sorted([*((memory.first, memory.item.summary) for memory in memories), *untold], key=lambda line: line[0])
    texts = [text for _, text in lines]
    return "\n".join(_newest(texts, texts, tokens))


def _newest(items: Sequence[_Item], texts: Iterable[str], tokens: int) -> Sequence[_Item]:
    """Return as many of the last items as fit into so many tokens."""
    left = tokens
    for count, text in enumerate(reversed(list(texts))):
        left -= estimate_tokens(text) + 1
        if left < 0:
            return items[len(items) - count :]
    return items


COMPACTING_NODES = (
    NodeType(
        "ContextCompactor",
        "the conversation in few tokens: recent messages word for word, older as memories, oldest as a summary",
        CompactorSettings,
        compact,
        remembers=True,
    ),
)


_BUILT_IN = NodeTypes([*NODES, *MEMORY_NODES, *SEARCH_NODES, *COMPACTING_NODES, *CHUNK_NODES])
NODE_TYPES = _BUILT_IN.with_types(*brought_by_name("node_types", attrgetter("name"), taken=_BUILT_IN))
"""What a workflow is checked against where no other table is given; `with_types` gives one with more."""
