import json
from datetime import timedelta
from decimal import Decimal

import pytest
from memory_parts import CACHE, LESSON, NotingAssessor, NotingModel, NotingWorker, documents, done, go_on, objects

from treering.core.errors import Unavailable
from treering.extensions.projects.supervisor import ANSWER_CHARS, Limits, ModelAssessor, Response, Script, Supervisor
from treering.extensions.projects.ticket import MemoryFailure, Ticket, TicketMemory
from treering.system.machine import SystemClock
from treering.testing.fakes import SteppingClock

AGAIN = Ticket(id="T-2", title="Cache again", description="It serves stale pages after the last deploy")
PAST = "Ticket: Old one. The cache served stale pages. Purging by hand helped"


def supervisor(assessor, worker, memory=None, *, clock=None, **limits):
    return Supervisor(
        assessor,
        worker,
        memory=TicketMemory("acme", memory),
        clock=clock or SystemClock(),
        limits=Limits(**limits),
    )


def answering(*assessments):
    """Make a model that gives assessments as JSON, one after the other."""
    left = iter(assessments)
    return NotingModel(lambda _: next(left).model_dump_json())


def test_a_ticket_is_worked_on_turn_by_turn_until_it_is_complete(memory):
    worker = NotingWorker(["The keys have no version.", "Now they have."])
    script = Script([go_on("Look at the keys"), go_on("Give them a version"), done()])
    report = supervisor(script, worker, memory).run([CACHE])
    (result,) = report.results
    assert worker.told == ["Look at the keys", "Give them a version"]
    assert (result.outcome, result.turns, result.summary) == ("completed", 2, LESSON)
    assert documents(memory, "acme") == [CACHE.document(LESSON)]
    assert report.memory_failures == ()


def test_the_supervisor_sees_the_ticket_the_last_turn_and_what_memory_recalls(memory):
    memory.index("acme", [PAST])
    model = answering(go_on("Look at the keys"), done())
    supervisor(ModelAssessor(model), NotingWorker(["The cache is stale again"]), memory).work(CACHE)
    opening, judging = model.prompts
    assert CACHE.description in opening
    assert f"Memories invoked:\n{PAST}" in opening
    assert opening.index(PAST) < opening.index(CACHE.description)
    assert judging.index(PAST) < judging.index("The cache is stale again")
    for part in (CACHE.title, "Look at the keys", "The cache is stale again", PAST, "turn 1 of at most"):
        assert part in judging


def test_worker_gets_only_the_supervisors_prompt(memory):
    lessons = [f"The cache served stale pages in case {n}, and remedy {n} of the cache helped" for n in range(6)]
    memory.index("acme", lessons)
    prompts = ["Look at the cache", "Check its stale pages", "Deploy"]
    worker = NotingWorker(["The cache serves stale pages"])
    model = answering(*map(go_on, prompts), done("Done"))
    supervisor(ModelAssessor(model), worker, memory).work(CACHE)
    assert worker.told == prompts
    recalled = [lesson for lesson in lessons if any(lesson in prompt for prompt in model.prompts)]
    assert len(recalled) >= 4, "the supervisor did see memories"
    for told in worker.told:
        assert "Memories invoked" not in told
        assert not [lesson for lesson in lessons if lesson in told]


def test_every_turn_recalls_by_its_own_prompt_the_first_one_included(memory):
    lessons = {"elevator": "elevator: cable frayed", "gearbox": "gearbox: oil leaked", "pump": "pump: seal burst"}
    memory.index("acme", list(lessons.values()))
    prompts = iter([f"Inspect the {topic}" for topic in lessons])
    assessor = NotingAssessor(lambda told: done() if told.turns == len(lessons) else go_on(next(prompts)))
    supervisor(assessor, NotingWorker(["done so far"]), memory).work(Ticket(title="Annual service"))
    opening, *turns = assessor.briefings
    assert opening.memories == ""
    assert [turn.memories for turn in turns] == [f"Memories invoked:\n{lesson}" for lesson in lessons.values()]


def test_what_the_supervisor_repeats_of_memory_does_reach_the_worker(memory):
    memory.index("acme", [PAST])
    worker = NotingWorker()
    script = Script([go_on(f"Somebody wrote: {PAST}"), done()])
    supervisor(script, worker, memory).work(CACHE)
    assert worker.told == [f"Somebody wrote: {PAST}"]


