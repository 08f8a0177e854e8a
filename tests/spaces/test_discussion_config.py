"""The file that says how memories of discussions are made."""

import json

import pytest

from treering.core.errors import InvalidInput, NotFound
from treering.extensions.discussions.generators.by_model import ModelGenerator
from treering.extensions.discussions.generators.generator import (
    Background,
    Chunk,
    DiscussionSettings,
    GeneratedMemory,
    SpokenLine,
)
from treering.extensions.encoder.asking import Budget
from treering.extensions.encoder.language_models import ScriptedModel
from treering.extensions.workflows.catalog import NODE_TYPES
from treering.extensions.workflows.endpoints import PlanReader, read_config
from treering.extensions.workflows.generator import WorkflowGenerator
from treering.testing.fakes import SteppingClock

CHUNK = Chunk((SpokenLine("ann", "We launch on Tuesday."),))
KNOWN = GeneratedMemory(title="Before", summary="It rained.")
BACKGROUND = Background(recent=lambda: [KNOWN], everything=lambda: [KNOWN], summary=lambda: "so far")


@pytest.fixture
def write(tmp_path):
    def write_file(data, name="memory.json"):
        path = tmp_path / name
        path.write_text(data if isinstance(data, str) else json.dumps(data), encoding="utf-8")
        return path

    return write_file


def plan(path, **models):
    opened = {name: ScriptedModel(answers, name=name) for name, answers in models.items()}
    reader = PlanReader(SteppingClock(), lambda _declared, _names: opened, Budget(requests=100), NODE_TYPES)
    return reader.plan(path)


def test_without_a_file_and_models_rules_make_memories():
    made = plan(None)
    assert (made.settings, made.generator) == (DiscussionSettings(), None)


def test_without_a_file_the_only_model_makes_them():
    assert isinstance(plan(None, main=[]).generator, ModelGenerator)
    with pytest.raises(InvalidInput, match="Several models can make memories: one, two"):
        plan(None, one=[], two=[])


def test_sizes_are_called_as_here_or_as_elsewhere(write):
    here = {"chunkTokens": 500, "maxMessages": 7, "lookback": 0, "maxOutputTokens": 99, "state": False}
    there = {"chunkEstimatedTokenSize": 500, "maxMessagesBetweenChunks": 7, "lookbackStartTurn": 0}
    wanted = DiscussionSettings(chunk_tokens=500, max_messages=7, lookback=0, max_output_tokens=99, state=False)
    assert plan(write(here)).settings == wanted
    assert plan(write({**there, "maxResponseSizeInTokens": 99, "state": False})).settings == wanted


def test_prompts_of_a_direct_call_are_given_what_they_have_places_for(write):
    path = write({"endpointName": "b", "prompts": {"memories": "Known: [Memory_file] New: [TextChunk]"}})
    made = plan(path, a=[], b=["They launch on Tuesday."]).generator.memories(CHUNK, BACKGROUND)
    assert [item.summary for item in made.items] == ["They launch on Tuesday."]
    with pytest.raises(InvalidInput, match=r"unknown placeholder \[weather\]"):
        plan(write({"prompt": "[chunk] [weather]"}), main=[])
    with pytest.raises(InvalidInput, match=r"needs the placeholder \[chunk\]"):
        plan(write({"prompt": "Summarise."}), main=[])


def test_what_no_workflow_makes_is_made_by_rules_unless_a_direct_call_is_spoken_of(write):
    write([{"type": "Standard", "prompt": "{agent1Input}"}], "text.json")
    config = {"fileMemoryWorkflowName": "text"}
    made = plan(write(config), main=["They launch."]).generator
    assert isinstance(made, WorkflowGenerator)
    assert made.fold("", [KNOWN]).usage.requests == 0
    made = plan(write({**config, "endpointName": "main"}), main=["All of it."]).generator
    assert made.fold("", [KNOWN]).text == "All of it."


def test_workflows_are_where_the_file_says(write, tmp_path):
    (tmp_path / "elsewhere").mkdir()
    write([{"type": "StaticResponse", "content": "A text about it."}], "elsewhere/text.yaml")
    config = {"fileMemoryWorkflowName": "text", "workflowsFolder": "elsewhere"}
    made = plan(write(config)).generator.memories(CHUNK, BACKGROUND)
    assert [item.summary for item in made.items] == ["A text about it."]
    with pytest.raises(NotFound, match="There is no workflow 'text'"):
        plan(write({"fileMemoryWorkflowName": "text"}))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        ("[1]", "must contain an object"),
        ({"lookback": -1}, "lookback"),
        ({"maxMessages": "many"}, "maxMessages"),
        ({"prompts": {"memory": "x"}}, "unknown key"),
        ({"vectorMemoryWorkflow": "x"}, "Did you mean 'vectorMemoryWorkflowName'"),
    ],
)
def test_what_is_wrong_in_a_file_is_named(write, data, said):
    with pytest.raises(InvalidInput, match=said):
        read_config(write(data))
