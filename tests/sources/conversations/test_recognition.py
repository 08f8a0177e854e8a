import json

import pytest
from export_parts import read

from treering.extensions.conversations.exports import may_be_read


@pytest.mark.parametrize(
    "content",
    [
        {"name": "acme-web", "version": "1.0.0", "author": "Ada", "scripts": {"test": "jest"}},
        {"messages": {"hello": "Hallo"}},
        {"messages": []},
        {"messages": [{"id": "hello", "text": "Hallo"}]},
        [],
        [1, 2, 3],
        ["user", "assistant"],
        [{"name": "Ada", "role": "user"}, {"name": "Bob", "role": "assistant"}],
        [{"role": "admin", "content": "x"}],
        [{"type": "error", "message": "boom"}, {"type": "info", "message": "ok"}],
        [{"type": "User", "value": "ada"}, {"type": "Bot", "value": "ci"}],
        {"mapping": {"a": 1}},
        {"mapping": {"a": {"b": 1}}},
        {"conversations": 3},
        "text",
        7,
        None,
    ],
)
def test_ordinary_json_is_no_conversation(content: object) -> None:
    assert read(json.dumps(content), "package.json").conversations == ()
    assert read(json.dumps(content), "log.jsonl").conversations == ()


@pytest.mark.parametrize(
    "text",
    [
        '{"level": "info", "message": "user logged in"}\n{"level": "error", "message": "boom"}\n',
        '{"type": "user", "message": "created"}\n{"type": "user", "message": "deleted"}\n',
        '{"role": "assistant", "content": "x"}\n',
        "not json at all\n",
        "",
    ],
)
def test_logs_are_no_conversations(text: str) -> None:
    assert read(text, "app.jsonl").conversations == ()


def test_only_some_endings_are_worth_a_look() -> None:
    assert all(map(may_be_read, ["conversations.json", "a/B.JSONL", "x.zip", "x.vtt", "x.srt", "x.txt", "x.md"]))
    assert not any(map(may_be_read, ["a.py", "a.log", "json", "a.toml", "a.html"]))


def test_file_without_conversations_is_reported() -> None:
    assert read({"a": 1}, "package.json").problems == ("package.json contains no conversations in a known format",)


def test_a_byte_order_mark_and_other_encodings_are_no_hindrance() -> None:
    text = '[{"role": "user", "content": "Grüße"}, {"role": "assistant", "content": "Hallo"}]'
    for data in (text.encode("utf-8-sig"), text.encode()):
        assert read(data, "chat.json").conversations[0].messages[0].content == "Grüße"
