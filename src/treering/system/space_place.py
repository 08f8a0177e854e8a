"""Check that a space found by its location may be used: another user must not have created it or led there."""

import os
from contextlib import suppress
from pathlib import Path

from treering.core.errors import InvalidInput
from treering.system.machine import own_user
from treering.system.repository_place import GitPlace

_FOR_ALL = 0o002
_HINT = "If this is the space you want, name it with --space or in TREERING_SPACE; named spaces are not checked."


def check_space_place(file: Path, *roots: Path) -> None:
    """Check the location of a space, relative to the folder in which it was found.

    Raises `InvalidInput` if a link leads out of all of `roots`, or if the space belongs to a user other than root and
    all users can write to its file or folders.
    """
    real = Path(os.path.realpath(file))
    if not any(real.is_relative_to(os.path.realpath(root)) for root in roots):
        raise InvalidInput(f"{file} points to {real}, which is outside {roots[0]}.", hint=_HINT)
    if _is_of_another_user(real):
        raise InvalidInput(
            f"{real} belongs to another user, and any user could have created it.",
            hint=f"{_HINT} Or remove write permission for all users there.",
        )


def check_work_tree(place: GitPlace) -> None:
    """Raise `InvalidInput` if a work tree leads to a repository that does not name the work tree in turn."""
    if not place.names_back:
        raise InvalidInput(
            f"{place.top or place.git_dir} points to the repository {place.common}, which does not list "
            "it as one of its work trees.",
            hint=f"{_HINT} `git worktree repair` repairs a work tree that was moved; for a git folder elsewhere, "
            "set the work tree with `git config core.worktree PATH`.",
        )


def _is_of_another_user(file: Path) -> bool:
    user = own_user()
    with suppress(FileNotFoundError):
        status = file.stat()
        modes = [status.st_mode, *(folder.stat().st_mode for folder in (file.parent, file.parent.parent))]
        return user is not None and status.st_uid not in {user, 0} and any(mode & _FOR_ALL for mode in modes)
    return False
