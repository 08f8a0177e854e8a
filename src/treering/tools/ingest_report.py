"""What ingest answers with: counts always, items as far as they fit, those that need a person first."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, get_args

from pydantic import Field

from treering.core.times import Instant
from treering.tools.envelope import Report, Value

Outcome = Literal["failed", "skipped", "proposed", "removed", "moved", "updated", "created", "unchanged"]
OUTCOMES: tuple[Outcome, ...] = get_args(Outcome)
"""In the order in which a person wants to see them."""

JobState = Literal["waiting", "running", "done", "interrupted", "cancelled", "failed"]
"""Interrupted: its process ended before it did. Failed: its call ended with an error."""
ENDED: frozenset[JobState] = frozenset({"done", "interrupted", "cancelled", "failed"})


class ItemResult(Value):
    """What became of one item."""

    origin: str
    outcome: Outcome
    why: str = ""
    source_id: str = ""
    moved_from: str = ""


class JobError(Value):
    """What ended a job."""

    code: str
    message: str
    hint: str = ""


class IngestReport(Report):
    """What was brought in. `items` is bounded; the job holds every result but the unchanged ones."""

    verb: Literal["ingest"] = "ingest"
    counts: dict[Outcome, int] = Field(default={}, description="How many items had each outcome.")
    items: tuple[ItemResult, ...] = ()
    items_left_out: int = 0
    """Results that did not fit into `items`, the unchanged ones aside; `status` shows them."""
    staled: tuple[str, ...] = ()
    """Knowledge whose last support went with this reading."""
    contested: tuple[str, ...] = ()
    """Knowledge that now contradicts other knowledge."""
    job: str = ""
    """The job's id; empty where there was nothing to write."""
    sequence: int = 0
    """The audit sequence after the last write; read `as_of` it to see exactly this state."""
    pending_vectors: int = 0
    """Texts found by words already, and by meaning as soon as they have their vector."""
    dry_run: bool = False


class JobReport(Report):
    """How a job stands, or stood when it ended."""

    verb: Literal["ingest"] = "ingest"
    job: str = ""
    state: JobState = "done"
    target: str = ""
    """What was read."""
    started_at: Instant | None = None
    updated_at: Instant | None = None
    done: int = 0
    total: int | None = None
    counts: dict[Outcome, int] = Field(default={}, description="How many items had each outcome.")
    items: tuple[ItemResult, ...] = Field(default=(), description="Failures and skips first.")
    items_left_out: int = 0
    staled: tuple[str, ...] = ()
    errors: tuple[JobError, ...] = Field(default=(), description="What ended it, where it failed.")
    pending_vectors: int = 0
    total_vectors: int = 0


class JobRow(Value):
    """A job as the job log keeps it. `items` leave out what was unchanged."""

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
    """The id of the key that asked for it; empty where there was none."""
    request: tuple[dict[str, Any], ...] = ()
    """The envelope that asked for it, where it holds no content: with it the job can be gone on with.

    A list, as `items` are: what names something that is erased is taken out of it.
    """

    def state_at(self, now: datetime) -> JobState:
        """Tell the state: a job that has not ended, nor been heard of for a minute, was interrupted.

        So was one heard of in the future: by a clock that was ahead.
        """
        silent = abs((now - self.updated_at).total_seconds()) > _SILENCE_SECONDS
        return "interrupted" if self.state not in ENDED and silent else self.state


def foremost(items: Iterable[ItemResult], limit: int) -> tuple[ItemResult, ...]:
    """Return the first `limit` results in the order of `OUTCOMES`, each outcome in the order it happened."""
    ranked = sorted(items, key=lambda item: _RANKS[item.outcome])
    return tuple(ranked[:limit])


def bounded(warnings: Sequence[str], limit: int) -> tuple[str, ...]:
    """Return the first `limit` different warnings, and how many more there are."""
    different = list(dict.fromkeys(warnings))
    more = len(different) - limit
    return (*different[:limit], *([f"and {more} more warnings; see the job"] if more > 0 else []))


def verdict(counts: Mapping[Outcome, int]) -> Literal["ok", "partial", "proposed", "unchanged", "empty", "failed"]:
    """Sum a run up in a word."""
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
