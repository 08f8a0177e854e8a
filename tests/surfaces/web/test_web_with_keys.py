"""The pages of a server with keys: who signed in sees what the key opens, and nobody else sees anything."""

import re
from datetime import UTC, datetime

import httpx
import pytest
from key_parts import RIGHTS, guarded
from web_parts import fill

from space_parts import open_space

WORD = "heliotrope"
OWN = (
    *("/", "/?q=lamp", "/web/health", "/web/graph", "/web/timeline", "/web/work", "/web/discussions", "/web/live"),
    *("/web/live/events", "/web/object/{source}", "/web/discussions/tea", "/web/nowhere", "/web//health"),
)
OF_PROJECT = ("/web/projects/acme", "/web/projects/acme/health", "/web/projects/acme/work", "/web/projects/acme/")
HTML = {"Accept": "text/html"}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("guarded-site")
    ids = fill(f"sqlite:{folder / 'space.db'}")
    with guarded(folder) as server:
        note = {"text": f"The lamp is {WORD}.", "origin": "note:lamp"}
        server.verb(server.key("write"), "ingest", mode="source", input={"items": [note]}).raise_for_status()
        asked = {"docs": [f"The {WORD} of acme."]}
        server.ask(server.key("write", project="acme"), "POST", "/api/projects/acme/memory/index", json=asked)
        yield server, ids


@pytest.fixture
def browser(server):
    """A browser: it keeps cookies, asks for HTML, and says from which page it sends a form."""
    own = str(server[0].client.base_url).rstrip("/")
    with httpx.Client(base_url=own, headers={"Origin": own, **HTML}, trust_env=False, timeout=60) as client:
        yield client


def signed_in(browser, key):
    entered = browser.post("/sign-in", data={"key": key})
    assert entered.status_code == 303
    return entered.headers["location"]


def shown(client, path, **options):
    """Return status and text of a page; of a stream that does not end, the status alone."""
    with client.stream("GET", path, **options) as answer:
        return answer.status_code, "" if path.endswith("/events") else answer.read().decode()


def test_pages_need_a_valid_key(server):
    server, ids = server
    pages = [path.format(**ids) for path in (*OWN, *OF_PROJECT, "/web/projects")]
    for key in server.dead_keys().values():
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        for path in pages:
            status, text = shown(server.client, path, headers=headers)
            assert (status, WORD in text) == (401, False), path
    for path in pages:
        assert shown(server.client, path, headers=HTML)[0] == 303


@pytest.mark.parametrize("right", RIGHTS)
def test_a_key_of_the_space_opens_its_pages_and_none_of_a_project(server, right):
    server, ids = server
    headers = {"Authorization": f"Bearer {server.key(right)}"}
    for path in OWN:
        status, _ = shown(server.client, path.format(**ids), headers=headers)
        assert status == (404 if "nowhere" in path or "//" in path else 200), path
    for path in OF_PROJECT:
        status, text = shown(server.client, path, headers=headers)
        assert (status, WORD in text) == (403, False)
    status, text = shown(server.client, "/web/projects", headers=headers)
    assert (status, "acme" in text) == (200, False)


@pytest.mark.parametrize("options", [{"space": "other.db"}, {"project": "other"}])
def test_a_key_of_another_space_opens_no_page(server, options):
    server, ids = server
    headers = {"Authorization": f"Bearer {server.key('admin', **options)}"}
    for path in (*OWN, *OF_PROJECT):
        status, text = shown(server.client, path.format(**ids), headers=headers)
        assert (status, WORD in text) == (403, False), path


def test_a_key_of_a_project_leads_to_its_pages_and_opens_no_others(server, browser):
    server, ids = server
    assert signed_in(browser, server.key("read", project="acme")) == "/web/projects"
    assert "acme" in browser.get("/web/projects").text
    assert browser.get("/web/projects/acme").status_code == 200
    refused = browser.get("/")
    assert refused.status_code == 403
    assert "This page cannot be shown" in refused.text
    assert browser.get(f"/web/object/{ids['source']}").status_code == 403


def test_who_signed_in_sees_the_name_of_the_key_and_can_sign_out(server, browser):
    server, _ = server
    assert browser.get("/").headers["location"] == "/sign-in"
    assert signed_in(browser, server.key("read", name="ada at home")) == "/"
    page = browser.get("/").text
    assert "ada at home" in page
    assert "Sign out" in page
    browser.post("/sign-out")
    assert browser.get("/").headers["location"] == "/sign-in"


def test_a_key_that_is_revoked_is_out_at_once(server, browser):
    server, _ = server
    key = server.key("read")
    signed_in(browser, key)
    assert browser.get("/").status_code == 200
    server.keys.revoke(key.split("_")[1], at=datetime.now(UTC))
    assert browser.get("/").status_code == 303


