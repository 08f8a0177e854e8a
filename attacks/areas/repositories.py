"""Repositories that run commands, or lead out of the folder that may be read."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from attacks.attack import Attack, Count
from attacks.hostile_repositories import (
    SECRET,
    TRAPS,
    WAYS_OUT,
    Trap,
    fetched_from_a_command,
    filtered,
    git_that_fetches,
    trap,
    way_out,
)

_TREERING = (sys.executable, "-P", "-m", "treering")
_SECONDS = 60.0


def commands_on_the_command_line(folder: Path) -> Count:
    """Read traps as they lie, and one in the other ways."""
    control = "a filter with a control byte in its name"
    different = (control, "a filter with bytes that are no UTF-8 in its name", "an included configuration")
    ways: list[tuple[str, Sequence[str]]] = [(name, ("ingest", ".", "--worktree")) for name in different]
    ways += [(control, ("ingest", ".")), (control, ("ingest", ".", "--dry-run")), (control, ("try",))]
    made = [trap(folder / str(number), TRAPS[name]) for number, (name, _) in enumerate(ways)]
    for one, (_, arguments) in zip(made, ways, strict=True):
        _run(one.folder, *arguments)
    return _sprung(made)


def fetching_from_a_command(folder: Path) -> Count:
    """Have git ask a remote that is a command for what is missing: this git, and one that always fetches."""
    old = f"{git_that_fetches(folder / 'bin')}{os.pathsep}{os.environ['PATH']}"
    made = [trap(folder / str(number), fetched_from_a_command) for number in range(4)]
    for one, path in zip(made, (os.environ["PATH"], old) * 2, strict=True):
        _run(one.folder, "ingest", ".", PATH=path)
    return _sprung(made)


def commands_over_http(folder: Path) -> Count:
    """Have a server with --files read every trap."""
    made = [trap(folder / "root" / str(number), arm) for number, arm in enumerate(TRAPS.values())]
    with _serving(folder, folder / "root") as client:
        for one in made:
            for options in ({}, {"worktree": True}):
                _ingest(client, one.folder, options)
    return _sprung(made)


def a_module_beside_the_files(folder: Path) -> Count:
    """Lay modules of Treering's names into the folder, for the process that makes vectors behind a command."""
    marker, web = folder / "it-ran", folder / "web"
    web.mkdir()
    for name in ("treering", "typer", "apsw"):
        (web / f"{name}.py").write_text(f"open({str(marker)!r}, 'w').close()\n")
    (web / "notes.md").write_text("# Notes\n\nWe retry three times.\n")
    space = ("--space", f"sqlite:{folder / 'space.db'}")
    _run(web, "ingest", "notes.md", *space, TREERING_BACKGROUND="1")
    # Waits for the other process, or does its work.
    _run(web, "vectors", *space)
    return Count(1, int(marker.exists()))


def a_program_beside_the_files(folder: Path) -> Count:
    """Lay a program called git into the folder, where PATH has a relative folder."""
    paths = (f".{os.pathsep}{os.environ['PATH']}", f"{os.pathsep}{os.environ['PATH']}")
    made = [trap(folder / str(number), _git_of_its_own) for number in range(len(paths))]
    for one, path in zip(made, paths, strict=True):
        _run(one.folder, "ingest", ".", PATH=path)
    return _sprung(made)


def ways_out_over_http(folder: Path) -> Count:
    """Read private repositories beside the folder a server may read."""
    ways = [way_out(folder, lead, number) for number, lead in enumerate(WAYS_OUT.values())]
    reached = []
    with _serving(folder, folder / "root") as client:
        for number, way in enumerate(ways):
            answers = [_ingest(client, way.target, options, f"/{number}") for options in ({}, {"worktree": True})]
            search = {"mode": "search", "scope": f"/{number}", "input": {"text": "launch code heliotrope"}}
            found = client.post("/v1/wiki/query", json=search)
            reached.append(SECRET in found.text or "secret.md" in "".join(one.text for one in answers))
    return Count(len(reached), sum(reached), _named(list(WAYS_OUT), reached))


