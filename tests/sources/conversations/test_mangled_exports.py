"""Whatever a file holds, each part of it has a result, and nothing is raised."""

import io
import json
import subprocess
import sys
from typing import Any

import pytest
from export_parts import ONE, chatgpt, claude_line, lines, packed, slack
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.extensions.conversations.conversation import Conversations
from treering.extensions.conversations.exports import ConversationFormat, read_conversations
from treering.ports.adapter import ReadLimits
from treering.ports.format import FileToRead

NAMES = ("c.json", "c.jsonl", "c.zip", "c.vtt", "c.srt", "meeting.txt", "c.md", "c")
MEMBERS = (
    "mapping message parent children current_node author role content parts content_type metadata title id uuid "
    "chat_messages sender text type messages conversations loglines sessionId timestamp create_time attachments "
    "weight recipient name tool_calls function arguments input isSidechain summary payload"
).split()
VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["user", "assistant", "human", "text", "tool_use", "a", "\ud800", "1e400", "9" * 17, "NaN"]),
)
DOCUMENTS = st.recursive(
    VALUES,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from([*MEMBERS, "a", "b"]), inner, max_size=6)
    ),
    max_leaves=25,
)
CODEX_META = {"type": "session_meta", "payload": {"id": ONE, "cwd": "/p"}}
CODEX_SAYS = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]}
SAMPLES = (
    (json.dumps([chatgpt(("user", "Hi"), ("assistant", "Hello"))]).encode(), "c.json"),
    (json.dumps([{"uuid": ONE, "chat_messages": [{"sender": "human", "text": "Hi"}]}]).encode(), "c.json"),
    (lines(claude_line("user", "Hi"), claude_line("assistant", [{"type": "text", "text": "x"}])).encode(), "c.jsonl"),
    (lines({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "x"}).encode(), "c.jsonl"),
    (lines(CODEX_META, {"type": "response_item", "payload": CODEX_SAYS}).encode(), "c.jsonl"),
    (lines({"role": "user", "message": {"content": [{"type": "text", "text": "Hi"}]}}).encode(), "c.jsonl"),
    (slack({"tea/2026-01-15": [{"type": "message", "user": "U00000ADA", "text": "Hi", "ts": "1.2"}]}), "c.zip"),
    (packed({"conversations.json": [chatgpt(("user", "Hi"))]}), "c.zip"),
    (b"WEBVTT\n\n00:01.000 --> 00:02.000\n<v Ada>One\n\n05:00.000 --> 05:01.000\nBob: Two", "c.vtt"),
    (b"1\n00:00:01,000 --> 00:00:03,000\nAda: Good", "c.srt"),
    (b"[10:03] Ada: Tea?\n[2024-05-01 10:04] Bob: Yes.\nmore", "meeting.txt"),
)


def read(data: bytes, name: str) -> Conversations:
    found = read_conversations(data, name)
    assert found.conversations or found.problems or name.endswith(".jsonl")
    for one in found.conversations:
        assert all("\ud800" not in message.content for message in one.messages)
    return found


@given(DOCUMENTS)
@settings(max_examples=150, deadline=None)
def test_any_json_document_can_be_read(document: object) -> None:
    read(json.dumps(document).encode(), "c.json")
    read(json.dumps([document, chatgpt(("user", "Hi"))]).encode(), "c.json")
    read(packed({"conversations.json": document, "channels.json": document, "t/2026-01-15.json": document}), "c.zip")


@given(DOCUMENTS, st.sampled_from(MEMBERS))
@settings(max_examples=150, deadline=None)
def test_any_value_in_any_place_of_a_conversation_can_be_read(value: object, place: str) -> None:
    for known in (
        chatgpt(("user", "Hi")),
        claude_line("user", "Hi"),
        {"uuid": ONE, "chat_messages": [{"sender": "human"}]},
    ):
        changed = json.loads(json.dumps(known), object_hook=lambda found: _with(found, place, value))
        read(json.dumps([changed]).encode(), "c.json")
        read(lines(known, changed).encode(), "c.jsonl")


@given(
    DOCUMENTS, st.sampled_from("user text ts subtype attachments files file comment bot_profile username type".split())
)
@settings(max_examples=50, deadline=None)
def test_any_value_in_a_slack_message_can_be_read(value: object, place: str) -> None:
    post = {"type": "message", "user": "U00000ADA", "text": "Hi <@U00000BOB>", "ts": "1.2", place: value}
    read(slack({"tea/2026-01-15": [post]}), "c.zip")
    read(slack({"tea/2026-01-15": []}, **{"users.json": [value, {"id": value, "profile": value}]}), "c.zip")


@given(st.sampled_from(SAMPLES), st.data())
@settings(max_examples=250, deadline=None)
def test_a_damaged_file_can_be_read(sample: tuple[bytes, str], data: st.DataObject) -> None:
    content, name = bytearray(sample[0]), sample[1]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(content) - 1))
        content[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    for damaged in (bytes(content), bytes(content[: data.draw(st.integers(0, len(content)))])):
        readings = ConversationFormat().read(io.BytesIO(damaged), FileToRead(name, ReadLimits()), origin="file:/c")
        assert all(reading.origin for reading in readings or ())


@pytest.mark.parametrize("odd", [[], {}, [["user"]], {"a": 1}])
def test_a_list_or_an_object_where_a_word_belongs_costs_its_line_alone(odd: object) -> None:
    said = {"message": {"content": [{"type": "text", "text": "Hi"}]}}
    read_conversations(lines({"role": odd, **said}, {"role": "user", **said}).encode(), "c.jsonl")
    calls = [{"type": "response_item", "payload": {**CODEX_SAYS, "type": one}} for one in (odd, "message")]
    (found,) = read_conversations(lines(CODEX_META, *calls).encode(), "c.jsonl").conversations
    assert [message.content for message in found.messages] == ["Hi"]


@given(st.binary(max_size=200), st.sampled_from(NAMES))
@settings(max_examples=100, deadline=None)
def test_any_bytes_can_be_read(data: bytes, name: str) -> None:
    read_conversations(data, name)


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '[{"a":' * 50_000, '{"messages":' + "[" * 100_000, '[{"role": "user"' + '"' * 99]
)
def test_depth_is_no_way_to_break_it(text: str) -> None:
    assert read_conversations(text.encode(), "c.json").conversations == ()


def _with(found: dict[str, Any], place: str, value: object) -> dict[str, Any]:
    return {**found, place: value} if place in found else found


def test_lines_made_of_one_thing_are_no_work_without_end() -> None:
    # In the square of the length this would take hours; the time limit only ends that.
    script = r"""
from treering.extensions.conversations.exports import read_conversations
cue = "WEBVTT\n\n00:00:01.000 --> 00:00:03.000\n"
talk = "[00:00] Ann: Hello there.\n[00:01] Bob: Hello to you.\n"
for text in ("[00:02]" + " " * 200_000 + ":", "<v.a" * 100_000, "<v" + " " * 100_000, "<command-name>\n" * 50_000):
    read_conversations((cue + text).encode(), "meeting.vtt")
    read_conversations((talk + text).encode(), "meeting.txt")
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