def test_a_key_that_is_revoked_sees_no_more_of_what_comes_live(server, browser):
    server, _ = server
    key = server.key("read")
    signed_in(browser, key)
    with browser.stream("GET", "/web/live/events") as watching:
        lines = watching.iter_lines()
        next(lines)
        server.keys.revoke(key.split("_")[1], at=datetime.now(UTC))
        note = {"text": "Told later: vermilion.", "origin": "note:later"}
        server.verb(server.key("write"), "ingest", mode="source", input={"items": [note]}).raise_for_status()
        assert not any("vermilion" in line or "note:later" in line for line in lines)


def test_wrong_key_is_reported_without_sign_in(server, browser):
    refused = browser.post("/sign-in", data={"key": "trk_wrong"})
    assert refused.status_code == 401
    assert 'role="alert"' in refused.text
    assert "set-cookie" not in refused.headers


@pytest.mark.parametrize(("right", "decides"), [("read", False), ("write", False), ("review", True), ("admin", True)])
def test_only_who_may_review_decides_on_the_page(server, browser, right, decides):
    server, _ = server
    boss = {"Authorization": f"Bearer {server.key('admin')}"}
    # It is the same for all who are signed in: what protects a decision is the right, and that the form is ours.
    token = server.client.get("/web/health", headers=boss).text.partition('name="token" value="')[2].partition('"')[0]
    signed_in(browser, server.key(right))
    assert ('action="/web/review"' in browser.get("/web/health").text) == decides
    form = {"token": token, "patch_id": "patch:01kefz5b1jt7w2y9a5m3x8q6rv", "decision": "approve"}
    answer = browser.post("/web/review", data=form)
    assert answer.status_code == (404 if decides else 403)


@pytest.mark.parametrize(("right", "may"), [("read", False), ("write", True), ("admin", True)])
def test_who_may_write_in_a_project_marks_its_answers_and_nobody_else_does(server, browser, right, may):
    server, _ = server
    asked = "/web/projects/acme?q=acme"
    signed_in(browser, server.key(right, project="acme"))
    page = browser.get(asked).text
    assert ('action="/web/projects/acme/feedback"' in page) == may
    if not may:
        page = server.client.get(asked, headers={"Authorization": f"Bearer {server.key('write', project='acme')}"}).text
    fields = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page))
    mark = re.search(r'name="mark" value="(right [^"]+)"', page)[1]
    told = {**fields, "mark": mark}
    assert browser.post("/web/projects/acme/feedback", data=told).status_code == (303 if may else 403)
    assert ("marked right" in browser.get(asked).text) == may
    assert browser.post("/web/feedback", data=told).status_code == 403
    signed_in(browser, server.key("admin"))
    assert browser.post("/web/projects/acme/feedback", data=told).status_code == 403


@pytest.fixture
def plain(tmp_path):
    """A server whose agents write directly, and a browser."""
    with guarded(tmp_path) as server:
        own = str(server.client.base_url).rstrip("/")
        with httpx.Client(base_url=own, headers={"Origin": own, **HTML}, trust_env=False, timeout=60) as client:
            yield server, client


@pytest.mark.parametrize(
    ("right", "options", "told"),
    [
        ("read", {}, None),
        ("write", {"scope": "/team"}, "right by agent"),
        ("write", {"channel": "user", "scope": "/team"}, "right by user"),
        ("review", {"scope": "/team"}, "right by user"),
    ],
)
def test_who_may_write_marks_hits_on_the_page_in_the_scope_of_the_key(plain, right, options, told):
    server, browser = plain
    note = {"text": f"The lamp of the team is {WORD}.", "origin": "note:team-lamp"}
    server.verb(server.key("admin"), "ingest", mode="source", scope="/team", input={"items": [note]}).raise_for_status()
    key = server.key(right, **options)
    signed_in(browser, key)
    page = browser.get("/?q=lamp").text
    assert ("/web/feedback" in page) == (told is not None)
    boss = {"Authorization": f"Bearer {server.key('admin')}"}
    if told is None:
        page = server.client.get("/?q=lamp", headers=boss).text
    fields = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page))
    mark = re.search(r'name="mark" value="(right [^"]+)"', page)[1]
    answer = browser.post("/web/feedback", data={**fields, "mark": mark})
    if told is None:
        assert (answer.status_code, verdicts(server)) == (403, {})
        return
    assert (answer.status_code, verdicts(server)) == (303, {told: 1})
    assert browser.post("/web/feedback", data={**fields, "mark": mark, "scope": "/"}).status_code == 403
    marked = browser.get(answer.headers["location"]).text
    taken_back = re.search(r'name="mark" value="(neither [^"]+)"', marked)[1]
    assert browser.post("/web/feedback", data={**fields, "mark": taken_back}).status_code == 303
    assert verdicts(server) == {}


def verdicts(server):
    with open_space(f"sqlite:{server.folder / 'space.db'}") as space:
        return space.perform("feedback status", scope="/team").verdicts


def test_the_pages_files_are_for_everybody_and_hold_nothing_of_the_space(server):
    server, _ = server
    assert server.client.get("/web/static/page.css").status_code == 200
    assert server.client.get("/web/static/../../v1/wiki/query").status_code in {401, 404, 405}
