import json
from contextlib import contextmanager
from threading import Event

import apsw
import openai as sdk
import pytest
from chat_parts import (
    Answer,
    chat,
    chatting,
    completion,
    event,
    events,
    openai,
    said,
    scripted,
    turns,
    without_end,
)
from rest_parts import EXAMPLES

import space_parts
from treering.extensions.discussions.generators.built_in import BuiltInGenerator
from treering.extensions.discussions.generators.generator import MakingPlan
from treering.extensions.discussions.identity import discussion_ref
from treering.extensions.discussions.log.message_log import MessageLog
from treering.testing.fakes import HashingEmbedder

PATH = "/v1/chat/completions"
SAID = "The cellar key lies under the third flowerpot."
ASKED = "Where does the cellar key lie?"


@pytest.fixture
def upstream():
    with scripted() as script:
        yield script


@contextmanager
def log_of(folder, discussion, *, within="/"):
    """Return the messages that are kept of a discussion, when the server has stopped."""
    space = space_parts.open_space(f"sqlite:{folder / 'space.db'}", create=False)
    with space:
        yield MessageLog(space.engine, discussion_ref(discussion, within=within))


def kept(folder, discussion, *, within="/"):
    with log_of(folder, discussion, within=within) as log:
        return [(message.role, message.text) for message in log.read()]


def told(answer):
    """Return what a header says of memory: how it went, and the facts."""
    how, *facts = answer.headers["x-treering-memory"].split("; ")
    return how, dict(fact.split("=") for fact in facts)


def ask(client, *contents, discussion="d", **fields):
    return client.post(PATH, json=chat(*contents, **fields), headers={"X-Treering-Discussion": discussion})


def once_unstored(client):
    """Ask until it is told that something asked before was not stored."""
    answers = (ask(client, "hi") for _ in range(1_000))
    return next(answer for answer in answers if "unstored" in told(answer)[1])


@pytest.mark.parametrize("stream", [False, True])
def test_an_unmodified_client_is_reminded_of_an_earlier_discussion_after_a_restart(tmp_path, upstream, stream):
    def talk(client, text, user):
        with openai(client) as official:
            headers = {"X-Treering-Discussion": user}
            given = official.chat.completions.create(**chat(text), stream=stream, extra_headers=headers)
            return "".join(part.choices[0].delta.content or "" for part in given) if stream else given

    upstream.will(said("I will remember.", stream=stream))
    with chatting(tmp_path, upstream) as client:
        talk(client, SAID, "monday")
    with chatting(tmp_path, upstream) as client:
        talk(client, ASKED, "tuesday")

    assert upstream.asked[0].messages == turns(SAID)
    reminder, question = upstream.asked[1].messages
    assert (reminder["role"], question) == ("system", {"role": "user", "content": ASKED})
    assert SAID in reminder["content"]
    assert kept(tmp_path, "monday") == [("user", SAID), ("assistant", "I will remember.")]
    assert kept(tmp_path, "tuesday") == [("user", ASKED), ("assistant", "Noted.")]


def test_what_is_recalled_is_fenced_and_never_kept_even_where_it_is_sent_back(tmp_path, upstream):
    with chatting(tmp_path, upstream) as client:
        ask(client, SAID, discussion="one")
        ask(client, ASKED, discussion="two")
        block = upstream.asked[-1].messages[0]["content"]
        upstream.will(said(f"I was told this:\n{block}\nSo look there."))
        echoed = ask(client, ASKED, "Noted.", "What were you told?", discussion="two").json()
        answer = echoed["choices"][0]["message"]["content"]
        ask(client, ASKED, "Noted.", "What were you told?", answer, f"You said {block} indeed?", discussion="two")

    assert block.startswith("<<treering:recalled")
    assert block.endswith(">>")
    assert SAID in block
    texts = [text for _, text in kept(tmp_path, "two")]
    assert [text.split() for text in texts] == [
        ASKED.split(),
        ["Noted."],
        ["What", "were", "you", "told?"],
        ["I", "was", "told", "this:", "So", "look", "there."],
        ["You", "said", "indeed?"],
        ["Noted."],
    ]


