"""The composition root: an address and settings in, a working engine out."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from pathlib import Path
from typing import TypeVar, cast

from treering.core.errors import InvalidInput, NotFound, UnknownBackend
from treering.core.objects import Channel
from treering.core.patch import Author
from treering.models.elsewhere import DEFAULT_EMBEDDER
from treering.models.vectoriser import BackgroundVectoriser
from treering.models.vocabulary import word_rarity
from treering.ports.adapter import Adapter, FileAccess, ReadLimits, TreeLookup
from treering.ports.format import Segmenter
from treering.ports.index import Index, quick_vectors
from treering.ports.ledger import Ledger
from treering.ports.models import Embedder, Reranker, is_quick
from treering.ports.runtime import Clock, SpacesWithWork
from treering.ports.stores import AccessKeys, BackUp, Needs, Stores
from treering.ports.vector_engine import VectorMirrors
from treering.registry import Place, Table, brought, places_of_extensions
from treering.retrieval.index.lookup import IndexLookup
from treering.retrieval.index.rounds import make_whole
from treering.sources.reading.access import AnyFile
from treering.spaces.backends import BACKENDS, Backend, OpenStores
from treering.spaces.policy_and_anchor import AnchorPlace, PolicyFile, anchor_at, policy_file, put_in_force
from treering.system.address import MEMORY, Address
from treering.system.machine import SystemClock, is_busy, shared_secret, usable_cores
from treering.system.settings import FILE, FOLDER, Settings
from treering.system.tracked_space import refuse_tracked
from treering.verbs.engine import Engine

_Item = TypeVar("_Item")
_Opens = TypeVar("_Opens", covariant=True)


class LazyMapping(Mapping[str, _Item]):
    """A mapping that is created at its first use: queries do not wait for modules that read files."""

    def __init__(self, make: Callable[[], Mapping[str, _Item]]) -> None:
        self._make = make

    def __getitem__(self, name: str) -> _Item:
        return self._made[name]

    def __contains__(self, name: object) -> bool:
        return name in self._made

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)

    @cached_property
    def _made(self) -> Mapping[str, _Item]:
        return self._make()


class LazyAdapters(Mapping[str, Adapter]):
    """The adapters by name. Extensions are imported at the first use of their adapter."""

    def __init__(self, access: FileAccess) -> None:
        from treering.sources.formats import formats_here
        from treering.sources.path import PathAdapter
        from treering.sources.plugins import ADAPTERS, installed_adapters

        self._formats, self._access = formats_here(), access
        self._places = dict(places_of_extensions(ADAPTERS))
        self._loaded = {**installed_adapters(), "path": PathAdapter(self._formats, access=access)}

    def __getitem__(self, name: str) -> Adapter:
        if name not in self._loaded:
            self._loaded[name] = self._places[name].load().for_space(self._formats, self._access)
        return self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in self._loaded or name in self._places

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys([*self._loaded, *self._places]))

    def __len__(self) -> int:
        return len(self._loaded.keys() | self._places.keys())


def _trees(access: FileAccess) -> Callable[[], TreeLookup | None]:
    @cache
    def looked_up() -> TreeLookup | None:
        trees = next(brought("trees"), None)
        return cast("TreeLookup", trees(access)) if trees else None

    return looked_up


def _segmenters() -> Mapping[str, Segmenter]:
    from treering.sources.formats import formats_here

    return formats_here().segmenters


ERASURE_KEY = "erasure.key"
"""The file of the data folder with the key for the hashes of erased texts."""
QUICK_EMBEDDER = "static"
EMBEDDERS: Table[Callable[[int], Embedder]] = Table(
    "treering.embedders",
    lambda: (
        dict(places_of_extensions("treering.embedders"))
        | {QUICK_EMBEDDER: Place("treering.models.static_model:StaticEmbedder")}
    ),
)
"""Embedding models by the value of `TREERING_EMBEDDER`: functions from a number of threads to an embedder."""

RERANKERS: Table[Callable[[str, int], Reranker]] = Table("treering.rerankers")
"""Rerankers by the start of their name, up to the colon: functions from the whole name and a number of threads."""


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
    """Whether it is the target of a copy (`ports.stores.Needs`)."""
    background: bool = True
    whole: bool = True
    """Whether an index rebuild is finished before `open_engine` returns, if background work is disabled."""
    embedder: Embedder | None = None
    quick: bool | None = None
    """Whether texts get a vector of the quick model when they are written.

    By default as the settings say, but not beside an embedder of a class that is not of this package.
    """
    reranker: Reranker | str | None = None
    """Reorders hits, or its name; by default the reranker in the settings."""
    files: FileAccess = field(default_factory=AnyFile)
    """Which of the files that a call names may be read."""
    connection: object | None = None
    """An open driver of the database that the space lies in, used and not closed."""
    given_engine: object | None = None
    """Opens the engine at an address `given:…`, or the host's store at that address."""


