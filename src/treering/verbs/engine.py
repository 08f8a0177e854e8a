"""The components of one space for the four verbs, behind their ports."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol, TypeVar

from treering.core.errors import Conflict, InvalidInput, TreeringError
from treering.core.patch import Author
from treering.ports.adapter import Adapter, FileAccess, FileLookup, NoFiles, ReadLimits, TreeLookup
from treering.ports.format import Segmenter
from treering.ports.index import Index
from treering.ports.ledger import Ledger
from treering.ports.lookup import Lookup
from treering.ports.models import Embedder, Rarity, Reranker, equally_rare
from treering.ports.runtime import Backlog, Clock, JobLog, Leases
from treering.ports.stores import NoteAnswer, Protection
from treering.ports.vector_engine import EngineSelection
from treering.retrieval.text.time_zones import MACHINE, TimeZone
from treering.verbs.evidence_files import EvidenceFiles
from treering.verbs.numbered_places import PlacesOf, no_places

Progress = Callable[[str, int, int | None], None]
"""Called with the current step, the number of items done, and the total (`None` if unknown)."""


def silent(_what: str, _done: int, _total: int | None) -> None:
    """Discard reports of progress."""


def ingest_nothing(_engine: object, _scope: str, _file: Path) -> None:
    """Ingest nothing."""


def no_trees() -> None:
    """Return nothing that looks up trees of repositories."""


class Vectoriser(Protocol):
    """Makes the vectors that wait, in the background."""

    def start(self) -> None:
        """Have what waits embedded, by this process or another. Returns at once."""
        ...

    def prefer(self, keys: Sequence[int]) -> None:
        """Have the texts of these passages embedded first: they were asked for."""
        ...

    def finish(self, progress: Progress) -> None:
        """Embed everything that waits, or wait until another process has."""
        ...

    def work_alone(self, progress: Progress) -> None:
        """Embed what waits unless another process is at it, giving way to other programs."""
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
    """How inline texts are cut, by content type (`text`, `markdown`)."""
    files: FileAccess = field(default_factory=NoFiles)
    """Which of the files that a call names may be read; the adapters keep to the same."""
    file_lookups: Callable[[], Sequence[FileLookup]] = tuple
    """What looks where files lie that were read before: nothing where files may not be read."""
    trees: Callable[[], TreeLookup | None] = no_trees
    """What looks up trees of repositories, and files as they lie: nothing where files may not be read."""
    ingest_file: "Callable[[Engine, str, Path], object]" = ingest_nothing
    """Ingests one file at a scope, as `ingest` in mode `path` does."""
    evidence_files: EvidenceFiles | None = None
    """What reads the files that evidence names; `None` where files may not be read."""
    places_of: PlacesOf = no_places
    """Returns the numbered places of an answer that the caller got before."""
    folder: Path | None = None
    """Where it is asked from, which may be a work tree of a repository; `None`: the working folder."""
    quick: Embedder | None = None
    """The quick model, whose vectors stand for those of `embedder` until these are made."""
    rarity: Rarity = equally_rare
    """How rare the words of questions are in texts of any kind."""
    time_zone: TimeZone = MACHINE
    """The zone whose days a question means, unless it names one."""
    reranker: Reranker | None = None
    """What reads the best hits again where a search asks for it."""
    selection: EngineSelection | None = None
    """Which engine searches the vectors; `None` where the space can use none."""
    backlog: Backlog | None = None
    """What was promised and is still to be done by any process; `None` where the space keeps no such list."""
    feedback: JobLog | None = None
    """Where feedback on answers (`verbs.feedback`) and runs of exams are kept, all of the space's; `None`: nowhere."""
    note_answer: NoteAnswer | None = None
    """Notes which files an answer named; `None` where no hook looks for that."""
    erasures: JobLog | None = None
    """Where the marks of erased texts are kept (`verbs.ingest.erased`); `None`: nowhere."""
    erasure_key: Callable[[], bytes] | None = None
    """Returns the key of these marks, which is made when it is first asked for. Raises `OSError`."""
    protection: Callable[[], Protection] | None = None
    """Asks the database how it keeps spaces apart; `None` where it holds one space alone."""

    job: str = ""
    """The id of the job that the call is, where somebody waits for it by that id; else ingest gives it one."""

    def with_author(self, author: Author) -> "Engine":
        """Return the same engine with another author."""
        return replace(self, author=author)

    def asked_from(self, folder: Path | None) -> "Engine":
        """Return the same engine for calls from a folder, such as a work tree; with `None` from the working folder."""
        return replace(self, folder=folder) if folder else self

    def with_progress(self, progress: Progress) -> "Engine":
        """Return the same engine reporting its progress."""
        return replace(self, progress=progress)


