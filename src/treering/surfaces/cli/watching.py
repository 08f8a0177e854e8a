"""What `treering watch` does: it ingests whenever something changed, and says what came of it."""

import json
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

from treering.core.canonical import render_time
from treering.core.errors import Conflict, InvalidInput, TreeringError
from treering.sources.git.process import locate
from treering.sources.git.repository import GitRepository, open_repository
from treering.sources.reading.access import AnyFile
from treering.sources.reading.folder import reason
from treering.sources.watching import (
    SENDING,
    GitHook,
    HookCommands,
    Occasion,
    WatchedPlace,
    hooks_of,
    install_hooks,
    occasions,
    shown_reason,
    uninstall_hooks,
)
from treering.spaces.depots import sync_place
from treering.spaces.sync import SyncWishes
from treering.surfaces.cli.commands.spaces import SharingFlags, WatchFlags
from treering.surfaces.cli.flags import Access, WriteFlags
from treering.surfaces.cli.printing import IndentedLine, line, say_json, show, tell, terminal
from treering.surfaces.cli.rendering import render_warnings
from treering.surfaces.cli.rendering_changes import TOLD, counted, render_finding, render_items
from treering.surfaces.cli.session import answer, embed_later, opened, told_to_stop, watched
from treering.surfaces.cli.verbs import mode_for
from treering.surfaces.ingest_words import ingest_in_words
from treering.surfaces.python.space import Space
from treering.system.address import Address
from treering.system.machine import (
    NEXT_LOCK,
    OWN_PROCESS,
    RUNNING_LOCK,
    held_alone,
    holder,
    one_after_another,
    replace_file,
)
from treering.system.settings import Settings
from treering.verbs.ingest.report import IngestReport, Outcome
from treering.verbs.lint.lint import LintReport
from treering.verbs.lint.survey import Finding

_MOST_PAUSE = 60.0
_MOST_FINDINGS = 10_000
_WRITTEN: tuple[Outcome, ...] = ("created", "updated", "moved", "removed", "proposed")


def watch(access: Access, writing: WriteFlags, wanted: WatchFlags) -> None:
    """Watch a place until told to stop. Raises `Conflict` where somebody else does so for the same space."""
    place = wanted.path.resolve()
    if not place.exists():
        raise InvalidInput(f"There is nothing at {wanted.path}.", hint="Give an existing folder, file or repository.")
    address = Settings.read().space_address(access.space or None)
    if address.in_memory:
        raise InvalidInput("A space in memory is lost when it is closed.", hint="Give a stored space.")
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
            tell(f"{_now()}  not read: {why} Retrying.")
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
        yield line(f"{_now()}  {ingest_in_words(report)}")
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
                f"{place} is already watched for {address}, by process {holder(file)}.", hint="One watcher is enough."
            )
        yield


def _findings(space: Space) -> Sequence[Finding]:
    report = space.lint("semantic", options={"limit": _MOST_FINDINGS})
    return report.findings if isinstance(report, LintReport) else ()


def _key(one: Finding) -> tuple[str, tuple[str, ...]]:
    return one.rule, one.ids


def _tell_blind(error: OSError) -> None:
    tell(f"{_now()}  The system reports no changes ({shown_reason(error)}); checking for changes every minute.")


def _now() -> str:
    return datetime.now().astimezone().strftime("%H:%M:%S")


# What `treering hook` does: puts calls into git's hooks, and answers them.


_FOLDER = "treering"
_LAST, _LAST_SYNC = "last-run.json", "last-sync.json"
_FETCHING, _PUSHING = "fetching", "pushing"
_SHOWN = {
    "none": "not installed",
    "ours": "installed",
    "beside others": "installed, next to the existing hook",
    "others": "not installed; another hook exists",
}


def install(access: Access, place: Path, sharing: SharingFlags) -> None:
    """Put our calls into the hooks of a repository."""
    hooks = put_hooks(access.space, place, sharing)
    lines = [*_of_hooks(hooks)]
    if sharing.sync:
        lines += [line(said) for said in told_of_sharing(sharing.sync)]
    answer(access, _facts(hooks), [*lines, line("To undo: treering hook uninstall")])


