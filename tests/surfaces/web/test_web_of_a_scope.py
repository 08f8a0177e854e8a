"""The pages as a key of a scope sees them: that scope and what lies below, and nothing above or beside."""

from itertools import product
from urllib.parse import urlencode

import pytest
from key_parts import RIGHTS, guarded

from space_parts import decide, note, open_space, state_fact, task

SECRETS = {"/": "heliotrope", "/team": "periwinkle", "/team/sub": "celadon", "/beside": "marzipan", "/team2": "puce"}
SEEN, HIDDEN = ("/team", "/team/sub"), ("/", "/beside", "/team2")
PAGES = ("/", "/web/health", "/web/graph", "/web/timeline", "/web/work")
CLOSED = (
    *("/web/live", "/web/live/events", "/web/discussions", "/web/discussions/tea", "/web/wiki", "/web/wiki/index.md"),
    *("/web/projects", "/web/projects/acme", "/web/projects/acme/health", "/web/nowhere", "/web//health"),
)
ASKED = "lamp heliotrope marzipan puce periwinkle celadon"
MARKS = {scope: word[::-1] for scope, word in SECRETS.items()}
"""Stand beside the words in all that is kept, and in no question: an answer may repeat what it was asked."""


def fill_scope(space, scope, word):
    """Put one of everything that pages show into a scope, each with its word and mark; return the ids."""
    at, word = {"scope": scope}, f"{word} {MARKS[scope]}"
    lamp = note(
        space, f"# Lamp\n\nThe lamp is {word}. See the lamp.", origin=f"note:{word}", title=f"Lamp {word}", **at
    )
    freeze = note(space, f"We freeze in {word}.", origin=f"freeze:{word}", **at)
    one, two = (note(space, f"The {word} port is {port}.", origin=f"{word}:{port}", **at) for port in (80, 90))
    ids = [
        lamp["source_id"],
        decide(space, f"Lamps are {word}", lamp, summary=f"Since {word} is bright.", **at),
        decide(space, f"Freeze {word}", freeze, valid_until="2024-05-31T00:00:00Z", **at),
        decide(space, f"Maybe {word}", kind="preference", payload={"statement": word}, **at),
        state_fact(space, f"server {word}", "port", "80", one, **at),
        state_fact(space, f"server {word}", "port", "90", two, **at),
        task(space, f"Fix {word}", summary=f"It is {word}.", **at),
        *space.crystallize("activity", **at, input={"title": f"Looked at {word}", "summary": "Found."}).ids,
    ]
    note(space, f"# Lamp\n\nThe lamp is no longer {word}.", origin=f"note:{word}", title=f"Lamp {word}", **at)
    return [identity for identity in ids if not identity.startswith("patch:")]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scoped-site")
    with open_space(f"sqlite:{folder / 'space.db'}") as space:
        ids = {scope: fill_scope(space, scope, word) for scope, word in SECRETS.items()}
        # What lies above may name what lies below, and is not told of there.
        for scope in SEEN:
            links = [{"type": "about", "target": ids[scope][1]}]
            ids["/"].append(task(space, f"Seen from above {MARKS['/']}", links=links))
        space.embed_pending()
    with guarded(folder) as server:
        asked = {"docs": ["The heliotrope of acme."]}
        server.ask(server.key("write", project="acme"), "POST", "/api/projects/acme/memory/index", json=asked)
        yield server, ids


def addresses(ids):
    """Return pages with everything that may be asked of them, about what lies elsewhere as well."""
    questions = ("", ASKED)
    for view, role, kind, withdrawn in product(("hits", "pack"), ("", "docs"), ("", "knowledge:decision"), ("", "1")):
        yield "/", {"q": ASKED, "view": view, "role": role, "kind": kind, "withdrawn": withdrawn}
    for page, question, as_of, scope in product(PAGES, questions, ("", "1", "9", "30"), ("", "/team/sub", *HIDDEN)):
        yield page, {"q": question, "as_of": as_of, "scope": scope}
    yield "/web/health", {"check": "1"}
    for identity, as_of in product(ids, ("", "9", "30")):
        yield f"/web/object/{identity}", {"as_of": as_of}
        yield f"/web/object/{identity}", {"as_of": as_of, "segment": "seg_0000000000000"}
        yield "/web/graph", {"id": identity, "depth": "3", "as_of": as_of}


def opened(server, key, page, params=None):
    told = urlencode({name: value for name, value in (params or {}).items() if value})
    return server.ask(key, "GET", f"{page}?{told}", headers={"Accept": "text/html"})


