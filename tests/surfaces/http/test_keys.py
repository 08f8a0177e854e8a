import itertools
import re
from datetime import UTC, datetime, timedelta

import pytest
from key_parts import guarded
from rest_parts import running

import treering
from treering.core.canonical import is_object
from treering.core.errors import InvalidInput, Unavailable
from treering.extensions.server.callers import Caller
from treering.extensions.server.keys import make_key, space_name
from treering.extensions.server.served import ServedSpace, granted
from treering.extensions.server.workers import Stop
from treering.system.address import file_address
from treering.system.machine import SystemClock
from treering.verbs.catalog import TOOLS
from treering.verbs.envelope import READS, Envelope


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with guarded(tmp_path_factory.mktemp("guarded"), allow=frozenset()) as server:
        yield server


SECRETS = {"/": "heliotrope", "/team": "periwinkle", "/team/sub": "celadon", "/beside": "marzipan", "/team2": "puce"}


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    """A space in which several scopes hold a word of their own; and the ids of what lies in each."""
    with guarded(tmp_path_factory.mktemp("shared")) as server:
        boss = server.key("admin", name="boss")
        ids = {}
        for scope, word in SECRETS.items():
            note = {"text": f"The lamp is {word}. See lamp.", "origin": f"note:{word}"}
            brought = server.verb(boss, "ingest", mode="source", scope=scope, input={"items": [note]}).json()
            fact = {
                "kind": "fact",
                "title": f"Lamp {word}",
                "payload": {"subject": "lamp", "predicate": word, "value": 1},
            }
            told = server.verb(boss, "crystallize", mode="knowledge", scope=scope, input=fact).json()
            work = server.verb(
                boss, "crystallize", mode="work_item", scope=scope, input={"title": f"Fix {word}"}
            ).json()
            ids[scope] = [*brought["ids"], *told["ids"], *work["ids"]]
        yield server, ids


def test_what_is_written_says_which_key_wrote_it_whatever_the_client_sends(server):
    agent, person = server.key("write", name="ci"), server.key("write", name="ada", channel="user")
    for key, name, channel in ((agent, "ci", "agent"), (person, "ada", "user")):
        written = server.ask(
            key,
            "POST",
            "/v1/wiki/crystallize",
            json={"mode": "work_item", "input": {"title": f"By {name}"}},
            headers={"X-Actor": "root", "X-Treering-Actor": "root", "From": "root"},
        ).json()
        page = server.verb(key, "query", mode="page", input={"id": written["ids"][0]}).json()
        assert [entry["actor"] for entry in page["history"]] == [name]
        assert page["object"]["origin_channel"] == channel


def test_documents_of_a_project_are_written_in_the_name_of_the_key(server):
    key = server.key("write", project="acme", name="acme bot")
    assert server.ask(key, "POST", "/api/projects/acme/memory/index", json={"docs": ["Kept."]}).status_code == 200
    with treering.open(f"sqlite:{server.folder}/projects/acme.db", create=False, background=False) as space:
        assert {event.actor for event in space.engine.ledger.events() if event.target.startswith("src:")} == {
            "acme bot"
        }


def test_erasing_documents_of_a_project_needs_the_right_to_erase(server):
    key = server.key("write", project="acme")
    asked = {"docs": ["Kept."], "erase": True}
    refused = server.ask(key, "POST", "/api/projects/acme/memory/delete", json=asked)
    assert (refused.status_code, refused.json()["details"]["not_granted"]) == (403, ["destroys", "needs_person"])


def test_a_key_for_a_scope_erases_no_scope(server):
    boss, key = server.key("admin", channel="user"), server.key("admin", scope="/team", channel="user")
    server.verb(boss, "crystallize", mode="work_item", scope="/team", input={"title": "Fix"})
    for scope in ("/team", "/other"):
        refused = server.ask(key, "POST", "/v1/erase", json={"input": {"scope": scope}})
        assert refused.status_code == 403, refused.text
    assert server.ask(boss, "POST", "/v1/erase", json={"input": {"scope": "/team"}}).status_code == 200


def test_a_review_with_a_key_is_decided_in_its_name(server):
    key = server.key("review", name="grace", channel="user")
    answer = server.ask(key, "POST", "/v1/revert", json={"input": {"patch_id": "patch:01kefz5b1jt7w2y9a5m3x8q6rv"}})
    assert answer.status_code == 404  # let in; there is no such patch


