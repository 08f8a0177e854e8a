"""Chats on a server with keys: who wrote them, who is reminded of them, and where a key goes."""

from contextlib import contextmanager
from threading import Event, Thread

import pytest
from chat_parts import KEY, Answer, chat, completion, scripted
from key_parts import guarded

import space_parts
from treering.extensions.discussions.chat.endpoint import MemorySettings, ServedChats
from treering.extensions.discussions.chat.upstream import UpstreamPlace
from treering.extensions.server.callers import Bounds

PATH = "/v1/chat/completions"
SAID, ASKED = "The cellar key lies under the third flowerpot.", "Where does the cellar key lie?"


@pytest.fixture
def upstream():
    with scripted() as script:
        yield script


@contextmanager
def chatting(folder, upstream, **changes):
    chats = ServedChats(UpstreamPlace(upstream.url, KEY), MemorySettings(wait_seconds=30))
    with guarded(folder, chats=chats, **changes) as server:
        yield server


def ask(server, key, text, discussion, **headers):
    named = {"X-Treering-Discussion": discussion, **headers}
    return server.ask(key, "POST", PATH, json=chat(text), headers=named)


def test_what_is_said_is_written_in_the_name_of_the_key(tmp_path, upstream):
    with chatting(tmp_path, upstream) as server:
        assert ask(server, server.key("write", name="ada"), SAID, "one").status_code == 200
    with space_parts.open_space(f"sqlite:{tmp_path / 'space.db'}", create=False) as space:
        (first, *_) = [event for event in space.engine.ledger.events() if event.target.startswith("src:")]
    assert first.actor == "ada"


def test_scoped_key_recalls_only_its_scope(tmp_path, upstream):
    with chatting(tmp_path, upstream) as server:
        everywhere, team, other = (server.key("write", scope=scope) for scope in ("/", "/team", "/other"))
        for key in (everywhere, other):
            ask(server, key, SAID, "said")
        ask(server, team, ASKED, "asked")
        assert "flowerpot" not in upstream.asked[-1].text
        ask(server, team, SAID, "told")
        ask(server, team, ASKED, "asked again")
        assert "flowerpot" in upstream.asked[-1].text
        asked = len(upstream.asked)
        assert ask(server, team, ASKED, "d", **{"X-Treering-Scope": "/other"}).status_code == 403
        assert ask(server, server.key("read"), ASKED, "d").status_code == 403
        assert len(upstream.asked) == asked


def test_a_key_is_never_passed_on_to_the_upstream(tmp_path, upstream):
    with chatting(tmp_path, upstream) as server:
        key = server.key("write")
        ask(server, key, SAID, "d")
        headers = {"X-Treering-Key": key, "Authorization": "Bearer sk-of-the-client", "Cookie": f"treering-key={key}"}
        server.client.post(PATH, json=chat(SAID), headers=headers)
    first, second = upstream.asked
    assert first.headers["authorization"] == f"Bearer {KEY}"
    assert second.headers["authorization"] == "Bearer sk-of-the-client"
    assert not [value for one in upstream.asked for value in one.headers.values() if "trk_" in value]


def test_one_key_cannot_take_all_the_places_of_the_others(tmp_path, upstream):
    done = Event()

    def slowly():
        done.wait(60)
        yield completion("Noted.")

    upstream.will(Answer(slowly()))
    with chatting(tmp_path, upstream, bounds=Bounds(most_of_a_key=1)) as server:
        greedy, other = server.key("write"), server.key("write")
        waiting = Thread(target=ask, args=(server, greedy, SAID, "d"))
        waiting.start()
        assert upstream.was_asked(1)
        refused = server.ask(greedy, "GET", "/openapi.json")
        assert (refused.status_code, refused.headers["retry-after"]) == (429, "1")
        assert server.ask(other, "GET", "/openapi.json").status_code == 200
        done.set()
        waiting.join()
        assert server.ask(greedy, "GET", "/openapi.json").status_code == 200


def test_chats_of_two_keys_under_one_id_are_kept_apart(tmp_path, upstream):
    with chatting(tmp_path, upstream) as server:
        keys = [server.key("write", scope=scope) for scope in ("/a", "/b")]
        for key in keys:
            assert server.ask(key, "POST", PATH, json=chat(SAID, user="d")).status_code == 200
    with space_parts.open_space(f"sqlite:{tmp_path / 'space.db'}", create=False) as space:
        scopes = {scope for scope in space.engine.ledger.scopes("/") if scope.endswith("/discussion/d")}
    assert scopes == {"/a/discussion/d", "/b/discussion/d"}


def test_keys_of_one_scope_recall_from_each_other_only_by_its_name(tmp_path, upstream):
    shared = {"X-Treering-Scope": "/team"}
    with chatting(tmp_path, upstream) as server:
        ada, bob = (server.key("write", name=name) for name in ("ada", "bob"))
        for key, text, headers in (
            (ada, SAID, {}),
            (ada, ASKED, {}),
            (bob, ASKED, {}),
            (bob, ASKED, {"X-Treering-User": "ada"}),
            (ada, SAID, shared),
            (bob, ASKED, shared),
        ):
            ask(server, key, text, f"{len(upstream.asked)}", **headers)
    assert ["flowerpot" in one.text for one in upstream.asked] == [True, True, False, False, True, True]