def put_hooks(space: str, place: Path, sharing: SharingFlags, *, dry_run: bool = False) -> list[GitHook]:
    """Put our calls into the hooks of a repository, and return the hooks. `dry_run`: only check that it can be done."""
    top, repository = _work_tree(place)
    address = Settings.read().space_address(space or None)
    if space and not address.is_file:
        raise InvalidInput(
            "The address of a database may contain a password, and others can read the hook.",
            hint="Set TREERING_SPACE in git's environment, and install without --space.",
        )
    named = ("--space", str(Path(address.place).resolve())) if space else ()
    ingest = (OWN_PROCESS.program, *OWN_PROCESS.arguments, "hook", "run", *named)
    commands = _commands(ingest, sharing, top)
    return hooks_of(top) if dry_run else install_hooks(top, repository.common, commands)


def remote_to_share(place: Path) -> str:
    """Return the remote over which the hooks of a repository could share its space; empty: none, or they do so."""
    try:
        top, _ = _work_tree(place)
        remote, _ = sync_place("origin", folder=top)
        return "" if any(hook.name == SENDING for hook in hooks_of(top)) else remote
    except TreeringError:
        return ""


def told_of_sharing(remote: str) -> tuple[str, ...]:
    """Return what the hooks do where a space is shared over `remote`."""
    return (
        f"Merges and branch checkouts pull others' changes from {remote}; a push to it sends yours.",
        "Secrets and private scopes are not sent. TREERING_HOOK_SYNC=0 turns it off.",
    )


def _commands(ingest: tuple[str, ...], sharing: SharingFlags, top: Path) -> HookCommands:
    if not sharing.sync:
        if sharing.key or sharing.signers:
            raise InvalidInput("--key and --signers need --sync.", hint="Add --sync REMOTE.")
        return HookCommands(ingest)
    remote, is_folder = sync_place(sharing.sync, folder=top)
    files = {"--key": sharing.key, "--signers": sharing.signers}
    for option, file in files.items():
        if file and not file.is_file():
            raise InvalidInput(f"{option}: there is no file {file}.", hint="Give an existing file.")
    named = [word for option, file in files.items() if file for word in (option, str(file.resolve()))]
    fetch = (*ingest, "--sync", remote, *named)
    return HookCommands(ingest, fetch, (*fetch, "--push"), "" if is_folder else remote)


def uninstall(access: Access, place: Path) -> None:
    """Take our calls out of the hooks again."""
    top, repository = _work_tree(place)
    changed = uninstall_hooks(top)
    folder = repository.common / _FOLDER
    for name in (_LAST, _LAST_SYNC):
        (folder / name).unlink(missing_ok=True)
    for place in (folder / _FETCHING, folder / _PUSHING, folder):
        for name in (NEXT_LOCK, RUNNING_LOCK):
            (place / name).unlink(missing_ok=True)
        with suppress(OSError):  # it was never made, or somebody else put something there
            place.rmdir()
    files = [str(one.file) for one in changed]
    lines = [line(f"Removed from {file}.") for file in files] or [line("No Treering hooks were installed here.")]
    answer(access, {"files": files}, lines)


def status(access: Access, place: Path) -> None:
    """Tell which hooks there are, and how the last run and the last sync ended."""
    top, repository = _work_tree(place)
    hooks, last, synced = hooks_of(top), _last_run(repository, _LAST), _last_run(repository, _LAST_SYNC)
    answer(
        access,
        {**_facts(hooks), "last_run": last, "last_sync": synced},
        [*_of_hooks(hooks), *_of_run(last), *(_of_sync(synced) if synced else ())],
    )