@dataclass(frozen=True, slots=True)
class Opened:
    """A working engine, a function that closes it, one that copies its space, and one that works on the backlog."""

    engine: Engine
    close: Callable[[], None]
    back_up: BackUp
    take_turn: Callable[[int], None]


def open_engine(opening: Opening, *, backends: Mapping[str, Backend[OpenStores]] = BACKENDS) -> Opened:
    """Open the space at an address. Pending work starts, if background work is enabled.

    Raises `UnknownBackend`, `MissingExtra`, `Denied` for a space that came with a repository, and whatever its stores
    raise.
    """
    _check_trust(opening)
    load_stores = _loaded(opening.address, backends)
    _require_no_folder(opening.address)
    mirrors: VectorMirrors | None = next(brought("vector_engines"), None)
    embedder = _embedder(opening)
    if mirrors:
        embedder = mirrors.embedder(opening.given_engine, embedder)
    given = policy_file(opening.address.place if opening.address.is_file else MEMORY, _named_policy(opening))
    quick = _quick(opening, embedder)
    needs = _needs(opening, embedder, given, quick)
    with ExitStack() as closing:
        stores = load_stores(opening.address, needs)
        closing.callback(stores.close)
        if given and not stores.read_only:
            put_in_force(given, stores.ledger, opening.author)
        mirror = mirrors.open(opening.given_engine, stores, needs, embedder) if mirrors else None
        if mirror:
            closing.callback(mirror.close)
            stores = replace(stores, index=mirror.index_over(stores.index))
        upkeep = stores.index.upkeep
        vectoriser = BackgroundVectoriser(
            stores.index.vectors,
            stores.leases,
            embedder,
            needs.clock,
            claims=stores.claims,
            quick=(meanwhile, quick) if quick and (meanwhile := quick_vectors(stores.index)) else None,
            upkeep=None if stores.read_only else upkeep,
            follow=mirror.follow if mirror and not stores.read_only else None,
            tables=None if stores.read_only else stores.tables,
            is_busy=is_busy,
            in_background=opening.background,
        )
        closing.callback(vectoriser.stop)
        engine = _engine(opening, stores, embedder, vectoriser, needs.clock)
        engine = replace(engine, selection=mirror, quick=quick if quick_vectors(stores.index) else None)
        if not stores.read_only:
            _catch_up(opening, stores.index, vectoriser, is_due=mirror.is_due if mirror else lambda: False)
        return Opened(engine, closing.pop_all().close, stores.back_up, vectoriser.take_turn)


def open_ledger(opening: Opening, *, backends: Mapping[str, Backend[OpenStores]] = BACKENDS) -> Ledger:
    """Open the ledger of the space an address names, without an engine around it. Closing it closes the space.

    Raises `UnknownBackend`, `MissingExtra` and whatever its stores raise.
    """
    return open_stores(opening, backends=backends).ledger


