"""Waiting for changes of files, and git hooks that call Treering.

The system reports changes (watchfiles); if it cannot, files are checked at intervals.
"""

import os
import re
import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Literal

from treering.core.characters import shown
from treering.core.errors import Conflict, InvalidInput, needing
from treering.sources.git.ignoring import rules_around
from treering.sources.git.process import hooks_folder
from treering.sources.reading.access import AnyFile
from treering.sources.reading.folder import IgnoreRules
from treering.system.machine import replace_file

Occasion = Literal["begun", "changed", "time"]
"""The reason to check: watching began (again), something changed, or the interval is over."""

_QUIET_MS = 300
_BUSY_MS = 5_000
"""Changes within `_QUIET_MS` of each other count as one, for at most this time."""
_TICK_MS = 1_000
_BLIND_SECONDS = 60.0
"""The maximum interval if the system cannot report changes."""
_BRANCHES = frozenset({"HEAD", "packed-refs", "refs", "reftable"})


@dataclass(frozen=True, slots=True)
class WatchedPlace:
    """The watched folders, and the changes that count. All paths are absolute, with links resolved."""

    place: Path
    git: tuple[Path, ...] = ()
    """The git folders of a repository, in which only changes of branches and HEAD count."""
    files: bool = True
    """Whether files of `place` count; else only `git` does."""
    apart: tuple[str, ...] = ()
    """Prefixes of paths that never count, such as the files of the space itself."""

    @property
    def roots(self) -> tuple[Path, ...]:
        """The folders and files that the system watches."""
        return (*((self.place,) if self.files else ()), *self.git)

    def identities(self) -> list[tuple[int, int]]:
        """Return values that change if a folder is replaced by another one. Raises `OSError` if one is gone."""
        stats = (root.stat() for root in self.roots)
        return [(one.st_dev, one.st_ino) for one in stats]


def occasions(
    watched: WatchedPlace, wait: Callable[[float], bool], *, every: float, on_blind: Callable[[OSError], None]
) -> Iterator[Occasion]:
    """Yield whenever it is time to check: at the beginning, after changes, and after `every` seconds without.

    Changes are noticed from before the first occasion on, including those while an occasion is handled. `wait` waits
    for some seconds, and returns whether to stop. `on_blind` is called if the system cannot report changes, as when it
    has no watches left; then only intervals are used. Raises `MissingExtra`.
    """
    with needing("watch", "Watching files"):
        import watchfiles  # noqa: F401 - reports a missing extra immediately
    while not wait(0):
        try:
            yield from _reported(watched, wait, every)
        except FileNotFoundError:
            # The folder is gone, for example after a change of branches, or a disk was removed; it may come back.
            wait(_TICK_MS / 1000)
        except OSError as error:
            on_blind(error)
            yield from _by_time(wait, min(every, _BLIND_SECONDS))


def _reported(watched: WatchedPlace, wait: Callable[[float], bool], every: float) -> Iterator[Occasion]:
    """Yield occasions until watching should stop, or a folder was replaced by another one that is not watched."""
    from watchfiles import watch

    before, looked = watched.identities(), None
    for batch in watch(
        *watched.roots,
        watch_filter=None,
        debounce=_BUSY_MS,
        step=_QUIET_MS,
        stop_event=_Stopping(wait),
        rust_timeout=_TICK_MS,
        yield_on_timeout=True,
        ignore_permission_denied=True,
    ):
        if wait(0) or watched.identities() != before:
            return
        if looked is None:
            occasion: Occasion = "begun"
        elif _counts(watched, (path for _, path in batch)):
            occasion = "changed"
        # The wall clock also runs while a computer sleeps. If it was set back, a check is due, too.
        elif not 0 <= time() - looked < every:
            occasion = "time"
        else:
            continue
        yield occasion
        looked = time()


def _by_time(wait: Callable[[float], bool], every: float) -> Iterator[Occasion]:
    yield "begun"
    while not wait(every):
        yield "time"


