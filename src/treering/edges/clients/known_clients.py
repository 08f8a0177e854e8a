"""The clients there are: where each keeps its configuration, and what form that has."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from treering.core.errors import InvalidInput, nearest

Form = Literal["json", "toml"]
NAME = "treering"
"""What the server is called in every client."""


@dataclass(frozen=True, slots=True)
class StartCommand:
    """How a client starts something of ours: a program and its arguments."""

    program: str
    arguments: tuple[str, ...]


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
    hook_timeout: int = 10
    """How long it waits for a hook, in its own unit."""

    def file(self, *, folder: Path | None, home: Path) -> Path:
        """Return its configuration: that of a project folder, else that of a person."""
        return folder / self.project_file if folder else home / self.user_file

    def hooks_file(self, *, folder: Path | None, home: Path) -> Path:
        """Return where its hooks are."""
        return folder / self.hooks_project_file if folder else home / self.hooks_user_file

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
        CodingClient("codex", "Codex", ".codex/config.toml", ".codex/config.toml", "mcp_servers", form="toml"),
        CodingClient("cursor", "Cursor", ".cursor/mcp.json", ".cursor/mcp.json", _MCP_SERVERS),
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
