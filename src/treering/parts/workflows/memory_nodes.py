"""Nodes that read and write what is remembered of a conversation. Those that read never ask a model."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any

from pydantic import AliasChoices, Field, model_validator

from treering.parts.discussions.generators.parsing import CHUNK_BREAK
from treering.parts.discussions.identity import Missing, or_nothing, says_nothing
from treering.parts.discussions.summaries.memories import Memory
from treering.parts.workflows.definition import NodeSettings, Text
from treering.parts.workflows.registry import AnySettings, NodeType, Step
from treering.parts.workflows.variables import said

DELIMITER = "\n\n---\n\n"
"""Between results of a search, and results of chunks."""

_Count = Annotated[int, Field(ge=1, le=1_000)]


class ListSettings(NodeSettings):
    """How memories are listed."""

    custom_delimiter: str = CHUNK_BREAK
    include_dates: bool = False


class RecentSettings(ListSettings):
    """How many of the last memories, or of messages at hand how many of the last turns. `skip`: but the last so many.

    `limit` counts both; `maxSummaryChunksFromFile` only memories, `maxTurnsToPull` only turns, before `limit`.
    """

    limit: int = Field(default=3, ge=1, le=1_000)
    max_summary_chunks_from_file: _Count | None = None
    max_turns_to_pull: _Count | None = None
    skip: int = Field(default=0, ge=0, validation_alias=AliasChoices("skip", "lookbackStart"))


class SummarySettings(NodeSettings):
    """Whether the summary is brought up to date first. `isManualConfig: false` says the same."""

    refresh: bool = False
    is_manual_config: bool | None = None

    @model_validator(mode="after")
    def _says_it_once(self) -> "SummarySettings":
        if self.refresh and self.is_manual_config:
            raise ValueError("'refresh' and 'isManualConfig' contradict each other")
        return self


class WriteSettings(NodeSettings):
    """The summary to write."""

    input: Text


class ConversationSettings(ListSettings):
    """How many of the last memories, and at most how many of the messages that none of them tells of."""

    limit: int = Field(default=3, ge=0, le=1_000)
    max_turns_to_pull: int = Field(default=40, ge=0, le=10_000)


def listed(memories: Sequence[Memory], told: ListSettings, missing: Missing = "memories") -> str:
    """Write memories one after the other."""
    texts = [f"{_dated(memory) if told.include_dates else ''}{memory.item.summary}" for memory in memories]
    return or_nothing(told.custom_delimiter.join(texts), missing)


def recent(told: RecentSettings, step: Step) -> str:
    """Return the last memories."""
    own = told.max_summary_chunks_from_file if step.scene.is_kept else told.max_turns_to_pull
    other = told.max_turns_to_pull if step.scene.is_kept else told.max_summary_chunks_from_file
    count = own or (told.limit if "limit" in told.model_fields_set else other or told.limit)
    return listed(step.scene.recollection.recent_memories(count, skip=told.skip), told)


def everything(told: ListSettings, step: Step) -> str:
    """Return all memories."""
    return listed(step.scene.recollection.all_memories(), told)


def newer(told: ListSettings, step: Step) -> str:
    """Return the memories that the summary does not tell of yet."""
    return listed(step.scene.recollection.newer_memories(), told, "newer_memories")


def conversation(told: ConversationSettings, step: Step) -> str:
    """Return the last memories, then what was said since, as it was said."""
    recollection = step.scene.recollection
    memories = recollection.recent_memories(told.limit) if told.limit else []
    last = max((memory.last for memory in memories), default=-1)
    messages = recollection.last_messages(told.max_turns_to_pull) if told.max_turns_to_pull else []
    since = said([kept for kept in messages if kept.position > last])
    parts = [listed(memories, told) if memories else "", since]
    return or_nothing(told.custom_delimiter.join(part for part in parts if part), "messages")


def full_summary(told: SummarySettings, step: Step) -> str:
    """Return the summary, brought up to date first where that is asked."""
    refresh = told.refresh or told.is_manual_config is False
    return or_nothing(step.scene.recollection.summary(refresh=refresh), "summary")


def current_summary(_told: NodeSettings, step: Step) -> str:
    """Return the summary as it stands."""
    return or_nothing(step.scene.recollection.summary(), "summary")


def fold_summary(_told: NodeSettings, step: Step) -> str:
    """Fold new memories into the summary, and return it."""
    return or_nothing(step.scene.recollection.fold_summary(), "summary")


def write_summary(told: WriteSettings, step: Step) -> str:
    """Save a summary, and return the one that stands then: a text that says nothing replaces nothing."""
    text = step.fill(told.input)
    recollection = step.scene.recollection
    stands = recollection.summary() if says_nothing(text) else recollection.write_summary(text)
    return or_nothing(stands, "summary")


def state(_told: NodeSettings, step: Step) -> str:
    """Return what is true now."""
    return or_nothing(step.scene.recollection.state(), "state")


def create(_told: NodeSettings, step: Step) -> str:
    """Make the memories that are due. Of messages at hand none are made."""
    creator = step.scene.creator
    if creator is None:
        return ""
    made = creator.update()
    step.used(made.usage)
    if made.busy:
        return "Another process is making memories."
    failed = f", {made.failed} failed and wait for another try" if made.failed else ""
    return f"{made.done + made.empty} chunks were read{failed}."


def _dated(memory: Memory) -> str:
    return f"[{memory.at:%Y-%m-%d}] " if memory.at else ""


def _node(
    name: str,
    summary: str,
    settings: type[AnySettings],
    run: Callable[[AnySettings, Step], str],
    *,
    creates: bool = False,
) -> NodeType[AnySettings]:
    return NodeType(name, summary, settings, run, remembers=True, creates=creates)


MEMORY_NODES: tuple[NodeType[Any], ...] = (
    _node("RecentMemory", "the last memories", RecentSettings, recent),
    _node("RecentMemorySummarizerTool", "the last memories", RecentSettings, recent),
    _node("GetCurrentMemoryFromFile", "all memories", ListSettings, everything),
    _node("ChatSummaryMemoryGatheringTool", "memories newer than the summary", ListSettings, newer),
    _node("ConversationMemory", "the last memories, and what was said since", ConversationSettings, conversation),
    _node(
        "FullChatSummary",
        "the rolling summary, brought up to date if asked",
        SummarySettings,
        full_summary,
        creates=True,
    ),
    _node("GetCurrentSummaryFromFile", "the rolling summary as it stands", NodeSettings, current_summary),
    _node("chatSummarySummarizer", "folds new memories into the summary", NodeSettings, fold_summary, creates=True),
    _node("WriteCurrentSummaryToFileAndReturnIt", "saves a summary", WriteSettings, write_summary),
    _node("GetCurrentStateDocument", "what is true now", NodeSettings, state),
    _node("QualityMemory", "makes the memories that are due", NodeSettings, create, creates=True),
)
