"""Addresses of engines: parsed, and printed without secrets.

faiss:FOLDER[?kind=flat|hnsw]
redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]      rediss:// with encryption
mongodb://[USER[:PASSWORD]@]HOST[:PORT][,…]/DATABASE[?OPTION=VALUE&…]    mongodb+srv:// with servers named in DNS
given:NAME[?OPTION=VALUE&…]                           a connection passed by the program that opens the space
neo4j://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?OPTION=VALUE&…]      and the other schemes of Neo4j's drivers
pgvector://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE     a Postgres that has pgvector
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args
from urllib.parse import parse_qsl

from treering.core.errors import InvalidInput, Unavailable, nearest, needing
from treering.core.patch import LinkType
from treering.ports.vector_engine import VectorEngine
from treering.registry import Place, Table
from treering.system.address import Address, parse_address

FAISS = "faiss"
GIVEN = "given"
NEO4J_SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
"""`+s`: encrypted, with a verified certificate; `+ssc`: encrypted, with any certificate."""
BATCH, POOL = "batch", "pool"
"""Options for the connection of a process. They do not affect the stored data."""
MONGODB_SCHEMES = ("mongodb", "mongodb+srv")

FORMS = "faiss:FOLDER, pgvector://HOST/DATABASE, redis://HOST:PORT/0, neo4j://HOST:PORT or mongodb://HOST/DATABASE"
_PLAIN = frozenset({FAISS, GIVEN})
ANOTHER_MODEL = "Choose another engine address, or refill this engine with your model: `treering index rebuild`."
_HINT = f"Write {FORMS}."


@dataclass(frozen=True, slots=True, repr=False)
class EngineAddress:
    """The address of an engine. A folder is absolute, so that every process finds it."""

    address: Address

    @property
    def scheme(self) -> str:
        """The kind of engine."""
        return self.address.scheme

    @property
    def folder(self) -> Path:
        """The folder of an engine in files."""
        return Path(self.address.place)

    @property
    def options(self) -> dict[str, str]:
        """The options after the question mark."""
        return dict(self.address.options)

    @property
    def url(self) -> str:
        """The whole address, including the password, for drivers and for storing it in the space."""
        return self._shown() if self.scheme in _PLAIN else self.address.url

    @property
    def kept_at(self) -> "EngineAddress":
        """The address without options that do not affect the stored data."""
        options = tuple(one for one in self.address.options if one[0] not in {BATCH, POOL})
        return EngineAddress(replace(self.address, options=options))

    def with_options(self, options: Mapping[str, str]) -> "EngineAddress":
        """Return the address with additional options. Its own options take precedence."""
        return EngineAddress(replace(self.address, options=tuple({**options, **self.options}.items())))

    def __str__(self) -> str:
        return self._shown() if self.scheme in _PLAIN else str(self.address)

    def __repr__(self) -> str:
        return f"EngineAddress({str(self)!r})"

    def _shown(self) -> str:
        options = "&".join(f"{name}={value}" for name, value in self.address.options)
        return f"{self.scheme}:{self.address.place}{'?' if options else ''}{options}"


def parse_engine_address(text: str) -> EngineAddress:
    """Parse the address of an engine. Raises `InvalidInput`, without repeating secrets."""
    scheme, colon, rest = text.partition(":")
    if not colon:
        raise InvalidInput(f"{text[:80]!r} is not an engine address.", hint=_HINT)
    if scheme.lower() == FAISS:
        folder, _, options = rest.removeprefix("//").partition("?")
        if not folder:
            raise InvalidInput("The address 'faiss:' has no folder.", hint=_HINT)
        place = str(Path(folder).expanduser().absolute())
        return EngineAddress(Address(FAISS, place, options=tuple(parse_qsl(options, keep_blank_values=True))))
    if scheme.lower() == GIVEN:
        name, _, options = rest.partition("?")
        return given_address(name, parse_qsl(options, keep_blank_values=True))
    return EngineAddress(parse_address(text, named=Path()))


def given_address(name: str, options: Iterable[tuple[str, str]] = ()) -> EngineAddress:
    """Return the address of an engine over a connection from the program. It contains the kind of connection only."""
    return EngineAddress(Address(GIVEN, name, options=tuple(options)))


OpenEngine = Callable[[EngineAddress, str, int], VectorEngine]
"""Opens the engine at an address. Arguments: the address, the mark of the stored data, and the dimension."""

OverConnection = Callable[[object, str | None], OpenEngine]
"""Returns a function that opens engines over an open driver, in a database. The driver stays open."""


@dataclass(frozen=True, slots=True)
class EngineBackend:
    """A kind of engine. `load` imports the function that opens it; `extra` names the optional dependencies.

    `shows_graph`: it also stores descriptions of passages. `collects`: changes should be collected, because each write
    takes as long as writing all vectors.
    """

    load: Callable[[], OpenEngine]
    extra: str
    shows_graph: bool = False
    collects: bool = False

    def open(self, address: EngineAddress, mark: str, dimension: int) -> VectorEngine:
        """Open the engine at an address. Raises `MissingExtra`, and the errors of opening it."""
        with needing(self.extra, f"An engine {address.scheme}:…"):
            load = self.load()
        return load(address, mark, dimension)

    def check(self) -> None:
        """Raise `MissingExtra` if the engine's dependencies are missing."""
        with needing(self.extra, "This engine"):
            self.load()


