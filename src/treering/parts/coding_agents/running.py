"""What `treering connect`, `disconnect`, `status` and `session` do."""

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

import typer
from pydantic import JsonValue

from treering.core.counting import counted_things
from treering.core.errors import InvalidInput, TreeringError, nearest
from treering.core.scope import ROOT
from treering.facades import LazyModule
from treering.parts.coding_agents.connecting import (
    HOOK_WORDS,
    Connection,
    ConnectionRecords,
    client_named,
    plan_connection,
    start_command,
)
from treering.parts.coding_agents.git_exclude import exclude_file
from treering.parts.coding_agents.session_hooks import (
    WaitingTranscript,
    unreadable_records,
    waiting_folder,
    waiting_transcripts,
)
from treering.parts.coding_agents.tool_calls import record_used
from treering.registry import parts
from treering.surfaces.cli.commands.spaces import SharingFlags
from treering.surfaces.cli.flags import Access, WriteFlags
from treering.surfaces.cli.printing import IndentedLine, line, say, say_document, tell
from treering.surfaces.cli.session import answer, embed_later, is_piped, opened
from treering.surfaces.python.space import open_space
from treering.surfaces.resident.client import how_it_is
from treering.system.address import Address, parse_address, shown_address
from treering.system.machine import StartCommand, one_after_another
from treering.system.repository_place import repository_at
from treering.system.settings import Settings
from treering.verbs.query.overview import STATUS, SpaceProtection, SpaceStatus, VectorWork

if TYPE_CHECKING:
    from treering.parts.discussions.operations import RecordReport
    from treering.surfaces.cli import history, watching
else:
    history = LazyModule("treering.surfaces.cli.history")
    watching = LazyModule("treering.surfaces.cli.watching")


@dataclass(frozen=True, slots=True)
class WantedConnection:
    """Which client is to be connected, and how far."""

    client: str
    of_user: bool
    hooks: bool
    without: tuple[str, ...] = ()
    share: str = ""
    """A remote over which hooks of git are to share the space; empty: none."""


def connect(wanted: WantedConnection, *, dry_run: bool, print_only: bool, as_json: bool) -> None:
    """Change the configuration of a client, or tell what would be changed."""
    client, settings = client_named(wanted.client), Settings.read()
    folder = None if wanted.of_user else settings.folder.resolve()
    program = start_command()
    hooks = StartCommand(program.program, (*program.arguments, "session")) if wanted.hooks else None
    planned = plan_connection(
        client,
        folder=folder,
        home=Path.home(),
        server=_server(program, settings, folder),
        hooks=hooks,
        without=_known_hooks(wanted.without),
    )
    sharing = SharingFlags(wanted.share)
    if wanted.share:
        watching.put_hooks("", settings.folder, sharing, dry_run=True)  # what cannot be done changes nothing
    if print_only:
        say_document("".join(f"{one.file}\n{''.join(one.pieces).strip()}\n" for one in planned.changes))
        return
    if planned.changes and not dry_run:
        _records(settings).make(planned)
    if wanted.share and not dry_run:
        watching.put_hooks("", settings.folder, sharing)
    chosen = settings.space_choice()
    facts = {
        "client": client.name,
        "files": [str(one.file) for one in planned.changes],
        "share": wanted.share,
        "dry_run": dry_run,
        "space": str(chosen.address),
        "why": chosen.why,
    }
    lines = [*_told(planned, client.title, settings, dry_run=dry_run)]
    if hooks and client.hooks_note and planned.changes:
        lines.append(line(client.hooks_note, indent=2))
    lines += _of_sharing(wanted, settings.folder, dry_run=dry_run)
    answer(Access(as_json=as_json), facts, lines)


def _of_sharing(wanted: WantedConnection, folder: Path, *, dry_run: bool) -> Iterator[IndentedLine]:
    if wanted.share:
        yield line("Git hooks would share the space:" if dry_run else "Git hooks share the space:", indent=2)
        yield from (line(said, indent=4) for said in watching.told_of_sharing(wanted.share))
        yield line("To undo: treering hook uninstall", indent=4)
    elif not wanted.of_user and (remote := watching.remote_to_share(folder)):
        yield line(
            f"To share this memory with everyone who can access {remote}, at each merge and push: "
            f"treering hook install --sync {remote}",
            indent=2,
        )


