from typing import Any

from export_parts import ONE, only, told


def said(sender: str, text: str, **fields: Any) -> dict[str, Any]:
    return {"sender": sender, "text": text, "created_at": "2026-03-01T10:00:10.000000Z", **fields}


def export(*messages: dict[str, Any]) -> list[dict[str, Any]]:
    return [{"uuid": ONE, "name": "Tea", "created_at": "2026-03-01T10:00:00Z", "chat_messages": list(messages)}]


def test_the_human_is_the_user() -> None:
    found = only(export(said("human", "Green?"), said("assistant", "Green.")), "conversations.json")
    assert told(found) == [("user", "Green?"), ("assistant", "Green.")]
    assert (found.title, found.known_as) == ("Tea", f"claude:{ONE}")


def test_text_comes_from_the_parts_without_thoughts_and_tools() -> None:
    parts = [
        {"type": "thinking", "thinking": "Hm."},
        {"type": "text", "text": "Green."},
        {"type": "tool_use", "name": "search", "input": {"query": "tea"}},
        {"type": "tool_result", "content": "a list"},
    ]
    found = only(export(said("human", "Green?"), said("assistant", "", content=parts)), "c.json")
    assert told(found)[1] == ("assistant", "Green.")


def test_the_text_of_attachments_is_part_of_the_message() -> None:
    attached = [{"file_name": "teas.txt", "extracted_content": "Sencha\nAssam"}]
    found = only(export(said("human", "Which?", attachments=attached, files=[{"file_name": "leaf.png"}])), "c.json")
    assert told(found) == [("user", "Which?\n\n[attachment: teas.txt]\nSencha\nAssam\n\n[file: leaf.png]")]


def test_of_answers_made_anew_the_last_one_counts() -> None:
    messages = [
        said("human", "Green?", uuid="a", parent_message_uuid="00000000-0000-4000-8000-000000000000"),
        said("assistant", "No.", uuid="b", parent_message_uuid="a"),
        said("assistant", "Yes.", uuid="c", parent_message_uuid="a"),
    ]
    found = only(export(*messages), "c.json")
    assert told(found) == [("user", "Green?"), ("assistant", "Yes.")]
    assert found.notes == ("1 message(s) on inactive branches were skipped",)


def test_a_message_after_a_gap_continues_the_branch() -> None:
    messages = [
        said("human", "Green?", uuid="a", parent_message_uuid="00000000-0000-4000-8000-000000000000"),
        said("assistant", "Yes.", uuid="b", parent_message_uuid="a"),
        said("human", "And black?", uuid="c", parent_message_uuid="an answer that the export lacks"),
    ]
    found = only(export(*messages), "c.json")
    assert told(found) == [("user", "Green?"), ("assistant", "Yes."), ("user", "And black?")]
    assert found.notes == ()


def test_an_edited_first_message_replaces_its_branch() -> None:
    root = "00000000-0000-4000-8000-000000000000"
    messages = [
        said("human", "Green?", uuid="a", parent_message_uuid=root),
        said("assistant", "Yes.", uuid="b", parent_message_uuid="a"),
        said("human", "Black?", uuid="c", parent_message_uuid=root),
    ]
    assert told(only(export(*messages), "c.json")) == [("user", "Black?")]


def test_answers_of_only_tool_calls_are_not_read_from_their_text() -> None:
    parts = [{"type": "thinking", "thinking": "Hm."}, {"type": "tool_use", "name": "search", "input": {}}]
    placeholder = "Hm.\n```\nThis block is not supported on your current device yet.\n```"
    found = only(export(said("human", "Green?"), said("assistant", placeholder, content=parts)), "c.json")
    assert told(found) == [("user", "Green?")]


def test_files_that_are_attachments_are_named_once() -> None:
    fields = {
        "attachments": [{"file_name": "teas.txt", "extracted_content": "Sencha"}],
        "files": [{"file_uuid": "f", "file_name": "teas.txt"}, {"file_uuid": "g", "file_name": ""}],
    }
    found = only(export(said("human", "Which?", **fields)), "c.json")
    assert told(found) == [("user", "Which?\n\n[attachment: teas.txt]\nSencha")]
    assert found.notes == ()


def test_prompts_added_by_the_platform_are_skipped() -> None:
    parts = [
        {"type": "text", "text": "Green?"},
        {"type": "injected_prompt_block", "prompt": "The user likes tea.", "injection_source": "memory_block_head"},
    ]
    found = only(export(said("human", "Green?", content=parts)), "c.json")
    assert (told(found), found.notes) == ([("user", "Green?")], ())
