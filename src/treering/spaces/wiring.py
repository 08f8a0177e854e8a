"""The composition root: an address and settings in, a working engine out."""

import json
import logging
import stat
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar
from uuid import uuid4

from pydantic import ValidationError

from treering.core.audit import Anchor
from treering.core.errors import Corrupt, Denied, InvalidInput, MissingExtra, NotFound, Unavailable, UnknownBackend
from treering.core.objects import Channel, invalid_fields
from treering.core.patch import Author
from treering.core.policy import Policy
from treering.models.bge import BUILT_IN_EMBEDDER, BgeSmall
from treering.models.vectoriser import BackgroundVectoriser
from treering.ports.adapter import Adapter, FileAccess, ReadLimits
from treering.ports.format import Segmenter
from treering.ports.index import Index
from treering.ports.ledger import AnchorStore, Ledger
from treering.ports.models import Embedder, Reranker
from treering.ports.runtime import Clock, SpacesWithWork
from treering.ports.stores import AccessKeys, BackUp, Needs, ServerDirectory, Stores
from treering.registry import Place, Table
from treering.retrieval.index.engine_following import PassageDescriber
from treering.retrieval.index.rounds import make_whole
from treering.sources.reading.access import AnyFile
from treering.stores.engines.engine_address import (
    GIVEN,
    MONGODB_SCHEMES,
    NEO4J_SCHEMES,
    ConnectionBackend,
    EngineAddress,
    EngineBackend,
    OpenEngine,
    OverConnection,
)
from treering.stores.engines.selection import FEW_ALLOWED, EngineIndex, EngineVectors, SelectedEngine
from treering.system.address import MEMORY, Address
from treering.system.machine import SystemClock, make_folder, write_new
from treering.system.settings import Settings
from treering.verbs.engine import Engine, Progress, Vectoriser

if TYPE_CHECKING:
    from treering.stores.engines.host import HostStore

# Where the head of an audit log is kept outside its space.


class FileAnchor:
    """A small file, best on another disk or in a place that is backed up. Replaced atomically."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> Anchor | None:
        """Return the head kept. Raises `Corrupt` where the file is not an anchor."""
        try:
            return Anchor.model_validate_json(self._path.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None
        except (OSError, UnicodeDecodeError, ValidationError) as error:
            raise Corrupt(
                f"The anchor {self._path} cannot be read.",
                hint="Restore it from a backup. To start a new anchor, remove it.",
            ) from error

    def write(self, anchor: Anchor) -> None:
        """Keep a head. A new file is for its owner alone; one that is there keeps its mode."""
        temporary = self._path.with_name(f"{self._path.name}.{uuid4().hex}.tmp")
        try:
            make_folder(self._path.parent)
            try:
                write_new(temporary, json.dumps(anchor.model_dump()).encode())
                with suppress(FileNotFoundError):
                    temporary.chmod(stat.S_IMODE(self._path.stat().st_mode))
                temporary.replace(self._path)
            finally:
                temporary.unlink(missing_ok=True)
        except OSError as error:
            raise Unavailable(
                f"The anchor {self._path} cannot be written: {error.strerror}.",
                hint="The commit itself is durable; make the anchor writable.",
            ) from error


class CallbackAnchor:
    """Hands each new head to a function of the caller's, who keeps it wherever they like."""

    def __init__(self, tell: Callable[[Anchor], None]) -> None:
        self._tell = tell

    def read(self) -> Anchor | None:
        """Return nothing: the caller compares."""
        return None

    def write(self, anchor: Anchor) -> None:
        """Tell the caller."""
        self._tell(anchor)


_Item = TypeVar("_Item")
_LOG = logging.getLogger(__name__)

AnchorPlace = Path | str | Callable[[Anchor], None]

_Opens = TypeVar("_Opens", covariant=True)

OpenStores = Callable[[Address, Needs], Stores]


