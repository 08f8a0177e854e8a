import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from urllib.parse import quote, urlencode

import pytest
from rest_parts import running
from web_parts import HOSTILE, RETRIES, SESSIONS, fill

from space_parts import note, open_space
from treering.extensions.exams.exam import ask_all, read_questions
from treering.extensions.exams.results import HISTORY, ExamRun, keep_in_space, report_on
from treering.verbs.lint.erasure import ERASE

VOID = {"meta", "link", "input", "img", "br", "hr"}


def pages(ids):
    """Return the addresses of all pages."""
    return [
        "/",
        "/?q=how+often+is+a+fetch+tried",
        "/?q=retries&view=pack",
        "/?q=sessions&kind=knowledge:decision&scope=/&since=2020-01-01&until=2090-01-01&role=prose&withdrawn=1",
        *(f"/web/object/{ids[name]}" for name in ("stale", "decision", "candidate", "source", "work", "activity")),
        f"/web/object/{ids['source']}?segment={ids['segment']}",
        f"/web/object/{ids['decision']}?as_of=6",
        "/web/health",
        "/web/health?check=1",
        "/web/graph",
        f"/web/graph?id={ids['stale']}&depth=3",
        "/web/graph?q=sessions",
        "/web/timeline",
        "/web/timeline?as_of=8",
        "/web/work",
        "/web/discussions",
        "/web/discussions?q=tea",
        "/web/discussions/tea?q=green",
        "/web/projects",
        "/web/exams",
        "/web/live",
    ]


