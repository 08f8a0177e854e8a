"""The servers of a directory on Postgres, for who administers them."""

from collections.abc import Iterator, Sequence

from treering.ports.copying import Told
from treering.ports.runtime import Clock
from treering.ports.stores import Relocation, ServerState, StayedThere, UnfinishedMove
from treering.stores.postgres.connection.directory import Directory
from treering.stores.postgres.connection.target import database_of
from treering.stores.postgres.servers import placing
from treering.stores.postgres.servers.relocating import Model, relocate
from treering.system.address import Address


class PostgresServers:
    """`ports.stores.ServerDirectory` over a directory. `model`: of vectors, for spaces that have none."""

    def __init__(self, address: Address, *, clock: Clock, model: Model) -> None:
        self._directory = Directory(database_of(address))
        self._clock = clock
        self._model = model

    def add(self, name: str, address: str) -> int:
        """Add a server; return the number of spaces that it has already."""
        return placing.add_server(self._directory, name, address)

    def states(self) -> Sequence[ServerState]:
        """Return all servers, by name."""
        return [
            ServerState(one.name, one.address, one.spaces, one.draining, self._directory.answers(one))
            for one in self._directory.servers()
        ]

    def unfinished(self) -> Sequence[UnfinishedMove]:
        """Return the moves that are not done."""
        return placing.unfinished(self._directory)

    def move(self, space: str, server: str, told: Told) -> Relocation | StayedThere:
        """Move a space to a server while it is used, or go on with a move that was broken off."""
        return relocate(self._directory, space, server, clock=self._clock, model=self._model, told=told)

    def drain(self, server: str, told: Told) -> Iterator[Relocation | StayedThere]:
        """Have a server take no new spaces, and move those that it has to the others, one after the other."""
        while spaces := placing.drain_begun(self._directory, server):
            for space in spaces:
                yield self.move(space, self._where_to(space, server), told)

    def _where_to(self, space: str, draining: str) -> str:
        """Choose where a space goes: on with a move that was begun, else to the server with the fewest."""
        placement = placing.placed(self._directory, space)
        if placement.server != draining:
            return placement.server  # it has gone already: what is left of it goes now
        taking = {one.name for one in self._directory.servers() if not one.draining}
        return placement.target if placement.target in taking else placing.emptiest_but(self._directory, draining)
