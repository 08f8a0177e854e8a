"""All operations on all surfaces: what a surface offers is exactly what the rights of the operation allow there.

`golden/operations.txt` shows it to people.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer

from treering.core.errors import Denied, InvalidInput
from treering.extensions.mcp.listing import GRANTED as GRANTED_TO_AGENTS
from treering.extensions.mcp.listing import HELP, tool_listing
from treering.extensions.projects.routes import ServedProjects
from treering.extensions.server.app import Serving, build_app
from treering.extensions.server.served import granted
from treering.surfaces.cli.commands import command_line
from treering.surfaces.cli.commands.everyday import EVERYDAY
from treering.surfaces.python.operations import OF_PARTS, ON_SPACES, OPERATIONS, UPKEEP
from treering.testing.fakes import HashingEmbedder
from treering.verbs.catalog import TOOLS
from treering.verbs.envelope import EVERYTHING, READS, Operation

GOLDEN = Path(__file__).with_name("golden") / "operations.txt"
VERBS = {f"{tool.name} {mode.name}": mode for tool in TOOLS.values() for mode in tool.modes.values()}
EVERY: dict[str, Operation] = {**VERBS, **OPERATIONS}
FLAGS = {
    "discussion edit": "discussion state --edit",
    "discussion erase": "discussion delete --erase",
    "prove": "query --proof",
}
"""Operations that the command line offers as a flag of another's command."""
OTHERWISE = {**FLAGS, "leases": "unlock"}
"""Operations that have no command of their name."""

NO_OPERATIONS = {
    *(
        "try",
        "init",
        "backup",
        "move",
        "diff",
        "merge",
        "sync",
        "mcp",
        "version",
        "verify",
        "serve",
        "supervise",
        "consolidate",
        "feedback give",
        "wiki serve",
    ),
    *EVERYDAY,
    *(
        "postgres plan",
        "postgres work",
    ),
    *("connect", "disconnect", "session begin", "session keep", "session work"),
    *("mongodb index", "mongodb status"),
    *("exam run", "exam make", "check", "session edit", "session prompt", "session failure", "session asked"),
    *("watch", "hook install", "hook uninstall", "hook status", "hook run"),
    *("key create", "key list", "key revoke"),
    *("workflow run", "workflow check", "workflow examples"),
}
"""Commands without an operation of their name, such as those that start a program or need several spaces."""


@dataclass(frozen=True)
class Server:
    """One way of starting the HTTP server, and what it is then called."""

    called: str
    files: bool = False
    allow: frozenset = frozenset()

    def granted(self, folder):
        return granted(files=folder if self.files else None, allow=self.allow)


SERVERS = (
    Server("yes"),
    Server("with --files", files=True),
    Server("with --allow review", allow=frozenset({"review"})),
    Server("with --allow erase", allow=frozenset({"review", "erase"})),
    Server("with all of these", files=True, allow=frozenset({"review", "erase"})),
)


def commands():
    """Return what the command line can be told, flags that are operations included."""
    top = typer.main.get_command(command_line()).commands
    paths = list(paths_of(top))
    flags = {
        told
        for told in FLAGS.values()
        for *groups, name, flag in [told.split()]
        if any(flag in one.opts for one in (top[groups[0]].commands if groups else top)[name].params)
    }
    return {*paths, *flags}


def paths_of(commands, before=""):
    """Name every command that does something, those inside others included."""
    for name, command in commands.items():
        inner = getattr(command, "commands", None)
        if inner:
            yield from paths_of(inner, f"{before}{name} ")
        else:
            yield before + name


def command_of(name):
    """Name the command that offers an operation: that of its verb, or its own."""
    return name.split()[0] if name in VERBS else OTHERWISE.get(name, name)


def told_to_agents():
    return {
        f"{tool['name'].removeprefix('wiki.')} {mode}"
        for tool in tool_listing()
        for mode in tool["inputSchema"]["properties"]["mode"]["enum"]
        if mode != HELP
    }