@dataclass(frozen=True, slots=True)
class Backend(Generic[_Opens]):
    """A technology that spaces are kept in.

    `load` imports what opens them, when the first is opened. `extra`: the optional dependencies it imports; empty
    where it needs none.
    """

    load: Callable[[], _Opens]
    extra: str = ""


class LazyMapping(Mapping[str, _Item]):
    """A table that is made when it is first asked: who only asks a question does not wait for what reads files."""

    def __init__(self, make: Callable[[], Mapping[str, _Item]]) -> None:
        self._make = make

    def __getitem__(self, name: str) -> _Item:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    @cached_property
    def _made(self) -> Mapping[str, _Item]:
        return self._make()


def _adapters(access: FileAccess) -> Mapping[str, Adapter]:
    from treering.sources.folders.path import PathAdapter
    from treering.sources.formats import formats_here
    from treering.sources.plugins import installed_adapters
    from treering.sources.repository.repo import RepoAdapter
    from treering.sources.web.url import UrlAdapter

    formats = formats_here()
    return {
        **installed_adapters(),
        "path": PathAdapter(formats, access=access),
        "repo": RepoAdapter(formats, access=access),
        "url": UrlAdapter(formats),
    }


def _segmenters() -> Mapping[str, Segmenter]:
    from treering.sources.formats import formats_here

    return formats_here().segmenters


def _given_by_nobody() -> OpenEngine:
    raise Unavailable(
        "The engine of this space works over a connection that a program gives, and none was given here.",
        hint="Open the space with that connection; `treering index drop` goes back to its own vectors.",
    )


def _engine_at(place: str, extra: str, *, shows_graph: bool = False) -> EngineBackend:
    found: Place[OpenEngine] = Place(f"treering.stores.engines.{place}")
    return EngineBackend(found.load, extra=extra, shows_graph=shows_graph)


def _over_connection(place: str, extra: str, *, shows_graph: bool = False) -> ConnectionBackend:
    found: Place[OverConnection] = Place(f"treering.stores.engines.{place}")
    return ConnectionBackend(found.load, extra=extra, shows_graph=shows_graph)


def _ledger_at(place: str, extra: str = "") -> Backend[OpenStores]:
    found: Place[OpenStores] = Place(f"treering.stores.{place}")
    return Backend(found.load, extra=extra)


ENGINES: Table[EngineBackend] = Table(
    "treering.engines",
    {
        "faiss": _engine_at("faiss_engine:open_faiss", "faiss"),
        "pgvector": _engine_at("pgvector:open_pgvector", "postgres"),
        "redis": _engine_at("redis:open_redis", "redis"),
        "rediss": _engine_at("redis:open_redis", "redis"),
        **{one: _engine_at("neo4j_engine:open_neo4j", "neo4j", shows_graph=True) for one in NEO4J_SCHEMES},
        **{one: _engine_at("mongo:open_mongodb", "mongodb") for one in MONGODB_SCHEMES},
        GIVEN: EngineBackend(_given_by_nobody, extra=""),
    },
)
"""Engines that search vectors beside a space, by the scheme of their address. Entry points name an `EngineBackend`."""

OVER_CONNECTIONS: Mapping[str, ConnectionBackend] = {
    "postgres": _over_connection("pgvector:engine_over_postgres", "postgres"),
    "redis": _over_connection("redis:engine_over_redis", "redis"),
    "mongodb": _over_connection("mongo:engine_over_mongodb", "mongodb"),
    "neo4j": _over_connection("neo4j_engine:engine_over_neo4j", "neo4j", shows_graph=True),
}
"""Engines over an open driver that a program gives, by the name of their technology."""

BACKENDS: Table[Backend[OpenStores]] = Table(
    "treering.ledgers",
    {
        "sqlite": _ledger_at("sqlite.opening:open_stores"),
        "postgresql": _ledger_at("postgres.opening:open_stores", extra="postgres"),
    },
)
"""Databases that spaces are kept in, by the scheme of an address. Entry points name a `Backend`."""