def test_a_key_that_is_revoked_while_the_server_runs_opens_nothing_from_then_on(server):
    server.verb(server.key("write"), "crystallize", mode="work_item", input={"title": "Make a space"})
    key = server.key("read")
    assert server.verb(key, "query", input="lamp").status_code == 200
    server.keys.revoke(key.split("_")[1], at=datetime.now(UTC))
    assert server.verb(key, "query", input="lamp").status_code == 401


def test_the_last_use_of_a_key_is_kept(server):
    key = server.key("read")
    assert server.keys.find(key.split("_")[1]).used is None
    server.verb(key, "query", input="lamp")
    assert datetime.now(UTC) - server.keys.find(key.split("_")[1]).used < timedelta(minutes=5)


def test_wrong_key_looks_like_an_unknown_key(server):
    told = {server.ask(key, "GET", "/openapi.json").text for why, key in server.dead_keys().items() if why != "no key"}
    assert len(told) == 1
    assert "trk_…" in told.pop()


def test_no_secret_is_kept_in_the_file_of_keys(server):
    key = server.key("read")
    secret = key.split("_")[2].encode()
    kept = b"".join(path.read_bytes() for path in server.folder.glob("keys.db*"))
    assert key.split("_")[1].encode() in kept
    assert secret not in kept


def test_a_key_may_come_in_a_header_of_its_own(server):
    key = server.key("read")
    asked = server.client.get("/openapi.json", headers={"X-Treering-Key": key, "Authorization": "Bearer sk-upstream"})
    assert asked.status_code == 200


def test_a_call_that_names_no_scope_works_at_that_of_the_key(shared):
    server, _ = shared
    key = server.key("write", scope="/team")
    told = server.verb(key, "crystallize", mode="work_item", input={"title": "Here"}).json()
    assert told["scope"] == "/team"


@pytest.mark.parametrize("scope", ["/", "/beside", "/team2", "/teams", "/te", "/team/../beside"])
def test_scope_other_than_the_keys_is_refused(shared, scope):
    server, _ = shared
    key = server.key("write", scope="/team")
    for verb, envelope in (
        ("query", {"input": "lamp"}),
        ("crystallize", {"mode": "work_item", "input": {"title": "x"}}),
    ):
        refused = server.verb(key, verb, scope=scope, **envelope)
        assert refused.status_code in {403, 422}
        assert not {"heliotrope", "marzipan", "puce"} & set(refused.text.replace(".", " ").split())


def calls_of(ids):
    """Return calls of all modes that tell of something, with every option that widens what is seen."""
    words = {"text": "lamp heliotrope marzipan puce"}
    wide = {"descend": True, "withdrawn": True}
    yield "query", "context", {"task": words["text"]}, wide
    yield "query", "context", {"task": "lamp"}, {**wide, "deep": True}
    yield "query", "search", words, {**wide, "explain": True, "limit": 50}
    yield "query", "search", {"text": "nothing like it"}, {}
    yield "query", "recent", {}, {"descend": True}
    yield "query", "brief", {}, {"descend": True}
    yield "ingest", "status", {}, {}
    yield "lint", "consolidate", {}, {}
    yield "crystallize", "feedback", {"question": "lamp", "right": [*ids]}, {}
    for mode in ("all", "structure", "semantic", "audit", "repair", "reindex"):
        yield "lint", mode, {}, {}
    for identity in ids:
        for mode, field in (("page", "id"), ("related", "id"), ("expand", "ids")):
            yield "query", mode, {field: [identity] if field == "ids" else identity}, {}
        yield "lint", "audit", {"id": identity}, {}
        yield "crystallize", "promote", {"id": identity}, {}
        yield "crystallize", "work_item", {"id": identity, "title": "Taken over"}, {}
        evidence = [{"source_id": identity, "segment_id": "seg_0000000000000"}]
        yield (
            "crystallize",
            "knowledge",
            {"kind": "preference", "title": "P", "payload": {"statement": "s"}, "evidence_refs": evidence},
            {},
        )
        yield "crystallize", "work_item", {"title": "A", "links": [{"type": "about", "target": identity}]}, {}
        yield "crystallize", "activity", {"id": identity, "summary": "Taken over"}, {}


def test_scoped_key_sees_no_other_scopes(shared):
    server, ids = shared
    key = server.key("write", scope="/team")
    elsewhere = [identity for scope in ("/", "/beside", "/team2") for identity in ids[scope]]
    leaks = []
    for verb, mode, given, options in calls_of(elsewhere):
        answer = server.verb(key, verb, mode=mode, input=given, options=options)
        asked = {*str(given).replace("'", " ").split()}
        told = [
            word
            for word in ("heliotrope", "marzipan", "puce", *elsewhere)
            if word in answer.text and not any(word in a for a in asked)
        ]
        if told or answer.status_code >= 500:
            leaks.append((verb, mode, given, answer.status_code, told))
    assert leaks == []