def _known_hooks(names: tuple[str, ...]) -> tuple[str, ...]:
    for one in names:
        if one not in HOOK_WORDS:
            raise InvalidInput(
                f"Unknown hook {one!r}.", hint=nearest(one, HOOK_WORDS), details={"known": [*HOOK_WORDS]}
            )
    return names


def disconnect(name: str, *, of_user: bool, as_json: bool) -> None:
    """Put the configuration of a client back."""
    client, settings = client_named(name), Settings.read()
    undone = _records(settings).undo(client.name, None if of_user else settings.folder.resolve())
    facts = {"client": client.name, "files": {str(one.file): one.how for one in undone}}
    lines = [
        line(f"{client.title} is no longer connected."),
        *(line(f"{one.file}: {one.how}", indent=2) for one in undone),
    ]
    answer(Access(as_json=as_json), facts, lines)


def status(access: Access, writes: int) -> None:
    """Tell how the space stands."""
    settings = Settings.read()
    chosen = settings.space_choice(access.space or None)
    address = chosen.address
    with opened(access) as space:
        told = space.perform(STATUS, options={"writes": writes})
        latest = [] if access.as_json or not writes else history.events(space, {}, ROOT, until_enough=writes)
    transcripts = len({one.transcript for one in waiting_transcripts(settings)})
    resident = how_it_is()
    facts = {
        "space": str(address),
        "why": chosen.why,
        **told.model_dump(mode="json"),
        "waiting_transcripts": transcripts,
        "resident": {name: float(said) for name, said in resident.items()} if resident else None,
    }
    lines = [*_standing(address, chosen.why, told, verbose=access.verbose)]
    if transcripts:
        waiting = counted_things(transcripts, "transcript")
        lines.append(line(f"{waiting} of sessions not read yet. Read with: treering session work"))
    if resident and access.verbose:
        lines.append(
            line(
                "A background process (pid {pid}) makes commands faster; it ends after {idle_minutes} idle minutes. "
                "To switch it off: TREERING_RESIDENT=0".format(**resident)
            )
        )
    if latest:
        lines += [line(""), line(("Latest:", "bold")), *history.render_events(latest, fenced=is_piped())]
    answer(access, facts, lines)


def _server(program: StartCommand, settings: Settings, folder: Path | None) -> StartCommand:
    """Return how a client starts our server: for a folder, with the space that commands there use."""
    if folder is None:
        return StartCommand(program.program, (*program.arguments, "mcp"))
    address = settings.space_address(None)
    # The address of a database may hold a password: the client's environment has to name it.
    space = ("--space", str(address)) if address.is_file else ()
    return StartCommand(program.program, (*program.arguments, "mcp", *space, "--files", str(folder)))


def _has_space(settings: Settings) -> bool:
    file = settings.space_address(None).file
    return file is not None and file.is_file()


def _records(settings: Settings) -> ConnectionRecords:
    return ConnectionRecords(settings.data_dir / "connections")


def _told(planned: Connection, title: str, settings: Settings, *, dry_run: bool) -> Iterator[IndentedLine]:
    if not planned.changes:
        yield line(f"{title} is already connected.")
        return
    yield line(f"{title} would be connected; nothing was changed." if dry_run else f"{title} is connected.")
    excluding = exclude_file(planned.folder) if planned.folder else None
    for one in planned.changes:
        note = _EXCLUDING if one.file == excluding else _OF_THIS_MACHINE if excluding else ""
        yield line(f"{'created' if one.before is None else 'changed'} {one.file}{note}", indent=2)
    chosen = settings.space_choice()
    address = chosen.address
    yield line(f"space {shown_address(address)}", indent=2)
    if address.file is not None and not _has_space(settings):
        yield line("There is no space here yet: treering init && treering add .", indent=2)
    if not address.is_file:
        yield line("The space is in a database: set TREERING_SPACE in the client's environment.", indent=2)
    yield line(f"Restart {title}. To undo it: treering disconnect {planned.client}", indent=2)


_OF_THIS_MACHINE = " (contains paths of this machine; do not commit it)"
_EXCLUDING = " (so that git ignores the configuration)"


