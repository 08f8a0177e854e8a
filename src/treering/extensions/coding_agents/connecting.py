"""Connect and disconnect coding agents: edit their configuration in place, and restore it exactly."""

import base64
import json
import os
import shlex
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from treering.core.errors import Conflict, Corrupt, InvalidInput, NotFound, nearest
from treering.extensions.coding_agents.git_exclude import exclude, exclude_file
from treering.extensions.coding_agents.json_text import Inserted, insert_item, insert_member, read_json
from treering.system.machine import OWN_PROCESS, StartCommand, make_folder, replace_file

Form = Literal["json", "toml"]
NAME = "treering"
"""The name of the server in every client."""
_PROGRAM = "treering.exe" if os.name == "nt" else "treering"


def start_command() -> StartCommand:
    """Return the command that starts Treering: the program in an absolute folder of PATH, else this Python.

    Relative folders of PATH, and the working folder on Windows, may be an untrusted repository.
    """
    for folder in os.environ.get("PATH", "").split(os.pathsep):
        program = Path(folder, _PROGRAM)
        if program.is_absolute() and program.is_file() and os.access(program, os.X_OK):
            return StartCommand(str(program), ())
    return OWN_PROCESS


@dataclass(frozen=True, slots=True)
class ClientHook:
    """An event of a client that calls one of our commands."""

    event: str
    word: str
    """`begin`, `keep`, `edit`, `prompt`, `failure` or `asked`."""
    timeout: float
    """The timeout in the client's unit."""
    matcher: str = ""
    """The tools of the event; "": all, or an event without tools."""
    condition: str = ""
    """A filter for calls of these tools, if the client supports it."""


HOOK_WORDS = ("begin", "keep", "edit", "prompt", "failure", "asked")
"""All hooks: start and end of a session, before an edit, on a prompt, after a failure, after a call of Treering."""


@dataclass(frozen=True, slots=True)
class CodingClient:
    """A coding agent or an editor."""

    name: str
    title: str
    project_file: str
    """The configuration of a project, relative to its folder."""
    servers: str
    """The key of MCP servers."""
    user_file: str = ""
    """The configuration of a user, relative to the home folder, if different."""
    form: Form = "json"
    style: Literal["command", "stdio", "list"] = "command"
    """The form of a server: program and arguments, the same with a type, or one list."""
    hooks: tuple[ClientHook, ...] = ()
    """The events that call Treering; empty if hooks are not supported."""
    hooks_project_file: str = ""
    hooks_user_file: str = ""
    """The place of the hooks of a user, if different."""
    hooks_note: str = ""
    """A manual step that is required before hooks run."""
    hook_style: Literal["grouped", "flat", "plugin"] = "grouped"
    """The form of hooks: grouped by event, a flat list in a file with a version, or code."""

    def file(self, *, folder: Path | None, home: Path) -> Path:
        """Return the configuration file of a project folder, else of the user."""
        return folder / self.project_file if folder else home / (self.user_file or self.project_file)

    def hooks_file(self, *, folder: Path | None, home: Path) -> Path:
        """Return the file of its hooks."""
        return folder / self.hooks_project_file if folder else home / (self.hooks_user_file or self.hooks_project_file)

    def hook(self, one: ClientHook, command: str) -> dict[str, Any]:
        """Return the entry of a hook that calls a command."""
        called = {"command": command, "timeout": one.timeout, **({"if": one.condition} if one.condition else {})}
        matched = {"matcher": one.matcher} if one.matcher else {}
        return (
            {**called, **matched}
            if self.hook_style == "flat"
            else {**matched, "hooks": [{"type": "command", **called}]}
        )

    def server(self, start: StartCommand) -> dict[str, Any]:
        """Return the entry of the Treering server."""
        match self.style:
            case "list":
                return {"type": "local", "command": [start.program, *start.arguments], "enabled": True}
            case "stdio":
                return {"type": "stdio", "command": start.program, "args": list(start.arguments)}
            case "command":
                return {"command": start.program, "args": list(start.arguments)}

    def plugin(self, start: StartCommand, without: Collection[str]) -> str:
        """Return the code of the plugin; its first two lines contain the command and the timeouts."""
        command = [start.program, *start.arguments]
        limits = {one.word: int(one.timeout * 1000) for one in self.hooks if one.word not in without}
        code = Path(__file__).with_name(f"{self.name}.js").read_text(encoding="utf-8")
        return f"const COMMAND = {json.dumps(command)}\nconst LIMITS = {json.dumps(limits)} // milliseconds\n{code}"


