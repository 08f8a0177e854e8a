from pathlib import Path

import pytest

from treering.extensions.discussions.identity import NOTHING_YET
from treering.extensions.workflows.catalog import NODE_TYPES
from treering.extensions.workflows.definition import CHAT_VARIABLES, NodeSettings, spellings

PAGE = (Path(__file__).parents[3] / "docs" / "reference" / "workflows.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", NODE_TYPES)
def test_every_type_of_node_is_documented_with_the_usual_spelling_of_its_keys(name):
    assert f"`{name}`" in PAGE
    own = set(NODE_TYPES[name].settings.model_fields) - set(NodeSettings.model_fields)
    keys = spellings(NODE_TYPES[name].settings)
    assert [keys[field][0] for field in own if f"`{keys[field][0]}" not in PAGE and field != "is_manual_config"] == []


def test_every_variable_is_documented():
    def is_told(name):
        return f"`{{{name}}}`" in PAGE or (f"`…_{name.rpartition('_')[2]}`" in PAGE and "prompt_last" in name)

    assert [name for name in CHAT_VARIABLES if not is_told(name)] == []


@pytest.mark.parametrize("text", NOTHING_YET.values())
def test_what_nodes_say_where_there_is_nothing_is_documented(text):
    assert text in PAGE
