import pytest
from workflow_parts import NotingModel, ask, say

from treering.core.errors import InvalidInput, Unavailable
from treering.extensions.discussions.generators.built_in import BuiltInGenerator
from treering.extensions.discussions.generators.generator import Background, Chunk, GeneratedMemory, SpokenLine
from treering.extensions.encoder.asking import Budget
from treering.extensions.workflows.checking import from_data
from treering.extensions.workflows.generator import GeneratorWorkflows, WorkflowGenerator
from treering.testing.fakes import SteppingClock

CHUNK = Chunk((SpokenLine("ann", "We launch on Tuesday."), SpokenLine("bob", "Then {agent2Input} the price.")))
OLD = [GeneratedMemory(title=f"t{number}", summary=f"s{number}") for number in range(5)]
BACKGROUND = Background(recent=lambda: OLD[-3:], everything=lambda: OLD, summary=lambda: "so far")
ITEM = '[{"title": "Launch", "summary": "They launch on Tuesday.", "entities": ["ann"]}]'


def generator(*models, budget=None, **workflows):
    return WorkflowGenerator(
        GeneratorWorkflows(**{name: from_data(nodes) for name, nodes in workflows.items()}),
        SteppingClock(),
        otherwise=BuiltInGenerator(),
        endpoints=dict(zip("abc", models, strict=False)),
        budget=budget,
    )


def unread():
    raise AssertionError("this is not asked for")


def test_searchable_memories_are_made_of_the_chunk_alone():
    model = NotingModel([f"<think>[]</think>Here:\n```json\n{ITEM}\n```"])
    nothing_read = Background(recent=unread, everything=unread, summary=unread)
    made = generator(model, memories=[ask("{agent1Input}")]).memories(CHUNK, nothing_read)
    assert model.prompts == [CHUNK.text]
    assert [item.title for item in made.items] == ["Launch"]
    assert made.usage.requests == 1


def test_file_memories_are_made_of_chunk_last_memories_all_memories_and_summary_in_this_order():
    model = NotingModel([ITEM])
    nodes = [ask("1 {agent1Input} 2 {agent2Input} 3 {agent3Input} 4 {agent4Input}")]
    generator(model, file_memories=nodes).memories(CHUNK, BACKGROUND)
    last, every = ("\n\n".join(f"t{n}: s{n}" for n in numbers) for numbers in (range(2, 5), range(5)))
    assert model.prompts == [f"1 {CHUNK.text} 2 {last} 3 {every} 4 so far"]


def test_the_summary_and_the_state_are_given_what_is_new_and_what_there_is():
    model = NotingModel(["```\nA summary.\n```", "<think>hm</think>A document."])
    made = generator(model, summary=[ask("{agent1Input}|{agent2Input}")], state=[ask("{agent1Input}|{agent2Input}")])
    assert made.fold("old", OLD[:2]).text == "A summary."
    assert made.merge("- new", "# Doc").text == "A document."
    assert model.prompts == ["t0: s0\n\nt1: s1|old", "- new|# Doc"]


def test_memories_are_condensed():
    made = generator(NotingModel([ITEM]), condensing=[ask("{agent1Input}")]).condense(OLD)
    assert made.items[0].summary == "They launch on Tuesday."


def test_the_output_of_the_node_that_returns_is_what_is_made():
    made = generator(memories=[say(ITEM.replace("{", "{{").replace("}", "}}"), returnToUser=True), say("not this")])
    assert [item.title for item in made.memories(CHUNK, BACKGROUND).items] == ["Launch"]


def test_what_has_no_workflow_is_made_by_the_other_generator():
    made = generator(memories=[say("[]")])
    other = BuiltInGenerator()
    assert made.fold("", OLD) == other.fold("", OLD)
    assert made.merge("- a fact", "") == other.merge("- a fact", "")
    assert made.condense(OLD) == other.condense(OLD)
    assert generator(summary=[say("x")]).memories(CHUNK, BACKGROUND) == other.memories(CHUNK, BACKGROUND)


