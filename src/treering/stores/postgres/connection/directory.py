"""A directory of servers: which of several Postgres servers has which space.

It is a database of its own, or one of the servers'. A process keeps what it has read for a while: an old answer is
harmless, because every transaction sees on the server itself whether the space is there (`marks`).
"""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import psycopg

from treering.core.errors import InvalidInput, NotFound, Unavailable
from treering.stores.postgres.connection.failures import translated
from treering.stores.postgres.connection.homes import Arriving, MovedAway, see_name, see_space
from treering.stores.postgres.connection.pools import shared_pool
from treering.stores.postgres.connection.schema import is_current, migrate
from treering.stores.postgres.connection.target import Target, on_server
from treering.system.address import Address, parse_address

KEPT_SECONDS = 60.0
_MOST_KEPT = 10_000
_WAIT_SECONDS = 20.0
_FIND = (
    "SELECT p.server, s.address, p.target, p.move, p.left_on FROM placements p JOIN servers s ON s.name = p.server "
    "WHERE p.name = %(space)s"
)
_PLACE = "INSERT INTO placements(name, server) VALUES(%(space)s, %(server)s) ON CONFLICT DO NOTHING"
_COUNT = "UPDATE servers SET spaces = spaces + %(more)s WHERE name = %(server)s"
_SWITCH = (
    "UPDATE placements p SET server = %(server)s, target = NULL, move = NULL, left_on = old.server "
    "FROM placements old WHERE p.name = %(space)s AND old.name = p.name AND p.move = %(move)s RETURNING old.server"
)
_SERVE = "UPDATE spaces SET moving = NULL WHERE space = %s AND moving = %s"


@dataclass(frozen=True, slots=True)
class SpaceServer:
    """A server of a directory. A draining one takes no new spaces."""

    name: str
    address: str
    draining: bool = False
    spaces: int = 0


@dataclass(frozen=True, slots=True)
class Placement:
    """Where a space is. `target` and `move`: of a move that was begun; `left_on`: who still keeps an old copy."""

    server: str
    address: str
    target: str | None = None
    move: str | None = None
    left_on: str | None = None


@dataclass(slots=True)
class _Known:
    """What this process knows of a directory."""

    placements: dict[str, tuple[Placement, float]] = field(default_factory=dict)
    """By space, what was read, and until when it is used."""
    servers: dict[str, SpaceServer] = field(default_factory=dict)
    """As they were read last: what is used of them is the address, which hardly ever changes."""
    has_tables: bool = False


_known: dict[str, _Known] = {}
_knowing = threading.Lock()