@dataclass(frozen=True, slots=True)
class _Stopping:
    """The interface to stop watching that watchfiles requires."""

    wait: Callable[[float], bool]

    def is_set(self) -> bool:
        return self.wait(0)


def _counts(watched: WatchedPlace, paths: Iterator[str]) -> bool:
    """Return whether any of the changes counts."""
    outer = rules_around(watched.place, AnyFile()) if watched.files and watched.place.is_dir() else IgnoreRules()
    ignoring = _Ignoring(watched.place, outer)
    return any(_is_looked_at(watched, path, ignoring) for path in paths)


def _is_looked_at(watched: WatchedPlace, path: str, ignoring: "_Ignoring") -> bool:
    if path.startswith(watched.apart):
        return False
    for folder in watched.git:
        with suppress(ValueError):
            inside = Path(path).relative_to(folder).parts
            return bool(inside) and inside[0] in _BRANCHES and not path.endswith(".lock")
    return watched.files and not ignoring.leaves_out(Path(path))


@dataclass(frozen=True, slots=True)
class _Ignoring:
    """The current ignore rules of git. Each file is read once, because it may differ at the next change."""

    root: Path
    outer: IgnoreRules
    _rules: dict[str, IgnoreRules] = field(default_factory=dict)

    def leaves_out(self, path: Path) -> bool:
        try:
            parts = path.relative_to(self.root).parts
        except ValueError:
            return False
        rules, relative = self._below("", self.outer), ""
        for depth, part in enumerate(parts, start=1):
            relative = f"{relative}/{part}" if relative else part
            is_folder = depth < len(parts)
            if rules.leave_out(relative, folder=is_folder):
                return True
            if is_folder:
                rules = self._below(relative, rules)
        return False

    def _below(self, relative: str, rules: IgnoreRules) -> IgnoreRules:
        if relative not in self._rules:
            self._rules[relative] = rules.below(self.root / relative, relative)
        return self._rules[relative]


def shown_reason(error: OSError) -> str:
    """Return why the system cannot report changes."""
    return os.strerror(error.errno) if error.errno else str(error)


HOOKS = ("post-commit", "post-merge", "post-checkout", "post-rewrite")
"""Hooks for changes of a branch; `post-rewrite` covers amended commits and rebases."""
SENDING = "pre-push"
"""The hook before a push, with the name of the remote. It could refuse the push; Treering's never does."""

_BEGIN = b"# treering: begin (`treering hook uninstall` takes this out)\n"
_END = b"# treering: end\n"
_SHELL = b"#!/bin/sh\n"
_RUN_BY_A_SHELL = re.compile(rb"#!\s*(?:/usr/bin/env\s+)?(?:/\S*/)?(?:ba|da|k|z|a)?sh(?:\s[^\n]*)?\n")
_MODE = 0o755

HookState = Literal["none", "ours", "beside others", "others"]
OURS: tuple[HookState, ...] = ("ours", "beside others")


@dataclass(frozen=True, slots=True)
class GitHook:
    """A hook of a repository as it is now."""

    name: str
    file: Path
    state: HookState
    """`beside others`: the block is next to other content; `others`: it has no block."""


@dataclass(frozen=True, slots=True)
class HookCommands:
    """The commands that the hooks run in the background."""

    ingest: tuple[str, ...]
    fetch: tuple[str, ...] = ()
    """Run instead of `ingest` after a merge and the checkout of a branch, if not empty."""
    push: tuple[str, ...] = ()
    """Run before a push, if not empty."""
    remote: str = ""
    """Limits `push` to the remote of this name, if not empty."""

    def lines(self) -> dict[str, str]:
        """Return the shell command for each hook."""
        lines = dict.fromkeys(HOOKS, _in_background(self.ingest))
        if self.fetch:
            lines["post-merge"] = _in_background(self.fetch)
            # git passes whether a branch was checked out, or files.
            lines["post-checkout"] = (
                f'if [ "$3" = 0 ]; then {_in_background(self.ingest)}; else {_in_background(self.fetch)}; fi'
            )
        if self.push:
            push = _in_background(self.push)
            named = f'if [ "$1" = {shlex.quote(self.remote)} ]; then {push}; fi'
            lines[SENDING] = named if self.remote else push
        return lines


