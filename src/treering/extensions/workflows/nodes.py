"""Nodes that read, search and write the memory of a conversation. Reading nodes call no model."""

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
"""The separator of search results, and of the results of chunks."""
RECENCY_DAYS = 180.0
"""The default half-life of the score of a match, if recency counts."""

_Count = Annotated[int, Field(ge=1, le=1_000)]
_Weight = Annotated[float, Field(ge=0, le=100)]
_Mode = Literal["keywords", "natural", "semantic", "hybrid"]


class ListSettings(NodeSettings):
    """How memories are listed."""

    custom_delimiter: str = CHUNK_BREAK
    include_dates: bool = False


class RecentSettings(ListSettings):
    """The number of last memories, or of last turns without a stored discussion. `skip`: omit the last ones.

    `limit` applies to both; `maxSummaryChunksFromFile` only to memories, `maxTurnsToPull` only to turns; both take
    precedence over `limit`.
    """

    limit: int = Field(default=3, ge=1, le=1_000)
    max_summary_chunks_from_file: _Count | None = None
    max_turns_to_pull: _Count | None = None
    skip: int = Field(default=0, ge=0, validation_alias=AliasChoices("skip", "lookbackStart"))


class SummarySettings(NodeSettings):
    """Whether the summary is updated first. `isManualConfig: false` means the same."""

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
    """The number of last memories, and the maximum number of messages without memories."""

    limit: int = Field(default=3, ge=0, le=1_000)
    max_turns_to_pull: int = Field(default=40, ge=0, le=10_000)


def listed(memories: Sequence[Memory], settings: ListSettings, missing: Missing = "memories") -> str:
    """Join the texts of memories."""
    texts = [f"{_dated(memory) if settings.include_dates else ''}{memory.item.summary}" for memory in memories]
    return text_or_placeholder(settings.custom_delimiter.join(texts), missing)


def recent(settings: RecentSettings, step: Step) -> str:
    """Return the last memories."""
    own = settings.max_summary_chunks_from_file if step.scene.is_kept else settings.max_turns_to_pull
    other = settings.max_turns_to_pull if step.scene.is_kept else settings.max_summary_chunks_from_file
    count = own or (settings.limit if "limit" in settings.model_fields_set else other or settings.limit)
    return listed(step.scene.recollection.recent_memories(count, skip=settings.skip), settings)


def everything(settings: ListSettings, step: Step) -> str:
    """Return all memories."""
    return listed(step.scene.recollection.all_memories(), settings)


def newer(settings: ListSettings, step: Step) -> str:
    """Return the memories that the summary does not cover yet."""
    return listed(step.scene.recollection.newer_memories(), settings, "newer_memories")


def conversation(settings: ConversationSettings, step: Step) -> str:
    """Return the last memories, then the messages since, verbatim."""
    recollection = step.scene.recollection
    memories = recollection.recent_memories(settings.limit) if settings.limit else []
    last = max((memory.last for memory in memories), default=-1)
    messages = recollection.last_messages(settings.max_turns_to_pull) if settings.max_turns_to_pull else []
    since = transcript_text([message for message in messages if message.position > last])
    parts = [listed(memories, settings) if memories else "", since]
    return text_or_placeholder(settings.custom_delimiter.join(part for part in parts if part), "messages")


def full_summary(settings: SummarySettings, step: Step) -> str:
    """Return the summary, updated first if requested."""
    refresh = settings.refresh or settings.is_manual_config is False
    recollection = step.scene.recollection
    return text_or_placeholder(recollection.fold_summary() if refresh else recollection.summary(), "summary")


def current_summary(_settings: NodeSettings, step: Step) -> str:
    """Return the current summary."""
    return text_or_placeholder(step.scene.recollection.summary(), "summary")


def fold_summary(_settings: NodeSettings, step: Step) -> str:
    """Merge new memories into the summary, and return it."""
    return text_or_placeholder(step.scene.recollection.fold_summary(), "summary")


def write_summary(settings: WriteSettings, step: Step) -> str:
    """Save a summary, and return the current one: a placeholder replaces nothing."""
    text = step.fill(settings.input)
    recollection = step.scene.recollection
    summary = recollection.summary() if is_placeholder(text) else recollection.write_summary(text)
    return text_or_placeholder(summary, "summary")


def state(_settings: NodeSettings, step: Step) -> str:
    """Return the current facts."""
    return text_or_placeholder(step.scene.recollection.state(), "state")