def test_a_second_ticket_profits_from_the_first(memory):
    assessor = NotingAssessor(lambda briefing: done() if briefing.turns else go_on("Begin"))
    supervisor(assessor, NotingWorker(), memory).run([CACHE, AGAIN])
    openings = [briefing for briefing in assessor.briefings if not briefing.turns]
    assert openings[0].memories == ""
    assert CACHE.document(LESSON) in openings[1].memories


def test_a_ticket_that_is_done_is_not_worked_on_again(memory):
    worker = NotingWorker()
    script = Script([go_on("Begin"), done()])
    for outcome in ("completed", "already_completed"):
        assert supervisor(script, worker, memory).work(CACHE).outcome == outcome
    assert worker.told == ["Begin"]


def test_a_reverted_ticket_is_worked_on_from_its_beginning(memory):
    worker = NotingWorker()
    script = Script([go_on("Begin"), done()])
    supervisor(script, worker, memory).work(CACHE)
    TicketMemory("acme", memory).revert(CACHE)
    assert supervisor(script, worker, memory).work(CACHE).outcome == "completed"
    assert worker.told == ["Begin", "Begin"]


def test_a_supervisor_is_told_that_a_ticket_cannot_be_complete_before_its_first_turn(memory):
    model = answering(go_on("Begin"), done())
    supervisor(ModelAssessor(model), NotingWorker(), memory).work(CACHE)
    opening, judging = model.prompts
    assert "cannot be complete" in opening
    assert "title and description unchanged" in opening
    assert "cannot be complete" not in judging


def test_a_ticket_cannot_be_complete_before_anything_was_done(memory):
    worker = NotingWorker()
    result = supervisor(Script([done(), done()]), worker, memory).work(CACHE)
    assert worker.told == [f"{CACHE.title}\n\n{CACHE.description}"]
    assert (result.outcome, result.turns) == ("completed", 1)


class Crash(BaseException):
    """Ends a run as `kill -9` would: nothing catches it."""


@pytest.mark.parametrize("crashes_in", ["the worker", "the assessment"])
def test_a_run_that_crashed_goes_on_at_the_turn_it_was_at(memory, crashes_in):
    script = Script([go_on("First"), go_on("Second"), go_on("Third"), done()])

    class Crashing(NotingWorker):
        def work(self, prompt, *, seconds):
            if crashes_in == "the worker" and prompt == "Second":
                raise Crash
            return super().work(prompt, seconds=seconds)

    def judge(briefing):
        if crashes_in == "the assessment" and briefing.turns == 1:
            raise Crash
        return script.assessments[briefing.turns]

    first = Crashing()
    with pytest.raises(Crash):
        supervisor(NotingAssessor(judge), first, memory).work(CACHE)
    assert first.told == ["First"]
    second = NotingWorker()
    assert supervisor(script, second, memory).work(CACHE).turns == 3
    assert second.told == ["Second", "Third"]
    assert documents(memory, "acme") == [CACHE.document(LESSON)]


def test_a_run_stops_where_another_one_has_taken_its_ticket_over(memory):
    script = Script([go_on("First"), go_on("Second"), done()])

    class Overtaken(NotingWorker):
        def work(self, prompt, *, seconds):
            supervisor(script, NotingWorker(), memory).work(CACHE)
            return super().work(prompt, seconds=seconds)

    result = supervisor(script, Overtaken(), memory).work(CACHE)
    assert (result.outcome, result.turns) == ("taken", 1)
    assert len(objects(memory, "acme", "activity")) == 1


def test_a_ticket_takes_no_more_turns_than_allowed_and_goes_on_when_more_are(memory):
    script = Script([*(go_on(f"Step {n}") for n in range(5)), done()])
    worker = NotingWorker()
    stopped = supervisor(script, worker, memory, turns=3).work(CACHE)
    assert (stopped.outcome, stopped.turns) == ("stopped", 3)
    assert "3 turns" in stopped.why
    assert supervisor(script, worker, memory, turns=10).work(CACHE).turns == 5
    assert worker.told == [f"Step {n}" for n in range(5)]


def test_how_many_turns_a_ticket_took_is_said_in_good_english(memory):
    script = Script([go_on(f"Step {n}") for n in range(3)])
    assert supervisor(script, NotingWorker(), memory, turns=1).work(CACHE).why == "it has taken 1 turn"
    assert supervisor(script, NotingWorker(), memory, turns=2).work(CACHE).why == "it has taken 2 turns"


