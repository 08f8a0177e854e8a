"""Memories are found in whatever a model writes; what cannot be used is named, and nothing is dropped in silence."""

import json
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.extensions.discussions.generators.generator import GeneratedMemory
from treering.extensions.discussions.generators.parsing import (
    ParsedMemories,
    PlainAnswer,
    UnreadableAnswer,
    parse_items,
    plain_text,
)

ITEM = '{"title": "The move", "summary": "Ada moves to Rome in May.", "entities": ["Ada", "Rome"]}'
OTHER = ITEM.replace("move", "journey")
MOVE = GeneratedMemory(title="The move", summary="Ada moves to Rome in May.", entities=("Ada", "Rome"))


def titles(answer):
    found = parse_items(answer)
    assert isinstance(found, ParsedMemories), found
    return [item.title for item in found.items]


@pytest.mark.parametrize(
    "answer",
    [
        f"[{ITEM}]",
        ITEM,
        f"```json\n[{ITEM}]\n```",
        f"Sure! Here are the memories:\n\n[{ITEM}]\n\nAnything else?",
        f"<think>{{}}</think>[{ITEM}]",
        f"<think>first [] or {{}}, no: [{OTHER}]</think>\n[{ITEM}]",
        f"<Thinking>hm</Thinking>{ITEM}",
        f"it was said that she moves</think>[{ITEM}]",
        f"<think>she moves, so [{ITEM}]",
        f'{{"memories": [{ITEM}]}}',
        f'{{"whatever": {{"it": [{ITEM}]}}, "count": 1}}',
        f'{{"memory": {ITEM}}}',
        f"[[{ITEM}]]",
        f"[{ITEM},]",
        f"[{ITEM}, {ITEM}]",
        ITEM.replace("{", '{"confidence": 0.9, "notes": {"a": 1}, '),
    ],
)
def test_one_memory_is_found_in_every_shape_that_models_give_it(answer):
    assert parse_items(answer) == ParsedMemories((MOVE,))


@pytest.mark.parametrize("answer", [f"{ITEM}\n{OTHER}", f"[{ITEM}]\n\n[{OTHER}]", f'{{"a": [{ITEM}], "b": [{OTHER}]}}'])
def test_several_values_are_all_read_in_order(answer):
    assert titles(answer) == ["The move", "The journey"]


@pytest.mark.parametrize(
    "answer",
    [
        "[]",
        " [ ]\n",
        "{}",
        '{"memories": []}',
        "```json\n[]\n```",
        "nothing",
        "None.",
        "No new memories.",
        "null",
        "No memories have been generated yet",
        "There are no memories newer than the summary.",
    ],
)
def test_nothing_to_remember_is_an_answer(answer):
    assert parse_items(answer) == ParsedMemories()


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "I cannot help with that.",
        "<think>[] or not</think>",
        "{{{{",
        "[" * 3_000,
        "I'm sorry, but I can't do that.",
        '["a word", 7]',
    ],
)
def test_an_answer_without_json_or_words_and_a_refusal_are_no_answer(answer):
    assert isinstance(parse_items(answer), UnreadableAnswer)


@pytest.mark.parametrize(
    "answer",
    [
        "Ada moves to Rome in May [1].",
        "<think>hm</think>Ada moves to Rome in May [Monday].",
        "```\nAda moves to Rome in May.\n```",
        "# Rome\n\nAda moves to Rome in May {from Turin}.",
    ],
)
def test_plain_text_makes_one_memory(answer):
    found = parse_items(answer)
    assert isinstance(found, PlainAnswer)
    (item,) = found.items
    assert item.summary == plain_text(answer)
    assert item.title in {"Rome", item.summary}
    assert "Rome" in item.entities


def test_plain_text_in_blocks_makes_a_memory_of_each():
    found = parse_items("Ada moves to Rome.--ChunkBreak--Ben stays.\n--ChunkBreak--\n")
    assert [item.summary for item in found.items] == ["Ada moves to Rome.", "Ben stays."]


def test_a_long_text_makes_one_memory_with_a_short_title():
    (item,) = parse_items("Ada moves to Rome. " * 1_000).items
    assert len(item.title) <= 80
    assert len(item.summary) == 6_000