@dataclass(frozen=True, slots=True)
class ConnectionBackend:
    """A kind of engine over an open driver from the program. Fields as for `EngineBackend`."""

    load: Callable[[], OverConnection]
    extra: str
    shows_graph: bool = False

    def over(self, connection: object, database: str | None) -> EngineBackend:
        """Return the backend for a driver. Raises `MissingExtra`, and `InvalidInput` for another driver."""
        with needing(self.extra, f"An engine over a {type(connection).__name__}"):
            load = self.load()
        opener = load(connection, database)
        return EngineBackend(lambda: opener, self.extra, self.shows_graph)


def backend_of(address: EngineAddress, backends: Mapping[str, EngineBackend]) -> EngineBackend:
    """Return the backend of an address. Raises `InvalidInput` for an unknown scheme."""
    backend = backends.get(address.scheme)
    if backend is None:
        raise InvalidInput(f"Unknown engine {address.scheme}:…", hint=_HINT)
    return backend


def _given_by_nobody() -> OpenEngine:
    raise Unavailable(
        "The engine of this space needs a connection from the program, and none was given.",
        hint="Open the space with that connection; `treering index drop` switches back to the space's own vectors.",
    )


def _place(name: str) -> Callable[[], Any]:
    """Return a function that imports a function of this package, `module:name`."""
    found: Place[Any] = Place(f"treering.extensions.engines.{name}")
    return found.load


_REDIS = EngineBackend(_place("redis:open_redis"), "redis")
_NEO4J = EngineBackend(_place("neo4j_engine:open_neo4j"), "neo4j", shows_graph=True)
_MONGODB = EngineBackend(_place("mongo:open_mongodb"), "mongodb")

ENGINES: Table[EngineBackend] = Table(
    "treering.engines",
    lambda: {
        "faiss": EngineBackend(_place("faiss_engine:open_faiss"), "faiss", collects=True),
        "pgvector": EngineBackend(_place("pgvector:open_pgvector"), "postgres"),
        "redis": _REDIS,
        "rediss": _REDIS,
        **dict.fromkeys(NEO4J_SCHEMES, _NEO4J),
        **dict.fromkeys(MONGODB_SCHEMES, _MONGODB),
        GIVEN: EngineBackend(_given_by_nobody, extra=""),
    },
)
"""Backends of engines by the scheme of their address. Entry points name an `EngineBackend`."""

