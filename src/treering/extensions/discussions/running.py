"""What `treering discussion` does."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, cast

import typer

from treering.core.characters import visible_line
from treering.core.counting import counted_things
from treering.core.errors import InvalidInput, NotFound
from treering.extensions.conversations.conversation import Conversation, Conversations
from treering.extensions.conversations.exports import may_be_read, read_conversations
from treering.extensions.discussions import folder as discussion_files
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
from treering.surfaces.cli.request import read_stdin
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


def record(told: "TranscriptFlags", making: MakingFlags, access: Access, writing: WriteFlags) -> None:
    """Keep the messages of a file. Exits with 1 where memories failed."""
    ref = discussion_ref(told.identity, within=told.within)
    conversation, notes = read_conversation(told.file, told.conversation)
    given = {"id": ref.id, "messages": conversation.messages}
    update = not told.no_update
    operation = recording(plan_by(making)) if update else RECORD
    with opened(access, writing, create=RECORD.makes_space) as space:
        options = {"update": update, "propose": told.propose, "again": told.again}
        with watched(space) as busy:
            report = busy.perform(operation, told.within, given, options)
        made = report.made
        data = {**dict(report), "notes": notes}
        recorded = [*render_recorded(report.id, report.recorded), *render_proposed(report.proposed)]
        answer(access, data, [*recorded, *(render_made(made) if made else ()), *render_notes(notes)])
        embed_later(space, writing)
    _leave(made)


def update(identity: str, within: str, wait: float, making: MakingFlags, access: Access, writing: WriteFlags) -> None:
    """Make the memories that are due. Exits with 1 where some failed."""
    operation = updating(plan_by(making))
    with opened(access, writing) as space:
        with watched(space) as busy:
            report = busy.perform(operation, within, {"id": identity}, {"wait_seconds": wait})
        answer(access, report, render_made(report.made))
        embed_later(space, writing)
    _leave(report.made)


def show(identity: str, within: str, access: Access, *, memories: int, messages: int) -> None:
    """Show what is remembered of a discussion."""
    with opened(access) as space:
        shown = space.perform(SHOW, within, {"id": identity}, {"memories": memories, "messages": messages})
    titled = {"Summary": shown.summary, "State": shown.state}
    lines = [
        line((shown.id, "bold"), f"  {counted_things(shown.count, 'message')}"),
        line(""),
        *render_shown(shown.id, titled, shown.memories, shown.messages, fenced=is_piped()),
    ]
    answer(access, shown, lines)


def search(looking: "SearchFlags", access: Access) -> None:
    """Search one discussion, named by the first word, or all of them."""
    words = looking.words
    query = " ".join(words if looking.every else words[1:])
    if not query.strip():
        raise InvalidInput("The query to search for is empty.", hint="Run: treering discussion search ID QUERY.")
    given, options = {"query": query, "id": None if looking.every else words[0]}, _options(looking)
    with opened(access) as space:
        report = space.perform(SEARCH, looking.within, given, options)
    found = [{"discussion": one.discussion, **asdict(one.found), "lines": one.lines} for one in report.found]
    understood = {"understood": report.understood} if report.understood else {}
    data = {"query": query, "found": found, "warnings": report.warnings, **understood}
    shown = render_found(report.found, query, fenced=is_piped())
    lines = (shown, render_days(report.understood), render_warnings(report.warnings))
    answer(access, data, chain(*lines))


def print_state(identity: str, within: str, access: Access) -> None:
    """Print the state document as the file that an edit is made of."""
    with opened(access) as space:
        shown = space.perform(STATE, within, {"id": identity})
    if access.as_json:
        answer(access, {"id": shown.id, "state": shown.state}, ())
    else:
        say_document(shown.file)


def edit_state(identity: str, within: str, file: Path, access: Access, writing: WriteFlags) -> None:
    """Keep a person's edit of the state document."""
    text = _text_of(file)
    with opened(access, writing) as space:
        report = space.perform(EDIT, within, {"id": identity, "text": text})
        said = f"Saved as version {report.version.number}." if report.changed else "Nothing was changed."
        answer(access, report, [line(said)])
        embed_later(space, writing)


def export(identity: str, within: str, folder: Path, form: str, access: Access) -> None:
    """Write a discussion as plain files."""
    with opened(access) as space:
        report = space.perform(discussion_files.EXPORT, within, {"id": identity, "path": folder}, {"form": form})
    listed = ", ".join(counted_things(count, _what(name)) for name, count in report.counts.items() if _what(name))
    answer(access, report, [line(f"Exported to {folder}: {listed or 'no memories yet'}.")])


