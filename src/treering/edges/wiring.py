"""The composition root: an address and settings in, a working engine out."""

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from treering.core.audit import Anchor
from treering.core.errors import NotFound, UnknownBackend
from treering.core.objects import Channel
from treering.core.patch import Author
from treering.edges.anchors import CallbackAnchor, FileAnchor
from treering.edges.clock import SystemClock
from treering.edges.models.bge import BgeSmall
from treering.edges.models.vectoriser import BackgroundVectoriser
from treering.edges.policy_file import read_policy
from treering.edges.settings import Settings
from treering.edges.sources.markdown import segment_inline_markdown
from treering.edges.sources.path import PathAdapter
from treering.edges.sources.repo import RepoAdapter
from treering.edges.sources.text import segment_inline_text
from treering.edges.stores.sqlite.database import MEMORY, Database
from treering.edges.stores.sqlite.index import SqliteIndex
from treering.edges.stores.sqlite.jobs import SqliteJobs
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


@dataclass(frozen=True, slots=True)
class Opened:
    """A working engine, and what closes it."""

    engine: Engine
    close: Callable[[], None]


def open_engine(opening: Opening) -> Opened:
    """Open the space an address names. Raises `UnknownBackend` and whatever its store raises."""
    address = ":memory:" if opening.address in {MEMORY, "memory:"} else opening.address
    if address == MEMORY:
        return _open_sqlite(MEMORY, opening)
    scheme, colon, rest = address.partition(":")
    if not colon:
        return _open_sqlite(address, opening)
    if scheme not in STORES:
        raise UnknownBackend(scheme, known=STORES)
    return STORES[scheme](rest, opening)


def author(actor: str | None, channel: Channel, settings: Settings) -> Author:
    """Name who writes."""
    return Author(actor=actor or settings.actor, channel=channel)


def _open_sqlite(path: str, opening: Opening) -> Opened:
    if path != MEMORY and not opening.create and not Path(path).is_file():
        raise NotFound(
            f"There is no space at {path}.",
            hint="Create it with `treering init` or the first `treering ingest`; or name another with --space.",
        )
    clock = SystemClock()
    embedder = opening.embedder or BgeSmall(threads=opening.settings.threads)
    with ExitStack() as closing:
        database = Database(path)
        closing.callback(database.close)
        index = SqliteIndex(database, clock=clock, model_id=embedder.model_id, dimension=embedder.dimension)
        ledger = SqliteLedger(
            database,
            clock=clock,
            policy=read_policy(opening.policy or _policy_path(path, opening.settings)),
            followers=(index,),
            anchor=_anchor(opening),
        )
        vectoriser = BackgroundVectoriser(index, embedder, clock)
        closing.callback(vectoriser.stop)
        engine = Engine(
            ledger=ledger,
            index=index,
            embedder=embedder,
            vectoriser=vectoriser if opening.background else OnRequest(vectoriser),
            jobs=SqliteJobs(database),
            adapters={"path": PathAdapter(), "repo": RepoAdapter()},
            clock=clock,
            author=opening.author,
            limits=ReadLimits(),
            segmenters={"text": segment_inline_text, "markdown": segment_inline_markdown},
        )
        return Opened(engine, closing.pop_all().close)


class OnRequest:
    """A vectoriser that works only when somebody waits for it."""

    def __init__(self, inner: Vectoriser) -> None:
        self._inner = inner

    def start(self) -> None:
        """Leave what waits to a later request."""

    def finish(self, progress: Progress) -> None:
        """Embed everything that waits."""
        self._inner.finish(progress)


def _policy_path(path: str, settings: Settings) -> Path:
    return Path(settings.policy) if settings.policy else Path(path).with_suffix(".policy.toml")


def _anchor(opening: Opening) -> AnchorStore | None:
    place = opening.anchor or opening.settings.anchor
    if not place:
        return None
    return CallbackAnchor(place) if callable(place) else FileAnchor(Path(place))


STORES: Mapping[str, Callable[[str, Opening], Opened]] = {"sqlite": _open_sqlite}
