"""The work behind the hooks of coding agents: transcripts are kept, and what a session begins with is made ready."""

import re
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from treering.core.canonical import PREFIXES
from treering.core.errors import InvalidInput, TreeringError
from treering.parts.coding_agents.ready_packs import ReadyPack, keep_pack, kept_folders, standing, state_of
from treering.parts.coding_agents.session_hooks import (
    WaitingTranscript,
    unreadable_records,
    waiting_folder,
    waiting_transcripts,
)
from treering.registry import PARTS
from treering.sources.repository.git import open_repository
from treering.surfaces.cli.printing import say, tell
from treering.surfaces.python.space import Space, open_space
from treering.system.address import Address, parse_address
from treering.system.machine import one_after_another
from treering.system.settings import Settings

if TYPE_CHECKING:
    from treering.parts.discussions.operations import RecordReport

_MOST_TRANSCRIPT = 512 * 1024 * 1024
_TOKENS = 800
_MOST_FILES = 20
_MAIN = ("", "main", "master")
_ACTOR = "coding agent"
_TRIES = 3
_FAILED = 1
_IDS = re.compile(rf"\b(?:{'|'.join(PREFIXES.values())}):[0-9a-z]{{26}}\b")


def keep_now(file: Path) -> None:
    """Keep a transcript in the space of the working folder."""
    _keep(file, Settings.read().space_address(None))


def work(folder: Path | None) -> None:
    """Keep the transcripts that hooks took on, then make ready what sessions begin with. Exits with 1 where one failed.

    `folder`: make it ready for this one too. What failed stays, and is tried again by the next run.
    """
    settings = Settings.read()
    folders, failed = [folder] if folder else [], False
    with one_after_another(waiting_folder(settings)) as is_ours:
        waiting = [*waiting_transcripts(settings)] if is_ours else []
        for file in unreadable_records(settings, waiting) if is_ours else ():
            tell(f"treering: {file} says which transcript to keep, and cannot be read. Remove it.")
            failed = True
        for several in _by_transcript(waiting):
            try:
                _keep(several[-1].transcript, _space_of(several[-1]))
            except FileNotFoundError as error:
                tell(f"treering: {error.filename} is gone, so it cannot be kept.")
            except (TreeringError, OSError) as error:
                tell(f"treering: {several[-1].transcript}: {error}")
                failed = True
                continue
            for one in several:
                one.record.unlink(missing_ok=True)
            folders.append(several[-1].folder)
    for place in dict.fromkeys(folders):
        with suppress(TreeringError, OSError):  # the next session begins without, and makes it anew
            _make_ready_in(place)
    if failed:
        raise typer.Exit(_FAILED)


def make_ready(space: Space, folder: Path) -> None:
    """Keep ready what the next session in a folder begins with. Raises `OSError`, `TreeringError`."""
    file = space.address.file
    if file is None:
        return  # what another person erases on a server has to be gone here too, and nobody here would know
    for _ in range(_TRIES):
        head = standing(file).head
        report = space.query("context", input={"task": _task(folder)}, options={"max_tokens": _TOKENS})
        text = "" if report.empty else report.text
        now = standing(file, {*_IDS.findall(text)})
        if now.head == head:  # else it was written meanwhile, and the text may be of before or after
            keep_pack(
                file, folder, ReadyPack(str(folder), state_of(folder), time.time(), now.head, now.revisions, text)
            )
            return


def make_ready_again(space: Space) -> None:
    """Make ready anew what was ready before the space was written, for each of its folders."""
    file = space.address.file
    for folder in kept_folders(file) if file else ():
        with suppress(TreeringError, OSError):
            make_ready(space, folder)


def _by_transcript(waiting: Iterable[WaitingTranscript]) -> Iterator[list[WaitingTranscript]]:
    """Give what waits, each transcript once however often a hook took it on."""
    ordered = sorted(waiting, key=lambda one: (str(one.transcript), one.space, one.record))
    for _, several in groupby(ordered, key=lambda one: (one.transcript, one.space)):
        yield [*several]


def _space_of(waiting: WaitingTranscript) -> Address:
    """Return the space that a transcript belongs to. Raises `InvalidInput` where it is on a server named elsewhere."""
    here = Settings.read(folder=waiting.folder)
    address = here.space_address()
    if str(address) == waiting.space:
        return address
    named = parse_address(waiting.space, named=here.data_dir)
    if not named.is_file:
        raise InvalidInput(
            f"It belongs to {named}, which this environment does not name.",
            hint="Set TREERING_SPACE as where the session was, and run `treering session work`.",
        )
    return named


def _make_ready_in(folder: Path) -> None:
    address = Settings.read(folder=folder).space_address()
    if address.file is not None and (folder / address.file).is_file():
        with open_space(address, create=False, background=False) as space:
            make_ready(space, folder)


def _keep(file: Path, address: Address) -> None:
    """Record what is new in a transcript, make the memories that are due, and propose what was decided, by rules."""
    if "discussions" not in PARTS:
        raise InvalidInput("Transcripts are kept as discussions, and there is no part 'discussions'.")
    # Imported here: who only makes a pack ready has no use for it.
    from treering.parts.discussions.operations import recording
    from treering.parts.discussions.settings import MakingPlan
    from treering.sources.conversations.exports import read_conversations
    from treering.surfaces.cli.flags import WriteFlags
    from treering.surfaces.cli.session import embed_later, opened

    if file.stat().st_size > _MOST_TRANSCRIPT:
        raise InvalidInput(f"{file.name} is larger than {_MOST_TRANSCRIPT:,} bytes.", hint="Keep it in parts.")
    found = read_conversations(file.read_bytes(), file.name)
    writing = WriteFlags(actor=_ACTOR, as_agent=True)
    with opened(address, writing, create=True) as space:
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
