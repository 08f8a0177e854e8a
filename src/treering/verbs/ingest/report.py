"""Reports of ingest, job rows, and reading ahead in a thread."""

import threading
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import copy_context
from dataclasses import dataclass
from datetime import datetime
from queue import Empty, Full, Queue
from typing import Any, Generic, Literal, TypeVar, get_args

from pydantic import Field

from treering.core.canonical import Instant
from treering.ports.format import ONLY_FIRST_LINES
from treering.verbs.envelope import Report, Value

Outcome = Literal["failed", "skipped", "proposed", "removed", "moved", "updated", "created", "unchanged"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""In the order in which they are shown, most important first."""

JobState = Literal["waiting", "running", "done", "interrupted", "cancelled", "failed"]
"""`interrupted`: its process ended before the job did. `failed`: its call ended with an error."""
ENDED: frozenset[JobState] = frozenset({"done", "interrupted", "cancelled", "failed"})


class ItemResult(Value):
    """The result of one item."""

    origin: str
    outcome: Outcome
    why: str = ""
    source_id: str = ""
    moved_from: str = ""


class JobError(Value):
    """The error that ended a job."""

    code: str
    message: str
    hint: str = ""


class IngestReport(Report):
    """The result of ingesting. `items` is bounded; the job has every result except unchanged items."""

    verb: Literal["ingest"] = "ingest"
    counts: dict[Outcome, int] = Field(default={}, description="Number of items per outcome.")
    items: tuple[ItemResult, ...] = ()
    items_left_out: int = 0
    """The number of other results, unchanged ones excluded; `status` shows them."""
    staled: tuple[str, ...] = ()
    """Knowledge that lost its last support by this ingest."""
    contested: tuple[str, ...] = ()
    """Knowledge that now contradicts other knowledge."""
    titles: dict[str, str] = Field(default={}, description="By id, the titles of stale and contested knowledge.")
    job: str = ""
    """The id of the job; empty if there was nothing to write."""
    sequence: int = 0
    """The audit sequence after the last write; read `as_of` it to see exactly this state."""
    pending_vectors: int = 0
    """Texts that can be found by words, and by meaning once they are embedded."""
    dry_run: bool = False
    summarized: dict[str, int] = Field(default={}, exclude_if=lambda counts: not counts)
    """New files of which only a summary is indexed, such as lock files, by reason."""
    redacted: int = Field(default=0, exclude_if=lambda count: not count)
    """Secrets that were replaced by their kind."""


class JobReport(Report):
    """The state of a job, or its final state."""

    verb: Literal["ingest"] = "ingest"
    job: str = ""
    state: JobState = "done"
    target: str = ""
    """The path, address or text that was read."""
    started_at: Instant | None = None
    updated_at: Instant | None = None
    done: int = 0
    total: int | None = None
    counts: dict[Outcome, int] = Field(default={}, description="Number of items per outcome.")
    items: tuple[ItemResult, ...] = Field(default=(), description="Failures and skips come first.")
    items_left_out: int = 0
    staled: tuple[str, ...] = ()
    errors: tuple[JobError, ...] = Field(default=(), description="The error that ended the job, if it failed.")
    pending_vectors: int = 0
    total_vectors: int = 0


class JobRow(Value):
    """A job as stored in the job log. `items` excludes unchanged ones."""

    id: str
    mode: str
    scope: str
    target: str
    state: JobState
    started_at: Instant
    updated_at: Instant
    done: int
    total: int | None
    counts: dict[Outcome, int]
    items: tuple[ItemResult, ...] = ()
    staled: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    errors: tuple[JobError, ...] = ()
    holder: str = ""
    """The id of the key that requested it, or an empty text."""
    request: tuple[dict[str, Any], ...] = ()
    """The requesting envelope if it has no content, so that the job can be resumed.

    A list, like `items`, because entries that name erased objects are removed.
    """

    def state_at(self, now: datetime) -> JobState:
        """Return the state: a job that has neither ended nor been updated for a minute was interrupted.

        A job updated in the future, by a wrong clock, was interrupted, too.
        """
        silent = abs((now - self.updated_at).total_seconds()) > _SILENCE_SECONDS
        return "interrupted" if self.state not in ENDED and silent else self.state


def is_routine(warning: str) -> bool:
    """Return whether a warning reports what ingest does by itself, such as redacting a secret."""
    return is_redaction(warning) or warning.endswith(ONLY_FIRST_LINES)


def is_redaction(warning: str) -> bool:
    """Return whether a warning reports a redacted secret."""
    return "redacted" in warning


def first_by_outcome(items: Iterable[ItemResult], limit: int) -> tuple[ItemResult, ...]:
    """Return the first `limit` results in the order of `OUTCOMES`, each outcome in the order it happened."""
    ranked = sorted(items, key=lambda item: _RANKS[item.outcome])
    return tuple(ranked[:limit])


def overall_outcome(
    counts: Mapping[Outcome, int],
) -> Literal["ok", "partial", "proposed", "unchanged", "empty", "failed"]:
    """Summarize the outcomes of a run in a word."""
    happened = {outcome for outcome, count in counts.items() if count}
    if "failed" in happened:
        return "failed" if happened <= {"failed"} else "partial"
    if "proposed" in happened:
        return "proposed"
    if not happened:
        return "empty"
    return "unchanged" if happened <= {"unchanged", "skipped"} else "ok"


_SILENCE_SECONDS = 60.0
_RANKS = {outcome: rank for rank, outcome in enumerate(OUTCOMES)}
_Item = TypeVar("_Item")
_PAUSE = 0.05
"""Seconds between checks whether the consumer has stopped."""


@dataclass(frozen=True, slots=True)
class _Read(Generic[_Item]):
    item: _Item


@dataclass(frozen=True, slots=True)
class _Ended:
    error: BaseException | None


@contextmanager
def reading_ahead(items: Iterable[_Item], *, most: int) -> Iterator[Iterator[Sequence[_Item]]]:
    """Yield the items in order while a thread reads up to `most` items ahead; each time all that are ready.

    Errors of reading are raised by the iterator. Leaving the block early stops the reading and closes `items` if it is
    a generator.
    """
    queue: Queue[_Read[_Item] | _Ended] = Queue(most)
    stopping = threading.Event()
    # In this thread's context, so that reading ends with its call (`ports.runtime`).
    context, arguments = copy_context(), (_read, items, queue, stopping)
    thread = threading.Thread(target=context.run, args=arguments, name="treering-reader", daemon=True)
    thread.start()
    try:
        yield _taken(queue)
    finally:
        stopping.set()
        thread.join()


def _taken(queue: "Queue[_Read[_Item] | _Ended]") -> Iterator[Sequence[_Item]]:
    ended: _Ended | None = None
    while ended is None:
        waiting = [queue.get(), *_waiting(queue)]
        if items := [entry.item for entry in waiting if isinstance(entry, _Read)]:
            yield items
        ended = next((entry for entry in waiting if isinstance(entry, _Ended)), None)
    if ended.error:
        raise ended.error


def _waiting(queue: "Queue[_Read[_Item] | _Ended]") -> Iterator[_Read[_Item] | _Ended]:
    with suppress(Empty):
        for _ in range(queue.maxsize):
            yield queue.get_nowait()


def _read(items: Iterable[_Item], queue: "Queue[_Read[_Item] | _Ended]", stopping: threading.Event) -> None:
    ended = _Ended(None)
    try:
        for item in items:
            if not _put(_Read(item), queue, stopping):
                break
    except BaseException as error:  # noqa: BLE001 - the consuming thread raises it
        ended = _Ended(error)
    finally:
        if isinstance(items, Generator):
            items.close()
        _put(ended, queue, stopping)


def _put(entry: _Read[_Item] | _Ended, queue: "Queue[_Read[_Item] | _Ended]", stopping: threading.Event) -> bool:
    """Wait until the queue has room; return `False` if the consumer stopped first."""
    while not stopping.is_set():
        try:
            queue.put(entry, timeout=_PAUSE)
        except Full:
            continue
        return True
    return False
