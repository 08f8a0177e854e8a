"""Implementation of `treering discussion`."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from treering.core.counting import counted_things
from treering.core.errors import InvalidInput
from treering.extensions.discussions import folder as discussion_files
from treering.extensions.discussions.conversation_file import read_conversation, read_text
from treering.extensions.discussions.files import MEMORIES, MESSAGES, SUMMARY
from treering.extensions.discussions.folder import ImportReport
from treering.extensions.discussions.generators.generator import MakingPlan
from treering.extensions.discussions.identity import discussion_ref
from treering.extensions.discussions.making import MakingReport
from treering.extensions.discussions.operations import (
    DELETE,
    EDIT,
    ERASE,
    LIST,
    RECORD,
    SEARCH,
    SHOW,
    STATE,
    recording,
    updating,
)
from treering.extensions.discussions.rendering import (
    render_deleted,
    render_discussions,
    render_found,
    render_imported,
    render_imported_file,
    render_made,
    render_notes,
    render_proposed,
    render_recorded,
    render_shown,
)
from treering.extensions.discussions.restoring import Imported
from treering.registry import brought
from treering.surfaces.cli.flags import Access, MakingFlags, WriteFlags
from treering.surfaces.cli.printing import IndentedLine, line, say_document
from treering.surfaces.cli.rendering import render_days, render_warnings
from treering.surfaces.cli.session import answer, confirm_destroying, embed_later, is_piped, opened, watched
from treering.system.settings import Settings

if TYPE_CHECKING:
    from treering.extensions.discussions.commands import SearchFlags, TranscriptFlags

_FAILED = 1
_TABLES = {MESSAGES: "message", MEMORIES: "memory", SUMMARY: "version of the summary"}


def list_all(within: str, access: Access) -> None:
    """List the discussions below a scope."""
    with opened(access) as space:
        listed = space.perform(LIST, within).discussions
    counts = {one.id: one.messages for one in listed}
    answer(access, {"within": within, "discussions": listed}, render_discussions(counts, within))


def record(flags: "TranscriptFlags", making: MakingFlags, access: Access, writing: WriteFlags) -> None:
    """Store the messages of a file. Exits with 1 if memories failed."""
    ref = discussion_ref(flags.identity, within=flags.within)
    conversation, notes = read_conversation(flags.file, flags.conversation)
    source = {"id": ref.id, "messages": conversation.messages}
    update = not flags.no_update
    operation = recording(plan_by(making)) if update else RECORD
    with opened(access, writing, create=RECORD.makes_space) as space:
        options = {"update": update, "propose": flags.propose, "again": flags.again}
        with watched(space) as busy:
            report = busy.perform(operation, flags.within, source, options)
        lines = [*render_recorded(report.id, report.recorded), *render_proposed(report.proposed)]
        lines += [*(render_made(report.made) if report.made else ()), *render_notes(notes)]
        answer(access, {**dict(report), "notes": notes}, lines)
        embed_later(space, writing)
    _exit_if_failed(report.made)


def update(identity: str, within: str, wait: float, making: MakingFlags, access: Access, writing: WriteFlags) -> None:
    """Make the memories that are due. Exits with 1 if some failed."""
    operation = updating(plan_by(making))
    with opened(access, writing) as space:
        with watched(space) as busy:
            report = busy.perform(operation, within, {"id": identity}, {"wait_seconds": wait})
        answer(access, report, render_made(report.made))
        embed_later(space, writing)
    _exit_if_failed(report.made)


def show(identity: str, within: str, access: Access, *, memories: int, messages: int) -> None:
    """Show the memories and latest messages of a discussion."""
    with opened(access) as space:
        shown = space.perform(SHOW, within, {"id": identity}, {"memories": memories, "messages": messages})
    titled = {"Summary": shown.summary, "State": shown.state}
    lines = [
        line((shown.id, "bold"), f"  {counted_things(shown.count, 'message')}"),
        line(""),
        *render_shown(shown.id, titled, shown.memories, shown.messages, fenced=is_piped()),
    ]
    answer(access, shown, lines)


def search(flags: "SearchFlags", access: Access) -> None:
    """Search one discussion, given by the first word, or all of them."""
    words = flags.words
    query = " ".join(words if flags.every else words[1:])
    if not query.strip():
        raise InvalidInput("The query to search for is empty.", hint="Run: treering discussion search ID QUERY.")
    request, options = {"query": query, "id": None if flags.every else words[0]}, _options(flags)
    with opened(access) as space:
        report = space.perform(SEARCH, flags.within, request, options)
    found = [{"discussion": one.discussion, **asdict(one.found), "lines": one.lines} for one in report.found]
    understood = {"understood": report.understood} if report.understood else {}
    data = {"query": query, "found": found, "warnings": report.warnings, **understood}
    lines = render_found(report.found, query, fenced=is_piped())
    answer(access, data, chain(lines, render_days(report.understood), render_warnings(report.warnings)))


def print_state(identity: str, within: str, access: Access) -> None:
    """Print the state document as a file to edit."""
    with opened(access) as space:
        shown = space.perform(STATE, within, {"id": identity})
    if access.as_json:
        answer(access, {"id": shown.id, "state": shown.state}, ())
    else:
        say_document(shown.file)


def edit_state(identity: str, within: str, file: Path, access: Access, writing: WriteFlags) -> None:
    """Store a person's edit of the state document."""
    text = read_text(file)
    with opened(access, writing) as space:
        report = space.perform(EDIT, within, {"id": identity, "text": text})
        message = f"Saved as version {report.version.number}." if report.changed else "Nothing was changed."
        answer(access, report, [line(message)])
        embed_later(space, writing)


