"""A context pack for a work item contains what was recorded about it."""

import pytest

from space_parts import decide, note, task
from treering.core.characters import short_id

TITLE = "Raise the connection pool limit"


def run(space, work, title, **fields):
    given = {"title": title, "related_work_item_refs": [work], **fields}
    return space.crystallize("activity", input=given).ids[0]


def packed(space, text, **options):
    report = space.query("context", input={"task": text}, options=options)
    return {item.object_id: item for item in report.pack.items}


@pytest.fixture
def board(space):
    """Thirty notes and ten tickets, of which one has a failed and a good run, a dependency and a dependent."""
    for number in range(30):
        note(space, f"Note {number} about work on the pool and the limit of connections.", origin=f"{number}.md")
    for number in range(10):
        task(space, f"Ticket {number}: check module number {number}")
    before = task(space, "Measure the load")
    work = task(space, TITLE, depends_on=[before])
    ids = {
        "before": before,
        "work": work,
        "failed": run(space, work, "Tried keepalive_expiry", outcome="failure", summary="It breaks HTTP/2."),
        "good": run(space, work, "Wrote a test", outcome="success"),
        "after": task(space, "Ship the client", depends_on=[work]),
    }
    return space, ids


class TestContextOfWork:
    @pytest.mark.parametrize("naming", ["id", "short id", "title", "sentence"])
    def test_work_brings_its_runs_its_dependency_and_its_dependent(self, board, naming):
        space, ids = board
        work = ids["work"]
        text = {"id": work, "short id": short_id(work), "title": TITLE, "sentence": f"Please go on with: {TITLE}"}
        items = packed(space, text[naming])
        assert set(ids.values()) <= set(items)
        assert next(iter(items)) == work
        assert 'Waits for: "Measure the load" (open)' in items[work].text

    def test_failed_runs_come_before_others(self, board):
        space, ids = board
        items = list(packed(space, TITLE))
        assert items.index(ids["failed"]) < items.index(ids["good"])

    def test_an_id_is_searched_with_the_words_of_its_object(self, board):
        space, ids = board
        note(space, "The client is shipped on Friday.", origin="friday.md")
        items = packed(space, ids["after"])
        assert any(item.title == "friday.md" or "Friday" in item.text for item in items.values())
        assert not any("Note 3 about" in item.text for item in items.values())

    def test_one_word_of_a_task_names_no_work(self, space):
        work = task(space, "Ship")
        failed = run(space, work, "Tried on Monday")
        assert failed not in packed(space, "Ship the new client")
        assert failed in packed(space, "ship")

    def test_a_filter_and_an_archive_exclude_work_that_a_task_names(self, board):
        space, ids = board
        named = f"Go on with {ids['work']}"
        assert ids["work"] not in packed(space, named, filter={"type": "source"})
        space.crystallize("work_item", input={"id": ids["work"], "lifecycle_state": "archived"})
        assert ids["work"] not in packed(space, named)
        assert "over" in packed(space, ids["work"])[ids["work"]].flags


class TestIds:
    @pytest.mark.parametrize("kind", ["work", "failed"])
    @pytest.mark.parametrize("shorten", [str, short_id])
    def test_an_id_finds_its_object_first(self, board, kind, shorten):
        space, ids = board
        note(space, f"See {ids[kind]} for the work.", origin="mention.md")
        report = space.query("search", input={"text": shorten(ids[kind])}, options={"limit": 3})
        assert report.hits[0].object_id == ids[kind]
        assert [hit.origin for hit in report.hits][1:] == ["mention.md"]
        assert not report.hits[0].flags

    def test_an_id_finds_withdrawn_knowledge_and_its_status(self, space):
        old = decide(space, "Deploy on Friday", note(space, "We deploy on Friday."))
        space.crystallize("knowledge", input={"id": old, "status": "archived"})
        (hit,) = space.query("search", input={"text": old}).hits
        assert (hit.object_id, hit.status, hit.current) == (old, "archived", False)

    def test_a_filter_excludes_an_object_named_by_its_id(self, board):
        space, ids = board
        report = space.query("search", input={"text": ids["work"]}, options={"filter": {"type": "source"}})
        assert ids["work"] not in [hit.object_id for hit in report.hits]

    def test_an_unknown_id_finds_nothing(self, board):
        space, _ = board
        space.embed_pending()
        report = space.query("search", input={"text": "work:" + "0" * 26})
        assert (report.status, report.hits) == ("empty", ())
