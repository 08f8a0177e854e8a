from concurrent.futures import ThreadPoolExecutor

import pytest

from space_parts import all_of, decide, note, read, records
from treering.core.errors import Conflict, Denied, InvalidInput, Unavailable


@pytest.mark.parametrize(
    ("verb", "modes"),
    [
        ("ingest", {"path", "repo", "url", "adapter", "source", "status"}),
        ("query", {"context", "search", "page", "related", "recent", "expand", "brief"}),
        ("crystallize", {"activity", "knowledge", "work_item", "node", "source", "promote", "supersede", "feedback"}),
        ("lint", {"all", "structure", "semantic", "repair", "reindex", "audit", "consolidate"}),
    ],
)
def test_unknown_mode_names_the_nearest(space, verb, modes):
    with pytest.raises(InvalidInput) as caught:
        getattr(space, verb)("sturcture", input={})
    assert set(caught.value.details["known"]) == modes
    assert caught.value.hint


def test_an_unknown_field_is_refused_with_the_nearest_name(space):
    with pytest.raises(InvalidInput) as caught:
        space.query("search", input={"txt": "x"})
    assert "text" in caught.value.hint
    with pytest.raises(InvalidInput) as caught:
        space.query("search", input={"text": "x"}, options={"limt": 3})
    assert "limit" in caught.value.hint


def test_every_report_says_what_was_asked(space):
    note(space, "We use SQLite.")
    for report in (
        space.query("search", scope="/a", input={"text": "sqlite"}),
        space.lint("structure", scope="/a"),
        space.crystallize("work_item", scope="/a", input={"title": "x"}),
    ):
        assert (report.verb, report.scope) == (report.verb, "/a")
        assert report.mode
        assert report.model_dump_json()


def test_programs_get_the_documented_shapes(space):
    items = [{"kind": "note", "origin": "a", "title": "A", "text": "We use SQLite."}]
    space.ingest(mode="source", input={"items": items})
    hit = space.query(mode="search", input={"text": "sqlite"}, options={"limit": 1}).hits[0]
    assert {"origin", "title", "text", "score", "source_id", "segment_id", "object_id", "explain"} <= set(
        type(hit).model_fields
    )
    report = space.crystallize(
        mode="knowledge",
        input={
            "kind": "decision",
            "title": "SQLite",
            "payload": {"question": "Which?", "outcome": "SQLite", "rationale": "one file", "alternatives": ["files"]},
            "evidence_refs": [{"source_id": hit.source_id, "segment_id": hit.segment_id}],
            "status": "active",
        },
    )
    assert report.status == "ok"
    pack = space.query(mode="context", input={"task": "sqlite"}, options={"max_tokens": 500}).pack
    assert {item.section for item in pack.items} == {"decisions", "sources"}


def test_another_actor_writes_into_the_same_space(space):
    ada = space.with_actor("ada", channel="user")
    known = decide(ada, "SQLite")
    assert read(space, known).origin_channel == "user"
    assert space.with_actor("bot-2").engine.author.channel == "agent"


def test_progress_is_reported(space):
    note(space, "We use SQLite.")
    told = []
    space.embed_pending(lambda what, done, total: told.append((what, done, total)))
    assert told[-1][1:] == (1, 1)


def test_a_patch_can_be_taken_back_once(space):
    report = space.crystallize("work_item", input={"title": "x"})
    space.revert(report.receipt.patch_id, reason="not needed")
    assert all_of(space, "work_item")[0].status == "cancelled"
    with pytest.raises(Conflict):
        space.revert(report.receipt.patch_id)


def test_a_patch_that_others_built_upon_is_not_taken_back(space):
    report = space.crystallize("work_item", input={"title": "x"})
    space.crystallize("work_item", input={"id": report.ids[0], "summary": "more"})
    before = records(space)
    with pytest.raises(Conflict) as caught:
        space.revert(report.receipt.patch_id)
    assert caught.value.details["changed"][0]["current"] == 2
    assert records(space) == before


def test_many_threads_write_into_one_space(open_space, tmp_path):
    space = open_space(f"sqlite:{tmp_path / 'space.db'}")
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda at: decide(space, f"Number {at}"), range(40)))
    assert len(set(ids)) == 40
    assert space.lint("audit").verified
    assert len(space.query("search", input={"text": "number"}, options={"limit": 50}).hits) == 40


def test_a_closed_space_says_so(open_space, tmp_path):
    space = open_space(f"sqlite:{tmp_path / 'space.db'}")
    space.close()
    space.close()
    with pytest.raises(Unavailable):
        decide(space, "Too late")


def test_a_program_can_say_below_which_folder_files_are_read(open_space, tmp_path):
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "notes.md").write_text("# Notes\n\nWe retry three times.\n")
    (tmp_path / "diary.md").write_text("# Diary\n")
    space = open_space(files=tmp_path / "docs")
    assert space.ingest("path", input={"path": "notes.md"}).counts == {"created": 1}
    with pytest.raises(Denied):
        space.ingest("path", input={"path": str(tmp_path / "diary.md")})
    assert open_space().ingest("path", input={"path": str(tmp_path / "diary.md")}).counts == {"created": 1}
