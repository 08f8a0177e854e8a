from dataclasses import replace

import pytest
from workflow_parts import NotingModel, at_hand, discussion, kept_run, messages, run

from late_index import LateIndex
from space_parts import all_of
from treering.core.errors import Denied, Unavailable
from treering.core.policy import Policy
from treering.extensions.discussions.generators.generator import DiscussionSettings
from treering.extensions.discussions.identity import NOTHING_YET
from treering.extensions.discussions.memory import DiscussionMemory
from treering.extensions.workflows.registry import scene_of

TALK = [f"message number {number}" for number in range(10)]


def node(**more):
    keys = {"id": "events", "chunkSize": 3, "lookbackMessages": 1, "customDelimiter": "|", "prompt": "{chunk}"}
    return {"type": "ConversationChunkProcessor", **keys, **more}


def digests(space):
    return [item for item in all_of(space, "knowledge") if item.kind == "summary" and item.payload.form == "digest"]


def test_each_complete_chunk_is_asked_about_in_order():
    model = NotingModel(["a", "b", "c", "d"])
    report = run([node()], models=[model], scene=at_hand(*TALK))
    assert report.text == "a|b|c"
    assert model.prompts[0] == "ann: message number 0\nbob: message number 1\nann: message number 2"
    assert len(model.prompts) == 3


def test_in_a_kept_discussion_a_chunk_is_asked_about_once(space):
    talk = discussion(space, *TALK)
    model = NotingModel("abcdef")
    assert kept_run(space, talk, [node()], models=[model]).text == "a|b|c"
    assert kept_run(space, talk, [node()], models=[model]).text == "a|b|c"
    talk.append(messages("one", "more", "time"))
    assert kept_run(space, talk, [node()], models=[model]).text == "a|b|c|d"
    assert len(model.prompts) == 4


def test_interrupted_run_continues(space):
    talk = discussion(space, *TALK)
    with pytest.raises(Unavailable, match="No answer is left"):
        kept_run(space, talk, [node()], models=[NotingModel(["a", "b"])])
    model = NotingModel(["c"])
    assert kept_run(space, talk, [node()], models=[model]).text == "a|b|c"
    assert len(model.prompts) == 1


def test_cancelled_run_continues(space):
    talk, model = discussion(space, *TALK), NotingModel("abc")
    report = kept_run(space, talk, [node()], models=[model], cancelled=lambda: len(model.prompts) == 2)
    assert (report.outcome, report.usage.requests) == ("cancelled", 2)
    assert kept_run(space, talk, [node()], models=[model]).text == "a|b|c"
    assert len(model.prompts) == 3


def test_an_empty_answer_is_an_answer(space):
    talk, model = discussion(space, *TALK[:4]), NotingModel(["<think>well</think>", "not asked for"])
    kept_run(space, talk, [node()], models=[model])
    kept_run(space, talk, [node()], models=[model])
    assert len(model.prompts) == 1


def test_what_was_made_of_a_chunk_falls_with_its_messages(space):
    talk, model = discussion(space, *TALK), NotingModel("abcdef")
    kept_run(space, talk, [node()], models=[model])
    talk.delete([4])
    assert sorted(item.status == "active" for item in digests(space)) == [False, True, True]
    assert kept_run(space, talk, [node()], models=[model]).text == "a|d|c"
    assert "message number 4" not in model.prompts[-1]


def test_another_prompt_or_node_asks_again(space):
    talk, model = discussion(space, *TALK[:4]), NotingModel("abcdef")
    for one in (node(), node(prompt="List: {chunk}"), node(systemPrompt="Be brief."), node(id="other"), node()):
        kept_run(space, talk, [one], models=[model])
    assert len(model.prompts) == 4


def test_a_prompt_may_use_what_the_chunk_before_gave_and_then_follows_its_changes(space):
    talk, model = discussion(space, *TALK), NotingModel("abcxyz")
    told = node(prompt="{previous_result}+{chunk}")
    assert kept_run(space, talk, [told], models=[model]).text == "a|b|c"
    assert [prompt.partition("+")[0] for prompt in model.prompts] == ["", "a", "b"]
    talk.delete([0])
    assert kept_run(space, talk, [told], models=[model]).text == "x|y|z"


def test_words_of_a_chunk_that_look_like_a_variable_stay_words():
    model = NotingModel(["a", "b"])
    run(
        [node(chunkSize=1, prompt="{previous_result}{chunk}")],
        models=[model],
        scene=at_hand("{previous_result}", "x", "y"),
    )
    assert model.prompts[0] == "ann: {previous_result}"


def test_secrets_in_an_answer_are_not_kept(space):
    talk = discussion(space, *TALK[:4])
    kept_run(space, talk, [node()], models=[NotingModel(["key AKIAIOSFODNN7EXAMPLE"])])
    (kept,) = digests(space)
    assert "AKIAIOSFODNN7EXAMPLE" not in kept.summary
    assert (kept.payload.first, kept.payload.last, kept.payload.made_by) == (0, 2, "noting")


def test_what_is_made_of_chunks_is_no_memory(space):
    talk = discussion(space, *TALK)
    kept_run(space, talk, [node()], models=[NotingModel(["zeppelin"] * 3)])
    assert talk.all_memories() == []
    assert kept_run(space, talk, [{"type": "VectorMemorySearch", "input": "zeppelin"}]).text == NOTHING_YET["found"]


def test_incomplete_chunk_calls_no_model(space):
    model = NotingModel()
    assert kept_run(space, discussion(space, *TALK[:3]), [node()], models=[model]).text == NOTHING_YET["messages"]
    assert run([node()], models=[model], scene=at_hand()).text == NOTHING_YET["messages"]
    assert model.prompts == []


def test_where_writes_are_reviewed_nothing_is_kept_silently(space):
    talk = discussion(space, *TALK)
    space.engine.ledger.change_policy(Policy(direct_channels=frozenset()), by=space.engine.author)
    with pytest.raises(Denied):
        kept_run(space, talk, [node()], models=[NotingModel("abc")])


def test_a_late_index_lets_nothing_be_asked_twice(space):
    index = LateIndex(space.engine.index, space.engine.ledger.sequence)
    index.hold()
    engine = replace(space.engine, index=index)
    talk = DiscussionMemory(engine, settings=DiscussionSettings(max_messages=2, lookback=0)).open("launch")
    talk.record(messages(*TALK))
    model = NotingModel("abcdef")
    for _ in range(2):
        assert run([node()], models=[model], scene=scene_of(engine, talk)).text == "a|b|c"
    assert len(model.prompts) == 3
