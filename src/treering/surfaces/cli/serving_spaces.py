"""What the commands about the servers of a directory do."""

from collections.abc import Sequence
from dataclasses import asdict, replace

from treering.core.errors import InvalidInput
from treering.ports.stores import Relocation, ServerDirectory, ServerState, StayedThere, UnfinishedMove
from treering.spaces import wiring
from treering.surfaces.cli.flags import Access
from treering.surfaces.cli.rendering.lines import IndentedLine, line
from treering.surfaces.cli.session import answer, bars
from treering.system.address import Address
from treering.system.settings import Settings

_SPACE, _DIRECTORY = "space", ("directory", "on")


def add(name: str, address: str, directory: str, *, as_json: bool) -> None:
    """Add a server to a directory."""
    spaces = _servers(directory).add(name, address)
    said = f"Added {name}: it has {_counted(spaces)} already." if spaces else f"Added {name}: it takes new spaces now."
    answer(Access(as_json=as_json), {"server": name, "address": address, "spaces": spaces}, [line(said)])


def list_servers(directory: str, *, as_json: bool) -> None:
    """List servers, and moves that are not done."""
    servers = _servers(directory)
    states, moves = servers.states(), servers.unfinished()
    facts = {"servers": [asdict(one) for one in states], "moves": [asdict(one) for one in moves]}
    lines = [_of_server(one) for one in states] or [line("The directory has no server yet.")]
    answer(Access(as_json=as_json), facts, [*lines, *map(_of_move, moves)])


def drain(server: str, directory: str, *, as_json: bool) -> None:
    """Move all spaces of a server to the others."""
    with bars() as advance:
        moved = list(_servers(directory).drain(server, advance))
    facts = {"server": server, "moved": [asdict(one) for one in moved if isinstance(one, Relocation)]}
    lines = [part for one in moved for part in _told(one)]
    end = line(f"{server} has no space any more, and takes none. Add it again to have it take new ones.")
    answer(Access(as_json=as_json), facts, [*lines, end])


def move(space: str, server: str, directory: str, *, as_json: bool) -> None:
    """Move a space to a server."""
    with bars() as advance:
        moved = _servers(directory).move(space, server, advance)
    answer(Access(as_json=as_json), asdict(moved), _told(moved))


def _servers(directory: str) -> ServerDirectory:
    """Return the servers of the directory that was named, or of the one that `TREERING_SPACE` is in."""
    settings = Settings.read()
    if not directory and not settings.space:
        raise InvalidInput(
            "No directory of servers is named.", hint="Add --directory postgresql://OWNER@HOST/DATABASE."
        )
    address = settings.space_address(directory or None)
    if not directory:
        address = _directory_of(address)
    return wiring.postgres_servers(address)


def _directory_of(space: Address) -> Address:
    if _DIRECTORY not in space.options:
        raise InvalidInput(
            f"TREERING_SPACE names {space}, which is not in a directory of servers.",
            hint="Add --directory postgresql://OWNER@HOST/DATABASE.",
        )
    return replace(space, options=tuple(option for option in space.options if option[0] != _SPACE))


def _told(one: Relocation | StayedThere) -> Sequence[IndentedLine]:
    if isinstance(one, StayedThere):
        given_up = f"; the copy on {one.given_up} was removed" if one.given_up else ""
        return [line(f"{one.space} is on {one.server}{given_up}.")]
    records = f"{one.counts['event']} events, {one.vectors} vectors"
    return [
        line(f"Moved {one.space} from {one.old_server} to {one.server}: {records}, in {one.seconds:.1f} s."),
        line(f"Writers were held up for {1000 * one.paused:.0f} ms.", indent=2),
        line(f"Same as before; the audit log ends at event {one.head.seq} ({one.head.hash}).", indent=2),
    ]


def _of_server(one: ServerState) -> IndentedLine:
    state = "" if one.answers else ", does not answer"
    draining = ", takes no new ones" if one.draining else ""
    return line(f"{one.name}: {_counted(one.spaces)}{draining}{state} ({one.address})")


def _of_move(one: UnfinishedMove) -> IndentedLine:
    state = f"a move to {one.target} was begun" if one.target else f"an old copy is left on {one.left_on}"
    again = f"treering postgres move {one.space} {one.target or one.server}"
    return line(f"{one.space}: on {one.server}; {state}. Go on: {again}")


def _counted(spaces: int) -> str:
    return "1 space" if spaces == 1 else f"{spaces} spaces"
