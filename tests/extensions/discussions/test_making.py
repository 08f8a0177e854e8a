"""Making memories: chunk by chunk, each kept with what became of it; nothing lost, nothing made or paid twice."""

import json
import threading
from dataclasses import replace
from datetime import timedelta

import pytest
from making_parts import PROMPTS, SETTINGS, ScriptedModel, Talk, failing_at, item

from treering.core.errors import Denied, Unavailable
from treering.core.patch import Transition, Update
from treering.extensions.discussions.generators.built_in import BuiltInGenerator
from treering.extensions.discussions.generators.by_model import Prompt
from treering.extensions.discussions.identity import apply_patch
from treering.extensions.discussions.making import MakingReport, MemoryMaker
from treering.verbs.ingest.turns import Message
from treering.verbs.leases import held


@pytest.fixture
def talk(space):
    return Talk(space)


class Killed(BaseException):
    """The process ends here."""


def killed_at(*numbers):
    left = list(numbers)

    def reply(prompt):
        for number in left:
            if prompt.startswith("MEMORIES") and f"turn {number} " in prompt:
                left.remove(number)
                raise Killed

    return reply


def answering(text):
    return lambda prompt: text if prompt.startswith("MEMORIES") else None


def test_each_complete_chunk_becomes_memories_and_the_newest_partial_one_waits(talk):
    made = talk.say(5).make()
    assert (made.done, made.empty, made.failed, made.busy) == (2, 0, 0, False)
    assert talk.titles() == ["m0", "m2"]
    assert talk.states() == [(0, "done"), (2, "done")]
    assert made.usage.requests == len(talk.model.prompts) == 2


def test_memories_cite_every_message_of_their_chunk(talk):
    talk.say(2).make()
    (memory,) = talk.knowledge()
    cited = {ref.segment_id for ref in memory.evidence_refs}
    assert cited == {segment_id for kept in talk.log.read() for segment_id in kept.segment_ids}
    assert (memory.payload.first, memory.payload.last) == (0, 1)
    assert memory.memory_source == "system_generated"
    assert memory.payload.made_by.startswith("model:scripted:")


def test_a_chunk_may_give_several_memories(space):
    talk = Talk(space, ScriptedModel(answering(json.dumps([item("one"), item("two")]))))
    assert talk.say(2).make().done == 1
    assert talk.titles() == ["one", "two"]


def test_what_is_done_is_not_made_again(talk):
    talk.say(5).make()
    calls = len(talk.model.prompts)
    assert talk.make() == MakingReport()
    assert len(talk.model.prompts) == calls
    assert talk.titles() == ["m0", "m2"]


def test_making_memories_of_empty_discussion_writes_nothing(talk):
    before = talk.engine.ledger.sequence()
    assert talk.make() == MakingReport()
    assert talk.engine.ledger.sequence() == before


def test_a_lookback_of_none_starts_and_reaches_the_last_message(talk):
    assert talk.say(4).make(lookback=0).done == 2
    assert talk.titles() == ["m0", "m2"]


def test_the_lookback_omits_the_last_messages(talk):
    talk.say(5).make(lookback=2)
    assert talk.titles() == ["m0"]
    talk.say(1).make(lookback=2)
    assert talk.titles() == ["m0", "m2"]


def test_the_rules_make_memories_without_a_model(talk):
    talk.log.record([Message(content="We decided to use Postgres.", role="user"), Message(content="ok", role="user")])
    maker = MemoryMaker(talk.engine, talk.ref, settings=SETTINGS, generator=BuiltInGenerator())
    assert maker.make().done == 1
    assert talk.titles() == ["We decided to use Postgres"]


def test_a_generator_may_look_at_all_memories_and_the_summary(space):
    talk = Talk(space, prompts=replace(PROMPTS, memories=Prompt("MEMORIES [chunk] [summary] [all_memories]")))
    talk.say(6).make(summary=True)
    talk.say(2).make(summary=True)
    (asked,) = (prompt for prompt in talk.model.prompts if "turn 6 " in prompt)
    assert "m0 m2 m4" in asked
    assert "- m4: What m4 tells." in asked


