"""Install the git hooks that call Treering, and do their work: ingest, then sync."""

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from treering.core.canonical import render_time
from treering.core.errors import InvalidInput, TreeringError
from treering.extensions.code.file_changes import (
    OURS,
    SENDING,
    GitHook,
    HookCommands,
    hooks_of,
    install_hooks,
    uninstall_hooks,
)
from treering.extensions.code.repository.contents import RepositoryContents
from treering.registry import extensions
from treering.surfaces.cli.flags import Access, SharingFlags, WriteFlags
from treering.surfaces.cli.printing import IndentedLine, line
from treering.surfaces.cli.rendering import render_warnings
from treering.surfaces.cli.rendering_changes import counted
from treering.surfaces.cli.session import embed_later, opened
from treering.system.machine import NEXT_LOCK, OWN_PROCESS, RUNNING_LOCK, one_after_another, replace_file
from treering.system.settings import Settings
from treering.verbs.ingest.report import IngestReport

_FOLDER = "treering"
_LAST, _LAST_SYNC = "last-run.json", "last-sync.json"
_FETCHING, _PUSHING = "fetching", "pushing"
_SHOWN = {
    "none": "not installed",
    "ours": "installed",
    "beside others": "installed, next to the existing hook",
    "others": "not installed; another hook exists",
}
_WAITS = "Another run is already queued and will include these changes."


def put_hooks(space: str, place: Path, sharing: SharingFlags, *, dry_run: bool = False) -> list[GitHook]:
    """Add our calls to the hooks of a repository; return the hooks. `dry_run`: only check that it is possible."""
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


def hooks_to_offer(place: Path) -> Iterator[str]:
    """Yield sentences that offer missing hooks: to read commits, and to share the space."""
    with suppress(TreeringError):
        top, _ = _work_tree(place)
        installed = [hook.name for hook in hooks_of(top) if hook.state in OURS]
        if not installed:
            yield "To read each commit, merge and checkout as it happens: treering hook install"
        remote, _ = _sync_place("origin", top)
        if SENDING not in installed:
            yield (
                f"To share this memory, without your conversations, with everyone who can access {remote}, "
                f"at each merge and push: treering hook install --sync {remote}"
            )


def are_installed(place: Path) -> bool:
    """Return whether hooks of the repository at a place call Treering; not without a repository."""
    with suppress(TreeringError):
        return any(hook.state in OURS for hook in hooks_of(_work_tree(place)[0]))
    return False


def remove_own(place: Path) -> list[GitHook]:
    """Remove the hooks as `remove_hooks` does; none without a repository, and none if one cannot be changed."""
    with suppress(TreeringError, OSError):
        return remove_hooks(place)
    return []


def sharing_notes(remote: str) -> tuple[str, ...]:
    """Return sentences that explain sharing over `remote`."""
    return (
        f"Merges and branch checkouts pull others' changes from {remote}; a push to it sends yours.",
        "Conversations with coding agents are not sent; rules, decisions and tasks confirmed from them are.",
        "Secrets and private scopes are not sent. TREERING_HOOK_SYNC=0 turns it off.",
    )


def _commands(ingest: tuple[str, ...], sharing: SharingFlags, top: Path) -> HookCommands:
    if not sharing.sync:
        if sharing.key or sharing.signers:
            raise InvalidInput("--key and --signers need --sync.", hint="Add --sync REMOTE.")
        return HookCommands(ingest)
    remote, is_folder = _sync_place(sharing.sync, top)
    files = {"--key": sharing.key, "--signers": sharing.signers}
    for option, file in files.items():
        if file and not file.is_file():
            raise InvalidInput(f"{option}: there is no file {file}.", hint="Give an existing file.")
    named = [word for option, file in files.items() if file for word in (option, str(file.resolve()))]
    fetch = (*ingest, "--sync", remote, *named)
    return HookCommands(ingest, fetch, (*fetch, "--push"), "" if is_folder else remote)


def _sync_place(remote: str, folder: Path) -> tuple[str, bool]:
    _require_sharing()
    from treering.extensions.sharing.depots import sync_place

    return sync_place(remote, folder=folder)


def _require_sharing() -> None:
    # Hooks that only ingest work without it.
    if "sharing" not in {extension.name for extension in extensions()}:
        raise InvalidInput("Hooks that sync need the extension 'sharing', which is missing.")


