"""The work of a coding agent in a session, by calls of its tools: edited files, the failing command, the open plan."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any

from treering.core.fencing import without_recalled, without_surroundings
from treering.extensions.conversations.loose_json import words
from treering.extensions.conversations.tool_calls import FAILED_LINE, PATCHED, PATH_ARGUMENTS, texts_in

SESSION = "session"
"""The metadata key of a conversation for facts from its tool calls."""
MAX_EDITED_PATHS = 100
_MIN_REQUEST_WORDS = 4  # as `verbs.query.last_session.MIN_REQUEST_WORDS`, which a hook has no time to load
_MAX_CHARS = 200
_MAX_OUTPUT_CHARS = 20_000
_MAX_COMMAND_CHARS = 2_000
_MAX_PENDING_CALLS = 10_000

_EDITING = re.compile(r"edit|write|replace|patch|create_file|insert", re.IGNORECASE)
_COMMANDS = ("command", "cmd", "script")
_FAILED_TEST = re.compile(
    r"^(?:FAILED|ERROR|FAIL:?|--- FAIL:|not ok|test \S+ \.\.\. FAILED|[✗✘×●])\s*\S.*", re.MULTILINE
)
_OUTER_EXIT = re.compile(r"\A.{0,300}?\b(?:exit|exited with) code:? (\d{1,3})\b", re.IGNORECASE | re.DOTALL)
"""The statement of the exit code before the output of a command."""
_LAST_EXIT = re.compile(r"\bexit code: (\d{1,3})\b", re.IGNORECASE)
_OPEN = ("in_progress", "pending")

_SEPARATOR = re.compile(r"\s*(?:&&|\|\||[;\n|])\s*")
_BEFORE = re.compile(
    r"(?:\w+=\S*|env|sudo|time|timeout \S+|(?:uv|poetry|pdm|hatch|pipenv|rye) run|npx|bunx|python3? -m|bundle exec)\s+"
)
_WITH_SUBCOMMANDS = frozenset(
    "bun bundle cargo composer docker dotnet git go gradle gradlew just kubectl make mix mvn npm nox pnpm rake task tox"
    " uv yarn".split()
)
_PREPARING = frozenset("cd export source set . pushd echo".split())
_READING = re.compile(
    r"ls|cat|grep|rg|ag|fd|find|sed|awk|head|tail|which|command|type|wc|test|\[|diff|pwd|stat|file|tree|jq|curl|sleep"
    r"|kill|pkill|ps|git (?!commit|push|pull|merge|rebase|cherry-pick|am\b).*|git"
)
"""Commands for exploration, whose failure is not a problem."""


@dataclass(frozen=True, slots=True)
class _Failure:
    command: str
    line: str
    edits: int
    """The number of calls that had edited files before it failed."""


@dataclass(slots=True)
class SessionWork:
    """The work of one session, updated with each tool call."""

    _edited: dict[str, list[str]] = field(default_factory=dict)
    _commands: dict[str, str] = field(default_factory=dict)
    _failing: dict[str, _Failure] = field(default_factory=dict)
    _next: str = ""

    def request(self, text: str) -> None:
        """Record a request of the user. It ends the plan for an earlier one, unless it is only a few words."""
        if len(text.split()) >= _MIN_REQUEST_WORDS:
            self._next = ""

    def take(self, content: object) -> None:
        """Record the tool calls and results among the parts of a message."""
        for part in content if isinstance(content, list) else ():
            match part:
                case {"type": "tool_use" | "tool_call" | "function_call", "name": str(name)}:
                    self.call(name, part.get("input", part.get("arguments")), str(part.get("id", "")))
                case {"type": "tool_result", "tool_use_id": str(call)}:
                    failed = part.get("is_error")
                    self.answer(call, part.get("content"), failed=failed if isinstance(failed, bool) else None)

    def call(self, name: str, given: object, call: str = "") -> None:
        """Record a tool call. `call`: the id in its result."""
        arguments = _arguments(given)
        identity = call or f"#{len(self._edited) + len(self._commands)}"
        if len(self._edited) + len(self._commands) > _MAX_PENDING_CALLS:
            return
        paths = edited_by(name, arguments)
        if paths:
            self._edited[identity] = paths
        elif command := _command(arguments):
            self._commands[identity] = command
        plan = arguments.get("todos", arguments.get("plan"))
        if isinstance(plan, list):
            self._next = _first_open(plan)

    def answer(self, call: str, output: object, *, failed: bool | None = None) -> None:
        """Record the result of a call. `failed`: whether its client reports a failure, `None` if unknown."""
        own, _ = without_recalled(
            without_surroundings("\n".join(texts_in(output))[-10 * _MAX_OUTPUT_CHARS :])
        )  # without what hooks added to it
        text = own[-_MAX_OUTPUT_CHARS:]
        if failed is None:
            failed = _has_failed(output, text)
        if failed:
            self._edited.pop(call, None)
        command = self._commands.pop(call, "")
        key = _program(command)
        if not key or _READING.fullmatch(key):
            return
        self._failing.pop(key, None)
        if failed:
            self._failing[key] = _Failure(command, _failing_line(text), len(self._edited))

    def facts(self) -> dict[str, Any]:
        """Return the edited files, the last failing command, and the next open step of the plan, if any."""
        paths = list(dict.fromkeys(words(path) for paths in self._edited.values() for path in paths))
        facts: dict[str, Any] = {}
        if paths:
            facts |= {"edited": paths[:MAX_EDITED_PATHS], "edited_files": len(paths)}
        if self._failing:
            last = [*self._failing.values()][-1]
            edited_since = len(self._edited) > last.edits
            facts["failing"] = {"command": _cut(last.command), "line": _cut(last.line), "edited_since": edited_since}
        if self._next:
            facts["next"] = _cut(self._next)
        return facts


def edited_by(name: str, given: Mapping[str, Any]) -> list[str]:
    """Return the paths of the files that a tool call changes."""
    patches = [first or second for text in texts_in(given) for first, second in PATCHED.findall(text)]
    if patches:
        return patches
    if not _EDITING.search(name) or given.get("command") == "view":
        return []
    return [value for key in PATH_ARGUMENTS if isinstance(value := given.get(key), str)]


def _cut(text: str) -> str:
    return " ".join(words(text).split())[:_MAX_CHARS]


def _arguments(given: object) -> Mapping[str, Any]:
    if isinstance(given, str):
        try:
            given = json.loads(given) if given.lstrip().startswith("{") else {"input": given}
        except (ValueError, RecursionError):
            return {"input": given}
    return given if isinstance(given, dict) else {}


def _command(given: Mapping[str, Any]) -> str:
    command = next((given[name] for name in _COMMANDS if name in given), "")
    if isinstance(command, list):
        command = command[-1] if command else ""  # such as `bash -lc COMMAND`
    return command if isinstance(command, str) else ""


def _first_open(plan: list[Any]) -> str:
    steps = [one for one in plan if isinstance(one, dict)]
    ordered = [one for status in _OPEN for one in steps if one.get("status") == status]
    texts = (one.get(key) for one in ordered for key in ("content", "step", "description", "title"))
    return next((text for text in texts if isinstance(text, str) and text.strip()), "")


def _has_failed(output: object, text: str) -> bool:
    answered = _arguments(output) if isinstance(output, str) else output
    if isinstance(answered, dict):
        places = (answered, answered.get("metadata"))
        codes = [one[key] for one in places if isinstance(one, dict) for key in ("exit_code", "exit") if key in one]
        if codes:
            return codes[0] not in (None, 0, "0")
    stated = _OUTER_EXIT.search(text) or next(iter([*_LAST_EXIT.finditer(text[-300:])][-1:]), None)
    return bool(stated and int(stated[1]))


def _failing_line(text: str) -> str:
    if failed := _FAILED_TEST.findall(text):
        return str(failed[-1])
    lines = [line for line in text.splitlines() if line.strip() and not _OUTER_EXIT.fullmatch(line.strip())]
    return next((line for line in reversed(lines) if FAILED_LINE.search(line)), lines[-1] if lines else "")


def _program(command: str) -> str:
    """Return the program of a command, with its subcommand; it identifies repeated runs."""
    for piece in _SEPARATOR.split(command[:_MAX_COMMAND_CHARS].strip()):
        while match := _BEFORE.match(piece):
            piece = piece[match.end() :]
        parts = piece.split()
        name = PurePath(parts[0]).name if parts else ""
        if not name or name in _PREPARING:
            continue
        plain = next((word for word in parts[1:] if re.fullmatch(r"[a-z][\w:-]*", word)), "")
        return f"{name} {plain}".strip() if name in _WITH_SUBCOMMANDS else name
    return ""
