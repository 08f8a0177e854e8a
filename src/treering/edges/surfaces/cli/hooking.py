"""What `treering hook` does: puts calls into git's hooks, and answers them."""

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from treering.core.errors import InvalidInput, TreeringError
from treering.core.times import render_time
from treering.edges.clients.known_clients import OWN_PROCESS
from treering.edges.file_lock import NEXT_LOCK, RUNNING_LOCK, one_after_another
from treering.edges.private_files import replace_file
from treering.edges.settings import Settings
from treering.edges.sources.git import GitRepository, open_repository
from treering.edges.sources.git_hooks import GitHook, hooks_of, install_hooks, uninstall_hooks
from treering.edges.surfaces.cli.flags import Access, WriteFlags
from treering.edges.surfaces.cli.rendering import render_warnings
from treering.edges.surfaces.cli.rendering.changes import counted
from treering.edges.surfaces.cli.rendering.lines import IndentedLine, line
from treering.edges.surfaces.cli.session import answer, embed_later, opened
from treering.tools.ingest_report import IngestReport

_FOLDER = "treering"
_LAST = "last-run.json"
_SHOWN = {
    "none": "not installed",
    "ours": "installed",
    "beside others": "installed, beside what stood there",
    "others": "not installed; there is another one",
}


def install(access: Access, place: Path) -> None:
    """Put our call into the hooks of a repository."""
    top, repository = _work_tree(place)
    address = Settings.read().space_address(access.space or None)
    if access.space and not address.is_file:
        raise InvalidInput(
            "The address of a database may hold a password, and a hook can be read by others.",
            hint="Set TREERING_SPACE where git is used, and install without --space.",
        )
    space = ("--space", str(Path(address.place).resolve())) if access.space else ()
    hooks = install_hooks(top, repository.common, (OWN_PROCESS.program, *OWN_PROCESS.arguments, "hook", "run", *space))
    answer(access, _facts(hooks), [*_of_hooks(hooks), line("To take it back: treering hook uninstall")])


def uninstall(access: Access, place: Path) -> None:
    """Take our call out of the hooks again."""
    top, repository = _work_tree(place)
    changed = uninstall_hooks(top)
    for name in (_LAST, NEXT_LOCK, RUNNING_LOCK):
        (repository.common / _FOLDER / name).unlink(missing_ok=True)
    with suppress(OSError):  # it was never made, or somebody else put something there
        (repository.common / _FOLDER).rmdir()
    files = [str(one.file) for one in changed]
    lines = [line(f"Taken out of {file}.") for file in files] or [line("There was no hook of Treering's here.")]
    answer(access, {"files": files}, lines)


def status(access: Access, place: Path) -> None:
    """Tell which hooks there are, and how the last run ended."""
    top, repository = _work_tree(place)
    hooks, last = hooks_of(top), _last_run(repository)
    answer(access, {**_facts(hooks), "last_run": last}, [*_of_hooks(hooks), *_of_run(last)])


def run(access: Access) -> None:
    """Ingest the repository of the working folder, one run at a time. How it ended is kept in its git folder."""
    address = Settings.read().space_address(access.space or None)
    if address.file is not None and not address.file.is_file():
        answer(access, {}, [line("There is no space here: nothing was done.")])
        return
    with suppress(OSError, AttributeError):  # not on Windows; or it has a session of its own already
        os.setsid()
    _, repository = _work_tree(Path())
    folder = repository.common / _FOLDER
    with one_after_another(folder) as is_ours:
        if not is_ours:
            answer(access, {}, [line("Another run waits already, and will see what is there.")])
            return
        told = _ingest(access)
        replace_file(folder / _LAST, json.dumps({"at": render_time(datetime.now(UTC)), **told}).encode())
        answer(access, told, _of_run(told))


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


def _last_run(repository: GitRepository) -> dict[str, Any]:
    try:
        told = json.loads((repository.common / _FOLDER / _LAST).read_text(encoding="utf-8"))
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
    at = f"{told['at'][:16].replace('T', ' ')}  " if "at" in told else ""
    if "error" in told:
        yield line(at, ("failed: ", "red"), told["error"])
        return
    yield line(at, f"ingested: {counted(told.get('counts', {}))}")
    yield from render_warnings(told.get("warnings", []))


def _work_tree(place: Path) -> tuple[Path, GitRepository]:
    repository = open_repository(place)
    if repository.top is None:
        raise InvalidInput("This repository has no work tree.", hint="Use `treering ingest` with its folder.")
    return repository.top, repository
