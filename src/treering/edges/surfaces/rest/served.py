"""The space the server speaks for: opened when it is first needed, closed when the server stops."""

import threading
from pathlib import Path

from treering.core.errors import Denied, NotFound, Unavailable
from treering.edges.surfaces.space import Space, open_space
from treering.ports.embedder import Embedder
from treering.tools.catalog import TOOLS
from treering.tools.engine import Engine
from treering.tools.envelope import Envelope, Report

_WRITERS = {"ingest", "crystallize"}
_READS_FILES = {"path", "repo"}


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


class ServedSpace:
    """A space for the calls of many threads.

    `files`: the folder below which `ingest` may read files and repositories; without one it reads none. Whoever
    reaches the server would else read any file its owner can.
    """

    def __init__(
        self, address: str, *, stop: Stop, background: bool, embedder: Embedder | None, files: Path | None
    ) -> None:
        self._address = address
        self._stop = stop
        self._background = background
        self._embedder = embedder
        self._files = files.resolve() if files else None
        self._space: Space | None = None
        self._lock = threading.Lock()

    def call(self, verb: str, envelope: Envelope) -> Report:
        """Run a verb. Only writing makes a new space: a read of a wrong address must fail."""
        TOOLS[verb].find(envelope.mode)
        asked = self._within_reach(envelope) if verb == "ingest" else envelope
        space = self._opened(create=verb in _WRITERS)
        return space.with_progress(self._stop.check).call(verb, asked)

    def check(self) -> bool:
        """Open the space; tell whether there is one yet. Raises what keeps it from being opened."""
        try:
            self._opened(create=False)
        except NotFound:
            return False
        return True

    def engine(self, *, create: bool) -> Engine:
        """Give the space's parts. Raises `NotFound` where there is no space and none is to be made."""
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
                    self._address, create=create, background=self._background, embedder=self._embedder
                )
            return self._space

    def _within_reach(self, envelope: Envelope) -> Envelope:
        """Give an `ingest` that reads below the folder that was named. Raises `Denied` for any other."""
        mode, path = envelope.mode or TOOLS["ingest"].default, envelope.input.get("path")
        if mode not in _READS_FILES or not isinstance(path, str):
            return envelope
        if self._files is None:
            raise Denied(
                "This server reads no files.",
                hint="Start it with --files FOLDER, or give the text itself with mode 'source'.",
            )
        place = _resolved(path, self._files)
        if place is None:
            raise Denied(f"{path!r} is not below {self._files}, which this server reads.", hint="Give a path below it.")
        if mode == "repo" and not _holds_repository(place, self._files):
            raise Denied(
                f"No repository that lies below {self._files} is at {path!r}.",
                hint="A repository is read as a whole: name its own folder, or use mode 'path'.",
            )
        return envelope.model_copy(update={"input": {**envelope.input, "path": str(place)}})


def _resolved(path: str, folder: Path) -> Path | None:
    """Give the place a path names, which may be relative to the folder; none where that lies outside of it."""
    try:
        place = (folder / path).resolve()
    except (OSError, ValueError):
        return None  # a loop of links, or a name no file can have
    return place if place.is_relative_to(folder) else None


def _holds_repository(place: Path, folder: Path) -> bool:
    around = (one for one in (place, *place.parents) if one.is_relative_to(folder))
    return any((one / ".git").exists() or (one / "HEAD").is_file() for one in around)
