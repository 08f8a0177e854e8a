from contextlib import contextmanager
from decimal import Decimal

import pytest
from workflow_parts import NotingModel, ask, run, runner, say

from treering.core.errors import Denied, InvalidInput, MissingExtra, Unavailable
from treering.extensions.encoder.asking import Budget
from treering.extensions.encoder.language_model import Usage
from treering.extensions.workflows.catalog import NODE_TYPES
from treering.extensions.workflows.checking import from_data
from treering.extensions.workflows.definition import NodeSettings, Preset
from treering.extensions.workflows.registry import NodeType


def test_each_node_gets_earlier_outputs():
    report = run([say("one"), say("{agent1Output} two"), say("{agent2Output} three")])
    assert report.outcome == "done"
    assert report.text == "one two three"
    assert [(step.id, step.type, step.output) for step in report.steps] == [
        ("1", "StaticResponse", "one"),
        ("2", "StaticResponse", "one two"),
        ("3", "StaticResponse", "one two three"),
    ]


def test_the_node_that_returns_gives_the_text_and_the_later_ones_run_all_the_same():
    report = run([say("a"), say("b", returnToUser=True), say("c")])
    assert report.text == "b"
    assert [step.output for step in report.steps] == ["a", "b", "c"]


def test_of_several_nodes_that_return_the_last_counts_and_a_warning_says_so():
    report = run([say("a", returnToUser=True), say("b", id="second", returnToUser=True), say("c")])
    assert report.text == "b"
    (warning,) = report.warnings
    assert "node 1, node 2 (second)" in warning
    assert run([say("a"), say("b", returnToUser=True)]).warnings == ()


def test_inputs_and_variables_of_the_workflow_are_filled_in():
    data = {"variables": {"persona": "You are Ada."}, "nodes": [say("{persona} {agent2Input}{agent1Input}")]}
    assert run(data, "x", "y").text == "You are Ada. yx"


def test_nothing_that_is_filled_in_is_read_for_variables():
    data = {"variables": {"trap": "{agent1Input}"}, "nodes": [say("{trap}"), say("{agent1Output}{agent1Input}")]}
    assert run(data, "{agent1Output} {{x}} {nobody}").text == "{agent1Input}{agent1Output} {{x}} {nobody}"


def test_model_node_returns_the_models_answer():
    model = NotingModel(["Paris"])
    report = run(
        [ask("Capital of {agent1Input}?", systemPrompt="Be {agent2Input}.")], "France", "brief", models=[model]
    )
    assert report.text == "Paris"
    assert (model.prompts, model.systems) == (["Capital of France?"], ["Be brief."])
    assert report.usage == report.steps[0].usage == Usage(1, 10, 5, Decimal("0.01"))


def test_each_node_asks_its_own_endpoint():
    a, b = NotingModel(["from a"]), NotingModel(["from b"])
    report = run([ask("x", endpointName="b"), ask("{agent1Output}", endpointName="a")], models=[a, b])
    assert (report.text, a.prompts, b.prompts) == ("from a", ["from b"], ["x"])
    assert report.usage.requests == 2


def test_a_preset_and_a_node_say_how_long_an_answer_may_be():
    model = NotingModel(["x"] * 4)
    nodes = [
        ask("x"),
        ask("x", preset="short"),
        ask("x", preset="given"),
        ask("x", preset="short", maxResponseSizeInTokens=7),
    ]
    workflow = from_data({"nodes": nodes, "presets": {"short": {"max_output_tokens": 50}, "given": {}}})
    runner(model, presets={"given": Preset(max_output_tokens=60)}).run(workflow)
    assert model.lengths == [2_000, 50, 60, 7]


def test_what_is_not_there_is_reported_before_anything_runs():
    model = NotingModel(["x"])
    workflow = from_data([ask("x"), ask("{agent1Input}", endpointName="b")])
    with pytest.raises(InvalidInput, match=r"unknown \{agent1Input\}; inputs given: 0") as refused:
        runner(model).run(workflow)
    assert len(refused.value.details["fields"]) == 2
    with pytest.raises(InvalidInput, match="unknown endpoint 'b'"):
        runner(model).run(workflow, inputs=["i"])
    assert model.prompts == []


def test_an_error_keeps_its_class_and_names_the_node_with_what_was_done():
    with pytest.raises(Unavailable) as failed:
        run([say("done"), ask("x", id="asks")], models=[NotingModel()])
    error = failed.value
    assert error.message == "node 2 (asks) (Standard): No answer is left."
    assert (error.details["node"], error.details["outputs"]) == ("asks", ["done"])


class Nothing(NodeSettings):
    """No settings of its own."""


def test_error_with_own_constructor_is_raised_as_base_class():
    def fail(told, step):
        raise MissingExtra("llm", needed_for="It")

    types = NODE_TYPES.with_types(NodeType("Fail", "fails", Nothing, fail))
    with pytest.raises(InvalidInput, match=r"node 1 \(Fail\): It needs the extra") as failed:
        runner().run(from_data([{"type": "Fail"}], types=types))
    assert "pip install" in failed.value.hint


def test_a_budget_is_kept_over_all_runs():
    model = NotingModel(["x"] * 5)
    one = runner(model, budget=Budget(requests=2))
    one.run(from_data([ask("x"), ask("y")]))
    with pytest.raises(Denied):
        one.run(from_data([ask("x")]))
    assert len(model.prompts) == 2


def test_a_run_stops_between_nodes_when_it_is_cancelled():
    model, asked = NotingModel(["x"] * 5), []

    def after_one():
        asked.append(1)
        return len(asked) > 1

    report = run([ask("a", returnToUser=True), ask("b"), ask("c")], models=[model], cancelled=after_one)
    assert (report.outcome, report.why) == ("cancelled", "The run was cancelled.")
    assert (report.text, len(report.steps), model.prompts) == ("x", 1, ["a"])


def test_cancelled_run_without_output_returns_nothing():
    assert run([say("a"), say("b")], cancelled=lambda: True).text == ""


def test_progress_is_reported_per_node():
    told = []
    run([say("a", title="First"), say("b", id="second")], progress=lambda *what: told.append(what))
    assert told == [("First", 0, 2), ("second", 1, 2), ("done", 2, 2)]


def test_the_same_run_gives_the_same_report():
    nodes = [ask("x"), say("{agent1Output}")]
    assert run(nodes, models=[NotingModel(["y"])]) == run(nodes, models=[NotingModel(["y"])])


def test_what_a_node_holds_is_left_when_the_run_fails():
    left = []

    @contextmanager
    def held():
        yield 1
        left.append("left")

    @contextmanager
    def always():
        try:
            yield 1
        finally:
            left.append("always")

    def hold(told, step):
        step.hold(always())
        return str(step.hold(held()))

    types = NODE_TYPES.with_types(NodeType("Hold", "holds", Nothing, hold))
    with pytest.raises(Unavailable):
        runner(NotingModel()).run(from_data([{"type": "Hold"}, ask("x")], types=types))
    assert left == ["always"]
    runner().run(from_data([{"type": "Hold"}], types=types))
    assert left == ["always", "left", "always"]
