from dataclasses import replace

import pytest
from recollection_parts import BEGAN, SETTINGS, TALK, Script, item, opened, said, summaries, talked

from space_parts import records
from treering.extensions.discussions.summaries.versions import Memories

ODD = ("a\n\n---\n\nb", "--ChunkBreak--", "[Beg_User] |{| x", "- one\n- two", '"quoted";\'', "naïve\u2028line\tend")


def test_the_last_memories_are_given_oldest_first(space):
    discussion = talked(space)
    assert summaries(discussion.recent_memories(2)) == list(TALK[-2:])
    assert summaries(discussion.recent_memories(2, skip=1)) == list(TALK[-3:-1])
    assert summaries(discussion.recent_memories(99, skip=4)) == list(TALK[:2])
    assert discussion.recent_memories(2, skip=99) == discussion.recent_memories(0) == []
    assert summaries(discussion.all_memories()) == list(TALK)


def test_a_memory_knows_its_messages_and_when_they_were_said(space):
    discussion = talked(space, settings=replace(SETTINGS, max_messages=2))
    assert [(memory.first, memory.last) for memory in discussion.all_memories()] == [(0, 1), (2, 3), (4, 5)]
    assert discussion.all_memories()[0].at == BEGAN
    assert discussion.all_memories()[1].at == said(*TALK)[2].at


def test_delimiters_inside_a_text_shift_nothing(space):
    discussion = talked(space, *ODD)
    assert summaries(discussion.all_memories()) == list(ODD)
    assert [memory.first for memory in discussion.all_memories()] == list(range(len(ODD)))
    assert [message.text for message in discussion.messages()] == list(ODD)


def test_all_fields_of_a_memory_come_back_as_they_were_made(space):
    made = item("Ada moved", entities=("Ada; Lovelace", "Turin"), key_phrases=("new, home",), topics=("a\nb",))
    made = made.model_copy(update={"sentiment": "glad"})
    discussion = talked(space, "x", script=Script(items_of=lambda _text: (made,)))
    (memory,) = discussion.all_memories()
    assert memory.item == made


def test_several_memories_of_one_chunk_keep_their_order_and_an_empty_chunk_has_none(space):
    script = Script(items_of=lambda text: tuple(item(f"{text} {n}") for n in range(3)) if text != "ok" else ())
    discussion = talked(space, "a", "ok", "b", script=script)
    assert summaries(discussion.all_memories()) == ["a 0", "a 1", "a 2", "b 0", "b 1", "b 2"]


def test_condensation_replaces_parents_except_after_a_position(space):
    settings = replace(SETTINGS, condense_every=2, condense_after=1)
    discussion = talked(space, settings=settings)
    shown = discussion.all_memories()
    assert [memory.condensed for memory in shown] == [True, True, False, False]
    assert shown[0].item.summary == " & ".join(TALK[:2])
    assert (shown[0].first, shown[0].last, shown[0].at) == (0, 1, BEGAN)
    memories = Memories(space.engine, discussion.ref)
    assert summaries(memories.after(-1)) == list(TALK)
    assert summaries(memories.after(2)) == list(TALK[3:])


@pytest.mark.sampled(2)
@pytest.mark.parametrize("count", [39, 40, 41, 81])
def test_memories_are_read_over_the_bounds_of_blocks(space, count):
    texts = [f"Message number {at}" for at in range(count)]
    discussion = talked(space, *texts, settings=replace(SETTINGS, summary=False, state=False))
    assert summaries(discussion.all_memories()) == texts
    assert summaries(discussion.recent_memories(5)) == texts[-5:]
    assert summaries(Memories(space.engine, discussion.ref).after(37)) == texts[38:]


def test_only_memories_that_hold_now_are_shown(space):
    discussion = talked(space)
    discussion.delete([1])
    assert summaries(discussion.all_memories()) == [TALK[0], *TALK[2:]]


def test_reading_an_empty_discussion_writes_nothing(space):
    before = records(space)
    discussion = opened(space)
    assert discussion.recent_memories(3) == discussion.all_memories() == discussion.newer_memories() == []
    assert (discussion.summary(), discussion.state(), discussion.messages(), discussion.last_messages(2)) == (
        "",
        "",
        [],
        [],
    )
    assert (discussion.summary_versions(), discussion.state_versions(), discussion.fold_summary()) == ([], [], "")
    assert records(space) == before