def open_stores(opening: Opening, *, backends: Mapping[str, Backend[OpenStores]] = BACKENDS) -> Stores:
    """Open the stores of the space at an address, without an engine. Raises as `open_ledger`."""
    _check_trust(opening)
    embedder = _embedder(opening)
    needs = _needs(opening, embedder, None, _quick(opening, embedder))
    return _loaded(opening.address, backends)(opening.address, needs)


def _check_trust(opening: Opening) -> None:
    if opening.address.file and not opening.settings.trust:
        refuse_tracked(opening.address.file)


def spaces_with_work(address: Address) -> SpacesWithWork:
    """Return a function that lists spaces with pending work in the database of an address."""
    backend = _backend(address, BACKENDS)
    if backend.spaces_with_work is None:
        raise InvalidInput(
            f"{address} does not name a database with several spaces.",
            hint="Use one: postgresql://USER@HOST/DATABASE?space=ANY.",
        )
    return backend.loaded(backend.spaces_with_work, f"Work for spaces in {backend.title}")(address)


def open_access_keys(address: Address, *, create: bool) -> AccessKeys:
    """Open the access keys that an address names: a file of their own, or those of a database.

    Raises `NotFound` if there are none and `create` is false, `UnknownBackend`, `InvalidInput` for another file.
    """
    backend = _backend(address, BACKENDS)
    if backend.access_keys is None and create:
        raise InvalidInput(f"{address} cannot store access keys.", hint="Give --keys a file.")
    try:
        if backend.access_keys is not None:
            return backend.loaded(backend.access_keys, f"Access keys in {backend.title}")(address, create)
    except NotFound as error:
        raise _no_keys(address) from error
    raise _no_keys(address)


def _no_keys(address: Address) -> NotFound:
    return NotFound(
        f"There are no access keys at {address}.",
        hint="Create one with `treering key create NAME`, or give the location of the keys with --keys.",
    )


def author(actor: str | None, channel: Channel, settings: Settings) -> Author:
    """Return the author of writes."""
    return Author(actor=actor or settings.actor, channel=channel)


def start_waiting(engine: Engine) -> None:
    """Start background work if there is any and no other process does it. Returns at once."""
    lag = engine.index.vectors.lag()
    if lag.pending or lag.behind or engine.vectoriser.has_tables_to_prepare():
        engine.vectoriser.start()


def _embedder(opening: Opening) -> Embedder:
    if opening.embedder and not hasattr(opening.embedder, "embed_query"):
        raise InvalidInput(
            f"embedder: {type(opening.embedder).__name__} is not an Embedder.",
            hint="Give an object with the methods of treering.Embedder; TREERING_EMBEDDER names one.",
        )
    return opening.embedder or open_embedder(opening.settings)


def _quick(opening: Opening, embedder: Embedder) -> Embedder | None:
    """Return the model that embeds texts while they are written: the quick one, or the embedder if it is quick."""
    if is_quick(embedder):
        return embedder
    # One that a server opened for all its spaces is one of these.
    named = opening.embedder is None or _is_own(embedder)
    wanted = (named and opening.settings.quick) if opening.quick is None else opening.quick
    return _the_quick_one() if wanted else None


def _is_own(embedder: Embedder) -> bool:
    module = type(embedder).__module__
    return module.startswith("treering.") and not module.startswith("treering.testing.")


@cache
def _the_quick_one() -> Embedder:
    """Open the quick model once per process, so that all spaces share its cache."""
    return EMBEDDERS[QUICK_EMBEDDER](1)


def open_embedder(settings: Settings) -> Embedder:
    """Return the embedding model named in the settings.

    Raises `InvalidInput` if it is not installed, and the errors of opening a provider's model or a folder.
    """
    default = DEFAULT_EMBEDDER if DEFAULT_EMBEDDER in EMBEDDERS else QUICK_EMBEDDER
    return embedder_named(settings.embedder or default, settings)


