"""Refuse a space that came with a repository: its author's content would be shown as the user's own.

A space belongs to one machine and is excluded from version control. Only exams and policies should be tracked.
"""

import os
import re
import struct
import sys
from collections.abc import Iterator
from pathlib import Path

from treering.core.characters import shown
from treering.core.errors import Denied
from treering.system.repository_place import GitPlace, repository_at

_FOLDER = ".treering"
_POLICY = b".policy.toml"
_MAX_INDEX_BYTES = 500_000_000
_SHA256 = re.compile(rb"^\s*objectformat\s*=\s*sha256", re.IGNORECASE | re.MULTILINE)
_IGNORES_CASE = sys.platform != "linux"


def refuse_tracked(space: Path) -> None:
    """Raise `Denied` if git tracks data of a space in a `.treering/` folder."""
    if space.parent.name != _FOLDER:
        return
    folder = Path(os.path.realpath(space.parent.parent), _FOLDER)
    place = repository_at(folder.parent)
    if place is None or place.top is None or not folder.is_relative_to(place.top):
        return
    own = os.fsencode(folder.relative_to(place.top).as_posix())
    if (name := _tracked(place, own, os.fsencode(space.name))) is None:
        return
    raise Denied(
        f"The space {shown(space)} is part of the repository: git tracks {shown(os.fsdecode(name))}.",
        hint="If you trust its author, add --trust or set TREERING_TRUST=1. If it is your own, remove "
        f"it from git: git rm -r --cached {shown(os.fsdecode(name))}",
    )


def is_tracked(place: GitPlace, path: Path) -> bool:
    """Return whether the index has a file. `path`: relative to the top of the work tree."""
    own = _folded(os.fsencode(path.as_posix()))
    return any(_folded(name) == own for name in _tracked_names(place, mentioning=own, last=own))


def _tracked(place: GitPlace, folder: bytes, file: bytes) -> bytes | None:
    """Return the index entry for a folder: the folder itself, as a link or a submodule, or data of a space in it."""
    whole, data = _folded(folder), _folded(folder + b"/" + file)
    for name in _tracked_names(place, mentioning=_folded(_FOLDER.encode()), last=data + b"\xff"):
        one = _folded(name)
        if one == whole or (one.startswith(data) and not one.endswith(_POLICY)):
            return name
    return None


def _tracked_names(place: GitPlace, *, mentioning: bytes, last: bytes) -> Iterator[bytes]:
    """Yield the names up to `last` in each index that contains some bytes."""
    for index in (place.git_dir / "index", *place.git_dir.glob("sharedindex.*")):
        try:
            entries = index.read_bytes() if index.stat().st_size <= _MAX_INDEX_BYTES else b""
            # Older versions store whole names, and most repositories track no such file.
            if entries[4:8] < b"\0\0\0\4" and mentioning not in _folded(entries):
                continue
            is_sha256 = bool(_SHA256.search((place.common / "config").read_bytes()))
            for name in _names(entries, digest_bytes=32 if is_sha256 else 20):
                if not _IGNORES_CASE and name > last:
                    break  # names are sorted
                yield name
        except (OSError, IndexError, ValueError, struct.error):
            continue  # no index, or one that git cannot read either


def _folded(name: bytes) -> bytes:
    return name.lower() if _IGNORES_CASE else name


def _names(index: bytes, *, digest_bytes: int) -> Iterator[bytes]:
    """Yield the names in an index of git, of any version."""
    signature, version, count = struct.unpack_from(">4sII", index)
    if signature != b"DIRC":
        return
    at, name = 12, b""
    for _ in range(count):
        after = at + 40 + digest_bytes + 2
        if version >= 3 and index[after - 2] & 0x40:  # it has further flags
            after += 2
        if version >= 4:  # a name omits the prefix it shares with the previous one
            left_out, after = _number(index, after)
            end = index.index(b"\0", after)
            name = name[: len(name) - left_out] + index[after:end]
            at = end + 1
        else:
            end = index.index(b"\0", after)
            name = index[after:end]
            at += (end - at + 8) // 8 * 8  # filled up with one to eight NULs
        yield name


def _number(index: bytes, at: int) -> tuple[int, int]:
    """Read a number of variable length; return it and the place behind it."""
    number = index[at] & 0x7F
    while index[at] & 0x80:
        at += 1
        number = ((number + 1) << 7) | (index[at] & 0x7F)
    return number, at + 1
