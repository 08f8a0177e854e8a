"""An engine in MongoDB: a copy of the vectors in a collection. Searches use the space's own vectors."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any

from pymongo import MongoClient
from pymongo.errors import BulkWriteError, ConfigurationError, InvalidURI, OperationFailure, PyMongoError
from pymongo.write_concern import WriteConcern

from treering.extensions.engines.engine_address import EngineAddress, OpenEngine
from treering.extensions.engines.server_engine import (
    ServerEngine,
    check_dimension,
    invalid_address,
    invalid_connection,
    refused,
    unreachable,
)
from treering.ports.search import Vector
from treering.ports.vector_engine import EngineState, Keys, VectorChanges
from treering.retrieval.index.tables import stored_form

_MILLISECONDS = 3_000
_TIMEOUTS = ("serverSelectionTimeoutMS", "connectTimeoutMS", "socketTimeoutMS")
"""Set if the address does not set them. pymongo prefers arguments to the options of an address."""
_BATCH = 500
_STATES, _VECTORS = "treering_states", "treering_vectors"
_DATABASE = "treering"
_DURABLE = WriteConcern(w="majority", j=True)


class MongoEngine(ServerEngine):
    """`ports.vector_engine.VectorEngine` over two collections shared by spaces.

    Needs no transactions, and therefore no replica set: the state is written last, and changes are idempotent. A `lent`
    client stays open.
    """

    def __init__(
        self, client: Any, database: str | None, shown: str, mark: str, dimension: int, *, lent: bool = False
    ) -> None:
        super().__init__(shown, dimension, client, lent=lent)
        self._mark = mark
        opened = client[database] if database else client.get_default_database(_DATABASE)
        self._states, self._vectors = (
            opened.get_collection(name, write_concern=_DURABLE) for name in (_STATES, _VECTORS)
        )

    @property
    def kind(self) -> str:
        """The name of the engine for users."""
        return "MongoDB, searched in the space"

    @property
    def searches(self) -> bool:
        """Return false."""
        return False

    def state(self) -> EngineState | None:
        """Return the state stored on the server."""
        with self._answering():
            document = self._states.find_one({"_id": self._mark})
        return None if document is None else self._state_of(document)

    def begin(self, state: EngineState) -> None:
        """Delete everything, and store a state without vectors."""
        with self._answering():
            self._states.delete_one({"_id": self._mark})
            self._vectors.delete_many(self._own())
            self._keep(replace(state, count=0))

    def apply(self, changes: VectorChanges, state: EngineState) -> None:
        """Apply changes, then store the new state."""
        self._check(changes)
        with self._answering():
            for start in range(0, len(changes.keys), _BATCH):
                keys = changes.keys[start : start + _BATCH]
                self._vectors.delete_many({"_id": {"$in": [self._id(key) for key in keys]}})
                rows = [self._row(key, changes.vectors[key]) for key in keys if key in changes.vectors]
                if rows:
                    self._vectors.insert_many(rows, ordered=False)
            self._keep(replace(state, count=self._vectors.count_documents(self._own())))

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys | None:  # noqa: ARG002 - the port's
        """Return `None`: MongoDB without a search node cannot search vectors."""
        check_dimension(vector, self._dimension)
        return None

    def drop(self) -> None:
        """Delete the documents of the space."""
        with self._answering():
            self._states.delete_one({"_id": self._mark})
            self._vectors.delete_many(self._own())

    def _own(self) -> dict[str, Any]:
        # By the prefix of the id, which is always indexed.
        return {"_id": {"$gte": f"{self._mark}:", "$lt": f"{self._mark};"}}

    def _id(self, key: int) -> str:
        return f"{self._mark}:{key}"

    def _row(self, key: int, vector: Vector) -> dict[str, Any]:
        return {"_id": self._id(key), "key": key, "vector": stored_form(vector).astype("<i2").tobytes()}

    def _keep(self, state: EngineState) -> None:
        self._states.replace_one({"_id": self._mark}, asdict(state), upsert=True)

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except (OperationFailure, BulkWriteError) as error:
            raise refused(self._shown, error.code) from error
        except PyMongoError as error:
            raise unreachable(self._shown, error) from error


def open_mongodb(address: EngineAddress, mark: str, dimension: int) -> MongoEngine:
    """Open the engine at an address, without connecting. Raises `InvalidInput`."""
    timeouts: dict[str, Any] = {name: _MILLISECONDS for name in _TIMEOUTS if name.lower() not in address.url.lower()}
    try:
        client: Any = MongoClient(address.url, connect=False, **timeouts)
    except (InvalidURI, ConfigurationError, ValueError):
        raise invalid_address(address, "MongoDB", "mongodb://HOST:PORT/DATABASE") from None
    return MongoEngine(client, None, str(address), mark, dimension)


def engine_over_mongodb(connection: object, database: str | None) -> OpenEngine:
    """Return a function that opens engines over a MongoDB client of the program, which stays open.

    Raises `InvalidInput` for another object.
    """
    if not isinstance(connection, MongoClient):
        raise invalid_connection(connection, "MongoDB client", "Give a pymongo.MongoClient, or set memory.mongodb.url.")

    def opened(address: EngineAddress, mark: str, dimension: int) -> MongoEngine:
        return MongoEngine(connection, database, str(address), mark, dimension, lent=True)

    return opened
