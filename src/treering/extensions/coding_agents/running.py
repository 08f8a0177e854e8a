"""What `treering connect`, `disconnect`, `status` and `session` do."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from treering.core.counting import counted_things
from treering.core.errors import InvalidInput, nearest
from treering.core.scope import ROOT
from treering.extensions.coding_agents.connecting import (
    HOOK_WORDS,
    Connection,
    ConnectionRecords,
    client_named,
    plan_connection,
    start_command,
)
from treering.extensions.coding_agents.git_exclude import exclude_file
from treering.extensions.coding_agents.session_hooks import (
    waiting_transcripts,
)
from treering.facades import LazyModule
from treering.surfaces.cli.flags import Access, SharingFlags
from treering.surfaces.cli.printing import IndentedLine, line, say_document
from treering.surfaces.cli.session import answer, is_piped, opened
from treering.surfaces.resident.client import how_it_is
from treering.system.address import Address, shown_address
from treering.system.machine import StartCommand
from treering.system.settings import Settings
from treering.verbs.query.space_status import STATUS, SpaceProtection, SpaceStatus, VectorWork

if TYPE_CHECKING:
    from treering.extensions.code import git_hooks
    from treering.surfaces.cli import history
else:
    git_hooks = LazyModule("treering.extensions.code.git_hooks")
    history = LazyModule("treering.surfaces.cli.history")


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
        git_hooks.put_hooks("", settings.folder, sharing, dry_run=True)  # what cannot be done changes nothing
    if print_only:
        say_document("".join(f"{one.file}\n{''.join(one.pieces).strip()}\n" for one in planned.changes))
        return
    if planned.changes and not dry_run:
        _records(settings).make(planned)
    if wanted.share and not dry_run:
        git_hooks.put_hooks("", settings.folder, sharing)
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
        yield from (line(said, indent=4) for said in git_hooks.sharing_notes(wanted.share))
        yield line("To undo: treering hook uninstall", indent=4)
    elif not wanted.of_user and (remote := git_hooks.remote_to_share(folder)):
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
    """Show the status of the space."""
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


def _of_role(protection: SpaceProtection) -> str:
    if protection.protected:
        return f"protected: the database shows the role {protection.role!r} only the open space"
    return (
        f"not protected: the role {protection.role!r} {protection.why_not}, so the database does not restrict "
        "it to this space. Connect as a role prepared with `treering postgres plan --writer "
        "ROLE`"
    )
