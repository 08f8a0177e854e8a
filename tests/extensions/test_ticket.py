import logging
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest
from memory_parts import CACHE, LESSON, documents, objects, open_projects

from treering.core.errors import InvalidInput, Unavailable
from treering.core.objects import Activity, Source, WorkItem
from treering.extensions.projects.project import ProjectMemory
from treering.extensions.projects.ticket import Completed, MemoryFailure, RunState, Ticket, TicketMemory
from treering.verbs import catalog
from treering.verbs.envelope import WRITES, Envelope
from treering.verbs.lint.erasure import erase

DOCUMENT = f"Ticket: {CACHE.title}. {CACHE.description}. {LESSON}"
LIKE_IT = Ticket(title="Cache again", description="Stale pages after the last deploy")
STATE = RunState(run="run-1", turns=2, prompt="Look at the keys", response="They are fixed")


@pytest.fixture
def tickets(memory):
    return TicketMemory("acme", memory)


def only(memory, kind):
    (item,) = objects(memory, "acme", kind)
    return item


def shape(memory):
    return [(item.id, item.revision, item.status) for item in objects(memory, "acme")]


def test_lesson_is_recalled_for_a_similar_ticket(tickets):
    assert tickets.start(CACHE) == ""
    tickets.complete(CACHE, LESSON)
    assert tickets.start(LIKE_IT) == f"Memories invoked:\n{DOCUMENT}"
    assert tickets.failures == []


def test_a_ticket_is_looked_for_by_its_title_and_by_its_description(memory, tickets):
    memory.index("acme", ["Gearbox: oil leaked", "Elevator: cable frayed"])
    start = tickets.start(Ticket(title="Gearbox", description="It stands beside the elevator"))
    assert sorted(start.splitlines()) == ["Elevator: cable frayed", "Gearbox: oil leaked", "Memories invoked:"]
    assert tickets.start(Ticket(title="Gearbox")) == "Memories invoked:\nGearbox: oil leaked"


def test_turn_recalls_by_its_messages_without_storing(memory, tickets):
    tickets.complete(CACHE, LESSON)
    before = shape(memory)
    assert tickets.turn("Look into the deploy", "It serves stale pages") == f"Memories invoked:\n{DOCUMENT}"
    assert tickets.turn("zebra", "x" * 500 + " stale pages") == "", "only the beginning of an answer is looked for"
    assert tickets.turn("", "") == ""
    assert shape(memory) == before


def test_a_passage_of_several_lines_is_in_one(memory, tickets):
    memory.index("acme", ["The cache\n\n  serves stale\tpages\r\nafter a deploy"])
    assert tickets.start(CACHE) == "Memories invoked:\nThe cache serves stale pages after a deploy"


def test_a_completed_ticket_is_one_document_one_activity_and_one_resolved_work_item_in_one_patch(memory, tickets):
    completed = tickets.complete(CACHE, LESSON)
    source, activity, work = only(memory, "source"), only(memory, "activity"), only(memory, "work_item")
    assert completed == Completed("completed", work.id, source.id)
    assert documents(memory, "acme") == [DOCUMENT]
    assert isinstance(source, Source)
    assert isinstance(activity, Activity)
    assert isinstance(work, WorkItem)
    assert (source.kind, activity.status, activity.outcome) == ("note", "finalized", "success")
    assert (work.status, work.title, work.summary, work.resolution) == (
        "resolved",
        CACHE.title,
        CACHE.description,
        LESSON,
    )
    assert work.source_refs == activity.source_refs == activity.produced_object_refs == (source.id,)
    assert activity.related_work_item_refs == (work.id,)
    with memory.engine("acme") as engine:
        assert {engine.ledger.events_of(item.id)[-1].patch_id for item in (source, activity, work)} == {
            engine.ledger.events_of(source.id)[0].patch_id
        }


