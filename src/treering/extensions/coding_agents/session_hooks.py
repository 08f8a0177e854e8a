"""The hooks of coding agents.

They read the current space. With the resident process (`extensions.resident`) an answer takes a tenth of a second, else
about a second to load the program; clients stop waiting after two. Long work is done in a background process.
"""

import json
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from treering.core.characters import visible, visible_json
from treering.core.errors import TreeringError
from treering.core.fencing import without_recalled, without_surroundings
from treering.extensions.coding_agents.client_input import read_hook_input
from treering.system.address import file_address
from treering.system.machine import make_folder, start_behind, sync_folder, write_new
from treering.system.repository_place import repository_at
from treering.system.settings import Settings

if TYPE_CHECKING:
    from treering.extensions.coding_agents.shown_lines import ShownLines
    from treering.surfaces.python.space import Space


_MOST_INPUT = 8_000_000  # OpenCode sends the messages of a whole session
_MOST_BYTES = 100_000
_EMPTY: Mapping[str, Any] = {}
_OF_CURSOR = ("sessionStart", "postToolUse")
_COMPACTIONS = ("PreCompact", "preCompact", "PreCompress")
_ELSEWHERE = "Treering: the memory of this folder is on a server. Call the tool wiki.query in mode brief to read it."
_MORE = 'Ask wiki.query {"task": "…"} for the context of a task; record decisions with wiki.crystallize.'
_RESUMED, _NEW_SESSION = "resume", "new"
_COMPACTED = b'"compact_boundary"'
"""A mark in transcripts of Claude Code: messages before it are not in the context any more."""
_NEW = ".new"
_COPY = ".jsonl"
_PATIENT = 10
"""The niceness of background work."""
_LEFT_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class WaitingTranscript:
    """A transcript queued by a hook, to be stored."""

    record: Path
    """The file in the queue; deleted when the transcript is stored."""
    transcript: Path
    folder: Path
    """The folder of the session."""
    space: str
    """The address of its space, without a password."""

    def forget(self) -> None:
        """Delete the record, and the transcript if it is a copy."""
        self.record.unlink(missing_ok=True)
        self.record.with_suffix(_COPY).unlink(missing_ok=True)


def run(word: str) -> int:
    """Answer a hook, such as `begin`. Return the exit code, which is always 0, so that no session is blocked."""
    given = _given()
    try:
        off = word in Settings.read(folder=_folder(given)).hooks_off
        answer = _EMPTY if off else _ANSWERS[word](given)
    except Exception as error:  # noqa: BLE001 - a failing hook must not stop a session
        sys.stderr.write(f"treering: {visible(str(error))}\n")
        answer = _EMPTY
    sys.stdout.write(f"{visible_json(json.dumps(answer))}\n")
    sys.stdout.flush()
    return 0


def start_work(folder: Path) -> None:
    """Start a silent background process that stores queued transcripts and records used answers. Raises `OSError`."""
    start_behind("session", "work", "--for", str(folder), niceness=_PATIENT, folder=folder)


def waiting_folder(settings: Settings) -> Path:
    """Return the folder of queued transcripts."""
    return settings.folder / settings.data_dir / "sessions"


def waiting_transcripts(settings: Settings) -> Iterator[WaitingTranscript]:
    """Yield the queued transcripts, oldest first, and delete incomplete files of killed processes."""
    for file in sorted(waiting_folder(settings).glob("*.json")):
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            record = json.loads(file.read_bytes()[:_MOST_BYTES])
            yield WaitingTranscript(file, Path(record["transcript"]), Path(record["folder"]), str(record["space"]))
    place = waiting_folder(settings)
    copies = (file for file in place.glob(f"*{_COPY}") if not file.with_suffix(".json").exists())
    for file in (*place.glob(f"*{_NEW}"), *copies):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _LEFT_SECONDS:
                file.unlink()


def unreadable_records(settings: Settings, readable: Iterable[WaitingTranscript]) -> list[Path]:
    """Return the unreadable records in the queue."""
    known = {one.record for one in readable}
    return [file for file in sorted(waiting_folder(settings).glob("*.json")) if file not in known and file.exists()]