def create(_settings: NodeSettings, step: Step) -> str:
    """Make the memories that are due; does nothing without a stored discussion."""
    creator = step.scene.creator
    if creator is None:
        return ""
    report = creator.update()
    step.used(report.usage)
    if report.busy:
        return "Another process is making memories."
    failed = f", {report.failed} failed and will be retried" if report.failed else ""
    return f"{report.done + report.empty} chunks were read{failed}."


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


class KeywordSettings(NodeSettings):
    """Keywords, split on `;`."""

    keywords: Text = Field(validation_alias=AliasChoices("keywords", "input", "promptToSearch"))
    limit: int = Field(default=5, ge=1, le=200)
    include_dates: bool = False
    custom_delimiter: str = DELIMITER


class VectorSettings(NodeSettings):
    """A search and its options.

    `input`: keywords separated by `;`, or in the other modes a question, optionally reworded in `semanticQuery`.
    `bm25Weights`: of title, summary, entities, key phrases and topics. `datePrefix`: only messages of this time.
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
    """A query; the number of results, the number of messages around each, and the token budget."""

    input: Text = Field(validation_alias=AliasChoices("input", "keywords", "promptToSearch"))
    limit: int = Field(default=8, ge=1, le=100)
    around: int = Field(default=2, ge=0, le=20)
    max_tokens: int = Field(default=4_000, ge=1)


def search_memories(settings: KeywordSettings, step: Step) -> str:
    """Search memories for keywords."""
    return _by_keywords(settings, step, "memories")


def search_turns(settings: KeywordSettings, step: Step) -> str:
    """Search messages for keywords."""
    return _by_keywords(settings, step, "turns")


def vector_search(settings: VectorSettings, step: Step) -> str:
    """Search memories."""
    mode: _Mode = "keywords" if settings.search_mode == "keyword" else settings.search_mode
    question = "" if mode == "keywords" else step.fill(settings.semantic_query)
    options = DiscussionSearch(
        what="memories",
        mode=mode,
        limit=settings.limit,
        weights=FieldWeights(*settings.bm25_weights) if settings.bm25_weights else None,
        recency=settings.recency_half_life_days or (RECENCY_DAYS if settings.use_recency_scoring else None),
        date_prefix=settings.date_prefix,
        expand_entities=settings.use_entity_expansion,
    )
    hits = step.scene.recollection.search(question or step.fill(settings.input), options)
    return _listed(hits, dates=settings.include_dates, delimiter=settings.custom_delimiter)


def quality_search(settings: QualitySettings, step: Step) -> str:
    """Search memories and messages by words and by meaning, and show each result with the messages around it."""
    recollection = step.scene.recollection
    query = step.fill(settings.input)
    options = DiscussionSearch(what="both", mode="hybrid", limit=settings.limit, expand_entities=True)
    hits = recollection.search(query, options)
    memories = _listed([one for one in hits if one.kind == "memory"], dates=True, delimiter="\n")
    turns = [one for one in hits if one.kind == "turn"]
    if not hits:
        return text_or_placeholder("", "found")
    stretches = _stretches(recollection.messages(), turns, settings.around) if turns else []
    parts = [memories if len(turns) < len(hits) else "", *stretches]
    return cut_to_tokens(DELIMITER.join(part for part in parts if part), settings.max_tokens)


def _by_keywords(settings: KeywordSettings, step: Step, what: Literal["memories", "turns"]) -> str:
    options = DiscussionSearch(what=what, mode="keywords", limit=settings.limit)
    hits = step.scene.recollection.search(step.fill(settings.keywords), options)
    return _listed(hits, dates=settings.include_dates, delimiter=settings.custom_delimiter)


def _listed(hits: Sequence[DiscussionHit], *, dates: bool, delimiter: str) -> str:
    return text_or_placeholder(delimiter.join(_shown(hit, dates=dates) for hit in hits), "found")


def _shown(hit: DiscussionHit, *, dates: bool) -> str:
    day = f"[{hit.at:%Y-%m-%d}] " if dates and hit.at else ""
    speaker = f"{hit.speaker}: " if hit.kind == "turn" and hit.speaker else ""
    return f"{day}{speaker}{hit.text}"


def _stretches(messages: Sequence[StoredMessage], hits: Sequence[DiscussionHit], around: int) -> list[str]:
    """Return the messages around each hit, in order; adjacent stretches are joined."""
    positions = {position for hit in hits for position in range(hit.first - around, hit.last + around + 1)}
    stretches: list[list[StoredMessage]] = []
    for message in messages:
        if message.position not in positions or message.deleted:
            continue
        if not stretches or message.position != stretches[-1][-1].position + 1:
            stretches.append([])
        stretches[-1].append(message)
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