def run(access: Access, sharing: SharingFlags, *, push: bool) -> None:
    """Ingest the repository of the working folder, then sync, each one run at a time.

    How it ended is kept in its git folder. `push`: only sync, both ways.
    """
    settings = Settings.read()
    if push and not sharing.sync:
        raise InvalidInput("--push needs --sync.", hint="Add --sync REMOTE.")
    address = settings.space_address(access.space or None)
    if address.file is not None and not address.file.is_file():
        answer(access, {}, [line("There is no space here; nothing was done.")])
        return
    with suppress(OSError, AttributeError):  # not on Windows; or it has a session of its own already
        os.setsid()
    top, repository = _work_tree(Path())
    folder = repository.common / _FOLDER
    told: dict[str, Any] = {}
    lines: list[IndentedLine] = []
    if not push:
        done = _in_turn(folder, folder / _LAST, lambda: _ingest(access))
        told, lines = done or {}, [*(_of_run(done) if done else [line(_WAITS)])]
    if sharing.sync and settings.hook_sync:
        # A sync that waits does not know of an ingest that waits, nor the other way round: each has its own turn.
        synced = _in_turn(
            folder / (_PUSHING if push else _FETCHING), folder / _LAST_SYNC, lambda: _sync(access, sharing, top, push)
        )
        told = {**told, "sync": synced or {}}
        lines += _of_sync(synced) if synced else [line(_WAITS)]
    answer(access, told, lines)


_WAITS = "Another run is already queued and will include these changes."


def _in_turn(folder: Path, kept: Path, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """Work when it is this process' turn, and keep how it ended; `None` where another one waits already."""
    with one_after_another(folder) as is_ours:
        if not is_ours:
            return None
        told = work()
        replace_file(kept, json.dumps({"at": render_time(datetime.now(UTC)), **told}).encode())
        return told


def _sync(access: Access, sharing: SharingFlags, top: Path, push: bool) -> dict[str, Any]:
    # Nobody is there to be asked for a password: what would ask fails, and the next push or `treering sync` sends it.
    os.environ["SSH_ASKPASS_REQUIRE"] = "never"
    wishes, writing = SyncWishes(push=push, key=sharing.key, signers=sharing.signers), WriteFlags()
    try:
        with opened(access, writing) as space:
            report = space.sync(sharing.sync, wishes, folder=top)
            if report.received:
                embed_later(space, writing)
    except (TreeringError, OSError) as error:
        return {"remote": sharing.sync, "error": str(error)}
    received = report.received.entries if report.received else 0
    return {"remote": report.remote, "received": received, "sent": report.sent, "warnings": [*report.warnings]}


def _ingest(access: Access) -> dict[str, Any]:
    writing = WriteFlags()
    try:
        with opened(access, writing) as space:
            report = space.ingest("repo", input={"path": str(Path.cwd())})
            embed_later(space, writing)
    except (TreeringError, OSError) as error:
        return {"error": str(error)}
    counts = report.counts if isinstance(report, IngestReport) else {}
    return {"counts": {what: number for what, number in counts.items() if number}, "warnings": [*report.warnings]}


def _last_run(repository: GitRepository, name: str) -> dict[str, Any]:
    try:
        told = json.loads((repository.common / _FOLDER / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return told if isinstance(told, dict) else {}


def _facts(hooks: Sequence[GitHook]) -> dict[str, object]:
    return {"hooks": {one.name: one.state for one in hooks}}


def _of_hooks(hooks: Sequence[GitHook]) -> Iterator[IndentedLine]:
    for one in hooks:
        yield line(f"{one.name}: {_SHOWN[one.state]}")


def _of_run(told: Mapping[str, Any]) -> Iterator[IndentedLine]:
    if not told:
        yield line("No hook has run yet.")
        return
    if "error" in told:
        yield line(_at(told), ("failed: ", "red"), told["error"])
        return
    yield line(_at(told), f"ingested: {counted(told.get('counts', {}))}")
    yield from render_warnings(told.get("warnings", []))


def _of_sync(told: Mapping[str, Any]) -> Iterator[IndentedLine]:
    if "error" in told:
        yield line(_at(told), ("sync failed: ", "red"), told["error"])
        return
    yield line(_at(told), f"synced with {told['remote']}: {told['received']} changes received, {told['sent']} sent")
    yield from render_warnings(told.get("warnings", []))


def _at(told: Mapping[str, Any]) -> str:
    return f"{told['at'][:16].replace('T', ' ')}  " if "at" in told else ""


def _work_tree(place: Path) -> tuple[Path, GitRepository]:
    repository = open_repository(place)
    if repository.top is None:
        raise InvalidInput("This repository has no work tree.", hint="Use `treering ingest` with its folder.")
    return repository.top, repository