def test_progress_is_reported(talk):
    told = []
    talk.say(4).maker(progress=lambda *told_now: told.append(told_now)).make()
    assert told == [("making memories", 1, None), ("making memories", 2, None)]


# A chunk that fails.


def test_a_failed_chunk_in_the_middle_is_not_lost(space):
    talk = Talk(space, ScriptedModel(failing_at(2))).say(6)
    made = talk.make()
    assert (made.done, made.failed) == (2, 1)
    assert made.errors == ("messages 2 to 3: The model is down.",)
    assert talk.states() == [(0, "done"), (2, "failed"), (4, "done")]
    talk.model.reply = None
    talk.clock.set(talk.state_at(2).retry_at)
    assert talk.make().done == 1
    assert talk.titles() == ["m0", "m2", "m4"]


def test_what_was_made_before_a_failure_is_kept(space):
    talk = Talk(space, ScriptedModel(failing_at(4))).say(6)
    talk.make()
    assert talk.titles() == ["m0", "m2"]


def test_a_failed_chunk_waits_twice_as_long_after_each_failure_and_never_longer_than_a_day(space):
    talk = Talk(space, ScriptedModel(failing_at(0))).say(2)
    waits = []
    for attempt in range(1, 15):
        assert talk.make(retry_seconds=30).failed == 1
        state = talk.state_at(0)
        assert state.attempts == attempt
        assert state.error == "The model is down."
        waits.append(round((state.retry_at - talk.clock.now()).total_seconds()))
        talk.clock.set(state.retry_at)
    assert waits[:4] == [30, 60, 120, 240]
    assert waits[-1] == timedelta(days=1).total_seconds()


def test_failed_chunk_waits_for_its_retry_time(space):
    talk = Talk(space, ScriptedModel(failing_at(0))).say(4)
    talk.make()
    calls = len(talk.model.prompts)
    made = talk.make()
    assert (made.waiting, made.failed, len(talk.model.prompts)) == (1, 0, calls)


def test_an_answer_that_stays_wrong_is_a_failure_of_two_calls(space):
    talk = Talk(space, ScriptedModel(answering("I would rather not."))).say(2)
    made = talk.make()
    assert made.failed == 1
    assert "no memories" in made.errors[0]
    assert len(talk.model.prompts) == 2


def test_many_failures_in_a_row_end_a_run_and_the_rest_is_due_still(space):
    talk = Talk(space, ScriptedModel(failing_at(*range(0, 30, 2)))).say(30)
    made = talk.make()
    assert (made.failed, len(talk.model.prompts)) == (5, 5)
    talk.model.reply = None
    talk.clock.set(talk.state_at(0).retry_at + timedelta(days=1))
    assert talk.make().done == 15


def test_rejected_items_are_reported_and_kept_with_the_chunk(space):
    talk = Talk(space, ScriptedModel(answering(json.dumps([item("one"), {"title": "two"}])))).say(2)
    (rejected,) = talk.make().rejected
    assert "item 2: summary" in rejected
    assert talk.state_at(0).rejected


# A chunk that is empty.


def test_an_empty_extraction_is_a_success_and_not_billed_again(space):
    talk = Talk(space, ScriptedModel(answering("[]"))).say(4)
    assert talk.make().empty == 2
    assert talk.make() == MakingReport()
    assert len(talk.model.prompts) == 2
    assert talk.states() == [(0, "empty"), (2, "empty")]


def test_thoughts_before_the_answer_are_no_answer(space):
    talk = Talk(space, ScriptedModel(answering(f"<think>{{}}</think>{json.dumps([item('one')])}"))).say(2)
    assert talk.make().done == 1
    assert talk.titles() == ["one"]


# A process that ends.


