"""A git folder of Treering's own, which borrows the objects of a repository and takes over nothing that runs.

git finds in it: a configuration Treering wrote, HEAD, the refs, and where further objects lie (as alternates). For
comparing a work tree it also gets a copy of the index and of what says which files to ignore. The repository is never
written to, and its configuration, hooks and `info` are never seen by git.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from threading import Lock
from weakref import finalize

from treering.core.errors import Unavailable
from treering.edges.sources.folder import read_at_most
from treering.edges.sources.git_config import RepositoryConfig, comparing_as_the_user
from treering.edges.sources.git_layout import GitLayout, object_folders, open_part, read_part, reading
from treering.edges.sources.git_process import git_environment
from treering.edges.sources.names import shown
from treering.ports.files import FileAccess

_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.untrackedCache": "false",
    "log.showSignature": "false",
    "protocol.allow": "never",
}
_ID = rb"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_NAME = rb"refs/(?:(?!\.\.|@\{)[^\x00-\x20\x7f~^:?*\[\\])+"
_PACKED = re.compile(rb"(%b) (%b)" % (_ID, _NAME))
_LOOSE = re.compile(rb"(?:(?P<id>%b)|ref:\s*(?P<name>%b))\s*" % (_ID, _NAME))
_SHARED_INDEX = re.compile(r"sharedindex\.([0-9a-f]{40}(?:[0-9a-f]{24})?)")
_MOST_REF = 10_000
_MOST_COPIED = 250_000_000
_SYMBOLIC = 5  # how often a ref may name another, as git has it


class PrivateGitFolder:
    """Makes the folder when it is first needed, and removes it when nobody holds this object any more."""

    def __init__(self, layout: GitLayout, config: RepositoryConfig, access: FileAccess) -> None:
        self._layout = layout
        self._config = config
        self._access = access
        self._lock = Lock()
        self._folder: Path | None = None
        self._environment: Mapping[str, str] = {}
        self._has_index = False

    @property
    def folder(self) -> Path:
        """The folder. Raises `Denied` where a part of the repository may not be read, `Unavailable` where it cannot."""
        with self._lock, reading(self._layout.git_dir):
            return self._made()

    def environment(self) -> Mapping[str, str]:
        """Return the environment of a git that reads what is committed."""
        with self._lock, reading(self._layout.git_dir):
            self._made()
            return self._environment

    def comparing(self, top: Path) -> Mapping[str, str]:
        """Return the environment of a git that compares a work tree."""
        with self._lock, reading(self._layout.git_dir):
            folder = self._made()
            if not self._has_index:
                self._take_index(folder)
                self._has_index = True
            return {**self._environment, "GIT_WORK_TREE": str(top)}

    def _made(self) -> Path:
        if self._folder is not None:
            return self._folder
        objects = object_folders(self._layout, self._access)
        folder = Path(tempfile.mkdtemp(prefix="treering-git-"))
        finalize(self, shutil.rmtree, folder, ignore_errors=True)
        for name in ("objects", "refs", "info"):
            (folder / name).mkdir()
        (folder / "HEAD").write_bytes(self._head())
        (folder / "packed-refs").write_bytes(b"".join(b"%b %b\n" % (one, name) for name, one in self._refs()))
        (folder / "config").write_bytes(_written(self._settings()))
        self._take(self._layout.common, folder, "shallow")
        self._environment = git_environment(
            GIT_DIR=str(folder), GIT_ALTERNATE_OBJECT_DIRECTORIES=os.pathsep.join(map(_quoted, objects))
        )
        self._folder = folder
        return folder

    def _settings(self) -> dict[str, str]:
        sha1 = self._config.object_format == "sha1"
        version = {"core.repositoryFormatVersion": "0" if sha1 else "1"}
        extensions = {} if sha1 else {"extensions.objectFormat": self._config.object_format}
        return {**version, "core.bare": "true", **extensions, **_SETTINGS}

    def _take_index(self, folder: Path) -> None:
        """Copy what comparing a work tree needs besides."""
        comparing = {**comparing_as_the_user(), **self._config.comparing}
        (folder / "config").write_bytes(_written({**self._settings(), **comparing}))
        for name in ("info/exclude", "info/attributes"):
            self._take(self._layout.common, folder, name)
        self._take(self._layout.git_dir, folder, "info/sparse-checkout")
        index = self._take(self._layout.git_dir, folder, "index")
        for file in self._layout.git_dir.iterdir():
            shared = _SHARED_INDEX.fullmatch(file.name)
            if shared and bytes.fromhex(shared[1]) in index:
                self._take(self._layout.git_dir, folder, file.name)

    def _take(self, home: Path, folder: Path, name: str) -> bytes:
        """Copy a file, if there is one, with its time: by the index's own git tells which entries to look at again."""
        stream = open_part(home / name, self._access)
        if stream is None:
            return b""
        with stream:
            status = os.fstat(stream.fileno())
            if status.st_size > _MOST_COPIED:
                raise Unavailable(
                    f"{shown(home / name)} has more than {_MOST_COPIED:,} bytes.",
                    hint="Read a commit of a bare clone of it.",
                )
            data = read_at_most(stream, _MOST_COPIED)
        (folder / name).write_bytes(data)
        os.utime(folder / name, ns=(status.st_atime_ns, status.st_mtime_ns))
        return data

    def _head(self) -> bytes:
        file = self._layout.git_dir / "HEAD"
        text = self._linked_ref(file) or read_part(file, self._access, most=_MOST_REF) or b""
        if not _LOOSE.fullmatch(text):
            raise Unavailable(f"{shown(file)} names no commit and no branch.", hint="Run `git fsck` in the repository.")
        return text

    def _refs(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield every ref with the id it stands for. A loose one counts before a packed one of its name."""
        packed = read_part(self._layout.common / "packed-refs", self._access) or b""
        found = {match[2]: match[1] for match in map(_PACKED.fullmatch, packed.split(b"\n")) if match}
        loose = dict(self._loose_refs())
        for name in sorted(found | loose):
            one = name
            for _ in range(_SYMBOLIC):
                value = loose.get(one) or found.get(one, b"")
                match = _LOOSE.fullmatch(value)
                if match is None or match["id"]:
                    break
                one = match["name"]
            if match and match["id"]:
                yield name, match["id"]

    def _loose_refs(self) -> Iterator[tuple[bytes, bytes]]:
        home = self._layout.common / "refs"
        self._access.check(home, shown(home))
        waiting = [home]
        while waiting:
            with os.scandir(waiting.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        waiting.append(Path(entry.path))
                        continue
                    file = Path(entry.path)
                    text = self._linked_ref(file) or read_part(file, self._access, most=_MOST_REF) or b""
                    yield b"refs/" + os.fsencode(file.relative_to(home).as_posix()), text

    def _linked_ref(self, file: Path) -> bytes | None:
        """Return what a ref that is a link stands for, as very old versions of git wrote them."""
        if not file.is_symlink():
            return None
        target = os.fsencode(file.readlink())
        return b"ref: " + target if target.startswith(b"refs/") else None


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _written(settings: Mapping[str, str]) -> bytes:
    """Write a git configuration."""
    lines: list[str] = []
    for key, value in settings.items():
        section, _, name = key.partition(".")
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'[{section}]\n\t{name} = "{escaped}"\n')
    return "".join(lines).encode("utf-8", "surrogateescape")
