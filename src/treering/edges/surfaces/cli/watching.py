"""What `treering watch` does: it ingests whenever something changed, and says what came of it."""

import json
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from treering.core.errors import Conflict, InvalidInput, TreeringError
from treering.core.times import render_time
from treering.edges.address import Address
from treering.edges.file_lock import held_alone, holder
from treering.edges.settings import Settings
from treering.edges.sources.access import AnyFile
from treering.edges.sources.folder import reason
from treering.edges.sources.git_layout import locate
from treering.edges.sources.watching import Occasion, WatchedPlace, occasions, shown_reason
from treering.edges.surfaces.cli.flags import Access, WriteFlags
from treering.edges.surfaces.cli.printing import say_json, tell
from treering.edges.surfaces.cli.rendering.changes import TOLD, counted, render_items
from treering.edges.surfaces.cli.rendering.findings import render_finding
from treering.edges.surfaces.cli.rendering.lines import IndentedLine, line, show, terminal
from treering.edges.surfaces.cli.session import embed_later, opened, watched
from treering.edges.surfaces.cli.stopping import told_to_stop
from treering.edges.surfaces.cli.verbs import mode_for
from treering.edges.surfaces.space import Space
from treering.tools.ingest_report import IngestReport, Outcome
from treering.tools.lint import LintReport
from treering.tools.rules.survey import Finding

_MOST_PAUSE = 60.0
_MOST_FINDINGS = 10_000
_WRITTEN: tuple[Outcome, ...] = ("created", "updated", "moved", "removed", "proposed")


@dataclass(frozen=True, slots=True)
class WatchFlags:
    """What is watched, and how often it is looked at without a change."""

    path: Path
    every: float
    worktree: bool


def watch(access: Access, writing: WriteFlags, wanted: WatchFlags) -> None:
    """Watch a place until told to stop. Raises `Conflict` where somebody else does so for the same space."""
    place = wanted.path.resolve()
    if not place.exists():
        raise InvalidInput(f"There is nothing at {wanted.path}.", hint="Name a folder, a file or a repository.")
    address = Settings.read().space_address(access.space or None)
    if address.in_memory:
        raise InvalidInput("A space in memory is gone as soon as it is closed.", hint="Give a space that is kept.")
    watcher = _Watcher(access, address, writing, place, wanted)
    with _alone(address, place), told_to_stop() as wait:
        for occasion in occasions(watcher.watched_place(), wait, every=wanted.every, on_blind=_tell_blind):
            begun = time.monotonic()
            watcher.look(occasion)
            # However much changes, at most half of the time goes into reading it.
            wait(min(time.monotonic() - begun, _MOST_PAUSE))


@dataclass(slots=True)
class _Watcher:
    access: Access
    address: Address
    writing: WriteFlags
    place: Path
    wanted: WatchFlags
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
        return WatchedPlace(self.place, git, files=self.wanted.worktree, apart=apart)

    def look(self, occasion: Occasion) -> None:
        """Ingest, and say what came of it. What fails is told once, and tried again at the next occasion."""
        try:
            with opened(self.address, self.writing, create=True) as space:
                with watched(space) as busy:
                    report = self._ingest(busy)
                written = any(map(report.counts.get, _WRITTEN))
                arisen = self._arisen(space) if written else []
                embed_later(space, self.writing)
        except (TreeringError, OSError) as error:
            self._tell_failure(error.message if isinstance(error, TreeringError) else reason(error))
            return
        failures = {one.origin for one in report.items if one.outcome == "failed"}
        if occasion == "begun" or written or arisen or failures != self._failures:
            self._say(occasion, report, arisen)
        self._failures, self._failed = failures, ""

    def _ingest(self, space: Space) -> IngestReport:
        options = {"worktree": True} if self._mode == "repo" and self.wanted.worktree else {}
        report = space.ingest(self._mode, input={"path": str(self.place)}, options=options)
        if not isinstance(report, IngestReport):
            raise TypeError(f"ingest answered with {type(report).__name__}")
        return report

    def _arisen(self, space: Space) -> list[Finding]:
        found = {_key(one): one for one in _findings(space)}
        arisen = [one for key, one in found.items() if key not in self._seen]
        self._seen = set(found)
        return arisen

    def _tell_failure(self, why: str) -> None:
        if why != self._failed:
            tell(f"{_now()}  not read: {why} It is tried again.")
        self._failed = why

    def _say(self, occasion: Occasion, report: IngestReport, arisen: Sequence[Finding]) -> None:
        if self.access.as_json:
            told = {"at": render_time(datetime.now(UTC)), "occasion": occasion}
            data = report.model_dump(mode="json", include={"counts", "items", "staled", "contested", "sequence"})
            say_json(json.dumps({**told, **data, "findings": [one.model_dump(mode="json") for one in arisen]}))
            return
        show(terminal(), self._lines(occasion, report, arisen))

    def _lines(self, occasion: Occasion, report: IngestReport, arisen: Sequence[Finding]) -> Iterator[IndentedLine]:
        if occasion == "begun":
            what = "commits" if self._mode == "repo" and not self.wanted.worktree else "files"
            yield line(("Watching ", "bold"), f"the {what} of {self.place} for {self.address}. Ctrl-C ends it.")
        yield line(f"{_now()}  {counted(report.counts)}")
        yield from render_items([one for one in report.items if one.outcome in TOLD])
        for one in arisen:
            yield from render_finding(one)


@contextmanager
def _alone(address: Address, place: Path) -> Iterator[None]:
    """Keep a second watcher of the same place out, for the same space."""
    name = sha256(f"{address}\n{place}".encode()).hexdigest()[:32]
    file = Settings.read().data_dir / "watching" / f"{name}.lock"
    with held_alone(file) as held:
        if not held:
            raise Conflict(
                f"{place} is watched already for {address}, by process {holder(file)}.", hint="One watcher is enough."
            )
        yield


def _findings(space: Space) -> Sequence[Finding]:
    report = space.lint("semantic", options={"limit": _MOST_FINDINGS})
    return report.findings if isinstance(report, LintReport) else ()


def _key(one: Finding) -> tuple[str, tuple[str, ...]]:
    return one.rule, one.ids


def _tell_blind(error: OSError) -> None:
    tell(f"{_now()}  The system tells of no changes ({shown_reason(error)}): what changed is looked for every minute.")


def _now() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")
