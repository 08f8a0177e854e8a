"""Background work on an index: finish a rebuild, then embed texts, in a thread or at once."""

import atexit
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from treering.core.errors import Unavailable
from treering.ports.index import Upkeep
from treering.ports.models import Embedder
from treering.ports.runtime import VECTORS, Clock, Leases, interruptible, uninterrupted
from treering.ports.search import ChosenPending, Pending, VectorClaims, Vectors
from treering.ports.stores import PreparedTables
from treering.verbs.engine import Progress, silent

BUDGET_SECONDS = 1_800.0
LEASE_SECONDS = 60.0
"""Longer than the slowest batch. Otherwise another process would take over and embed the same texts."""

BATCH = 32
_FETCHED = 512  # texts sorted by length at a time, so that a batch has little padding
_MOST_PREFERRED = 256  # requested passages: a few batches
_CLAIMED = 128  # texts that one process claims at a time
_POLL_SECONDS = 0.2
_LOOKS = 6  # checks per lease while another process is working
_STOP_SECONDS = 30.0
_PATIENCE_LEASES = 3  # leases that another process may hold without progress
_REST_SECONDS = 15.0
"""The maximal wait of a batch for other programs; much shorter than a lease."""
_LOOKS_AT_LOAD = 1.0  # seconds
_REPORT_SECONDS = 2.0
"""The shortest time between progress reports within a round: each counts the waiting texts."""
EMBEDDING = "embedding"
"""The name of the work in progress reports."""
_INDEXING = "indexing"


