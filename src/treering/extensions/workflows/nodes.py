"""Nodes that read, search and write what is remembered of a conversation. Those that read ask no model."""

from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal

from pydantic import AliasChoices, Field, model_validator

from treering.extensions.discussions.generators.parsing import CHUNK_BREAK
from treering.extensions.discussions.identity import Missing, is_placeholder, text_or_placeholder
from treering.extensions.discussions.log.blocks import StoredMessage
from treering.extensions.discussions.search import DiscussionHit, DiscussionSearch, FieldWeights
from treering.extensions.discussions.summaries.memories import Memory
from treering.extensions.workflows.definition import NOTHING, NodeSettings, Text, transcript_text
from treering.extensions.workflows.registry import AnySettings, NodeType, Step
from treering.retrieval.text.analysis import cut_to_tokens

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
    return text_or_placeholder(told.custom_delimiter.join(texts), missing)


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
    since = transcript_text([kept for kept in messages if kept.position > last])
    parts = [listed(memories, told) if memories else "", since]
    return text_or_placeholder(told.custom_delimiter.join(part for part in parts if part), "messages")


def full_summary(told: SummarySettings, step: Step) -> str:
    """Return the summary, brought up to date first where that is asked."""
    refresh = told.refresh or told.is_manual_config is False
    return text_or_placeholder(step.scene.recollection.summary(refresh=refresh), "summary")


def current_summary(_told: NodeSettings, step: Step) -> str:
    """Return the summary as it stands."""
    return text_or_placeholder(step.scene.recollection.summary(), "summary")


def fold_summary(_told: NodeSettings, step: Step) -> str:
    """Fold new memories into the summary, and return it."""
    return text_or_placeholder(step.scene.recollection.fold_summary(), "summary")


def write_summary(told: WriteSettings, step: Step) -> str:
    """Save a summary, and return the one that stands then: a text that says nothing replaces nothing."""
    text = step.fill(told.input)
    recollection = step.scene.recollection
    stands = recollection.summary() if is_placeholder(text) else recollection.write_summary(text)
    return text_or_placeholder(stands, "summary")


def state(_told: NodeSettings, step: Step) -> str:
    """Return the current facts."""
    return text_or_placeholder(step.scene.recollection.state(), "state")


def create(_told: NodeSettings, step: Step) -> str:
    """Make the memories that are due. Of messages at hand none are made."""
    creator = step.scene.creator
    if creator is None:
        return ""
    made = creator.update()
    step.used(made.usage)
    if made.busy:
        return "Another process is making memories."
    failed = f", {made.failed} failed and will be retried" if made.failed else ""
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
    _node("ConversationMemory", "the last memories and the messages since", ConversationSettings, conversation),
    _node(
        "FullChatSummary",
        "the rolling summary, updated on request",
        SummarySettings,
        full_summary,
        creates=True,
    ),
    _node("GetCurrentSummaryFromFile", "the current rolling summary", NodeSettings, current_summary),
    _node("chatSummarySummarizer", "merges new memories into the summary", NodeSettings, fold_summary, creates=True),
    _node("WriteCurrentSummaryToFileAndReturnIt", "saves a summary", WriteSettings, write_summary),
    _node("GetCurrentStateDocument", "the current facts", NodeSettings, state),
    _node("QualityMemory", "makes the memories that are due", NodeSettings, create, creates=True),
)


# Nodes that look something up: in what is remembered, and in what was said. None of them asks a model.


RECENCY_DAYS = 180.0
"""After so many days a match counts half, where recency is to count and no number is given."""

_Weight = Annotated[float, Field(ge=0, le=100)]
_Mode = Literal["keywords", "natural", "semantic", "hybrid"]


class KeywordSettings(NodeSettings):
    """Keywords, split on `;`."""

    keywords: Text = Field(validation_alias=AliasChoices("keywords", "input", "promptToSearch"))
    limit: int = Field(default=5, ge=1, le=200)
    include_dates: bool = False
    custom_delimiter: str = DELIMITER


class VectorSettings(NodeSettings):
    """What to look for, and how.

    `input`: keywords split on `;`, or in the other modes a question, for which `semanticQuery` may give better words.
    `bm25Weights`: of title, summary, entities, key phrases and topics. `datePrefix`: only what was said then.
    """

    input: Text
    limit: int = Field(default=5, ge=1, le=200)
    search_mode: Literal["keyword", "keywords", "natural", "semantic", "hybrid"] = "keywords"
    semantic_query: Text = NOTHING
    bm25_weights: Annotated[
        tuple[_Weight, _Weight, _Weight, _Weight, _Weight] | None,
        Field(strict=False, validation_alias=AliasChoices("bm25Weights", "bm25_weights")),
    ] = None
    use_recency_scoring: bool = False
    recency_half_life_days: float | None = Field(default=None, gt=0)
    date_prefix: str = Field(default="", pattern=r"^([0-9]{4}(-[0-9]{2}(-[0-9]{2})?)?)?$")
    use_entity_expansion: bool = False
    include_dates: bool = False
    custom_delimiter: str = DELIMITER


