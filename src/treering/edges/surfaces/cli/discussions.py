"""What `treering discussion` does."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import typer

from treering.core.errors import InvalidInput, NotFound, nearest
from treering.core.scope import parse_scope
from treering.core.times import parse_time
from treering.edges.discussion_files import read_discussion, write_discussion
from treering.edges.surfaces.cli.chat_files import STDIN, read_conversation
from treering.edges.surfaces.cli.flags import Access, WriteFlags
from treering.edges.surfaces.cli.printing import confirm, say_document
from treering.edges.surfaces.cli.rendering.discussions import (
    counted,
    render_deleted,
    render_discussions,
    render_found,
    render_imported,
    render_imported_file,
    render_made,
    render_notes,
    render_recorded,
    render_shown,
)
from treering.edges.surfaces.cli.rendering.lines import line
from treering.edges.surfaces.cli.request import read_stdin
from treering.edges.surfaces.cli.session import answer, embed_later, is_piped, opened, watched
from treering.edges.surfaces.space import Space
from treering.memories.discussion.files import MEMORIES, MESSAGES, STATE, SUMMARY, read_state
from treering.memories.discussion.identity import home_of, place_of
from treering.memories.discussion.making import Made
from treering.memories.discussion.memory import Discussion, DiscussionMemory
from treering.memories.discussion.search import Found, Mode, SearchOptions, What
from treering.memories.discussion.versions import Version
from treering.memories.discussion.wilmer import WilmerImport

_FAILED = 1
_FEW = 20
_TABLES = {MESSAGES: "message", MEMORIES: "memory", SUMMARY: "version of the summary"}
_ISO_DAY = 10  # characters of 2026-05-01


@dataclass(frozen=True, slots=True)
class RecordArguments:
    """What is recorded: a file, which of its conversations, and whether what is due is made then."""

    file: Path
    conversation: str
    update: bool


@dataclass(frozen=True, slots=True)
class SearchArguments:
    """What a search looks for, and how. `since`, `until`: an ISO time, or a day in UTC; empty for any."""

    what: What
    mode: Mode
    limit: int
    since: str
    until: str
    date: str


def list_all(within: str, access: Access) -> None:
    """List the discussions below a scope."""
    with opened(access) as space:
        discussions = space.discussions(within)
        counts = {name: discussions.open(name).log.count() for name in discussions.ids()}
    listed = [{"id": name, "messages": count} for name, count in counts.items()]
    answer(access, {"within": within, "discussions": listed}, render_discussions(counts, within))


def record(identity: str, within: str, told: RecordArguments, access: Access, writing: WriteFlags) -> None:
    """Keep the messages of a file. Exits with 1 where memories failed."""
    place = place_of(identity, within=within)
    conversation, notes = read_conversation(told.file, told.conversation)
    with opened(access, writing, create=True) as space:
        recorded = space.discussions(within).open(place.id).record(conversation.messages)
        made = _made(space, within, place.id) if told.update and recorded.count else None
        data = {"id": place.id, "recorded": recorded, "made": made, "notes": notes}
        lines = [*render_recorded(place.id, recorded), *(render_made(made) if made else ()), *render_notes(notes)]
        answer(access, data, lines)
        embed_later(space, writing)
    _leave(made)


def update(identity: str, within: str, wait: float, access: Access, writing: WriteFlags) -> None:
    """Make the memories that are due. Exits with 1 where some failed."""
    with _known(identity, within, access, writing) as (space, discussion):
        made = _made(space, within, discussion.id, wait=wait)
        answer(access, {"id": discussion.id, "made": made}, render_made(made))
        embed_later(space, writing)
    _leave(made)


def show(identity: str, within: str, access: Access, *, memories: int, messages: int) -> None:
    """Show what is remembered of a discussion."""
    with _known(identity, within, access) as (_, discussion):
        count = discussion.log.count()
        texts = {"summary": discussion.summary(), "state": discussion.state()}
        remembered, said = discussion.recent_memories(memories), discussion.last_messages(messages)
    data = {"id": discussion.id, "count": count, **texts, "memories": remembered, "messages": said}
    titled = {"Summary": texts["summary"], "State": texts["state"]}
    lines = [
        line((discussion.id, "bold"), f"  {counted(count, 'message')}"),
        line(""),
        *render_shown(discussion.id, titled, remembered, said, fenced=is_piped()),
    ]
    answer(access, data, lines)


def search(words: Sequence[str], within: str, looking: SearchArguments, access: Access, *, every: bool) -> None:
    """Search one discussion, named by the first word, or all of them."""
    query = " ".join(words if every else words[1:])
    if not query.strip():
        raise InvalidInput("The query to search for is empty.", hint="Write: treering discussion search ID QUERY.")
    options = _options(looking)
    if every:
        with opened(access) as space:
            discussions = space.discussions(within)
            _check_any(discussions, within)
            found = discussions.search(query, options)
    else:
        with _known(words[0], within, access) as (_, discussion):
            found = discussion.search(query, options)
    placed = [(_discussion_of(one, within), one) for one in found]
    data = {"query": query, "found": [{"discussion": name, **asdict(one)} for name, one in placed]}
    answer(access, data, render_found(placed, fenced=is_piped()))


def print_state(identity: str, within: str, access: Access) -> None:
    """Print the state document as the file that an edit is made of."""
    with _known(identity, within, access) as (_, discussion):
        text, document = discussion.export()[STATE], discussion.state()
    if access.as_json:
        answer(access, {"id": discussion.id, "state": document}, ())
    else:
        say_document(text)


def edit_state(identity: str, within: str, file: Path, access: Access, writing: WriteFlags) -> None:
    """Keep a person's edit of the state document."""
    text, mark = read_state({STATE: _text_of(file)})
    if not text:
        raise InvalidInput("The edited state document is empty.", hint="Keep at least one heading in it.")
    with _known(identity, within, access, writing) as (space, discussion):
        before = discussion.state()
        version = _edited(discussion, text, base=mark.version if mark and mark.version else None)
        after = discussion.state()
        said = f"Kept as version {version.number}." if after != before else "Nothing was changed."
        data = {"id": discussion.id, "changed": after != before, "version": version, "state": after}
        answer(access, data, [line(said)])
        embed_later(space, writing)


