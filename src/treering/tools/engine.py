"""What the four verbs work with: one space's parts behind their ports."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from treering.core.patch import Author
from treering.ports.adapter import Adapter, FileLookup, ReadLimits
from treering.ports.backlog import Backlog
from treering.ports.clock import Clock
from treering.ports.embedder import Embedder
from treering.ports.files import FileAccess, NoFiles
from treering.ports.index import Index
from treering.ports.jobs import JobLog
from treering.ports.lease import Leases
from treering.ports.ledger import Ledger
from treering.ports.reranker import Reranker
from treering.ports.segmenter import Segmenter
from treering.ports.stores import Protection
from treering.ports.vector_engine import EngineSelection

Progress = Callable[[str, int, int | None], None]
"""Called with what is being done, how many items are done, and of how many (`None` where unknown)."""


def silent(_what: str, _done: int, _total: int | None) -> None:
    """Report progress to nobody."""


class Vectoriser(Protocol):
    """Makes the vectors that wait, in the background."""

    def start(self) -> None:
        """See to it that somebody embeds what waits. Returns at once."""
        ...

    def finish(self, progress: Progress) -> None:
        """Embed everything that waits, or wait until another process has."""
        ...


@dataclass(frozen=True, slots=True)
class Engine:
    """The parts of one open space, and in whose name they are used."""

    ledger: Ledger
    index: Index
    embedder: Embedder
    vectoriser: Vectoriser
    jobs: JobLog
    leases: Leases
    adapters: Mapping[str, Adapter]
    clock: Clock
    author: Author
    limits: ReadLimits
    progress: Progress = silent
    segmenters: Mapping[str, Segmenter] = field(default_factory=dict)
    """How inline texts are cut, by content type (`text`, `markdown`)."""
    files: FileAccess = field(default_factory=NoFiles)
    """Which of the files that a call names may be read; the adapters keep to the same."""
    file_lookups: Callable[[], Sequence[FileLookup]] = tuple
    """What looks where files lie that were read before: nothing where files may not be read."""
    reranker: Reranker | None = None
    """What reads the best hits again where a search asks for it."""
    selection: EngineSelection | None = None
    """Which engine searches the vectors; `None` where the space can use none."""
    backlog: Backlog | None = None
    """What was promised and is still to be done by any process; `None` where the space keeps no such list."""
    protection: Callable[[], Protection] | None = None
    """Asks the database how it keeps spaces apart; `None` where it holds one space alone."""

    job: str = ""
    """The id of the job that the call is, where somebody waits for it by that id; else ingest gives it one."""

    def with_author(self, author: Author) -> "Engine":
        """Return the same engine working in another name."""
        return replace(self, author=author)

    def with_progress(self, progress: Progress) -> "Engine":
        """Return the same engine reporting its progress."""
        return replace(self, progress=progress)
