"""Ingest a place whenever it changes, and print the results: the loop of `treering watch`."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from treering.core.canonical import render_time
from treering.core.errors import Conflict, TreeringError
from treering.extensions.code.file_changes import Occasion, WatchedPlace, occasions, shown_reason
from treering.sources.git.process import locate
from treering.sources.reading.access import AnyFile
from treering.sources.reading.folder import reason
from treering.surfaces.cli.flags import Access, WriteFlags
from treering.surfaces.cli.ingesting import mode_for
from treering.surfaces.cli.printing import IndentedLine, line, say_json, show, tell, terminal
from treering.surfaces.cli.rendering_changes import WATCHED_OUTCOMES, render_finding, render_items
from treering.surfaces.cli.session import embed_later, opened, stop_requested, watched
from treering.surfaces.ingest_words import ingest_in_words
from treering.surfaces.python.space import Space
from treering.system.address import Address
from treering.system.machine import held_alone, holder
from treering.system.settings import Settings
from treering.verbs.ingest.report import IngestReport, Outcome
from treering.verbs.lint.lint import LintReport
from treering.verbs.lint.survey import Finding

_MAX_PAUSE_SECONDS = 60.0
_MAX_FINDINGS = 10_000
_WRITTEN: tuple[Outcome, ...] = ("created", "updated", "moved", "removed", "proposed")


def watch_place(
    access: Access, writing: WriteFlags, address: Address, place: Path, *, worktree: bool, every: float
) -> None:
    """Watch a place until a request to stop. Raises `Conflict` if another process watches it for the same space."""
    watcher = _Watcher(access, address, writing, place, worktree)
    with _alone(address, place), stop_requested() as wait:
        for occasion in occasions(watcher.watched_place(), wait, every=every, on_blind=_tell_blind):
            begun = time.monotonic()
            watcher.look(occasion)
            # At most half of the time is spent ingesting, however much changes.
            wait(min(time.monotonic() - begun, _MAX_PAUSE_SECONDS))


@dataclass(slots=True)
class _Watcher:
    access: Access
    address: Address
    writing: WriteFlags
    place: Path
    worktree: bool
    _mode: str = ""
    _seen: set[tuple[str, tuple[str, ...]]] = field(default_factory=set)
    _failures: set[str] = field(default_factory=set)
    _failed: str = ""

    def watched_place(self) -> WatchedPlace:
        with opened(self.address, self.writing, create=True) as space:
            self._mode = mode_for(str(self.place), space)
            self._seen = {_key(one) for one in _findings(space)}
        file = self.address.file
        apart = (str(file.resolve()),) if file else ()
        if self._mode != "repo":
            return WatchedPlace(self.place, apart=apart)
        layout = locate(self.place, AnyFile())
        git = tuple(dict.fromkeys((layout.git_dir, layout.common)))
        return WatchedPlace(self.place, git, files=self.worktree, apart=apart)

    def look(self, occasion: Occasion) -> None:
        """Ingest and print the result. A failure is printed once and retried at the next change."""
        try:
            with opened(self.address, self.writing, create=True) as space:
                with watched(space) as busy:
                    report = self._ingest(busy)
                written = any(map(report.counts.get, _WRITTEN))
                new = self._new_findings(space) if written else []
                embed_later(space, self.writing)
        except (TreeringError, OSError) as error:
            self._tell_failure(error.message if isinstance(error, TreeringError) else reason(error))
            return
        failures = {one.origin for one in report.items if one.outcome == "failed"}
        if occasion == "begun" or written or new or failures != self._failures:
            self._say(occasion, report, new)
        self._failures, self._failed = failures, ""

    def _ingest(self, space: Space) -> IngestReport:
        options = {"worktree": True} if self._mode == "repo" and self.worktree else {}
        report = space.ingest(self._mode, input={"path": str(self.place)}, options=options)
        if not isinstance(report, IngestReport):
            raise TypeError(f"ingest answered with {type(report).__name__}")
        return report

    def _new_findings(self, space: Space) -> list[Finding]:
        findings = {_key(one): one for one in _findings(space)}
        new = [one for key, one in findings.items() if key not in self._seen]
        self._seen = set(findings)
        return new

    def _tell_failure(self, why: str) -> None:
        if why != self._failed:
            tell(f"{_now()}  not read: {why} Retrying.")
        self._failed = why

    def _say(self, occasion: Occasion, report: IngestReport, new: Sequence[Finding]) -> None:
        if self.access.as_json:
            event = {"at": render_time(datetime.now(UTC)), "occasion": occasion}
            data = report.model_dump(mode="json", include={"counts", "items", "staled", "contested", "sequence"})
            say_json(json.dumps({**event, **data, "findings": [one.model_dump(mode="json") for one in new]}))
            return
        show(terminal(), self._lines(occasion, report, new))

    def _lines(self, occasion: Occasion, report: IngestReport, new: Sequence[Finding]) -> Iterator[IndentedLine]:
        if occasion == "begun":
            what = "commits" if self._mode == "repo" and not self.worktree else "files"
            yield line(("Watching ", "bold"), f"the {what} of {self.place} for {self.address}. Ctrl-C ends it.")
        yield line(f"{_now()}  {ingest_in_words(report)}")
        yield from render_items([one for one in report.items if one.outcome in WATCHED_OUTCOMES])
        for one in new:
            yield from render_finding(one)


@contextmanager
def _alone(address: Address, place: Path) -> Iterator[None]:
    """Raise `Conflict` if another process watches the place for this space."""
    name = sha256(f"{address}\n{place}".encode()).hexdigest()[:32]
    file = Settings.read().data_dir / "watching" / f"{name}.lock"
    with held_alone(file) as is_ours:
        if not is_ours:
            raise Conflict(
                f"{place} is already watched for {address}, by process {holder(file)}.", hint="One watcher is enough."
            )
        yield


def _findings(space: Space) -> Sequence[Finding]:
    report = space.lint("semantic", options={"limit": _MAX_FINDINGS})
    return report.findings if isinstance(report, LintReport) else ()


def _key(one: Finding) -> tuple[str, tuple[str, ...]]:
    return one.rule, one.ids


def _tell_blind(error: OSError) -> None:
    tell(f"{_now()}  The system reports no changes ({shown_reason(error)}); checking for changes every minute.")


def _now() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")