def _begin(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer with the brief of the folder; a resumed session gets only the changes since its last brief."""
    if _is_subagent(given):
        return _EMPTY
    folder = _folder(given)
    settings = Settings.read(folder=folder)
    address = settings.space_address()
    if address.file is None:
        return _EMPTY if address.in_memory else _answer(given, _ELSEWHERE)
    space = folder / address.file
    if not space.is_file():
        return _EMPTY
    if any(waiting_transcripts(settings)):
        start_work(folder)
    from treering.extensions.coding_agents.shown_lines import ShownLines

    shown = ShownLines(space, _session(given))
    source = given.get("source")
    # A compacted or cleared session no longer contains the lines shown before. A new one of Copilot CLI may have lines
    # from the hooks for Claude Code.
    if shown.needs_brief or (source != _RESUMED and not (source == _NEW_SESSION and shown.keys)):
        shown.begin()
        resumed = ""
    else:
        resumed = "" if shown.keys else _since_compaction(given)
    with _opened(space, folder) as opened:
        return _answer(given, _brief(opened, shown, resumed))


def _since_compaction(given: Mapping[str, Any]) -> str:
    """Return the transcript of a session since its last compaction; empty if there is none.

    Claude Code may give a resumed session a new id, but its transcript contains the lines shown under the old one.
    """
    try:
        with open(given.get("transcript_path") or "", "rb") as file:  # noqa: PTH123 - `Path` raises for a long name
            file.seek(max(0, file.seek(0, os.SEEK_END) - _MOST_INPUT))
            return file.read().rpartition(_COMPACTED)[2].decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""


def _brief(space: "Space", shown: "ShownLines", resumed: str = "") -> str:
    """Return the lines of the brief that the session was not shown before; `resumed`: its transcript."""
    from treering.extensions.coding_agents.shown_lines import begin_with, no_longer_current
    from treering.verbs.query.brief import labeled

    report = space.query("brief")
    over = no_longer_current(space, shown.keys.difference(report.ids))
    warnings = [line for one in report.warnings if report.lines for line in labeled("Warning", one)]
    text = begin_with(shown, [*report.lines, *warnings], report.ids, over, resumed)
    return f"{text}\n\n{_MORE}" if text else ""


def _edit(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer with the rules for the files of an edit, and note the answers that named them as used.

    A subagent only gets the rules that its edit breaks.
    """
    from treering.extensions.coding_agents import edits, tool_calls
    from treering.extensions.coding_agents.before_edit import lines_about_broken_rules, lines_before_edit
    from treering.extensions.coding_agents.shown_lines import show_lines

    folder, space = _space_of(given)
    if space is None:
        return _EMPTY
    place = repository_at(folder)
    top = (place.top if place else None) or folder
    files = edits.file_edits(given, top)
    with suppress(OSError, TreeringError):  # the rules are shown anyway
        tool_calls.note_used(space, _session(given), [one.path for one in files], top)
    if not files:
        return _EMPTY
    lines_about = lines_about_broken_rules if _is_subagent(given) else lines_before_edit
    with _opened(space, folder) as opened:
        return _answer(given, show_lines(space, _session(given), lines_about(opened, files, top)))


def _prompt(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer a prompt with the rules, decisions, open work and places that a search finds.

    The first prompt after a compaction gets the brief too, if the client reported no new beginning.
    """
    from treering.extensions.coding_agents.pointers import pointers
    from treering.extensions.coding_agents.shown_lines import ShownLines, show_lines

    folder, space = _space_of(given)
    own, _ = without_recalled(without_surroundings(given.get("prompt", "")))
    if space is None or not own.strip() or _is_subagent(given):
        return _EMPTY
    shown, brief = ShownLines(space, _session(given)), ""
    with _opened(space, folder) as opened:
        if shown.needs_brief:
            shown.begin()
            brief = _brief(opened, shown)
        lines = show_lines(space, _session(given), pointers(opened, own))
    return _answer(given, "\n\n".join(text for text in (brief, lines) if text))


def _asked(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Note which session got the answer of a call of Treering, without an answer to the client."""
    from treering.extensions.coding_agents import tool_calls

    _, space = _space_of(given)
    if space:
        tool_calls.note_asking(space, _session(given), given)
    return _EMPTY


def _failure(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer with knowledge about the same failure, and decisions about its lines or protected by a failing test."""
    from treering.extensions.coding_agents import tool_calls

    failed = tool_calls.failure_of(given)
    folder, space = _space_of(given)
    if space and tool_calls.calls_us(given):
        with suppress(OSError):  # the knowledge is shown anyway
            tool_calls.note_asking(space, _session(given), given)
    if space is None or not failed or _is_subagent(given):
        return _EMPTY
    from treering.extensions.coding_agents.failures import lines_after_failure
    from treering.extensions.coding_agents.shown_lines import show_lines

    with _opened(space, folder) as opened:
        lines = lines_after_failure(opened, failed, tool_calls.output_of(given))
        return _answer(given, show_lines(space, _session(given), lines))


@contextmanager
def _opened(space: Path, folder: Path) -> "Iterator[Space]":
    """Open a space file to read it for a work tree."""
    from treering.surfaces.python.space import open_space

    with open_space(file_address(space), create=False, background=False) as opened:
        yield opened.asked_from(folder)


def _space_of(given: Mapping[str, Any]) -> tuple[Path, Path | None]:
    """Return the folder of a session and the file of its space; `None` without a space, or if it is on a server."""
    folder = _folder(given)
    file = Settings.read(folder=folder).space_address().file
    return folder, folder / file if file and (folder / file).is_file() else None


def _is_subagent(given: Mapping[str, Any]) -> bool:
    """Return whether a subagent made the call; it gets its context from its parent agent."""
    return bool(given.get("agent_id"))


def _is_copilot(given: Mapping[str, Any]) -> bool:
    """Return whether Copilot CLI made the call, which also runs the hooks for Claude Code in a repository.

    It passes a time. Other clients that do so, such as Gemini CLI, always pass a transcript too.
    """
    return "timestamp" in given and "transcript_path" not in given


def _session(given: Mapping[str, Any]) -> str:
    return given.get("session_id") or given.get("conversation_id") or ""


def _keep(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Queue a transcript, and start the process that stores it. Before a compaction, forget the lines shown."""
    if given.get("hook_event_name") in _COMPACTIONS and not _is_subagent(given):
        _forget_shown_lines(given)
    if messages := _messages(given):
        _take_on(None, _folder(given), messages)
        start_work(_folder(given))
        return _EMPTY
    place = given.get("transcript_path")
    if place and os.path.isfile(place):  # noqa: PTH113 - `Path` raises for a name that is too long
        folder, transcript = _folder(given), Path(place).absolute()
        try:
            _take_on(transcript, folder)
        except OSError:
            # It cannot be queued, so store it now.
            start_behind("session", "keep", "--now", str(transcript), niceness=_PATIENT, folder=folder)
            raise
        start_work(folder)
    return _EMPTY


def _forget_shown_lines(given: Mapping[str, Any]) -> None:
    """Forget the lines that a session was shown. Not every client reports the beginning of a compacted session."""
    from treering.extensions.coding_agents.shown_lines import ShownLines

    folder, space = _space_of(given)
    if space:
        shown = ShownLines(space, _session(given))
        (shown.begin if "begin" in Settings.read(folder=folder).hooks_off else shown.compact)()


def _messages(given: Mapping[str, Any]) -> bytes:
    """Return the messages of a client without transcript files, as one transcript, or b""."""
    messages, session = given.get("messages"), _session(given)
    if not session or not isinstance(messages, list):
        return b""
    lines = ({**one, "session_id": session} for one in messages if isinstance(one, dict))
    return "".join(f"{json.dumps(one)}\n" for one in lines).encode()


def _take_on(transcript: Path | None, folder: Path, copy: bytes = b"") -> None:
    """Queue a transcript; `None`: queue `copy`, which is stored with the record."""
    settings = Settings.read(folder=folder)
    address = settings.space_address()
    space = file_address(folder / address.file) if address.file else address
    place = waiting_folder(settings)
    make_folder(place)
    record = place / f"{time.time_ns():020}-{uuid4().hex[:8]}.json"
    if transcript is None:
        transcript = record.with_suffix(_COPY)
        write_new(transcript, copy)
    entry = {"transcript": str(transcript), "folder": str(folder), "space": str(space)}
    new = record.with_name(record.name + _NEW)
    write_new(new, json.dumps(entry).encode())
    new.replace(record)
    sync_folder(place)


def _answer(given: Mapping[str, Any], text: str) -> Mapping[str, Any]:
    """Return an answer in the format of the client; an empty text is no answer."""
    event = given.get("hook_event_name")
    if not text:
        return _EMPTY
    if event in _OF_CURSOR:
        return {"additional_context": text}
    if _is_copilot(given):
        return {"additionalContext": text}
    return {"hookSpecificOutput": {"hookEventName": event or "SessionStart", "additionalContext": text}}


_ANSWERS: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "begin": _begin,
    "keep": _keep,
    "edit": _edit,
    "prompt": _prompt,
    "failure": _failure,
    "asked": _asked,
}


def _given() -> Mapping[str, Any]:
    """Read the input of the client; empty if it is not a JSON object."""
    if sys.stdin.isatty():
        return {}
    try:
        return read_hook_input(sys.stdin.read(_MOST_INPUT))
    except (ValueError, OSError):  # it is not UTF-8, or stdin is closed
        return {}


def _folder(given: Mapping[str, Any]) -> Path:
    """Return the folder of a session: `cwd`, else the first open folder of the client."""
    roots = given.get("workspace_roots")
    named = [given.get("cwd"), *(roots if isinstance(roots, list) else ())]
    places = (one for one in named if isinstance(one, str))
    # `Path` raises for a name that is too long.
    return Path(next((one for one in places if os.path.isdir(one)), "")).absolute()  # noqa: PTH112
