"""The memory tool of Claude over a space: its documented commands, through the dispatcher of the SDK."""

import json
import re
from concurrent.futures import ThreadPoolExecutor

import anthropic
import httpx2
import pytest
from anthropic.lib.tools import ToolError
from anthropic.tools import BetaLocalFilesystemMemoryTool
from framework_parts import asynchronous, blocking
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.anthropic import AsyncTreeringMemoryTool, TreeringMemoryTool


@pytest.fixture
def client():
    with blocking() as opened:
        yield opened


@pytest.fixture
def tool(client):
    return TreeringMemoryTool(client)


def create(tool, path="/memories/notes.md", text="tea\nis green\n"):
    return tool.call({"command": "create", "path": path, "file_text": text})


def view(tool, path="/memories/notes.md", **given):
    return tool.call({"command": "view", "path": path, **given})


def test_a_file_is_shown_with_the_numbers_of_its_lines(tool):
    assert create(tool) == "File created successfully at: /memories/notes.md"
    assert (
        view(tool)
        == "Here's the content of /memories/notes.md with line numbers:\n     1\ttea\n     2\tis green\n     3\t"
    )
    assert view(tool, view_range=[2, -1]).splitlines()[1:] == ["     2\tis green", "     3\t"]


def test_a_folder_is_listed_two_levels_deep_without_what_is_hidden(tool):
    for path in ("a.md", "people/ann.md", "people/old/bob.md", "people/old/deep/eve.md", ".hidden", "people/.key"):
        create(tool, f"/memories/{path}", "x" * 1536)

    header, *lines = view(tool, "/memories").splitlines()
    assert header.startswith("Here're the files and directories up to 2 levels deep in /memories")
    assert lines == [
        "9K\t/memories",
        "1.5K\t/memories/a.md",
        "6K\t/memories/people/",
        "1.5K\t/memories/people/ann.md",
        "3K\t/memories/people/old/",
    ]


def test_a_new_memory_is_an_empty_folder(tool):
    assert view(tool, "/memories").splitlines()[1:] == ["0B\t/memories"]


def test_a_text_is_replaced_where_it_occurs_once(tool):
    create(tool)
    edited = tool.call({"command": "str_replace", "path": "/memories/notes.md", "old_str": "green", "new_str": "good"})

    assert edited.splitlines()[1:] == ["     1\ttea", "     2\tis good", "     3\t"]
    with pytest.raises(ToolError, match=r"did not appear verbatim"):
        tool.call({"command": "str_replace", "path": "/memories/notes.md", "old_str": "green", "new_str": "good"})


def test_lines_are_inserted(tool):
    create(tool)
    tool.call({"command": "insert", "path": "/memories/notes.md", "insert_line": 1, "insert_text": "really\n"})

    assert view(tool).splitlines()[1:] == ["     1\ttea", "     2\treally", "     3\tis green", "     4\t"]


