"""What the pages say, in words a person reads: reasons, events, relations, commands."""

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from html import unescape
from shlex import split

import pytest
from rest_parts import running

from space_parts import decide, note, open_space, task
from treering.extensions.server.web.pages.ask import reasons
from treering.extensions.server.web.pages.inspect_object import WordChange, folded, word_changes
from treering.extensions.server.web.pages.timeline import HEIGHT, draw_timeline, timeline
from treering.extensions.server.web.view import PageView, is_code_place, told_event
from treering.surfaces.cli import run
from treering.surfaces.python.space import Space
from treering.verbs.envelope import Envelope
from treering.verbs.query.recent import RecentChange
from treering.verbs.shown_hits import ShownHit

CODE = '''def bounded(size):
    """Refuse what is too large."""
    if size < 0:
        return None
    if size > 64_000:
        raise ValueError("too large")
    first = size // 2
    second = size - first
    third = first + second
    return first, second, third
'''


def shown(client, path):
    answer = client.get(path)
    assert answer.status_code == 200, (path, answer.text[:2000])
    return answer.text


def hit_with(explain, **changes):
    """Return a hit that a search gave with these explanations."""
    given = {
        "origin": "src/client.py", "title": "src/client.py", "text": "def retry_fetch():\n    # Retries are bounded.",
        "score": 0.844287, "source_id": "src:1", "segment_id": "seg_1", "object_id": "src:1", "type": "source",
        "kind": "file", "status": "active", "scope": "/", "heading": "retry_fetch",
        "place": "src/client.py#L1-L2", "updated_at": datetime(2026, 1, 2, tzinfo=UTC), "channel": "adapter",
        "trust": "high",
    }  # fmt: skip
    arms = {name: {"rank": rank, "raw": raw, "normalised": raw} for name, (rank, raw) in explain.pop("arms").items()}
    return ShownHit(**{**given, **changes}, explain={"arms": arms, **explain})


@pytest.mark.parametrize(
    ("explain", "changes", "told"),
    [
        ({"arms": {"words": (3, 8.2)}}, {}, ["It contains these words of the question: “retry_fetch”, “Retries”."]),
        (
            {"arms": {"words": (3, 8.2)}},
            {"text": "pass"},
            ["Its title or heading contains these words of the question: “retry_fetch”."],
        ),
        ({"arms": {"vectors": (1, 0.9)}}, {}, ["Its meaning is the closest of all passages."]),
        ({"arms": {"vectors": (4, 0.7)}}, {}, ["Its meaning is close to the question: number 4 of all passages."]),
        ({"arms": {"places": (1, 1.0)}}, {}, ["The question contains its path, title or id."]),
        (
            {"arms": {"walked": (2, 0.6)}, "path": ["retries", "src/client.py — retry_fetch"]},
            {},
            ["It is linked through “Retries”."],
        ),
        (
            {"arms": {"walked": (2, 0.6)}, "path": ["src/client.py — Client", "src/client.py", "src/client.py — x"]},
            {},
            ["It is in the same file as a first result: Client."],
        ),
        (
            {"arms": {"walked": (2, 0.6), "bridged": (1, 0.2)}, "path": ["Notes", "outage", "src/client.py — x"]},
            {},
            ["It is linked to the first results through “Notes” → “outage”."],
        ),
        (
            {"arms": {"neighbours": (0, 0.0), "file": (0, 0.95)}},
            {},
            ["Its file as a whole matches the question."],
        ),
        (
            {"arms": {"role": (0, 0.5)}, "role": "test", "trust": {"factor": 0.7}},
            {"trust": "low"},
            [
                "It ranks lower than code: the role of its file is test.",
                "It ranks lower: it was received through adapter, which has low trust.",
            ],
        ),
    ],
)  # fmt: skip
def test_a_hit_says_in_words_why_it_is_there(explain, changes, told):
    assert reasons(hit_with(explain, **changes), "how often is retrying done") == told


