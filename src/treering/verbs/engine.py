"""The components of one space for the four verbs, behind their ports."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from treering.core.errors import Conflict, TreeringError
from treering.core.patch import Author
from treering.ports.adapter import Adapter, FileAccess, FileLookup, NoFiles, ReadLimits, TreeLookup
from treering.ports.format import Segmenter
from treering.ports.index import Index
from treering.ports.ledger import Ledger
from treering.ports.lookup import Lookup
from treering.ports.models import Embedder, Rarity, Reranker, equally_rare
from treering.ports.runtime import Backlog, Clock, JobLog, Leases
from treering.ports.stores import NoteAnswer, Protection, ReadyValues
from treering.ports.vector_engine import EngineSelection
from treering.retrieval.text.time_zones import MACHINE, TimeZone
from treering.verbs.evidence_files import EvidenceFiles
from treering.verbs.numbered_places import PlacesOf, no_places

_Result = TypeVar("_Result")

ATTEMPTS = 20
"""How often work is tried if other writers cause conflicts. With the pauses, the last try is after about a second."""
_PAUSE_SECONDS, _MAX_PAUSE_SECONDS = 0.005, 0.1
"""The pause before each retry, multiplied by the number of tries, and its limit."""

Progress = Callable[[str, int, int | None], None]
"""Called with the current step, the number of items done, and the total (`None` if unknown)."""


def silent(_what: str, _done: int, _total: int | None) -> None:
    """Discard reports of progress."""


def ingest_nothing(_engine: object, _scope: str, _file: Path) -> None:
    """Ingest nothing."""


def no_trees() -> None:
    """Return no lookup of trees."""


class Vectoriser(Protocol):
    """Embeds pending passages in the background."""

    def has_tables_to_prepare(self) -> bool:
        """Return whether tables for searches are missing or outdated, which background work prepares. Cheap."""
        ...

    def start(self) -> None:
        """Start embedding pending passages, in this process or another. Returns at once."""
        ...

    def prefer(self, keys: Sequence[int]) -> None:
        """Embed these passages first, because a read returned them."""
        ...

    def finish(self, progress: Progress) -> None:
        """Embed all pending passages, or wait until another process has."""
        ...

    def work_alone(self, progress: Progress) -> None:
        """Embed pending passages at low priority, unless another process does."""
        ...


@dataclass(frozen=True, slots=True)
class Engine:
    """The components of an open space and the author of its writes."""

    ledger: Ledger
    index: Index
    lookup: Lookup
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
    """Segmenters of inline texts by content type (`text`, `markdown`)."""
    files: FileAccess = field(default_factory=NoFiles)
    """The files that a call may read; adapters obey it, too."""
    file_lookups: Callable[[], Sequence[FileLookup]] = tuple
    """Returns functions that locate files that were read before; none if files may not be read."""
    trees: Callable[[], TreeLookup | None] = no_trees
    """Returns a function that looks up trees of repositories and files in them; `None` if files may not be read."""
    ingest_file: "Callable[[Engine, str, Path], object]" = ingest_nothing
    """Ingests one file at a scope, as `ingest` in mode `path` does."""
    evidence_files: EvidenceFiles | None = None
    """Reads the files that evidence names; `None` if files may not be read."""
    places_of: PlacesOf = no_places
    """Returns the numbered places of an answer that the caller got before."""
    folder: Path | None = None
    """The caller's folder, which may be a work tree of a repository; `None`: the working folder."""
    quick: Embedder | None = None
    """The quick model, whose vectors are used until `embedder` has made its own."""
    rarity: Rarity = equally_rare
    """The rarity of words in texts of any kind."""
    time_zone: TimeZone = MACHINE
    """The time zone of days in a question, unless it names one."""
    reranker: Reranker | None = None
    """Reranks the best hits if a search requests it."""
    selection: EngineSelection | None = None
    """The external vector engine in use; `None` if the space cannot use one."""
    backlog: Backlog | None = None
    """Promised work that any process may do; `None` if the space stores no backlog."""
    feedback: JobLog | None = None
    """Stores feedback on answers (`verbs.feedback`) and runs of exams for the whole space; `None`: not stored."""
    note_answer: NoteAnswer | None = None
    """Records the files that an answer named; `None` if no hook needs them."""
    ready: ReadyValues | None = None
    """Stores values for the next process; `None`: every process computes them."""
    erasures: JobLog | None = None
    """Stores the marks of erased texts (`verbs.ingest.erased`); `None`: not stored."""
    erasure_key: Callable[[], bytes] | None = None
    """Returns the key of these marks, created on first use. Raises `OSError`."""
    protection: Callable[[], Protection] | None = None
    """Returns how the database separates spaces; `None` if it contains only one."""
    job: str = ""
    """The id of the job that runs this call; empty: ingest creates one."""

    def with_author(self, author: Author) -> "Engine":
        """Return the same engine with another author."""
        return replace(self, author=author)

    def asked_from(self, folder: Path | None) -> "Engine":
        """Return the same engine for calls from a folder, such as a work tree; `None`: from the working folder."""
        return replace(self, folder=folder) if folder else self

    def with_progress(self, progress: Progress) -> "Engine":
        """Return the same engine reporting its progress."""
        return replace(self, progress=progress)


def retry_on_conflict(
    work: Callable[[], _Result], *, attempts: int = ATTEMPTS, on: tuple[type[TreeringError], ...] = (Conflict,)
) -> _Result:
    """Return the result of `work`, calling it again while it raises one of the errors `on`; it must read again.

    Raises the error of the last of `attempts`.
    """
    for attempt in range(1, attempts):
        with suppress(*on):
            return work()
        # An immediate retry would lose again to a busy writer; a pause outlasts a burst of writes.
        time.sleep(min(_MAX_PAUSE_SECONDS, _PAUSE_SECONDS * attempt))
    return work()