def test_files_and_folders_are_renamed_and_keep_their_texts(tool):
    create(tool, "/memories/a/one.md", "one")
    create(tool, "/memories/a/b/two.md", "two")
    tool.call({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/c/d"})

    assert "two" in view(tool, "/memories/c/d/b/two.md")
    with pytest.raises(ToolError, match="does not exist"):
        view(tool, "/memories/a")


def test_a_folder_is_not_renamed_into_itself(tool):
    create(tool, "/memories/a/one.md")

    with pytest.raises(ToolError, match="is inside /memories/a"):
        tool.call({"command": "rename", "old_path": "/memories/a", "new_path": "/memories/a/b"})


def test_a_folder_is_deleted_with_what_is_in_it(tool):
    create(tool, "/memories/a/one.md")
    create(tool, "/memories/a/b/two.md")
    create(tool, "/memories/ab.md")
    tool.call({"command": "delete", "path": "/memories/a"})

    assert view(tool, "/memories").splitlines()[2:] == ["13B\t/memories/ab.md"]


def test_deleted_file_can_be_created_again(tool):
    create(tool, text="old")
    tool.call({"command": "delete", "path": "/memories/notes.md"})
    create(tool, text="new")

    assert view(tool).splitlines()[1:] == ["     1\tnew"]


@pytest.mark.parametrize(
    "path",
    [
        "/etc/passwd",
        "memories/notes.md",
        "/memoriesandmore/notes.md",
        "/memories/../etc/passwd",
        "/memories/a/../../etc/passwd",
        "/memories/..",
        "/memories/./notes.md",
        "/memories/..\\..\\etc\\passwd",
        "/memories/%2e%2e/etc/passwd",
        "/memories/%252e%252e%252fetc",
        "/memories/..%2fetc",
        "/memories/a\x00b",
        "/memories/a\nb",
        "/memories/" + "a" * 1000,
        "",
        "..",
    ],
)
def test_a_path_that_leads_out_of_the_memory_is_refused_by_every_command(tool, path):
    create(tool, "/memories/there.md")
    given = {"path": path, "file_text": "x", "old_str": "x", "new_str": "y", "insert_line": 0, "insert_text": "x"}
    moves = [(path, "/memories/new.md"), ("/memories/there.md", path)]
    commands = [{"command": name, **given} for name in ("view", "create", "str_replace", "insert", "delete")]
    commands += [{"command": "rename", "old_path": old, "new_path": new} for old, new in moves]

    for command in commands:
        with pytest.raises(ToolError, match=r"Path|path"):
            tool.call(command)
    assert view(tool, "/memories").splitlines()[2:] == ["13B\t/memories/there.md"]


def test_no_file_is_below_a_file(tool):
    create(tool, "/memories/a")

    with pytest.raises(ToolError, match="/memories/a is a file, not a directory"):
        create(tool, "/memories/a/b")


def test_the_memory_itself_is_not_deleted_or_renamed(tool):
    create(tool)
    for command in ({"command": "delete", "path": "/memories"}, {"command": "delete", "path": "/memories/"}):
        with pytest.raises(ToolError, match="Cannot delete"):
            tool.call(command)
    with pytest.raises(ToolError, match="Cannot rename"):
        tool.call({"command": "rename", "old_path": "/memories", "new_path": "/memories/a"})


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ({"command": "view"}, "`path` has to be a text"),
        ({"command": "view", "path": "/memories/notes.md", "view_range": [1]}, "two line numbers"),
        ({"command": "insert", "path": "/memories/notes.md", "insert_line": "x", "insert_text": ""}, "whole number"),
        ({"command": "create", "path": "/memories/a", "file_text": None}, "`file_text` has to be a text"),
    ],
)
def test_error_names_the_missing_argument(tool, command, said):
    create(tool)

    with pytest.raises(ToolError, match=re.escape(said)):
        tool.call(command)


def test_folders_of_different_users_are_apart(client):
    create(TreeringMemoryTool(client, folder="ann"))

    with pytest.raises(ToolError, match="does not exist"):
        view(TreeringMemoryTool(client, folder="bob"))


def test_what_a_file_says_is_recalled_as_long_as_it_is_there(client, tool):
    create(tool, text="The dog is called Rex.")
    assert [memory.content for memory in client.retrieve("dog called")] == ["The dog is called Rex."]
    tool.call({"command": "delete", "path": "/memories/notes.md"})

    assert client.retrieve("dog called") == []


def test_recalled_text_stays_in_a_file_and_is_not_found_as_a_memory(client, tool):
    from treering.frameworks.client import recalled_text

    client.store("The dog is called Rex.")
    recalled = recalled_text(client.retrieve("dog called"))
    create(tool, text=f"As I know:\n{recalled}")

    assert "called Rex" in view(tool)
    assert [memory.content for memory in client.retrieve("dog called Rex")] == ["The dog is called Rex."]


def test_a_secret_is_redacted_in_a_file(tool):
    create(tool, text="my key is AKIA" + "Q3EGRJ7XLZ2WTNPB")

    assert "Q3EGRJ7" not in view(tool)
    assert "redacted" in view(tool)


def test_an_erasing_tool_leaves_nothing_of_a_deleted_file():
    with blocking(channel="user") as client:
        tool = TreeringMemoryTool(client, erase=True)
        create(tool)
        tool.call({"command": "str_replace", "path": "/memories/notes.md", "old_str": "green", "new_str": "good"})
        tool.call({"command": "delete", "path": "/memories/notes.md"})

        held = client.records.engine.ledger.records()
        assert not [record for record in held if record.table == "segment"]


def test_model_without_the_right_to_erase_gets_an_error(client):
    tool = TreeringMemoryTool(client, erase=True)
    create(tool)

    with pytest.raises(ToolError, match="eras"):
        tool.call({"command": "delete", "path": "/memories/notes.md"})


def test_all_can_be_cleared(tool):
    create(tool)

    assert tool.clear_all_memory() == "All memory cleared"
    assert view(tool, "/memories").splitlines()[1:] == ["0B\t/memories"]


def test_edits_of_many_threads_are_all_kept(tool):
    create(tool, text="begin\n")

    def add(number):
        tool.call(
            {"command": "insert", "path": "/memories/notes.md", "insert_line": 1, "insert_text": f"line {number}"}
        )

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(add, range(12)))

    assert len(view(tool).splitlines()) == 1 + 1 + 12 + 1