EMBEDDERS: Table[Callable[[int], Embedder]] = Table(
    "treering.embedders", {BUILT_IN_EMBEDDER: BgeSmall, "static": Place("treering.models.static_model:StaticEmbedder")}
)
"""What makes an embedding model that uses so many threads, by the name that `TREERING_EMBEDDER` says."""

RERANKERS: Table[Callable[[str, int], Reranker]] = Table(
    "treering.rerankers", {"onnx": Place("treering.models.cross_encoder:open_reranker")}
)
"""What opens a reranker by its whole name, with so many threads, by what stands before the colon of the name."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How a space is opened."""

    address: Address
    settings: Settings
    author: Author
    anchor: AnchorPlace | None = None
    policy: Path | None = None
    create: bool = True
    arriving: bool = False
    """Whether a copy is to be put there (`ports.stores.Needs`)."""
    background: bool = True
    whole: bool = True
    """Whether an index that is being made anew is finished before the space is handed out, where nothing runs in the
    background."""
    embedder: Embedder | None = None
    reranker: Reranker | str | None = None
    """What reads hits again, or its place; by default what the settings name."""
    files: FileAccess = field(default_factory=AnyFile)
    """Which of the files that a call names may be read."""
    connection: object | None = None
    """An open driver of the database that the space lies in, used and not closed."""
    given_engine: "EngineBackend | HostStore | None" = None
    """What opens the engine at an address `given:…`, or the store of the host that lies there."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A working engine, what closes it, what copies its space, and what does so many steps of the work that waits."""

    engine: Engine
    close: Callable[[], None]
    back_up: BackUp
    take_turn: Callable[[int], None]


def open_engine(opening: Opening, *, backends: Mapping[str, Backend[OpenStores]] = BACKENDS) -> Opened:
    """Open the space an address names. What waits is begun, where it is made in the background.

    Raises `UnknownBackend`, `MissingExtra`, and whatever its stores raise.
    """
    load_stores = _loaded(opening.address, backends)
    embedder = _listening(_embedder(opening), opening)
    given = _policy_file(opening.address.place if opening.address.is_file else MEMORY, opening)
    needs = _needs(opening, embedder, given)
    with ExitStack() as closing:
        stores = load_stores(opening.address, needs)
        closing.callback(stores.close)
        if given and not stores.read_only:
            _put_in_force(given, stores.ledger, opening.author)
        selected = _selected(opening, stores, needs, embedder)
        if selected:
            closing.callback(selected.close)
            few = _compared_one_by_one(opening.given_engine)
            vectors = EngineVectors(stores.index.vectors, selected.feed, selected.in_use, selected.failed, few=few)
            stores = replace(stores, index=EngineIndex(stores.index, vectors, selected))
        upkeep = stores.index.upkeep
        vectoriser = BackgroundVectoriser(
            stores.index.vectors,
            stores.leases,
            embedder,
            needs.clock,
            claims=stores.claims,
            upkeep=None if stores.read_only else upkeep,
            follow=selected.follow if selected and not stores.read_only else None,
        )
        closing.callback(vectoriser.stop)
        engine = replace(_engine(opening, stores, embedder, vectoriser, needs.clock), selection=selected)
        if not stores.read_only:
            _catch_up(opening, stores.index, vectoriser, is_due=selected.is_due if selected else lambda: False)
        return Opened(engine, closing.pop_all().close, stores.back_up, vectoriser.take_turn)


def open_ledger(opening: Opening, *, backends: Mapping[str, Backend[OpenStores]] = BACKENDS) -> Ledger:
    """Open the ledger of the space an address names, without an engine around it. Closing it closes the space.

    Raises `UnknownBackend`, `MissingExtra` and whatever its stores raise.
    """
    return open_stores(opening, backends=backends).ledger