class Outline(HTMLParser):
    """Notes the tags and attributes of a page, and checks that tags are closed in their order."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.handlers, self.addresses = [], [], [], []
        self.feed(text)
        assert not self.open, self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attributes:
            if name.startswith("on") or name == "style":
                self.handlers.append((tag, name, value))
            if name in {"href", "src", "action", "hx-get"}:
                self.addresses.append(value)

    def handle_startendtag(self, tag, attributes):
        self.handle_starttag(tag, attributes)
        if tag not in VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, (tag, self.getpos())


def shown(client, path):
    answer = client.get(path)
    assert answer.status_code == 200, (path, answer.text[:2000])
    return answer.text


def test_every_page_is_whole_and_asks_for_nothing_from_elsewhere(site):
    client, ids = site

    for path in pages(ids):
        answer = client.get(path)
        outline = Outline(shown(client, path))
        assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';"), path
        assert answer.headers["x-content-type-options"] == "nosniff", path
        assert all(re.match(r"/(?!/)|#", one) for one in outline.addresses), (path, outline.addresses)
        assert "The same on the command line" in answer.text, path


@pytest.mark.parametrize(("path", "start"), [("/web", "/"), ("/web/", "/"), ("/web?q=tea", "/?q=tea")])
def test_folder_of_the_pages_leads_to_the_start_page(site, path, start):
    answer = site[0].get(path)

    assert (answer.status_code, answer.headers["location"]) == (303, start)


def test_answer_states_the_days_it_understood(site):
    text = shown(site[0], "/?q=how+often+was+a+fetch+tried+yesterday")

    assert re.search(r"&#34;yesterday&#34; is \d{4}-\d\d-\d\d \(", text)


def test_markup_in_any_stored_text_stays_text(hostile_site):
    client, ids = hostile_site
    told = 0

    for path in pages(ids):
        text = shown(client, path)
        outline = Outline(text)
        assert outline.tags.count("script") == 2, path  # the page's own
        assert not outline.handlers, (path, outline.handlers)
        assert "49" not in re.sub(r"[0-9a-z:_-]{8,}", "", text) or "{{7*7}}" in text, path
        assert "\u202e" not in text, path
        told += "&lt;script&gt;alert(1)" in text
    assert told >= 15


def test_what_is_asked_stays_text(site):
    client, _ = site

    for path in ("/", "/web/graph", "/web/discussions"):
        for name in ("q", "scope", "since", "kind", "role", "id", "view", "as_of"):
            answer = client.get(path, params={name: HOSTILE})
            assert "<script>alert" not in answer.text, (path, name)
            assert Outline(answer.text).handlers == [], (path, name)
            assert answer.headers["content-type"].startswith("text/html"), (path, name)


def test_start_page_shows_the_brief_until_something_is_asked(site):
    client, _ = site
    assert "What to know before starting" in client.get("/").text
    assert "What to know before starting" not in client.get("/?q=retries").text


def test_brief_on_the_start_page_links_its_entries(site):
    client, _ = site
    report = client.post("/v1/wiki/query", json={"mode": "brief"}).json()
    entries = [one for section in report["sections"] for one in section["entries"]]
    assert entries
    page = client.get("/").text
    assert all(f"/object/{one['id']}" in page for one in entries)


def test_a_hit_explains_why_it_is_there_and_marks_the_words_of_the_question(site):
    client, _ = site
    text = shown(client, "/?q=how+often+is+a+fetch+tried")

    assert "<mark>fetch</mark>" in text
    assert "<mark>tried</mark>" in text
    assert "Why this result" in text
    assert "It contains these words of the question: “fetch”, “tried”" in text


def test_filters_narrow_what_is_found(site):
    client, ids = site

    assert ids["decision"] in shown(client, "/?q=sessions&kind=knowledge:decision")
    assert ids["source"] not in shown(client, "/?q=sessions&kind=knowledge:decision")
    assert "0 hits" in shown(client, "/?q=sessions&until=2001-01-01")
    assert "0 hits" in shown(client, "/?q=sessions&role=changelog")
    assert client.get("/?q=sessions&kind=nonsense").status_code == 422


def test_the_context_pack_is_what_an_agent_gets_with_its_tokens(site):
    client, _ = site
    pack = client.post("/v1/wiki/query", json={"input": "retries", "options": {"descend": True}}).json()
    text = shown(client, "/?q=retries&view=pack")

    assert f"about {pack['pack']['budget']['used_tokens']} of 4000 tokens" in text
    assert 'data-copies="pack"' in text
    assert "&lt;&lt;treering:recalled" in text


def test_changed_evidence_is_next_to_the_current_source(site):
    client, ids = site
    text = shown(client, f"/web/object/{ids['stale']}")

    assert "As cited" in text
    assert "<del>three</del><ins>five</ins>" in text
    assert re.search(r"badge good.>same<", shown(client, f"/web/object/{ids['decision']}"))


def test_evidence_that_moved_or_went_is_reported(tmp_path):
    from space_parts import decide, note, open_space

    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        kept = "Kept word for word in one place of the text."
        ref = note(space, f"# A\n\n{kept}\n", origin="a.md", content_type="markdown")
        moved = decide(space, "Moved", ref)
        gone = decide(space, "Gone", note(space, "Only about apples and pears.", origin="b.md"))
        note(space, f"# New\n\nFirst this.\n\n# A\n\n{kept}\n", origin="a.md", content_type="markdown")
        note(space, "Trains leave at noon from platform nine.", origin="b.md")
    with running(tmp_path) as client:
        assert ">moved<" in shown(client, f"/web/object/{moved}")
        assert ">gone<" in shown(client, f"/web/object/{gone}")


def test_a_passage_of_a_web_page_is_linked_to_where_it_is_there(tmp_path):
    from space_parts import decide, open_space

    saved = "<!-- saved from url=(0024)https://example.org/wait -->\n<h1>Waiting</h1>"
    (tmp_path / "page.html").write_text(f"{saved}<p>A client waits a minute, at most.</p>")
    link = "https://example.org/wait#:~:text=A%20client%20waits%20a%20minute%2C%20at%20most."
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        space.ingest("path", input={"path": str(tmp_path / "page.html")}, scope="/")
        [hit] = space.query("search", input={"text": "how long does a client wait"}, scope="/").hits
        assert hit.place == link
        pack = space.query("context", input={"task": "how long does a client wait"}, scope="/").pack
        assert [one.place for one in pack.citations] == [link]
        decision = decide(space, "Wait a minute", {"source_id": hit.source_id, "segment_id": hit.segment_id})
    with running(tmp_path) as client:
        for path in (
            "/?q=how+long+does+a+client+wait",
            f"/web/object/{decision}",
            f"/web/object/{hit.source_id}?segment={hit.segment_id}",
        ):
            assert f'href="{link}" rel="noreferrer nofollow"' in shown(client, path), path


@pytest.mark.parametrize(
    "place",
    ["javascript:alert(1)#:~:text=x", "https://x.org/: text (offset 1)", "https://x.org/a b#:~:text=x",
     "docs/a.md#L1-L2", 'https://x.org/"><b>#:~:text=\u202e', "https://x.org/#page=2"],
)  # fmt: skip
def test_no_other_place_becomes_a_link(place):
    from treering.extensions.server.web.view import _environment

    assert not _environment().tests["passage_link"](place)


def test_versions_tell_what_changed_word_by_word(site):
    client, ids = site
    text = shown(client, f"/web/object/{ids['decision']}")

    assert "Revision 2" in text
    assert re.search(r"Sessions need no <(ins|del)>", text)
    assert "Said more plainly" in text


def test_an_earlier_moment_shows_what_was_then(site):
    client, ids = site
    now, then = (shown(client, f"/web/object/{ids['stale']}{at}") for at in ("", "?as_of=6"))

    assert re.search(r"badge bad.>stale<", now)
    assert not re.search(r"badge bad.>stale<", then)
    assert f"/web/graph?as_of=6&amp;id={ids['stale']}" in then  # links stay at that moment


def test_health_lists_what_needs_someone_with_the_command_that_mends_it(site):
    client, ids = site
    text = shown(client, "/web/health")

    for name in ("stale", "expired", "candidate"):
        assert ids[name] in text, name
    assert "treering lint repair --apply" in text
    assert "server port 8080" in text
    assert "These contradict each other" in shown(client, "/web/health?check=1")


def test_graph_of_an_unknown_question_shows_no_answers(site):
    text = shown(site[0], "/web/graph?q=Which+xylophone+did+Cleopatra+play")
    assert "is near" in text
    assert "answers" not in text.partition("As a list")[2]


def test_the_graph_says_the_same_as_a_list(site):
    client, ids = site
    text = shown(client, f"/web/graph?id={ids['decision']}")
    drawing, _, listed = text.partition("As a list")

    assert f'href="/web/graph?id={ids["source"]}"' in drawing
    assert f'href="/web/object/{ids["source"]}"' in listed


def test_three_hundred_nodes_are_drawn_without_one_label_over_another():
    from treering.extensions.server.web.pages.graph import LABEL, ROW, GraphNode, draw_graph

    centre = GraphNode("0", "centre", "node")
    others = [
        GraphNode(str(n), f"node {n}", "source", via=str(n // 3), inward=n % 2 == 0 and n < 3) for n in range(1, 300)
    ]
    drawing = draw_graph(centre, others)
    places = sorted((one.x, one.y) for one in drawing.nodes)

    assert len(places) == 300
    assert len(drawing.edges) == 299
    for (x, y), (other_x, other_y) in pairwise(places):
        assert x != other_x or other_y - y >= ROW - 1
    assert max(x for x, _ in places) + LABEL <= drawing.width


def test_discussions_show_messages_and_what_answers(site):
    client, _ = site

    assert '<a href="/web/discussions/tea">' in shown(client, "/web/discussions")
    text = shown(client, "/web/discussions/tea?q=green")
    assert "24 messages" in text
    assert "<mark>green</mark>" in text
    assert client.get("/web/discussions/nobody").status_code == 404


def test_a_project_has_the_same_pages(site):
    client, _ = site

    assert '<a href="/web/projects/acme">acme</a>' in shown(client, "/web/projects")
    assert "Kept for <mark>acme</mark>" in shown(client, "/web/projects/acme?q=acme")
    assert "Project <strong>acme</strong>" in shown(client, "/web/projects/acme/health")
    assert client.get("/web/projects/nobody").status_code == 404


def test_an_empty_space_says_how_to_begin(tmp_path):
    with running(tmp_path) as client:
        for path in ("/", "/web/health", "/web/timeline", "/web/discussions", "/web/live"):
            assert "treering ingest ." in shown(client, path), path
        assert not (tmp_path / "space.db").exists()


def test_the_pages_of_a_space_with_one_change_are_shown(tmp_path):
    with running(tmp_path) as client:
        client.post("/v1/wiki/ingest", json={"mode": "source", "input": {"items": [{"text": "One."}]}})
        for path in ("/", "/?q=one", "/web/health", "/web/timeline", "/web/live", "/web/graph", "/web/work"):
            Outline(shown(client, path))


def test_what_is_not_there_is_reported_as_a_page(site):
    client, _ = site

    for path, status in [
        ("/web/nope", 404),
        ("/web/object/know:01m83nygk5k69xpxe3h7bxmdf1", 404),
        ("/?q=a&scope=nope", 422),
        ("/web/timeline?as_of=soon", 422),
        ("/web/graph?id=nothing-called-so", 404),
    ]:
        answer = client.get(path)
        assert (answer.status_code, "This page cannot be shown" in answer.text) == (status, True), path
        Outline(answer.text)


@pytest.mark.parametrize("decision", ["approve", "reject"])
def test_a_waiting_patch_is_decided_on_the_page(tmp_path, decision):
    ids = fill(f"sqlite:{tmp_path / 'space.db'}")
    with running(tmp_path, allow=frozenset({"review"})) as client:
        page = shown(client, "/web/health")
        assert "One pool per tenant" in page
        form = {"token": token_in(page), "patch_id": ids["tenant"], "decision": decision, "reason": "Not needed"}
        answer = client.post("/web/review", data=form, headers={"Origin": origin(client)})
        left = client.post("/v1/review/list", json={}).json()

        assert (answer.status_code, answer.headers["location"]) == (
            303,
            f"/web/health?done={decision}" + "ed"[decision[-1] == "e" :],
        )
        assert [one["id"] for one in left] == [ids["region"]]


def token_in(page):
    return re.search(r'name="token" value="([^"]+)"', page)[1]


def origin(client):
    return str(client.base_url).rstrip("/")


@pytest.mark.parametrize(
    ("headers", "changes"),
    [
        ({"Origin": "http://evil.example"}, {}),
        ({"Origin": "null"}, {}),
        ({}, {}),
        ({"Origin": "own"}, {"token": "wrong"}),
        ({"Origin": "own"}, {"token": None}),
        ({"Origin": "own", "Content-Type": "text/plain"}, {}),
        ({"Origin": "own", "Content-Type": "application/json"}, {}),
    ],
)
def test_a_decision_that_no_page_of_this_server_sent_is_refused(site, headers, changes):
    client, ids = site
    form = {"token": token_in(shown(client, "/web/health")), "patch_id": ids["tenant"], "decision": "reject", **changes}
    told = {name: origin(client) if value == "own" else value for name, value in headers.items()}
    answer = client.post("/web/review", data={k: v for k, v in form.items() if v is not None}, headers=told)

    assert answer.status_code in {403, 422}
    assert ids["tenant"] in {one["id"] for one in client.post("/v1/review/list", json={}).json()}


def test_without_leave_to_review_the_page_shows_the_commands_instead(hostile_site):
    client, ids = hostile_site
    page = shown(client, "/web/health")
    form = {"token": "", "patch_id": ids["tenant"], "decision": "approve"}

    assert "<form" not in page
    assert f"treering review apply {ids['tenant']}" in page
    assert client.post("/web/review", data=form, headers={"Origin": origin(client)}).status_code == 403


ASKED_OF = "/?q=how+often+is+a+failed+fetch+tried"


def mark(client, page, verdict, number=0, **changes):
    """Press a button of the page of an answer; return what the server says and the place that was marked."""
    place = re.findall(rf'name="mark" value="{verdict} ([^"]+)"', page)[number]
    hidden = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page))
    form = {**hidden, "mark": f"{verdict} {place}", **changes}
    (action,) = re.findall(r'id="feedback" method="post" action="([^"]+)"', page)
    return client.post(action, data=form, headers={"Origin": origin(client)}), place


@pytest.mark.parametrize(("allow", "channel"), [({"review"}, "user"), ((), "agent")])
def test_a_hit_is_marked_right_or_wrong_on_the_page_and_it_is_taken_back(tmp_path, allow, channel):
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        note(space, RETRIES, origin="docs/retries.md", title="Retries")
        note(space, "A fetch is tried in the morning.", origin="docs/other.md", title="Other")
    with running(tmp_path, allow=frozenset(allow)) as client:

        def verdicts():
            return client.post("/v1/feedback/status", json={}).json()["verdicts"]

        page = shown(client, ASKED_OF)
        assert "Remove mark" not in page
        assert ("as an agent" in page) == (channel == "agent")
        answer, place = mark(client, page, "right", number=1)
        assert answer.status_code == 303
        assert answer.headers["location"].startswith(f"{ASKED_OF}&said=right#")
        assert verdicts() == {f"right by {channel}": 1}
        page = shown(client, answer.headers["location"])
        assert f'id="{answer.headers["location"].partition("#")[2]}"' in page
        assert "Marked as right." in page
        assert page.count("marked right") == 1
        assert f'value="neither {place}"' in page
        answer, _ = mark(client, page, "wrong", number=[*re.findall(r'value="wrong ([^"]+)"', page)].index(place))
        assert verdicts() == {f"wrong by {channel}": 1}
        answer, _ = mark(client, shown(client, answer.headers["location"]), "neither")
        assert verdicts() == {}
        assert "The mark was removed." in shown(client, answer.headers["location"])


@pytest.mark.parametrize(("allow", "channel"), [({"review"}, "user"), ((), "agent")])
def test_what_a_project_answered_is_marked_in_the_space_of_the_project(tmp_path, allow, channel):
    asked = "/web/projects/acme?q=fetch"
    with running(tmp_path, allow=frozenset(allow)) as client:
        documents = {"docs": ["A fetch is tried three times.", "A fetch is tried in the morning."]}
        client.post("/api/projects/acme/memory/index", json=documents).raise_for_status()
        page = shown(client, asked)
        assert ("as an agent" in page) == (channel == "agent")
        answer, place = mark(client, page, "right")
        assert answer.status_code == 303
        assert answer.headers["location"].startswith(f"{asked}&said=right#")
        page = shown(client, answer.headers["location"])
        assert "Marked as right." in page
        assert f'value="neither {place}"' in page
        with open_space(f"sqlite:{next(tmp_path.rglob('acme*.db'))}") as space:
            assert dict(space.perform("feedback status").verdicts) == {f"right by {channel}": 1}
        assert not (tmp_path / "space.db").exists()
        answer, _ = mark(client, shown(client, f"{asked}&view=pack"), "wrong")
        assert answer.headers["location"].startswith(f"{asked}&view=pack&said=wrong#")
        assert mark(client, page, "right", token="")[0].status_code == 403


def test_what_a_context_pack_is_made_of_is_marked_on_the_page_of_the_pack(tmp_path):
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        note(space, RETRIES, origin="docs/retries.md", title="Retries")
        note(space, "A fetch is tried in the morning.", origin="docs/other.md", title="Other")
    with running(tmp_path, allow=frozenset(["review"])) as client:
        asked = f"{ASKED_OF}&view=pack"
        page = shown(client, asked)
        assert "Items of this pack" in page
        answer, place = mark(client, page, "wrong")
        assert answer.headers["location"].startswith(f"{asked}&said=wrong#")
        assert client.post("/v1/feedback/status", json={}).json()["verdicts"] == {"wrong by user": 1}
        page = shown(client, answer.headers["location"])
        assert page.count("marked wrong") == 1
        assert f'value="neither {place}"' in page
        assert 'aria-label="Context pack"' in page
        mark(client, page, "neither")
        assert client.post("/v1/feedback/status", json={}).json()["verdicts"] == {}


@pytest.mark.parametrize(
    ("headers", "changes", "status"),
    [
        ({"Origin": "http://evil.example"}, {}, 403),
        ({"Origin": "null"}, {}, 403),
        ({}, {}, 403),
        ({"Origin": "own"}, {"token": "wrong"}, 403),
        ({"Origin": "own"}, {"token": ""}, 403),
        ({"Origin": "own", "Content-Type": "application/json"}, {}, 422),
        ({"Origin": "own"}, {"mark": "loved src:01kefz3m8qd5v2n7x4t9r6w0ya"}, 422),
        ({"Origin": "own"}, {"mark": "right src:01kefz3m8qd5v2n7x4t9r6w0ya"}, 404),
        ({"Origin": "own"}, {"mark": "right ../../x"}, 422),
        ({"Origin": "own"}, {"mark": "right"}, 422),
        ({"Origin": "own"}, {"answer": "ans:AAAA"}, 422),
        ({"Origin": "own"}, {"answer": ""}, 422),
    ],
)
def test_a_verdict_that_no_page_of_this_server_sent_or_of_nothing_is_refused(site, headers, changes, status):
    client, _ = site
    page = shown(client, "/?q=sessions")
    hidden = dict(re.findall(r'type="hidden" name="([^"]+)" value="([^"]*)"', page))
    place = re.search(r'value="right ([^"]+)"', page)[1]
    told = {name: origin(client) if value == "own" else value for name, value in headers.items()}
    answer = client.post("/web/feedback", data={**hidden, "mark": f"right {place}", **changes}, headers=told)

    assert answer.status_code == status
    assert client.post("/v1/feedback/status", json={}).json()["verdicts"] == {}


def test_what_leads_back_from_a_verdict_stays_on_this_server_and_is_escaped(tmp_path, hostile_site):
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        note(space, f"{RETRIES} {HOSTILE}", origin=f"docs/{HOSTILE}", title=f"Retries {HOSTILE}")
    with running(tmp_path) as client:
        page = shown(client, f"/?{urlencode({'q': 'retries ' + HOSTILE})}")
        answer, _ = mark(client, page, "right", q=f"//evil.example/ retries {HOSTILE}", said="<b>x")
        assert answer.headers["location"].startswith("/?q=//evil.example/+retries+%3Cscript")
        page = shown(client, answer.headers["location"].replace("said=right", f"said={quote(HOSTILE)}"))
        assert "Marked as" not in page
        assert 'name="mark" value="right' in page
        assert HOSTILE not in page
        assert Outline(page).handlers == []
    # There no agent may write without review, and nobody may decide as a person.
    assert "/web/feedback" not in shown(hostile_site[0], "/?q=retries")


def test_with_feedback_switched_off_a_mark_is_kept_and_said_not_to_count(tmp_path):
    with open_space(f"sqlite:{tmp_path / 'space.db'}", channel="user") as space:
        note(space, RETRIES, origin="docs/retries.md", title="Retries")
        space.perform("feedback off")
    with running(tmp_path) as client:
        answer, _ = mark(client, shown(client, ASKED_OF), "right")
        page = shown(client, answer.headers["location"])
        assert "marked right" in page
        assert "does not count" in page


def test_what_is_stored_and_recalled_is_streamed_as_escaped_lines(site):
    client, _ = site
    place = re.search(r"after=(\d+-\d+)", shown(client, "/web/live"))[1]
    client.post("/v1/wiki/query", json={"mode": "search", "input": {"text": f"asked {HOSTILE}"}})
    seen = []
    with client.stream("GET", f"/web/live/events?after={place}") as stream:
        assert stream.headers["content-type"].startswith("text/event-stream")
        for line in stream.iter_lines():
            seen.append(line)
            if line.startswith("data:"):
                break

    assert "event: recalled" in seen
    assert "<script" not in seen[-1]
    assert "asked &lt;script&gt;alert(1)" in seen[-1]


def test_a_stored_object_is_streamed(tmp_path):
    with running(tmp_path) as client:
        give = {"mode": "source", "input": {"items": [{"text": "One.", "title": "First"}]}}
        client.post("/v1/wiki/ingest", json=give)
        give["input"]["items"][0] |= {"text": "Two.", "title": "Second <b>"}
        client.post("/v1/wiki/ingest", json=give)
        with client.stream("GET", "/web/live/events?after=1-0") as stream:
            line = next(line for line in stream.iter_lines() if line.startswith("data:") and "Second" in line)

    assert "Second &lt;b&gt;" in line


def examine(folder, questions, before=None):
    """Ask the questions of an exam, keep the run in the space of a folder, and return it."""
    file = folder / f"exam{HOSTILE[:3]}.yaml"
    file.write_text(json.dumps(questions), encoding="utf-8")
    with open_space(f"sqlite:{folder / 'space.db'}", channel="user") as space:
        answers = ask_all(space, read_questions(file), semantic=False, told=lambda *_: None)
        run = ExamRun(at=space.engine.clock.now(), sequence=space.engine.ledger.sequence(), answers=answers)
        keep_in_space(space.engine, file.name, report_on(run, before, {}))
    return run


def test_the_page_of_exams_shows_runs_and_per_question_what_was_found_and_what_is_missing(tmp_path):
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        source = note(space, RETRIES, origin="docs/retries.md", title="Retries")["source_id"]
        note(space, "A fetch is tried.", origin="docs/old.md", title="Old")
    questions = [
        {"ask": f"How often is a failed fetch tried? {HOSTILE}", "must": [source, f"{HOSTILE}.md"], "id": "a<b>"},
        {"ask": "What is fetched when it is tried?", "must": ["docs/retries.md"], "must_not": ["docs/old.md"]},
        {"ask": "What is the zebrafish genome assembly?", "refuse": True, "id": HOSTILE},
    ]
    run = examine(tmp_path, questions[:2])
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        note(space, "Nothing.", origin="docs/old.md", title="Nothing")
    examine(tmp_path, questions, run)
    with running(tmp_path) as client:
        newest, first = shown(client, "/web/exams?show=all"), shown(client, "/web/exams?run=1&show=all")
        changed = shown(client, "/web/exams?show=changed")
        wrong = shown(client, "/web/exams")
        for page in (newest, first, changed, wrong):
            assert HOSTILE not in page
            assert Outline(page).handlers == []
        assert newest.count('<article class="finding">') == 3
        assert "missing: not among the first 50" in newest
        assert re.search(rf"{source}</a> <span class=\"meta\">found at 1, by words", newest)
        assert "must not be found, and is at 1" in first
        assert "must not be found" not in newest
        assert "2 of 3 questions right" in newest
        assert "0 of 2 questions right" in first
        assert "zebrafish" in newest
        assert "zebrafish" not in first
        assert wrong.count('<article class="finding">') == 1
        assert "docs/old.md" not in wrong
        assert re.search(
            r"<th scope=\"row\">clean</th><td>100.0</td><td>100.0 to 100.0</td><td>3</td><td><span", newest
        )
        assert "+50.0 [+0.0, +100.0]" in newest
        assert client.get("/web/exams?run=7").status_code == 404
        assert client.get("/web/exams?run=x").status_code == 422
        assert client.get("/web/exams?from=900").status_code == 200
        found = client.post("/v1/wiki/query", json={"mode": "search", "input": {"text": "zebrafish genome"}}).json()
        assert "zebrafish" not in json.dumps(found["hits"])


def test_the_space_keeps_the_last_runs_and_an_erasure_takes_what_they_tell_of_what_is_erased(tmp_path):
    with open_space(f"sqlite:{tmp_path / 'space.db'}", channel="user") as space:
        source = note(space, RETRIES, origin="docs/retries.md", title="Retries")["source_id"]
        other = note(space, SESSIONS, origin="docs/sessions.md", title="Sessions")["source_id"]
    for number in range(23):
        examine(tmp_path, [{"ask": f"How often is a fetch tried? {number}", "must": [other if number % 2 else source]}])
    with open_space(f"sqlite:{tmp_path / 'space.db'}", channel="user") as space:
        told = space.perform(HISTORY, input={"run": 21})
        assert [one.number for one in told.runs] == [*range(23, 3, -1)]
        assert told.answers[0].ask == "How often is a fetch tried? 20"
        space.perform(ERASE, input={"ids": [source]})
        assert space.engine.jobs.remains([source]) == 0
    with running(tmp_path) as client:
        assert "1 of the 1 questions are gone" in shown(client, "/web/exams?run=21")
        assert other in shown(client, "/web/exams?run=22&show=all")


def test_the_page_of_exams_says_how_to_make_one_where_there_is_none(site):
    page = shown(site[0], "/web/exams")
    assert "No exam has been run in this space yet" in page
    assert "treering exam make" in page
    assert "treering exam run" in page


def test_files_of_the_page_are_served_and_none_beside_them(site):
    client, _ = site

    assert client.get("/web/static/htmx.min.js").headers["content-type"].startswith("text/javascript")
    assert client.get("/web/static/../site.py").status_code == 404
    assert client.get("/web/static/%2e%2e/site.py").status_code == 404