@pytest.mark.parametrize("number", [0, 2, 4])
def test_a_process_that_ends_while_it_makes_a_memory_loses_that_one_call_and_nothing_else(space, number):
    talk = Talk(space, ScriptedModel(killed_at(number))).say(6)
    with pytest.raises(Killed):
        talk.make()
    talk.make()
    assert talk.titles() == ["m0", "m2", "m4"]
    assert len(talk.model.calls()) == 4


def test_a_process_that_ends_right_after_a_write_has_written_the_chunk_with_its_memory(space, monkeypatch):
    talk = Talk(space).say(4)
    commit = type(talk.engine.ledger).commit

    def commit_and_end(ledger, patch, **options):
        commit(ledger, patch, **options)
        raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(type(talk.engine.ledger), "commit", commit_and_end)
        with pytest.raises(Killed):
            talk.make()
    assert talk.states() == [(0, "done")]
    assert talk.make().done == 1
    assert talk.titles() == ["m0", "m2"]
    assert talk.model.calls() == ["0", "2"]


def outcome(talk):
    return talk.titles(), talk.text("state_document").text, talk.text("rolling_summary").text


@pytest.mark.parametrize("after", [False, True], ids=["before a write", "after a write"])
def test_wherever_a_process_ends_the_next_makes_the_same_of_it_as_a_quiet_one(open_space, monkeypatch, after):
    quiet = Talk(open_space()).say(6)
    quiet.make(state=True, summary=True)
    least = len(quiet.model.prompts)
    writes = quiet.engine.ledger.sequence()
    commit = type(quiet.engine.ledger).commit
    for number in range(writes):
        talk, left = Talk(open_space()).say(6), [None] * number

        def ending(ledger, patch, left=left, **options):
            result = commit(ledger, patch, **options) if after or left else None
            if not left:
                raise Killed
            left.pop()
            return result

        with monkeypatch.context() as patched:
            patched.setattr(type(talk.engine.ledger), "commit", ending)
            try:
                talk.make(state=True, summary=True)
            except Killed:
                talk.model.prompts.append("lost")
        ended = talk.model.prompts.count("lost")
        talk.make(state=True, summary=True)
        assert outcome(talk) == outcome(quiet)
        assert len(talk.model.prompts) <= least + 2 * ended
        if not ended:
            break
    else:
        pytest.fail("no run was quiet to its end")


def test_a_limit_on_chunks_leaves_the_rest_for_later(talk):
    talk.say(8)
    assert talk.make(most=3).done == 3
    assert talk.make().done == 1
    assert len(talk.model.prompts) == 4


# Several processes.


def test_a_second_process_sees_that_one_is_at_it(talk):
    talk.say(4)
    with held(talk.engine.leases, f"discussion:{talk.ref.scope}", "another", 60):
        assert talk.make() == MakingReport(busy=True)
    assert talk.model.prompts == []
    assert talk.make().done == 2


def test_two_threads_make_every_memory_once(open_space, tmp_path):
    path, model = str(tmp_path / "space.db"), ScriptedModel()
    talks = [Talk(open_space(path), model) for _ in range(2)]
    talks[0].say(40)
    made, begin = [], threading.Barrier(2)

    def run(talk):
        begin.wait(10)
        made.append(talk.make(wait_seconds=60))

    threads = [threading.Thread(target=run, args=(talk,)) for talk in talks]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(each.done for each in made) == [0, 20]
    assert len(model.calls()) == len(set(model.calls())) == 20
    assert talks[1].titles() == [f"m{n}" for n in range(0, 40, 2)]


def test_a_chunk_that_another_process_made_meanwhile_is_not_written_twice(open_space, tmp_path):
    path = str(tmp_path / "space.db")
    late = Talk(open_space(path)).say(2)
    other = Talk(open_space(path))

    def overtaken(prompt):
        late.model.reply = None
        late.engine.leases.take(f"discussion:{late.ref.scope}", _holder(late), seconds=0)
        other.make()

    late.model.reply = overtaken
    late.make()
    assert late.titles() == ["m0"]
    assert late.states() == [(0, "done")]