def open_stores(opening: Opening, *, backends: Mapping[str, Backend[OpenStores]] = BACKENDS) -> Stores:
    """Open all that the space an address names keeps, without an engine around it. Raises as `open_ledger`."""
    return _loaded(opening.address, backends)(opening.address, _needs(opening, _embedder(opening), None))


def postgres_plan(*, writer: str, reader: str, tablespaces: Sequence[str], citus: bool) -> str:
    """Return SQL for an administrator of a Postgres. Raises `InvalidInput`, `MissingExtra`."""
    with _postgres_needed("A plan for Postgres"):
        from treering.stores.postgres.plan import Wanted, plan_of
    return plan_of(Wanted(writer=writer, reader=reader, tablespaces=tuple(tablespaces), citus=citus))


def postgres_of(connection: object) -> str:
    """Return which database a pool of connections is of: its host, port and name. Raises `InvalidInput`."""
    try:
        from treering.stores.postgres.connection.pools import LentPool
    except ModuleNotFoundError as error:
        raise MissingExtra("postgres", needed_for="A space in a Postgres database") from error
    return LentPool(connection).place()


def spaces_with_work(address: Address) -> SpacesWithWork:
    """Return what looks for spaces with work, in the database of an address. Raises as opening one of them does."""
    if address.scheme != "postgresql":
        raise InvalidInput(
            f"{address} is not in a database of many spaces.",
            hint="Name one: postgresql://USER@HOST/DATABASE?space=ANY.",
        )
    with _postgres_needed("Work for spaces on Postgres"):
        from treering.stores.postgres.connection.target import target_of
        from treering.stores.postgres.opening import WaitingSpaces
    target = target_of(address)
    if target.directory:
        raise InvalidInput(
            f"{address} is a directory of servers, and work is done for the spaces of one server.",
            hint="Name a server, without directory=on, and run one such process for each.",
        )
    return WaitingSpaces(target)


def postgres_servers(directory: Address, *, embedder: Embedder | None = None) -> ServerDirectory:
    """Return the servers of a directory. Raises `InvalidInput`, `MissingExtra`."""
    with _postgres_needed("A directory of servers"):
        from treering.stores.postgres.relocating import PostgresServers
    model = embedder or BgeSmall()
    return PostgresServers(directory, clock=SystemClock(), model=(model.model_id, model.dimension))


def open_access_keys(address: Address, *, create: bool) -> AccessKeys:
    """Open the access keys that an address names: a file of their own, or those of a Postgres database.

    Raises `NotFound` where there are none and `create` is false, `UnknownBackend`, `InvalidInput` for another file.
    """
    if address.scheme not in BACKENDS:
        raise UnknownBackend(address.scheme, known=BACKENDS)
    if address.scheme == "postgresql":
        with _postgres_needed("Access keys in a Postgres database"):
            from treering.stores.postgres.access_keys import PostgresAccessKeys
        return PostgresAccessKeys(address)
    from treering.stores.sqlite.access_keys import SqliteAccessKeys

    try:
        return SqliteAccessKeys(address, create=create)
    except NotFound as error:
        raise NotFound(
            f"There are no access keys at {address}.",
            hint="Make one with `treering key create NAME`, or name the place of the keys with --keys.",
        ) from error


@contextmanager
def _postgres_needed(what: str) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingExtra("postgres", needed_for=what) from error


def author(actor: str | None, channel: Channel, settings: Settings) -> Author:
    """Name who writes."""
    return Author(actor=actor or settings.actor, channel=channel)


def start_waiting(engine: Engine) -> None:
    """Have the vectors made that wait, if nobody here is at it. Returns at once."""
    lag = engine.index.vectors.lag()
    if lag.pending or lag.behind:
        engine.vectoriser.start()