def remove_hooks(place: Path) -> list[GitHook]:
    """Remove our calls from the hooks of a repository, and the state of their runs; return the changed hooks."""
    top, repository = _work_tree(place)
    changed = uninstall_hooks(top)
    folder = repository.common / _FOLDER
    for name in (_LAST, _LAST_SYNC):
        (folder / name).unlink(missing_ok=True)
    for place in (folder / _FETCHING, folder / _PUSHING, folder):
        for name in (NEXT_LOCK, RUNNING_LOCK):
            (place / name).unlink(missing_ok=True)
        with suppress(OSError):  # it does not exist, or is not empty
            place.rmdir()
    return changed


def state_of(place: Path) -> tuple[Sequence[GitHook], dict[str, Any], dict[str, Any]]:
    """Return the hooks of a repository, and the results of the last run and the last sync ({} if there is none)."""
    top, repository = _work_tree(place)
    return hooks_of(top), _last_run(repository, _LAST), _last_run(repository, _LAST_SYNC)


def run(access: Access, sharing: SharingFlags, *, push: bool, sync: bool) -> tuple[dict[str, Any], list[IndentedLine]]:
    """Ingest the repository of the working folder, then sync, one run at a time; return the report and its lines.

    The result is also stored in the git folder. `push`: only sync, in both directions.
    """
    with suppress(OSError, AttributeError):  # not on Windows; or it already has its own session
        os.setsid()
    top, repository = _work_tree(Path())
    folder = repository.common / _FOLDER
    report: dict[str, Any] = {}
    lines: list[IndentedLine] = []
    if not push:
        ingested = _in_turn(folder, folder / _LAST, lambda: _ingest(access))
        report, lines = ingested or {}, [*(run_lines(ingested) if ingested else [line(_WAITS)])]
    if sync:
        # A waiting sync does not include a waiting ingest, nor the reverse, so each has its own queue.
        queue = folder / (_PUSHING if push else _FETCHING)
        synced = _in_turn(queue, folder / _LAST_SYNC, lambda: _sync(access, sharing, top, push))
        report = {**report, "sync": synced or {}}
        lines += sync_lines(synced) if synced else [line(_WAITS)]
    return report, lines


def _in_turn(folder: Path, file: Path, work: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
    """Work when it is this process's turn and write the result to a file; `None` if another process waits already."""
    with one_after_another(folder) as is_ours:
        if not is_ours:
            return None
        result = work()
        replace_file(file, json.dumps({"at": render_time(datetime.now(UTC)), **result}).encode())
        return result


def _sync(access: Access, sharing: SharingFlags, top: Path, push: bool) -> dict[str, Any]:
    # No user can enter a password here, so ssh must fail. The next push or `treering sync` sends the changes.
    os.environ["SSH_ASKPASS_REQUIRE"] = "never"
    writing = WriteFlags()
    try:
        _require_sharing()
        from treering.extensions.sharing.sync import SyncWishes

        options = SyncWishes(push=push, key=sharing.key, signers=sharing.signers)
        with opened(access, writing) as space:
            report = space.sync(sharing.sync, options, folder=top)
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


def _last_run(repository: RepositoryContents, name: str) -> dict[str, Any]:
    try:
        result = json.loads((repository.common / _FOLDER / name).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return result if isinstance(result, dict) else {}


def facts(hooks: Sequence[GitHook]) -> dict[str, object]:
    """Return the states of the hooks, for --json."""
    return {"hooks": {one.name: one.state for one in hooks}}


def hook_lines(hooks: Sequence[GitHook]) -> Iterator[IndentedLine]:
    """Show the state of each hook."""
    for one in hooks:
        yield line(f"{one.name}: {_SHOWN[one.state]}")


def run_lines(result: Mapping[str, Any]) -> Iterator[IndentedLine]:
    """Show the result of a run."""
    if not result:
        yield line("No hook has run yet.")
        return
    if "error" in result:
        yield line(_at(result), ("failed: ", "red"), result["error"])
        return
    yield line(_at(result), f"ingested: {counted(result.get('counts', {}))}")
    yield from render_warnings(result.get("warnings", []))


def sync_lines(result: Mapping[str, Any]) -> Iterator[IndentedLine]:
    """Show the result of a sync."""
    if "error" in result:
        yield line(_at(result), ("sync failed: ", "red"), result["error"])
        return
    yield line(
        _at(result), f"synced with {result['remote']}: {result['received']} changes received, {result['sent']} sent"
    )
    yield from render_warnings(result.get("warnings", []))


def _at(result: Mapping[str, Any]) -> str:
    return f"{result['at'][:16].replace('T', ' ')}  " if "at" in result else ""


def _work_tree(place: Path) -> tuple[Path, RepositoryContents]:
    repository = RepositoryContents.open(place)
    if repository.top is None:
        raise InvalidInput("This repository has no work tree.", hint="Run this in one of its work trees.")
    return repository.top, repository
