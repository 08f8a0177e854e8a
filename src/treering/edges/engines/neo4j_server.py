"""A server that speaks Bolt: Cypher in transactions, and its failures in words that repeat nothing secret."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import neo4j
from neo4j.exceptions import ClientError, DriverError, Neo4jError

from treering.core.errors import InvalidInput, Unavailable
from treering.edges.engines.engine_address import EngineAddress

_SECONDS = 5.0
_SECURITY = "Neo.ClientError.Security"
Row = dict[str, Any]
Done = TypeVar("Done")


class Neo4jServer:
    """One database of a server. Nothing is asked of it before the first call, each of which may raise `Unavailable`.

    A `lent` driver stays open.
    """

    def __init__(self, driver: neo4j.Driver, database: str | None, shown: str, *, lent: bool = False) -> None:
        self.shown = shown
        self._driver = driver
        self._database = database
        self._lent = lent

    @classmethod
    def at(cls, address: EngineAddress, *, pool: int) -> "Neo4jServer":
        """Return the database at an address. `pool`: connections at most. Raises `InvalidInput`."""
        given = address.address
        host, _, database = given.place.partition("/")
        try:
            driver = neo4j.GraphDatabase.driver(
                f"{given.scheme}://{_checked(host)}",
                auth=(given.user, given.password) if given.user or given.password else None,
                connection_timeout=_SECONDS,
                max_connection_pool_size=pool,
                connection_acquisition_timeout=2 * _SECONDS,
                max_transaction_retry_time=0,  # meanwhile the space answers itself
                notifications_min_severity="OFF",  # they would be logged: a label without nodes is none of a problem
                telemetry_disabled=True,
            )
        except (ValueError, DriverError):
            raise InvalidInput(
                f"{address} is not an address of Neo4j.", hint="Write neo4j://HOST:PORT/DATABASE."
            ) from None
        return cls(driver, database or None, str(address))

    def rows(self, query: str, /, **parameters: Any) -> list[Row]:
        """Return what one query finds."""
        return self.read(lambda transaction: rows_of(transaction, query, **parameters))

    def read(self, work: Callable[[neo4j.ManagedTransaction], Done]) -> Done:
        """Return what a function reads in one transaction."""
        with self._session() as session:
            return session.execute_read(work)

    def write(self, work: Callable[[neo4j.ManagedTransaction], Done]) -> Done:
        """Return what a function returns that writes in one transaction."""
        with self._session() as session:
            return session.execute_write(work)

    def define(self, statement: str) -> None:
        """Run a statement about indexes or constraints, which has a transaction of its own."""
        self.write(lambda transaction: rows_of(transaction, statement))

    def knows(self, statement: str, /, **parameters: Any) -> bool:
        """Tell whether the server can run a statement; what it says, and what the role may not do, apart."""
        with self._session() as session:
            try:
                session.execute_write(lambda transaction: rows_of(transaction, statement, **parameters))
            except ClientError as error:
                if (error.code or "").startswith(_SECURITY):
                    raise
                return False
            return True

    def close(self) -> None:
        """Close the connections, unless they are somebody else's."""
        if not self._lent:
            self._driver.close()

    @contextmanager
    def _session(self) -> Iterator[neo4j.Session]:
        try:
            with self._driver.session(database=self._database) as session:
                yield session
        except Neo4jError as error:
            raise Unavailable(
                f"{self.shown} refuses: {error.code}.",
                hint="Check the server's log, your rights there, and the password.",
            ) from error
        except (DriverError, OSError) as error:
            # Its message may repeat what it was given.
            raise Unavailable(
                f"{self.shown} cannot be reached ({type(error).__name__}).", hint="Check that the server runs."
            ) from error


def rows_of(transaction: neo4j.ManagedTransaction, query: str, /, **parameters: Any) -> list[Row]:
    """Return the rows of one query in a transaction."""
    return transaction.run(query, parameters).data()


def _checked(host: str) -> str:
    """Return the one host and port of an address. Raises `ValueError` where the driver would, later."""
    host.encode("idna")
    if not host or set(host) & {",", "%"}:
        raise ValueError(host)
    return host