def test_no_reason_on_the_page_is_a_stem_or_a_score(tmp_path):
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        note(space, "The Retry Policies were written by Ada Lovelace.", origin="a.md", title="Minutes")
        note(
            space, "Every gateway at Acme keeps the Retry Policy of its owner in Lisbon.", origin="b.md", title="Gates"
        )
        note(space, "Grace Hopper waters plants.", origin="c.md", title="Plants")
        space.embed_pending()
        hits = space.query("search", input={"text": "what did Ada Lovelace write"}, options={"explain": True}).hits
    with running(tmp_path) as client:
        text = shown(client, "/?q=what+did+Ada+Lovelace+write")

    assert [hit.explain["path"] for hit in hits if hit.title == "Gates"] == [
        ["retry policies", "retry policy", "Gates"]
    ]
    told = " ".join(re.findall(r"Why this result</summary>(.*?)</details>", text, re.DOTALL))
    assert "through “retry policies” → “Retry Policy”." in told
    assert "“Ada”, “Lovelace”" in told
    assert not re.search(r"\d\.\d|polici\b|lovelac\b", told)


def test_a_change_of_code_is_shown_as_code_and_without_the_lines_that_stayed(tmp_path):
    (tmp_path / "code").mkdir()
    file = tmp_path / "code" / "sizes.py"
    file.write_text(CODE)
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        space.ingest("path", input={"path": str(file)}, scope="/")
        (hit,) = space.query("search", input={"text": "bounded"}, scope="/").hits
        decision = decide(space, "Sizes are bounded", {"source_id": hit.source_id, "segment_id": hit.segment_id})
        file.write_text(CODE.replace("64_000", "32_000"))
        space.ingest("path", input={"path": str(file)}, scope="/")
    with running(tmp_path) as client:
        text = shown(client, f"/web/object/{decision}")
        hits = shown(client, "/?q=bounded")
        source = shown(client, f"/web/object/{hit.source_id}")

    assert re.search(r'class="passage lines words".*?<del>64_000</del><ins>32_000</ins>', text, re.DOTALL)
    assert "    if size &gt; <del>64_000</del>" in text
    assert '<span class="folded">' in text
    assert '<div class="passage lines"' in hits
    assert '<div class="passage lines"' in source
    assert ">made stale<" in text
    assert "staled" not in text


@pytest.mark.parametrize(
    ("place", "is_code"),
    [
        ("src/a.py#L1-L20 @ 1f3c9a", True),
        ("Makefile#L3", True),
        ("docs/retries.md#L1-L2 @ 1f3c9a", False),
        ("README.rst#L7", False),
        ("docs/ports.md: text (offset 1)", False),
        ("know:01kefz5b1hn8c3s6j0g4p7e2kd", False),
    ],
)
def test_a_place_in_a_file_of_code_is_told_from_prose(place, is_code):
    assert is_code_place(place) is is_code


def test_lines_that_stayed_are_omitted_but_for_a_few_around_a_change():
    before = "".join(f"line {number}\n" for number in range(30))
    told = folded(word_changes(before, before.replace("line 15\n", "row 15\n")))

    assert told[0] == WordChange("12 lines are the same", "folded")
    assert told[1] == WordChange("line 12\nline 13\nline 14\n", "same")
    assert [one.text for one in told if one.change in {"removed", "added"}] == ["line", "row"]
    assert told[-1] == WordChange("12 lines are the same", "folded")
    assert folded(word_changes(before, before)) == (WordChange(before, "same"),)


def test_no_page_says_an_event_in_the_words_of_the_log(site):
    client, ids = site
    for path in ("/web/timeline", f"/web/object/{ids['stale']}", "/web/live"):
        text = shown(client, path)
        assert "made stale" in text, path
        assert "staled" not in text, path
    assert told_event("created") == "created"


def test_the_page_of_projects_says_how_one_begins_without_naming_a_route(tmp_path):
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        note(space, "One.")
    with running(tmp_path) as client:
        text = shown(client, "/web/projects")

    assert "treering.open_projects" in text
    assert "/api/" not in text


def test_only_what_is_wrong_is_counted_in_red(site):
    client, _ = site
    tiles = re.findall(r'<li class="(\w+)"><a href="#(\w+)"><strong>(\d+)', shown(client, "/web/health"))

    assert {name: tone for tone, name, count in tiles if count != "0"} == {
        "stale": "wrong",
        "contested": "wrong",
        "expired": "wrong",
        "candidates": "some",
        "review": "some",
    }


