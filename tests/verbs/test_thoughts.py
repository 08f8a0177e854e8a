"""What a model thinks before it answers is not said."""

import pytest

from treering.extensions.discussions.log.transcript import transcript_of
from treering.verbs.ingest.turns import Message, spoken_words


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("<think>It is in the attic.</think>In the lab.", "In the lab."),
        ("\n<THINKING>\nHm.\n</THINKING>\n\nIn the lab.", "In the lab."),
        ("<reasoning>One</reasoning><think>Two</think> In the lab.", "In the lab."),
        ("<think>It is in the attic, and it never", ""),
        ("It is in the attic.\n</think>\n\nIn the lab.", "In the lab."),
        (
            '<details type="reasoning" done="true">\n<summary>Thought</summary>\n> Hm.\n</details>\nIn the lab.',
            "In the lab.",
        ),
        ("Write `<think>` first.", "Write `<think>` first."),
        ("```xml\n<think>Hm.</think>\n```", "```xml\n<think>Hm.</think>\n```"),
        ("A thought ends with </think> there.", "A thought ends with </think> there."),
        ("<b>Bold</b>", "<b>Bold</b>"),
    ],
)
def test_thoughts_before_an_answer_are_not_said(text, said):
    assert spoken_words("assistant", text) == said


def test_words_of_people_are_left_alone():
    assert spoken_words("user", "<think>Do you?</think>") == "<think>Do you?</think>"


def test_message_with_only_a_thought_is_omitted():
    (kept,) = transcript_of([Message(role="assistant", content="<think>Hm"), Message(role="user", content="Well?")])
    assert kept.message.content == "Well?"


def test_ingested_answers_have_no_thoughts(open_space):
    messages = [
        {"role": "user", "content": "Where is the capsule?"},
        {"role": "assistant", "content": "<think>The attic is secret.</think>In the lab."},
    ]
    with open_space() as space:
        given = {"kind": "conversation", "origin": "chat:1", "messages": messages}
        space.ingest("source", input=given)
        state = space.engine.ledger.sources(scope="/", root="chat:1")["chat:1"]
        assert [one.excerpt for one in space.engine.ledger.get(state.id).segments][1] == "In the lab."


def test_many_openings_take_no_time():
    assert spoken_words("assistant", "<think>" * 50_000) == ""
    assert spoken_words("assistant", "<think></think>" * 20_000) == ""
    assert spoken_words("assistant", "\n" * 200_000 + "<b>").endswith("<b>")
