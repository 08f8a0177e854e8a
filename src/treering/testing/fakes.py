"""A clock, models, jobs and leases for tests: the same in every run."""

import hashlib
import json
import os
from collections.abc import Sequence, Set
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from threading import RLock

import numpy as np

from treering.core.errors import InvalidInput
from treering.core.objects import Object, Source
from treering.core.scope import sees
from treering.ports.index import Change
from treering.ports.ledger import Ledger
from treering.ports.models import Scores, Vector
from treering.ports.runtime import LONGEST_SECONDS, Clock, Holding, JobRow
from treering.retrieval.index.projection import Named, follow, origins_in
from treering.retrieval.text.analysis import index_text

START = datetime(2026, 1, 1, tzinfo=UTC)
STEP = timedelta(milliseconds=1)


class SteppingClock:
    """`ports.runtime.Clock` that goes on by `step` each time it is asked. Times are UTC; bytes are hashed from a count.

    Clocks with different seeds give different bytes. `ahead`: how far its time of day is wrong.
    """

    def __init__(
        self, start: datetime = START, step: timedelta = STEP, *, seed: str = "", ahead: timedelta = timedelta(0)
    ) -> None:
        self._ahead = ahead
        self._time = start
        self._step = step
        self._seed = seed.encode()
        self._drawn = 0

    def now(self) -> datetime:
        """Return the time, then go on by a step."""
        return self._moment() + self._ahead

    def elapsed(self) -> float:
        """Return the seconds since `START`, however wrong the time of day is; then go on by a step."""
        return (self._moment() - START).total_seconds()

    def random_bytes(self, count: int) -> bytes:
        """Return bytes that differ between calls, the same in every run."""
        self._drawn += 1
        return hashlib.shake_128(self._seed + self._drawn.to_bytes(8, "big")).digest(count)

    def set(self, time: datetime) -> None:
        """Put the clock forward or back."""
        self._time = time

    def _moment(self) -> datetime:
        time = self._time
        self._time += self._step
        return time


# An embedder without a model: texts that share words are near each other, and that is all it knows.


class HashingEmbedder:
    """Embed texts as bags of stemmed words, hashed onto `dimension` signed axes (feature hashing), with unit length.

    Deterministic and quick, for tests of backends.
    """

    unrelated_below: float = 0.62
    """More than by chance: with few axes, words that differ often share one."""

    def __init__(self, dimension: int = 64) -> None:
        self.dimension = dimension

    @property
    def model_id(self) -> str:
        """The name of this model."""
        return f"hashing/{self.dimension}"

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Embed texts: `float32[n, dim]`, unit length."""
        return np.stack([self.embed_query(text) for text in texts]) if texts else self._zeros(0)

    def embed_query(self, text: str) -> Vector:
        """Embed one text: `float32[dim]`, unit length."""
        vector = self._zeros(1)[0]
        # An empty text has to lie somewhere too.
        for term in index_text(text).split() or [""]:
            number = int.from_bytes(blake2b(term.encode(), digest_size=8).digest())
            vector[number % self.dimension] += 1.0 if number >> 63 else -1.0
        norm = np.linalg.norm(vector)
        if not norm:  # words that cancelled each other out
            vector[0] = norm = np.float32(1)
        unit: Vector = (vector / norm).astype(np.float32)
        return unit

    def _zeros(self, count: int) -> Vector:
        return np.zeros((count, self.dimension), np.float32)


# A reranker without a model: a text that has more of the question's words scores higher, and that is all it knows.


class OverlapReranker:
    """Score a text by the share of the question's words in it, for tests of backends."""

    @property
    def model_id(self) -> str:
        """The name of this model."""
        return "overlap"

    def score(self, question: str, texts: Sequence[str]) -> Scores:
        """Score each text: `float32[n]`, from 0 to 1."""
        asked = set(index_text(question).split())
        return np.array([len(asked & set(index_text(text).split())) / max(len(asked), 1) for text in texts], np.float32)


# The log of jobs in memory: what `ports.runtime.JobLog` means, for a log that lives elsewhere than the ledger.


