import json
from importlib import resources

from jsonschema import Draft202012Validator

from treering.edges.surfaces.mcp.instructions import instructions
from treering.edges.surfaces.mcp.listing import rendered, tool_listing
from treering.tools.catalog import TOOLS
from treering.tools.crystallize_knowledge import KnowledgeInput
from treering.tools.drafting import KnowledgeFields


def test_the_shipped_listing_is_what_the_catalogue_renders_to():
    shipped = resources.files("treering.edges.surfaces.mcp").joinpath("listing.json").read_text(encoding="utf-8")

    again = "render it anew: python -m treering.edges.surfaces.mcp.listing > src/…/mcp/listing.json"
    assert shipped == rendered(), again


def test_there_are_exactly_four_tools():
    assert [tool["name"] for tool in tool_listing()] == ["wiki.ingest", "wiki.query", "wiki.crystallize", "wiki.lint"]


def test_every_schema_is_valid_json_schema_2020_12():
    for tool in tool_listing():
        Draft202012Validator.check_schema(tool["inputSchema"])
        Draft202012Validator.check_schema(tool["outputSchema"])


def test_schemas_use_only_what_every_client_understands():
    text = json.dumps([tool["inputSchema"] for tool in tool_listing()])

    assert not [word for word in ("oneOf", "anyOf", "allOf", "$ref", "$defs", "const") if f'"{word}"' in text]
    assert all(tool["inputSchema"]["properties"][name]["properties"] for tool in tool_listing() for name in _NESTED)


def test_the_listing_costs_a_model_little():
    assert len(json.dumps(tool_listing(), separators=(",", ":"), ensure_ascii=False)) < 14_100


def test_every_mode_and_every_field_of_every_mode_is_told():
    for tool in tool_listing():
        told = json.dumps(tool, ensure_ascii=False)
        for mode in TOOLS[tool["name"].removeprefix("wiki.")].modes.values():
            assert f"- {mode.name}" in tool["description"]
            for field in (*mode.input.model_fields, *mode.options.model_fields):
                assert field in told, (tool["name"], mode.name, field)


def test_the_fields_of_new_knowledge_are_told_beside_those_of_a_correction():
    fields = next(tool for tool in tool_listing() if tool["name"] == "wiki.crystallize")["inputSchema"]

    assert set(KnowledgeInput.model_fields) < set(KnowledgeInput.model_fields) | set(KnowledgeFields.model_fields)
    assert all(name in json.dumps(fields) for name in KnowledgeFields.model_fields)


def test_only_query_is_said_to_read_only():
    reading = {tool["name"]: tool["annotations"]["readOnlyHint"] for tool in tool_listing()}

    assert [name for name, only in reading.items() if only] == ["wiki.query"]


def test_the_instructions_are_short_and_name_the_tools_as_the_client_sees_them():
    text = instructions({verb: f"wiki_{verb}" for verb in TOOLS})

    assert len(text) < 2_000
    assert all(f"wiki_{verb}" in text for verb in TOOLS)
    assert "{" not in text.replace('{"input": {"task"', "")


_NESTED = ("input", "options")
