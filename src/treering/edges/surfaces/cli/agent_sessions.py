"""What the hooks of coding agents call: nothing here may hold a session up, or end it."""

import json
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from treering.core.errors import InvalidInput, TreeringError
from treering.edges.clients.known_clients import OWN_PROCESS
from treering.edges.settings import Settings
from treering.edges.sources.git import open_repository
from treering.edges.surfaces.cli.printing import say, tell

if TYPE_CHECKING:
    from treering.memories.discussion.operations import RecordReport

_MOST_INPUT = 1_000_000
_MOST_TRANSCRIPT = 512 * 1024 * 1024
_TOKENS = 800
_MOST_FILES = 20
_MAIN = ("", "main", "master")
_ACTOR = "coding agent"
_EMPTY = "{}"
_CURSOR_BEGINS = "sessionStart"


def begin() -> None:
    """Print what is known for the folder in which a session begins."""
    given = _given()
    try:
        told = _known(_folder(given))
    except (TreeringError, OSError) as error:  # the session begins without
        tell(f"treering: {error}")
        told = ""
    say(json.dumps(_answer(given, told)) if told else _EMPTY)


def keep(now: Path | None) -> None:
    """Keep a transcript: now, else in a process of its own."""
    if now is not None:
        _keep(now)
        return
    given = _given()
    place = given.get("transcript_path")
    if isinstance(place, str) and place and Path(place).is_file():
        with suppress(OSError):
            # The work runs in the folder of the session, where a relative path would name another file.
            _start(Path(place).absolute(), _folder(given))
    say(_EMPTY)


def _keep(file: Path) -> None:
    """Record what is new in a transcript, make the memories that are due, and propose what was decided, by rules."""
    # Imported here: whoever only answers a hook has no time for it.
    from treering.edges.sources.conversations.exports import read_conversations
    from treering.edges.surfaces.cli.flags import WriteFlags
    from treering.edges.surfaces.cli.session import embed_later, opened
    from treering.memories.discussion.operations import recording
    from treering.memories.discussion.settings import MakingPlan

    if file.stat().st_size > _MOST_TRANSCRIPT:
        raise InvalidInput(f"{file.name} is larger than {_MOST_TRANSCRIPT:,} bytes.", hint="Keep it in parts.")
    found = read_conversations(file.read_bytes(), file.name)
    writing = WriteFlags(actor=_ACTOR, as_agent=True)
    with opened(Settings.read().space_address(None), writing, create=True) as space:
        for one in found.conversations:
            if one.messages:
                given = {"id": one.id or file.stem, "messages": one.messages}
                report = space.perform(recording(MakingPlan()), input=given, options={"update": True, "propose": True})
                say(_kept(report, len(one.messages)))
        embed_later(space, writing)
    for problem in found.problems:
        tell(f"treering: {problem}")


def _kept(report: "RecordReport", messages: int) -> str:
    proposed = f", {len(report.proposed)} candidate(s) to review" if report.proposed else ""
    return f"{report.id}: {messages} messages{proposed}"


def _start(file: Path, folder: Path) -> None:
    """Start the work behind the answer. It outlives the session, and says nothing."""
    subprocess.Popen(  # noqa: S603 - our own command
        [OWN_PROCESS.program, *OWN_PROCESS.arguments, "session", "keep", "--now", str(file)],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def _known(folder: Path) -> str:
    """Return the pack for the state of a folder; empty where there is no space, or nothing speaks of it."""
    from treering.edges.surfaces.space import open_space

    address = Settings.read(folder=folder).space_address(None)
    if address.file is not None and not address.file.is_file():
        return ""
    with open_space(address, create=False, background=False) as space:
        report = space.query("context", input={"task": _task(folder)}, options={"max_tokens": _TOKENS})
    return "" if report.empty else report.text


def _task(folder: Path) -> str:
    """Say what somebody seems to work at: the branch, the last commit, and files that differ from it."""
    parts = [f"Work in {folder.name}."]
    with suppress(TreeringError):  # no repository, or no git
        repository = open_repository(folder)
        branch, head = repository.branch() or "", repository.head()
        if branch not in _MAIN:
            parts.append(f"Branch {branch.replace('-', ' ').replace('/', ' ')}.")
        parts += [f"Last commit: {one.subject}." for one in (repository.history(head, last=1) if head else ())]
        changed = [one.path for one in repository.work_changes()[:_MOST_FILES]]
        parts += [f"Changed files: {', '.join(changed)}."] if changed else []
    return " ".join(parts)


def _answer(given: Mapping[str, Any], told: str) -> Mapping[str, Any]:
    """Write what is known as the client reads it."""
    if given.get("hook_event_name") == _CURSOR_BEGINS:
        return {"additional_context": told}
    return {"hookSpecificOutput": {"hookEventName": "SessionStart", "additionalContext": told}}


def _given() -> Mapping[str, Any]:
    """Read what a client says; nothing where that is not JSON object."""
    if sys.stdin.isatty():
        return {}
    try:
        told = json.loads(sys.stdin.read(_MOST_INPUT))
    except (ValueError, OSError):
        return {}
    return told if isinstance(told, dict) else {}


def _folder(given: Mapping[str, Any]) -> Path:
    """Return where a session is at work: `cwd`; where a client names its open folders instead, the first of them."""
    roots = given.get("workspace_roots")
    named = [given.get("cwd"), *(roots if isinstance(roots, list) else ())]
    places = (Path(one) for one in named if isinstance(one, str) and one)
    return next((one for one in places if one.is_dir()), Path.cwd())
