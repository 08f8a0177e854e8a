"""The clients there are: where each keeps its configuration, and what form that has."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from treering.core.errors import InvalidInput, nearest
from treering.system.machine import OWN_PROCESS, StartCommand

Form = Literal["json", "toml"]
NAME = "treering"
"""What the server is called in every client."""
_PROGRAM = "treering.exe" if os.name == "nt" else "treering"


def start_command() -> StartCommand:
    """Return how another program starts this one: by its name in an absolute folder of PATH, else by this Python.

    A relative folder of PATH, and on Windows the working folder, may be somebody else's repository.
    """
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        program = Path(folder, _PROGRAM)
        if program.is_absolute() and program.is_file() and os.access(program, os.X_OK):
            return StartCommand(str(program), ())
    return OWN_PROCESS


@dataclass(frozen=True, slots=True)
class CodingClient:
    """A coding agent or an editor."""

    name: str
    title: str
    project_file: str
    """Its configuration for one project, relative to the project's folder."""
    user_file: str
    """Its configuration for all projects of a person, relative to the home folder."""
    servers: str
    """The key under which it keeps MCP servers."""
    form: Form = "json"
    style: Literal["command", "stdio", "list"] = "command"
    """How it writes a server: program and arguments, the same with a type, or both in one list."""
    hooks: Mapping[str, str] | None = None
    """Which of its events call which of our commands; `None`: it has no hooks that Treering uses."""
    hooks_project_file: str = ""
    hooks_user_file: str = ""
    hooks_note: str = ""
    """What a person has to do before they run."""
    hook_timeout: int = 10
    """How long it waits for a hook, in its own unit."""
    hook_style: Literal["grouped", "flat"] = "grouped"
    """How it writes a hook: in a group of an event, or by itself in a file that names its version."""

    def file(self, *, folder: Path | None, home: Path) -> Path:
        """Return its configuration: that of a project folder, else that of a person."""
        return folder / self.project_file if folder else home / self.user_file

    def hooks_file(self, *, folder: Path | None, home: Path) -> Path:
        """Return where its hooks are."""
        return folder / self.hooks_project_file if folder else home / self.hooks_user_file

    def hook(self, command: str) -> dict[str, Any]:
        """Return how it writes a hook that calls a command."""
        one = {"command": command, "timeout": self.hook_timeout}
        return one if self.hook_style == "flat" else {"hooks": [{"type": "command", **one}]}

    def server(self, start: StartCommand) -> dict[str, Any]:
        """Return how it writes our server."""
        match self.style:
            case "list":
                return {"type": "local", "command": [start.program, *start.arguments], "enabled": True}
            case "stdio":
                return {"type": "stdio", "command": start.program, "args": list(start.arguments)}
            case "command":
                return {"command": start.program, "args": list(start.arguments)}


_MCP_SERVERS = "mcpServers"
_OF_SESSIONS = {"SessionStart": "begin", "SessionEnd": "keep"}

CLIENTS: Mapping[str, CodingClient] = {
    one.name: one
    for one in (
        CodingClient(
            "claude-code",
            "Claude Code",
            ".mcp.json",
            ".claude.json",
            _MCP_SERVERS,
            hooks={**_OF_SESSIONS, "PreCompact": "keep"},
            hooks_project_file=".claude/settings.local.json",
            hooks_user_file=".claude/settings.json",
        ),
        CodingClient(
            "codex",
            "Codex",
            ".codex/config.toml",
            ".codex/config.toml",
            "mcp_servers",
            form="toml",
            # Not every version tells of the end of a session; all tell of the end of a turn.
            hooks={"SessionStart": "begin", "Stop": "keep", "PreCompact": "keep"},
            hooks_project_file=".codex/hooks.json",
            hooks_user_file=".codex/hooks.json",
            hooks_note="Codex runs a hook once you have trusted it: /hooks there.",
        ),
        CodingClient(
            "cursor",
            "Cursor",
            ".cursor/mcp.json",
            ".cursor/mcp.json",
            _MCP_SERVERS,
            hooks={"sessionStart": "begin", "sessionEnd": "keep", "preCompact": "keep"},
            hooks_project_file=".cursor/hooks.json",
            hooks_user_file=".cursor/hooks.json",
            hook_style="flat",
        ),
        CodingClient("vscode", "VS Code", ".vscode/mcp.json", ".config/Code/User/mcp.json", "servers", style="stdio"),
        CodingClient(
            "gemini-cli",
            "Gemini CLI",
            ".gemini/settings.json",
            ".gemini/settings.json",
            _MCP_SERVERS,
            hooks={**_OF_SESSIONS, "PreCompress": "keep"},
            hooks_project_file=".gemini/settings.json",
            hooks_user_file=".gemini/settings.json",
            hook_timeout=10_000,
        ),
        CodingClient("opencode", "OpenCode", "opencode.json", ".config/opencode/opencode.json", "mcp", style="list"),
        CodingClient("zed", "Zed", ".zed/settings.json", ".config/zed/settings.json", "context_servers"),
    )
}


def client_named(name: str) -> CodingClient:
    """Return a client. Raises `InvalidInput` naming the nearest one."""
    if name not in CLIENTS:
        raise InvalidInput(
            f"{name!r} is not a client that Treering knows.", hint=nearest(name, CLIENTS), details={"known": [*CLIENTS]}
        )
    return CLIENTS[name]
