"""Exports of trackers through the verb `ingest`: a source per ticket, its comments as turns."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from space_parts import all_of
from treering.extensions.conversations.tickets import TicketFormat
from treering.ports.adapter import Failed, ReadLimits, Skipped, SourceDraft
from treering.ports.format import FileToRead

AT = "2026-03-01T09:30:00Z"
GITHUB = [
    {
        "number": 17,
        "title": "Retries wait too long",
        "body": "After three failures a request waits for a minute.",
        "state": "OPEN",
        "author": {"login": "ada"},
        "labels": [{"name": "bug"}, {"name": "http"}],
        "assignees": [{"login": "bob"}],
        "comments": [
            {"id": "c1", "author": {"login": "bob"}, "body": "The cap is 60 seconds.", "createdAt": AT},
            {"id": "c2", "author": {"login": "ada"}, "body": "Let us make it 10.", "createdAt": AT},
        ],
        "createdAt": "2026-02-01T08:00:00Z",
        "updatedAt": AT,
        "url": "https://github.com/acme/web/issues/17",
    },
    {"number": 18, "title": "Add a dark theme", "body": "", "state": "CLOSED", "labels": [], "createdAt": AT},
]
GITLAB = [
    {
        "iid": 5,
        "title": "Move the index",
        "description": "It lies on the wrong disk.",
        "state": "opened",
        "author": {"username": "ada"},
        "labels": ["ops"],
        "notes": [
            {"id": 1, "body": "changed the label", "system": True, "author": {"username": "bot"}},
            {"id": 2, "body": "Done on Monday.", "system": False, "author": {"username": "bob"}},
        ],
        "created_at": AT,
        "updated_at": AT,
        "web_url": "https://gitlab.com/acme/web/-/issues/5",
    }
]
JIRA_TABLE = (
    "Summary,Issue key,Status,Issue Type,Created,Reporter,Description,Comment,Comment\n"
    'Login fails,ACME-7,Done,Bug,01/Mar/26 9:30 AM,ada,"It says\nno.",'
    "01/Mar/26 9:40 AM;bob;The cookie was too long.,second\n"
)
LINEAR = (
    "ID,Team,Title,Description,Status,Created,Updated\n"
    "WEB-3,Web,Faster start,It takes 3 s.,In Progress,2026-02-01,2026-03-01\n"
)
JIRA_XML = """<?xml version="1.0"?><rss version="0.92"><channel><item>
<title>[ACME-9] Cache grows</title><key id="1">ACME-9</key><summary>Cache grows</summary>
<description>&lt;p&gt;It never shrinks.&lt;/p&gt;</description><status id="3">Open</status>
<reporter username="ada">Ada</reporter><type id="1">Bug</type>
<created>Sun, 1 Feb 2026 08:00:00 +0000</created><updated>Sun, 1 Mar 2026 09:30:00 +0000</updated>
<labels><label>memory</label></labels>
<comments><comment id="11" author="bob" created="Sun, 1 Mar 2026 09:30:00 +0000">
&lt;p&gt;Since May.&lt;/p&gt;</comment></comments>
</item></channel></rss>"""

BEADS = [
    {
        "_type": "issue",
        "id": "web-a9l",
        "title": "Old databases fail to open",
        "description": "The migration reads a column that is missing.",
        "notes": "Fixed by adding the column first.",
        "status": "closed",
        "priority": 1,
        "issue_type": "bug",
        "created_by": "ada",
        "created_at": "2026-02-01T08:00:00Z",
        "updated_at": AT,
        "close_reason": "Shipped in 1.4",
        "dependencies": [{"issue_id": "web-a9l", "depends_on_id": "web-1o2", "type": "blocks"}],
        "comments": [{"id": 1, "author": "bob", "text": "Seen on two machines.", "created_at": AT}],
    },
    {"id": "web-1o2", "title": "Migrate", "status": "in_progress", "priority": 2, "issue_type": "task"},
    {"id": "web-3", "title": "Gone", "status": "tombstone", "issue_type": "task", "delete_reason": "duplicate"},
    {"_type": "memory", "key": "branches", "value": "Do not delete merged branches."},
]


def brought(space, folder: Path, content: object, name: str) -> dict[str, Any]:
    """Ingest a file; return its sources by their key."""
    file = folder / name
    file.write_text(content if isinstance(content, str) else json.dumps(content))
    space.ingest("path", input={"path": str(file)})
    held = space.engine.ledger.sources(scope="/", root=f"file:{file}")
    return {origin.partition("#")[2]: space.engine.ledger.get(state.id) for origin, state in held.items()}


def turns(source) -> list[tuple[str, str]]:
    """Return who said what; last comes how the ticket stands."""
    *said, stands = [(segment.locator.speaker, segment.excerpt) for segment in source.segments]
    assert stands == (source.metadata["tracker"], f"State: {source.metadata['state']}")
    return said


def stated(space) -> dict[str, str]:
    live = [one for one in all_of(space, "knowledge") if one.status == "candidate"]
    return {one.payload.subject: one.payload.value for one in live}


def test_an_issue_of_github_is_a_source_whose_comments_can_be_cited(space, tmp_path: Path) -> None:
    found = brought(space, tmp_path, GITHUB, "issues.json")
    source = found["17"]
    assert (source.title, source.captured_at.isoformat()) == ("#17: Retries wait too long", "2026-03-01T09:30:00+00:00")
    assert turns(source) == [
        ("ada", "Retries wait too long\n\nAfter three failures a request waits for a minute."),
        ("bob", "The cap is 60 seconds."),
        ("ada", "Let us make it 10."),
    ]
    told = {"tracker": "github", "state": "OPEN", "labels": ["bug", "http"], "assignees": ["bob"]}
    assert told.items() <= source.metadata.items()
    assert stated(space) == {"#17: Retries wait too long": "OPEN", "#18: Add a dark theme": "CLOSED"}


def test_an_issue_that_was_closed_since_updates_its_source_and_what_is_stated_of_it(space, tmp_path: Path) -> None:
    brought(space, tmp_path, GITHUB, "issues.json")
    closed = [{**GITHUB[0], "state": "CLOSED", "updatedAt": "2026-04-01T00:00:00Z"}, GITHUB[1]]
    found = brought(space, tmp_path, closed, "issues.json")
    assert found["17"].metadata["state"] == "CLOSED"
    assert stated(space)["#17: Retries wait too long"] == "CLOSED"
    report = space.ingest("path", input={"path": str(tmp_path / "issues.json")})
    assert report.status == "unchanged"


def test_an_issue_of_gitlab_is_read_without_what_the_tracker_noted_itself(space, tmp_path: Path) -> None:
    (source,) = brought(space, tmp_path, GITLAB, "issues.json").values()
    assert [speaker for speaker, _ in turns(source)] == ["ada", "bob"]
    assert source.metadata["tracker"] == "gitlab"


def test_a_table_of_jira_is_read_with_its_repeated_columns(space, tmp_path: Path) -> None:
    (source,) = brought(space, tmp_path, JIRA_TABLE, "jira.csv").values()
    assert source.title == "ACME-7: Login fails"
    assert turns(source)[1] == ("bob", "The cookie was too long.")
    assert turns(source)[2][1] == "second"
    assert source.segments[0].excerpt == "Login fails\n\nIt says\nno."


def test_a_table_of_linear_is_read(space, tmp_path: Path) -> None:
    (source,) = brought(space, tmp_path, LINEAR, "linear.csv").values()
    assert (source.title, source.metadata["state"]) == ("WEB-3: Faster start", "In Progress")
    assert source.captured_at.isoformat() == "2026-03-01T00:00:00+00:00"


def test_the_xml_of_jira_is_read(space, tmp_path: Path) -> None:
    (source,) = brought(space, tmp_path, JIRA_XML, "jira.xml").values()
    assert turns(source) == [("Ada", "Cache grows\n\nIt never shrinks."), ("bob", "Since May.")]
    assert source.metadata["labels"] == ["memory"]


def beads(records: list[dict[str, Any]] = BEADS) -> str:
    return "".join(json.dumps(record) + "\n" for record in records)


def test_beads_become_tickets_and_memories(space, tmp_path: Path) -> None:
    found = brought(space, tmp_path, beads(), "issues.jsonl")
    assert set(found) == {"web-a9l", "web-1o2", "memory-branches"}
    (author, request), comment = turns(found["web-a9l"])
    assert author == "ada"
    assert "notes: Fixed by adding the column first." in request
    assert "depends on: web-1o2" in request
    assert comment == ("bob", "Seen on two machines.")
    assert found["web-a9l"].metadata["priority"] == "P1"
    assert found["memory-branches"].segments[0].excerpt == "Do not delete merged branches."


def test_deleted_beads_are_skipped_with_their_reason() -> None:
    (skipped,) = [one for one in _read(beads().encode(), "issues.jsonl") or () if isinstance(one, Skipped)]
    assert (skipped.origin.partition("#")[2], skipped.why) == ("web-3", "it was deleted in beads: duplicate")


def test_unreadable_bead_is_one_failure() -> None:
    results = list(_read(f"{beads()}not json\n".encode(), "issues.jsonl") or ())
    assert [one.why for one in results if isinstance(one, Failed)] == ["it is neither an issue nor a memory of beads"]


def test_one_issue_as_an_object_is_a_ticket_however_long_its_text_is(space, tmp_path: Path) -> None:
    long = {"body": "It waits too long. " * 5_000, **{name: GITHUB[0][name] for name in ("number", "state", "title")}}
    (source,) = brought(space, tmp_path, long, "issue.json").values()
    assert source.title == "#17: Retries wait too long"
    viewed = {**GITLAB[0], "Notes": GITLAB[0]["notes"]}
    del viewed["notes"]  # as `glab issue view --comments --output json` prints it
    (source,) = brought(space, tmp_path, viewed, "view.json").values()
    assert [text for _, text in turns(source)][1:] == ["Done on Monday."]


@pytest.mark.parametrize(
    "issue",
    [
        {"number": 3, "title": "Slow", "state": "OPEN"},
        {"iid": 3, "title": "Slow", "state": "opened"},
        {"number": 3, "title": "Slow", "url": "https://github.com/acme/web/issues/3"},
    ],
)
def test_a_list_with_little_more_than_number_and_title_is_read_as_tickets(space, tmp_path: Path, issue) -> None:
    (source,) = brought(space, tmp_path, [issue], "issues.json").values()
    assert (source.title, source.segments[0].excerpt) == ("#3: Slow", "Slow")
    assert stated(space).get("#3: Slow", "") == issue.get("state", "")


@pytest.mark.parametrize("separator", [";", "\t", "|", "^"])
@pytest.mark.parametrize("first", ["", "sep={}\n"])
def test_a_table_is_read_whatever_is_between_its_columns(separator: str, first: str) -> None:
    rows = list(csv.reader(io.StringIO(JIRA_TABLE)))
    written = io.StringIO(first.format(separator))
    written.seek(0, io.SEEK_END)
    csv.writer(written, delimiter=separator).writerows(rows)
    (found,) = _read(written.getvalue().encode(), "jira.csv") or ()
    assert isinstance(found, SourceDraft)
    assert [segment.text for segment in found.segments][1:3] == ["The cookie was too long.", "second"]


def test_what_a_shell_of_windows_wrote_in_utf_16_is_read() -> None:
    assert len(_read(json.dumps(GITHUB).encode("utf-16"), "issues.json") or ()) == 2
    assert len(_read(JIRA_TABLE.encode("utf-16"), "jira.csv") or ()) == 1


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_xml_with_entities_is_no_file_of_tickets(encoding: str) -> None:
    bomb = JIRA_XML.replace("<rss", '<!DOCTYPE rss [<!ENTITY a "aaaa">]><rss', 1).replace("Since", "&a;")
    assert not _read(bomb.replace('"1.0"', f'"1.0" encoding="{encoding}"').encode(encoding), "jira.xml")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ('{"name": "x", "title": "a package", "state": "ok"}', "package.json"),
        ('[{"title": "a page", "state": "new"}]', "pages.json"),
        ('{"number": 1, "title": "Chapter one", "state": "draft"}', "chapter.json"),
        ('[{"number": 1, "title": "Chapter one", "url": "https://x.org/book/1"}]', "chapters.json"),
        ('{"id": "a", "title": "x", "issue_type": ""}\n', "rows.jsonl"),
        ("name;status;key\nx;ok;1\n", "semicolons.csv"),
        ("name,status\nx,ok\n", "table.csv"),
        ("<rss><channel><item><title>News</title></item></channel></rss>", "feed.rss"),
    ],
)
def test_other_files_stay_what_they_are(text: str, name: str) -> None:
    assert _read(text.encode(), name) is None


def test_two_of_one_key_are_one_and_a_failure(space, tmp_path: Path) -> None:
    found = brought(space, tmp_path, [GITHUB[0], GITHUB[0]], "issues.json")
    assert set(found) == {"17"}


MEMBERS = "number iid title body description state labels comments notes author login createdAt milestone".split()
VALUES = st.one_of(st.none(), st.integers(), st.text(max_size=8), st.sampled_from(["\ud800", AT, "CLOSED"]))
DOCUMENTS = st.recursive(
    VALUES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(MEMBERS), inner, max_size=7),
    max_leaves=20,
)


@given(DOCUMENTS, st.sampled_from(MEMBERS))
@settings(max_examples=200)
def test_whatever_is_in_an_issue_it_has_a_result(value, name: str) -> None:
    for found in _read(json.dumps([{**GITHUB[0], name: value}, GITHUB[1]]).encode(), "issues.json") or ():
        assert isinstance(found, SourceDraft) or found.why


@given(
    st.sampled_from([(JIRA_TABLE, "a.csv"), (LINEAR, "a.csv"), (JIRA_XML, "a.xml"), (beads(), "a.jsonl")]),
    st.binary(max_size=30),
    st.data(),
)
@settings(max_examples=200)
def test_damaged_bytes_raise_nothing(sample, noise: bytes, data) -> None:
    text, name = sample
    whole = text.encode()
    at = data.draw(st.integers(0, len(whole)))
    _read(whole[:at] + noise + whole[at + len(noise) :], name)


def _read(data: bytes, name: str) -> list[SourceDraft | Skipped | Failed] | None:
    found = TicketFormat().read(io.BytesIO(data), FileToRead(name, ReadLimits()), origin=f"file:/{name}")
    return None if found is None else list(found)
