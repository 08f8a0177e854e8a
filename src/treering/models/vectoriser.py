"""Making what waits (a rebuilt index, then vectors): in a thread behind everyday work, or at once."""

import atexit
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from treering.core.errors import Unavailable
from treering.ports.index import Upkeep
from treering.ports.models import Embedder
from treering.ports.runtime import VECTORS, Clock, Leases
from treering.ports.search import ChosenPending, Pending, VectorClaims, Vectors
from treering.verbs.engine import Progress, Vectoriser, silent

BUDGET_SECONDS = 1_800.0
LEASE_SECONDS = 60.0
"""Longer than the slowest batch, or another process would take over and embed the same texts."""

BATCH = 32
_FETCHED = 512  # texts sorted by length at a time, so that a batch has little padding
_MOST_PREFERRED = 256  # passages that were asked for: a few batches
_CLAIMED = 128  # texts of which one process keeps the others out at a time
_POLL_SECONDS = 0.2
_LOOKS = 6  # per length of a lease, while another process is at it
_STOP_SECONDS = 30.0
_PATIENCE_LEASES = 3  # lengths of a lease that another process may hold without making a vector
_REST_SECONDS = 15.0
"""How long a batch waits for other programs at most: far less than a lease, and what waits gets its vector some day."""
_LOOKS_AT_LOAD = 1.0  # seconds
EMBEDDING = "embedding"
"""What progress is told of."""
_INDEXING = "indexing"


class BackgroundVectoriser:
    """`verbs.engine.Vectoriser`: at most one thread here, and over all processes one owner of the lease.

    Where `claims` are given, processes share the texts that wait instead, and the lease is for the rest of the work.
    Where `upkeep` is given, an index that is being made anew is finished first, for only then all texts are known.
    Where `quick` is given, texts that have no vector at all get one of the quick model first.
    Where `follow` is given, what follows the vectors is brought up to date after them, for as long as it may go on.
    While `is_busy` tells that other programs need the machine, work that nobody waits for rests before each batch but
    the first, for 15 seconds at most.
    Every step and every batch is committed, so that work is lost for one of them at most. An error ends the run; it
    stays in `last_error` until a run succeeds. Call `stop` before the index is closed; where nobody did, the thread is
    stopped when the process ends.
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
        is_busy: Callable[[], bool] = lambda: False,
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
        self._is_busy = is_busy
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
        self._stopping = threading.Event()

    def start(self) -> None:
        """See to it that somebody embeds what waits. Returns at once."""
        with self._lock:
            self._wanted = True
            if self._thread is None:
                self._stopping.clear()
                self._thread = threading.Thread(target=self._work, name="treering-vectoriser", daemon=True)
                _AT_WORK.add(self)
                self._thread.start()

    def prefer(self, keys: Sequence[int]) -> None:
        """Embed the texts of these passages first, if this process is the one that makes the vectors."""
        with self._lock:
            for key in keys:
                self._preferred.pop(key, None)
                self._preferred[key] = None
            for key in list(self._preferred)[:-_MOST_PREFERRED]:
                del self._preferred[key]

    def finish(self, progress: Progress = silent) -> None:
        """Embed everything that waits, here and now, or wait until the process that is at it has.

        Takes over where that process ends without having finished. Raises `Unavailable` where it has made no vector
        for as long as several of its leases, and what the embedder or the index raises.
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
        """Embed what waits, here and now, and give way to other programs. Where another process is at it, do nothing.

        Ends after the batch it is at when its lease is taken away. Raises what the embedder or the index raises.
        """
        self.stop()
        self._stopping.clear()
        run = self._new_run()
        if run.hold():
            self._embed(lambda: self._stopping.is_set() or not run.hold(), progress, run=run, gives_way=True)

    def take_turn(self, steps: int) -> None:
        """Do some of what waits, here and now: so many steps of an index that is being made anew, or batches."""
        last = self._steps + steps
        self._embed(lambda: self._stopping.is_set() or self._steps >= last, silent)

    def stop(self) -> None:
        """End the thread after the batch it is at, and wait for that."""
        thread = self.ask_to_stop()
        if thread is not None:
            thread.join(_STOP_SECONDS)

    def ask_to_stop(self) -> threading.Thread | None:
        """Tell the thread to end after the batch it is at; return it where it runs."""
        with self._lock:
            self._wanted = False
            self._stopping.set()
            return self._thread

    def _work(self) -> None:
        deadline = self._clock.elapsed() + self._budget
        try:
            while self._goes_on(deadline):
                over = partial(self._is_over, deadline)
                # Where another process is at it and dies, its work is taken over.
                while not (self._embed(over, silent, gives_way=True) or over()):
                    self._stopping.wait(self._lease_seconds / _LOOKS)
                self.last_error = None
        except Exception as error:  # noqa: BLE001 - a thread has nobody to raise to; what happened is kept and shown
            self.last_error = error
            with self._lock:
                self._note_end()

    def _goes_on(self, deadline: float) -> bool:
        """Tell whether somebody asked for more since the last round; where not, the thread is over."""
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
        """Embed until nothing waits or the run is over; give `False` where another owner is at it."""
        run = run or self._new_run()
        # The lease is this object's; the lock keeps its thread and one that finishes from working side by side.
        with self._embedding:
            try:
                done = self._index(run, is_over, progress)
                if done and self._quick:
                    self._embed_quickly(*self._quick, is_over)
                is_over = self._rested(is_over) if gives_way else is_over
                done = done and self._make_vectors(run, is_over, progress)
                if done and self._follow:
                    done = run.hold()
                    self._follow(lambda: not is_over() and run.hold())
                return done
            finally:
                run.release()

    def _rested(self, is_over: Callable[[], bool]) -> Callable[[], bool]:
        """Return what tells the same after a rest, where a batch was made since the last one and others are busy."""
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
        """Finish an index that is being made anew; give `False` where another owner took over."""
        while self._upkeep and self._upkeep.behind().total:
            if is_over() or not run.hold():
                return is_over()
            behind = self._upkeep.advance()
            self._steps += 1
            progress(_INDEXING, behind.done, behind.total)
        return True

    def _embed_quickly(self, quick: Vectors, embedder: Embedder, is_over: Callable[[], bool]) -> None:
        """Embed with the quick model what has no vector: texts of a space that an older version wrote.

        Two processes that are at it do the same, which costs less than to keep them apart.
        """
        while not is_over() and (waiting := quick.pending(_FETCHED)):
            vectors = embedder.embed_documents([item.text for item in waiting])
            quick.add({item.text_hash: vector for item, vector in zip(waiting, vectors, strict=True)})
            self._steps += 1

    def _make_vectors(self, run: "_Run", is_over: Callable[[], bool], progress: Progress) -> bool:
        if self._claims:
            return self._embed_claimed(_Share(self._claims, self._clock, self._lease_seconds), is_over, progress)
        return run.hold() and self._embed_rounds(run, is_over, progress)

    def _embed_rounds(self, run: "_Run", is_over: Callable[[], bool], progress: Progress) -> bool:
        while (waiting := self._vectors.pending(_FETCHED)) and not is_over():
            for batch in _batches(waiting, self._batch):
                if is_over() or not run.hold():
                    return is_over()
                self._embed_preferred()
                self._embed_batch(batch)
            self._tell(progress)
        return True

    def _embed_claimed(self, share: "_Share", is_over: Callable[[], bool], progress: Progress) -> bool:
        try:
            while not is_over() and (claimed := share.claim()):
                for batch in _batches(claimed, self._batch):
                    if is_over():
                        return True
                    share.keep()
                    self._embed_preferred()
                    self._embed_batch(batch)
                self._tell(progress)
            return is_over() or not share.others_are_at_it()
        finally:
            share.give_back()

    def _embed_preferred(self) -> None:
        """Embed what was asked for since the last batch."""
        with self._lock:
            keys, self._preferred = list(self._preferred), {}
        if keys and isinstance(self._vectors, ChosenPending):
            for batch in _batches(self._vectors.pending_of(keys), self._batch):
                self._embed_batch(batch)

    def _embed_batch(self, batch: Sequence[Pending]) -> None:
        vectors = self._embedder.embed_documents([item.text for item in batch])
        self._vectors.add({item.text_hash: vector for item, vector in zip(batch, vectors, strict=True)})
        self._steps += 1

    def _tell(self, progress: Progress) -> None:
        lag = self._vectors.lag()
        progress(EMBEDDING, lag.total - lag.pending, lag.total)