def test_what_the_request_says_itself_is_not_recalled_and_then_nothing_is_added(tmp_path, upstream):
    with chatting(tmp_path, upstream) as client:
        ask(client, SAID)
        body = json.dumps(chat(SAID, "Noted.", ASKED)).encode()
        answer = client.post(
            PATH, content=body, headers={"Content-Type": "application/json", "X-Treering-Discussion": "d"}
        )

    assert upstream.asked[-1].body == body
    assert (told(answer)[0], told(answer)[1]["hits"]) == ("recalled", "0")


@pytest.mark.parametrize("body", EXAMPLES["chat_completions"].values(), ids=EXAMPLES["chat_completions"])
def test_every_example_of_the_contract_is_answered(tmp_path, upstream, body):
    with chatting(tmp_path, upstream) as client:
        answer = client.post(PATH, json=body)

    assert (answer.status_code, told(answer)[0]) == (200, "recalled")


def test_where_nothing_is_kept_yet_nothing_is_added(tmp_path, upstream):
    with chatting(tmp_path, upstream) as client:
        how, facts = told(ask(client, ASKED))

    assert (how, facts["hits"]) == ("recalled", "0")
    assert upstream.asked[0].messages == turns(ASKED)


def test_of_a_long_discussion_the_beginning_that_is_sent_no_more_is_recalled(tmp_path, upstream):
    contents = [SAID]
    with chatting(tmp_path, upstream) as client:
        for number in range(4):
            ask(client, *contents)
            contents += ["Noted.", f"And here is remark {number} on something else."]
        contents[-1] = "Where does the cellar key lie?"
        answer = client.post(
            PATH,
            json={"model": "m", "messages": [{"role": "system", "content": "Be kind."}, *turns(*contents[-3:])]},
            headers={"X-Treering-Discussion": "d"},
        )

    assert told(answer)[0] == "recalled"
    assert upstream.asked[-1].messages[0]["content"].startswith("Be kind.\n\n<<treering:recalled")
    assert SAID in upstream.asked[-1].messages[0]["content"]
    assert upstream.asked[-1].messages[1:] == turns(*contents[-3:])
    assert [text for _, text in kept(tmp_path, "d")] == [*contents, "Noted."]


def test_a_regenerated_answer_replaces_the_one_before(tmp_path, upstream):
    upstream.will(said("A first answer."), said("A better answer."))
    with chatting(tmp_path, upstream) as client:
        ask(client, "A question.")
        ask(client, "A question.")

    assert kept(tmp_path, "d") == [("user", "A question."), ("assistant", "A better answer.")]


def test_the_header_names_the_discussion_before_the_tag_and_the_tag_before_the_user(tmp_path, upstream):
    tagged = "[DiscussionId]tag[/DiscussionId]Hello."
    with chatting(tmp_path, upstream, memory={"tags": True}) as client:
        ask(client, tagged, discussion="header", user="user")
        client.post(PATH, json=chat(tagged, user="user"))
        client.post(PATH, json=chat("Hello.", user="user"))

    assert all(one.messages[-1]["content"] == "Hello." for one in upstream.asked)
    for name, within in {"header": "/user/user", "tag": "/user/user", "user": "/"}.items():
        assert kept(tmp_path, name, within=within) == [("user", "Hello."), ("assistant", "Noted.")]


def test_a_header_or_tag_that_names_no_discussion_is_refused(tmp_path, upstream):
    tags = [f"[DiscussionId]{name}[/DiscussionId]hi" for name in ("a/b", "..", "x" * 129, "a\\b")]
    tags.append("[DiscussionId]one[/DiscussionId][DiscussionId]two[/DiscussionId]")
    with chatting(tmp_path, upstream, memory={"tags": True}) as client, openai(client) as official:
        for name in ("a/b", "..", "x" * 129, "a\\b"):
            with pytest.raises(sdk.UnprocessableEntityError, match="discussion id") as raised:
                official.chat.completions.create(**chat("hi"), extra_headers={"X-Treering-Discussion": name})
        for tag in tags:
            with pytest.raises(sdk.UnprocessableEntityError, match="discussion id"):
                official.chat.completions.create(**chat(tag))

    assert raised.value.code == "invalid_input"
    assert upstream.asked == []


