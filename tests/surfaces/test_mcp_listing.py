import json
from importlib import resources

import pytest
from jsonschema import Draft202012Validator
from mcp_types import ListToolsResult, Tool

from treering.core.errors import InvalidInput
from treering.extensions.mcp.dispatcher import ToolDispatcher, help_on
from treering.extensions.mcp.listing import granted_modes, rendered, tool_listing
from treering.extensions.mcp.server import instructions
from treering.ports.adapter import NoFiles
from treering.verbs.catalog import TOOLS
from treering.verbs.crystallize.work import NEW_OBJECT_FIELDS

LISTED = {verb: granted_modes(tool) for verb, tool in TOOLS.items()}
"""The tools with the modes that an agent may use."""


def test_the_shipped_listing_is_what_the_catalogue_renders_to():
    shipped = resources.files("treering.extensions.mcp").joinpath("listing.json").read_text(encoding="utf-8")

    again = "render it anew: python -m treering.extensions.mcp.listing > src/…/mcp/listing.json"
    assert shipped == rendered(), again


def test_there_are_exactly_four_tools():
    assert [tool["name"] for tool in tool_listing()] == ["wiki.ingest", "wiki.query", "wiki.crystallize", "wiki.lint"]


def test_every_schema_is_valid_json_schema_2020_12():
    for tool in tool_listing():
        Draft202012Validator.check_schema(tool["inputSchema"])


def test_schemas_use_only_what_every_client_understands():
    text = json.dumps([tool["inputSchema"] for tool in tool_listing()])

    assert not [word for word in ("oneOf", "anyOf", "allOf", "$ref", "$defs", "const") if f'"{word}"' in text]
    assert all(tool["inputSchema"]["properties"][name]["properties"] for tool in tool_listing() for name in _NESTED)


def test_the_listing_costs_a_model_little():
    result = ListToolsResult(tools=[Tool.model_validate(tool) for tool in tool_listing()])
    assert len(result.model_dump_json(by_alias=True, exclude_none=True)) <= 5_897


def test_every_mode_and_every_field_of_every_mode_is_reported():
    for tool in tool_listing():
        told = json.dumps(tool, ensure_ascii=False)
        for mode in LISTED[tool["name"].removeprefix("wiki.")].modes.values():
            assert f"- {mode.name}" in tool["description"]
            for field in {*mode.input.model_fields, *mode.options.model_fields} - {"timezone"}:  # the help tells of it
                assert field in told, (tool["name"], mode.name, field)


def test_help_lists_every_field_of_every_mode_with_its_values_and_meaning():
    for verb, tool in LISTED.items():
        for mode in tool.modes.values():
            text, data = help_on(verb, mode.name)
            models = [
                mode.input,
                mode.options,
                *([NEW_OBJECT_FIELDS[mode.input]] if mode.input in NEW_OBJECT_FIELDS else []),
            ]
            for model in models:
                for name, field in model.model_fields.items():
                    assert f"- {name}: " in text
                    assert (field.description or "").rstrip(".") in text
            assert [one["mode"] for one in data["modes"]] == [mode.name]


def test_help_of_a_tool_without_a_mode_lists_all_of_them():
    for verb, tool in LISTED.items():
        assert [one["mode"] for one in help_on(verb, {})[1]["modes"]] == list(tool.modes)


def test_what_help_shows_to_copy_is_taken():
    for verb, tool in TOOLS.items():
        for one in help_on(verb, {})[1]["modes"]:
            for call in one["examples"]:
                mode = tool.find(call.get("mode", ""))
                mode.input.model_validate(call.get("input", {}))
                mode.options.model_validate(call.get("options", {}))


def test_help_on_a_mode_that_is_none_names_the_nearest():
    with pytest.raises(InvalidInput) as caught:
        help_on("crystallize", {"mode": "knowlege"})
    assert caught.value.hint == "Did you mean 'knowledge'?"


def test_help_does_not_open_the_space(tmp_path):
    dispatcher = ToolDispatcher(f"sqlite:{tmp_path / 'none.db'}", NoFiles())
    call = {"mode": "help", "input": {"mode": "context"}}
    answer = dispatcher.answer("query", call, actor="", progress=lambda *_: None, check=lambda: None)
    assert not answer.is_error
    assert "- task: string, needed" in answer.text
    assert list(tmp_path.iterdir()) == []


def test_only_query_is_said_to_read_only():
    reading = {tool["name"]: tool["annotations"]["readOnlyHint"] for tool in tool_listing()}

    assert [name for name, only in reading.items() if only] == ["wiki.query"]


def test_the_instructions_are_short_and_name_the_tools_as_the_client_sees_them():
    text = instructions({verb: f"wiki_{verb}" for verb in TOOLS})

    assert len(text) < 2_000
    assert all(f"wiki_{verb}" in text for verb in TOOLS)
    assert "{" not in text.replace('{"task"', "")


_NESTED = ("input", "options")