def export(identity: str, within: str, folder: Path, form: str, access: Access) -> None:
    """Write a discussion as plain files."""
    with opened(access) as space:
        report = space.perform(discussion_files.EXPORT, within, {"id": identity, "path": folder}, {"form": form})
    listed = ", ".join(counted_things(count, _what(name)) for name, count in report.counts.items() if _what(name))
    answer(access, report, [line(f"Exported to {folder}: {listed or 'no memories yet'}.")])


def import_from(identity: str, within: str, path: Path, access: Access, writing: WriteFlags) -> None:
    """Import an exported folder, or a file of WilmerAI."""
    ref = discussion_ref(identity, within=within)
    path.stat()  # a missing path must not create a space
    with opened(access, writing, create=discussion_files.IMPORT.makes_space) as space:
        report = space.perform(discussion_files.IMPORT, within, {"id": ref.id, "path": path})
        answer(access, {"id": report.id, "report": report.report}, _imported(str(path), report))
        embed_later(space, writing)


def delete(
    identity: str,
    within: str,
    positions: Sequence[int],
    access: Access,
    writing: WriteFlags,
    *,
    erase: bool,
    sure: bool,
) -> None:
    """Delete messages; before erasing, ask. Exits with 1 if a probe still finds erased text."""
    operation = ERASE if erase else DELETE
    with opened(access, writing) as space:
        if erase:  # do not ask about a discussion that does not exist
            space.perform(SHOW, within, {"id": identity}, {"memories": 0, "messages": 0})
        confirm_destroying(operation, counted_things(len(set(positions)), "message"), sure=sure)
        report = space.perform(operation, within, {"id": identity, "positions": tuple(positions)})
        answer(access, report, render_deleted(report.report))
        embed_later(space, writing)
    if report.report.receipt and not report.report.receipt.clean:
        raise typer.Exit(_FAILED)


def _what(name: str) -> str:
    """Return the name of the lines of a file, with or without the discussion's id before its name."""
    return next((what for ending, what in _TABLES.items() if name == ending or name.endswith(f"_{ending}")), "")


def _exit_if_failed(made: MakingReport | None) -> None:
    if made and made.failed:
        raise typer.Exit(_FAILED)


def _imported(path: str, report: ImportReport) -> Iterator[IndentedLine]:
    if isinstance(report.report, Imported):
        return render_imported(path, report.report, held=report.held)
    return render_imported_file(path, report.report)


def _options(flags: "SearchFlags") -> Mapping[str, object]:
    since, until = Settings.read().time_zone.window(flags.since, flags.until)
    named = {"what": flags.what, "mode": flags.mode, "limit": flags.limit, "date": flags.date}
    return {**named, "since": since, "until": until}


def plan_by(flags: MakingFlags) -> MakingPlan:
    """Return the plan for making memories by options of the command line; by rules if there are none.

    Raises `InvalidInput` if they name models or workflows and the part `workflows` is missing.
    """
    for plan_of in brought("memory_plan"):
        return cast("MakingPlan", plan_of(flags))
    if flags != MakingFlags():
        raise InvalidInput(
            "Models and workflows need the part `workflows`.", hint="Omit these options; rules then make the memories."
        )
    return MakingPlan()
