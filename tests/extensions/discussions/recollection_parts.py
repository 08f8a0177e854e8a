"""A discussion whose memories a script makes: one of every message, word for word."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from treering.extensions.discussions.generators.generator import (
    DiscussionSettings,
    Generated,
    GeneratedMemory,
    GeneratedText,
)
from treering.extensions.discussions.memory import DiscussionMemory
from treering.verbs.ingest.turns import Message

SETTINGS = DiscussionSettings(max_messages=1, lookback=0, retry_seconds=0.0)
BEGAN = datetime(2024, 5, 1, 9, tzinfo=UTC)
TALK = ("Ada bought a red boat", "Ben paints it", "It lies in Turin", "Cleo sails it", "It leaks", "It is mended")


def item(text, **fields):
    """Return a memory that says what was said."""
    return GeneratedMemory(title=text[:300], summary=text, **fields)


@dataclass
class Script:
    """Answers as it is told to; by default it keeps everything. Notes what it was asked."""

    fold_with: object = None
    merge_with: object = None
    items_of: object = None
    folded: list = field(default_factory=list)
    merged: list = field(default_factory=list)
    name: str = "script"

    def memories(self, chunk, _background):
        said = chunk.lines[0].text
        return Generated(self.items_of(said) if self.items_of else (item(said),))

    def condense(self, memories):
        words = " & ".join(item.summary for item in memories)
        return Generated((GeneratedMemory(title="Condensed", summary=words),))

    def fold(self, summary, memories):
        self.folded.append([item.summary for item in memories])
        if self.fold_with:
            return GeneratedText(self.fold_with(summary, memories))
        return GeneratedText(" / ".join(filter(None, [summary, *self.folded[-1]])))

    def merge(self, facts, document):
        self.merged.append(facts)
        return GeneratedText(self.merge_with(facts, document) if self.merge_with else f"{document}\n{facts}".strip())


def opened(space, script=None, settings=SETTINGS, identity="talk"):
    """Open a discussion."""
    return DiscussionMemory(space.engine, settings=settings, generator=script or Script()).open(identity)


def said(*texts, start=0, every=timedelta(minutes=1)):
    """Return messages, one a minute, of a user and an assistant in turn."""
    return [
        Message(content=text, role="assistant" if at % 2 else "user", at=BEGAN + at * every)
        for at, text in enumerate(texts, start=start)
    ]


def talked(space, *texts, script=None, settings=SETTINGS, identity="talk"):
    """Open a discussion in which something was said, and make its memories."""
    discussion = opened(space, script, settings, identity)
    discussion.record(said(*(texts or TALK)), start=0)
    discussion.update()
    return discussion


def summaries(memories):
    """Return what memories say."""
    return [memory.item.summary for memory in memories]
