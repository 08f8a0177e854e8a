"""What the hooks of coding agents call: they answer at once with a pack kept ready, and leave the work to a process."""

import json
import os
import signal
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
from treering.parts.coding_agents.client_input import read_hook_input
from treering.parts.coding_agents.ready_pack import pack_of, state_of
from treering.stores.sqlite.ready import standing
from treering.system.address import file_address
from treering.system.machine import make_folder, start_behind, sync_folder, write_new
from treering.system.repository_place import GitPlace, repository_at
from treering.system.settings import Settings

if TYPE_CHECKING:
    from treering.parts.coding_agents.hook_memory import HookTable


_MOST_INPUT = 8_000_000  # OpenCode tells what was said in a whole session
_MOST_BYTES = 100_000
_EMPTY: Mapping[str, Any] = {}
_OF_CURSOR = ("sessionStart", "postToolUse")
_MOST_ASKED = 20_000
_MAX_SEARCH_SECONDS = 1.0
"""Three times what the search for a prompt takes on an idle machine."""
_ELSEWHERE = "Treering: the memory of this folder is on a server. The tool wiki.query tells it, in the mode brief."
_COMPACTED = "compact"
_NEW = ".new"
_COPY = ".jsonl"
_PATIENT = 10
"""As `nice` counts: whoever sits at the machine goes first, and the next session waits for this before vectors."""
_LEFT_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class WaitingTranscript:
    """A transcript that a hook took on, and that is still to be kept."""

    record: Path
    """Where that is written down. Removing it says that it is done."""
    transcript: Path
    folder: Path
    """Where the session was at work."""
    space: str
    """The address of its space, without a password."""

    def forget(self) -> None:
        """Remove the record, and the transcript where that is a copy made for it."""
        self.record.unlink(missing_ok=True)
        self.record.with_suffix(_COPY).unlink(missing_ok=True)


def run(word: str, *, loaded: bool = False) -> int:
    """Answer a hook, such as `begin`. Return the exit code, always 0: no session is kept from going on.

    `loaded`: this is the resident process, which has time to search.
    """
    given = _given()
    answer = _search if loaded and word == "prompt" else _ANSWERS[word]
    try:
        off = word in Settings.read(folder=_folder(given)).hooks_off
        told = _EMPTY if off else answer(given)
    except (TreeringError, OSError) as error:
        sys.stderr.write(f"treering: {visible(str(error))}\n")
        told = _EMPTY
    sys.stdout.write(f"{visible_json(json.dumps(told))}\n")
    sys.stdout.flush()
    return 0


def start_work(folder: Path) -> None:
    """Start a process that does what waits and makes ready what the next session in a folder begins with.

    It outlives this one, and says nothing. Raises `OSError`.
    """
    start_behind("session", "work", "--for", str(folder), niceness=_PATIENT, folder=folder)


def waiting_folder(settings: Settings) -> Path:
    """Return the folder of the transcripts that wait."""
    return settings.folder / settings.data_dir / "sessions"


def waiting_transcripts(settings: Settings) -> Iterator[WaitingTranscript]:
    """Give the transcripts that wait, in the order in which hooks took them on.

    What a process that was killed left half-written was never taken on, and is removed.
    """
    for file in sorted(waiting_folder(settings).glob("*.json")):
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            told = json.loads(file.read_bytes()[:_MOST_BYTES])
            places = Path(told["transcript"]), Path(told["folder"])
            yield WaitingTranscript(file, *places, str(told["space"]))
    place = waiting_folder(settings)
    copies = (file for file in place.glob(f"*{_COPY}") if not file.with_suffix(".json").exists())
    for file in (*place.glob(f"*{_NEW}"), *copies):
        with suppress(OSError):
            if time.time() - file.stat().st_mtime > _LEFT_SECONDS:
                file.unlink()


def unreadable_records(settings: Settings, readable: Iterable[WaitingTranscript]) -> list[Path]:
    """Return the files among the records of waiting transcripts that are not records."""
    known = {one.record for one in readable}
    return [file for file in sorted(waiting_folder(settings).glob("*.json")) if file not in known and file.exists()]