def test_the_command_of_a_graph_uses_only_what_the_help_lists_and_runs(tmp_path, capsys):
    address = f"sqlite:{tmp_path / 'space.db'}"
    with open_space(address) as space:
        identity = decide(space, "Sessions stay in cookies", note(space, "Sessions live in cookies.", origin="a.md"))
    with running(tmp_path) as client:
        pages = [shown(client, f"/web/graph{asked}") for asked in (f"?id={identity}&depth=3", "?q=sessions", "")]
    for page in pages:
        found = re.search(r'id="footer-command">(.*?)</code>', page)
        _, *words = split(unescape(found[1]))
        assert run([*words, "--space", address]) == 0, words
        assert "Sessions live in cookies" in capsys.readouterr().out or words == ["status"], words
        run([words[0], "--help"])
        helped = capsys.readouterr().out
        assert all(word in helped for word in words if word.startswith("--")), words


def test_health_shows_the_values_of_contested_statements(tmp_path):
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        for value in ("8080", "9090"):
            payload = {"subject": "api", "predicate": "port", "value": value}
            decide(space, "The port of the API", kind="fact", payload=payload)
    with running(tmp_path) as client:
        text = shown(client, "/web/health")
    assert all(f"api port {value}" in text for value in ("8080", "9090"))


def test_a_graph_without_a_question_begins_with_what_matters_most(tmp_path):
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        where = note(space, "# Ports\n\nThe port is 8080.", origin="docs/ports.md", title="Ports")
        stale = decide(space, "The port is 8080", where)
        note(space, "# Ports\n\nIt listens on a socket now.", origin="docs/ports.md", title="Ports")
        kept = note(space, "# Retries\n\nA fetch is tried three times.", origin="docs/retries.md", title="Retries")
        held = decide(space, "Retries are bounded", kept)
        over = decide(space, "Freeze in May", kept, valid_until="2024-05-31T00:00:00Z")
        candidate = decide(space, "Use one queue", kind="preference", payload={"statement": "x"})
        work = task(space, "Document the port")
    with running(tmp_path) as client:
        text = shown(client, "/web/graph")
        drawing, _, listed = text.partition("As a list")

    for identity in (stale, held, work, kept["source_id"]):
        assert f'href="/web/graph?id={identity}"' in drawing
        assert f'href="/web/object/{identity}"' in listed
    assert over not in text
    assert candidate not in text
    assert listed.index(stale) < listed.index(held) < listed.index(work)
    assert "cites: " in listed


def test_a_graph_of_sources_alone_says_what_to_do(tmp_path):
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        note(space, "One.")
    with running(tmp_path) as client:
        text = shown(client, "/web/graph")
        assert "This space contains only sources." in text
        assert "No results." in shown(client, "/web/graph?q=zebra")


def test_a_hit_leads_to_the_passage_in_its_place_with_the_words_marked(tmp_path):
    text = "".join(
        f"# {fruit}\n\n{fruit} are tried by Ada. {'They grow on a hill beside a lake. ' * 40}\n\n"
        for fruit in ("Apples", "Pears", "Plums")
    )
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        note(space, text, origin="fruit.md", title="Fruit", content_type="markdown")
    with running(tmp_path) as client:
        found = re.search(r'href="(/web/object/src:[^"]+)#here"', shown(client, "/?q=who+tried+pears"))
        page = shown(client, unescape(found[1]))

    (around,) = re.findall(r'<pre class="source".*?</pre>', page, re.DOTALL)
    before, _, rest = around.partition('<strong class="here" id="here">')
    here, _, after = rest.partition("</strong>")
    assert "<mark>Pears</mark> are <mark>tried</mark> by Ada." in here
    assert "Apples" not in here
    assert "Apples" in before
    assert "Plums" in after


def test_links_are_reported_by_title(tmp_path):
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        pool = decide(space, "One pool per tenant", note(space, "A pool for each."))
        work = task(space, "Make the pools", links=[{"type": "about", "target": pool}])
    with running(tmp_path) as client:
        told, back = (shown(client, f"/web/object/{identity}") for identity in (work, pool))

    assert re.search(rf'about: <a class="object" href="/web/object/{pool}"><bdi>One pool per tenant</bdi></a>', told)
    assert re.search(rf'href="/web/object/{work}"><bdi>Make the pools</bdi></a> about this', back)


def test_summary_and_state_of_a_discussion_lead_to_what_they_rest_on(site):
    client, _ = site
    text = shown(client, "/web/discussions/tea")
    for name in ("summary", "state document"):
        found = re.search(rf'href="([^"]+)"><bdi>Evidence and versions of the {name}', text)
        _, _, named = shown(client, found[1]).partition("Mentioned objects")
        pages = [shown(client, one) for one in re.findall(r'href="(/web/object/know:[^"]+)"><bdi>I like', named)]
        assert any("/web/object/src:" in page.partition(">Evidence</h2>")[2] for page in pages), name