def import_from(identity: str, within: str, path: Path, access: Access, writing: WriteFlags) -> None:
    """Read a folder that an export wrote, or a file of WilmerAI."""
    ref = discussion_ref(identity, within=within)
    path.stat()  # where there is nothing, no space is made for it
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
    """Delete messages; for erasing, after asking. Exits with 1 where a probe still finds something."""
    operation = ERASE if erase else DELETE
    with opened(access, writing) as space:
        if erase:  # nobody is asked about a discussion that does not exist
            space.perform(SHOW, within, {"id": identity}, {"memories": 0, "messages": 0})
        confirm_destroying(operation, counted_things(len(set(positions)), "message"), sure=sure)
        report = space.perform(operation, within, {"id": identity, "positions": tuple(positions)})
        answer(access, report, render_deleted(report.report))
        embed_later(space, writing)
    if report.report.receipt and not report.report.receipt.clean:
        raise typer.Exit(_FAILED)


def _what(name: str) -> str:
    """Say what a line of a file is, with or without the discussion's id before its name."""
    return next((what for ending, what in _TABLES.items() if name == ending or name.endswith(f"_{ending}")), "")


def _leave(made: MakingReport | None) -> None:
    if made and made.failed:
        raise typer.Exit(_FAILED)


def _imported(path: str, report: ImportReport) -> Iterator[IndentedLine]:
    if isinstance(report.report, Imported):
        return render_imported(path, report.report, held=report.held)
    return render_imported_file(path, report.report)


def _options(looking: "SearchFlags") -> Mapping[str, object]:
    since, until = Settings.read().time_zone.window(looking.since, looking.until)
    return {
        "what": looking.what,
        "mode": looking.mode,
        "limit": looking.limit,
        "since": since,
        "until": until,
        "date": looking.date,
    }


def _text_of(file: Path) -> str:
    if str(file) == STDIN:
        return read_stdin()
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8 text.", hint="Convert it, for instance with iconv.") from error


# Reading one conversation out of a file, or out of stdin.


STDIN = "-"


def read_conversation(file: Path, wanted: str) -> tuple[Conversation, tuple[str, ...]]:
    """Return the conversation of a file, the one `wanted` by id or title, and what a person should know of the reading.

    `-` is stdin. Raises `InvalidInput` where there is none, where there are several and none or more than one is
    meant, or where nothing is said in it; `NotFound` for one that the file does not hold; `OSError`.
    """
    piped = str(file) == STDIN
    name = "stdin" if piped else file.name
    found = _read(sys.stdin.buffer.read() if piped else file.read_bytes(), name)
    if not found.conversations:
        raise InvalidInput(f"No conversation was found: {'; '.join(found.problems[:_FEW])}.", hint=_FORMS)
    chosen = _chosen(found.conversations, name, wanted)
    if not chosen.messages:
        raise InvalidInput(f"The conversation in {name} has no messages.", hint="Choose another conversation.")
    return chosen, (*chosen.notes, *found.problems)


def _read(data: bytes, name: str) -> Conversations:
    """Read by the ending of the name; where that says nothing, as all that it may be, in turn."""
    if may_be_read(name):
        return read_conversations(data, name)
    tried = (read_conversations(data, f"{_CALLED}{ending}") for ending in _ENDINGS)
    nothing = Conversations((), (f"{name} contains no conversations in a known format",))
    return next((found for found in tried if found.conversations), nothing)


def _chosen(known: Sequence[Conversation], name: str, wanted: str) -> Conversation:
    named = [one for one in known if wanted and one.id == wanted]
    fitting = named or [one for one in known if not wanted or one.title.casefold() == wanted.casefold()]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise NotFound(f"{name} contains no conversation {wanted!r}.", hint=_listed("It holds", known))
    called = f" called {wanted!r}" if wanted else ""
    raise InvalidInput(
        f"{name} contains {len(fitting)} conversations{called}.",
        hint=_listed("Choose one with --conversation", fitting),
        details={"conversations": [{"id": one.id, "title": one.title} for one in fitting[:_MOST]]},
    )


def _listed(what: str, conversations: Sequence[Conversation]) -> str:
    lines = [visible_line(f"  {one.id}  {one.title}").rstrip() for one in conversations[:_MOST]]
    more = [f"  and {len(conversations) - _MOST} more"] if len(conversations) > _MOST else []
    return "\n".join([f"{what}:", *lines, *more])


_CALLED = "conversation"
_ENDINGS = (".json", ".jsonl", ".zip", ".vtt", ".srt", ".txt")
_FORMS = "Give an export of a chat program, JSON or JSON lines of {role, content}, subtitles or a transcript."
_FEW = 3
_MOST = 20


def plan_by(flags: MakingFlags) -> MakingPlan:
    """Return how memories are made by what the command line says: by rules, where it says nothing.

    Raises `InvalidInput` where it names models or workflows and the part that reads them is not there.
    """
    for plan_of in brought("memory_plan"):
        return cast("MakingPlan", plan_of(flags))
    if flags != MakingFlags():
        raise InvalidInput(
            "Models and workflows need the part `workflows`.", hint="Omit these options; rules then make the memories."
        )
    return MakingPlan()
