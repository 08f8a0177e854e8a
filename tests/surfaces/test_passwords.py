"""A password in an address of a space is told by no command and no server, whether the space opens or not."""

import logging

import anyio
import pytest
from mcp import Client

from treering.core.errors import UnknownBackend
from treering.extensions.mcp.server import build_server
from treering.extensions.projects.routes import ServedProjects
from treering.extensions.server.app import Serving, build_app
from treering.spaces import wiring
from treering.stores.sqlite.opening import open_stores
from treering.surfaces.cli.flags import Access
from treering.system.address import file_address
from treering.system.settings import Settings

SECRET = "hunter2-Zebra"
SERVED = f"served://ada:{SECRET}@host.db?sslpassword={SECRET}"
NOWHERE = f"nowhere://ada:{SECRET}@host/db"


@pytest.fixture(autouse=True)
def served(tmp_path, monkeypatch):
    """Let addresses `served://…` open: as files, for there is no store behind a server yet."""

    def open_served(address, needs):
        assert address.password == SECRET
        return open_stores(file_address(tmp_path / address.place), needs)

    monkeypatch.setitem(wiring.BACKENDS.built_in, "served", wiring.Backend(lambda: open_served))


COMMANDS = [
    ("init",),
    ("ingest", "-"),
    ("query", "Where are sessions kept?"),
    ("lint",),
    ("vectors",),
    ("unlock",),
    ("unlock", "nobody"),
    ("export", "copy"),
    ("review", "list"),
]
REFUSED = [("unlock", "nobody")]


@pytest.mark.parametrize("address", [SERVED, NOWHERE, f"served://ada:{SECRET}/x@host.db", f"served:ada:{SECRET}"])
def test_no_command_prints_it(stage, caplog, address):
    caplog.set_level(logging.DEBUG)
    for command in COMMANDS:
        told = stage.run(*command, "--space", address, "--json", stdin="Sessions are kept in SQLite.")
        assert (told.code == 0) is (address == SERVED and command not in REFUSED), told
        told_again = stage.run(*command, "--space", address, stdin="Sessions are kept in SQLite.")
        assert SECRET not in f"{told}{told_again}", command
    assert SECRET not in caplog.text


def test_a_space_behind_a_server_is_made_and_used_with_it(stage, tmp_path):
    assert stage.json("init", "--space", SERVED) == {"address": "served://ada@host.db", "created": True}
    assert stage.json("init", "--space", SERVED)["created"] is False
    assert (tmp_path / "host.db").is_file()


@pytest.mark.parametrize("address", [SERVED, NOWHERE])
def test_no_answer_over_mcp_has_it(address):
    async def held():
        async with Client(build_server(Settings.read().space_address(address)), mode="legacy") as client:
            text = {"text": "Sessions are kept in SQLite."}
            return [
                await client.call_tool("wiki.ingest", {"mode": "source", "input": text}),
                await client.call_tool("wiki.query", {"mode": "search", "input": {"text": "sessions"}}),
                await client.call_tool("wiki.query", {"mode": "sessions", "input": {}}),
            ]

    assert SECRET not in str(anyio.run(held))


def test_what_is_served_and_requested_is_shown_without_it(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_SPACE", NOWHERE)
    settings = Settings.read()
    serving = Serving(space=settings.space_address(SERVED), parts={"projects": ServedProjects(tmp_path)})
    assert SECRET not in f"{settings!r}{serving!r}{Access(space=SERVED)!r}"
    with pytest.raises(UnknownBackend) as caught:
        build_app(Serving(space=settings.space_address(None), parts={"projects": ServedProjects(tmp_path)}))
    assert SECRET not in str(caught.value.as_dict())
