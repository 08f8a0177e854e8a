"""Commands about the servers of a directory, and a server that is emptied or away."""

import json
import subprocess
import sys
from contextlib import closing

import pytest
from postgres_spaces import new_space

import postgres_server
import treering
from treering.core.errors import Unavailable
from treering.stores.postgres.placing import add_server
from treering.stores.postgres.relocating import relocate
from treering.surfaces import cli
from treering.system.machine import SystemClock
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock


@pytest.fixture
def run(capsys):
    """Run a command of `treering postgres` in this process, and return what it prints."""

    def run(*arguments, code=0):
        capsys.readouterr()
        assert cli.run(["postgres", *arguments]) == code
        told = capsys.readouterr()
        return told.err if code else told.out

    return run


def test_a_directory_is_made_filled_and_emptied_by_commands(server, databases, run):
    directory = ("--directory", server.url(databases.new()))
    addresses = {name: server.url(databases.new()) for name in ("one", "two")}
    assert "no server yet" in run("servers", "list", *directory)
    for name, address in addresses.items():
        assert run("servers", "add", name, address, *directory) == f"Added {name}: it accepts new spaces now.\n"
    spaces = [new_space() for _ in range(3)]
    make = Builder(SteppingClock())
    for space in spaces:
        with closing(treering.open_ledger(f"{directory[1]}&space={space}&directory=on")) as ledger:
            ledger.commit(make.patch(make.node("Hive")))
    listed = json.loads(run("servers", "list", "--json", *directory))
    assert [(one["name"], one["spaces"], one["answers"]) for one in listed["servers"]] == [
        ("one", 2, True),
        ("two", 1, True),
    ]
    moved = run("move", spaces[0], "two", *directory)
    assert moved.startswith(f"Moved {spaces[0]} from one to two: 1 events, 0 vectors")
    assert "Writers were blocked for" in moved
    assert run("move", spaces[0], "two", *directory) == f"{spaces[0]} is on two.\n"
    assert "Moved" in run("servers", "drain", "two", *directory)
    assert run("servers", "list", *directory).splitlines()[1].startswith("two: 0 spaces, accepts no new spaces")
    for space in spaces:
        with closing(treering.open_ledger(f"{directory[1]}&space={space}&directory=on", create=False)) as ledger:
            assert ledger.verify().seq == 1
    assert "no other server" in run("servers", "drain", "one", *directory, code=2)


def test_without_a_directory_the_commands_say_how_to_name_one(server, monkeypatch, run):
    monkeypatch.delenv("TREERING_SPACE", raising=False)
    assert "--directory postgresql://" in run("servers", "list", code=2)
    monkeypatch.setenv("TREERING_SPACE", server.url(space="x"))
    assert "not in a server directory" in run("servers", "list", code=2)


def test_the_directory_is_that_of_the_space_in_use(team, monkeypatch, run):
    monkeypatch.setenv("TREERING_SPACE", team.address("x"))
    assert run("servers", "list").startswith("a: ")


@pytest.fixture
def apart(server):
    """A server that is a process of its own, which can be killed."""
    try:
        started = postgres_server.new_server()
    except postgres_server.CannotStart as error:
        pytest.skip(f"no Postgres server can be started here: {error}")
    yield started
    postgres_server.remove(started)


@pytest.mark.nightly
def test_a_server_that_was_killed_is_named_comes_back_and_bothers_no_other(new_team, apart):
    add_server(new_team.directory, "c", apart.url("tests"))
    spaces = {}
    while set(spaces) < {"a", "b", "c"}:
        space = new_space()
        new_team.fill(space)
        spaces[new_team.directory.find(space).server] = space
    make = Builder(SteppingClock(seed="later"))
    with (
        closing(treering.open_ledger(new_team.address(spaces["a"]))) as near,
        closing(treering.open_ledger(new_team.address(spaces["c"]))) as far,
    ):
        apart.kill()
        for number in range(3):
            near.commit(make.patch(make.node(f"Near {number}")))
        with pytest.raises(Unavailable, match=r"server 'c'"):
            treering.open_ledger(new_team.address(spaces["c"], application_name="another"))
        # New spaces go to servers that answer, though the one that is away has the fewest.
        for _ in range(3):
            new = new_space()
            new_team.fill(new)
            assert new_team.directory.find(new).server != "c"
        apart.start()
        far.commit(make.patch(make.node("Far")))
        assert far.verify().seq == 2
        assert near.verify().seq == 4


@pytest.mark.nightly
def test_a_program_finds_a_space_that_moved_from_a_server_that_is_gone(new_team, server, apart):
    add_server(new_team.directory, "c", apart.url("tests"))
    space, make = new_space(), Builder(SteppingClock())
    new_team.fill(space)
    relocate(new_team.directory, space, "c", clock=SystemClock(), model=("none", 8), told=lambda *_: None)
    with closing(treering.open_ledger(new_team.address(space))) as near:
        assert near.sequence() == 1
        # By another process, so that this one does not know of it.
        command = [sys.executable, "-m", "treering", "postgres", "move", space, "a", "--directory"]
        subprocess.run([*command, server.url(new_team.name)], check=True, timeout=120, capture_output=True)
        apart.kill()
        near.commit(make.patch(make.node("Later")))
        assert near.verify().seq == 2
