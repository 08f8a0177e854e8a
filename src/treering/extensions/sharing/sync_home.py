"""The folder with the state of a space's syncs: inside the user's data folder, so that only the user can write it.

A folder next to the space may come with a repository, or be shared, so nothing in it is trusted.
"""

import hashlib
import json
import os
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from treering.core.errors import Denied, Unavailable
from treering.extensions.sharing.sync_state import STATE
from treering.sources.reading.folder import read_bytes
from treering.system.machine import held_alone, make_folder, own_user, replace_file

_SPACE = "space"
_MAX_STATE_BYTES = 10_000_000


def home_of_syncs(data_dir: Path, space: Path, log: str) -> Path:
    """Return the folder with the state of a space's syncs, creating it if necessary.

    `log`: the name of its log, by which a moved space finds its state. Raises `Denied` if others can write the folder,
    `Unavailable` if it cannot be created.
    """
    place = Path(os.path.realpath(space))
    home = data_dir / "sync" / hashlib.sha256(os.fsencode(place)).hexdigest()[:32]
    with _translated(data_dir):
        make_own_folder(data_dir / "sync")
        with held_alone(data_dir / "sync" / "lock", wait=True):
            if log and not home.is_dir() and (moved := _moved(home.parent, log)):
                moved.rename(home)
            make_own_folder(home)
            _take_over(space.with_name(f"{space.name}.sync"), home)
            replace_file(home / _SPACE, os.fsencode(place))
    return home


def make_own_folder(folder: Path) -> None:
    """Create a folder that only the user can enter. Raises `OSError`, `Denied` for a link or another user's folder."""
    make_folder(folder)
    user = own_user()
    if user is None:
        return
    state = folder.lstat()
    if not stat.S_ISDIR(state.st_mode) or state.st_uid != user or state.st_mode & 0o022:
        raise Denied(
            f"Other users can write to {folder}, or it is a link, so the sync state is not saved there.",
            hint="Remove it, or set TREERING_DATA_DIR to another folder.",
        )
    if state.st_mode & 0o077:
        folder.chmod(0o700)


def _space_of(home: Path) -> tuple[str, str]:
    """Return the space that a folder is of, and the name of its log when it last synced; empty if unknown."""
    space = log = ""
    with suppress(OSError, ValueError, KeyError, TypeError):
        space = os.fsdecode((home / _SPACE).read_bytes())
        log = str(json.loads((home / STATE).read_text(encoding="utf-8"))["log"])
    return space, log


def _moved(homes: Path, log: str) -> Path | None:
    """Return the folder of a space with this log whose file no longer exists."""
    for home in homes.iterdir():
        space, known = _space_of(home)
        if space and known == log and not Path(space).exists():
            return home
    return None


def _take_over(old: Path, home: Path) -> None:
    """Take over the name of the copy from a folder next to the space, used by earlier versions, and remove the folder.

    Its record of read bundles is not trusted: they are read again. The old copy of the remote is removed because it may
    contain erased content. A link is left unchanged.
    """
    if old.is_symlink() or not old.is_dir():
        return
    if not (home / STATE).exists():
        with suppress(OSError, ValueError, KeyError, TypeError):
            replica = str(json.loads(read_bytes(old / STATE, _MAX_STATE_BYTES) or b"")["replica"])
            replace_file(home / STATE, json.dumps({"replica": replica, "read": {}}).encode())
    shutil.rmtree(old / "git", ignore_errors=True)  # follows no link
    for name in (STATE, "lock"):
        (old / name).unlink(missing_ok=True)
    with suppress(OSError):  # something else is in it
        old.rmdir()


@contextmanager
def _translated(data_dir: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise Unavailable(
            f"Cannot save the sync state in {data_dir}: {error.strerror}.",
            hint="Check that you may write there, or set TREERING_DATA_DIR to another folder.",
        ) from error
