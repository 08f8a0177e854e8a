"""The composition root: an address and settings in, a working engine out."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from treering.core.errors import InvalidInput, MissingExtra, NotFound, UnknownBackend
from treering.core.objects import Channel
from treering.core.patch import Author
from treering.models.onnx import BUILT_IN_EMBEDDER, SCHEME, BgeSmall
from treering.models.vectoriser import BackgroundVectoriser, OnRequest
from treering.models.vocabulary import word_rarity
from treering.ports.adapter import Adapter, FileAccess, ReadLimits, TreeLookup
from treering.ports.format import Segmenter
from treering.ports.index import Index, quick_vectors
from treering.ports.ledger import Ledger
from treering.ports.models import Embedder, Reranker, is_quick
from treering.ports.runtime import Clock, SpacesWithWork
from treering.ports.stores import AccessKeys, BackUp, Needs, Stores
from treering.registry import Place, Table
from treering.retrieval.index.engine_mirror import MAX_COMPARED
from treering.retrieval.index.lookup import IndexLookup
from treering.retrieval.index.passage_texts import PassageDescriber
from treering.retrieval.index.rounds import make_whole
from treering.sources.reading.access import AnyFile
from treering.spaces.policy_and_anchor import AnchorPlace, PolicyFile, anchor_at, policy_file, put_in_force
from treering.stores.engines.engine_address import ENGINES, GIVEN, EngineAddress, EngineBackend
from treering.stores.engines.selection import EngineIndex, SelectedEngine
from treering.system.address import MEMORY, Address
from treering.system.machine import SystemClock, is_busy, shared_secret
from treering.system.settings import Settings
from treering.system.tracked_space import refuse_tracked
from treering.verbs.engine import Engine

if TYPE_CHECKING:
    from treering.stores.engines.host import HostStore
    from treering.stores.postgres.connection.pools import LentPool

_Item = TypeVar("_Item")
_LOG = logging.getLogger(__name__)

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
    from treering.sources.formats import formats_here
    from treering.sources.path import PathAdapter
    from treering.sources.plugins import installed_adapters
    from treering.sources.repository.repo import RepoAdapter
    from treering.sources.url import UrlAdapter

    formats = formats_here()
    return {
        **installed_adapters(),
        "path": PathAdapter(formats, access=access),
        "repo": RepoAdapter(formats, access=access),
        "url": UrlAdapter(formats),
    }


def _trees(access: FileAccess) -> Callable[[], TreeLookup]:
    @cache
    def looked_up() -> TreeLookup:
        from treering.sources.repository.repo_selection import RepositoryTrees

        return RepositoryTrees(access)

    return looked_up


def _segmenters() -> Mapping[str, Segmenter]:
    from treering.sources.formats import formats_here

    return formats_here().segmenters


def _ledger_at(place: str, extra: str = "") -> Backend[OpenStores]:
    found: Place[OpenStores] = Place(f"treering.stores.{place}")
    return Backend(found.load, extra=extra)


BACKENDS: Table[Backend[OpenStores]] = Table(
    "treering.ledgers",
    {
        "sqlite": _ledger_at("sqlite.opening:open_stores"),
        "postgresql": _ledger_at("postgres.opening:open_stores", extra="postgres"),
    },
)
"""Databases that spaces are kept in, by the scheme of an address. Entry points name a `Backend`."""

ERASURE_KEY = "erasure.key"
"""The file of the data folder that keys what a space remembers of erased texts."""
_MODELS = "treering.models."
QUICK_EMBEDDER = "static"
EMBEDDERS: Table[Callable[[int], Embedder]] = Table(
    "treering.embedders",
    {BUILT_IN_EMBEDDER: BgeSmall, QUICK_EMBEDDER: Place("treering.models.static_model:StaticEmbedder")},
)
"""What makes an embedding model that uses so many threads, by the name that `TREERING_EMBEDDER` says."""

RERANKERS: Table[Callable[[str, int], Reranker]] = Table(
    "treering.rerankers",
    {
        "onnx": Place("treering.models.onnx:open_reranker"),
        "sentence-transformers": Place("treering.models.sentence_reranker:open_sentence_reranker"),
    },
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
    quick: bool | None = None
    """Whether texts get a vector of the quick model when they are written.

    By default as the settings say, but not beside an embedder of a class that is not of this package.
    """
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

    Raises `UnknownBackend`, `MissingExtra`, `Denied` for a space that came with a repository, and whatever its stores
    raise.
    """
    _check_trust(opening)
    load_stores = _loaded(opening.address, backends)
    _require_no_folder(opening.address)
    embedder = _listening(_embedder(opening), opening)
    given = policy_file(opening.address.place if opening.address.is_file else MEMORY, _named_policy(opening))
    quick = _quick(opening, embedder)
    needs = _needs(opening, embedder, given, quick)
    with ExitStack() as closing:
        stores = load_stores(opening.address, needs)
        closing.callback(stores.close)
        if given and not stores.read_only:
            put_in_force(given, stores.ledger, opening.author)
        selected = _selected(opening, stores, needs, embedder)
        if selected:
            closing.callback(selected.close)
            compared = _compared_one_by_one(opening.given_engine)
            stores = replace(stores, index=EngineIndex.over(stores.index, selected, compared=compared))
        upkeep = stores.index.upkeep
        vectoriser = BackgroundVectoriser(
            stores.index.vectors,
            stores.leases,
            embedder,
            needs.clock,
            claims=stores.claims,
            quick=(meanwhile, quick) if quick and (meanwhile := quick_vectors(stores.index)) else None,
            upkeep=None if stores.read_only else upkeep,
            follow=selected.follow if selected and not stores.read_only else None,
            is_busy=is_busy,
        )
        closing.callback(vectoriser.stop)
        engine = _engine(opening, stores, embedder, vectoriser, needs.clock)
        engine = replace(engine, selection=selected, quick=quick if quick_vectors(stores.index) else None)
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
    _check_trust(opening)
    embedder = _embedder(opening)
    needs = _needs(opening, embedder, None, _quick(opening, embedder))
    return _loaded(opening.address, backends)(opening.address, needs)


