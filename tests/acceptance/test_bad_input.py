"""What cannot be accepted: a clear error with a hint, and nothing changed."""

import pytest
from project import README, Project

from space_parts import decide, note, records, task
from treering.core.errors import TreeringError

NOWHERE = "know:" + "0" * 26
FACT = {"kind": "fact", "title": "x", "payload": {"subject": "a", "predicate": "b", "value": 1}}

NESTED: dict = {}
for _ in range(20):
    NESTED = {"not": NESTED}


@pytest.fixture
def known(space):
    """Something of every sort, to be talked about wrongly."""
    quote = note(space, "We use SQLite.")
    first = task(space, "First")
    return {
        "quote": quote,
        "decision": decide(space, "SQLite", quote),
        "first": first,
        "second": task(space, "Second", depends_on=[first]),
    }


CASES = {
    "an unknown mode": ("query", "serch", lambda known: {"text": "x"}, {}),
    "an unknown kind of knowledge": ("crystallize", "knowledge", lambda known: {**FACT, "kind": "rumour"}, {}),
    "an unknown kind of source": ("ingest", "source", lambda known: {"items": [{"text": "x", "kind": "tweet"}]}, {}),
    "an unknown kind of work": ("crystallize", "work_item", lambda known: {"title": "x", "kind": "chore"}, {}),
    "an unknown field": ("crystallize", "knowledge", lambda known: {**FACT, "confidance": 1}, {}),
    "an unknown field of a payload": (
        "crystallize",
        "knowledge",
        lambda known: {**FACT, "payload": {**FACT["payload"], "unit": "s"}},
        {},
    ),
    "an unknown option": ("query", "search", lambda known: {"text": "x"}, {"limits": 3}),
    "a field of another type": ("crystallize", "knowledge", lambda known: {**FACT, "confidence": "high"}, {}),
    "no input": ("crystallize", "knowledge", lambda known: {}, {}),
    "a wrong revision": (
        "crystallize",
        "knowledge",
        lambda known: {"id": known["decision"], "revision": 7, "summary": "x"},
        {},
    ),
    "an illegal transition": ("crystallize", "work_item", lambda known: {"id": known["first"], "status": "closed"}, {}),
    "missing evidence": ("crystallize", "knowledge", lambda known: {**FACT, "status": "active"}, {}),
    "evidence that is not there": (
        "crystallize",
        "knowledge",
        lambda known: {**FACT, "evidence_refs": [{"source_id": known["quote"]["source_id"], "segment_id": "seg_x"}]},
        {},
    ),
    "a malformed id": ("query", "page", lambda known: {"id": "x"}, {}),
    "an id of nothing": ("crystallize", "knowledge", lambda known: {"id": NOWHERE, "summary": "x"}, {}),
    "a dependency in a circle": (
        "crystallize",
        "work_item",
        lambda known: {"id": known["first"], "depends_on": [known["second"]]},
        {},
    ),
    "an empty query": ("query", "search", lambda known: {"text": "  "}, {}),
    "an empty task": ("query", "context", lambda known: {"task": ""}, {}),
    "a bad filter": ("query", "search", lambda known: {"text": "x"}, {"filter": {"colour": "red"}}),
    "a filter too deep": ("query", "search", lambda known: {"text": "x"}, {"filter": NESTED}),
    "a bad time": ("query", "search", lambda known: {"text": "x"}, {"as_of": "noon"}),
    "a time without a zone": ("query", "search", lambda known: {"text": "x"}, {"as_of": "2026-01-01T12:00:00"}),
    "a time without a zone in a field": (
        "crystallize",
        "work_item",
        lambda known: {"title": "x", "due_at": "2026-01-01T12:00:00"},
        {},
    ),
    "a bad window": ("query", "recent", lambda known: {"since": "2026-13-01T00:00:00Z"}, {}),
    "a malformed number": (
        "crystallize",
        "knowledge",
        lambda known: {**FACT, "payload": {**FACT["payload"], "value": float("nan")}},
        {},
    ),
    "a path that is not there": ("ingest", "path", lambda known: {"path": "/no/such/place"}, {}),
    "a folder that is not a repository": ("ingest", "repo", lambda known: {"path": "/"}, {}),
    "a path with a NUL": ("ingest", "path", lambda known: {"path": "a\0b"}, {}),
    "a folder outside of the repository": (
        "ingest",
        "repo",
        lambda known: {"path": known["repo"]},
        {"subfolder": "../elsewhere"},
    ),
    "a commit that is not there": ("ingest", "repo", lambda known: {"path": known["repo"]}, {"commit": "deadbeef"}),
    "an option for git": ("ingest", "repo", lambda known: {"path": known["repo"]}, {"commit": "--output=/tmp/x"}),
    "an unknown rule": ("lint", "structure", lambda known: {"rules": ["tidyness"]}, {}),
    "an unknown job": ("ingest", "status", lambda known: {"job": "job:x"}, {}),
}