_MCP_SERVERS = "mcpServers"
_PLUGINS, _HOOKS = "plugins", "hooks"

CLIENTS: Mapping[str, CodingClient] = {
    one.name: one
    for one in (
        CodingClient(
            "claude-code",
            "Claude Code",
            ".mcp.json",
            _MCP_SERVERS,
            user_file=".claude.json",
            hooks=(
                ClientHook("SessionStart", "begin", 5),
                ClientHook("SessionEnd", "keep", 1.5),  # the client's default for all hooks of this event
                ClientHook("PreCompact", "keep", 5),
                ClientHook("PreToolUse", "edit", 2, "Edit|MultiEdit|Write|NotebookEdit"),
                ClientHook("UserPromptSubmit", "prompt", 2),
                ClientHook("PostToolUseFailure", "failure", 2, "Bash"),
                ClientHook("PostToolUse", "asked", 2, "mcp__treering__.*"),
                ClientHook("PostToolUse", "asked", 2, "Bash", "Bash(treering *)"),
            ),
            hooks_project_file=".claude/settings.local.json",
            hooks_user_file=".claude/settings.json",
        ),
        CodingClient(
            "codex",
            "Codex",
            ".codex/config.toml",
            "mcp_servers",
            form="toml",
            # Not every version has an event for the end of a session; all have one for the end of a turn.
            hooks=(
                ClientHook("SessionStart", "begin", 5),
                ClientHook("Stop", "keep", 3),
                ClientHook("PreCompact", "keep", 3),
                ClientHook("PreToolUse", "edit", 2, "apply_patch|Edit|Write"),
                ClientHook("UserPromptSubmit", "prompt", 2),
                ClientHook("PostToolUse", "failure", 2, "Bash"),
                ClientHook("PostToolUse", "asked", 2, "mcp__treering__.*"),
            ),
            hooks_project_file=".codex/hooks.json",
            hooks_note="Codex runs a hook only after you trust it: use /hooks there.",
        ),
        CodingClient(
            "cursor",
            "Cursor",
            ".cursor/mcp.json",
            _MCP_SERVERS,
            # It accepts no context before an edit or on a prompt: rules for a file are shown after it was read.
            hooks=(
                ClientHook("sessionStart", "begin", 5),
                ClientHook("sessionEnd", "keep", 5),
                ClientHook("preCompact", "keep", 5),
                ClientHook("postToolUse", "edit", 2, "Read"),
                ClientHook("postToolUse", "failure", 2, "Shell"),
                ClientHook("postToolUse", "asked", 2, "MCP:wiki.*"),
            ),
            hooks_project_file=".cursor/hooks.json",
            hook_style="flat",
        ),
        CodingClient(
            "vscode", "VS Code", ".vscode/mcp.json", "servers", user_file=".config/Code/User/mcp.json", style="stdio"
        ),
        CodingClient(
            "gemini-cli",
            "Gemini CLI",
            ".gemini/settings.json",
            _MCP_SERVERS,
            # It accepts no context before a tool: rules for a file are shown after it was read.
            hooks=(
                ClientHook("SessionStart", "begin", 5_000),
                ClientHook("SessionEnd", "keep", 5_000),
                ClientHook("PreCompress", "keep", 5_000),
                ClientHook("AfterTool", "edit", 2_000, "read_file"),
                ClientHook("BeforeAgent", "prompt", 2_000),
                ClientHook("AfterTool", "failure", 2_000, "run_shell_command"),
                ClientHook("AfterTool", "asked", 2_000, ".*treering.*"),
            ),
            hooks_project_file=".gemini/settings.json",
        ),
        CodingClient(
            "opencode",
            "OpenCode",
            "opencode.json",
            "mcp",
            user_file=".config/opencode/opencode.json",
            style="list",
            # It accepts no context before a tool: rules for a file are shown after it was read.
            hooks=(
                ClientHook("chat.message", "begin", 5),
                ClientHook("session.idle", "keep", 5),
                ClientHook("tool.execute.after", "edit", 2, "read"),
                ClientHook("chat.message", "prompt", 2),
                ClientHook("tool.execute.after", "failure", 2, "bash"),
                ClientHook("tool.execute.after", "asked", 2, "treering_*"),
            ),
            hooks_project_file=f".opencode/{_PLUGINS}/treering.js",
            hooks_user_file=f".config/opencode/{_PLUGINS}/treering.js",
            hook_style="plugin",
        ),
        CodingClient(
            "copilot-cli",
            "Copilot CLI",
            ".github/mcp.json",
            _MCP_SERVERS,
            user_file=".copilot/mcp-config.json",
            # It calls events in this spelling with the names of Claude Code's tools. Only `Stop` passes a transcript.
            hooks=(
                ClientHook("SessionStart", "begin", 5),
                ClientHook("Stop", "keep", 3),
                ClientHook("PreCompact", "keep", 3),
                ClientHook("PreToolUse", "edit", 2, "Edit|Write"),
                ClientHook("UserPromptSubmit", "prompt", 2),
                ClientHook("PostToolUse", "failure", 2, "Bash"),
                ClientHook("PostToolUse", "asked", 2, "treering-.*"),
            ),
            hooks_project_file=f".github/{_HOOKS}/treering.json",
            hooks_user_file=f".copilot/{_HOOKS}/treering.json",
            hooks_note="Copilot CLI reads the files of a folder only if you trust the folder.",
        ),
        CodingClient("zed", "Zed", ".zed/settings.json", "context_servers", user_file=".config/zed/settings.json"),
    )
}