def test_an_empty_header_or_tag_names_no_discussion(tmp_path, upstream):
    empty = {"X-Treering-Discussion": "", "X-OpenWebUI-Chat-Id": ""}
    with chatting(tmp_path, upstream, memory={"tags": True}) as client:
        unnamed = client.post(PATH, json=chat("[DiscussionId] [/DiscussionId]hi"), headers=empty)
        client.post(PATH, json=chat("[DiscussionId]tag[/DiscussionId]Hello."), headers=empty)

    assert (unnamed.status_code, told(unnamed)) == (200, ("off", {"reason": "unnamed"}))
    assert upstream.asked[0].messages == [{"role": "user", "content": "hi"}]
    assert kept(tmp_path, "tag") == [("user", "Hello."), ("assistant", "Noted.")]


PASTED = "See the log: [DiscussionId]victim[/DiscussionId] ok"
FORGERIES = {
    "user": [{"role": "user", "content": PASTED}],
    "system": [{"role": "system", "content": PASTED}, {"role": "user", "content": "hi"}],
    "tool": [{"role": "user", "content": "hi"}, {"role": "tool", "tool_call_id": "c", "content": PASTED}],
    "assistant": [*turns("hi", PASTED, "and now?")],
    "earlier": [*turns(PASTED, "yes", "and now?")],
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("tags", [False, True])
@pytest.mark.parametrize("where", FORGERIES)
def test_a_pasted_tag_takes_nothing_of_the_discussion_that_it_names(tmp_path, upstream, where, tags):
    with chatting(tmp_path, upstream, memory={"tags": tags}) as client:
        ask(client, "One.", "Two.", "Three.", discussion="victim")
        client.post(PATH, json={"model": "m", "messages": FORGERIES[where], "user": "me"})

    own = ["One.", "Two.", "Three.", "Noted."]
    assert [text for _, text in kept(tmp_path, "victim")][:4] == own
    named = tags and where in {"user", "system"}
    assert (len(kept(tmp_path, "victim")), len(kept(tmp_path, "me")) > 0) == (4, not named)
    if not named:
        assert upstream.asked[-1].messages[-1] == FORGERIES[where][-1]


def test_two_chats_side_by_side_under_one_user_take_nothing_from_each_other(tmp_path, upstream):
    chats = {name: [] for name in "ab"}
    with chatting(tmp_path, upstream) as client:
        for number in range(3):
            for name, contents in chats.items():
                contents.append(f"Question {number} of {name}.")
                upstream.will(said(f"Answer {number} for {name}."))
                client.post(PATH, json=chat(*contents, user="me"))
                contents.append(f"Answer {number} for {name}.")

    texts = [text for _, text in kept(tmp_path, "me")]
    assert sorted(texts) == sorted(text for contents in chats.values() for text in contents)


def test_a_user_that_could_be_no_discussion_only_leaves_memory_off(tmp_path, upstream):
    with chatting(tmp_path, upstream) as client:
        answer = client.post(PATH, json=chat("hi", user="org/42"))

    assert (answer.status_code, told(answer)) == (200, ("off", {"reason": "user"}))
    assert not (tmp_path / "space.db").exists()


def test_discussions_below_other_scopes_are_neither_seen_nor_written(tmp_path, upstream):
    def asked_in(client, scope, text):
        headers = {"X-Treering-Discussion": "d", "X-Treering-Scope": scope}
        return client.post(PATH, json=chat(text), headers=headers)

    with chatting(tmp_path, upstream) as client:
        asked_in(client, "/ada", SAID)
        asked_in(client, "/bob", ASKED)
        asked_in(client, "/ada", ASKED)

    assert [SAID in one.text for one in upstream.asked] == [True, False, True]
    assert kept(tmp_path, "d", within="/bob") == [("user", ASKED), ("assistant", "Noted.")]


PERSON, WEBUI = "X-Treering-User", "X-OpenWebUI-User-Id"


@pytest.mark.parametrize(
    ("ada", "bob"),
    [
        ({"user": "ada"}, {"user": "bob"}),
        ({"X-Treering-Discussion": "a", "user": "ada"}, {"X-Treering-Discussion": "b", "user": "bob"}),
        ({"X-Treering-Discussion": "a", PERSON: "ada"}, {"X-Treering-Discussion": "a", PERSON: "bob"}),
        ({"X-OpenWebUI-Chat-Id": "a", WEBUI: "ada@x/y"}, {"X-OpenWebUI-Chat-Id": "b", WEBUI: "bob"}),
    ],
)
def test_chat_recalls_only_from_its_person(tmp_path, upstream, ada, bob):
    def asked(client, text, named):
        headers = {name: value for name, value in named.items() if name != "user"}
        fields = {"user": named["user"]} if "user" in named else {}
        return client.post(PATH, json=chat(text, **fields), headers=headers)

    later = {**ada, **({"X-Treering-Discussion": "later"} if len(ada) > 1 else {})}
    with chatting(tmp_path, upstream) as client:
        for named, text in ((ada, SAID), (bob, ASKED), (later, ASKED)):
            assert asked(client, text, named).status_code == 200

    assert [SAID in one.text for one in upstream.asked] == [True, False, True]


def test_a_request_may_name_a_scope_below_that_of_the_server_and_no_other(tmp_path, upstream):
    def status(scope):
        headers = {"X-Treering-Discussion": "d", "X-Treering-Scope": scope}
        return client.post(PATH, json=chat("hi"), headers=headers).status_code

    with chatting(tmp_path, upstream, memory={"within": "/team"}) as client:
        assert [status(scope) for scope in ("/team/ada", "/other", "/", "team")] == [200, 403, 403, 422]


def test_an_exchange_whose_answer_did_not_come_to_its_end_is_not_kept(tmp_path, upstream):
    events_only = {"Content-Type": "text/event-stream"}
    answers = (
        Answer([b'{"error": {"message": "Slow down."}}'], 429),
        Answer([b'{"object": "something else"}']),
        Answer([*events("half", end=False), None], headers=events_only),
        Answer(events("half", end=False), headers=events_only),
        Answer([None]),
    )
    upstream.will(*answers)
    with chatting(tmp_path, upstream) as client:
        for _ in answers:
            ask(client, "hi")

    assert not (tmp_path / "space.db").exists()


def test_what_a_client_did_not_hear_to_the_end_is_not_kept_but_what_it_did_is(tmp_path, upstream):
    def end_without_end():
        yield from events("all of it")
        yield from without_end("").parts

    upstream.will(
        without_end("word "), Answer(end_without_end(), headers={"Content-Type": "text/event-stream; charset=utf-8"})
    )
    with chatting(tmp_path, upstream) as client, openai(client) as official:
        words = official.chat.completions.create(**chat("hi", user="one"), stream=True)
        next(words)
        words.close()
        assert "".join(
            part.choices[0].delta.content or ""
            for part in official.chat.completions.create(**chat("hi", user="two"), stream=True)
        )

    assert kept(tmp_path, "one") == []
    assert kept(tmp_path, "two") == [("user", "hi"), ("assistant", "all of it")]


def test_of_several_choices_the_first_is_kept_and_of_calls_and_refusals_the_question(tmp_path, upstream):
    second = {"index": 1, "finish_reason": "stop", "message": {"role": "assistant", "content": "second"}}
    several = json.loads(completion("first"))
    several["choices"].append(second)
    upstream.will(
        Answer([json.dumps(several).encode()]),
        said(None, tool_calls=[{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}]),
        said(None, refusal="No."),
        Answer([event({"refusal": "No."}), *events()], headers={"Content-Type": "text/event-stream"}),
    )
    with chatting(tmp_path, upstream) as client:
        for name in ("several", "call", "refusal"):
            ask(client, "hi", discussion=name)
        ask(client, "hi", discussion="streamed refusal", stream=True)

    assert kept(tmp_path, "several") == [("user", "hi"), ("assistant", "first")]
    for name in ("call", "refusal", "streamed refusal"):
        assert kept(tmp_path, name) == [("user", "hi")]


def test_messages_of_tools_and_parts_are_kept_as_far_as_they_are_words(tmp_path, upstream):
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    messages = [
        {
            "role": "user",
            "content": [{"type": "text", "text": "Look:"}, {"type": "image_url", "image_url": {"url": "x"}}],
        },
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "42"},
    ]
    with chatting(tmp_path, upstream) as client:
        client.post(PATH, json={"model": "m", "messages": messages, "user": "d"})

    assert upstream.asked[0].messages == messages
    assert kept(tmp_path, "d") == [("user", "Look:"), ("assistant", "Noted.")]


