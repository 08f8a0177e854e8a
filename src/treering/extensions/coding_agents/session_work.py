"""Store the transcripts that hooks queued, and record which answers were used."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from pydantic import JsonValue

from treering.core.errors import InvalidInput, TreeringError
from treering.extensions.coding_agents.session_hooks import (
    WaitingTranscript,
    unreadable_records,
    waiting_folder,
    waiting_transcripts,
)
from treering.extensions.coding_agents.tool_calls import record_used
from treering.facades import LazyModule
from treering.registry import extensions
from treering.surfaces.cli.flags import WriteFlags
from treering.surfaces.cli.printing import say, tell
from treering.surfaces.cli.session import embed_later, opened
from treering.surfaces.python.space import Space, open_space
from treering.system.address import Address, parse_address
from treering.system.machine import one_after_another
from treering.system.repository_place import repository_at
from treering.system.settings import Settings
from treering.verbs.query.authorship import AGENT_OF
from treering.verbs.query.unconfirmed import all_unconfirmed, waiting_in_words

if TYPE_CHECKING:
    from treering.extensions.discussions.operations import RecordReport
    from treering.surfaces.cli import history
else:
    history = LazyModule("treering.surfaces.cli.history")


_MOST_TRANSCRIPT = 512 * 1024 * 1024
_FACTS = ("folder", "branch", "session")
"""Metadata of a transcript that is stored with the discussion."""
_FAILED = 1


def keep_now(file: Path) -> None:
    """Store a transcript in the space of the working folder."""
    settings = Settings.read()
    _keep(file, settings.space_address(None), settings.folder.absolute())


def work(folder: Path | None) -> None:
    """Store queued transcripts, then record used answers. Exits with 1 if a transcript failed; the next run retries it.

    `folder`: a further folder whose used answers are recorded.
    """
    settings = Settings.read()
    folders, failed = [folder] if folder else [], False
    with one_after_another(waiting_folder(settings)) as is_ours:
        waiting = [*waiting_transcripts(settings)] if is_ours else []
        for file in unreadable_records(settings, waiting) if is_ours else ():
            tell(f"treering: {file} names a transcript to save, but cannot be read. Delete it.")
            failed = True
        for several in _by_transcript(waiting):
            try:
                _keep(several[-1].transcript, _space_of(several[-1]), several[-1].folder)
            except FileNotFoundError as error:
                tell(f"treering: {error.filename} was deleted, so it cannot be saved.")
            except (TreeringError, OSError) as error:
                tell(f"treering: {several[-1].transcript}: {error}")
                failed = True
                continue
            for one in several:
                one.forget()
            folders.append(several[-1].folder)
    for place in dict.fromkeys(folders):
        with suppress(TreeringError, OSError):  # the next run tries again
            _record_used_in(place)
    if failed:
        raise typer.Exit(_FAILED)


def _by_transcript(waiting: Iterable[WaitingTranscript]) -> Iterator[list[WaitingTranscript]]:
    """Group the queue by transcript."""
    ordered = sorted(waiting, key=lambda one: (str(one.transcript), one.space, one.record))
    for _, several in groupby(ordered, key=lambda one: (one.transcript, one.space)):
        yield [*several]


def _space_of(waiting: WaitingTranscript) -> Address:
    """Return the space of a transcript. Raises `InvalidInput` if it is on a server that is not configured here."""
    here = Settings.read(folder=waiting.folder)
    address = here.space_address()
    if str(address) == waiting.space:
        return address
    named = parse_address(waiting.space, named=here.data_dir)
    if not named.is_file:
        raise InvalidInput(
            f"It belongs to {named}, which is not the space of this environment.",
            hint="Set TREERING_SPACE as it was in the session, and run `treering session work`.",
        )
    return named


def _record_used_in(folder: Path) -> None:
    address = Settings.read(folder=folder).space_address()
    if address.file is not None and (folder / address.file).is_file():
        with open_space(address, create=False, background=False) as space:
            record_used(space)


def _keep(file: Path, address: Address, folder: Path) -> None:
    """Store the new messages of a transcript, generate due memories, and propose decisions, by rules.

    `folder`: the folder of the session, if the transcript does not contain it.
    """
    if "discussions" not in {extension.name for extension in extensions()}:
        raise InvalidInput("Transcripts are stored as discussions, but the part 'discussions' is missing.")
    # Imported here, because connecting a client does not need it.
    from treering.extensions.conversations.exports import read_conversations
    from treering.extensions.discussions.generators.generator import MakingPlan
    from treering.extensions.discussions.operations import recording

    if file.stat().st_size > _MOST_TRANSCRIPT:
        raise InvalidInput(f"{file.name} is larger than {_MOST_TRANSCRIPT:,} bytes.", hint="Store it in parts.")
    transcript = read_conversations(file.read_bytes(), file.name)
    writing = WriteFlags(actor=f"{AGENT_OF}{Settings.read().actor}", as_agent=True)
    with opened(address, writing, create=True) as space:
        for one in transcript.conversations:
            if one.messages:
                facts = _place_of(folder) | {name: one.metadata[name] for name in _FACTS if name in one.metadata}
                given = {"id": one.id or file.stem, "messages": one.messages, "metadata": facts}
                report = space.perform(recording(MakingPlan()), input=given, options={"update": True, "propose": True})
                say(_kept(space, report, len(one.messages)))
        embed_later(space, writing)
    for problem in transcript.problems:
        tell(f"treering: {problem}")


def _place_of(folder: Path) -> dict[str, JsonValue]:
    place = repository_at(folder)
    branch = place.head()[0] if place else ""
    return {"folder": str(folder), **({"branch": branch} if branch else {})}


def _kept(space: Space, report: "RecordReport", messages: int) -> str:
    waiting = waiting_in_words(all_unconfirmed(space.engine.ledger)) if report.proposed else ""
    parts = [f"{report.id}: {messages} messages", waiting, report.recorded.left_out_reason()]
    return "; ".join(filter(None, parts))