def test_an_empty_list_is_a_success_and_an_answer_without_memories_is_a_failure():
    assert generator(memories=[say("[]")]).memories(CHUNK, BACKGROUND).items == ()
    with pytest.raises(Unavailable, match="returned no valid memories"):
        generator(memories=[say("I cannot do that.")]).memories(CHUNK, BACKGROUND)


def test_an_answer_of_a_model_that_cannot_be_read_is_repaired_once():
    model = NotingModel(["Noted: they launch on Tuesday.", ITEM])
    made = generator(model, memories=[ask("{agent1Input}", maxOutputTokens=77)]).memories(CHUNK, BACKGROUND)
    assert [item.title for item in made.items] == ["Launch"]
    assert made.usage.requests == 2
    assert CHUNK.text in model.prompts[1]
    assert "Noted: they launch on Tuesday." in model.prompts[1]
    assert model.lengths == [77, 77]
    with pytest.raises(Unavailable, match="returned no valid memories"):
        generator(NotingModel(["I cannot.", "I can't."]), memories=[ask("x")]).memories(CHUNK, BACKGROUND)


def test_plain_text_of_a_workflow_for_file_memories_is_one_memory_without_another_call():
    model = NotingModel(["On Tuesday they launch.\n\nBob asks for the price."])
    made = generator(model, file_memories=[ask("{agent1Input}")]).memories(CHUNK, BACKGROUND)
    assert [item.summary for item in made.items] == ["On Tuesday they launch.\n\nBob asks for the price."]
    assert made.items[0].title == "On Tuesday they launch."
    assert made.usage.requests == 1


@pytest.mark.parametrize(
    "answers", [["They launch on Tuesday.", "As I said, they launch."], ["They launch on Tuesday."]]
)
def test_plain_text_where_json_is_requested_is_one_memory_after_one_more_try(answers):
    made = generator(NotingModel(answers), memories=[ask("{agent1Input}")]).memories(CHUNK, BACKGROUND)
    assert [item.summary for item in made.items] == ["They launch on Tuesday."]
    assert made.usage.requests == len(answers)


def test_a_workflow_without_a_model_may_give_plain_text():
    made = generator(memories=[say("They launch.--ChunkBreak--Bob asks.")]).memories(CHUNK, BACKGROUND)
    assert [item.summary for item in made.items] == ["They launch.", "Bob asks."]


def test_a_summary_that_says_that_there_is_none_yet_is_empty():
    assert generator(summary=[say("There is no summary of this conversation yet.")]).fold("old", OLD).text == ""


@pytest.mark.parametrize(
    ("nodes", "said"),
    [
        ([say("{agent2Input}")], "inputs given: 1"),
        ([say("{todays_date}")], "runs without one"),
        ([{"type": "RecentMemory"}], "needs a conversation"),
        ([ask("x", endpointName="z")], "unknown endpoint 'z'"),
    ],
)
def test_generator_refuses_workflow_with_unknown_variables(nodes, said):
    with pytest.raises(InvalidInput, match=said):
        generator(NotingModel(), memories=nodes)


def test_memories_are_made_by_one_workflow():
    with pytest.raises(InvalidInput, match="cannot be combined"):
        generator(memories=[say("[]")], file_memories=[say("[]")])


def test_the_name_changes_with_the_workflows_and_the_models():
    nodes = [ask("x")]
    names = [
        generator(NotingModel(), memories=nodes).name,
        generator(NotingModel(), memories=[ask("y")]).name,
        generator(NotingModel(), summary=nodes).name,
        generator(NotingModel(model_id="other"), memories=nodes).name,
        generator(NotingModel(), memories=[ask("x", maxOutputTokens=9)]).name,
    ]
    assert len(set(names)) == len(names)
    assert names[0] == generator(NotingModel(["z"]), memories=nodes).name


def test_all_calls_share_a_budget():
    model = NotingModel([ITEM] * 3)
    made = generator(model, memories=[ask("x")], budget=Budget(requests=1))
    made.memories(CHUNK, BACKGROUND)
    with pytest.raises(Exception, match="requests"):
        made.memories(CHUNK, BACKGROUND)
    assert len(model.prompts) == 1
