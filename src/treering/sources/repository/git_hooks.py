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

_BEGIN = b"# treering: begin (`treering hook uninstall` takes this out)\n"
_END = b"# treering: end\n"
_SHELL = b"#!/bin/sh\n"
_RUN_BY_A_SHELL = re.compile(rb"#!\s*(?:/usr/bin/env\s+)?(?:/\S*/)?(?:ba|da|k|z|a)?sh(?:\s[^\n]*)?\n")
_MODE = 0o755

HookState = Literal["none", "ours", "beside others", "others"]


@dataclass(frozen=True, slots=True)
class GitHook:
    """A hook of a repository as it is now."""

    name: str
    file: Path
    state: HookState
    """`beside others`: what stood there, and our block; `others`: not ours."""


def hooks_of(top: Path) -> list[GitHook]:
    """Return the hooks that may call us, of the repository whose work tree is `top`. Raises `Unavailable`."""
    folder = hooks_folder(top)
    return [GitHook(name, folder / name, _state(_bytes(folder / name))) for name in HOOKS]


def install_hooks(top: Path, common: Path, command: Sequence[str]) -> list[GitHook]:
    """Put a block that runs `command` in the background into each hook, and return the hooks.

    Raises `InvalidInput` where the hooks lie outside of the repository, for others use them too, and `Conflict` for a
    hook that no shell runs; nothing is changed then.
    """
    hooks = hooks_of(top)
    folder = hooks[0].file.parent
    if not any(folder.resolve().is_relative_to(inside.resolve()) for inside in (top, common)):
        raise InvalidInput(
            f"The hooks of this repository are kept in {shown(folder)}, which other repositories use too.",
            hint=f"Put this line into {', '.join(HOOKS)} there: {shlex.join(command)}",
        )
    block = _block(command)
    wanted = [(hook.file, _with_block(_without_block(_bytes(hook.file)), block, hook.file)) for hook in hooks]
    folder.mkdir(parents=True, exist_ok=True)
    for file, data in wanted:
        replace_file(file, data, mode=_MODE)
    return hooks_of(top)


def uninstall_hooks(top: Path) -> list[GitHook]:
    """Take our block out of each hook; one that holds nothing else is removed. Return the hooks that were changed."""
    changed = [hook for hook in hooks_of(top) if hook.state in ("ours", "beside others")]
    for hook in changed:
        rest = _without_block(_bytes(hook.file))
        if rest is None:
            hook.file.unlink()
        else:
            replace_file(hook.file, rest)
    return changed


def _block(command: Sequence[str]) -> bytes:
    program = shlex.quote(command[0])
    # In the background, with no terminal: git and its caller do not wait. A program that is gone is not an error.
    line = f"if [ -x {program} ]; then ( {shlex.join(command)} </dev/null >/dev/null 2>&1 & ); fi\n"
    return _BEGIN + line.encode() + _END


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