class MemoryJobs:
    """`ports.runtime.JobLog` that ends with the process.

    It learns of erasures from the ledger's changes, which it follows before each call
    (`retrieval.index.projection.follow`).
    """

    def __init__(self, ledger: Ledger) -> None:
        self.cursor: int = 0
        self._ledger = ledger
        self._lock = RLock()
        self._rows: dict[str, JobRow] = {}
        self._origins: dict[str, set[str]] = {}
        """The place of each source."""
        self._erased: set[str] = set()

    def save(self, job_id: str, row: JobRow) -> None:
        """Store the state of a job, without results about objects that were erased while it ran."""
        with self._followed():
            kept: JobRow = json.loads(json.dumps(dict(row)))
            # Only from this job: an erased source may have been read again from its place.
            named = Named(self._erased, frozenset(origins_in(kept, self._erased)))
            self._rows[job_id] = named.without(kept) if named.is_in(kept) else kept

    def find(self, job_id: str) -> JobRow | None:
        """Return a job's last state."""
        with self._followed():
            return self._rows.get(job_id)

    def recent(self, limit: int, *, scope: str) -> Sequence[JobRow]:
        """Return the newest of the jobs at, below or above a scope, those begun last first."""
        with self._followed():
            newest = list(reversed(self._rows.values()))
        return [row for row in newest if row["scope"] is not None and sees(scope, row["scope"], descend=True)][:limit]

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the jobs that still name one of these objects."""
        named = Named(frozenset(object_ids))
        with self._followed():
            return sum(map(named.is_in, self._rows.values()))

    def apply(self, changes: Sequence[Change], *, upto: int) -> None:
        """Remove results about erased objects from all jobs."""
        for change in changes:
            self._note_origins(change.before, change.after)
        if erased := {change.object_id for change in changes if change.after is None}:
            self._erased |= erased
            self._forget(erased)
        self.cursor = upto

    def clear(self) -> None:
        """Restart looking for erasures. The jobs themselves are independent of changes and stay."""
        self.cursor = 0
        self._origins, self._erased = {}, set()

    def _followed(self) -> RLock:
        """Return the lock, once the ledger's erasures are known."""
        with self._lock:
            follow(self._ledger, self)
        return self._lock

    def _note_origins(self, *items: Object | None) -> None:
        for item in items:
            if isinstance(item, Source):
                self._origins.setdefault(item.id, set()).add(item.origin)

    def _forget(self, ids: Set[str]) -> None:
        told = {origin for row in self._rows.values() for origin in origins_in(row, ids)}
        named = Named(ids, told.union(*(self._origins.pop(identity, ()) for identity in ids)))
        self._rows |= {job: named.without(row) for job, row in self._rows.items() if named.is_in(row)}


# Leases in memory: what `ports.runtime.Leases` means, for one process.


class MemoryLeases:
    """`ports.runtime.Leases` that end with the process. One lock makes every call atomic."""

    def __init__(self, *, clock: Clock) -> None:
        self._clock = clock
        self._lock = RLock()
        self._taken: dict[str, tuple[str, float, float]] = {}
        """By name: owner, when it was taken or renewed last, and for how many seconds."""

    def take(self, name: str, owner: str, *, seconds: float) -> bool:
        """Take or renew a lease; return whether `owner` holds it now."""
        if seconds > LONGEST_SECONDS:
            raise InvalidInput(
                f"A lease of {seconds:g} seconds is too long.", hint=f"Give at most {LONGEST_SECONDS:g}, and renew it."
            )
        with self._lock:
            if self.holder(name) not in {None, owner}:
                return False
            self._taken[name] = (owner, self._clock.elapsed(), seconds)
            return True

    def holder(self, name: str) -> str | None:
        """Return the current holder of a lease."""
        return next((known.owner for known in self.held() if known.name == name), None)

    def held(self) -> Sequence[Holding]:
        """List the leases that are held now, by name."""
        with self._lock:
            now, taken = self._clock.elapsed(), sorted(self._taken.items())
        holdings = [
            Holding(name, owner, os.getpid(), now - renewed, renewed + seconds - now)
            for name, (owner, renewed, seconds) in taken
        ]
        return [known for known in holdings if known.left > 0]

    def clear(self, name: str) -> Holding | None:
        """Release a lease on behalf of its owner; return the released lease."""
        with self._lock:
            known = next((known for known in self.held() if known.name == name), None)
            self._taken.pop(name, None)
            return known