_AT_WORK: set[BackgroundVectoriser] = set()
"""Those whose thread runs."""


@atexit.register
def _stop_all() -> None:
    """Stop every thread before the interpreter ends: one inside a model's native code would abort the process then."""
    working = list(_AT_WORK)
    for each in working:  # all of them first, so that their last batches run side by side
        each.ask_to_stop()
    for each in working:
        each.stop()


@dataclass(slots=True)
class _Patience:
    """How long somebody waits for work that does not go on."""

    clock: Clock
    seconds: float
    since: float = 0.0
    waiting: tuple[int, ...] = ()

    def is_over(self, waiting: tuple[int, ...]) -> bool:
        """Tell whether as much waits as before, for too long."""
        now = self.clock.elapsed()
        if waiting != self.waiting:
            self.waiting, self.since = waiting, now
        return now - self.since > self.seconds


@dataclass(slots=True)
class _Run:
    """The lease while one run lasts, renewed in good time. Once lost, or not got, it is not taken by this run again."""

    leases: Leases
    owner: str
    clock: Clock
    seconds: float
    renewed: float | None = None
    lost: bool = False

    def hold(self) -> bool:
        """Take the lease, or renew it in good time; tell whether it is held."""
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
    """The texts that one run has claimed, kept in good time. Each run is an owner of its own."""

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
    """Cut into batches of texts of about the same length."""
    by_length = sorted(waiting, key=lambda item: len(item.text))
    return [by_length[start : start + size] for start in range(0, len(by_length), size)]


class OnRequest:
    """A vectoriser that works only when somebody waits for it."""

    def __init__(self, inner: Vectoriser) -> None:
        self._inner = inner

    def start(self) -> None:
        """Leave what waits to a later request."""

    def prefer(self, keys: Sequence[int]) -> None:
        """Embed these first, in a later request."""
        self._inner.prefer(keys)

    def finish(self, progress: Progress) -> None:
        """Embed everything that waits."""
        self._inner.finish(progress)

    def work_alone(self, progress: Progress) -> None:
        """Embed what waits, giving way to other programs."""
        self._inner.work_alone(progress)