class Stuck(HashingEmbedder):
    """An embedder that answers no question before it is freed."""

    def __init__(self):
        super().__init__()
        self.free = Event()

    def embed_query(self, text):
        assert self.free.wait(30)
        return super().embed_query(text)


def test_an_answer_does_not_wait_for_a_memory_that_hangs(tmp_path, upstream):
    with chatting(tmp_path, upstream) as client:
        ask(client, SAID)
    with space_parts.open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        space.embed_pending()
    stuck = Stuck()
    with chatting(tmp_path, upstream, embedder=stuck, memory={"wait_seconds": 0.05}) as client:
        answers = [ask(client, f"{ASKED} {number}", discussion="e") for number in range(6)]
        stuck.free.set()

    assert [(told(answer)[0], told(answer)[1]["reason"]) for answer in answers] == [("skipped", "timeout")] * 6
    assert [one.text for one in upstream.asked[1:]] == [f"{ASKED} {number}" for number in range(6)]
    assert [text for role, text in kept(tmp_path, "e") if role == "user"] == [
        f"{ASKED} {number}" for number in range(6)
    ]


def test_an_answer_does_not_wait_for_a_space_that_another_user_writes(tmp_path, upstream):
    with chatting(tmp_path, upstream, memory={"wait_seconds": 0.1, "store_seconds": 0.1}) as client:
        ask(client, "first", discussion="one")
        ask(client, "second", discussion="two")
        other = apsw.Connection(str(tmp_path / "space.db"))
        other.set_busy_timeout(30_000)
        other.execute("BEGIN IMMEDIATE")
        answers = [ask(client, f"remark {number}", discussion=f"d{number}") for number in range(3)]
        other.execute("ROLLBACK")
        other.close()

    assert {told(answer)[0] for answer in answers} <= {"recalled", "skipped"}
    assert [told(answer)[1]["stored"] for answer in answers] == ["late"] * 3
    for number in range(3):
        assert kept(tmp_path, f"d{number}") == [("user", f"remark {number}"), ("assistant", "Noted.")]


