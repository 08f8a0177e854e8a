"""A server for tests that speaks MongoDB's protocol: SecantusDB, in a process of its own and a temporary folder."""

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_ENDING_SECONDS = 20


class CannotStart(Exception):
    """There is no such server here, or it does not start."""


class MongoServer:
    """A server of its own."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mongo-"))
        self.url = ""
        self._process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        """Start it, and wait until it tells its address. Raises `CannotStart`."""
        command = [sys.executable, str(Path(__file__).resolve()), str(self.folder / "data")]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command, cwd=self.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
            )
        assert self._process.stdout
        told = next((line.strip() for line in self._process.stdout if line.startswith("mongodb://")), "")
        if not told:
            raise CannotStart((self.folder / "log").read_text()[-1_000:])
        self.url = f"{told.partition('?')[0].rstrip('/')}/tests"

    def stop(self) -> None:
        """End it."""
        if self._process:
            self._process.kill()
            self._process.communicate(timeout=_ENDING_SECONDS)
            self._process = None


def new_server() -> MongoServer:
    """Start a server. Raises `CannotStart`."""
    if importlib.util.find_spec("secantus") is None:
        raise CannotStart("the package secantusdb is not installed")
    server = MongoServer()
    server.start()
    return server


def remove(server: MongoServer) -> None:
    """Stop a server, and remove all it kept."""
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


@contextmanager
def running() -> Iterator[MongoServer]:
    """Run a new server during a block; skip the tests if none can be started."""
    import pytest  # not in the process of the server

    try:
        server = new_server()
    except CannotStart as error:
        pytest.skip(f"no MongoDB server can be started here: {error}")
    try:
        yield server
    finally:
        remove(server)


def _serve(folder: str) -> None:
    """Serve until the process is killed."""
    from secantus import SecantusDBServer

    server = SecantusDBServer(storage_path=folder)
    server.start()
    sys.stdout.write(f"{server.uri}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    _serve(sys.argv[1])
