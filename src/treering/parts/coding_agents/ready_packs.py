"""The pack that a session begins with, kept ready beside the space for the folder it was made for.

Making one takes a second or more, and a session waits for the hook. Imports little: see `session_hooks`.
"""

import json
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from treering.stores.sqlite.files import Standing, ready_folder, standing
from treering.system.machine import replace_file

__all__ = ["ReadyPack", "keep_pack", "kept_folders", "pack_of", "standing", "state_of"]

_FRESH_SECONDS = 3600
_MOST_BYTES = 1_000_000
_MOST_DAYS = 30
_STATE_CHARS = 4096


@dataclass(frozen=True, slots=True)
class ReadyPack:
    """A context pack as text, and what it was made of."""

    folder: str
    """The folder it was made for."""
    state: str
    """What git named as the state of the folder then, as `state_of` tells it."""
    at: float
    """When, in seconds since 1970."""
    head: int
    """How far the audit log of the space had come."""
    revisions: Mapping[str, int]
    """The objects that it names."""
    text: str
    """Empty where nothing spoke of the folder."""

    def holds(self, now: Standing) -> bool:
        """Tell whether every object it names is as it was."""
        return all(now.revisions.get(name) == revision for name, revision in self.revisions.items())

    def is_fresh(self, now: Standing, state: str) -> bool:
        """Tell whether making it anew would hardly make another one."""
        return now.head == self.head and state == self.state and time.time() - self.at < _FRESH_SECONDS

    def shown(self, now: Standing, state: str) -> str:
        """Return the text, after a line that says how old it is."""
        notes = [f"Known for this folder, as of {_ago(time.time() - self.at)}"]
        notes += ["for another branch"] if state != self.state else []
        notes += ["before the last changes of the memory"] if now.head != self.head else []
        return f"{', '.join(notes)}.\n\n{self.text}"


def pack_of(space: Path, folder: Path) -> ReadyPack | None:
    """Return what is kept ready for a folder; `None` where nothing is, or it cannot be read."""
    return _read(_file(space, folder))


def keep_pack(space: Path, folder: Path, pack: ReadyPack) -> None:
    """Keep a pack, unless what it names was changed meanwhile. Raises `OSError`, `Unavailable`."""
    ready_folder(space, make=True)
    file = _file(space, folder)
    replace_file(file, json.dumps(asdict(pack)).encode())
    # After it was written: erasing removes what is there then, and what it did before is seen now.
    if not pack.holds(standing(space, pack.revisions)):
        file.unlink(missing_ok=True)


def kept_folders(space: Path) -> list[Path]:
    """Return the folders that packs are kept for; one that is gone, or was long not worked in, is forgotten."""
    folders = []
    for file in sorted(ready_folder(space).glob("*.json")):
        pack = _read(file)
        if pack and Path(pack.folder).is_dir() and time.time() - file.stat().st_mtime < _MOST_DAYS * 86_400:
            folders.append(Path(pack.folder))
        else:
            file.unlink(missing_ok=True)
    return folders


def state_of(folder: Path) -> str:
    """Return what git's `HEAD` says in a folder, the nearest above it too; empty where there is no work tree."""
    for place in (folder, *folder.parents):
        git = place / ".git"
        with suppress(OSError, ValueError):
            if git.is_file():  # a work tree beside the first
                git = place / git.read_text(encoding="utf-8")[:_STATE_CHARS].removeprefix("gitdir:").strip()
            return (git / "HEAD").read_text(encoding="utf-8")[:_STATE_CHARS].strip()
    return ""


def _file(space: Path, folder: Path) -> Path:
    return ready_folder(space) / f"{sha256(str(folder.resolve()).encode()).hexdigest()[:32]}.json"


def _read(file: Path) -> ReadyPack | None:
    with suppress(OSError, ValueError, TypeError):
        if file.stat().st_size <= _MOST_BYTES:
            return ReadyPack(**json.loads(file.read_bytes()))
    return None


def _ago(seconds: float) -> str:
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        number = int(seconds // length)
        if number > 0:
            return f"{number} {unit}{'' if number == 1 else 's'} ago"
    return "a moment ago"
