"""The jobs of a server: calls of `ingest` whose client does not wait for the answer.

A job is a row in the space's log of jobs, in which `ingest` also records its progress. So every server of the space can
report every job, including jobs of a server that has ended.
"""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from anyio import CapacityLimiter
from anyio.to_thread import run_sync

from treering.core.errors import Conflict, InvalidInput, NotFound, TreeringError, Unavailable
from treering.extensions.mcp.deadline import Deadline
from treering.extensions.server.callers import Bounds, Caller
from treering.extensions.server.failures import for_caller, too_many_requests
from treering.extensions.server.served import ServedSpace
from treering.extensions.server.workers import Stop
from treering.ports.runtime import Clock, JobLog, check_between_steps, fresh_id, interruptible, uninterrupted
from treering.ports.runtime import JobRow as StoredRow
from treering.verbs.catalog import find
from treering.verbs.engine import Engine
from treering.verbs.envelope import Envelope
from treering.verbs.ingest.ingest import parsed_job
from treering.verbs.ingest.report import ENDED, JobError, JobReport, JobRow, JobState

_INGEST = find("ingest")
_STATUS = _INGEST.find("status")
_BEAT_SECONDS = 15.0
_KEEPING_AT_ONCE = 4
_UNFORESEEN = JobError(code="error", message="The server failed on this job.", hint="See its log.")
_LOG = logging.getLogger(__name__)


class KeptJob:
    """Stores a job, and is the log of jobs for the call that does its work, so that both write one row.

    Safe to use from many threads.
    """

    def __init__(self, log: JobLog, row: JobRow, clock: Clock) -> None:
        self._log = log
        self._row = row
        self._clock = clock
        self._lock = threading.Lock()

    def lend(self, engine: Engine) -> Engine:
        """Return the engine of the call that does the job's work."""
        return replace(engine, jobs=self, job=self._row.id)

    def turn(self, state: JobState, *errors: JobError) -> None:
        """Store a new state of the job."""
        with self._lock:
            self._keep(self._row.model_copy(update={"state": state, "errors": errors}))

    def touch(self) -> None:
        """Store a heartbeat of the job. After a minute without one it is treated as interrupted."""
        with self._lock:
            if self._row.state not in ENDED:
                self._keep(self._row)

    def save(self, job_id: str, row: StoredRow) -> None:
        """Store the progress of the call. Raises an error that ends the call, if it has to end."""
        with self._lock:
            # The call does not know its requester, nor what follows it.
            ours = {"state": "running", "holder": self._row.holder, "request": self._row.request}
            self._keep(JobRow.model_validate({**row, "id": job_id, **ours}))
        check_between_steps()

    def find(self, job_id: str) -> StoredRow | None:
        """Return a job's last state."""
        return self._log.find(job_id)

    def recent(self, limit: int, *, scope: str) -> Sequence[StoredRow]:
        """Return the newest jobs."""
        return self._log.recent(limit, scope=scope)

    def remains(self, object_ids: Sequence[str]) -> int:
        """Count the jobs that still name one of these objects."""
        return self._log.remains(object_ids)

    def _keep(self, row: JobRow) -> None:
        self._row = row.model_copy(update={"updated_at": self._clock.now()})
        with uninterrupted():
            self._log.save(self._row.id, self._row.model_dump(mode="json"))


@dataclass(eq=False, slots=True)
class RunningJob:
    """A job that this server runs, or that waits here for a thread."""

    envelope: Envelope
    caller: Caller
    id: str = ""
    """Empty until a new job is stored."""
    holder: str = ""
    """The key of its owner; empty: the key of the caller."""
    size: int = 0
    """The bytes of the request."""
    lends: Callable[[Engine], Engine] | None = None
    """As `lend` of `ServedSpace.call`."""
    held: ExitStack = field(default_factory=ExitStack)
    deadline: Deadline = field(default_factory=Deadline)
    cancelled: bool = False
    begun: bool = False
    task: asyncio.Task[None] | None = None
    kept: KeptJob = field(init=False)
    """Its row, set before it runs."""

    @property
    def holds_content(self) -> bool:
        """Whether its content came with the request, and is not stored."""
        return self.lends is not None or not _INGEST.find(self.envelope.mode).rights.reads_files

    def lend(self, engine: Engine) -> Engine:
        """Return the engine of its call, given the engine of the space."""
        return self.kept.lend(self.lends(engine) if self.lends else engine)


