"""Addresses of engines: read from what people write, printed without what is secret.

faiss:FOLDER[?kind=flat|hnsw]
redis://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE]      rediss:// with encryption
mongodb://[USER[:PASSWORD]@]HOST[:PORT][,…]/DATABASE[?OPTION=VALUE&…]    mongodb+srv:// with servers named in DNS
given:NAME[?OPTION=VALUE&…]                           a connection that the program gives which opens the space
neo4j://[USER[:PASSWORD]@]HOST[:PORT][/DATABASE][?OPTION=VALUE&…]      and the other schemes of Neo4j's drivers
pgvector://[USER[:PASSWORD]@]HOST[:PORT]/DATABASE     a Postgres that has pgvector
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import parse_qsl

from treering.core.errors import InvalidInput
from treering.edges.address import Address, parse_address

FAISS = "faiss"
GIVEN = "given"
NEO4J_SCHEMES = ("neo4j", "neo4j+s", "neo4j+ssc", "bolt", "bolt+s", "bolt+ssc")
"""With `+s` encrypted and the certificate checked, with `+ssc` encrypted and any certificate taken."""
BATCH, POOL = "batch", "pool"
"""Options about how a process works with an engine, and not about what it keeps."""
MONGODB_SCHEMES = ("mongodb", "mongodb+srv")

FORMS = "faiss:FOLDER, pgvector://HOST/DATABASE, redis://HOST:PORT/0, neo4j://HOST:PORT or mongodb://HOST/DATABASE"
_PLAIN = frozenset({FAISS, GIVEN})
_HINT = f"Write {FORMS}."


@dataclass(frozen=True, slots=True, repr=False)
class EngineAddress:
    """Where an engine is. A folder is absolute, so that every process finds it."""

    address: Address

    @property
    def scheme(self) -> str:
        """The kind of engine."""
        return self.address.scheme

    @property
    def folder(self) -> Path:
        """The folder of an engine that keeps files."""
        return Path(self.address.place)

    @property
    def options(self) -> dict[str, str]:
        """What follows the question mark."""
        return dict(self.address.options)

    @property
    def url(self) -> str:
        """The whole address, with its password: for drivers, and to be kept in the space."""
        return self._shown() if self.scheme in _PLAIN else self.address.url

    @property
    def kept_at(self) -> "EngineAddress":
        """The address without what is no matter to what the engine keeps."""
        options = tuple(one for one in self.address.options if one[0] not in {BATCH, POOL})
        return EngineAddress(replace(self.address, options=options))

    def with_options(self, options: Mapping[str, str]) -> "EngineAddress":
        """Return the address with options; those that it has itself stay."""
        return EngineAddress(replace(self.address, options=tuple({**options, **self.options}.items())))

    def __str__(self) -> str:
        return self._shown() if self.scheme in _PLAIN else str(self.address)

    def __repr__(self) -> str:
        return f"EngineAddress({str(self)!r})"

    def _shown(self) -> str:
        options = "&".join(f"{name}={value}" for name, value in self.address.options)
        return f"{self.scheme}:{self.address.place}{'?' if options else ''}{options}"


def parse_engine_address(text: str) -> EngineAddress:
    """Read the address of an engine. Raises `InvalidInput`; what follows a scheme is not repeated."""
    scheme, colon, rest = text.partition(":")
    if not colon:
        raise InvalidInput(f"{text[:80]!r} is not an address of an engine.", hint=_HINT)
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
    """Return the address of an engine over what a program gives. It says what that is, and not where."""
    return EngineAddress(Address(GIVEN, name, options=tuple(options)))