class OnRequest:
    """A vectoriser that works only when somebody waits for it."""

    def __init__(self, inner: Vectoriser) -> None:
        self._inner = inner

    def start(self) -> None:
        """Leave what waits to a later request."""

    def finish(self, progress: Progress) -> None:
        """Embed everything that waits."""
        self._inner.finish(progress)


def _embedder(opening: Opening) -> Embedder:
    return opening.embedder or open_embedder(opening.settings)


def open_embedder(settings: Settings) -> Embedder:
    """Return the embedding model that the settings name. Raises `InvalidInput` for one that is not installed."""
    name = settings.embedder or BUILT_IN_EMBEDDER
    if name not in EMBEDDERS:
        raise InvalidInput(
            f"There is no embedder {name!r}.",
            hint=f"Known are {', '.join(EMBEDDERS)}; another package adds one by an entry point.",
            details={"field": "TREERING_EMBEDDER"},
        )
    return EMBEDDERS[name](settings.threads)


def _loaded(address: Address, backends: Mapping[str, Backend[_Opens]]) -> _Opens:
    """Import what opens the spaces of a scheme."""
    if address.scheme not in backends:
        raise UnknownBackend(address.scheme, known=backends)
    backend = backends[address.scheme]
    try:
        return backend.load()
    except ModuleNotFoundError as error:
        ours = (error.name or "").partition(".")[0] == __name__.partition(".")[0]
        if ours or not backend.extra:
            raise  # it is not the extra that is missing
        raise MissingExtra(backend.extra, needed_for=f"A space with an address {address.scheme}:…") from error


@dataclass(frozen=True, slots=True)
class _PolicyFile:
    """A policy that somebody wrote down, and the name of its file."""

    name: str
    policy: Policy


def _needs(opening: Opening, embedder: Embedder, given: _PolicyFile | None) -> Needs:
    return Needs(
        clock=SystemClock(),
        policy=given.policy if given else None,
        model_id=embedder.model_id,
        dimension=embedder.dimension,
        anchor=_anchor(opening),
        create=opening.create,
        connection=opening.connection,
        arriving=opening.arriving,
    )


def _engine(
    opening: Opening, stores: Stores, embedder: Embedder, vectoriser: BackgroundVectoriser, clock: Clock
) -> Engine:
    return Engine(
        ledger=stores.ledger,
        index=stores.index,
        embedder=embedder,
        vectoriser=vectoriser if opening.background else OnRequest(vectoriser),
        jobs=stores.jobs,
        leases=stores.leases,
        backlog=stores.backlog,
        protection=stores.protection,
        adapters=LazyMapping(partial(_adapters, opening.files)),
        files=opening.files,
        clock=clock,
        author=opening.author,
        limits=ReadLimits(),
        segmenters=LazyMapping(_segmenters),
        reranker=_reranker(opening),
    )


def _reranker(opening: Opening) -> Reranker | None:
    """Return the reranker that was given, or open the one that is named. Raises as `open_reranker`."""
    given = opening.reranker or opening.settings.reranker
    if not isinstance(given, str):
        return given
    if not given:
        return None
    scheme = given.partition(":")[0]
    opens = RERANKERS[scheme if scheme in RERANKERS else "onnx"]  # which says what is wrong with another name
    return opens(given, opening.settings.threads)


def _catch_up(opening: Opening, index: Index, vectoriser: BackgroundVectoriser, *, is_due: Callable[[], bool]) -> None:
    """Have what waits made in the background; an index that nobody would finish is finished here.

    `is_due` tells whether the engine of the space has something to follow up.
    """
    if not opening.background:
        if opening.whole:
            make_whole(index)
        return
    lag = index.vectors.lag()
    if lag.pending or lag.behind or is_due():
        vectoriser.start()


