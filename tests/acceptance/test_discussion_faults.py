"""Faults that memories of discussions are known to have, where only the whole shows that this one has not.

The others are tests of the parts, in tests/extensions/discussions.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from threading import Barrier, Thread

import pytest

from space_parts import open_space
from treering.extensions.discussions.generators.generator import (
    Background,
    Chunk,
    DiscussionSettings,
    Generated,
    GeneratedMemory,
    GeneratedText,
)
from treering.extensions.discussions.memory import DiscussionMemory
from treering.verbs.ingest.turns import Message

SETTINGS = DiscussionSettings(max_messages=2, lookback=0)
TALK = (
    "Ada bought a red boat.",
    "Where will it lie?",
    "In the harbour of Turin.",
    "Who paints it?",
    "Ben paints it in June.",
    "Then we sail in July.",
)


@dataclass
class Script:
    """Makes one memory of a chunk, its first message; notes every call."""

    chunks: list[str] = field(default_factory=list)
    folded: list[tuple[str, ...]] = field(default_factory=list)
    name: str = "script"

    def memories(self, chunk: Chunk, _background: Background) -> Generated:
        self.chunks.append(chunk.lines[0].text)
        return Generated((GeneratedMemory(title=chunk.lines[0].text, summary=chunk.text),))

    def condense(self, memories: Sequence[GeneratedMemory]) -> Generated:
        title = " + ".join(item.title for item in memories)
        return Generated((GeneratedMemory(title=title, summary=title),))

    def fold(self, summary: str, memories: Sequence[GeneratedMemory]) -> GeneratedText:
        self.folded.append(tuple(item.title for item in memories))
        return GeneratedText(" / ".join(filter(None, [summary, *self.folded[-1]])))

    def merge(self, facts: str, document: str) -> GeneratedText:
        return GeneratedText(f"{document}\n{facts}".strip())


@pytest.fixture
def open_discussion(space):
    def open_one(script, settings=SETTINGS):
        return DiscussionMemory(space.engine, settings=settings, generator=script).open("talk")

    return open_one


def said(*contents):
    return [Message(content=text, role="user" if at % 2 == 0 else "assistant") for at, text in enumerate(contents)]


def titles(discussion):
    return [memory.item.title for memory in discussion.all_memories()]


def test_two_who_update_at_once_make_every_memory_once(tmp_path):
    barrier, script = Barrier(2), Script()
    with open_space(f"sqlite:{tmp_path / 's.db'}") as one, open_space(f"sqlite:{tmp_path / 's.db'}") as other:
        both = [DiscussionMemory(it.engine, settings=SETTINGS, generator=script).open("talk") for it in (one, other)]
        both[0].record(said(*TALK), start=0)

        def work(discussion):
            barrier.wait()
            discussion.update(wait_seconds=20)

        threads = [Thread(target=work, args=(discussion,)) for discussion in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert script.chunks == [TALK[0], TALK[2], TALK[4]]
        assert titles(both[1]) == [TALK[0], TALK[2], TALK[4]]


def test_an_edit_withdraws_the_memories_of_what_was_said_and_makes_those_of_what_is_said_now(open_discussion):
    script = Script()
    discussion = open_discussion(script)
    discussion.record(said(*TALK), start=0)
    discussion.update()
    edited = said(*TALK[:4], "Cleo paints it in May.", TALK[5])
    report = discussion.record(edited)
    assert report.diverged_at == 4
    assert titles(discussion) == [TALK[0], TALK[2]]
    discussion.update()
    assert titles(discussion) == [TALK[0], TALK[2], "Cleo paints it in May."]
    assert script.chunks[3:] == ["Cleo paints it in May."]


def test_a_rewind_keeps_the_memories_of_what_stays_and_makes_none_of_them_again(open_discussion):
    script = Script()
    discussion = open_discussion(script)
    discussion.record(said(*TALK), start=0)
    discussion.update()
    discussion.record(said(*TALK[:4]))
    assert len(titles(discussion)) == 3, "a shorter telling takes nothing back by itself"
    discussion.record(said(*TALK[:4]), start=0)
    discussion.update()
    assert titles(discussion) == [TALK[0], TALK[2]]
    assert len(script.chunks) == 3


def test_repeated_short_messages_are_distinguished_by_their_place(open_discussion):
    script = Script()
    discussion = open_discussion(script)
    talk = said("ok", "ok", "ok", "ok", TALK[0], "ok", "ok", "ok")
    for end in range(1, len(talk) + 1):
        discussion.record(talk[:end])
    assert [message.text for message in discussion.messages()] == [message.content for message in talk]
    discussion.update()
    assert script.chunks == ["ok", "ok", TALK[0], "ok"]
    assert discussion.record(talk).unchanged == len(talk)


def test_condensing_old_memories_leaves_the_summary_where_it_was(open_discussion):
    settings = DiscussionSettings(max_messages=1, lookback=0, condense_every=3, condense_after=1, min_per_summary=1)
    script = Script()
    discussion = open_discussion(script, settings)
    for text in (*TALK, "And in autumn?", "We paint again."):
        discussion.append(said(text))
        discussion.update()
    told = [title for titles in script.folded for title in titles]
    assert told == [*TALK, "And in autumn?", "We paint again."], "every memory is folded in once"
    assert titles(discussion)[0] == " + ".join(TALK[:3])