def served(server, folder):
    """Return the operations that a server answers: those with a route, and the modes that it does not refuse."""
    serving = Serving(
        space=":memory:",
        parts={"projects": ServedProjects(folder)},
        files=folder if server.files else None,
        allow=server.allow,
        embedder=HashingEmbedder(),
        background=False,
    )
    paths = {route.path for route in build_app(serving).routes}
    verbs = {name for name in VERBS if f"/v1/wiki/{name.split()[0]}" in paths and lets(server, name, folder)}
    return verbs | {name for name in OPERATIONS if f"/v1/{name.replace(' ', '/')}" in paths}


def lets(server, name, folder):
    verb, mode = name.split()
    try:
        TOOLS[verb].require(TOOLS[verb].modes[mode], granted=server.granted(folder))
    except Denied:
        return False
    return True


def test_the_command_line_offers_every_operation_and_nothing_undeclared():
    known = {*map(command_of, EVERY), *NO_OPERATIONS}
    assert commands() - known == set(), "Name a command without an operation of its name in NO_OPERATIONS."
    assert known - commands() == set(), "Add the commands of these operations, or remove the names here."


def test_agents_see_exactly_the_granted_modes():
    assert told_to_agents() == {name for name, one in VERBS.items() if not one.rights.beyond(GRANTED_TO_AGENTS)}
    assert not GRANTED_TO_AGENTS.needs_person
    assert not GRANTED_TO_AGENTS.destroys


@pytest.mark.parametrize("server", SERVERS, ids=lambda server: server.called)
def test_a_server_answers_exactly_what_it_grants(server, tmp_path):
    verbs = {name for name, one in VERBS.items() if not one.rights.beyond(server.granted(tmp_path))}
    besides = {one.name for one in ON_SPACES if not one.rights.beyond(granted(files=None, allow=server.allow))}
    assert served(server, tmp_path) == verbs | besides


def test_no_server_reads_or_writes_a_folder_that_a_caller_names(tmp_path):
    for server in SERVERS:
        assert served(server, tmp_path).isdisjoint({"export", "import"})


def test_names_are_unique_and_no_operation_is_without_rights():
    assert len(EVERY) == len(VERBS) + len(ON_SPACES) + len(UPKEEP) + len(OF_PARTS)
    assert {one.rights.beyond(EVERYTHING) for one in EVERY.values()} == {()}


def test_what_destroys_or_decides_writes_or_leaves_the_space():
    for one in EVERY.values():
        if one.rights.destroys:
            assert one.rights.writes
            assert one.rights.needs_person


@pytest.mark.parametrize("name", [name for name, one in OPERATIONS.items() if one.rights.names])
def test_an_operation_is_refused_where_only_reading_is_granted(space, name):
    with pytest.raises(Denied, match="not allowed here"):
        OPERATIONS[name].perform(space.engine, granted=READS)


def test_a_program_names_an_operation_and_its_fields(space):
    assert space.perform("review list", options={"limit": 1}).root == ()
    with pytest.raises(InvalidInput) as caught:
        space.perform("reviews list")
    assert caught.value.hint == "Did you mean 'review list'?"
    with pytest.raises(InvalidInput) as caught:
        space.perform("review show", input={"patch": "x"})
    assert caught.value.hint == "Did you mean 'patch_id'?"


def test_the_table_reads_as_it_was_approved(tmp_path):
    text = table(tmp_path)
    if os.environ.get("REWRITE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), "If this is meant, run the tests with REWRITE_GOLDEN=1."


def table(folder):
    """Show every operation with what it does beyond reading, and where it is offered."""
    agents, answered = told_to_agents(), [(server.called, served(server, folder)) for server in SERVERS]
    rows = [("OPERATION", "DOES MORE THAN READ", "PYTHON", "COMMAND LINE", "MCP", "HTTP")]
    for name, one in EVERY.items():
        command = f"treering {command_of(name)}" + (" (asks)" if one.rights.destroys else "")
        agent = ("with files" if one.rights.reads_files else "yes") if name in agents else "-"
        http = next((called for called, names in answered if name in names), "-")
        rows.append((name, " ".join(one.rights.names) or "-", "yes", command, agent, http))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    lines = ("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines) + "\n"
