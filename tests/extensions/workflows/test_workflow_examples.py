import json
from importlib.resources import files

import pytest
from workflow_parts import NotingModel, at_hand, discussion, kept_run, messages, run

from treering.extensions.discussions.generators.built_in import BuiltInGenerator
from treering.extensions.discussions.memory import DiscussionMemory
from treering.extensions.workflows.checking import WorkflowEnvironment, load, read
from treering.extensions.workflows.generator import GeneratorWorkflows, WorkflowGenerator
from treering.testing.fakes import SteppingClock

FOLDER = files("treering.extensions.workflows") / "examples"
TEXTS = {each.name: each.read_text(encoding="utf-8") for each in FOLDER.iterdir() if each.name[-4:] in {"yaml", "json"}}
TALK = [f"We decided that team {number} moves to the Heron building in May 2026." for number in range(16)]
ITEM = {"title": "Heron", "summary": "The teams move to Heron.", "entities": ["Heron"], "key_phrases": ["move"]}


def example(name):
    return read(TEXTS[name])


def inputs_of(text):
    return max([number for number in range(1, 5) if f"{{agent{number}Input}}" in text], default=0)


@pytest.mark.parametrize("name", TEXTS)
def test_every_example_can_run_with_the_inputs_it_speaks_of_and_says_what_it_is_for(name):
    text = TEXTS[name]
    workflow = load(text, known=WorkflowEnvironment(inputs=inputs_of(text)))
    assert workflow.header.description
    assert name.endswith(".json") or text.startswith("# ")


@pytest.mark.parametrize("name", TEXTS)
def test_every_example_runs_in_a_kept_discussion(space, name):
    talk, text = discussion(space, *TALK), TEXTS[name]
    model = NotingModel(["Heron"] * 9)
    models = [model] if "endpoints" in example(name) else []
    report = kept_run(space, talk, _data(name), *["Heron"] * inputs_of(text), models=models)
    assert report.outcome == "done"
    assert report.text.strip()


def _data(name):
    """The example with its endpoint called as the first of a test's runner."""
    return json.loads(json.dumps(example(name)).replace('"main"', '"a"'))


def test_recall_gives_state_summary_and_what_was_found(space):
    talk = discussion(space, *TALK)
    talk.update()
    text = kept_run(space, talk, example("recall.yaml"), "team 3").text
    assert talk.state() in text
    assert talk.summary() in text
    assert "team 3 moves" in text.partition("# What was said about team 3")[2]


def test_summarise_makes_memories_and_a_summary_without_a_model(space):
    talk = discussion(space, *TALK)
    assert "Heron" in kept_run(space, talk, example("summarise.yaml")).text
    assert talk.all_memories()


def test_an_answer_is_made_with_what_is_remembered(space):
    talk = discussion(space, *TALK)
    talk.update()
    model = NotingModel(["team 3; Heron", "In May."])
    report = kept_run(space, talk, _data("answer.yaml"), models=[model])
    assert report.text == "In May."
    assert "team 3 moves" in model.systems[1]
    assert model.lengths == [100, 2_000]


def test_memories_are_made_by_the_examples_for_a_generator(space):
    model = NotingModel([json.dumps([ITEM]), "A document.", "Folded."] * 20)
    names = {"memories": "make-memories.yaml", "summary": "rolling-summary.yaml", "state": "merge-state.yaml"}
    workflows = GeneratorWorkflows(**{key: load(TEXTS[name]) for key, name in names.items()})
    generator = WorkflowGenerator(
        workflows, SteppingClock(), otherwise=BuiltInGenerator(), endpoints={"main": Sorting(model)}
    )
    talk = DiscussionMemory(space.engine, generator=generator).open("launch")
    talk.record(messages(*TALK))
    made = talk.update()
    assert made.done > 0
    assert not made.failed
    assert talk.all_memories()[0].item.title == "Heron"
    assert talk.state() == "A document."
    assert kept_run(space, talk, [{"type": "VectorMemorySearch", "input": "Heron", "limit": 1}]).text == ITEM["summary"]


def test_file_memories_are_made_by_their_example():
    model = NotingModel(["They all move.", json.dumps([ITEM])])
    report = run(_data("make-file-memories.yaml"), "chunk", "recent", "all", "summary", models=[model])
    assert json.loads(report.text) == [ITEM]
    assert "all" not in model.prompts[0].split()[:20]
    assert "They all move." in model.prompts[1]


def test_a_long_conversation_at_hand_is_compacted():
    assert run(example("compact.yaml"), scene=at_hand(*TALK)).text.endswith(TALK[-1])


class Sorting:
    """A model that answers by what it is asked for."""

    model_id = "sorting"

    def __init__(self, model):
        self._model = model

    def answer(self, prompt, *, system="", max_output_tokens=2_000):
        answer = self._model.answer(prompt, system=system, max_output_tokens=max_output_tokens)
        kinds = {"note what": json.dumps([ITEM]), "document": "A document.", "summary": "Folded."}
        text = next(text for words, text in kinds.items() if words in system)
        return type(answer)(text, answer.usage)

    def price(self, *, input_tokens, output_tokens):
        return self._model.price(input_tokens=input_tokens, output_tokens=output_tokens)
