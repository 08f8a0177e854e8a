"""Condensation: several old memories become one that stands for them. They stay, and so does the summary's position."""

import pytest
from making_parts import ScriptedModel, Talk

from treering.core.errors import Unavailable
from treering.core.patch import Transition
from treering.extensions.discussions.identity import apply_patch
from treering.extensions.discussions.making import MakingReport


@pytest.fixture
def talk(space):
    return Talk(space)


def condensing(talk, *, every=3, after=2, **changes):
    return talk.make(condense_every=every, condense_after=after, **changes)


def condensations(talk):
    return [item for item in talk.knowledge() if item.payload.form == "condensation"]


def answering(kind, text):
    return lambda prompt: text if prompt.startswith(kind) else None


def test_the_oldest_memories_become_one_that_represents_them(talk):
    made = condensing(talk.say(12))
    assert made.condensed == 1
    assert talk.titles() == ["m0+m2+m4", "m6", "m8", "m10"]


def test_parents_stay_active_and_are_named(talk):
    condensing(talk.say(12))
    (one,) = condensations(talk)
    parents = [item.title for item in talk.knowledge() if item.id in one.derived_from]
    assert sorted(parents) == ["m0", "m2", "m4"]
    assert (one.payload.first, one.payload.last) == (0, 5)
    assert one.payload.made_by.startswith("model:scripted:")


def test_as_long_as_too_few_memories_are_there_none_is_condensed(talk):
    assert condensing(talk.say(10)).condensed == 0
    assert talk.model.calls("CONDENSE") == []


def test_without_the_setting_nothing_is_condensed(talk):
    assert condensing(talk.say(40), every=0).condensed == 0


def test_a_long_discussion_is_condensed_bit_by_bit_and_each_memory_once(talk):
    for _ in range(5):
        condensing(talk.say(12))
    told = "+".join(talk.titles()).split("+")
    assert told == [f"m{number}" for number in range(0, 60, 2)]
    assert len(talk.model.calls("CONDENSE")) == len(condensations(talk)) == 9
    assert [memory.condensed for memory in talk.memories.all()] == [True] * 9 + [False] * 3


def test_a_condensation_is_noted_in_the_block_of_its_last_parent(talk):
    talk.say(60).make(max_messages=20)
    condensing(talk, every=2, after=0, max_messages=20)
    first, second = [talk.log.block(head) for head in talk.log.blocks()]
    assert [(one.first, one.last) for one in first.condensations] == [(0, 39)]
    assert second.condensations == ()


def test_nothing_is_condensed_before_the_summary_mentions_it(space):
    talk = Talk(space, ScriptedModel(answering("FOLD", "")))
    assert condensing(talk.say(12), summary=True).condensed == 0
    assert talk.titles() == ["m0", "m2", "m4", "m6", "m8", "m10"]


def test_the_position_of_the_summary_survives_condensation(talk):
    talk.say(12).make(summary=True)
    before = talk.text("rolling_summary")
    made = condensing(talk, summary=True)
    assert made.condensed == 1
    assert talk.text("rolling_summary") == before
    calls = len(talk.model.prompts)
    assert condensing(talk, summary=True) == MakingReport()
    assert len(talk.model.prompts) == calls
    condensing(talk.say(6), summary=True)
    assert talk.text("rolling_summary").text == "m0 m2 m4 m6 m8 m10 m12 m14 m16"
    assert talk.text("rolling_summary").last == 17
    assert talk.model.calls("FOLD")[-1] == ["m12", "m14", "m16"]


def test_where_the_model_makes_nothing_of_them_the_rules_do_and_it_is_not_asked_again(space):
    talk = Talk(space, ScriptedModel(answering("CONDENSE", "[]"))).say(12)
    assert condensing(talk).condensed == 1
    assert condensing(talk) == MakingReport()
    assert len(talk.model.calls("CONDENSE")) == 1
    (one,) = condensations(talk)
    assert one.payload.made_by == "built-in-4"
    assert "What m0 tells" in one.summary


def test_where_the_model_fails_the_memories_stay_and_it_is_tried_again(space):
    def down(prompt):
        if prompt.startswith("CONDENSE"):
            raise Unavailable("The model is down.")

    talk = Talk(space, ScriptedModel(down)).say(12)
    made = condensing(talk)
    assert (made.done, made.condensed) == (6, 0)
    assert made.errors == ("The model is down.",)
    talk.model.reply = None
    assert condensing(talk).condensed == 1


def test_when_a_parent_goes_the_others_stand_for_themselves_again(talk):
    condensing(talk.say(12))
    talk.log.delete([2])
    assert "m0" in talk.titles()
    talk.make()
    assert talk.titles() == ["m0", "m3", "m4", "m6", "m8", "m10"]
    assert condensations(talk) == []
    assert condensing(talk).condensed == 1
    assert talk.titles() == ["m0+m3+m4", "m6", "m8", "m10"]


def test_a_parent_that_is_withdrawn_while_it_is_condensed_leaves_no_condensation(talk):
    def withdrawn(prompt):
        if prompt.startswith("CONDENSE"):
            talk.model.reply = None
            talk.log.delete([2])

    talk.model.reply = withdrawn
    assert condensing(talk.say(12)).condensed == 0
    assert condensations(talk) == []


def test_condensation_is_archived_with_its_parent(talk):
    condensing(talk.say(12))
    (one,) = condensations(talk)
    parent = talk.engine.ledger.get(one.derived_from[0])
    gone = Transition(id=parent.id, expected_revision=parent.revision, to="archived")
    apply_patch(talk.engine, talk.ref, [gone], reason="Gone")
    talk.make()
    assert talk.knowledge("stale") == condensations(talk) == []
    assert talk.titles() == ["m2", "m4", "m6", "m8", "m10"]
