"""Faults that memories of discussions are known to have, and this one must not: each a sentence about what it does."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from threading import Barrier, Thread

import pytest

from space_parts import open_space
from treering.core.errors import Unavailable
from treering.memories.discussion.generating import Background, Chunk, Generated, MemoryItem, Written
from treering.memories.discussion.memory import DiscussionMemory
from treering.memories.discussion.parsing import Parsed, parse_items
from treering.memories.discussion.search import SearchOptions
from treering.memories.discussion.settings import DiscussionSettings
from treering.tools.turns import Message

SETTINGS = DiscussionSettings(max_messages=2, lookback=0, retry_seconds=0.0)
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
    """Makes one memory of a chunk, its first message; notes every call. `answer` may answer a chunk differently."""

    answer: Callable[[Chunk], Generated | None] = lambda _chunk: None
    fold_answer: Callable[[str, Sequence[MemoryItem]], str] | None = None
    chunks: list[str] = field(default_factory=list)
    folded: list[tuple[str, ...]] = field(default_factory=list)
    name: str = "script"

    def memories(self, chunk: Chunk, _background: Background) -> Generated:
        self.chunks.append(chunk.lines[0].text)
        words = chunk.lines[0].text
        return self.answer(chunk) or Generated((MemoryItem(title=words, summary=chunk.text),))

    def condense(self, memories: Sequence[MemoryItem]) -> Generated:
        title = " + ".join(item.title for item in memories)
        return Generated((MemoryItem(title=title, summary=title),))

    def fold(self, summary: str, memories: Sequence[MemoryItem]) -> Written:
        self.folded.append(tuple(item.title for item in memories))
        text = " / ".join(filter(None, [summary, *self.folded[-1]]))
        return Written(self.fold_answer(summary, memories) if self.fold_answer else text)

    def merge(self, facts: str, document: str) -> Written:
        return Written(f"{document}\n{facts}".strip())


@pytest.fixture
def open_discussion(space):
    def open_one(script, settings=SETTINGS, engine=None):
        return DiscussionMemory(engine or space.engine, settings=settings, generator=script).open("talk")

    return open_one


def said(*contents):
    return [Message(content=text, role="user" if at % 2 == 0 else "assistant") for at, text in enumerate(contents)]


def titles(discussion):
    return [memory.item.title for memory in discussion.all_memories()]


def records(space):
    return list(space.engine.ledger.records())


def failing_once(text):
    left = [text]

    def answer(chunk):
        if left and chunk.lines[0].text == text:
            left.clear()
            raise Unavailable("The model is away.", hint="Try again.")

    return answer


def test_a_middle_chunk_that_failed_is_made_up_for_in_its_place(open_discussion):
    discussion = open_discussion(Script(failing_once(TALK[2])))
    discussion.record(said(*TALK), start=0)
    first = discussion.update()
    assert (first.done, first.failed) == (2, 1)
    assert titles(discussion) == [TALK[0], TALK[4]]
    discussion.update()
    assert titles(discussion) == [TALK[0], TALK[2], TALK[4]]


def test_an_empty_extraction_is_a_success_and_is_not_paid_for_again(open_discussion):
    script = Script(lambda _chunk: Generated(()))
    discussion = open_discussion(script)
    discussion.record(said(*TALK[:4]), start=0)
    assert discussion.update().empty == 2
    for text in TALK[4:]:
        discussion.append(said(text))
        discussion.update()
    assert script.chunks == [TALK[0], TALK[2], TALK[4]]


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


def test_what_was_made_before_a_crash_stays_and_is_not_made_again(open_discussion):
    def answer(chunk):
        if chunk.lines[0].text == TALK[4] and len(script.chunks) == 3:
            raise KeyboardInterrupt

    script = Script(answer)
    discussion = open_discussion(script)
    discussion.record(said(*TALK), start=0)
    with pytest.raises(KeyboardInterrupt):
        discussion.update()
    assert titles(discussion) == [TALK[0], TALK[2]]
    discussion.update()
    assert titles(discussion) == [TALK[0], TALK[2], TALK[4]]
    assert script.chunks == [TALK[0], TALK[2], TALK[4], TALK[4]]


@pytest.mark.parametrize(("lookback", "made"), [(0, 3), (1, 2), (2, 2), (6, 0)])
def test_the_last_messages_are_left_out_and_none_of_them_where_the_lookback_is_0(open_discussion, lookback, made):
    discussion = open_discussion(Script(), DiscussionSettings(max_messages=2, lookback=lookback))
    discussion.record(said(*TALK), start=0)
    assert discussion.update().done == made


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
    discussion.update()
    assert titles(discussion) == [TALK[0], TALK[2]]
    assert len(script.chunks) == 3


def test_repeated_short_messages_are_told_apart_by_their_place(open_discussion):
    script = Script()
    discussion = open_discussion(script)
    talk = said("ok", "ok", "ok", "ok", TALK[0], "ok", "ok", "ok")
    for end in range(1, len(talk) + 1):
        discussion.record(talk[:end])
    assert [message.text for message in discussion.messages()] == [message.content for message in talk]
    discussion.update()
    assert script.chunks == ["ok", "ok", TALK[0], "ok"]
    assert discussion.record(talk).unchanged == len(talk)


def test_delimiters_inside_a_text_are_only_text(open_discussion):
    delimiters = (
        "--ChunkBreak--",
        "\n\n---\n\n",
        "[Beg_User]",
        "|{|",
        "user: assistant:",
        "\n- title: x\n",
        "```json\n[]",
    )
    discussion = open_discussion(Script())
    talk = said(*(f"Say {mark} and {mark} number {at}" for at, mark in enumerate([*delimiters, "end"])))
    discussion.record(talk, start=0)
    discussion.update()
    assert [message.text for message in discussion.messages()] == [message.content for message in talk]
    assert [(memory.first, memory.last) for memory in discussion.all_memories()] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert discussion.record(talk).unchanged == len(talk)


@pytest.mark.parametrize("empty", ["", "  \n"])
def test_an_empty_answer_never_replaces_the_summary(open_discussion, empty):
    script = Script()
    discussion = open_discussion(script)
    discussion.record(said(*TALK), start=0)
    discussion.update()
    before = discussion.summary()
    assert before == " / ".join([TALK[0], TALK[2], TALK[4]])
    script.fold_answer = lambda _summary, _memories: empty
    discussion.append(said(*TALK))
    discussion.update()
    assert discussion.summary() == before
    script.fold_answer = None
    discussion.fold_summary()
    assert discussion.summary() == " / ".join([before, TALK[0], TALK[2], TALK[4]]), "nothing is skipped for it"


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


@pytest.mark.parametrize(
    ("question", "expected"),
    [
        ("Who is going to be painting the boat, and when?", TALK[4]),
        ("What colour is it that Ada's boat has?", TALK[0]),
        ("東京タワーはどこですか", "東京タワーに登りました。"),
    ],
)
@pytest.mark.parametrize("what", ["turns", "memories"])
def test_a_question_in_plain_words_finds_what_answers_it(open_discussion, question, expected, what):
    discussion = open_discussion(Script())
    discussion.record(said(*TALK, "東京タワーに登りました。", "Nice."), start=0)
    discussion.update()
    found = discussion.search(question, SearchOptions(what=what, mode="natural", limit=3))
    assert any(expected in hit.text for hit in found)


@pytest.mark.parametrize(
    "answer",
    [
        "<think>{}</think>[{item}]",
        "<think>A list: []\n</think>\nHere it is:\n```json\n[{item}]\n```\nThat is all {ok}.",
        '{"memories": [{item}]}',
        "{item}",
    ],
)
def test_thoughts_fences_and_preambles_do_not_hide_an_answer(answer):
    item = {"title": "Boat", "summary": "Ada bought a boat.", "entities": ["Ada"], "key_phrases": ["red boat"]}
    parsed = parse_items(answer.replace("{item}", json.dumps(item)))
    assert isinstance(parsed, Parsed)
    assert [one.title for one in parsed.items] == ["Boat"]


def test_reading_makes_nothing(space, open_discussion, tmp_path):
    before = records(space)
    discussion = open_discussion(Script())
    discussion.summary()
    discussion.state()
    discussion.messages()
    discussion.all_memories()
    discussion.newer_memories()
    discussion.recent_memories(3)
    discussion.search("boat", SearchOptions())
    assert records(space) == before
    assert list(tmp_path.iterdir()) == []