class Directory:
    """The directory in a database. Safe to use from many threads and processes."""

    def __init__(self, target: Target) -> None:
        self._target = target
        self.shown: str = f"the directory {target.shown}"
        with _knowing:
            self._known = _known.setdefault(target.conninfo, _Known())

    def find(self, space: str) -> Placement | None:
        """Return where a space is, from memory for a while; `None` where it is nowhere."""
        kept = self._known.placements.get(space)
        if kept and time.monotonic() < kept[1]:
            return kept[0]
        with self.transaction(space) as connection:
            placement = read_placement(connection, space)
        if placement:
            self._keep(space, placement)
        return placement

    def place(self, space: str) -> Placement:
        """Choose the server of a new space: of those that answer and take new ones, the one with the fewest spaces.

        Raises `InvalidInput` where the directory has no server for it, `Unavailable` where none answers.
        """
        candidates = [server for server in self.servers() if not server.draining]
        if not candidates:
            raise InvalidInput(
                f"{self.shown} has no server that accepts new spaces.",
                hint="Add one: treering postgres servers add NAME ADDRESS.",
            )
        chosen = next((server for server in sorted(candidates, key=_fill) if self.answers(server)), None)
        if chosen is None:
            raise Unavailable(
                f"No server of {self.shown} responds: {', '.join(server.name for server in candidates)}.",
                hint="Check that they run, then try again.",
            )
        with self.transaction(space) as connection:
            made = connection.execute(_PLACE, {"space": space, "server": chosen.name}).rowcount
            if made:
                connection.execute(_COUNT, {"more": 1, "server": chosen.name})
            placement = read_placement(connection, space)  # another process may have been quicker
        return placement or Placement(chosen.name, chosen.address)

    def finish(self, space: str, mark: MovedAway) -> None:
        """Have the new server serve a space whose old one says that it moved away, and note it.

        Doing it twice is harmless: the first one does it, and the id of the move keeps out what belongs to another.
        """
        with self.on_server(mark.server, space) as (connection, number):
            connection.execute(_SERVE, (number, str(Arriving(mark.move))))
        with self.transaction(space) as connection:
            named = {"space": space, "server": mark.server, "move": mark.move}
            for (old,) in connection.execute(_SWITCH, named).fetchall():
                for server, more in sorted(((old, -1), (mark.server, 1))):  # in one order: nobody waits in a circle
                    connection.execute(_COUNT, {"more": more, "server": server})
        self.forget(space)

    def forget(self, space: str) -> None:
        """Read the placement of a space anew the next time."""
        self._known.placements.pop(space, None)

    @contextmanager
    def on_server(self, name: str, space: str) -> Iterator[tuple[psycopg.Connection, int | None]]:
        """Hold a transaction of a server that sees the rows of a space; with its number there, if it has one."""
        target = self.target_of(self._known.servers.get(name) or self.server(name), space)
        with _connected(target, target.shown) as connection, connection.transaction():
            yield connection, see_space(connection, space)

    def servers(self) -> list[SpaceServer]:
        """Return all servers, by name."""
        with self.transaction("") as connection:
            rows = connection.execute("SELECT name, address, draining, spaces FROM servers ORDER BY name").fetchall()
        servers = [SpaceServer(*row) for row in rows]
        self._known.servers = {server.name: server for server in servers}
        return servers

    def server(self, name: str) -> SpaceServer:
        """Return one server. Raises `NotFound`."""
        servers = self.servers()
        found = next((server for server in servers if server.name == name), None)
        if found is None:
            known = ", ".join(server.name for server in servers) or "none"
            raise NotFound(f"{self.shown} has no server {name!r}.", hint=f"Use one of its servers: {known}.")
        return found

    def target_on(self, placement: Placement, space: str) -> Target:
        """Return a space on the server that has it."""
        return self.target_of(SpaceServer(placement.server, placement.address), space)

    def target_of(self, server: SpaceServer, space: str) -> Target:
        """Return a space on a server."""
        return on_server(self._target, server_address(server.address), server.name, space)

    def answers(self, server: SpaceServer) -> bool:
        """Tell whether a server can be connected to."""
        try:
            psycopg.connect(self.target_of(server, "").conninfo).close()
        except psycopg.OperationalError:
            return False
        return True

    @contextmanager
    def transaction(self, space: str) -> Iterator[psycopg.Connection]:
        """Hold a transaction of the directory's database, in which one space is named."""
        with self.connection() as connection, connection.transaction():
            see_name(connection, space)
            yield connection

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection]:
        """Hold a connection to the directory's database, in no transaction."""
        with _connected(self._target, self.shown) as connection:
            self._make_tables(connection)
            yield connection

    def _make_tables(self, connection: psycopg.Connection) -> None:
        if not self._known.has_tables:
            if not is_current(connection):
                migrate(connection)
            self._known.has_tables = True

    def _keep(self, space: str, placement: Placement) -> None:
        placements = self._known.placements
        if len(placements) >= _MOST_KEPT:
            placements.clear()
        placements[space] = (placement, time.monotonic() + KEPT_SECONDS)


@contextmanager
def _connected(target: Target, shown: str) -> Iterator[psycopg.Connection]:
    """Hold one of this process's connections to a database."""
    with translated(shown):
        pool = shared_pool(target)
        try:
            connection = pool.take(timeout=_WAIT_SECONDS)
            try:
                yield connection
            finally:
                pool.put_back(connection)
        finally:
            pool.give_up()


def read_placement(connection: psycopg.Connection, space: str) -> Placement | None:
    """Read where a space is, in a transaction of the directory."""
    row = connection.execute(_FIND, {"space": space}).fetchone()
    return Placement(*row) if row else None


def server_address(text: str) -> Address:
    """Read the address of a server, which names a database and no space. Raises `InvalidInput`."""
    return parse_address(text, named=Path())


def _fill(server: SpaceServer) -> tuple[int, str]:
    return server.spaces, server.name