def client_named(name: str) -> CodingClient:
    """Return a client by name. Raises `InvalidInput` with the most similar name."""
    if name not in CLIENTS:
        raise InvalidInput(f"Unknown client {name!r}.", hint=nearest(name, CLIENTS), details={"known": [*CLIENTS]})
    return CLIENTS[name]


_EMPTY = "{}\n"
_HOOKS_VERSION = 1


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of one file. `before`: its bytes, or `None` if it did not exist."""

    file: Path
    before: bytes | None
    after: bytes
    pieces: tuple[str, ...]

    @property
    def addition(self) -> str:
        """The added content, of a JSON file as one JSON object, without the user's own content."""
        if self.file.suffix != ".json":
            return "".join(self.pieces).strip()
        before, after = ((data or b"").decode() for data in (self.before, self.after))
        added = _added(read_json(before if before.strip() else _EMPTY), read_json(after))
        return json.dumps(added, indent=2, ensure_ascii=False)


@dataclass(frozen=True, slots=True)
class Connection:
    """A planned or existing connection of a client."""

    client: str
    folder: Path | None
    """The project; `None`: all projects of the user."""
    changes: tuple[FileChange, ...]


@dataclass(frozen=True, slots=True)
class Undone:
    """The effect of disconnecting on a file."""

    file: Path
    how: str
    """`put back`, `removed`, `taken out` of a file that was changed since, or `gone` already."""


def plan_connection(
    client: CodingClient,
    *,
    folder: Path | None,
    home: Path,
    server: StartCommand,
    hooks: StartCommand | None,
    without: Collection[str] = (),
) -> Connection:
    """Return the changes for a connection without making them.

    `hooks`: the command for hooks; `None`: no hooks. `without`: hooks to omit. Raises `InvalidInput` for an unreadable
    file, and for a file of a project that is a link out of it; `Conflict` if the client has another server with the
    same name.
    """
    edits = _Edits(folder)
    edits.add_server(client, client.file(folder=folder, home=home), server)
    if hooks and client.hooks:
        edits.add_hooks(client, client.hooks_file(folder=folder, home=home), hooks, without)
    edits.add_exclusion(client)
    return Connection(client.name, folder, tuple(edits.changes()))