def _check_trust(opening: Opening) -> None:
    if opening.address.file and not opening.settings.trust:
        refuse_tracked(opening.address.file)


def postgres_plan(*, writer: str, reader: str, tablespaces: Sequence[str], citus: bool) -> str:
    """Return SQL for an administrator of a Postgres. Raises `InvalidInput`, `MissingExtra`."""
    with _postgres_needed("A plan for Postgres"):
        from treering.stores.postgres.plan import Wanted, plan_of
    return plan_of(Wanted(writer=writer, reader=reader, tablespaces=tuple(tablespaces), citus=citus))


def postgres_of(connection: object) -> str:
    """Return which database a pool of connections is of: its host, port and name. Raises `InvalidInput`."""
    return _lent_pool(connection).place()


def check_postgres(connection: object) -> None:
    """Raise `InvalidInput` for what is no pool of Postgres connections that a space can use. Connects to nothing."""
    _lent_pool(connection)


def _lent_pool(connection: object) -> "LentPool":
    try:
        from treering.stores.postgres.connection.pools import LentPool
    except ModuleNotFoundError as error:
        raise MissingExtra("postgres", needed_for="A space in a Postgres database") from error
    return LentPool(connection)


def spaces_with_work(address: Address) -> SpacesWithWork:
    """Return what looks for spaces with work, in the database of an address. Raises as opening one of them does."""
    if address.scheme != "postgresql":
        raise InvalidInput(
            f"{address} does not name a database with several spaces.",
            hint="Use one: postgresql://USER@HOST/DATABASE?space=ANY.",
        )
    with _postgres_needed("Work for spaces on Postgres"):
        from treering.stores.postgres.connection.target import target_of
        from treering.stores.postgres.opening import WaitingSpaces
    return WaitingSpaces(target_of(address))


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
            hint="Create one with `treering key create NAME`, or give the location of the keys with --keys.",
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


def _embedder(opening: Opening) -> Embedder:
    return opening.embedder or open_embedder(opening.settings)


def _quick(opening: Opening, embedder: Embedder) -> Embedder | None:
    """Return what embeds texts where they are written: the quick model beside the embedder, or one that is quick."""
    if is_quick(embedder):
        return embedder
    # One that a server opened for all its spaces is one of these.
    named = opening.embedder is None or type(embedder).__module__.startswith(_MODELS)
    wanted = (named and opening.settings.quick) if opening.quick is None else opening.quick
    return _the_quick_one() if wanted else None


@cache
def _the_quick_one() -> Embedder:
    """Open the quick model once for all spaces of a process: what it remembers of words serves all of them."""
    return EMBEDDERS[QUICK_EMBEDDER](1)


def open_embedder(settings: Settings) -> Embedder:
    """Return the embedding model that the settings name.

    Raises `InvalidInput` for one that is not installed, and what opening a model of a provider or of a folder raises.
    """
    return embedder_named(settings.embedder or BUILT_IN_EMBEDDER, settings)


