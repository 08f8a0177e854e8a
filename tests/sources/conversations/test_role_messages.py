import pytest
from export_parts import lines, only, read, told

HI = {"role": "user", "content": "Hi"}
HELLO = {"role": "assistant", "content": "Hello"}
BOTH = [("user", "Hi"), ("assistant", "Hello")]


@pytest.mark.parametrize(
    "messages",
    [
        [HI, HELLO],
        [{"role": "system", "content": "Be kind."}, HI, {"role": "tool", "content": "{}"}, HELLO],
        [{"role": "human", "content": "Hi"}, {"role": "model", "parts": [{"text": "Hello"}]}],
        [{"sender": "human", "text": "Hi"}, {"sender": "assistant", "text": "Hello"}],
        [
            {"type": "user", "content": [{"text": "Hi"}]},
            {"type": "info", "content": "x"},
            {"type": "gemini", "content": "Hello"},
        ],
        [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Hello"}],
        [HI, {"role": "assistant", "content": "Hello", "reasoning_content": "A greeting."}],
        [{"role": "user", "content": [{"type": "input_text", "text": "Hi"}]}, HELLO],
    ],
)
def test_messages_are_read_in_every_way_they_are_written(messages: list[object]) -> None:
    for document in (messages, {"messages": messages}, [{"messages": messages}], {"conversations": messages}):
        assert told(only(document, "chat.json")) == BOTH


def test_ids_titles_and_times_are_kept() -> None:
    chat = {"id": "d1", "title": "Greeting", "messages": [{**HI, "created_at": "2026-04-26T10:00:00"}, HELLO]}
    found = only(chat, "chat.json")
    assert (found.id, found.title, str(found.messages[0].at)) == ("d1", "Greeting", "2026-04-26 10:00:00+00:00")


def test_times_are_read_as_seconds_and_milliseconds() -> None:
    found = only([{**HI, "timestamp": 1_700_000_000}, {**HELLO, "timestamp": "1700000000000"}], "chat.json")
    assert found.messages[0].at == found.messages[1].at is not None


@pytest.mark.parametrize(
    ("written", "read_as"),
    [
        ("2023-04-10T14:47:00+02:00", "2023-04-10 12:47:00+00:00"),
        ("2023-04-10 14:47:00 UTC", "2023-04-10 14:47:00+00:00"),
        ("2023/04/10 (Mon) 14:47", "2023-04-10 14:47:00+00:00"),
        ("yesterday", "None"),
        (-5, "None"),
        (10**30, "None"),
        (True, "None"),
    ],
)
def test_a_time_is_utc_or_none(written: object, read_as: str) -> None:
    assert str(only([{**HI, "timestamp": written}], "chat.json").messages[0].at) == read_as


def test_lines_are_grouped_by_session() -> None:
    text = lines({**HI, "session_id": "a"}, {**HI, "session_id": "b"}, {**HELLO, "session_id": "a"})
    found = read(text, "chat.jsonl").conversations
    assert {one.id: told(one) for one in found} == {"a": BOTH, "b": BOTH[:1]}
    assert told(only(lines(HI, HELLO), "chat.jsonl")) == BOTH


def test_a_line_may_be_a_conversation() -> None:
    found = read(lines({"messages": [HI, HELLO]}, {"messages": [HI]}, "{"), "tuning.jsonl")
    assert [told(one) for one in found.conversations] == [BOTH, BOTH[:1]]
    assert [problem.partition(":")[0] for problem in found.problems] == ["line 3"]


def test_calls_of_functions_are_summarized() -> None:
    call = {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"function": {"name": "find", "arguments": '{"a":1}'}}],
    }
    assert told(only([HI, call], "chat.json"))[1] == ("tool", '[find] {"a":1}')


def test_conversations_that_begin_alike_are_distinguished() -> None:
    found = read([{"messages": [HI, HELLO]}, {"messages": [HI]}], "chats.json").conversations
    assert found[1].id == f"{found[0].id}-2"


def test_messages_repeated_with_their_id_are_one_and_others_of_an_id_stay():
    said = [{"role": "user", "content": "Hi", "id": "1"}, {"role": "assistant", "content": "Hello", "id": "1"}]
    found = only(
        {"messages": [*said, said[0], {"role": "user", "content": "ok"}, {"role": "user", "content": "ok"}]}, "c.json"
    )
    assert told(found) == [("user", "Hi"), ("assistant", "Hello"), ("user", "ok"), ("user", "ok")]