@pytest.mark.parametrize("stream", [False, True])
def test_when_the_whole_answer_is_there_the_exchange_is_stored(tmp_path, upstream, stream):
    contents = []
    with chatting(tmp_path, upstream, memory={"wait_seconds": 30, "store_seconds": 30}) as client:
        for number in range(5):
            contents += [f"Question {number}.", f"Answer {number}."]
            upstream.will(said(contents[-1], stream=stream))
            answer = ask(client, *contents[:-1], stream=stream)
            assert kept(tmp_path, "d")[-1] == ("assistant", contents[-1])
            assert "stored" not in told(answer)[1]


def test_a_conversation_that_continues_nothing_is_told_to_be_one_of_its_own(tmp_path, upstream):
    with chatting(tmp_path, upstream) as client:
        answers = [ask(client, *contents) for contents in (["One."], ["One.", "Noted.", "Two."], ["Other."])]

    assert [told(answer)[1].get("conversation") for answer in answers] == [None, None, "new"]


class Slow(BuiltInGenerator):
    """A generator that makes nothing before it is freed."""

    def __init__(self):
        self.begun = Event()
        self.free = Event()

    def memories(self, chunk, background):
        self.begun.set()
        assert self.free.wait(30)
        return super().memories(chunk, background)


def test_neither_answers_nor_what_is_kept_wait_for_memories_to_be_made(tmp_path, upstream):
    slow = Slow()
    contents = [f"Remark {number} is about number {number}." for number in range(20)]
    with chatting(tmp_path, upstream, making=MakingPlan(generator=slow)) as client:
        ask(client, *contents[:19])
        assert slow.begun.wait(30)
        ask(client, "Something else.", discussion="e")
        asked = ask(client, *contents[:19], "Noted.", "And more.")
        slow.free.set()

    assert told(asked)[0] == "recalled"
    assert [text for _, text in kept(tmp_path, "d")] == [*contents[:19], "Noted.", "And more.", "Noted."]
    assert kept(tmp_path, "e") == [("user", "Something else."), ("assistant", "Noted.")]