class ConnectionRecords:
    """Stores the changes of connections in a folder, so that they can be undone."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def find(self, client: str, folder: Path | None) -> Connection | None:
        """Return an existing connection. Raises `Corrupt` if its record cannot be read."""
        file = self._file(client, folder)
        if not file.is_file():
            return None
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
            changes = tuple(_change(one) for one in record["changes"])
        except (ValueError, KeyError, TypeError) as error:
            raise Corrupt(f"{file} cannot be read.", hint="Remove Treering from the client's files by hand.") from error
        return Connection(client, folder, changes)

    def make(self, connection: Connection) -> None:
        """Store the old files, then change them. Raises `Conflict` if one changed in the meantime, `OSError`."""
        if self.find(connection.client, connection.folder):
            raise Conflict(
                f"{connection.client} is already connected here.",
                hint=f"Run `treering disconnect {connection.client}` to disconnect it.",
            )
        for one in connection.changes:
            if _bytes(one.file) != one.before:
                raise Conflict(f"{one.file} was changed in the meantime.", hint="Try again.")
        make_folder(self._folder)
        record = {"client": connection.client, "changes": [_data(one) for one in connection.changes]}
        replace_file(self._file(connection.client, connection.folder), json.dumps(record, indent=1).encode())
        for one in connection.changes:
            one.file.parent.mkdir(parents=True, exist_ok=True)
            replace_file(one.file, one.after)

    def undo(self, client: str, folder: Path | None) -> list[Undone]:
        """Restore the files. Raises `NotFound` if the client is not connected.

        From a file that was changed since, only the inserted text is removed.
        """
        connection = self.find(client, folder)
        if connection is None:
            raise NotFound(f"{client} is not connected here.", hint="Run `treering connect` to connect it.")
        undone = [_undo(one) for one in reversed(connection.changes)]
        self._file(client, folder).unlink()
        return undone

    def clients_in(self, folder: Path) -> list[str]:
        """Return the clients that are connected in a folder, or for all folders of the user."""
        return [name for name in CLIENTS if any(self._file(name, place).is_file() for place in (folder, None))]

    def _file(self, client: str, folder: Path | None) -> Path:
        place = sha256(str(folder or "").encode()).hexdigest()[:16]
        return self._folder / f"{client}-{place}.json"


class _Edits:
    """Collects changes of files before they are made. `folder`: the project that must contain them."""

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder
        self._texts: dict[Path, str] = {}
        self._before: dict[Path, bytes | None] = {}
        self._pieces: dict[Path, list[str]] = {}

    def changes(self) -> Iterator[FileChange]:
        for file, pieces in self._pieces.items():
            yield FileChange(file, self._before[file], self._texts[file].encode(), tuple(pieces))

    def add_server(self, client: CodingClient, file: Path, server: StartCommand) -> None:
        text = self._text(file, client.form)
        entry = client.server(server)
        if client.form == "toml":
            self._keep(file, _toml_server(text, client.servers, entry, file))
        else:
            self._keep(file, _naming(file, lambda: insert_member(text, (client.servers, NAME), entry)))

    def add_hooks(self, client: CodingClient, file: Path, hooks: StartCommand, without: Collection[str]) -> None:
        if client.hook_style == "plugin":
            self._add_plugin(file, client.plugin(hooks, without))
            return
        if client.hook_style == "flat":
            text = self._text(file, "json")
            self._keep(file, _naming(file, lambda: insert_member(text, ("version",), _HOOKS_VERSION)))
        for one in client.hooks:
            if one.word not in without:
                entry = client.hook(one, shlex.join([hooks.program, *hooks.arguments, one.word]))
                insert = partial(insert_item, self._text(file, "json"), ("hooks", one.event), entry)
                self._keep(file, _naming(file, insert))

    def add_exclusion(self, client: CodingClient) -> None:
        """Exclude the changed files from git."""
        listed = exclude_file(self._folder) if self._folder and self._pieces else None
        if listed and self._folder:
            text = self._read(listed, "text")
            self._keep(listed, exclude(text, client.name, [*self._pieces], self._folder))

    def _add_plugin(self, file: Path, code: str) -> None:
        known = self._text(file, "code")
        if known.strip() and known != code:
            raise Conflict(f"{file} already exists with different content.", hint="Delete it and try again.")
        self._keep(file, None if known.strip() else Inserted(code, code))

    def _text(self, file: Path, form: str) -> str:
        if self._folder:
            _check_inside(file, self._folder)
        return self._read(file, form)

    def _read(self, file: Path, form: str) -> str:
        if file not in self._texts:
            before = self._before[file] = _bytes(file)
            try:
                text = (before or b"").decode()
            except UnicodeDecodeError as error:
                raise InvalidInput(f"{file} is not a text file.", hint="Check the file.") from error
            self._texts[file] = text if text.strip() or form != "json" else _EMPTY
        return self._texts[file]

    def _keep(self, file: Path, made: Inserted | None) -> None:
        if made:
            self._texts[file] = made.text
            self._pieces.setdefault(file, []).append(made.piece)


def _check_inside(file: Path, folder: Path) -> None:
    """Raise `InvalidInput` for a link out of a project, which would let the project change another file."""
    place = Path(os.path.realpath(file))
    if not place.is_relative_to(os.path.realpath(folder)):
        raise InvalidInput(
            f"{file} points to {place}, which is outside the project.",
            hint="Remove the link. With --user, your own configuration is changed instead, for all projects.",
        )


def _naming(file: Path, work: Callable[[], Inserted | None]) -> Inserted | None:
    """Run an edit; errors name the file."""
    try:
        return work()
    except (InvalidInput, Conflict) as error:
        raise type(error)(f"{file}: {error.message}", hint=error.hint, details=error.details) from error


def _toml_server(text: str, table: str, entry: dict[str, Any], file: Path) -> Inserted | None:
    try:
        known = tomllib.loads(text).get(table, {})
    except tomllib.TOMLDecodeError as error:
        raise InvalidInput(f"{file}: {error}.", hint="Correct the file, and try again.") from error
    if isinstance(known, dict) and NAME in known:
        if known[NAME] == entry:
            return None
        raise Conflict(
            f"{file}: {table}.{NAME} already exists with a different value.", hint="Remove it and try again."
        )
    lines = [f"[{table}.{NAME}]", *(f"{key} = {json.dumps(value, ensure_ascii=False)}" for key, value in entry.items())]
    gap = "" if not text else "\n" if text.endswith("\n") else "\n\n"
    piece = gap + "\n".join(lines) + "\n"
    return Inserted(text + piece, piece)


def _undo(change: FileChange) -> Undone:
    now = _bytes(change.file)
    if now is None:
        return Undone(change.file, "gone")
    if now == change.after:
        if change.before is None:
            change.file.unlink()
            _remove_empty(change.file.parent)
            return Undone(change.file, "removed")
        replace_file(change.file, change.before)
        return Undone(change.file, "put back")
    text = now.decode("utf-8", "surrogateescape")
    if NAME not in text:
        return Undone(change.file, "gone")
    for piece in reversed(change.pieces):
        if text.count(piece) != 1:
            raise Conflict(
                f"The Treering entry in {change.file} was changed.", hint=f"Remove {NAME!r} from it by hand."
            )
        text = text.replace(piece, "")
    replace_file(change.file, text.encode("utf-8", "surrogateescape"))
    return Undone(change.file, "taken out")


def _added(before: Any, after: Any) -> Any:
    """Return the members and items of a JSON value that an earlier one lacks, within their parents."""
    match before, after:
        case dict(), dict():
            new = {name: value for name, value in after.items() if name not in before or before[name] != value}
            return {name: _added(before.get(name), value) for name, value in new.items()}
        case list(), list():
            return [item for item in after if item not in before]
        case _:
            return after


def _remove_empty(folder: Path) -> None:
    """Remove an empty folder of a client that connecting created."""
    if folder.name in (_PLUGINS, _HOOKS) and not any(folder.iterdir()):
        folder.rmdir()
        folder = folder.parent
    if folder.name.startswith(".") and not any(folder.iterdir()):
        folder.rmdir()


def _bytes(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


def _data(change: FileChange) -> dict[str, Any]:
    before = None if change.before is None else base64.b64encode(change.before).decode()
    after = base64.b64encode(change.after).decode()
    return {"file": str(change.file), "before": before, "after": after, "pieces": [*change.pieces]}


def _change(record: dict[str, Any]) -> FileChange:
    before = None if record["before"] is None else base64.b64decode(record["before"])
    pieces: Sequence[str] = record["pieces"]
    return FileChange(Path(record["file"]), before, base64.b64decode(record["after"]), tuple(pieces))