def embedder_named(name: str, settings: Settings) -> Embedder:
    """Return the model of a name: of the table, `onnx:FOLDER` or PROVIDER:MODEL. Raises as `open_embedder`."""
    if name in EMBEDDERS:
        return EMBEDDERS[name](settings.threads)
    opens = next(brought("named_embedders"), None)
    if opens is None or (":" not in name and not settings.embedder_url):
        raise InvalidInput(
            f"Unknown embedder {name!r}.",
            hint=f"Available: {', '.join(EMBEDDERS)}; onnx:FOLDER; PROVIDER:MODEL such as ollama:nomic-embed-text "
            "or sentence-transformers:all-MiniLM-L6-v2; or an embedder of an installed package.",
            details={"field": "TREERING_EMBEDDER"},
        )
    return cast("Embedder", opens(name, settings))


def _backend(address: Address, backends: Mapping[str, Backend[_Opens]]) -> Backend[_Opens]:
    if address.scheme not in backends:
        raise UnknownBackend(address.scheme, known=backends)
    return backends[address.scheme]


def _loaded(address: Address, backends: Mapping[str, Backend[_Opens]]) -> _Opens:
    """Import the function that opens the spaces of a scheme."""
    backend = _backend(address, backends)
    return backend.loaded(backend.load, f"A space with an address {address.scheme}:…")


def _require_no_folder(address: Address) -> None:
    """Raise `InvalidInput` for a folder in place of the file of a space: no other try will open it."""
    if address.file is not None and address.file.is_dir():
        of_folder = address.file / FOLDER / FILE
        is_there = of_folder.is_file()
        raise InvalidInput(
            f"{address.file} is a folder; a space is a file.",
            hint=f"Give its space: {of_folder}." if is_there else f"Give a file, such as {address.file / FILE}.",
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
        saves_tables=opening.whole,
    )


def _engine(
    opening: Opening, stores: Stores, embedder: Embedder, vectoriser: BackgroundVectoriser, clock: Clock
) -> Engine:
    return Engine(
        ledger=stores.ledger,
        index=stores.index,
        lookup=IndexLookup(stores.index),
        embedder=embedder,
        vectoriser=vectoriser,
        jobs=stores.jobs,
        feedback=None if stores.read_only else stores.jobs,
        leases=stores.leases,
        backlog=stores.backlog,
        note_answer=None if stores.read_only else stores.note_answer,
        ready=None if stores.read_only else stores.ready,
        protection=stores.protection,
        erasures=None if stores.read_only else stores.jobs,
        erasure_key=partial(shared_secret, opening.settings.data_dir / ERASURE_KEY),
        adapters=LazyMapping(partial(LazyAdapters, opening.files)),
        files=opening.files,
        ingest_file=_ingest_file,
        trees=_trees(opening.files),
        clock=clock,
        author=opening.author,
        limits=ReadLimits(in_child=opening.settings.read_ahead and usable_cores() > 1),
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
    """Return the given reranker, or open the named one. Raises as `reranker_named`."""
    given = opening.reranker or opening.settings.reranker
    if not isinstance(given, str):
        return given
    return reranker_named(given, opening.settings.threads) if given else None


def reranker_named(name: str, threads: int) -> Reranker:
    """Open a reranker by its full name, such as `onnx:FOLDER`. Raises `InvalidInput` if it is not available."""
    scheme = name.partition(":")[0]
    opens = RERANKERS[scheme if scheme in RERANKERS else "onnx"]  # which reports an unknown name
    return opens(name, threads)


def _catch_up(opening: Opening, index: Index, vectoriser: BackgroundVectoriser, *, is_due: Callable[[], bool]) -> None:
    """Start pending work in the background. Finish an index rebuild here if no other process would.

    `is_due` returns whether the engine of the space has pending changes.
    """
    if not opening.background:
        if opening.whole:
            make_whole(index)
        return
    lag = index.vectors.lag()
    if lag.pending or lag.behind or is_due():
        vectoriser.start()
