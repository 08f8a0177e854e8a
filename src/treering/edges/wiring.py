"""The composition root: an address and settings in, a working engine out."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path, PureWindowsPath
from typing import Protocol

from treering.core.audit import Anchor
from treering.core.errors import InvalidInput, NotFound, UnknownBackend
from treering.core.objects import Channel
from treering.core.patch import Author
from treering.core.policy import Policy
from treering.edges.anchors import CallbackAnchor, FileAnchor
from treering.edges.clock import SystemClock
from treering.edges.models.bge import BgeSmall
from treering.edges.models.vectoriser import BackgroundVectoriser
from treering.edges.policy_file import read_policy
from treering.edges.settings import Settings
from treering.edges.sources.access import AnyFile, FileAccess
from treering.edges.sources.markdown import segment_inline_markdown
from treering.edges.sources.path import PathAdapter
from treering.edges.sources.repo import RepoAdapter
from treering.edges.sources.text import segment_inline_text
from treering.edges.stores.sqlite.database import MEMORY, Database
from treering.edges.stores.sqlite.index import SqliteIndex
from treering.edges.stores.sqlite.jobs import SqliteJobs
from treering.edges.stores.sqlite.leases import SqliteLeases
from treering.edges.stores.sqlite.ledger import SqliteLedger
from treering.ports.adapter import ReadLimits
from treering.ports.embedder import Embedder
from treering.ports.ledger import AnchorStore
from treering.tools.engine import Engine, Progress, Vectoriser

AnchorPlace = Path | str | Callable[[Anchor], None]


@dataclass(frozen=True, slots=True)
class Opening:
    """How a space is opened."""

    address: str
    settings: Settings
    author: Author
    anchor: AnchorPlace | None = None
    policy: Path | None = None
    create: bool = True
    background: bool = True
    embedder: Embedder | None = None
    files: FileAccess = field(default_factory=AnyFile)
    """Which files `ingest` may read."""


class BackUp(Protocol):
    """Copies a space into a file while others use it."""

    def __call__(self, target: Path, *, replace: bool, copied: Callable[[int, int], None]) -> Anchor:
        """Make the copy, telling how many bytes of how many are copied; return the head of its audit log."""
        ...


@dataclass(frozen=True, slots=True)
class Opened:
    """A working engine, what closes it, and what copies its space."""

    engine: Engine
    close: Callable[[], None]
    back_up: BackUp


def open_engine(opening: Opening) -> Opened:
    """Open the space an address names. Vectors that wait are begun, where they are made in the background.

    Raises `UnknownBackend` and whatever its store raises.
    """
    address = ":memory:" if opening.address in {MEMORY, "memory:"} else opening.address
    if address == MEMORY:
        return _open_sqlite(MEMORY, opening)
    scheme, colon, rest = address.partition(":")
    if not colon or PureWindowsPath(address).drive:
        return _open_sqlite(address, opening)
    if scheme not in STORES:
        raise UnknownBackend(scheme, known=STORES)
    if not rest:
        raise InvalidInput(
            f"The address {address!r} has no path.", hint=f"Write {scheme}:PATH, or :memory: for a space in memory."
        )
    return STORES[scheme](rest, opening)


def author(actor: str | None, channel: Channel, settings: Settings) -> Author:
    """Name who writes."""
    return Author(actor=actor or settings.actor, channel=channel)


def _open_sqlite(path: str, opening: Opening) -> Opened:
    policy = _policy(path, opening)
    clock = SystemClock()
    embedder = opening.embedder or BgeSmall(threads=opening.settings.threads)
    with ExitStack() as closing:
        database = Database(path, create=opening.create)
        closing.callback(database.close)
        index = SqliteIndex(database, model_id=embedder.model_id, dimension=embedder.dimension)
        jobs = SqliteJobs(database)
        ledger = SqliteLedger(
            database,
            clock=clock,
            policy=policy,
            followers=(index, jobs),
            anchor=_anchor(opening),
        )
        leases = SqliteLeases(database, clock)
        vectoriser = BackgroundVectoriser(index, leases, embedder, clock)
        closing.callback(vectoriser.stop)
        engine = Engine(
            ledger=ledger,
            index=index,
            embedder=embedder,
            vectoriser=vectoriser if opening.background else OnRequest(vectoriser),
            jobs=jobs,
            leases=leases,
            adapters={"path": PathAdapter(access=opening.files), "repo": RepoAdapter(access=opening.files)},
            clock=clock,
            author=opening.author,
            limits=ReadLimits(),
            segmenters={"text": segment_inline_text, "markdown": segment_inline_markdown},
        )
        if opening.background and not database.read_only and index.lag().pending:
            vectoriser.start()
        return Opened(engine, closing.pop_all().close, ledger.back_up)


class OnRequest:
    """A vectoriser that works only when somebody waits for it."""

    def __init__(self, inner: Vectoriser) -> None:
        self._inner = inner

    def start(self) -> None:
        """Leave what waits to a later request."""

    def finish(self, progress: Progress) -> None:
        """Embed everything that waits."""
        self._inner.finish(progress)


def _policy(path: str, opening: Opening) -> Policy:
    """Read the policy that was named, which has to be there, or the one beside the space, which may not."""
    named = opening.policy or (Path(opening.settings.policy) if opening.settings.policy else None)
    if named:
        if not named.is_file():
            raise NotFound(
                f"There is no policy file {named}.",
                hint="Correct its path. Without a policy, patches are not reviewed.",
            )
        return read_policy(named)
    return Policy() if path == MEMORY else read_policy(Path(path).with_suffix(".policy.toml"))


def _anchor(opening: Opening) -> AnchorStore | None:
    place = opening.anchor or opening.settings.anchor
    if not place:
        return None
    return CallbackAnchor(place) if callable(place) else FileAnchor(Path(place))


STORES: Mapping[str, Callable[[str, Opening], Opened]] = {"sqlite": _open_sqlite}
