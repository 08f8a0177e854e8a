"""Nodes that look something up: in what is remembered, and in what was said. None of them asks a model."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import AliasChoices, Field

from treering.parts.discussions.identity import or_nothing
from treering.parts.discussions.log.blocks import StoredMessage
from treering.parts.discussions.recall.search import DiscussionHit, DiscussionSearch, FieldWeights
from treering.parts.workflows.definition import NOTHING, NodeSettings, Text
from treering.parts.workflows.memory_nodes import DELIMITER
from treering.parts.workflows.registry import NodeType, Step
from treering.parts.workflows.variables import said
from treering.retrieval.text.analysis import cut_to_tokens

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
        return or_nothing("", "found")
    stretches = _stretches(recollection.messages(), turns, told.around) if turns else []
    parts = [memories if len(turns) < len(found) else "", *stretches]
    return cut_to_tokens(DELIMITER.join(part for part in parts if part), told.max_tokens)


def _by_keywords(told: KeywordSettings, step: Step, what: Literal["memories", "turns"]) -> str:
    options = DiscussionSearch(what=what, mode="keywords", limit=told.limit)
    found = step.scene.recollection.search(step.fill(told.keywords), options)
    return _listed(found, dates=told.include_dates, delimiter=told.custom_delimiter)


def _listed(found: Sequence[DiscussionHit], *, dates: bool, delimiter: str) -> str:
    return or_nothing(delimiter.join(_shown(one, dates=dates) for one in found), "found")


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
    return [said(stretch) for stretch in stretches]


SEARCH_NODES = (
    NodeType("VectorMemorySearch", "memories that match", VectorSettings, vector_search, remembers=True),
    NodeType(
        "MemoryKeywordSearchPerformerTool", "memories with keywords", KeywordSettings, search_memories, remembers=True
    ),
    NodeType(
        "ConversationalKeywordSearchPerformerTool",
        "messages with keywords",
        KeywordSettings,
        search_turns,
        remembers=True,
    ),
    NodeType(
        "SlowButQualityRAG",
        "what matches in memories and messages, with the messages around",
        QualitySettings,
        quality_search,
        remembers=True,
    ),
)