def numbers_in(value, path=""):
    """Return the numbers of an answer by path, and those in its warnings; sequences count all writes."""
    if isinstance(value, dict):
        parts = ((f"{path}.{key}", one) for key, one in value.items() if key not in {"sequence", "as_of"})
        return {name: number for at, one in parts for name, number in numbers_in(one, at).items()}
    if isinstance(value, list):
        return {name: n for place, one in enumerate(value) for name, n in numbers_in(one, f"{path}.{place}").items()}
    if ".warnings." in path:
        return {path: re.findall("[0-9]+", value)}
    return {path: value} if isinstance(value, int) else {}


def test_scoped_key_learns_no_sizes_of_other_scopes(tmp_path):
    numbers = []
    for others in (1, 40):
        with guarded(tmp_path / str(others)) as server:
            boss, key = server.key("admin", name="boss"), server.key("write", scope="/team")
            for scope, count in (("/team", 3), ("/beside", others)):
                items = [{"text": f"The lamp is {scope}-{n}.", "origin": f"note:{n}"} for n in range(count)]
                server.verb(boss, "ingest", mode="source", scope=scope, input={"items": items})
            wide = {"descend": True, "explain": True}
            calls = [("query", "search", {"text": text}, wide) for text in ("lamp", "zebra")]
            calls += [("query", "context", {"task": "lamp"}, {}), ("ingest", "status", {}, {})]
            calls.append(("lint", "all", {}, {}))
            answers = [server.verb(key, verb, mode=mode, input=i, options=o).json() for verb, mode, i, o in calls]
            note = {"items": [{"text": "A new lamp.", "origin": "note:new"}]}
            answers.append(server.verb(key, "ingest", mode="source", input=note).json())
            numbers.append([numbers_in(answer) for answer in answers])
            assert "may not be embedded yet" in str(answers[0]["warnings"])
    few, many = numbers
    assert few == many


WHOLE_SPACE = [(tool.name, mode.name) for tool in TOOLS.values() for mode in tool.modes.values() if mode.whole_space]


@pytest.mark.parametrize(("verb", "mode"), WHOLE_SPACE)
def test_only_admin_keys_read_the_whole_space(shared, verb, mode):
    server, _ = shared
    for right in ("read", "write", "review"):
        for scope in ("/", "/team"):
            refused = server.verb(server.key(right, scope=scope), verb, mode=mode)
            assert refused.status_code == 403
            assert right == "read" or "reads the whole space" in refused.json()["message"]
    assert server.verb(server.key("admin"), verb, mode=mode).status_code == 200


def test_a_key_of_a_scope_changes_nothing_above_and_beside(shared):
    server, ids = shared
    boss = server.key("read", name=f"boss {len(server.keys.all())}")
    elsewhere = [one for scope in ("/", "/beside", "/team2") for one in ids[scope]]
    objects = list(filter(is_object, elsewhere))

    def state():
        return [
            server.verb(boss, "query", mode="page", input={"id": one}, options={"descend": True}).json()
            for one in objects
        ]

    before = state()
    key = server.key("write", scope="/team")
    for verb, mode, given, options in calls_of(elsewhere):
        server.verb(key, verb, mode=mode, input=given, options=options)
    assert [page["object"] for page in state()] == [page["object"] for page in before]


def test_a_key_that_reads_scopes_above_sees_nothing_beside_and_changes_only_its_own(shared):
    server, ids = shared
    key = server.key("review", scope="/team/sub", read_up_to="/")
    seen = {word for word in SECRETS.values() if word in server.verb(key, "query", input={"task": "lamp"}).text}
    for verb, mode, given, options in calls_of([*ids["/beside"], *ids["/team2"]]):
        answer = server.verb(key, verb, mode=mode, input=given, options=options)
        asked = str(given)
        seen |= {word for word in SECRETS.values() if word in answer.text and word not in asked}
    assert seen == {SECRETS[scope] for scope in ("/", "/team", "/team/sub")}
    for identity in filter(is_object, ids["/"]):
        assert server.verb(key, "query", mode="page", input={"id": identity}).status_code == 200
        for verb, mode in (("crystallize", "work_item"), ("crystallize", "knowledge"), ("crystallize", "source")):
            taken = server.verb(key, verb, mode=mode, input={"id": identity, "status": "archived"})
            assert taken.status_code in {403, 404, 422}, taken.text