def _holder(talk):
    return talk.engine.leases.holder(f"discussion:{talk.ref.scope}")


def test_nothing_is_written_once_the_lease_is_lost(space):
    talk = Talk(space).say(4)

    def taken_over(prompt):
        name = f"discussion:{talk.ref.scope}"
        talk.engine.leases.take(name, _holder(talk), seconds=0)
        talk.engine.leases.take(name, "another", seconds=60)

    talk.model.reply = taken_over
    made = talk.make()
    assert made.busy
    assert made.done == 0
    assert len(talk.model.prompts) == 1
    assert talk.states() == []


def test_messages_that_arrive_while_a_memory_is_made_cost_no_second_call(space):
    talk = Talk(space).say(2)

    def interrupted(prompt):
        talk.model.reply = None
        talk.say(1)

    talk.model.reply = interrupted
    assert talk.make().done == 1
    assert talk.titles() == ["m0"]
    assert talk.model.calls() == ["0"]


def test_a_message_that_is_withdrawn_while_its_memory_is_made_leaves_no_memory(space):
    talk = Talk(space).say(2)

    def withdrawn(prompt):
        talk.model.reply = None
        talk.log.delete([0, 1])

    talk.model.reply = withdrawn
    assert talk.make().done == 0
    assert talk.titles() == []


# Messages that go.


def test_deleting_a_message_remakes_memories_of_its_chunk(space):
    talk = Talk(space).say(6)
    talk.make()
    talk.log.delete([2])
    assert talk.titles() == ["m0", "m4"]
    talk.make()
    assert talk.titles() == ["m0", "m3", "m4"]


def test_memories_of_a_source_that_was_archived_by_other_means_are_archived(space):
    talk = Talk(space).say(2)
    talk.make()
    (head,) = talk.log.blocks()
    gone = Transition(id=head.source_id, expected_revision=head.revision, to="archived")
    apply_patch(talk.engine, talk.ref, [gone], reason="Gone")
    assert len(talk.knowledge("stale")) == 1
    talk.make()
    assert talk.knowledge("stale") == []
    assert len(talk.knowledge("archived")) == 1


def test_what_is_left_of_a_block_that_lost_words_by_other_means_is_rebuilt(space):
    talk = Talk(space).say(6)
    talk.make()
    (head,) = talk.log.blocks()
    source = talk.engine.ledger.get(head.source_id)
    left = [segment.model_dump() for segment in source.segments if segment.locator.turn != 2]
    cut = Update(id=source.id, expected_revision=source.revision, changes={"segments": left})
    apply_patch(talk.engine, talk.ref, [cut], reason="Cut")
    assert [memory.title for memory in talk.knowledge("stale")] == ["m2"]
    talk.make()
    assert talk.knowledge("stale") == []
    assert talk.titles() == ["m0", "m3", "m4"]


def test_regenerated_tail_gets_new_memories(space):
    talk = Talk(space).say(6)
    talk.make()
    other = [Message(content="turn 40 of our talk", role="user"), Message(content="turn 41", role="assistant")]
    talk.log.record(other, start=4)
    talk.make()
    assert talk.titles() == ["m0", "m2", "m40"]
    assert talk.model.calls() == ["0", "2", "4", "40"]


# The texts made of memories.


def test_state_and_summary_are_updated_with_the_memories(space):
    talk = Talk(space).say(6)
    made = talk.make(state=True, summary=True)
    assert talk.text("state_document").text == "m0 m2 m4"
    assert talk.text("rolling_summary").text == "m0 m2 m4"
    assert (made.state_version, made.summary_version) == (
        talk.text("state_document").id,
        talk.text("rolling_summary").id,
    )
    assert talk.model.calls("MERGE") == [[], [], []]
    assert talk.model.calls("FOLD") == [["m0", "m2", "m4"]]
    assert made.usage.requests == 3 + 3 + 1


