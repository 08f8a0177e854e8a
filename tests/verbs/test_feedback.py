"""Feedback counts a little, for like questions in its scope; what agents say moves nothing above a person's."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from space_parts import note, open_space
from treering.core.errors import Denied, InvalidInput, NotFound
from treering.core.policy import TRUST_WEIGHTS, Policy
from treering.testing.fakes import SteppingClock
from treering.verbs.feedback import OF_OTHERS, OF_PERSONS

QUESTION = "how often is a failed fetch retried"
TEXTS = [
    "A failed fetch is retried three times.",
    "A failed fetch is retried until the limit is reached.",
    "How a fetch that failed is retried stands in the settings.",
    "Retried fetches are logged; a failed one is shown.",
]


@pytest.fixture
def place():
    with open_space(channel="user", actor="ada") as space:
        yield space, [note(space, text, origin=f"n{n}")["source_id"] for n, text in enumerate(TEXTS)]


def ask(space, text=QUESTION, scope="/", **options):
    return space.query("search", scope, {"text": text}, {"semantic": False, "limit": 10, **options})


def order(space, text=QUESTION, **options):
    return [hit.object_id for hit in ask(space, text, **options).hits]


def scores(space, text=QUESTION, **options):
    return {hit.object_id: hit.score for hit in ask(space, text, **options).hits}


def say(space, scope="/", **told):
    return space.crystallize("feedback", scope, {"question": QUESTION, **told})


def agent(space):
    return space.with_actor("bot", channel="agent")


class TestCounting:
    def test_what_a_person_marks_counts_a_little_and_is_explained(self, place):
        space, _ = place
        before = scores(space)
        best, *_, last = order(space)
        report = say(space, right=[last], wrong=[best])
        assert (report.noted, report.counts, report.mode) == (2, True, "feedback")
        after = scores(space)
        assert before[last] < after[last] <= before[last] * (1 + OF_PERSONS)
        assert before[best] > after[best] >= before[best] * (1 - OF_PERSONS)
        told = {hit.object_id: hit.explain for hit in ask(space, explain=True).hits}
        assert told[last]["feedback"]["right by user"] == 1
        assert told[best]["feedback"]["persons"] < 0
        assert "feedback" not in told[order(space)[1]]

    def test_it_is_given_by_the_name_of_the_answer_as_well(self, place):
        space, ids = place
        report = ask(space)
        say(space, question=report.answer, right=[ids[3]])
        assert scores(space)[ids[3]] > {hit.object_id: hit.score for hit in report.hits}[ids[3]]
        context = space.query("context", "/", {"task": QUESTION}, {"semantic": False})
        assert context.answer == report.answer

    def test_it_counts_for_questions_like_the_one_it_was_given_for_and_for_no_other(self, place):
        space, ids = place
        other = "what is shown and logged of fetches"
        before, before_like = scores(space, other), scores(space, "is a failed fetch retried")
        say(space, right=[ids[3]])
        assert scores(space, other) == before
        assert scores(space, "is a failed fetch retried")[ids[3]] > before_like[ids[3]]

    def test_it_counts_in_its_scope_only(self):
        with open_space(channel="user", actor="ada") as space:
            ids = [note(space, text, origin=f"n{n}")["source_id"] for n, text in enumerate(TEXTS)]
            here, below = scores(space), scores(space, scope="/team")
            say(space, "/team", right=[ids[3]])
            assert scores(space) == here
            assert scores(space, scope="/team")[ids[3]] > below[ids[3]]

    def test_it_fades(self, place):
        space, ids = place
        before = scores(space)[ids[3]]
        say(space, right=[ids[3]])
        gain = scores(space)[ids[3]] - before
        clock = SteppingClock(datetime.now(UTC) + timedelta(days=900))
        later = replace(space, engine=replace(space.engine, clock=clock))
        assert scores(later)[ids[3]] - before < 0.01 * gain

    def test_it_changes_neither_trust_nor_the_past(self, place):
        space, ids = place
        bot = agent(space)
        low = note(bot, "A failed fetch is retried five times.", origin="bot")["source_id"]
        say(space, right=[low])
        (hit,) = [hit for hit in ask(space).hits if hit.object_id == low]
        assert hit.trust == "low"
        weights = sorted(TRUST_WEIGHTS.values())
        assert all(one * (1 + OF_PERSONS + OF_OTHERS) < more for one, more in pairwise(weights))
        past = ask(space, as_of=space.engine.ledger.sequence(), explain=True)
        assert not any("feedback" in (hit.explain or {}) for hit in past.hits)
        assert ids

    def test_a_person_who_says_otherwise_is_believed_now(self, place):
        space, ids = place
        before = scores(space)[ids[0]]
        say(space, right=[ids[0]])
        say(space, wrong=[ids[0]])
        assert scores(space)[ids[0]] < before

    def test_what_was_said_is_taken_back_by_the_channel_that_said_it(self, place):
        space, ids = place
        before = scores(space)
        say(space, right=[ids[0]], wrong=[ids[1]], used=[ids[0]])
        bot = agent(space)
        assert say(bot, neither=[ids[0], ids[1]]).taken_back == 0
        report = say(space, neither=[ids[0], ids[1]])
        assert (report.noted, report.taken_back) == (0, 2)
        assert space.perform("feedback status").verdicts == {"used by user": 1}
        assert scores(space)[ids[1]] == before[ids[1]]
        with pytest.raises(NotFound):
            say(space, neither=["src:01kefz3m8qd5v2n7x4t9r6w0ya"])


class TestAttack:
    def test_a_thousand_verdicts_of_an_agent_move_nothing_above_what_a_person_marked(self, place):
        space, ids = place
        bot = agent(space)
        poison = note(bot, "A fetch that is retried again and again.", origin="p")["source_id"]
        marked = order(space)[-2]
        say(space, right=[marked])
        above = set(order(space)[: order(space).index(marked)])
        assert poison not in above
        others = [one for one in ids if one != marked]
        for number in range(20):
            # Fifty verdicts a call, in words that are and are not those of the question.
            asked = {"question": f"{QUESTION} variant{number}"} if number % 3 else {}
            say(bot, **asked, right=[poison, *others] * 10)
            say(bot, **asked, right=[poison], wrong=[marked], used=[poison] * 50)
        assert set(order(space)[: order(space).index(marked)]) <= above

    def test_they_lift_nothing_by_more_than_their_bound_and_push_no_verdict_of_a_person_out(self, place):
        space, ids = place
        before = scores(space)
        say(space, right=[ids[1]])
        kept = scores(space)[ids[1]]
        bot = agent(space)
        for number in range(60):
            told = [f"{QUESTION} {number} word{n}" for n in range(10)]
            for question in told:
                say(bot, question=question, right=[ids[2]], wrong=[ids[1]])
        after = scores(space)
        assert after[ids[1]] == pytest.approx(kept, rel=1e-4)
        assert after[ids[2]] <= before[ids[2]] * (1 + OF_OTHERS) + 1e-6
        assert space.perform("feedback status").verdicts["right by user"] == 1

    def test_what_is_out_of_sight_cannot_be_marked(self, place):
        space, _ = place
        hidden = note(space, "Secret.", scope="/other")["source_id"]
        with pytest.raises(NotFound):
            say(space, "/team", right=[hidden])

    def test_an_answer_of_another_scope_and_a_made_up_name_are_refused(self, place):
        space, ids = place
        name = ask(space).answer
        for scope, answer in (
            ("/team", name),
            ("/", "ans:zzzz"),
            ("/", "ans:"),
            ("/", name[:-2]),
            ("/", "ans:" + "é" * 20),
        ):
            with pytest.raises(InvalidInput, match="names no answer"):
                say(space, scope, question=answer, right=[ids[0]])

    def test_channels_that_are_reviewed_give_none(self):
        with open_space(channel="user", actor="ada") as space:
            one = note(space, TEXTS[0])["source_id"]
            policy = Policy(direct_channels=frozenset({"user"}))
            space.engine.ledger.change_policy(policy, by=space.engine.author)
            with pytest.raises(Denied):
                say(agent(space), right=[one])


class TestControl:
    def test_it_is_switched_off_and_on_and_erased_by_one_command(self, place):
        space, ids = place
        before = scores(space)
        say(space, right=[ids[3]])
        counted = scores(space)
        assert space.perform("feedback off").on is False
        assert scores(space) == before
        assert say(space, right=[ids[2]]).counts is False
        assert space.perform("feedback on").verdicts == {"right by user": 2}
        assert scores(space)[ids[3]] == pytest.approx(counted[ids[3]])
        assert space.perform("feedback erase").verdicts == {}
        assert scores(space) == before

    def test_off_at_the_root_is_off_everywhere(self, place):
        space, ids = place
        before = scores(space, scope="/team")
        say(space, "/team", right=[ids[3]])
        space.perform("feedback off")
        assert scores(space, scope="/team") == before
        space.perform("feedback erase")
        assert space.perform("feedback status", "/team").verdicts == {}

    def test_erasing_an_object_erases_what_was_said_of_it(self, place):
        space, ids = place
        say(space, right=[ids[3], ids[2]])
        space.erase([ids[3]])
        assert space.perform("feedback status").objects == 1
        assert ids[3] not in str(space.engine.feedback.find("feedback:/"))

    def test_it_is_no_job_and_holds_no_words_of_the_question(self, place):
        space, ids = place
        jobs = len(space.engine.jobs.recent(100, scope="/"))
        say(space, right=[ids[3]])
        assert len(space.engine.jobs.recent(100, scope="/")) == jobs
        kept = str(space.engine.feedback.find("feedback:/"))
        assert not [word for word in QUESTION.split() if len(word) > 3 and word in kept]

    @pytest.mark.parametrize(
        "told",
        [
            {"question": "", "right": ["x"]},
            {"question": QUESTION},
            {"question": QUESTION, "right": ["no id"]},
            {"question": "???", "right": []},
        ],
    )
    def test_bad_feedback_is_refused_and_changes_nothing(self, place, told):
        space, _ = place
        with pytest.raises(InvalidInput):
            space.crystallize("feedback", "/", told)
        assert space.perform("feedback status").objects == 0