@pytest.mark.parametrize("what", CASES)
def test_it_is_refused_with_a_hint_and_changes_nothing(space, known, tmp_path, what):
    verb, mode, given, options = CASES[what]
    project = Project(tmp_path / "repo")
    project.commit(README_md=README)
    before = records(space)
    with pytest.raises(TreeringError) as caught:
        getattr(space, verb)(mode, input=given({**known, "repo": str(project.folder)}), options=options)
    assert records(space) == before
    assert caught.value.message
    assert caught.value.hint
    assert set(caught.value.as_dict()) == {"code", "message", "hint", "details"}


@pytest.mark.parametrize(
    "scope", ["repo", "/a//b", "/a/../b", "/a/./b", "", "/ ", "/" + "x" * 200, "/x" * 65, "/a\nb", 7]
)
@pytest.mark.parametrize("verb", ["ingest", "query", "crystallize", "lint"])
def test_a_bad_scope_is_refused_by_every_verb(space, verb, scope):
    with pytest.raises(TreeringError) as caught:
        getattr(space, verb)(scope=scope, input={})
    assert caught.value.hint
    assert records(space) == []


def test_a_link_out_of_a_folder_is_not_followed(space, tmp_path):
    secret = tmp_path / "secret.txt"
    secret.write_text("The safe opens with 4711.")
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "good.md").write_text("# Good\n\nPlain words.\n")
    (folder / "file.md").symlink_to(secret)
    (folder / "all").symlink_to(tmp_path, target_is_directory=True)
    report = space.ingest("path", input={"path": str(folder)})
    assert report.counts == {"created": 1, "skipped": 2}
    assert all(item.why for item in report.items if item.outcome == "skipped")
    assert "4711" not in repr(records(space))


def test_a_file_of_a_gigabyte_is_skipped_and_hides_no_other(space, tmp_path):
    with (tmp_path / "huge.md").open("wb") as huge:
        huge.truncate(1 << 30)
    (tmp_path / "small.md").write_text("# Small\n\nPlain words.\n")
    report = space.ingest("path", input={"path": str(tmp_path)})
    assert report.counts.get("created", 0) >= 1
    (item,) = (item for item in report.items if item.origin.endswith("huge.md"))
    assert item.why
    assert space.query("search", input={"text": "plain words"}).hits


def test_a_gigabyte_alone_is_refused_and_changes_nothing(space, tmp_path):
    with (tmp_path / "huge.txt").open("wb") as huge:
        huge.truncate(1 << 30)
    report = space.ingest("path", input={"path": str(tmp_path / "huge.txt")})
    assert report.items[0].why
    assert not any("\0" in str(record.row) for record in records(space))


def test_bytes_that_are_no_utf8_do_no_harm(space, tmp_path):
    (tmp_path / "latin.md").write_bytes("# Caf\xe9\n\nUn caf\xe9 noir.\n".encode("latin-1"))
    (tmp_path / "noise.txt").write_bytes(bytes(range(256)) * 40)
    (tmp_path / "good.md").write_text("# Good\n\nPlain words.\n")
    report = space.ingest("path", input={"path": str(tmp_path)})
    assert len(report.items) == 3
    assert all(item.why for item in report.items if item.outcome in {"failed", "skipped"})
    assert space.query("search", input={"text": "noir"}).hits or not any(
        item.outcome == "created" for item in report.items if item.origin.endswith("latin.md")
    )
    assert space.query("search", input={"text": "plain words"}).hits
    assert space.lint("audit").verified


def test_one_bad_item_hides_no_good_one(space):
    items = [{"text": "", "origin": "empty"}, {"text": "Plain words.", "origin": "good"}]
    report = space.ingest("source", input={"items": items})
    assert {item.origin: item.outcome for item in report.items} == {"empty": "failed", "good": "created"}
    assert [hit.origin for hit in space.query("search", input={"text": "plain words"}).hits] == ["good"]
