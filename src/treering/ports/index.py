"""The port of search: passages by words and by vectors, with filters inside."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from treering.core.evidence import Triple
from treering.ports.graph import Graph
from treering.ports.reach import Reach

Vector = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Passage:
    """One searchable text: a segment of a source (`part` is its id), or the text form of an object (`part` empty).

    `gist` is what is embedded; `live` tells whether the object may be presented as how things stand. `said` is when a
    turn of a conversation was said.
    """

    object_id: str
    part: str
    type: str
    kind: str
    status: str
    scope: str
    role: str
    title: str
    heading: str
    text: str
    gist: str
    origin: str
    channel: str
    created_at: datetime
    updated_at: datetime
    live: bool
    triples: tuple[Triple, ...] = ()
    metadata: Mapping[str, str | int | float | bool] = field(default_factory=dict)
    said: datetime | None = None


@dataclass(frozen=True, slots=True)
class AskedDays:
    """Days that a question is about, both ends within, and what a turn of that time counts for (0 to 1)."""

    first: date
    last: date
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class TextQuery:
    """What to look for, as `derived.analysis` prepares it.

    `words` are terms of the word index. `identifiers` are names as typed, folded, for the trigram index.
    `phrases` are what stood in double quotes, each as terms of the word index one after the other.
    """

    words: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Scored:
    """A passage key and its raw score in one arm; higher is better."""

    key: int
    score: float


@dataclass(frozen=True, slots=True)
class PassageHead:
    """What a hit needs before its text is read from the ledger."""

    key: int
    object_id: str
    part: str
    type: str
    kind: str
    scope: str
    role: str
    title: str
    heading: str
    origin: str
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Lag:
    """How many live passages wait for their vector, of how many."""

    pending: int
    total: int


@dataclass(frozen=True, slots=True)
class Pending:
    """A text that waits to be embedded, by content hash."""

    text_hash: str
    text: str


class Index(Protocol):
    """Passages of one space. Full text is as new as the ledger; vectors may lag, and `lag` says by how much."""

    @property
    def graph(self) -> Graph:
        """The graph of what is current: as new as the ledger."""
        ...

    def by_words(self, query: TextQuery, *, reach: Reach, limit: int) -> Sequence[Scored]:
        """Rank by BM25 over the query's words; best first."""
        ...

    def by_names(self, query: TextQuery, *, reach: Reach, limit: int) -> Sequence[Scored]:
        """Rank by BM25 over substrings of names, for the query's identifiers; best first."""
        ...

    def neighbours(self, keys: Sequence[int]) -> Mapping[int, Sequence[int]]:
        """Give, for passages that are turns of a conversation, the keys of the turns before and after."""
        ...

    def by_vector(self, vector: Vector, *, reach: Reach, limit: int) -> Sequence[Scored]:
        """Rank by cosine; best first. Passages without a vector are not in it."""
        ...

    def similarities(self, vector: Vector, keys: Sequence[int]) -> Mapping[int, float]:
        """Return the exact cosine of those of the keys that have a vector."""
        ...

    def by_place(self, text: str, *, reach: Reach, limit: int) -> Sequence[Scored]:
        """Rank passages whose object id, segment id, origin, title or heading is, or ends with, `text`."""
        ...

    def by_days(self, asked: Sequence[AskedDays], *, reach: Reach, limit: int) -> Sequence[Scored]:
        """Rank turns that were said on days asked for, or that speak of them; best first, then newest.

        A period that only in part is asked for counts by that part; of several the best counts.
        """
        ...

    def on_days(self, asked: Sequence[AskedDays], keys: Sequence[int]) -> Mapping[int, float]:
        """Return the scores `by_days` gives, of those of the keys that have one."""
        ...

    def visible(self, keys: Sequence[int], *, reach: Reach) -> frozenset[int]:
        """Return those of the keys that a read in reach may see, filters included."""
        ...

    def heads(self, keys: Sequence[int]) -> Mapping[int, PassageHead]:
        """Return the heads of passages."""
        ...

    def vectors(self, keys: Sequence[int]) -> Mapping[int, Vector]:
        """Return the vectors of those of the keys that have one."""
        ...

    def count(self, reach: Reach) -> int:
        """Count the passages in reach."""
        ...

    def knows(self, words: Sequence[str], *, reach: Reach) -> frozenset[str]:
        """Return those of the (stemmed) words that occur in anything current in the scopes of a reach."""
        ...

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count what the index still holds of objects, in whatever state; 0 after they were erased."""
        ...

    def lag(self) -> Lag:
        """Tell how far vectors lag behind."""
        ...

    def pending(self, limit: int) -> Sequence[Pending]:
        """Return texts that wait for a vector: prose and symbols first, bodies of code and data last."""
        ...

    def add_vectors(self, vectors: Mapping[str, Vector]) -> None:
        """Keep vectors by content hash, durably; a text never needs embedding twice."""
        ...

    def rebuild(self) -> int:
        """Throw away the passages and make them anew from the ledger; return their number."""
        ...

    def differences(self) -> Sequence[str]:
        """Compare with a rebuild without changing anything; say what differs."""
        ...


JobRow = Mapping[str, Any]


class JobLog(Protocol):
    """Remembers the outcome of long work, per item, across crashes. Operational, not part of the ledger."""

    def save(self, job_id: str, row: JobRow) -> None:
        """Keep the state of a job."""
        ...

    def find(self, job_id: str) -> JobRow | None:
        """Return a job's last state."""
        ...

    def recent(self, limit: int, *, scope: str) -> Sequence[JobRow]:
        """Return the newest of the jobs that ran at a scope, below it, or at one of its ancestors."""
        ...

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the jobs that still name one of these objects; 0 after they were erased."""
        ...
