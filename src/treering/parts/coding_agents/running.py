"""What `treering connect`, `disconnect` and `status` do."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from treering.core.ids import render_time
from treering.parts.coding_agents.connecting import Connection, ConnectionRecords, plan_connection
from treering.parts.coding_agents.known_clients import client_named, start_command
from treering.parts.coding_agents.session_hooks import start_work, waiting_transcripts
from treering.surfaces import resident_client
from treering.surfaces.cli.flags import Access
from treering.surfaces.cli.printing import say_document
from treering.surfaces.cli.rendering.lines import IndentedLine, line
from treering.surfaces.cli.session import answer, opened
from treering.system.machine import StartCommand
from treering.system.settings import Settings
from treering.verbs.query.overview import STATUS, SpaceProtection, SpaceStatus

_PLURALS = {"knowledge": "knowledge", "activity": "activities"}


@dataclass(frozen=True, slots=True)
class WantedConnection:
    """Which client is to be connected, and how far."""

    client: str
    of_user: bool
    hooks: bool


def connect(wanted: WantedConnection, *, dry_run: bool, print_only: bool, as_json: bool) -> None:
    """Change the configuration of a client, or tell what would be changed."""
    client, settings = client_named(wanted.client), Settings.read()
    folder = None if wanted.of_user else settings.folder.resolve()
    program = start_command()
    hooks = StartCommand(program.program, (*program.arguments, "session")) if wanted.hooks else None
    planned = plan_connection(
        client, folder=folder, home=Path.home(), server=_server(program, settings, folder), hooks=hooks
    )
    if print_only:
        say_document("".join(f"{one.file}\n{''.join(one.pieces).strip()}\n" for one in planned.changes))
        return
    if planned.changes and not dry_run:
        _records(settings).make(planned)
        if hooks and folder and settings.background and _has_space(settings):
            with suppress(OSError):  # the first session makes it
                start_work(folder)
    facts = {"client": client.name, "files": [str(one.file) for one in planned.changes], "dry_run": dry_run}
    lines = [*_told(planned, client.title, settings, dry_run=dry_run)]
    if hooks and client.hooks_note and planned.changes:
        lines.append(line(client.hooks_note, indent=2))
    answer(Access(as_json=as_json), facts, lines)


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
    address = settings.space_address(access.space or None)
    with opened(access) as space:
        told = space.perform(STATUS, options={"writes": writes})
    transcripts = len({one.transcript for one in waiting_transcripts(settings)})
    resident = resident_client.how_it_is()
    facts = {
        "space": str(address),
        **told.model_dump(mode="json"),
        "waiting_transcripts": transcripts,
        "resident": resident and {name: float(said) if "." in said else int(said) for name, said in resident.items()},
    }
    lines = [*_standing(str(address), told)]
    if transcripts:
        said = f"{transcripts:,} transcript{'' if transcripts == 1 else 's'} of sessions wait: treering session work"
        lines.append(line(said, indent=2))
    if resident:
        lines.append(
            line(
                "commands are answered by a process that stays loaded: pid {pid}, {answered} so far, goes after "
                "{idle_minutes} minutes without one (TREERING_RESIDENT=0: none)".format(**resident),
                indent=2,
            )
        )
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
        yield line(f"{title} is connected already.")
        return
    yield line(f"{title} would be connected; nothing was changed." if dry_run else f"{title} is connected.")
    for one in planned.changes:
        yield line(f"{'made' if one.before is None else 'changed'} {one.file}", indent=2)
    address = settings.space_address(None)
    if address.file is not None and not _has_space(settings):
        yield line("There is no space here yet: treering init && treering ingest .", indent=2)
    if not address.is_file:
        yield line("The space is in a database: set TREERING_SPACE where the client is started.", indent=2)
    yield line(f"Start {title} anew. To take it back: treering disconnect {planned.client}", indent=2)


def _standing(address: str, told: SpaceStatus) -> Iterator[IndentedLine]:
    yield line(address)
    counts = {kind: sum(of.values()) for kind, of in told.objects.items()}
    held = ", ".join(f"{number:,} {_plural(kind, number)}" for kind, number in counts.items())
    yield line(held or "Nothing is in it yet: treering ingest .", indent=2)
    waiting: dict[str, Any] = {
        "passages": told.passages,
        "wait for their vector": told.pending_vectors,
        "wait for the index": told.behind,
        "stale": told.stale,
        "contested": told.contested,
        "wait for review": told.waiting,
    }
    yield line(", ".join(f"{number:,} {what}" for what, number in waiting.items() if number), indent=2)
    if kept := told.protection:
        yield line(_of_role(kept), indent=2)
    for one in told.writes:
        yield line(
            f"{render_time(one.at)[:16].replace('T', ' ')}  {one.what} {one.target}  by {one.actor} ({one.channel})",
            indent=2,
        )


def _of_role(kept: SpaceProtection) -> str:
    if kept.protected:
        return f"protected: the database shows the role {kept.role!r} the space it has opened, and no other"
    return (
        f"not protected: the role {kept.role!r} {kept.why_not}, so the database does not keep it to this space. "
        "Connect as a role that `treering postgres plan --writer ROLE` was run for"
    )


def _plural(kind: str, number: int) -> str:
    word = kind.replace("_", " ")
    return word if number == 1 else _PLURALS.get(kind, f"{word}s")