@pytest.mark.sampled(1)
@pytest.mark.parametrize("right", RIGHTS)
def test_pages_hide_other_scopes_from_a_scoped_key(server, right):
    server, ids = server
    key = server.key(right, scope="/team")
    elsewhere = [identity for scope in HIDDEN for identity in ids[scope]]
    leaks = []
    for page, params in addresses([*elsewhere, *ids["/team"], *ids["/team/sub"]]):
        answer = opened(server, key, page, params)
        asked = f"{page} {params}"
        hidden = [*(MARKS[scope] for scope in HIDDEN), *elsewhere]
        told = [one for one in hidden if one in answer.text and one not in asked]
        if told or answer.status_code >= 500:
            leaks.append((page, params, answer.status_code, told))
    assert leaks == []


def test_a_key_of_a_scope_finds_there_and_below_what_the_pages_show(server):
    server, ids = server
    key = server.key("read", scope="/team")
    for page, params in (
        ("/", {"q": "lamp"}),
        ("/", {"q": "lamp", "view": "pack"}),
        ("/web/health", {}),
        ("/web/health", {"check": "1"}),
        ("/web/graph", {"q": "lamp"}),
        ("/web/timeline", {}),
        ("/web/work", {}),
    ):
        answer = opened(server, key, page, params)
        assert answer.status_code == 200, page
        assert {scope for scope in MARKS if MARKS[scope] in answer.text} == set(SEEN), (page, params)
    for scope in SEEN:
        for identity in ids[scope]:
            answer = opened(server, key, f"/web/object/{identity}")
            assert (answer.status_code, MARKS[scope] in answer.text) == (200, True)


def test_objects_elsewhere_are_unknown(server):
    server, ids = server
    key = server.key("read", scope="/team")
    unknown = "know:01kefz5b1jt7w2y9a5m3x8q6rv"
    told = opened(server, key, f"/web/object/{unknown}")
    for scope in HIDDEN:
        answer = opened(server, key, f"/web/object/{ids[scope][1]}")
        assert answer.status_code == told.status_code == 404
        assert answer.text.replace(ids[scope][1], unknown) == told.text


@pytest.mark.parametrize("scope", HIDDEN)
def test_a_page_of_another_scope_is_refused(server, scope):
    server, _ = server
    answer = opened(server, server.key("admin", scope="/team"), "/", {"q": "lamp", "scope": scope})
    assert answer.status_code == 403
    assert "for the scope /team" in answer.text


@pytest.mark.parametrize("right", RIGHTS)
def test_pages_of_the_whole_space_stay_closed_to_a_key_of_a_scope(server, right):
    server, _ = server
    key = server.key(right, scope="/team")
    for page in CLOSED:
        assert opened(server, key, page).status_code == 403, page
    form = {"patch_id": "patch:01kefz5b1jt7w2y9a5m3x8q6rv", "decision": "approve"}
    assert server.ask(key, "POST", "/web/review", data=form).status_code == 403


def test_the_pages_say_which_scope_they_show_and_lead_to_no_page_that_is_closed(server):
    server, _ = server
    key = server.key("admin", scope="/team")
    for page in PAGES:
        text = opened(server, key, page).text
        assert "This key shows the scope" in text
        for closed in ("/web/live", "/web/discussions", "/web/wiki", "/web/projects", "/web/review", 'id="review"'):
            assert closed not in text, page
    whole = opened(server, server.key("admin"), "/").text
    assert "This key shows the scope" not in whole
    assert "/web/live" in whole


def test_how_many_passages_the_whole_space_has_is_not_told_to_a_key_of_a_scope(server):
    server, _ = server
    assert "passages" in opened(server, server.key("read"), "/").text
    key = server.key("read", scope="/team")
    for page in ("/", "/web/health"):
        text = opened(server, key, page).text
        assert "passages and" not in text
        assert "passages have" not in text


def test_the_timeline_of_a_scope_goes_back_to_what_happened_there(server):
    server, _ = server
    key = server.key("read", scope="/team/sub")
    boss = server.key("write")
    notes = [{"text": f"Noise {number}.", "origin": f"noise:{number}"} for number in range(260)]
    server.verb(boss, "ingest", mode="source", scope="/noise", input={"items": notes}).raise_for_status()
    text = opened(server, key, "/web/timeline").text
    assert MARKS["/team/sub"] in text
    assert "Noise" not in text