@pytest.mark.anyio
async def test_the_asynchronous_tool_does_the_same():
    async with asynchronous() as client:
        tool = AsyncTreeringMemoryTool(client)
        await tool.call({"command": "create", "path": "/memories/a.md", "file_text": "tea"})
        await tool.call({"command": "rename", "old_path": "/memories/a.md", "new_path": "/memories/b.md"})
        await tool.call({"command": "insert", "path": "/memories/b.md", "insert_line": 0, "insert_text": "green"})
        await tool.call({"command": "str_replace", "path": "/memories/b.md", "old_str": "tea", "new_str": "leaf"})

        shown = await tool.call({"command": "view", "path": "/memories/b.md"})
        assert shown.splitlines()[1:] == ["     1\tgreen", "     2\tleaf", "     3\t"]
        await tool.call({"command": "delete", "path": "/memories/b.md"})
        assert await tool.clear_all_memory() == "All memory cleared"


PATHS = st.sampled_from(["/memories/a.md", "/memories/b.md", "/memories/d/c.md", "/memories/d", "/memories/none"])
TEXTS = st.text(alphabet="ab\n", max_size=6)
COMMANDS = st.one_of(
    st.fixed_dictionaries(
        {"command": st.just("view"), "path": PATHS},
        optional={"view_range": st.tuples(st.integers(-1, 4), st.integers(-1, 4)).map(list)},
    ),
    st.fixed_dictionaries({"command": st.just("create"), "path": PATHS, "file_text": TEXTS}),
    st.fixed_dictionaries(
        {"command": st.just("str_replace"), "path": PATHS, "old_str": TEXTS.filter(len), "new_str": TEXTS}
    ),
    st.fixed_dictionaries(
        {"command": st.just("insert"), "path": PATHS, "insert_line": st.integers(-1, 4), "insert_text": TEXTS}
    ),
    st.fixed_dictionaries({"command": st.just("delete"), "path": PATHS.filter(lambda path: path != "/memories/d")}),
    st.fixed_dictionaries(
        {
            "command": st.just("rename"),
            "old_path": PATHS.filter(lambda path: path != "/memories/d"),
            "new_path": PATHS.filter(lambda path: path != "/memories/d"),
        }
    ),
)


def answer(tool, command):
    try:
        said = tool.call(command)
    except ToolError as error:
        return "refused", error.content
    # The size of a folder is that of its entry on a disk there, and of its files here.
    return "done", re.sub(r"^\S+(\t/memories(/d/?)?)$", r"\1", said, flags=re.MULTILINE)


@settings(max_examples=40, deadline=None)
@given(st.lists(COMMANDS, max_size=12))
def test_every_command_answers_as_the_local_file_tool_of_the_sdk_does(tmp_path_factory, commands):
    theirs = BetaLocalFilesystemMemoryTool(str(tmp_path_factory.mktemp("memory")))
    with blocking() as client:
        ours = TreeringMemoryTool(client)
        # So that the folder is there: folders without files are none here.
        for tool in (theirs, ours):
            create(tool, "/memories/d/keep.md", "kept")
        for command in commands:
            assert answer(ours, command) == answer(theirs, command), command


def test_the_tool_runner_of_the_sdk_uses_it(client):
    """A scripted endpoint: the model makes a file, reads it and answers."""
    script = [
        {"command": "create", "path": "/memories/a.md", "file_text": "tea"},
        {"command": "view", "path": "/memories/../etc"},
        {"command": "view", "path": "/memories/a.md"},
    ]
    asked = []

    def answered(request):
        asked.append(json.loads(request.content))
        step = len(asked) - 1
        use = {"type": "tool_use", "id": f"toolu_{step}", "name": "memory", "input": script[step]} if step < 3 else None
        body = {
            "id": f"msg_{step}",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "content": [use or {"type": "text", "text": "done"}],
            "stop_reason": "tool_use" if use else "end_turn",
            "stop_sequence": None,
            "usage": {"input_tokens": 1, "output_tokens": 1},
        }
        return httpx2.Response(200, json=body)

    with httpx2.Client(transport=httpx2.MockTransport(answered)) as http:
        endpoint = anthropic.Anthropic(api_key="none", http_client=http)
        runner = endpoint.beta.messages.tool_runner(
            max_tokens=10,
            model="scripted",
            messages=[{"role": "user", "content": "remember tea"}],
            tools=[TreeringMemoryTool(client)],
        )
        final = runner.until_done()

    assert asked[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    refused, shown = (asked[step]["messages"][-1]["content"][0] for step in (2, 3))
    assert refused["is_error"]
    assert "would escape /memories" in refused["content"]
    assert "     1\ttea" in shown["content"]
    assert final.content[0].text == "done"
