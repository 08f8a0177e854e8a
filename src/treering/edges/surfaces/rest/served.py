"""The space the server speaks for: opened when it is first needed, closed when the server stops."""

import threading
from pathlib import Path

from treering.core.errors import NotFound, Unavailable
from treering.edges.address import Address
from treering.edges.sources.access import NoFiles, files_below
from treering.edges.surfaces.space import Space, open_space
from treering.ports.embedder import Embedder
from treering.ports.interrupt import check_between_steps
from treering.tools.catalog import TOOLS
from treering.tools.engine import Engine
from treering.tools.envelope import Envelope, Report

_WRITERS = {"ingest", "crystallize"}


class Stop:
    """Tells long work that the server stops."""

    def __init__(self) -> None:
        self._said = False

    @property
    def said(self) -> bool:
        """Whether the server stops."""
        return self._said

    def say(self) -> None:
        """Have work stop at its next report of progress."""
        self._said = True

    def check(self, _what: str = "", _done: int = 0, _total: int | None = None) -> None:
        """Take a report of progress. Raises `Unavailable` once the server stops."""
        if self._said:
            raise Unavailable("The server is stopping.", hint="What was written stays; ask again to go on.")


def report_progress(_what: str, _done: int, _total: int | None) -> None:
    """Take a report of progress in a worker. Raises what ends its work, if it has to end."""
    check_between_steps()


class ServedSpace:
    """A space for the calls of many threads.

    `files`: the folder below which `ingest` may read files and repositories; without one it reads none. Whoever
    reaches the server would else read any file its owner can.
    """

    def __init__(
        self, address: Address | str, *, stop: Stop, background: bool, embedder: Embedder | None, files: Path | None
    ) -> None:
        self._address = address
        self._stop = stop
        self._background = background
        self._embedder = embedder
        self._files = files_below(files) if files else NoFiles()
        self._space: Space | None = None
        self._lock = threading.Lock()

    def call(self, verb: str, envelope: Envelope) -> Report:
        """Run a verb. Only writing makes a new space: a read of a wrong address must fail."""
        TOOLS[verb].find(envelope.mode)
        space = self._opened(create=verb in _WRITERS)
        return space.with_progress(report_progress).call(verb, envelope)

    def check(self) -> bool:
        """Open the space; tell whether there is one yet. Raises what keeps it from being opened."""
        try:
            self._opened(create=False)
        except NotFound:
            return False
        return True

    @property
    def is_open(self) -> bool:
        """Tell whether the space was opened, without waiting for whoever opens it."""
        return self._space is not None

    def engine(self, *, create: bool) -> Engine:
        """Return the space's parts. Raises `NotFound` where there is no space and none is to be made."""
        return self._opened(create=create, stopping=True).engine

    def close(self) -> None:
        """Close the space, if it was opened."""
        with self._lock:
            if self._space:
                self._space.close()
            self._space = None

    def _opened(self, *, create: bool, stopping: bool = False) -> Space:
        """Open the space; while the server stops, only for what has to be brought to its end."""
        with self._lock:
            if not stopping:
                self._stop.check()
            if self._space is None:
                self._space = open_space(
                    self._address,
                    create=create,
                    background=self._background,
                    embedder=self._embedder,
                    files=self._files,
                )
            return self._space