def test_what_a_ticket_taught_is_stored_before_the_ticket_is_finished(memory, tickets):
    tickets.keep(CACHE, STATE)
    tickets.complete(CACHE, LESSON)
    with memory.engine("acme") as engine:
        stored, finished = (engine.ledger.events_of(only(memory, kind).id) for kind in ("source", "work_item"))
    assert stored[0].event_type == "created"
    assert finished[-1].event_type == "transitioned"
    assert stored[0].seq < finished[-1].seq
    assert stored[0].patch_id == finished[-1].patch_id, "neither is there without the other"


def test_completing_twice_equals_once(memory, tickets):
    tickets.complete(CACHE, LESSON)
    before = shape(memory)
    assert tickets.complete(CACHE, "Something else").outcome == "unchanged"
    assert TicketMemory("acme", memory).complete(CACHE, LESSON).outcome == "unchanged"
    assert shape(memory) == before


def test_tickets_with_the_same_words_and_other_ids_are_two(memory, tickets):
    for identity in ("T-1", "T-2", "a/b c", "é"):
        assert tickets.complete(CACHE.model_copy(update={"id": identity}), LESSON).outcome == "completed"
    assert len(objects(memory, "acme", "work_item")) == 4
    assert documents(memory, "acme") == [DOCUMENT], "the same text is the same document"


def test_reverting_takes_back_what_completing_stored_and_opens_the_ticket(memory, tickets):
    tickets.complete(CACHE, LESSON)
    assert tickets.revert(CACHE)
    assert tickets.start(LIKE_IT) == ""
    statuses = {item.type: item.status for item in objects(memory, "acme")}
    assert statuses == {"source": "archived", "activity": "archived", "work_item": "open"}
    assert not tickets.is_done(CACHE)
    assert not tickets.revert(CACHE)
    assert tickets.complete(CACHE, LESSON).outcome == "completed"
    assert tickets.start(LIKE_IT) == f"Memories invoked:\n{DOCUMENT}"
    assert tickets.failures == []


def test_knowledge_that_rested_on_a_reverted_ticket_alone_is_stale(memory, tickets):
    tickets.complete(CACHE, LESSON)
    source = only(memory, "source")
    fact = {
        "kind": "fact",
        "title": "Keys carry versions",
        "payload": {"subject": "cache", "predicate": "keys", "value": "versioned"},
        "evidence_refs": [{"source_id": source.id, "segment_id": source.segments[0].segment_id}],
        "status": "active",
    }
    with memory.engine("acme") as engine:
        catalog.call(engine, "crystallize", Envelope(mode="knowledge", input=fact), granted=WRITES)
    tickets.revert(CACHE)
    assert only(memory, "knowledge").status == "stale"


def test_reverting_leaves_a_document_that_was_there_before(memory, tickets):
    memory.index("acme", [DOCUMENT])
    tickets.complete(CACHE, LESSON)
    tickets.revert(CACHE)
    assert documents(memory, "acme") == [DOCUMENT]


def test_reverting_works_where_the_document_was_deleted_meanwhile(memory, tickets):
    tickets.complete(CACHE, LESSON)
    memory.delete("acme", [DOCUMENT])
    assert tickets.revert(CACHE)
    assert not tickets.is_done(CACHE)
    assert tickets.failures == []


def test_how_far_a_run_is_is_kept_with_the_work_item_and_found_again(memory, tickets):
    assert tickets.resume(CACHE) is None
    assert tickets.keep(CACHE, STATE)
    assert TicketMemory("acme", memory).resume(CACHE) == STATE
    assert only(memory, "work_item").status == "in_progress"
    tickets.complete(CACHE, LESSON)
    work = only(memory, "work_item")
    assert (work.status, work.summary) == ("resolved", CACHE.description)
    assert tickets.resume(CACHE) is None


def test_a_run_notices_that_another_one_has_taken_the_ticket_over(tickets):
    other = STATE.model_copy(update={"run": "run-2"})
    assert tickets.keep(CACHE, STATE)
    assert not tickets.keep(CACHE, other)
    assert tickets.keep(CACHE, other, takes_over=True)
    assert not tickets.keep(CACHE, STATE)
    tickets.complete(CACHE, LESSON)
    assert not tickets.keep(CACHE, other), "a ticket that is done is not opened again by a run"
    assert tickets.is_done(CACHE)