def hooks_of(top: Path) -> list[GitHook]:
    """Return the hooks that may call Treering, of the repository with the work tree `top`. Raises `Unavailable`.

    `pre-push` is returned only if it calls Treering.
    """
    folder = hooks_folder(top)
    hooks = [GitHook(name, folder / name, _state(_bytes(folder / name))) for name in (*HOOKS, SENDING)]
    return [hook for hook in hooks if hook.name != SENDING or hook.state in OURS]


def install_hooks(top: Path, common: Path, commands: HookCommands) -> list[GitHook]:
    """Put a block that runs a command in the background into each hook, and return the hooks.

    Obsolete blocks are removed. Raises `InvalidInput` if the hooks are outside the repository, because other
    repositories use them, too, and `Conflict` for a hook that is not run by a shell; nothing is changed then.
    """
    folder, lines = hooks_folder(top), commands.lines()
    if not any(folder.resolve().is_relative_to(inside.resolve()) for inside in (top, common)):
        raise InvalidInput(
            f"The hooks of this repository are in {shown(folder)}, which other repositories use too.",
            hint=f"Put this line into {', '.join(HOOKS)} there: {shlex.join(commands.ingest)}",
        )
    files = {name: folder / name for name in lines}
    wanted = [
        (file, _with_block(_without_block(_bytes(file)), _block(lines[name]), file)) for name, file in files.items()
    ]
    folder.mkdir(parents=True, exist_ok=True)
    for file, data in wanted:
        replace_file(file, data, mode=_MODE)
    for hook in hooks_of(top):
        if hook.name not in lines:
            _take_out(hook.file)
    return hooks_of(top)


def uninstall_hooks(top: Path) -> list[GitHook]:
    """Remove Treering's block from each hook, and hooks without other content. Return the changed hooks."""
    changed = [hook for hook in hooks_of(top) if hook.state in OURS]
    for hook in changed:
        _take_out(hook.file)
    return changed


def _take_out(file: Path) -> None:
    rest = _without_block(_bytes(file))
    if rest is None:
        file.unlink()
    else:
        replace_file(file, rest)


def _in_background(command: Sequence[str]) -> str:
    """Return shell code that starts a command without a terminal, and does not wait for it.

    A missing program is not an error.
    """
    return f"if [ -x {shlex.quote(command[0])} ]; then ( {shlex.join(command)} </dev/null >/dev/null 2>&1 & ); fi"


def _block(line: str) -> bytes:
    return _BEGIN + f"{line}\n".encode() + _END


def _with_block(before: bytes | None, block: bytes, file: Path) -> bytes:
    """Insert the block before the rest of a hook, because the rest may end with `exit` or `exec`."""
    if before is None:
        return _SHELL + block
    first = _RUN_BY_A_SHELL.match(before)
    if first is None:
        raise Conflict(
            f"{shown(file)} is not run by a shell that Treering knows.",
            hint=f"Have it start this in the background: {block.decode().splitlines()[1]}",
        )
    return before[: first.end()] + block + before[first.end() :]


def _without_block(data: bytes | None) -> bytes | None:
    """Return the other content of a hook, or `None` if there is none."""
    if data is None or _BEGIN not in data:
        return data
    before, _, rest = data.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise Conflict("The end of Treering's block in a hook is missing.", hint="Delete the block by hand.")
    left = before + after
    return None if left == _SHELL else left


def _state(data: bytes | None) -> HookState:
    if data is None:
        return "none"
    if _BEGIN not in data:
        return "others"
    return "ours" if _without_block(data) is None else "beside others"


def _bytes(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None