def test_nothing_new_costs_nothing(space):
    talk = Talk(space).say(7)
    talk.make(state=True, summary=True)
    calls = len(talk.model.prompts)
    assert talk.make(state=True, summary=True) == MakingReport()
    assert len(talk.model.prompts) == calls


@pytest.mark.parametrize("kind", ["MERGE", "FOLD"])
def test_an_empty_answer_never_replaces_a_text_and_is_not_billed_again(space, kind):
    talk = Talk(space).say(6)
    talk.make(state=True, summary=True)
    before = {form: talk.text(form).text for form in ("state_document", "rolling_summary")}
    form = {"MERGE": "state_document", "FOLD": "rolling_summary"}[kind]
    talk.model.reply = lambda prompt: "" if prompt.startswith(kind) else None
    made = talk.say(6).make(state=True, summary=True)
    assert talk.text(form).text == before[form]
    assert made.rejected
    calls = len(talk.model.prompts)
    assert talk.make(state=True, summary=True) == MakingReport()
    assert len(talk.model.prompts) == calls
    talk.model.reply = None
    talk.say(6).make(state=True, summary=True)
    assert talk.text(form).text == "m0 m2 m4 m6 m8 m10 m12 m14 m16"


@pytest.mark.parametrize("kind", ["MERGE", "FOLD"])
def test_a_text_that_could_not_be_written_is_updated_the_next_time(space, kind):
    def down(prompt):
        if prompt.startswith(kind):
            raise Unavailable("The model is down.")

    talk = Talk(space, ScriptedModel(down)).say(6)
    made = talk.make(state=True, summary=True)
    assert made.done == 3
    assert "The model is down." in made.errors
    talk.model.reply = None
    talk.make(state=True, summary=True)
    assert talk.text("state_document").text == talk.text("rolling_summary").text == "m0 m2 m4"


@pytest.mark.parametrize("kind", ["MERGE", "FOLD"])
def test_a_process_that_ends_while_it_writes_a_text_leaves_it_for_the_next(space, kind):
    def killed(prompt):
        if prompt.startswith(kind):
            raise Killed

    talk = Talk(space, ScriptedModel(killed)).say(6)
    with pytest.raises(Killed):
        talk.make(state=True, summary=True)
    talk.model.reply = None
    talk.make(state=True, summary=True)
    assert talk.titles() == ["m0", "m2", "m4"]
    assert talk.text("state_document").text == talk.text("rolling_summary").text == "m0 m2 m4"


# A long discussion.


def test_what_is_done_is_not_read_again_however_long_the_discussion_is(space, monkeypatch):
    talk = Talk(space)
    reads = []
    get = type(talk.engine.ledger).get

    def counted(ledger, identity, **options):
        reads.append(identity)
        return get(ledger, identity, **options)

    monkeypatch.setattr(type(talk.engine.ledger), "get", counted)
    costs = []
    for _ in range(16):
        talk.say(40)
        reads.clear()
        talk.make(max_messages=20)
        talk.make(max_messages=20)
        costs.append(len([identity for identity in reads if identity.startswith("src")]))
    assert max(costs[10:]) <= max(costs[4:10])
    assert len(talk.titles()) == 32


def test_what_changes_in_an_old_block_is_seen_all_the_same(space):
    talk = Talk(space)
    for _ in range(8):
        talk.say(40).make(max_messages=20)
    talk.log.delete([0])
    talk.make(max_messages=20)
    assert talk.titles()[:2] == ["m1", "m20"]


def test_memory_in_space_with_review_is_denied(open_space):
    talk = Talk(open_space()).say(2)
    reviewing = talk.engine.ledger.policy.model_copy(update={"direct_channels": frozenset()})
    talk.engine.ledger.change_policy(reviewing, by=talk.engine.author)
    with pytest.raises(Denied, match="directly"):
        talk.make()
    assert talk.states() == []
