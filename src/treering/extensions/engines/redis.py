"""An engine in a Redis server: vector sets if the server supports them, else hashes."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from typing import Any
from urllib.parse import quote

import numpy as np
import redis

from treering.core.errors import InvalidInput
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

_SECONDS = 5.0
_BATCH = 500
_BREADTH = 400


class RedisEngine(ServerEngine):
    """`ports.vector_engine.VectorEngine` over keys `treering:{MARK}:…` of one database.

    Changes are applied in one transaction. A server with vector sets searches; others store the vectors in a hash. A
    `lent` client stays open.
    """

    def __init__(self, client: Any, shown: str, mark: str, dimension: int, *, lent: bool = False) -> None:
        super().__init__(shown, dimension, client, lent=lent)
        # The braces place all keys of a space on one node of a cluster.
        self._state_key, self._vectors_key = (f"treering:{{{mark}}}:{part}" for part in ("state", "vectors"))
        self._searches: bool | None = None

    @property
    def kind(self) -> str:
        """The name of the engine for users."""
        with self._answering():
            return "Redis vector set" if self._has_vector_sets() else "Redis hash, searched in the space"

    @property
    def searches(self) -> bool:
        """Whether the server has vector sets."""
        with self._answering():
            return self._has_vector_sets()

    def state(self) -> EngineState | None:
        """Return the state stored on the server."""
        with self._answering():
            content = self._client.get(self._state_key)
        return None if content is None else self._state_in(content)

    def begin(self, state: EngineState) -> None:
        """Delete everything, and store a state without vectors."""
        with self._answering(), self._client.pipeline() as commands:
            commands.unlink(self._vectors_key)
            commands.set(self._state_key, json.dumps(asdict(replace(state, count=0))))
            commands.execute()

    def apply(self, changes: VectorChanges, state: EngineState) -> None:
        """Apply changes and store the new state in one transaction."""
        self._check(changes)
        gone = [str(key) for key in changes.keys if key not in changes.vectors]
        with self._answering():
            known = self._known(changes)
            before = self.state()
            count = (before.count if before else 0) - len(known) + len(changes.vectors)
            with self._client.pipeline() as commands:
                self._write(commands, gone, changes.vectors)
                commands.set(self._state_key, json.dumps(asdict(replace(state, count=count))))
                commands.execute()

    def search(self, vector: Vector, limit: int, allowed: Keys | None) -> Keys | None:
        """Return the nearest passages; `None` for a filter, with which a vector set has a lower recall."""
        check_dimension(vector, self._dimension)
        with self._answering():
            if allowed is not None or not self._has_vector_sets():
                return None
            command = ("VSIM", self._vectors_key, "FP32", vector.astype("<f4").tobytes(), "COUNT", max(limit, 1))
            keys = self._client.execute_command(*command, "EF", max(_BREADTH, 2 * limit))
            return np.array([int(key) for key in keys][:limit], np.int64)

    def drop(self) -> None:
        """Delete the keys of the space."""
        with self._answering():
            self._client.unlink(self._vectors_key, self._state_key)

    def _known(self, changes: VectorChanges) -> list[int]:
        """Return the changed passages that the server stores."""
        has = "VISMEMBER" if self._has_vector_sets() else "HEXISTS"
        with self._client.pipeline(transaction=False) as commands:
            for key in changes.keys:
                commands.execute_command(has, self._vectors_key, str(key))
            return [key for key, there in zip(changes.keys, commands.execute(), strict=True) if there]

    def _write(self, commands: Any, gone: list[str], vectors: Mapping[int, Vector]) -> None:
        if not self._has_vector_sets():
            for start in range(0, len(gone), _BATCH):
                commands.hdel(self._vectors_key, *gone[start : start + _BATCH])
            for key, vector in vectors.items():
                commands.hset(self._vectors_key, str(key), stored_form(vector).astype("<i2").tobytes())
            return
        for name in gone:
            commands.execute_command("VREM", self._vectors_key, name)
        for key, vector in vectors.items():
            added = ("VADD", self._vectors_key, "FP32", vector.astype("<f4").tobytes(), str(key), "NOQUANT")
            commands.execute_command(*added)

    def _has_vector_sets(self) -> bool:
        if self._searches is None:
            try:
                commands = self._client.execute_command("COMMAND LIST", "FILTERBY", "PATTERN", "vadd")
            except redis.exceptions.ResponseError:
                commands = []  # a server without vector sets does not know FILTERBY either
            self._searches = bool(commands)
        return self._searches

    @contextmanager
    def _answering(self) -> Iterator[None]:
        try:
            yield
        except redis.exceptions.ResponseError as error:
            raise refused(self._shown, error) from error
        except redis.exceptions.RedisError as error:
            raise unreachable(self._shown, error) from error


def open_redis(address: EngineAddress, mark: str, dimension: int) -> RedisEngine:
    """Open the engine at an address, without connecting. Raises `InvalidInput`."""
    given = address.address
    if given.options:
        raise InvalidInput(f"{address} has options, but a Redis engine has none.", hint="Remove them.")
    user = f"{quote(given.user, safe='')}:{quote(given.password, safe='')}@" if given.user or given.password else ""
    try:
        client = redis.Redis.from_url(
            f"{given.scheme}://{user}{given.place}", socket_timeout=_SECONDS, socket_connect_timeout=_SECONDS
        )
    except ValueError:
        raise invalid_address(address, "Redis", "redis://HOST:PORT/DATABASE") from None
    return RedisEngine(client, str(address), mark, dimension)


def engine_over_redis(connection: object, _database: str | None) -> OpenEngine:
    """Return a function that opens engines over a Redis client of the program, which stays open.

    A client that decodes responses would damage vectors: a pool with the same settings is opened in place of it. Raises
    `InvalidInput` for another object.
    """
    if not isinstance(connection, redis.Redis):
        raise invalid_connection(connection, "Redis client", "Give a redis.Redis, or set memory.redis.url.")
    pool = connection.connection_pool
    if not pool.connection_kwargs.get("decode_responses"):
        return lambda address, mark, dimension: RedisEngine(connection, str(address), mark, dimension, lent=True)
    kinds = {**pool.connection_kwargs, "decode_responses": False}
    own = redis.ConnectionPool(connection_class=pool.connection_class, **kinds)
    return lambda address, mark, dimension: RedisEngine(redis.Redis(connection_pool=own), str(address), mark, dimension)