class QualitySettings(NodeSettings):
    """What to look for; how many places, each with how many messages around it, and how many tokens in all."""

    input: Text = Field(validation_alias=AliasChoices("input", "keywords", "promptToSearch"))
    limit: int = Field(default=8, ge=1, le=100)
    around: int = Field(default=2, ge=0, le=20)
    max_tokens: int = Field(default=4_000, ge=1)


def search_memories(told: KeywordSettings, step: Step) -> str:
    """Look for keywords in memories."""
    return _by_keywords(told, step, "memories")


def search_turns(told: KeywordSettings, step: Step) -> str:
    """Look for keywords in what was said."""
    return _by_keywords(told, step, "turns")


def vector_search(told: VectorSettings, step: Step) -> str:
    """Look for memories."""
    mode: _Mode = "keywords" if told.search_mode == "keyword" else told.search_mode
    meant = "" if mode == "keywords" else step.fill(told.semantic_query)
    options = DiscussionSearch(
        what="memories",
        mode=mode,
        limit=told.limit,
        weights=FieldWeights(*told.bm25_weights) if told.bm25_weights else None,
        recency=told.recency_half_life_days or (RECENCY_DAYS if told.use_recency_scoring else None),
        date_prefix=told.date_prefix,
        expand_entities=told.use_entity_expansion,
    )
    found = step.scene.recollection.search(meant or step.fill(told.input), options)
    return _listed(found, dates=told.include_dates, delimiter=told.custom_delimiter)


def quality_search(told: QualitySettings, step: Step) -> str:
    """Look in memories and in what was said, by words and by meaning, and show each place with what is around it."""
    recollection = step.scene.recollection
    query = step.fill(told.input)
    options = DiscussionSearch(what="both", mode="hybrid", limit=told.limit, expand_entities=True)
    found = recollection.search(query, options)
    memories = _listed([one for one in found if one.kind == "memory"], dates=True, delimiter="\n")
    turns = [one for one in found if one.kind == "turn"]
    if not found:
        return text_or_placeholder("", "found")
    stretches = _stretches(recollection.messages(), turns, told.around) if turns else []
    parts = [memories if len(turns) < len(found) else "", *stretches]
    return cut_to_tokens(DELIMITER.join(part for part in parts if part), told.max_tokens)


def _by_keywords(told: KeywordSettings, step: Step, what: Literal["memories", "turns"]) -> str:
    options = DiscussionSearch(what=what, mode="keywords", limit=told.limit)
    found = step.scene.recollection.search(step.fill(told.keywords), options)
    return _listed(found, dates=told.include_dates, delimiter=told.custom_delimiter)


def _listed(found: Sequence[DiscussionHit], *, dates: bool, delimiter: str) -> str:
    return text_or_placeholder(delimiter.join(_shown(one, dates=dates) for one in found), "found")


def _shown(found: DiscussionHit, *, dates: bool) -> str:
    said_at = f"[{found.at:%Y-%m-%d}] " if dates and found.at else ""
    speaker = f"{found.speaker}: " if found.kind == "turn" and found.speaker else ""
    return f"{said_at}{speaker}{found.text}"


def _stretches(messages: Sequence[StoredMessage], found: Sequence[DiscussionHit], around: int) -> list[str]:
    """Return the messages around each found one, in order; stretches that touch are one."""
    wanted = {position for one in found for position in range(one.first - around, one.last + around + 1)}
    shown = [kept for kept in messages if kept.position in wanted and not kept.deleted]
    stretches: list[list[StoredMessage]] = []
    for kept in shown:
        if not stretches or kept.position != stretches[-1][-1].position + 1:
            stretches.append([])
        stretches[-1].append(kept)
    return [transcript_text(stretch) for stretch in stretches]


SEARCH_NODES: tuple[NodeType[Any], ...] = (
    _node("VectorMemorySearch", "memories that match", VectorSettings, vector_search),
    _node("MemoryKeywordSearchPerformerTool", "memories with keywords", KeywordSettings, search_memories),
    _node("ConversationalKeywordSearchPerformerTool", "messages with keywords", KeywordSettings, search_turns),
    _node(
        "SlowButQualityRAG",
        "matching memories and messages, with the messages around them",
        QualitySettings,
        quality_search,
    ),
)