def test_a_turn_may_take_all_the_time_its_ticket_has_left(memory):
    clock = SteppingClock(step=timedelta(seconds=10))
    given = []

    class Timed(NotingWorker):
        def work(self, prompt, *, seconds):
            given.append(seconds)
            return super().work(prompt, seconds=seconds)

    script = Script([go_on("First"), go_on("Second"), done()])
    supervisor(script, Timed(), memory, clock=clock, seconds=7_200).work(CACHE)
    assert len(given) == 2
    assert 7_200 > given[0] > given[1] > 7_000


def test_a_ticket_takes_no_more_time_than_allowed(memory):
    clock = SteppingClock(step=timedelta(seconds=10))
    script = Script([go_on(f"Step {n}") for n in range(50)])
    worker = NotingWorker()
    result = supervisor(script, worker, memory, clock=clock, seconds=100).work(CACHE)
    assert result.outcome == "stopped"
    assert 100 <= result.seconds <= 120
    assert "seconds" in result.why


def test_supervising_a_ticket_costs_no_more_than_allowed_over_all_runs(memory):
    for outcome, asked in (("stopped", 3), ("stopped", 0)):
        model = NotingModel(lambda _: go_on("Go on").model_dump_json())
        result = supervisor(ModelAssessor(model), NotingWorker(), memory, dollars=Decimal("0.03")).work(CACHE)
        assert (result.outcome, len(model.prompts), result.cost) == (outcome, asked, Decimal("0.03"))
        assert "dollars" in result.why


def test_an_assessment_that_cannot_be_read_is_repaired_once(memory):
    answers = iter(
        ["Well…", go_on("Begin").model_dump_json(), json.dumps({"complete": False}), done().model_dump_json()]
    )
    model = NotingModel(lambda _: next(answers))
    result = supervisor(ModelAssessor(model), NotingWorker(), memory).work(CACHE)
    assert (result.outcome, result.requests, result.cost) == ("completed", 4, Decimal("0.04"))


def test_a_supervisor_that_cannot_judge_fails_one_ticket_and_holds_up_no_other(memory):
    def judge(briefing):
        if briefing.ticket == CACHE and briefing.turns:
            raise Unavailable("The model is gone.", hint="Try again.")
        return done() if briefing.turns else go_on("Begin")

    worker = NotingWorker()
    report = supervisor(NotingAssessor(judge), worker, memory).run([CACHE, AGAIN])
    assert [result.outcome for result in report.results] == ["failed", "completed"]
    assert report.results[0].why == "The model is gone. Try again."
    assert supervisor(Script([go_on("Begin"), done()]), worker, memory).work(CACHE).outcome == "completed"
    assert worker.told == ["Begin", "Begin"], "what was done already is judged, not done again"


def test_a_script_that_has_ended_says_so(memory):
    result = supervisor(Script({CACHE.id: [go_on("Begin")]}), NotingWorker(), memory).work(CACHE)
    assert result.outcome == "failed"
    assert "script" in result.why


def test_a_worker_that_fails_is_something_the_supervisor_sees(memory):
    assessor = NotingAssessor(lambda briefing: done() if briefing.turns == 2 else go_on("Try"))
    worker = NotingWorker([Response("Traceback", "the command ended with exit code 3"), "Fine"])
    assert supervisor(assessor, worker, memory).work(CACHE).outcome == "completed"
    assert assessor.briefings[1].response == "The worker failed: the command ended with exit code 3.\nTraceback"


def test_of_a_long_answer_the_beginning_and_the_end_are_judged(memory):
    assessor = NotingAssessor(lambda briefing: done() if briefing.turns else go_on("Try"))
    supervisor(assessor, NotingWorker(["begin" + "x" * 1_000_000 + "end"]), memory).work(CACHE)
    response = assessor.briefings[1].response
    assert len(response) < ANSWER_CHARS + 50
    assert response.startswith("begin")
    assert response.endswith("end")


def test_without_memory_tickets_are_worked_on_all_the_same():
    report = supervisor(Script([go_on("Begin"), done()]), NotingWorker()).run([CACHE, AGAIN])
    assert [result.outcome for result in report.results] == ["completed", "completed"]
    assert report.memory_failures == ()


def test_a_memory_that_fails_holds_up_no_ticket_and_is_reported_at_the_end(memory):
    memory.close()
    report = supervisor(Script([go_on("Begin"), done()]), NotingWorker(), memory).run([CACHE])
    assert report.results[0].outcome == "completed"
    assert {failure.step for failure in report.memory_failures} == {"start", "turn", "resume", "keep", "complete"}
    assert MemoryFailure("start", "These projects are closed.") in report.memory_failures