def _selected(opening: Opening, stores: Stores, needs: Needs, embedder: Embedder) -> SelectedEngine | None:
    """Return which engine searches the vectors of a space, if its stores can tell engines of them."""
    if stores.feed is None:
        return None
    engines: Mapping[str, EngineBackend] = ENGINES
    if opening.given_engine:
        engines = {**ENGINES, GIVEN: _given(opening.given_engine, stores, embedder)}
    return SelectedEngine(
        stores.feed,
        stores.leases,
        needs.clock,
        engines,
        model=needs.model_id,
        dimension=needs.dimension,
        describe=PassageDescriber(stores.index, stores.ledger),
    )


def _listening(embedder: Embedder, opening: Opening) -> Embedder:
    """Return an embedder that remembers questions, where a store of the host is asked with them."""
    if opening.given_engine is None or isinstance(opening.given_engine, EngineBackend):
        return embedder
    from treering.stores.engines.host import QuestionRecorder

    return QuestionRecorder(embedder)


def _compared_one_by_one(given: "EngineBackend | HostStore | None") -> int:
    """Return how many passages that pass a filter are compared before the engine is asked: a store says that itself."""
    return FEW_ALLOWED if given is None or isinstance(given, EngineBackend) else given.store.compare_up_to


def _given(given: "EngineBackend | HostStore", stores: Stores, embedder: Embedder) -> EngineBackend:
    """Return what opens the engine that a program gives."""
    if isinstance(given, EngineBackend):
        return given
    from treering.retrieval.index.engine_following import PassageTexts
    from treering.stores.engines.host import HostEngine, QuestionRecorder, StateFile

    texts, file = PassageTexts(stores.index.passages, stores.ledger), StateFile(given.file)
    recorder = embedder if isinstance(embedder, QuestionRecorder) else QuestionRecorder(embedder)

    def opened(_address: EngineAddress, mark: str, dimension: int) -> HostEngine:
        return HostEngine(given.store, mark, dimension, file=file, texts=texts, question=recorder.question)

    return EngineBackend(lambda: opened, extra="")


def _policy_file(path: str, opening: Opening) -> _PolicyFile | None:
    """Read the policy that was named, which has to be there, or the one beside the space, which may not."""
    named = opening.policy or (Path(opening.settings.policy) if opening.settings.policy else None)
    if named:
        policy = read_policy(named)
        if policy is None:
            raise NotFound(
                f"There is no policy file {named}.",
                hint="Correct its path, or name none: then the policy that the space holds stays in force.",
            )
        return _PolicyFile(named.name, policy)
    beside = Path(path).with_suffix(".policy.toml")
    policy = None if path == MEMORY else read_policy(beside)
    return _PolicyFile(beside.name, policy) if policy else None


def _put_in_force(given: _PolicyFile, ledger: Ledger, by: Author) -> None:
    """Put the policy of a file in force, where the space holds another one. Loosening it is left to a person."""
    if ledger.policy == given.policy:
        return
    name = given.name.encode(errors="replace").decode()  # a file's name may not be text
    try:
        ledger.change_policy(given.policy, by=by, reason=f"Read from the policy file {name}.")
    except Denied as error:
        _LOG.warning("%s is not in force: %s %s", given.name, error.message, error.hint)


def _anchor(opening: Opening) -> AnchorStore | None:
    place = opening.anchor or opening.settings.anchor
    if not place:
        return None
    return CallbackAnchor(place) if callable(place) else FileAnchor(Path(place))


# Reading a space's policy file.


def read_policy(path: Path) -> Policy | None:
    """Read a policy (TOML, the fields of `core.policy.Policy`); `None` where there is no file.

    Raises `InvalidInput` naming the file and each wrong field.
    """
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
        return Policy.model_validate(data)
    except FileNotFoundError:
        return None
    except ValidationError as error:
        problem = invalid_fields(error, known=sorted(Policy.model_fields))
        raise InvalidInput(f"{path}: {problem.message}", hint=problem.hint, details=problem.details) from error
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise InvalidInput(f"{path} cannot be read as TOML: {error}.", hint="Correct it, or remove it.") from error
