"""The brief that a session begins with, kept ready for the folder it was made for."""

import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

from treering.core.fencing import fence
from treering.stores.sqlite.ready import Standing, read_ready, ready_folder, standing, write_ready
from treering.system.repository_place import repository_at

_MORE = 'Ask wiki.query {"task": "…"} for the context of a task; record decisions with wiki.crystallize.'
_FRESH_SECONDS = 3600
_MOST_PACK_BYTES = 1_000_000
_MOST_DAYS = 30


@dataclass(frozen=True, slots=True)
class ReadyPack:
    """A brief as text, and the state it was made from."""

    folder: str
    """The folder it was made for."""
    state: str
    """The state of the folder then, as `state_of` returns it."""
    at: float
    """When, in seconds since 1970."""
    head: int
    """The number of the last event of the audit log then."""
    revisions: Mapping[str, int]
    """By id, the revisions of the objects in it."""
    text: str
    """Empty if nothing was known."""

    def holds(self, now: Standing) -> bool:
        """Return whether every object it names is as it was; an empty one names none, and holds until a change."""
        if not self.text and now.head != self.head:
            return False
        return all(now.revisions.get(name) == revision for name, revision in self.revisions.items())

    def is_fresh(self, now: Standing, state: str) -> bool:
        """Tell whether making it anew would hardly make another one."""
        return now.head == self.head and state == self.state and time.time() - self.at < _FRESH_SECONDS

    def shown(self, now: Standing, state: str) -> str:
        """Return the text, fenced as data, after a line that says how old it is."""
        notes = [f"Known for this folder, as of {_ago(time.time() - self.at)}"]
        notes += ["for another branch"] if state != self.state else []
        notes += ["before the last changes of the memory"] if now.head != self.head else []
        return f"{', '.join(notes)}.\n\n{fence(self.text, origin='treering')}\n\n{_MORE}"


def pack_of(space: Path, folder: Path) -> ReadyPack | None:
    """Return what is kept ready for a folder; `None` where nothing is, or it cannot be read."""
    return _read(_file(space, folder))


def keep_pack(space: Path, folder: Path, pack: ReadyPack) -> None:
    """Keep a pack, unless what it names was changed meanwhile. Raises `OSError`, `Unavailable`."""
    ready_folder(space, make=True)
    file = _file(space, folder)
    write_ready(file, asdict(pack))
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
    place = repository_at(folder)
    return place.state if place else ""


def _file(space: Path, folder: Path) -> Path:
    return ready_folder(space) / f"{sha256(str(folder.resolve()).encode()).hexdigest()[:32]}.json"


def _read(file: Path) -> ReadyPack | None:
    told = read_ready(file, max_bytes=_MOST_PACK_BYTES)
    with suppress(TypeError):  # another version of Treering wrote it
        return ReadyPack(**told)
    return None


def _ago(seconds: float) -> str:
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        number = int(seconds // length)
        if number > 0:
            return f"{number} {unit}{'' if number == 1 else 's'} ago"
    return "a moment ago"
