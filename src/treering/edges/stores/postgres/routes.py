"""Which server has a space: the one that its address names, or the one that a directory says."""

from typing import Protocol

from treering.core.errors import NotFound, Unavailable
from treering.edges.stores.postgres.directory import Directory, Placement
from treering.edges.stores.postgres.homes import Home, open_home
from treering.edges.stores.postgres.marks import COPYING, Arriving, Mark, MovedAway
from treering.edges.stores.postgres.pools import Connections
from treering.edges.stores.postgres.target import Target


class SpaceRoute(Protocol):
    """Finds the home of one space."""

    def home(self, *, create: bool, mark: Mark | None = None) -> Home:
        """Open the home of the space; `mark`: what a new one says. Raises `NotFound`, where it is not made."""
        ...

    def elsewhere(self, home: Home, mark: Mark | None) -> Home | None:
        """Open the home that the space has now, where that is another one; else return `None`.

        `mark`: what its row said; `None` where the server does not answer. Raises `Unavailable` where the space cannot
        be followed.
        """
        ...


def route_to(target: Target, *, wait_seconds: float, pool: Connections | None = None) -> SpaceRoute:
    """Return the route to a space. `pool`: connections to its database, that of a directory excepted."""
    return Directed(target, wait_seconds) if target.directory else Direct(target, wait_seconds, pool)


class Direct:
    """The server that the address names, whatever else there is."""

    def __init__(self, target: Target, wait_seconds: float, pool: Connections | None = None) -> None:
        self._target = target
        self._wait_seconds = wait_seconds
        self._pool = pool

    def home(self, *, create: bool, mark: Mark | None = None) -> Home:
        """Open the space there."""
        return open_home(self._target, create=create, wait_seconds=self._wait_seconds, mark=mark, pool=self._pool)

    def elsewhere(self, home: Home, mark: Mark | None) -> Home | None:
        """Say that the space is on another server, where a mark says so."""
        _require_whole(home, mark)
        match mark:
            case None:
                return None
            case MovedAway():
                said = f"was moved to the server {mark.server!r} of a directory"
            case Arriving():
                said = "is a copy that a move has begun"
        raise Unavailable(
            f"{home.place} {said}.", hint="Open the space by the address of its directory, with directory=on."
        )


class Directed:
    """The server that a directory names; a new space is placed first."""

    def __init__(self, target: Target, wait_seconds: float) -> None:
        self._directory = Directory(target)
        self._space = target.space
        self._wait_seconds = wait_seconds

    def home(self, *, create: bool, mark: Mark | None = None) -> Home:
        """Open the space on its server."""
        placement = self._directory.find(self._space)
        if placement is None:
            if not create:
                raise NotFound(
                    f"There is no space {self._space!r} in {self._directory.shown}.",
                    hint="Create it with `treering init` or the first `treering ingest`; or name another one.",
                )
            placement = self._directory.place(self._space)
        return self._open(placement, create=create, mark=mark)

    def elsewhere(self, home: Home, mark: Mark | None) -> Home | None:
        """Open the home that the directory names now; a move that is decided is finished first."""
        _require_whole(home, mark)
        if isinstance(mark, MovedAway):
            self._directory.finish(self._space, mark)
        placement = self._asked_again(mark)
        return None if placement is None or placement.server == home.server else self._open(placement, create=False)

    def _asked_again(self, mark: Mark | None) -> Placement | None:
        self._directory.forget(self._space)
        try:
            return self._directory.find(self._space)
        except Unavailable:
            if mark is None:
                return None  # what is wrong with the server itself is told
            raise

    def _open(self, placement: Placement, *, create: bool, mark: Mark | None = None) -> Home:
        target = self._directory.target_on(placement, self._space)
        return open_home(target, create=create, wait_seconds=self._wait_seconds, server=placement.server, mark=mark)


def _require_whole(home: Home, mark: Mark | None) -> None:
    if mark == COPYING:
        raise Unavailable(
            f"{home.place} is a copy that a move has begun and not finished.",
            hint="Call `treering move` again with the same places, which goes on with it.",
        )