OVER_CONNECTIONS: Mapping[str, ConnectionBackend] = {
    "postgres": ConnectionBackend(_place("pgvector:engine_over_postgres"), "postgres"),
    "redis": ConnectionBackend(_place("redis:engine_over_redis"), "redis"),
    "mongodb": ConnectionBackend(_place("mongo:engine_over_mongodb"), "mongodb"),
    "neo4j": ConnectionBackend(_place("neo4j_engine:engine_over_neo4j"), "neo4j", shows_graph=True),
}
"""Backends for open drivers from the program, by the name of the system."""


LINK_TYPES = tuple(name.upper() for name in get_args(LinkType))
"""Types of relationships for links between objects."""
GRAPH_LABELS = ("TreeringPassage", "TreeringObject", "TreeringEntity")
STATE_LABEL = "TreeringSpace"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,99}")
_KNOWN = ("space", "label", "property", "index", "metric", "relations", BATCH, POOL)
_METRICS = ("cosine", "euclidean")
_PROPERTY, _BATCH, _POOL = "embedding", 500, 100
_MOST = 100_000


@dataclass(frozen=True, slots=True)
class Neo4jOptions:
    """`space`: the name of the space in its nodes. `label`, `property`, `index`: the place of its vectors.

    With a `label`, the vectors of several spaces and nodes of others may share it; without, each space has its own.
    `relations`: the types of links to show. `batch`: rows per statement. `pool`: maximal number of connections.
    """

    space: str = ""
    label: str = ""
    property: str = _PROPERTY
    index: str = ""
    metric: str = _METRICS[0]
    relations: tuple[str, ...] = ()
    batch: int = _BATCH
    pool: int = _POOL

    @classmethod
    def of(cls, address: EngineAddress) -> "Neo4jOptions":
        """Parse the options of an address. Raises `InvalidInput` for the first wrong one."""
        given = address.options
        for name in given:
            if name not in _KNOWN:
                raise InvalidInput(f"{address} has an unknown option {name!r}.", hint=nearest(name, _KNOWN))
        label = _name(given, "label")
        return cls(
            space=given.get("space", ""),
            label=label,
            property=_name(given, "property") or _PROPERTY,
            index=_index(given.get("index", ""), label),
            metric=_chosen("metric", given.get("metric", _METRICS[0]), _METRICS),
            relations=tuple(
                _chosen("relations", one, LINK_TYPES) for one in given.get("relations", "").split(",") if one
            ),
            batch=_number(given, BATCH, _BATCH),
            pool=_number(given, POOL, _POOL),
        )


def _name(given: Mapping[str, str], option: str) -> str:
    name = given.get(option, "")
    if name and not _NAME.fullmatch(name):
        raise InvalidInput(
            f"{option}={name[:100]!r} is not a valid name.",
            hint="Start with a letter; use at most 100 letters, digits and _.",
        )
    if name in {*GRAPH_LABELS, STATE_LABEL}:
        raise InvalidInput(f"{option}={name!r} is a label of the graph.", hint="Use another name for the vectors.")
    return name


def _index(name: str, label: str) -> str:
    if name and not label:
        raise InvalidInput(
            f"index={name[:100]!r} names an index, but no label for its nodes is given.",
            hint="Add label=NAME.",
        )
    return name


def _chosen(option: str, given: str, known: tuple[str, ...]) -> str:
    if given not in known:
        raise InvalidInput(f"Unknown value {option}={given[:100]!r}.", hint=nearest(given, known))
    return given


def _number(given: Mapping[str, str], option: str, default: int) -> int:
    text = given.get(option, str(default))
    if not (text.isdecimal() and 1 <= int(text[:9]) <= _MOST):
        raise InvalidInput(f"{option}={text[:100]!r} is not a number from 1 to {_MOST:,}.", hint=f"Write {default}.")
    return int(text)
