"""A server for tests that speaks Neo4j's Bolt: ArcadeDB, in a process of its own and a temporary folder."""

import shutil
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import neo4j

_ENDING_SECONDS = 20
PASSWORD = "playwithdata"
_DATABASE = "treering"


class CannotStart(Exception):
    """There is no such server here, or it does not start."""


class BoltServer:
    """A server with one database."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="bolt-"))
        self.port = _free_port()
        self._process: subprocess.Popen[str] | None = None

    def url(self, scheme: str = "bolt", **options: str) -> str:
        """The address of its database."""
        asked = "&".join(f"{name}={value}" for name, value in options.items())
        place = f"root:{PASSWORD}@127.0.0.1:{self.port}/{_DATABASE}"
        return f"{scheme}://{place}{'?' if asked else ''}{asked}"

    def start(self) -> None:
        """Start it, and wait until it answers. Raises `CannotStart`."""
        command = [
            sys.executable,
            str(Path(__file__).resolve()),
            str(self.folder / "data"),
            str(_free_port()),
            str(self.port),
        ]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                command,
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                bufsize=1,
            )
        if self._told() != "ready":
            self.stop()
            raise CannotStart((self.folder / "log").read_text()[-1_000:])

    def sql(self, statement: str) -> None:
        """Run a statement of its own language."""
        assert self._process
        assert self._process.stdin
        print(statement, file=self._process.stdin)
        assert self._told() == "done"

    def driver(self) -> neo4j.Driver:
        """Open a driver, as people's tools do."""
        return neo4j.GraphDatabase.driver(
            f"bolt://127.0.0.1:{self.port}", auth=("root", PASSWORD), telemetry_disabled=True
        )

    def ask(self, query: str, **given: Any) -> list[list[Any]]:
        """Return the rows of a query."""
        with self.driver() as driver:
            return [record.values() for record in driver.execute_query(query, given, database_=_DATABASE).records]

    def empty(self) -> None:
        """Remove all nodes."""
        self.ask("MATCH (n) DETACH DELETE n")

    def stop(self) -> None:
        """End it. What it kept stays."""
        if self._process:
            self._process.kill()
            self._process.communicate(timeout=_ENDING_SECONDS)
            self._process = None

    def _told(self) -> str:
        """Return the next word it says that is one of ours; it prints much else. Empty where it ended."""
        assert self._process
        assert self._process.stdout
        words = (line.strip() for line in self._process.stdout)
        return next((word for word in words if word in {"ready", "done", "failed"}), "")


def new_server() -> BoltServer:
    """Start a server. Raises `CannotStart`."""
    server = BoltServer()
    server.start()
    return server


def remove(server: BoltServer) -> None:
    """Stop a server, and remove all it kept."""
    server.stop()
    shutil.rmtree(server.folder, ignore_errors=True)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _serve(folder: str, http_port: int, bolt_port: int) -> None:
    """Serve, and run the statements that come in; until the process is killed."""
    import arcadedb_embedded
    from arcadedb_embedded.exceptions import ArcadeDBError
    from arcadedb_embedded.jvm import start_jvm

    # What a test runs is over before the best code for it would be made.
    start_jvm(heap_size="512m", jvm_args=["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"])
    settings = {"http_port": http_port, "bolt_port": bolt_port, "host": "127.0.0.1"}
    plugin = {"server_plugins": "Bolt:com.arcadedb.bolt.BoltProtocolPlugin"}
    server = arcadedb_embedded.create_server(folder, root_password=PASSWORD, config=settings | plugin)
    server.start()
    database = server.create_database(_DATABASE)
    _say("ready")
    for statement in sys.stdin:
        try:
            database.command("sql", statement.strip())
            _say("done")
        except ArcadeDBError as error:
            sys.stderr.write(str(error))
            _say("failed")


def _say(word: str) -> None:
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
