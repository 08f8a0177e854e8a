"""A conversation in few tokens: recent messages as they were said, older ones as memories, the oldest as a summary."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from pydantic import AliasChoices, Field

from treering.derived.tokens import cut_to_tokens, estimate_tokens
from treering.memories.discussion.log.blocks import StoredMessage
from treering.memories.discussion.nothing import or_nothing
from treering.memories.discussion.summaries.memories import Memory
from treering.memories.workflow.definition import NodeSettings
from treering.memories.workflow.registry import NodeType, Step
from treering.memories.workflow.variables import said

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
            "Recent, as it was said": self.recent,
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
        return or_nothing(str(Windows("", "", said(recent))), "messages")
    begins = recent[0].position if recent else messages[-1].position + 1
    memories = [memory for memory in recollection.all_memories() if memory.first < begins]
    return str(
        Windows(
            oldest=cut_to_tokens(recollection.summary(), told.oldest_context_tokens),
            old=_old(older, memories, told.old_context_tokens),
            recent=said(recent),
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
        "the conversation in few tokens: recent as it was said, older as memories, oldest as a summary",
        CompactorSettings,
        compact,
        remembers=True,
    ),
)