def _begin(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer with the brief of the folder: the one kept ready, or a new one if something in it changed since.

    A session that goes on gets what changed since it was shown the brief, or nothing; an agent of an agent nothing.
    """
    from treering.parts.coding_agents.brief_changes import GOES_ON, changes_of_brief, line_keys
    from treering.parts.coding_agents.hook_memory import ShownThings

    if given.get("agent_id"):
        return _EMPTY
    folder = _folder(given)
    settings = Settings.read(folder=folder)
    address = settings.space_address()
    if address.file is None:
        return _EMPTY if address.in_memory else _answer(given, _ELSEWHERE)
    space = folder / address.file
    if not space.is_file():
        return _EMPTY
    pack, state = pack_of(space, folder), state_of(folder)
    now = standing(space, pack.revisions if pack else ())
    if pack is None or not pack.is_fresh(now, state) or any(waiting_transcripts(settings)):
        start_work(folder)
    shown = ShownThings(space, _session(given))
    goes_on = given.get("source") in GOES_ON and bool(shown.ids)
    if pack is None or not pack.holds(now) or (goes_on and not pack.is_fresh(now, state)):
        # Imported here: it loads the whole program, which takes most of a second.
        from treering.parts.coding_agents.made_brief import made_now

        pack = made_now(space, folder)
        if pack is None:
            return _EMPTY
        now = standing(space, pack.revisions)
    lines = pack.text.splitlines()
    changes, over = changes_of_brief(lines, pack.revisions, shown.ids, space) if goes_on else ("", set())
    # Pointers and the like are gone from a compacted session, and all from one that was cleared.
    before = shown.ids - over if goes_on and given.get("source") != _COMPACTED else ()
    shown.begin({*before, *pack.revisions, *line_keys(lines)})
    if goes_on:
        return _told(given, changes)
    return _answer(given, pack.shown(now, state)) if pack.text else _EMPTY


def _edit(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer with what governs the files that are about to be edited, and what usually changes with them.

    Where an answer named one of them lately, that is noted: it was used.
    """
    from treering.parts.coding_agents import hook_memory, tool_calls

    folder, space = _space_of(given)
    table, place = _table_of(folder, space)
    if space is None or table is None:
        return _EMPTY
    top = (place.top if place else None) or folder
    paths = tool_calls.edited_paths(given, top)
    with suppress(OSError, TreeringError):  # what governs the file is told all the same
        tool_calls.note_used(space, _session(given), paths, top)
    entries, more = hook_memory.governing(table, paths), hook_memory.changed_with(table, paths)
    return _told(given, hook_memory.told(space, _session(given), entries, more, tokens=hook_memory.EDIT_TOKENS))


def _search(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer a prompt with the rules, decisions, open work and places that a search finds, if it finds them in time."""
    from treering.parts.coding_agents.pointers import prompt_pointers

    folder, space = _space_of(given)
    if space is None:
        return _EMPTY
    own, _ = without_recalled(without_surroundings(given.get("prompt", "")))
    with _at_most(_MAX_SEARCH_SECONDS):
        return _told(given, prompt_pointers(space, folder, _session(given), own))


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """End the process with an empty answer if a search takes longer: nobody waits for a hint."""

    def stop(_number: int, _frame: object) -> None:
        sys.stdout.write("{}\n")
        sys.stdout.flush()
        raise SystemExit(0)

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _prompt(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer with the entries of the table that match a prompt by their words; for a process without the search."""
    from treering.parts.coding_agents import hook_memory

    folder, space = _space_of(given)
    table, _ = _table_of(folder, space)
    if space is None or table is None:
        return _EMPTY
    own, _ = without_recalled(without_surroundings(given.get("prompt", "")))
    entries = hook_memory.speaking_of(table, own[:_MOST_ASKED])
    return _told(given, hook_memory.told(space, _session(given), entries, tokens=hook_memory.PROMPT_TOKENS))


def _asked(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Note which session got the answer of a call of our tools, and tell nothing."""
    from treering.parts.coding_agents import tool_calls

    _, space = _space_of(given)
    if space:
        tool_calls.note_asking(space, _session(given), given)
    return _EMPTY


def _failure(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Answer with what was learned from the same failure of a test or a command; one of ours may have asked."""
    from treering.parts.coding_agents import hook_memory, tool_calls

    failed = tool_calls.failure_of(given)
    folder, space = _space_of(given)
    if space and tool_calls.calls_us(given):
        with suppress(OSError):  # what was learned is told all the same
            tool_calls.note_asking(space, _session(given), given)
    table, _ = _table_of(folder, space if failed else None)
    if space is None or table is None:
        return _EMPTY
    entries = hook_memory.learned_of(table, failed)
    return _told(given, hook_memory.told(space, _session(given), entries, tokens=hook_memory.FAILURE_TOKENS))


def _space_of(given: Mapping[str, Any]) -> tuple[Path, Path | None]:
    """Return where a session is at work, and the file of its space; `None` where it has none, or one on a server."""
    folder = _folder(given)
    file = Settings.read(folder=folder).space_address().file
    return folder, folder / file if file and (folder / file).is_file() else None


def _table_of(folder: Path, space: Path | None) -> "tuple[HookTable | None, GitPlace | None]":
    """Return what hooks may tell in a folder, of its branch where it is a work tree, and the repository it lies in."""
    from treering.parts.coding_agents import hook_memory

    table = hook_memory.read_table(space) if space else None
    if space and table and hook_memory.claim_renewal(space, table):
        start_work(folder)  # what was recorded since is told from the next call on
    place = repository_at(folder) if table else None
    if table is None or place is None:
        return table, place
    branch, commit = place.head()
    return table.on(str(place.common), branch or place.detached, commit), place


def _session(given: Mapping[str, Any]) -> str:
    return given.get("session_id") or given.get("conversation_id") or ""


def _told(given: Mapping[str, Any], text: str) -> Mapping[str, Any]:
    return _answer(given, text) if text else _EMPTY


def _keep(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """Write down that a transcript is to be kept, and start what does it."""
    if said := _messages(given):
        _take_on(None, _folder(given), said)
        start_work(_folder(given))
        return _EMPTY
    place = given.get("transcript_path")
    if place and os.path.isfile(place):  # noqa: PTH113 - `Path` raises for a name that is too long
        folder, transcript = _folder(given), Path(place).absolute()
        try:
            _take_on(transcript, folder)
        except OSError:
            # It could not be written down: it is done now.
            start_behind("session", "keep", "--now", str(transcript), niceness=_PATIENT, folder=folder)
            raise
        start_work(folder)
    return _EMPTY


def _messages(given: Mapping[str, Any]) -> bytes:
    """Return the messages that a client tells which keeps no transcript, as one; empty where it tells none."""
    said, session = given.get("messages"), _session(given)
    lines = [{**one, "session_id": session} for one in said if isinstance(one, dict)] if isinstance(said, list) else []
    return "".join(f"{json.dumps(one)}\n" for one in lines).encode() if session else b""


def _take_on(transcript: Path | None, folder: Path, copy: bytes = b"") -> None:
    """Write down that a transcript is to be kept; `None`: the copy, which is written down with it."""
    settings = Settings.read(folder=folder)
    address = settings.space_address()
    space = file_address(folder / address.file) if address.file else address
    place = waiting_folder(settings)
    make_folder(place)
    record = place / f"{time.time_ns():020}-{uuid4().hex[:8]}.json"
    if transcript is None:
        transcript = record.with_suffix(_COPY)
        write_new(transcript, copy)
    told = {"transcript": str(transcript), "folder": str(folder), "space": str(space)}
    new = record.with_name(record.name + _NEW)
    write_new(new, json.dumps(told).encode())
    new.replace(record)
    sync_folder(place)


def _answer(given: Mapping[str, Any], told: str) -> Mapping[str, Any]:
    """Write what is known as the client reads it."""
    event = given.get("hook_event_name")
    if event in _OF_CURSOR:
        return {"additional_context": told}
    return {"hookSpecificOutput": {"hookEventName": event or "SessionStart", "additionalContext": told}}


_ANSWERS: Mapping[str, Callable[[Mapping[str, Any]], Mapping[str, Any]]] = {
    "begin": _begin,
    "keep": _keep,
    "edit": _edit,
    "prompt": _prompt,
    "failure": _failure,
    "asked": _asked,
}


def _given() -> Mapping[str, Any]:
    """Read what a client says; nothing where that is not a JSON object."""
    if sys.stdin.isatty():
        return {}
    try:
        return read_hook_input(sys.stdin.read(_MOST_INPUT))
    except (ValueError, OSError):  # it is not UTF-8, or stdin is closed
        return {}


def _folder(given: Mapping[str, Any]) -> Path:
    """Return where a session is at work: `cwd`; where a client names its open folders instead, the first of them."""
    roots = given.get("workspace_roots")
    named = [given.get("cwd"), *(roots if isinstance(roots, list) else ())]
    places = (one for one in named if isinstance(one, str))
    # `Path` raises for a name that is too long.
    return Path(next((one for one in places if os.path.isdir(one)), "")).absolute()  # noqa: PTH112