class BackgroundVectoriser:
    """`verbs.engine.Vectoriser`: at most one thread per process, and one owner of the lease over all processes.

    With `claims`, processes share the waiting texts, and the lease is for other work. With `upkeep`, a rebuild of the
    index is finished first, because only then all texts are known. With `quick`, texts without any vector are first
    embedded by the quick model. With `follow`, an engine is updated at the end, as long as the argument returns true.
    With `tables`, background work prepares them between rounds.
    While `is_busy` returns true, background work waits up to 15 seconds before each batch except the first. Without
    `in_background`, work is only done in calls that wait for it.

    Every step and batch is committed, so that at most one of them is lost. An error ends the run, and is in
    `last_error` until a run succeeds. Call `stop` before closing the index; otherwise the thread is stopped when the
    process ends.
    """

    def __init__(
        self,
        vectors: Vectors,
        leases: Leases,
        embedder: Embedder,
        clock: Clock,
        *,
        claims: VectorClaims | None = None,
        quick: tuple[Vectors, Embedder] | None = None,
        upkeep: Upkeep | None = None,
        follow: Callable[[Callable[[], bool]], None] | None = None,
        tables: PreparedTables | None = None,
        is_busy: Callable[[], bool] = lambda: False,
        in_background: bool = True,
        budget_seconds: float = BUDGET_SECONDS,
        lease_seconds: float = LEASE_SECONDS,
        batch: int = BATCH,
    ) -> None:
        self.last_error: Exception | None = None
        self._vectors = vectors
        self._leases = leases
        self._embedder = embedder
        self._clock = clock
        self._claims = claims
        self._quick = quick
        self._upkeep = upkeep
        self._follow = follow
        self._tables = tables
        self._is_busy = is_busy
        self._in_background = in_background
        self._budget = budget_seconds
        self._lease_seconds = lease_seconds
        self._batch = batch
        self._owner = clock.random_bytes(8).hex()
        self._lock = threading.Lock()
        self._embedding = threading.Lock()
        self._thread: threading.Thread | None = None
        self._wanted = False
        self._preferred: dict[int, None] = {}
        self._steps = 0
        self._reported = 0.0
        self._stopping = threading.Event()

    def has_tables_to_prepare(self) -> bool:
        """Return whether tables for searches should be prepared."""
        return self._tables is not None and self._tables.has_tables_to_prepare()

    def start(self) -> None:
        """Start embedding in the background, unless it is running or not wanted there. Returns at once."""
        with self._lock:
            self._wanted = True
            if self._in_background and self._thread is None:
                self._stopping.clear()
                self._thread = threading.Thread(target=self._work, name="treering-vectoriser", daemon=True)
                _AT_WORK.add(self)
                self._thread.start()

    def prefer(self, keys: Sequence[int]) -> None:
        """Embed the texts of these passages first, if this process is embedding."""
        with self._lock:
            for key in keys:
                self._preferred.pop(key, None)
                self._preferred[key] = None
            for key in list(self._preferred)[:-_MOST_PREFERRED]:
                del self._preferred[key]

    def finish(self, progress: Progress = silent) -> None:
        """Embed all waiting texts now, or wait for the process that does.

        Takes over if that process ends early. Raises `Unavailable` if it makes no progress for several leases, and the
        errors of the embedder and the index.
        """
        self.stop()
        self._stopping.clear()
        patience = _Patience(self._clock, _PATIENCE_LEASES * self._lease_seconds)
        while not self._embed(self._stopping.is_set, progress):
            lag = self._vectors.lag()
            progress(EMBEDDING, lag.total - lag.pending, lag.total)
            if patience.is_over((lag.behind, lag.pending)):
                raise self._stuck()
            if self._stopping.wait(_POLL_SECONDS):
                return
        self.last_error = None

    def work_alone(self, progress: Progress = silent) -> None:
        """Embed waiting texts now, yielding to other programs. Do nothing if another process is embedding.

        Ends after the current batch if the lease is lost. Raises the errors of the embedder and the index.
        """
        self.stop()
        self._stopping.clear()
        run = self._new_run()
        if run.hold():
            self._embed(lambda: self._stopping.is_set() or not run.hold(), progress, run=run, gives_way=True)

    def take_turn(self, steps: int) -> None:
        """Run a number of steps now: of a rebuild, or batches of texts."""
        last = self._steps + steps
        self._embed(lambda: self._stopping.is_set() or self._steps >= last, silent)

    def stop(self) -> None:
        """Stop the thread after its current batch, and wait for it."""
        thread = self.ask_to_stop()
        if thread is not None:
            thread.join(_STOP_SECONDS)

    def ask_to_stop(self) -> threading.Thread | None:
        """Request that the thread stops after its current batch; return the thread, or `None`."""
        with self._lock:
            self._wanted = False
            self._stopping.set()
            return self._thread

    def _work(self) -> None:
        deadline = self._clock.elapsed() + self._budget
        try:
            while self._goes_on(deadline):
                over = partial(self._is_over, deadline)
                # If another process that works on it dies, its work is taken over.
                while not (self._embed(over, silent, gives_way=True) or over()):
                    self._stopping.wait(self._lease_seconds / _LOOKS)
                self.last_error = None
        except Exception as error:  # noqa: BLE001 - a thread has no caller; the error is stored and shown
            self.last_error = error
            with self._lock:
                self._note_end()

    def _goes_on(self, deadline: float) -> bool:
        """Return whether more work was requested since the last round; otherwise the thread ends."""
        with self._lock:
            goes_on = self._wanted and not self._is_over(deadline)
            self._wanted = False
            if not goes_on:
                self._note_end()
            return goes_on

    def _note_end(self) -> None:
        self._thread = None
        _AT_WORK.discard(self)

    def _is_over(self, deadline: float) -> bool:
        return self._stopping.is_set() or self._clock.elapsed() >= deadline

    def _stuck(self) -> Unavailable:
        holding = next((one for one in self._leases.held() if one.name == VECTORS), None)
        holder = f"process {holding.process}" if holding else "another process"
        return Unavailable(
            f"Embedding is delayed: {holder} holds the lease but has made no vectors "
            f"for {_PATIENCE_LEASES * self._lease_seconds:g} seconds.",
            hint=f"Check that process, and stop it if it hangs; `treering unlock {VECTORS}` releases the lease.",
            details={"lease": VECTORS, "process": holding.process if holding else None},
        )

    def _new_run(self) -> "_Run":
        return _Run(self._leases, self._owner, self._clock, self._lease_seconds)

    def _embed(
        self, is_over: Callable[[], bool], progress: Progress, *, run: "_Run | None" = None, gives_way: bool = False
    ) -> bool:
        """Embed until no text waits or `is_over` returns true; return false if another owner is working."""
        run = run or self._new_run()
        # The lease is owned by this object. The lock separates its thread from a call of `finish`.
        with self._embedding:
            try:
                done = self._index(run, is_over, progress)
                if done and self._quick:
                    self._embed_quickly(*self._quick, is_over)
                is_over = self._rested(is_over) if gives_way else is_over
                tables = self._tables if gives_way else None
                done = done and self._make_vectors(run, is_over, progress, tables)
                if done and self._follow:
                    done = run.hold()
                    self._follow(lambda: not is_over() and run.hold())
                return done
            finally:
                run.release()

    def _rested(self, is_over: Callable[[], bool]) -> Callable[[], bool]:
        """Return a function like `is_over` that, after a batch, first waits while other programs are busy."""
        rested = self._steps

        def is_over_after_rest() -> bool:
            nonlocal rested
            if self._steps > rested and self._is_busy():
                self._rest(is_over)
            rested = self._steps
            return is_over()

        return is_over_after_rest

    def _rest(self, is_over: Callable[[], bool]) -> None:
        until = self._clock.elapsed() + _REST_SECONDS
        while not self._stopping.wait(_LOOKS_AT_LOAD) and self._clock.elapsed() < until and not is_over():
            if not self._is_busy():
                return

    def _index(self, run: "_Run", is_over: Callable[[], bool], progress: Progress) -> bool:
        """Finish a rebuild of the index; return false if another owner took over."""
        while self._upkeep and self._upkeep.behind().total:
            if is_over() or not run.hold():
                return is_over()
            behind = self._upkeep.advance()
            self._steps += 1
            progress(_INDEXING, behind.done, behind.total)
        return True

    def _embed_quickly(self, quick: Vectors, embedder: Embedder, is_over: Callable[[], bool]) -> None:
        """Embed texts without any vector with the quick model, as in a space of an older version.

        If two processes do the same, it costs less than coordinating them.
        """
        while not is_over() and (waiting := quick.pending(_FETCHED)):
            vectors = embedder.embed_documents([item.text for item in waiting])
            quick.add({item.text_hash: vector for item, vector in zip(waiting, vectors, strict=True)})
            self._steps += 1

    def _make_vectors(
        self, run: "_Run", is_over: Callable[[], bool], progress: Progress, tables: PreparedTables | None
    ) -> bool:
        if self._claims:
            return self._embed_claimed(_Share(self._claims, self._clock, self._lease_seconds), is_over, progress)
        return run.hold() and self._embed_rounds(run, is_over, progress, tables)

    def _embed_rounds(
        self, run: "_Run", is_over: Callable[[], bool], progress: Progress, tables: PreparedTables | None
    ) -> bool:
        while not tables or self._prepare(tables, run, is_over):
            if not (waiting := self._vectors.pending(_FETCHED)) or is_over():
                return True
            for batch in _batches(waiting, self._batch):
                if is_over() or not run.hold():
                    return is_over()
                self._embed_preferred()
                self._embed_batch(batch)
                self._report_at_times(progress)
            self._report(progress)
        return is_over()

    def _prepare(self, tables: PreparedTables, run: "_Run", is_over: Callable[[], bool]) -> bool:
        """Prepare tables if they are due; return false if this was stopped, or another owner took over."""

        def check() -> None:
            with uninterrupted():
                if is_over() or not run.hold():
                    raise _Stopped

        with suppress(_Stopped), interruptible(check):
            if tables.has_tables_to_prepare():
                tables.prepare_tables()
            return True
        return False

    def _embed_claimed(self, share: "_Share", is_over: Callable[[], bool], progress: Progress) -> bool:
        try:
            while not is_over() and (claimed := share.claim()):
                for batch in _batches(claimed, self._batch):
                    if is_over():
                        return True
                    share.keep()
                    self._embed_preferred()
                    self._embed_batch(batch)
                    self._report_at_times(progress)
                self._report(progress)
            return is_over() or not share.others_are_at_it()
        finally:
            share.give_back()

    def _embed_preferred(self) -> None:
        """Embed the texts preferred since the last batch."""
        with self._lock:
            keys, self._preferred = list(self._preferred), {}
        if keys and isinstance(self._vectors, ChosenPending):
            for batch in _batches(self._vectors.pending_of(keys), self._batch):
                self._embed_batch(batch)

    def _embed_batch(self, batch: Sequence[Pending]) -> None:
        vectors = self._embedder.embed_documents([item.text for item in batch])
        self._vectors.add({item.text_hash: vector for item, vector in zip(batch, vectors, strict=True)})
        self._steps += 1

    def _report_at_times(self, progress: Progress) -> None:
        if self._clock.elapsed() - self._reported >= _REPORT_SECONDS:
            self._report(progress)

    def _report(self, progress: Progress) -> None:
        self._reported = self._clock.elapsed()
        lag = self._vectors.lag()
        progress(EMBEDDING, lag.total - lag.pending, lag.total)