def embedder_named(name: str, settings: Settings) -> Embedder:
    """Return the model of a name: of the table, `onnx:FOLDER` or PROVIDER:MODEL. Raises as `open_embedder`."""
    if name in EMBEDDERS:
        return EMBEDDERS[name](settings.threads)
    if ":" not in name and not settings.embedder_url:
        raise InvalidInput(
            f"Unknown embedder {name!r}.",
            hint=f"Available: {', '.join(EMBEDDERS)}; onnx:FOLDER; PROVIDER:MODEL such as ollama:nomic-embed-text "
            "or sentence-transformers:all-MiniLM-L6-v2; or an embedder of an installed package.",
            details={"field": "TREERING_EMBEDDER"},
        )
    # Imported for who names one: most spaces use the built-in model.
    from treering.models import embedders

    if name.startswith(SCHEME):
        return embedders.open_folder_embedder(name, settings.threads)
    return embedders.open_embedder(name, base_url=settings.embedder_url or None)


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


def _require_no_folder(address: Address) -> None:
    """Raise `InvalidInput` for a folder in place of the file of a space: no other try will open it."""
    if address.file is not None and address.file.is_dir():
        raise InvalidInput(
            f"{address.file} is a folder; a space is a file.",
            hint=f"Give a file, such as {address.file / 'treering.db'}.",
        )


def _named_policy(opening: Opening) -> Path | None:
    return opening.policy or (Path(opening.settings.policy) if opening.settings.policy else None)


def _needs(opening: Opening, embedder: Embedder, given: PolicyFile | None, quick: Embedder | None) -> Needs:
    return Needs(
        clock=SystemClock(),
        policy=given.policy if given else None,
        model_id=embedder.model_id,
        dimension=embedder.dimension,
        quick=quick,
        anchor=anchor_at(opening.anchor or opening.settings.anchor),
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
        lookup=IndexLookup(stores.index),
        embedder=embedder,
        vectoriser=vectoriser if opening.background else OnRequest(vectoriser),
        jobs=stores.jobs,
        feedback=None if stores.read_only else stores.jobs,
        leases=stores.leases,
        backlog=stores.backlog,
        note_answer=None if stores.read_only else stores.note_answer,
        protection=stores.protection,
        erasures=None if stores.read_only else stores.jobs,
        erasure_key=partial(shared_secret, opening.settings.data_dir / ERASURE_KEY),
        adapters=LazyMapping(partial(_adapters, opening.files)),
        files=opening.files,
        ingest_file=_ingest_file,
        trees=_trees(opening.files),
        clock=clock,
        author=opening.author,
        limits=ReadLimits(),
        segmenters=LazyMapping(_segmenters),
        reranker=_reranker(opening),
        rarity=word_rarity,
        time_zone=opening.settings.time_zone,
    )


def _ingest_file(engine: Engine, scope: str, file: Path) -> object:
    # Imported here: few calls ingest, and reading has much to import.
    from treering.verbs.ingest.ingest import ingest_file

    return ingest_file(engine, scope, file)


def _reranker(opening: Opening) -> Reranker | None:
    """Return the reranker that was given, or open the one that is named. Raises as `reranker_named`."""
    given = opening.reranker or opening.settings.reranker
    if not isinstance(given, str):
        return given
    return reranker_named(given, opening.settings.threads) if given else None


def reranker_named(name: str, threads: int) -> Reranker:
    """Open a reranker by its whole name, such as `onnx:FOLDER`. Raises `InvalidInput` for one that cannot be had."""
    scheme = name.partition(":")[0]
    opens = RERANKERS[scheme if scheme in RERANKERS else "onnx"]  # which says what is wrong with another name
    return opens(name, threads)


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
    return MAX_COMPARED if given is None or isinstance(given, EngineBackend) else given.store.compare_up_to


def _given(given: "EngineBackend | HostStore", stores: Stores, embedder: Embedder) -> EngineBackend:
    """Return what opens the engine that a program gives."""
    if isinstance(given, EngineBackend):
        return given
    from treering.retrieval.index.passage_texts import PassageTexts
    from treering.stores.engines.host import HostEngine, QuestionRecorder, StateFile

    texts, file = PassageTexts(stores.index.passages, stores.ledger), StateFile(given.file)
    recorder = embedder if isinstance(embedder, QuestionRecorder) else QuestionRecorder(embedder)

    def opened(_address: EngineAddress, mark: str, dimension: int) -> HostEngine:
        return HostEngine(given.store, mark, dimension, file=file, texts=texts, question=recorder.question)

    return EngineBackend(lambda: opened, extra="")