def _standing(address: Address, why: str, told: SpaceStatus, *, verbose: bool) -> Iterator[IndentedLine]:
    yield line(("Space: ", "bold"), f"{shown_address(address)}{f' ({why})' if verbose else ''}")
    counts = {kind: sum(of.values()) for kind, of in told.objects.items()}
    shown = {kind: number for kind, number in counts.items() if verbose or kind != "node"}
    counted = (counted_things(number, kind.replace("_", " ")) for kind, number in shown.items())
    yield line(", ".join(counted) or _EMPTY)
    if told.pending_vectors:
        yield line(_of_vectors(told.making_vectors, told.pending_vectors))
    if told.behind:
        yield line(f"{told.behind:,} objects are not indexed yet.")
    for number, what, command in (
        (told.stale, "stale", "treering lint"),
        (told.contested, "contested", "treering lint"),
        (told.waiting, "waiting for review", "treering review list"),
    ):
        if number:
            yield line((f"{number:,} {what}", "yellow"), f". See: {command}")
    if kept := told.protection:
        yield line(_of_role(kept))


_EMPTY = "Nothing has been read yet. Start with: treering add ."


def _of_vectors(work: VectorWork | None, pending: int) -> str:
    missing = f"{pending:,} of the passages are not embedded yet"
    if work is None:
        return f"{missing}. Embed them with: treering vectors"
    minutes = work.minutes_left
    left = f", for about {counted_things(max(round(minutes), 1), 'more minute')}" if minutes is not None else ""
    return f"{missing}; process {work.process} is embedding them{left}. To stop it: treering unlock vectors"


def _of_role(kept: SpaceProtection) -> str:
    if kept.protected:
        return f"protected: the database shows the role {kept.role!r} only the open space"
    return (
        f"not protected: the role {kept.role!r} {kept.why_not}, so the database does not restrict "
        "it to this space. Connect as a role prepared with `treering postgres plan --writer "
        "ROLE`"
    )


# The work behind the hooks of coding agents: transcripts are kept, and answers that were used are recorded.


_MOST_TRANSCRIPT = 512 * 1024 * 1024
_ACTOR = "coding agent"
_FACTS = ("folder", "branch", "session")
"""Metadata of a transcript that is stored with the discussion."""
_FAILED = 1


def keep_now(file: Path) -> None:
    """Keep a transcript in the space of the working folder."""
    settings = Settings.read()
    _keep(file, settings.space_address(None), settings.folder.absolute())


def work(folder: Path | None) -> None:
    """Keep the transcripts that hooks took on, then record which answers were used. Exits with 1 where one failed.

    `folder`: record it for this one too. What failed stays, and is tried again by the next run.
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
        with suppress(TreeringError, OSError):  # it stays noted for the next run
            _record_used_in(place)
    if failed:
        raise typer.Exit(_FAILED)


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
    """Record what is new in a transcript, make the memories that are due, and propose what was decided, by rules.

    `folder`: where the session worked, if the transcript does not name it.
    """
    if "discussions" not in {part.name for part in parts()}:
        raise InvalidInput("Transcripts are stored as discussions, but the part 'discussions' is missing.")
    # Imported here: whoever only connects a client has no use for it.
    from treering.parts.discussions.generators.generator import MakingPlan
    from treering.parts.discussions.operations import recording
    from treering.sources.conversations.exports import read_conversations

    if file.stat().st_size > _MOST_TRANSCRIPT:
        raise InvalidInput(f"{file.name} is larger than {_MOST_TRANSCRIPT:,} bytes.", hint="Store it in parts.")
    found = read_conversations(file.read_bytes(), file.name)
    writing = WriteFlags(actor=_ACTOR, as_agent=True)
    with opened(address, writing, create=True) as space:
        for one in found.conversations:
            if one.messages:
                facts = _place_of(folder) | {name: one.metadata[name] for name in _FACTS if name in one.metadata}
                given = {"id": one.id or file.stem, "messages": one.messages, "metadata": facts}
                report = space.perform(recording(MakingPlan()), input=given, options={"update": True, "propose": True})
                say(_kept(report, len(one.messages)))
        embed_later(space, writing)
    for problem in found.problems:
        tell(f"treering: {problem}")


def _place_of(folder: Path) -> dict[str, JsonValue]:
    place = repository_at(folder)
    branch = place.head()[0] if place else ""
    return {"folder": str(folder), **({"branch": branch} if branch else {})}


def _kept(report: "RecordReport", messages: int) -> str:
    proposed = f", {len(report.proposed)} candidate(s) to review" if report.proposed else ""
    reason = report.recorded.left_out_reason()
    return f"{report.id}: {messages} messages{proposed}{f'; {reason}' if reason else ''}"