@dataclass
class NotingSpace:
    """A space for pages that notes what is asked of it."""

    space: Space
    scope: str = "/"
    asked: list[Envelope] = field(default_factory=list)

    def call(self, verb, envelope):
        self.asked.append(envelope)
        return self.space.call(verb, envelope)

    def perform(self, operation, *, given, options):
        return self.space.perform(operation, self.scope, given, options)


def test_a_timeline_of_now_reads_objects_as_they_are_now_which_is_much_faster():
    with open_space() as space:
        for text in ("One.", "Two.", "Three."):
            note(space, text)
        now, then = (NotingSpace(space) for _ in range(2))
        told = timeline(PageView(now, "/web"))
        earlier = timeline(PageView(then, "/web", {"as_of": "2"}))

    assert [one.options.get("as_of") for one in now.asked] == [None]
    assert [one.options.get("as_of") for one in then.asked] == [2]
    assert [len(list(changes)) for _, changes in told.values["days"]] == [3]
    assert [len(list(changes)) for _, changes in earlier.values["days"]] == [2]


def change_at(moment, number):
    return RecentChange(
        id=f"src:{number}", title="A", type="source", event="created", seq=number, time=moment.isoformat(),
        actor="ada", status="active",
    )  # fmt: skip


def test_one_tall_bar_is_cut_and_does_not_flatten_the_others():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    moments = [start] * 180 + [start + timedelta(hours=hour) for hour in range(1, 11) for _ in range(4)]
    drawing = draw_timeline([change_at(moment, number) for number, moment in enumerate(moments)])

    (cut,) = drawing.cut
    assert (cut.changes, drawing.highest) == (180, 180)
    tall, *others = drawing.bars
    assert tall.height == pytest.approx(HEIGHT - 4)
    assert [one.height for one in others] == pytest.approx([(HEIGHT - 4) / 3] * 10, abs=0.1)


def test_bars_of_like_height_are_not_cut():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    moments = [start + timedelta(hours=hour) for hour in range(10) for _ in range(1 + hour % 3)]
    drawing = draw_timeline([change_at(moment, number) for number, moment in enumerate(moments)])

    assert drawing.cut == []
    assert max(one.height for one in drawing.bars) == pytest.approx(HEIGHT - 4)


def test_changes_of_one_minute_are_distinguished():
    start = datetime(2026, 1, 1, tzinfo=UTC)
    drawing = draw_timeline([change_at(start + timedelta(seconds=number), number) for number in range(0, 40, 4)])

    assert len(drawing.bars) == 10
    assert drawing.step == "1 second"
    assert drawing.last == "2026-01-01 00:00:36"


def test_work_is_listed_with_owner_priority_order_and_outcome(tmp_path):
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        before = task(space, "Measure the load", owner_refs=["agent-a"], priority="high", status="in_progress")
        task(space, "Raise the limit", depends_on=[before])
        done = task(space, "Read the limit")
        resolved = {"id": done, "status": "resolved", "resolution": "It is 40."}
        space.crystallize("work_item", input=resolved)
        space.crystallize("activity", input={"title": "Ran the tests", "kind": "debug", "outcome": "failure"})
    with running(tmp_path) as client:
        page, of_one = unescape(shown(client, "/web/work")), unescape(shown(client, f"/web/object/{done}"))

    assert "Priority: high · Owners: agent-a" in page
    assert 'Waits for: "Measure the load" (in progress)' in page
    assert "Resolution: It is 40." in page
    assert "Outcome: failure" in page
    assert """treering query --mode search --option 'filter={"type": "work_item"}'""" in page
    assert "It is 40." in of_one.partition("Who and when")[0]


def test_evidence_is_labelled_with_the_cited_lines(tmp_path):
    file = tmp_path / "client.py"
    file.write_text(CODE, encoding="utf-8")
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        space.ingest("path", input={"path": str(file)})
        identity = decide(space, "Refuse large ones", "client.py:5-6")
    with running(tmp_path) as client:
        quoted = shown(client, f"/web/object/{identity}").partition(">Evidence</h2>")[2].partition("</section>")[0]

    assert "client.py#L5-L6" in quoted
    assert "size &gt; 64_000" in quoted
    assert "third" not in quoted