class RunningJobs:
    """Runs jobs in threads of their own: few at once, so that long work leaves the threads of other calls free.

    Only the event loop's thread calls the coroutines: counting needs no lock.
    """

    def __init__(self, space: ServedSpace, bounds: Bounds, *, stop: Stop) -> None:
        self._space = space
        self._bounds = bounds
        self._stop = stop
        self._places = CapacityLimiter(bounds.jobs_at_once)
        self._threads = CapacityLimiter(bounds.jobs_at_once)
        self._keeping = CapacityLimiter(_KEEPING_AT_ONCE)
        self._jobs: set[RunningJob] = set()

    @staticmethod
    def takes(envelope: Envelope) -> bool:
        """Return whether a call of `ingest` can be a job: whether it writes."""
        return _INGEST.find(envelope.mode).rights.writes and not envelope.options.get("dry_run")

    def load(self) -> tuple[int, int]:
        """Return how many jobs run, and how many wait."""
        running = sum(job.begun for job in self._jobs)
        return running, len(self._jobs) - running

    async def start(
        self,
        envelope: Envelope,
        caller: Caller,
        *,
        size: int = 0,
        lend: Callable[[Engine], Engine] | None = None,
        after: ExitStack | None = None,
    ) -> JobReport:
        """Store a job, start it, and return its state.

        `envelope`: a checked call of `ingest`. `size`: its bytes in memory. `lend`: makes its engine from that of the
        space. `after`: closed when the job has ended; emptied by this call. Raises `Unavailable` if too many jobs wait,
        `Refusal` if the caller has too many.
        """
        named = envelope.scope if "scope" in envelope.model_fields_set else None
        placed = envelope.model_copy(update={"scope": caller.scope_for(named)})
        job = RunningJob(placed, caller, size=size, lends=lend)
        report = await self._begin(job)
        if after:
            job.held = after.pop_all()
        return report

    async def resume(self, job_id: str, caller: Caller) -> JobReport:
        """Run an unfinished job again. Content that it has already written is not written again.

        Raises `NotFound`, `Conflict` for a running or finished job, `InvalidInput` if its request was not stored.
        """
        row, state = await run_sync(partial(self._row, job_id, caller), limiter=self._keeping)
        if state not in ENDED or state == "done":
            raise Conflict(f"The job is {state}.", hint="Only a job that ended early can be resumed.")
        if not row.request:
            raise InvalidInput(
                "The input of this job is not stored, because it contains content.",
                hint="Send it again; existing content is not written twice.",
            )
        envelope = Envelope.model_validate(row.request[0])
        _INGEST.require(_INGEST.find(envelope.mode), granted=caller.granted)
        caller.scope_for(envelope.scope)
        return await self._begin(RunningJob(envelope, caller, job_id, row.holder))

    async def cancel(self, job_id: str, caller: Caller) -> JobReport:
        """End a job at its next check for interruption; a waiting one ends at once. Its writes stay.

        Raises `NotFound`, `Conflict` for a job that another server runs.
        """
        _, state = await run_sync(partial(self._row, job_id, caller), limiter=self._keeping)
        if job := self._running(job_id):
            job.cancelled = True
            job.deadline.end("The job was cancelled.")
            if job.task and not job.begun:
                job.task.cancel()
                await asyncio.wait({job.task})
        elif state not in ENDED:
            raise Conflict(
                "The job runs on another server of this space, or on one that has just ended.",
                hint="Cancel it there. A job without a server counts as interrupted after a minute.",
            )
        return await run_sync(partial(self.report, job_id, caller), limiter=self._keeping)

    def report(self, job_id: str, caller: Caller, *, max_items: int | None = None) -> JobReport:
        """Return the state of a job. Raises `NotFound` if it does not exist or belongs to another caller."""
        self._row(job_id, caller)
        options = {} if max_items is None else {"max_items": max_items}
        envelope = Envelope(mode="status", scope=caller.scope, input={"job": job_id}, options=options)
        return JobReport.model_validate(self._space.call("ingest", envelope, caller).model_dump())

    async def close(self) -> None:
        """Wait until no job runs; jobs that wait for a thread are interrupted, running ones end with the server."""
        tasks = [job.task for job in self._jobs if job.task]
        for job in self._jobs:
            if job.task and not job.begun:
                job.task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _begin(self, job: RunningJob) -> JobReport:
        self._stop.check()
        if job.id and self._running(job.id):
            raise Conflict("The job is running.", hint="Only a job that ended early can be resumed.")
        self._check_room(job)
        self._jobs.add(job)
        try:
            report = await run_sync(partial(self._keep, job), limiter=self._keeping)
            job.task = asyncio.create_task(self._work(job))
            job.task.add_done_callback(_tell)
        finally:
            if not job.task:
                self._jobs.discard(job)
        return report

    def _check_room(self, job: RunningJob) -> None:
        """Raise `Unavailable` if this server has too many jobs, `Refusal` if the caller has."""
        sizes = sum(one.size for one in self._jobs)
        if len(self._jobs) >= self._bounds.most_jobs or sizes + job.size > self._bounds.most_waiting_bytes:
            raise Unavailable(
                f"{len(self._jobs)} jobs are already running or waiting.", hint="Wait until one of them is done."
            )
        key = job.caller.key
        of_key = sum(one.caller.key == key for one in self._jobs)
        if key and of_key >= self._bounds.for_caller(job.caller).at_once:
            raise too_many_requests(
                f"{of_key} jobs of this key are already running or waiting.", "Wait until one of them is done."
            )

    def _keep(self, job: RunningJob) -> JobReport:
        """Store a waiting job, creating the space if necessary, because the call will write."""
        envelope, mode = job.envelope, _INGEST.find(job.envelope.mode)
        engine = self._space.engine_for(mode, job.caller)
        now = engine.clock.now()
        row = JobRow(
            id=job.id or fresh_id("job", engine.clock),
            mode=mode.name,
            scope=envelope.scope,
            target=_target(envelope) or "what was given inline",
            state="waiting",
            started_at=now,
            updated_at=now,
            done=0,
            total=None,
            counts={},
            holder=job.holder or job.caller.key,
            request=() if job.holds_content else (envelope.model_dump(mode="json"),),
        )
        job.id, job.kept = row.id, KeptJob(engine.jobs, row, engine.clock)
        job.kept.turn("waiting")
        return self.report(row.id, job.caller)

    async def _work(self, job: RunningJob) -> None:
        beating = asyncio.create_task(self._beat(job))
        try:
            await self._places.acquire_on_behalf_of(job)
            job.begun = True
            try:
                await run_sync(partial(self._run, job), limiter=self._threads)
            finally:
                self._places.release_on_behalf_of(job)
        except asyncio.CancelledError:
            # It waited for its place still: a thread at work is never left.
            ended = partial(job.kept.turn, "cancelled" if job.cancelled else "interrupted")
            await run_sync(ended, limiter=self._keeping)
        finally:
            beating.cancel()
            await asyncio.gather(beating, return_exceptions=True)
            self._jobs.discard(job)
            job.held.close()

    def _run(self, job: RunningJob) -> None:
        def check() -> None:
            self._stop.check_running()
            job.deadline.check()

        job.kept.turn("running")
        ended: Any = ("failed", _UNFORESEEN)
        try:
            with interruptible(check):
                self._space.call("ingest", job.envelope, job.caller, lend=job.lend)
            ended = ("done",)
        except TreeringError as error:
            ended = self._ended(job, error)
        finally:
            job.kept.turn(*ended)

    def _ended(self, job: RunningJob, error: TreeringError) -> Sequence[object]:
        """Record the error that ended a job."""
        asked_to = isinstance(error, Unavailable)
        if asked_to and job.cancelled:
            return ("cancelled",)
        if asked_to and self._stop.begun:
            return ("interrupted",)
        return ("failed", JobError(code=error.code, message=for_caller(error).message, hint=error.hint))

    async def _beat(self, job: RunningJob) -> None:
        """Record regularly that a job is alive, also while it waits or is busy with a long step."""
        while True:
            await asyncio.sleep(_BEAT_SECONDS)
            with suppress(TreeringError):
                await run_sync(job.kept.touch, limiter=self._keeping)

    def _running(self, job_id: str) -> RunningJob | None:
        return next((job for job in self._jobs if job.id == job_id), None)

    def _row(self, job_id: str, caller: Caller) -> tuple[JobRow, str]:
        """Return a job's row and current state. Raises `NotFound` if it is missing or of another caller."""
        engine = self._space.engine_for(_STATUS, caller)
        stored = engine.jobs.find(job_id)
        row = parsed_job(stored) if stored and stored.get("scope", "") is not None else None
        if row is None:
            raise NotFound(f"There is no job {job_id}.", hint="Use the id from the response that started the job.")
        return row, row.state_at(engine.clock.now())


def _target(envelope: Envelope) -> str:
    given = envelope.input
    named = isinstance(given, str) and _INGEST.find(envelope.mode).rights.reads_files
    return str(given) if named else str(given.get("path", "")) if isinstance(given, dict) else ""


def _tell(task: asyncio.Task[None]) -> None:
    """Log unexpected errors."""
    if not task.cancelled() and (error := task.exception()):
        _LOG.error("A job ended unexpectedly.", exc_info=error)