# Trying again where somebody else was first.


_Done = TypeVar("_Done")

ATTEMPTS = 5
"""How often work is tried that somebody else was faster with."""


_PAUSE, _LONGEST_PAUSE = 0.005, 0.1
"""Seconds before work is tried again: so many more after each try, up to the longest."""


def retry_on_conflict(
    work: Callable[[], _Done], *, attempts: int = ATTEMPTS, on: tuple[type[TreeringError], ...] = (Conflict,)
) -> _Done:
    """Return what `work` gives. While it raises one of the errors `on`, it is called again, and has to read anew.

    Raises the error of the last of so many `attempts`.
    """
    for tried in range(1, attempts):
        with suppress(*on):
            return work()
        # Whoever tries again at once loses again to one who writes all the time; waiting outlasts a burst of writes.
        time.sleep(min(_LONGEST_PAUSE, _PAUSE * tried))
    return work()


# Work that only one of several processes does at a time: a named lease, kept alive by a heartbeat.


_BEATS = 3  # per length of the lease
_POLL_SECONDS = 0.1


@dataclass(slots=True)
class Lease:
    """A lease that is held while the work lasts. Whoever writes asks `renew` first, and stops where it says no."""

    leases: Leases
    name: str
    owner: str
    seconds: float
    _over: threading.Event = field(default_factory=threading.Event)
    _lost: threading.Event = field(default_factory=threading.Event)

    @property
    def lost(self) -> bool:
        """Whether somebody else has, or may have, taken it over. It never comes back."""
        return self._lost.is_set()

    def renew(self) -> bool:
        """Renew it now; tell whether it is still held. Raises what the store raises."""
        if not self.lost and not self.leases.take(self.name, self.owner, seconds=self.seconds):
            self._lost.set()
        return not self.lost

    def beat(self) -> None:
        """Renew it again and again until the work is over. Two beats in a row that fail lose it."""
        missed = 0
        while not self._over.wait(self.seconds / _BEATS) and not self.lost:
            try:
                self.renew()
                missed = 0
            except TreeringError:
                missed += 1
                if missed == _BEATS - 1:
                    self._lost.set()

    def stop(self) -> None:
        """End the heartbeat."""
        self._over.set()

    def give_back(self) -> None:
        """Let others have it at once. Where that fails it lapses by itself."""
        if not self.lost:
            with suppress(TreeringError):
                self.leases.take(self.name, self.owner, seconds=0)


@contextmanager
def held(leases: Leases, name: str, owner: str, seconds: float, *, wait_seconds: float = 0.0) -> Iterator[Lease | None]:
    """Hold a lease for as long as the work inside takes; `None` where another owner holds it.

    It is renewed by a thread every third of `seconds`, so a holder that died keeps others out for `seconds` at most.
    With `wait_seconds` a lease held by another owner is waited for so long. `owner` must be new for every use: two
    users of one owner would both hold it. Raises `InvalidInput` for a length that is not positive.
    """
    if seconds <= 0:
        raise InvalidInput(f"A lease must last longer than 0 seconds, not {seconds}.", hint="Give a length above 0.")
    if not _taken(leases, name, owner, seconds, wait_seconds):
        yield None
        return
    lease = Lease(leases, name, owner, seconds)
    heart = threading.Thread(target=lease.beat, name=f"lease {name}", daemon=True)
    heart.start()
    try:
        yield lease
    finally:
        lease.stop()
        heart.join()  # a beat under way would take again what is given back
        lease.give_back()


def _taken(leases: Leases, name: str, owner: str, seconds: float, wait_seconds: float) -> bool:
    pause = threading.Event()
    for _ in range(int(wait_seconds / _POLL_SECONDS)):
        if leases.take(name, owner, seconds=seconds):
            return True
        pause.wait(_POLL_SECONDS)
    return leases.take(name, owner, seconds=seconds)