def test_words_in_another_script_are_plain_text():
    (item,) = parse_items("我们下周去北京大学。").items
    assert item.summary == "我们下周去北京大学。"


def test_an_item_that_does_not_fit_is_rejected_and_the_others_are_kept():
    found = parse_items(f'[{ITEM}, {{"title": "No summary"}}, "a word", 7, {{"title": "", "summary": "Untitled"}}]')
    assert found.items == (MOVE,)
    assert [reason.split(":")[0] for reason in found.rejected] == ["item 2", "item 3", "item 4", "item 5"]
    assert "summary" in found.rejected[0]


def test_an_answer_whose_items_all_do_not_fit_is_no_answer():
    found = parse_items('[{"title": "No summary"}]')
    assert isinstance(found, UnreadableAnswer)
    assert "summary" in found.why


def test_of_an_answer_that_was_cut_off_the_whole_items_are_kept_and_the_loss_is_named():
    found = parse_items(f'[{ITEM}, {{"title": "Cut", "entities": [], "summary": "Ada w')
    assert found.items == (MOVE,)
    assert found.rejected == ("an item that is truncated or not valid JSON",)


def test_an_empty_list_inside_an_item_that_was_cut_off_does_not_say_that_there_is_nothing():
    assert isinstance(parse_items('[{"title": "Cut", "entities": [], "summary": "Ada w'), UnreadableAnswer)


@pytest.mark.parametrize(
    ("given", "read"),
    [
        ("Ada; Rome", ("Ada", "Rome")),
        ("Ada, Rome,", ("Ada", "Rome")),
        ("Smith, Ada; Rome", ("Smith, Ada", "Rome")),
        (["Ada", " Ada ", "", None, 3, {"name": "x"}], ("Ada", "3")),
        (None, ()),
    ],
)
def test_words_come_as_lists_or_as_one_text(given, read):
    (item,) = parse_items(json.dumps({"title": "T", "summary": "S", "key_phrases": given})).items
    assert item.key_phrases == read


def test_sizes_are_bounded():
    many = {"title": "t" * 900, "summary": "s" * 90_000, "entities": [f"{n}" for n in range(900)]}
    found = parse_items(json.dumps([{**many, "topics": f"{n}"} for n in range(90)]))
    assert len(found.items) == 50
    assert "were ignored" in found.rejected[-1]
    item = found.items[0]
    assert (len(item.title), len(item.summary), len(item.entities)) == (200, 6_000, 40)


def test_unstorable_values_are_omitted():
    (item,) = parse_items('{"title": "A\\ud800B", "summary": "x\\u0000y \\n z"}').items
    assert (item.title, item.summary) == ("AB", "xy z")


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ("# Now\n- it rains", "# Now\n- it rains"),
        ("<think>hm</think>\n\n# Now", "# Now"),
        ("```markdown\n# Now\n```", "# Now"),
        ("# Now\n```\ncode\n```", "# Now\n```\ncode\n```"),
        ("<think>I should", ""),
        ("  \n", ""),
    ],
)
def test_a_text_is_read_without_thoughts_and_without_a_fence_around_it(answer, text):
    assert plain_text(answer) == text


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from(["<think>", "</think>", "[", "]", "{", "}", '"title":', '"x"', ",", "```", "no", ITEM]))
)
def test_no_answer_breaks_the_reading(parts):
    assert isinstance(parse_items("".join(parts)), ParsedMemories | PlainAnswer | UnreadableAnswer)


def test_answers_of_nothing_but_openings_are_no_work_without_end():
    # In the square of the length this would take hours; the time limit only ends that.
    script = r"""
from treering.extensions.discussions.generators.parsing import parse_items, plain_text
for text in ("<think>", "<think></thought>", "</think>", "```\n", "{", "[", "<think>```"):
    parse_items(text * 100_000)
    plain_text(text * 100_000)
plain_text("```" + "\n" * 500_000 + "x")
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_a_thought_ends_by_its_own_name():
    assert plain_text("<think>a</thinking>b</think>c<THOUGHT>d</thought>e") == "ce"
