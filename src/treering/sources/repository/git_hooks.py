"""Hooks of git that call Treering: a block of our own in each, which is taken out again without a trace."""

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from treering.core.characters import shown
from treering.core.errors import Conflict, InvalidInput
from treering.sources.repository.git_process import hooks_folder
from treering.system.machine import replace_file

HOOKS = ("post-commit", "post-merge", "post-checkout", "post-rewrite")
"""What moves a branch: `post-rewrite` is amended commits and rebases."""
SENDING = "pre-push"
"""What git calls before a push, with the name of the remote. It may refuse the push; ours never does."""

_BEGIN = b"# treering: begin (`treering hook uninstall` takes this out)\n"
_END = b"# treering: end\n"
_SHELL = b"#!/bin/sh\n"
_RUN_BY_A_SHELL = re.compile(rb"#!\s*(?:/usr/bin/env\s+)?(?:/\S*/)?(?:ba|da|k|z|a)?sh(?:\s[^\n]*)?\n")
_MODE = 0o755

HookState = Literal["none", "ours", "beside others", "others"]
_OURS: tuple[HookState, ...] = ("ours", "beside others")


@dataclass(frozen=True, slots=True)
class GitHook:
    """A hook of a repository as it is now."""

    name: str
    file: Path
    state: HookState
    """`beside others`: what stood there, and our block; `others`: not ours."""


@dataclass(frozen=True, slots=True)
class HookCommands:
    """What the hooks run in the background."""

    ingest: tuple[str, ...]
    fetch: tuple[str, ...] = ()
    """Instead of it after a merge and the checkout of a branch; empty: nothing else."""
    push: tuple[str, ...] = ()
    """Before a push; empty: nothing."""
    remote: str = ""
    """Only before a push to the remote of this name; empty: to any."""

    def lines(self) -> dict[str, str]:
        """Return the line of shell for each hook."""
        lines = dict.fromkeys(HOOKS, _in_background(self.ingest))
        if self.fetch:
            lines["post-merge"] = _in_background(self.fetch)
            # git says whether a branch was checked out, or files.
            lines["post-checkout"] = (
                f'if [ "$3" = 0 ]; then {_in_background(self.ingest)}; else {_in_background(self.fetch)}; fi'
            )
        if self.push:
            push = _in_background(self.push)
            named = f'if [ "$1" = {shlex.quote(self.remote)} ]; then {push}; fi'
            lines[SENDING] = named if self.remote else push
        return lines


def hooks_of(top: Path) -> list[GitHook]:
    """Return the hooks that may call us, of the repository whose work tree is `top`. Raises `Unavailable`.

    Of `pre-push` only one that does call us is told.
    """
    folder = hooks_folder(top)
    found = [GitHook(name, folder / name, _state(_bytes(folder / name))) for name in (*HOOKS, SENDING)]
    return [hook for hook in found if hook.name != SENDING or hook.state in _OURS]


def install_hooks(top: Path, common: Path, commands: HookCommands) -> list[GitHook]:
    """Put a block that runs its command in the background into each hook, and return the hooks.

    A block of ours that is not wanted any more is taken out. Raises `InvalidInput` where the hooks lie outside of the
    repository, for others use them too, and `Conflict` for a hook that no shell runs; nothing is changed then.
    """
    folder, lines = hooks_folder(top), commands.lines()
    if not any(folder.resolve().is_relative_to(inside.resolve()) for inside in (top, common)):
        raise InvalidInput(
            f"The hooks of this repository are kept in {shown(folder)}, which other repositories use too.",
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
    """Take our block out of each hook; one that holds nothing else is removed. Return the hooks that were changed."""
    changed = [hook for hook in hooks_of(top) if hook.state in _OURS]
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
    """Return shell that starts a command with no terminal: git and its caller do not wait.

    A program that is gone is not an error.
    """
    return f"if [ -x {shlex.quote(command[0])} ]; then ( {shlex.join(command)} </dev/null >/dev/null 2>&1 & ); fi"


def _block(line: str) -> bytes:
    return _BEGIN + f"{line}\n".encode() + _END


def _with_block(before: bytes | None, block: bytes, file: Path) -> bytes:
    """Put our block in front of what a hook does: what follows may end with `exit` or `exec`."""
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
    """Return what else stands in a hook; `None` where nothing does."""
    if data is None or _BEGIN not in data:
        return data
    before, _, rest = data.partition(_BEGIN)
    _, end, after = rest.partition(_END)
    if not end:
        raise Conflict("The end of Treering's block in a hook is missing.", hint="Take the block out by hand.")
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
