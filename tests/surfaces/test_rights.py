"""A mode says what it does, and every surface refuses what it does not grant: also a mode that is added later."""

import io
from dataclasses import fields, replace
from pathlib import Path

import cli_stage
import pytest
from starlette.testclient import TestClient

import treering
from treering.core.errors import Denied, TreeringError
from treering.extensions.mcp.dispatcher import ToolDispatcher
from treering.extensions.mcp.listing import tool_listing
from treering.extensions.projects.routes import ServedProjects
from treering.extensions.server.app import Serving, build_app
from treering.ports.adapter import NoFiles
from treering.sources.reading.access import FilesBelow
from treering.testing.fakes import HashingEmbedder
from treering.verbs import catalog
from treering.verbs.envelope import EVERYTHING, READS, WRITES, Envelope, Mode, Report, Rights, Value
from treering.verbs.ingest.ingest import IngestOptions, PathInput, ingest_path

RIGHTS = [field.name for field in fields(Rights)]
REFUSED_BY_A_SERVER = [name for name in RIGHTS if name != "writes"]


class Terminal(io.TextIOWrapper):
    """Standard input at which a person sits."""

    def isatty(self):
        return True


class Asked(Value):
    """A path, or anything."""

    text: str


class Named(Value):
    """A path, as a person names it in the field of the text above."""

    text: Path
    more: tuple[Path, ...] = ()


class Options(Value):
    """None."""


@pytest.fixture
def add_mode(monkeypatch):
    """Add a mode `new` to `query` that needs one right more than reading; return the list of what it was asked."""

    def add(right, *, given=None):
        asked = []

        def run(call, given, _options):
            asked.append(given.text.read_text() if isinstance(given.text, Path) else given.text)
            return Report(verb="query", mode="new", scope=call.scope)

        rights = replace(READS, **({right: True} if right else {}))
        taken = given or (Named if right == "reads_files" else Asked)
        mode = Mode("new", "Do something new.", taken, Options, Report, run, rights=rights)
        tool = catalog.TOOLS["query"]
        monkeypatch.setitem(catalog.TOOLS, "query", replace(tool, modes={**tool.modes, "new": mode}))
        return asked

    return add


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret.txt"
    path.write_text("heliotrope")
    return path


@pytest.fixture
def address(tmp_path):
    address = f"sqlite:{tmp_path / 'space.db'}"
    treering.open(address, background=False).close()
    return address


def over_http(address, tmp_path, text, **serving):
    """Ask a server for the new mode; return the status and the code of the answer."""
    serving = Serving(
        space=address,
        parts={"projects": ServedProjects(tmp_path / "projects")},
        background=False,
        embedder=HashingEmbedder(),
        **serving,
    )
    with TestClient(build_app(serving), base_url="http://127.0.0.1") as client:
        answer = client.post("/v1/wiki/query", json={"mode": "new", "input": {"text": text}})
    return answer.status_code, answer.json().get("code")


def over_mcp(address, text, files):
    """Ask the MCP server for the new mode; return the code of the error, if it is one."""
    dispatcher = ToolDispatcher(address, files)
    try:
        call = {"mode": "new", "input": {"text": text}}
        answer = dispatcher.answer("query", call, actor="", progress=lambda *_: None, check=lambda: None)
    finally:
        dispatcher.close()
    return answer.data.get("code") if answer.is_error else None


@pytest.mark.parametrize("right", REFUSED_BY_A_SERVER)
def test_a_new_mode_that_does_more_is_refused_over_http(add_mode, address, tmp_path, secret, right):
    asked = add_mode(right)
    assert over_http(address, tmp_path, str(secret)) == (403, "denied")
    assert asked == []


@pytest.mark.parametrize("right", REFUSED_BY_A_SERVER)
def test_a_new_mode_that_does_more_is_refused_over_mcp(add_mode, address, secret, right):
    asked = add_mode(right)
    assert over_mcp(address, str(secret), NoFiles()) == "denied"
    assert asked == []


def test_a_new_mode_that_reads_files_is_served_where_files_are(add_mode, address, tmp_path, secret):
    asked = add_mode("reads_files")
    assert over_http(address, tmp_path, str(secret), files=tmp_path)[0] == 200
    assert over_mcp(address, str(secret), FilesBelow(tmp_path)) is None
    assert asked == ["heliotrope", "heliotrope"]


def test_a_new_mode_that_opens_what_it_is_given_reads_nothing_outside_of_what_a_server_allows(
    add_mode, address, tmp_path, secret
):
    asked = add_mode("reads_files")
    allowed = tmp_path / "allowed"
    allowed.mkdir()
    (allowed / "link.txt").symlink_to(secret)
    for named in (str(secret), "../secret.txt", str(allowed / "link.txt")):
        assert over_http(address, tmp_path, named, files=allowed) == (403, "denied")
        assert over_mcp(address, named, FilesBelow(allowed)) == "denied"
    assert asked == []