def test_a_broken_space_breaks_no_answer_and_is_reported(tmp_path, upstream):
    with chatting(tmp_path, upstream) as client:
        (tmp_path / "space.db").write_bytes(b"no database at all" * 100)
        first, second = ask(client, "hi"), once_unstored(client)

    assert (first.status_code, second.status_code) == (200, 200)
    assert told(first)[0] == told(second)[0] == "failed"
    assert told(second)[1]["reason"] in {"corrupt", "unavailable"}


def test_where_the_policy_wants_a_review_answers_go_on_and_what_is_not_kept_is_reported(tmp_path, upstream):
    (tmp_path / "space.policy.toml").write_text('direct_channels = ["user", "system"]\n', encoding="utf-8")
    with chatting(tmp_path, upstream) as client:
        answer = once_unstored(client)

    assert (answer.status_code, told(answer)[1]["stored"]) == (200, "no")


def bare(client, *contents, **headers):
    """Send a chat that names no discussion."""
    return client.post(PATH, json=chat(*contents), headers=headers)


def test_a_chat_that_names_no_discussion_is_stateless(tmp_path, upstream):
    with chatting(tmp_path, upstream) as client:
        ask(client, SAID)
        for contents in ([SAID], [SAID, "I will remember.", ASKED], [ASKED]):
            assert told(bare(client, *contents)) == ("off", {"reason": "unnamed"})
            assert "recalled" not in upstream.asked[-1].text
    with log_of(tmp_path, "d") as log:
        assert log.count() == 2


def test_open_webui_names_the_chat_by_its_own_header(tmp_path, upstream):
    with chatting(tmp_path, upstream) as client:
        assert told(bare(client, SAID, **{"X-OpenWebUI-Chat-Id": "w1"}))[0] == "recalled"
    assert kept(tmp_path, "w1")[0] == ("user", SAID)


TITLE = "### Task:\nCreate a short title for this chat, nothing else.\n<chat_history>\nUSER: {}\n</chat_history>"


def test_a_task_of_the_client_is_answered_and_no_memory(tmp_path, upstream):
    with chatting(tmp_path, upstream) as client:
        ask(client, SAID)
        answer = ask(client, TITLE.format(ASKED))
        assert (answer.status_code, told(answer)) == (200, ("off", {"reason": "task"}))
        assert "flowerpot" not in upstream.asked[-1].text
    assert [text for _, text in kept(tmp_path, "d")] == [SAID, "Noted."]


def test_a_picture_alone_is_named(tmp_path, upstream):
    with chatting(tmp_path, upstream) as client:
        picture = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
        messages = [{"role": "user", "content": [picture]}]
        client.post(PATH, json={"model": "m", "messages": messages, "user": "d"})
    assert kept(tmp_path, "d")[0] == ("user", "[image]")


@pytest.mark.parametrize("word", ["off", "OFF"])
def test_a_request_can_decline_memory(tmp_path, upstream, word):
    with chatting(tmp_path, upstream) as client:
        answer = bare(client, SAID, **{"X-Treering-Memory": word, "X-Treering-Discussion": "d"})
        assert told(answer) == ("off", {"reason": "asked"})
        ask(client, ASKED)
        assert "flowerpot" not in upstream.asked[-1].text
    assert SAID not in [text for _, text in kept(tmp_path, "d")]


def test_a_chat_in_which_no_user_says_anything_has_no_memory(tmp_path, upstream):
    with chatting(tmp_path, upstream) as client:
        messages = [{"role": "system", "content": "Say hello."}]
        answer = client.post(PATH, json={"model": "m", "messages": messages, "user": "d"})
        assert told(answer)[1]["hits"] == "0"