def ways_out_over_mcp(folder: Path) -> Count:
    """Read outside of the folder an MCP server was started in: repositories that lead there, a folder, a file."""
    names = ["a .git file", "alternates", "linked objects", "commondir"]
    ways = [way_out(folder, WAYS_OUT[name], number) for number, name in enumerate(names)]
    hidden = folder / "outside" / "0" / "private"
    asked = [("repo", str(way.target)) for way in ways]
    asked += [("path", str(hidden)), ("path", "../outside/0/private/secret.md")]
    reached = _told_over_mcp(folder / "root", asked)
    return Count(len(reached), sum(reached), _named([*names, "a folder", "a file"], reached))


ATTACKS: Sequence[Attack] = (
    Attack("a repository runs a command, command line", commands_on_the_command_line),
    Attack("a repository runs a command, HTTP", commands_over_http),
    Attack("a remote that is a command is asked for objects", fetching_from_a_command),
    Attack("a program called git beside the files", a_program_beside_the_files),
    Attack("a Python module beside the files", a_module_beside_the_files),
    Attack("a repository leads out of --files, HTTP", ways_out_over_http),
    Attack("a path or repository leads out, MCP", ways_out_over_mcp),
)


def _git_of_its_own(made: Trap) -> None:
    filtered(b"E")(made)
    program = made.folder / "git"
    program.write_text(f"#!/bin/sh\n{made.command} < /dev/null\n")
    program.chmod(0o755)


def _sprung(made: Sequence[Trap]) -> Count:
    return Count(len(made), sum(one.sprung for one in made))


def _named(names: Sequence[str], reached: Sequence[bool]) -> str:
    return ", ".join(name for name, yes in zip(names, reached, strict=True) if yes)


def _run(folder: Path, *arguments: str, **environment: str) -> None:
    surroundings = {**os.environ, "TREERING_BACKGROUND": "0", **environment}
    subprocess.run([*_TREERING, *arguments], cwd=folder, env=surroundings, capture_output=True, timeout=_SECONDS)


@contextmanager
def _serving(folder: Path, files: Path) -> Iterator[httpx.Client]:
    places = ("--space", f"sqlite:{folder / 'space.db'}", "--projects", str(folder / "projects"))
    server = subprocess.Popen(
        [*_TREERING, "serve", "--port", "0", *places, "--files", str(files)],
        env={**os.environ, "TREERING_BACKGROUND": "0"},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with server:
        try:
            address = server.stdout.readline().split()[-1]
            with httpx.Client(base_url=address, timeout=_SECONDS, trust_env=False) as client:
                yield client
        finally:
            server.terminate()


def _ingest(client: httpx.Client, target: Path, options: Mapping[str, Any], scope: str = "/") -> httpx.Response:
    body = {"mode": "repo", "scope": scope, "input": {"path": str(target)}, "options": options}
    return client.post("/v1/wiki/ingest", json=body)


def _told_over_mcp(root: Path, asked: Sequence[tuple[str, str]]) -> list[bool]:
    """Have a server started in `root` ingest paths by their modes; tell for each whether the secret is found then."""
    starting = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "attack", "version": "1"}}
    server = subprocess.Popen(
        [*_TREERING, "mcp", "--space", f"sqlite:{root.parent / 'space.db'}"],
        cwd=root,
        env={**os.environ, "TREERING_BACKGROUND": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with server:
        _ask(server, "initialize", starting)
        server.stdin.write(json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}) + "\n")
        said = []
        for number, (mode, path) in enumerate(asked):
            ingest = {"mode": mode, "scope": f"/{number}", "input": {"path": path}}
            _ask(server, "tools/call", {"name": "wiki.ingest", "arguments": ingest})
            search = {"mode": "search", "scope": f"/{number}", "input": {"text": "launch code heliotrope"}}
            said.append(_ask(server, "tools/call", {"name": "wiki.query", "arguments": search}))
        server.stdin.close()
    return [SECRET in one for one in said]


def _ask(server: subprocess.Popen[str], method: str, params: Mapping[str, Any]) -> str:
    """Send a request and return the answer. One waits for the other, so they may all have the same number."""
    server.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}) + "\n")
    server.stdin.flush()
    for line in server.stdout:
        if json.loads(line).get("id") == 1:
            return line
    return ""