@pytest.mark.parametrize("right", ["", "writes", "fetches"])
def test_a_new_mode_that_does_not_say_it_reads_files_is_handed_no_path(
    add_mode, address, tmp_path, space, secret, right
):
    asked = add_mode(right, given=Named)
    assert over_http(address, tmp_path, str(secret)) == (403, "denied")
    assert over_http(address, tmp_path, str(secret), files=tmp_path) == (403, "denied")
    assert over_mcp(address, str(secret), NoFiles()) == "denied"
    with pytest.raises(Denied, match="may not read files"):
        space.query("new", input={"text": str(secret)})
    assert asked == []


def test_every_path_of_a_call_is_decided_on(add_mode, space, tmp_path, secret):
    add_mode("reads_files")
    (tmp_path / "allowed").mkdir()
    (tmp_path / "allowed" / "note.txt").write_text("Note.")
    engine = replace(space.engine, files=FilesBelow(tmp_path / "allowed"))
    envelope = Envelope(mode="new", input={"text": "note.txt", "more": ["note.txt", str(secret)]})
    with pytest.raises(Denied, match=r"secret\.txt"):
        catalog.call(engine, "query", envelope, granted=EVERYTHING)


@pytest.mark.parametrize("right", ["", "writes"])
def test_a_new_mode_that_reads_or_writes_the_space_is_served(add_mode, address, tmp_path, right):
    asked = add_mode(right)
    assert over_http(address, tmp_path, "x")[0] == 200
    assert over_mcp(address, "x", NoFiles()) is None
    assert asked == ["x", "x"]


@pytest.mark.parametrize("right", ["needs_person", "destroys"])
def test_the_command_line_refuses_what_a_person_decides_where_there_is_no_terminal(add_mode, stage, monkeypatch, right):
    asked = add_mode(right)
    stage.done("init")
    assert stage.run("query", "--mode", "new", "x").code == 5
    assert asked == []
    monkeypatch.setattr(cli_stage.io, "TextIOWrapper", Terminal)
    stage.done("query", "--mode", "new", "x")
    assert asked == ["x"]


@pytest.mark.parametrize("right", RIGHTS)
def test_a_program_of_the_person_may_do_everything(add_mode, space, secret, right):
    asked = add_mode(right)
    assert space.query("new", input={"text": str(secret)}).status == "ok"
    assert len(asked) == 1


@pytest.mark.parametrize("right", REFUSED_BY_A_SERVER)
def test_forbidden_mode_is_not_listed(add_mode, right):
    add_mode(right)
    (query,) = [tool for tool in tool_listing() if tool["name"] == "wiki.query"]
    assert ("- new:" in query["description"]) is (right == "reads_files")


def test_what_a_tool_says_of_itself_follows_its_modes(add_mode):
    add_mode("writes")
    (query,) = [tool for tool in tool_listing() if tool["name"] == "wiki.query"]
    assert query["annotations"] == {
        "readOnlyHint": False,
        "destructiveHint": False,
        "idempotentHint": False,
        "openWorldHint": False,
    }


def test_where_only_reading_is_granted_nothing_writes(space):
    writing = [
        (tool.name, mode) for tool in catalog.TOOLS.values() for mode in tool.modes.values() if mode.rights.writes
    ]
    assert len(writing) == 16
    for verb, mode in writing:
        with pytest.raises(Denied, match="changes the space"):
            catalog.call(space.engine, verb, Envelope(mode=mode.name), granted=READS)


def test_a_mode_that_says_it_only_reads_can_neither_write_nor_read_files(add_mode, space, tmp_path, monkeypatch):
    (tmp_path / "note.md").write_text("# Note\n")
    tool = catalog.TOOLS["query"]
    writing = catalog.TOOLS["crystallize"].modes["knowledge"]
    reading = Mode("files", "", PathInput, IngestOptions, Report, ingest_path, rights=WRITES)
    modes = {"write": replace(writing, rights=READS), "files": reading}
    monkeypatch.setitem(catalog.TOOLS, "query", replace(tool, modes=modes))
    told = {"kind": "preference", "title": "Tabs", "payload": {"statement": "Use tabs"}}
    with pytest.raises(Denied, match="declared read-only"):
        space.call("query", Envelope(mode="write", input=told))
    with pytest.raises(TreeringError, match="no adapter"):
        space.call("query", Envelope(mode="files", input={"path": str(tmp_path)}))


def test_a_mode_cannot_be_made_without_saying_what_it_does():
    with pytest.raises(TypeError, match="rights"):
        Mode("new", "", Asked, Options, Report, lambda *_: None)
    with pytest.raises(TypeError, match="needs_person"):
        Rights(writes=False, reads_files=False, writes_files=False, fetches=False, destroys=False)


def test_what_is_refused_is_named_with_every_right_that_is_missing(add_mode, space):
    add_mode("reads_files")
    with pytest.raises(Denied) as caught:
        catalog.call(space.engine, "query", Envelope(mode="new", input={"text": "x"}), granted=WRITES)
    assert caught.value.message == "query in mode 'new' reads files, which is not allowed here."
    assert caught.value.details == {"operation": "query in mode 'new'", "not_granted": ["reads_files"]}
    assert EVERYTHING.beyond(READS) == tuple(RIGHTS)