def export(identity: str, within: str, folder: Path, access: Access) -> None:
    """Write a discussion as plain files."""
    with _known(identity, within, access) as (_, discussion):
        counts = write_discussion(discussion, folder)
    listed = ", ".join(counted(counts[name], what) for name, what in _TABLES.items())
    data = {"id": discussion.id, "folder": str(folder), "counts": counts}
    answer(access, data, [line(f"Exported to {folder}: {listed}.")])


def import_from(identity: str, within: str, path: Path, access: Access, writing: WriteFlags) -> None:
    """Read a folder that an export wrote, or a file of WilmerAI."""
    place = place_of(identity, within=within)
    content = None if path.is_dir() else path.read_bytes()
    with opened(access, writing, create=True) as space:
        discussion = space.discussions(within).open(place.id)
        if content is None:
            held = discussion.log.exists()
            imported = read_discussion(discussion, path)
            answer(access, _facts(place.id, imported), render_imported(str(path), imported, held=held))
        else:
            brought = WilmerImport(space.engine, discussion.place).bring(path.name, content)
            answer(access, _facts(place.id, brought), render_imported_file(str(path), brought))
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
    with _known(identity, within, access, writing) as (space, discussion):
        if erase and not (sure or _is_confirmed(len(set(positions)))):
            raise typer.Exit(_FAILED)
        deleted = discussion.delete(positions, erase=erase)
        answer(access, _facts(discussion.id, deleted), render_deleted(deleted))
        embed_later(space, writing)
    if deleted.receipt and not deleted.receipt.clean:
        raise typer.Exit(_FAILED)


@contextmanager
def _known(
    identity: str, within: str, access: Access, writing: WriteFlags | None = None
) -> Iterator[tuple[Space, Discussion]]:
    """Open a discussion of which something is kept. Raises `NotFound` for any other, so that no typo reads as empty."""
    with opened(access, writing) as space:
        discussions = space.discussions(within)
        discussion, ids = discussions.open(identity), discussions.ids()
        if discussion.id not in ids:
            hint = nearest(discussion.id, ids) if 0 < len(ids) <= _FEW else "See `treering discussion list`."
            raise NotFound(f"There is no discussion {discussion.id!r} below the scope {within}.", hint=hint)
        yield space, discussion


def _check_any(discussions: DiscussionMemory, within: str) -> None:
    if not discussions.ids():
        raise NotFound(
            f"There are no discussions below the scope {within}.",
            hint="Name their scope with --within, or record one first.",
        )


def _made(space: Space, within: str, identity: str, *, wait: float = 0.0) -> Made:
    with watched(space) as busy:
        return busy.discussions(within).open(identity).update(wait_seconds=wait)


def _edited(discussion: Discussion, text: str, *, base: str | None) -> Version:
    try:
        return discussion.edit_state(text, base=base)
    except NotFound as error:
        hint = f"Edit what `treering discussion state {discussion.id}` prints, or take the last line out."
        raise NotFound(error.message, hint=hint, details=error.details) from error


def _leave(made: Made | None) -> None:
    if made and made.failed:
        raise typer.Exit(_FAILED)


def _options(looking: SearchArguments) -> SearchOptions:
    return SearchOptions(
        what=looking.what,
        mode=looking.mode,
        limit=looking.limit,
        since=_moment(looking.since, "T00:00:00Z"),
        until=_moment(looking.until, "T23:59:59.999999Z"),
        date_prefix=looking.date,
    )


def _moment(text: str, time: str) -> datetime | None:
    """Read an ISO time; a day alone is meant in UTC, at this time of it."""
    if not text:
        return None
    return parse_time(text + time if len(text) == _ISO_DAY else text)


def _discussion_of(found: Found, within: str) -> str:
    return found.scope.removeprefix(f"{home_of(parse_scope(within))}/").partition("/")[0]


def _facts(identity: str, report: object) -> Mapping[str, object]:
    return {"id": identity, "report": report}


def _text_of(file: Path) -> str:
    if str(file) == STDIN:
        return read_stdin()
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8 text.", hint="Convert it, for instance with iconv.") from error


def _is_confirmed(count: int) -> bool:
    if not sys.stdin.isatty():
        raise InvalidInput("Erasing asks for confirmation; there is no terminal.", hint="Add --yes.")
    return confirm(f"Erase {counted(count, 'message')} for good? This cannot be taken back.")