class _Stopped(Exception):
    """Ends the preparation of tables."""


_AT_WORK: set[BackgroundVectoriser] = set()
"""Vectorisers with a running thread."""


@atexit.register
def _stop_all() -> None:
    """Stop all threads before the interpreter ends, which would abort in a model's native code."""
    working = list(_AT_WORK)
    for each in working:  # request first, so that their last batches run concurrently
        each.ask_to_stop()
    for each in working:
        each.stop()


@dataclass(slots=True)
class _Patience:
    """How long to wait for work without progress."""

    clock: Clock
    seconds: float
    since: float = 0.0
    waiting: tuple[int, ...] = ()

    def is_over(self, waiting: tuple[int, ...]) -> bool:
        """Return whether the amount of waiting work has not changed for too long."""
        now = self.clock.elapsed()
        if waiting != self.waiting:
            self.waiting, self.since = waiting, now
        return now - self.since > self.seconds


@dataclass(slots=True)
class _Run:
    """The lease of one run, renewed in time. A run that loses the lease does not acquire it again."""

    leases: Leases
    owner: str
    clock: Clock
    seconds: float
    renewed: float | None = None
    lost: bool = False

    def hold(self) -> bool:
        """Acquire the lease, or renew it in time; return whether it is held."""
        now = self.clock.elapsed()
        if self.lost:
            return False
        if self.renewed is not None and now - self.renewed < self.seconds / 3:
            self.lost = self.leases.holder(VECTORS) != self.owner
        else:
            self.lost = not self.leases.take(VECTORS, self.owner, seconds=self.seconds)
            self.renewed = now
        return not self.lost

    def release(self) -> None:
        if self.renewed is not None and not self.lost:
            self.leases.take(VECTORS, self.owner, seconds=0)
            self.renewed = None


class _Share:
    """The claimed texts of one run, renewed in time. Each run is a separate owner."""

    def __init__(self, claims: VectorClaims, clock: Clock, seconds: float) -> None:
        self._claims = claims
        self._clock = clock
        self._seconds = seconds
        self._owner = clock.random_bytes(8).hex()
        self._kept = clock.elapsed()

    def claim(self) -> Sequence[Pending]:
        self._kept = self._clock.elapsed()
        return self._claims.claim(self._owner, _CLAIMED, seconds=self._seconds)

    def keep(self) -> None:
        if self._clock.elapsed() - self._kept >= self._seconds / 3:
            self._claims.renew(self._owner, seconds=self._seconds)
            self._kept = self._clock.elapsed()

    def others_are_at_it(self) -> bool:
        return self._claims.claimed_by_others(self._owner) > 0

    def give_back(self) -> None:
        self._claims.give_back(self._owner)


def _batches(waiting: Sequence[Pending], size: int) -> list[Sequence[Pending]]:
    """Split into batches of texts with similar lengths."""
    by_length = sorted(waiting, key=lambda item: len(item.text))
    return [by_length[start : start + size] for start in range(0, len(by_length), size)]