def test_a_key_may_read_only_scopes_above_its_own():
    with pytest.raises(InvalidInput, match="/beside is not above /team"):
        make_key("x", space="s", clock=SystemClock(), scope="/team", read_up_to="/beside")


def test_a_key_of_a_scope_works_there_and_below(shared):
    server, ids = shared
    key = server.key("write", scope="/team")
    found = server.verb(key, "query", mode="search", input={"text": "lamp"}, options={"descend": True}).text
    assert {word for word in SECRETS.values() if word in found} == {"periwinkle", "celadon"}
    below = server.verb(key, "query", mode="search", scope="/team/sub", input={"text": "lamp"}).text
    assert {word for word in SECRETS.values() if word in below} == {"periwinkle", "celadon"}
    for identity in filter(is_object, (*ids["/team"], *ids["/team/sub"])):
        assert (
            server.verb(key, "query", mode="page", input={"id": identity}, options={"descend": True}).status_code == 200
        )


def test_the_name_of_a_space_is_that_of_its_file_whatever_it_is_called_by(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "link").symlink_to(tmp_path)
    names = {
        space_name(file_address(path), file_address(tmp_path / "keys.db"))
        for path in ("a.db", "./a.db", tmp_path / "a.db", "link/a.db")
    }
    assert names == {f"sqlite:{tmp_path.resolve() / 'a.db'}"}


def test_the_calls_of_these_tests_reach_every_mode():
    reached = {(verb, mode) for verb, mode, _, _ in calls_of(["x"])}
    skipped = {
        ("ingest", "path"),
        ("ingest", "repo"),
        ("ingest", "url"),
        ("ingest", "adapter"),
        ("ingest", "source"),
        ("crystallize", "source"),
        ("crystallize", "node"),
        ("crystallize", "supersede"),
        ("crystallize", "demote"),
    }
    every = set(itertools.chain.from_iterable(((tool.name, mode) for mode in tool.modes) for tool in TOOLS.values()))
    assert every - reached - skipped == set()


@pytest.mark.sampled(2)
@pytest.mark.parametrize("path", ["/v1/wiki/query", "/v1/projects", "/mcp", "/", "/metrics", "/v1/chat/completions"])
def test_a_server_without_keys_ignores_no_key_that_is_sent_to_it(tmp_path, path):
    with guarded(tmp_path) as server:
        sent = {**server.dead_keys(), "reads": server.key("read"), "elsewhere": server.key("admin", space="other.db")}
    del sent["no key"]
    with running(tmp_path) as client:
        for key in sent.values():
            for headers in ({"Authorization": f"Bearer {key}"}, {"X-Treering-Key": key}):
                answer = client.request("POST" if "v1" in path else "GET", path, headers=headers, json={})
                assert (answer.status_code, "without keys" in answer.text) == (401, True)
        # What is for others than this server is no key of it.
        assert client.get("/v1/wiki", headers={"Authorization": "Bearer sk-else"}).status_code == 404
        told = client.post(
            "/v1/wiki/query", json={"mode": "recent"}, headers={"Authorization": "Bearer of-an-upstream"}
        )
        assert told.status_code == 404  # there is no space yet
        assert client.get("/health", headers={"X-Treering-Key": "trk_"}).status_code == 200


def test_a_refused_key_of_another_space_is_logged(tmp_path, caplog):
    caplog.set_level("INFO", "treering.requests")
    with guarded(tmp_path) as server:
        other = server.key("read", space="other.db")
        assert server.verb(other, "query", mode="search", input={"text": "lamp"}).status_code == 403
        server.ask(server.key(), "GET", "/web/discussions")
    refused, page = (record.request for record in caplog.records if hasattr(record, "request"))
    assert refused.key == other.split("_")[1]
    assert page.route == "/web/discussions"


def test_one_call_at_a_time_reads_the_whole_space(tmp_path):
    address = file_address(tmp_path / "space.db")
    treering.open(address).close()
    space = ServedSpace(
        address, stop=Stop(), background=False, embedder=None, files=None, granted=granted(files=None, allow=())
    )
    audit, caller = Envelope(mode="audit"), Caller(READS)

    def during(engine):
        with pytest.raises(Unavailable, match="being verified"):
            space.call("lint", audit, caller)
        return engine

    try:
        assert space.call("lint", audit, caller, lend=during).verified
        assert space.call("lint", audit, caller).verified
    finally:
        space.close()
