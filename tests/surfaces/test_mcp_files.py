"""Which files a client of the MCP server can have read."""

import anyio
import pytest
from attacks.hostile_repositories import SECRET, WAYS_OUT, repository, way_out
from mcp import Client
from mcp_parts import Caller, over_stdio

from treering.core.errors import InvalidInput
from treering.extensions.mcp.server import build_server


def ingest(server, *calls):
    """Ask a server to ingest; return the code of each answer, `None` for one that is not an error, and all it said."""

    async def held():
        async with Client(server) as client:
            results = [await Caller(client).result("ingest", mode, {"path": path}) for mode, path in calls]
            return [one.structured_content.get("code") if one.is_error else None for one in results], repr(results)

    return anyio.run(held)


@pytest.fixture
def address(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    return f"sqlite:{tmp_path / 'space.db'}"


def test_files_are_read_below_the_folder_the_server_is_started_in(address, tmp_path):
    repository(tmp_path / "web", **{"notes.md": "# Notes\n\nWe retry three times.\n"})
    (tmp_path / "secret.txt").write_text(SECRET)
    server = over_stdio(address, cwd=tmp_path / "web")
    codes, said = ingest(
        server, ("path", "notes.md"), ("repo", "."), ("path", str(tmp_path)), ("path", "../secret.txt")
    )
    assert codes == [None, None, "denied", "denied"]
    assert "--files" in said
    assert SECRET not in said


@pytest.mark.nightly
def test_a_folder_that_is_named_counts_instead_and_paths_start_there(address, tmp_path):
    repository(tmp_path / "web")
    repository(tmp_path / "other")
    server = over_stdio(address, "--files", str(tmp_path / "other"), cwd=tmp_path / "web")
    codes, _ = ingest(server, ("repo", "."), ("path", "a.py"), ("repo", str(tmp_path / "web")), ("path", "../web/a.py"))
    assert codes == [None, None, "denied", "denied"]


@pytest.mark.nightly
def test_started_in_the_home_folder_the_server_reads_no_file_until_one_is_named(address, tmp_path):
    (tmp_path / "diary.md").write_text("# Diary\n")
    home = {"HOME": str(tmp_path), "USERPROFILE": str(tmp_path)}
    codes, said = ingest(over_stdio(address, cwd=tmp_path, **home), ("path", "diary.md"))
    assert codes == ["denied"]
    assert "--files FOLDER" in said
    codes, _ = ingest(over_stdio(address, "--files", ".", cwd=tmp_path, **home), ("path", "diary.md"))
    assert codes == [None]


@pytest.mark.parametrize("name", WAYS_OUT)
def test_a_repository_leads_no_agent_out_of_the_folder(address, tmp_path, name):
    way = way_out(tmp_path, WAYS_OUT[name])
    codes, said = ingest(build_server(address, files=way.root), ("repo", str(way.target)))
    assert codes == [None if name == "core.worktree" else "denied"]
    assert SECRET not in said


def test_a_folder_that_is_not_there_is_refused_at_the_start(address, tmp_path):
    with pytest.raises(InvalidInput, match="nowhere"):
        build_server(address, files=tmp_path / "nowhere")