def test_state_of_runs_does_not_clutter_what_the_project_knows(memory, tickets):
    tickets.keep(CACHE, STATE)
    assert tickets.start(CACHE) == ""
    assert [item.scope for item in objects(memory, "acme")] == ["/ticket/T-1"]


def test_secrets_are_kept_out_of_everything_a_ticket_stores(memory, tickets):
    secret = "ghp_" + "a1B2c3D4e5F6" * 3
    ticket = Ticket(title="Rotate", description=f"The key {secret} leaked")
    tickets.keep(ticket, RunState(run="r", prompt=f"Use {secret}", response=f"Used {secret}"))
    tickets.complete(ticket, f"Replaced {secret}")
    with memory.engine("acme") as engine:
        assert secret not in str([record.row for record in engine.ledger.records()])


def test_a_project_that_is_not_there_yet_is_an_empty_one_until_something_is_kept(memory, tickets, tmp_path):
    assert (tickets.start(CACHE), tickets.turn("a", "b")) == ("", "")
    assert (tickets.is_done(CACHE), tickets.resume(CACHE), tickets.revert(CACHE)) == (False, None, False)
    assert not (tmp_path / "projects").exists()
    assert tickets.complete(CACHE, LESSON).outcome == "completed"
    assert tickets.failures == []
    assert documents(memory, "acme") == [DOCUMENT]


class Broken(ProjectMemory):
    """A memory whose space cannot be opened."""

    def __init__(self):
        super().__init__(self.fail)

    def fail(self, project_id, *, create):
        raise Unavailable("The disk is gone.", hint="Plug it in.")


def test_a_memory_that_fails_blocks_no_ticket_and_says_so_at_the_end(caplog):
    tickets = TicketMemory("acme", Broken())
    with caplog.at_level(logging.WARNING):
        assert (tickets.start(CACHE), tickets.turn("a", "b")) == ("", "")
        assert tickets.resume(CACHE) is None
        assert tickets.keep(CACHE, STATE)
        assert tickets.complete(CACHE, LESSON) is None
        assert not tickets.revert(CACHE)
    steps = ["start", "turn", "resume", "keep", "complete", "revert"]
    assert tickets.failures == [MemoryFailure(step, "The disk is gone.") for step in steps]
    assert len(caplog.records) == len(steps)


def test_without_a_memory_the_flow_is_the_same(caplog):
    tickets = TicketMemory("acme")
    assert (tickets.start(CACHE), tickets.turn("a", "b")) == ("", "")
    assert tickets.complete(CACHE, LESSON) is None
    assert not tickets.revert(CACHE)
    assert (tickets.failures, caplog.records) == ([], [])


def test_a_bad_project_id_is_refused_at_once():
    with pytest.raises(InvalidInput, match="project_id"):
        TicketMemory("../acme")


def test_of_two_who_complete_a_ticket_at_once_only_one_does(tmp_path):
    waiting = Barrier(2)

    def complete(summary):
        with open_projects(tmp_path) as memory:
            tickets = TicketMemory("acme", memory)
            tickets.is_done(CACHE)
            waiting.wait(30)
            return [tickets.complete(CACHE.model_copy(update={"id": f"T-{n}"}), summary).outcome for n in range(4)]

    with ThreadPoolExecutor(2) as pool:
        pairs = list(zip(*pool.map(complete, ["One lesson", "Another lesson"]), strict=True))
    assert [sorted(pair) for pair in pairs] == [["completed", "unchanged"]] * 4
    with open_projects(tmp_path) as memory:
        assert len(objects(memory, "acme", "work_item")) == len(objects(memory, "acme", "activity")) == 4


def test_a_ticket_whose_record_was_erased_is_not_said_to_be_kept(memory, tickets):
    tickets.complete(CACHE, LESSON)
    with memory.engine("acme") as engine:
        erase(engine, [item.id for item in objects(memory, "acme")], reason="asked for")
    assert tickets.complete(CACHE, LESSON) is None
    assert "erased" in tickets.failures[0].why
