"""A private git folder that borrows the objects of a repository, but nothing that can run programs.

In it git finds a configuration written by Treering, HEAD, the refs, and the locations of objects (as alternates). To
compare a work tree, it also gets copies of the index and of the ignore rules. The repository is never written to, and
git never reads its configuration, hooks and `info`.
"""

import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Literal
from weakref import finalize

from treering.core.characters import printable, shown
from treering.core.errors import Unavailable
from treering.ports.adapter import FileAccess
from treering.sources.git.process import (
    GitLayout,
    Settings,
    object_folders,
    open_part,
    parse_settings,
    read_part,
    reading,
    user_file,
    user_settings,
)
from treering.sources.reading.folder import read_at_most
from treering.system.git_start import isolated_environment

ObjectFormat = Literal["sha1", "sha256"]

_TRUE = {"true", "yes", "on"}
_FALSE = {"false", "no", "off", ""}
# Settings for comparing files with stored ones, with their values other than booleans.
_COMPARING: Mapping[str, frozenset[str] | None] = {
    "core.autocrlf": frozenset({"input"}),
    "core.checkstat": frozenset({"default", "minimal"}),
    "core.eol": frozenset({"lf", "crlf", "native"}),
    "core.filemode": None,
    "core.ignorecase": None,
    "core.longpaths": None,
    "core.precomposeunicode": None,
    "core.sparsecheckout": None,
    "core.sparsecheckoutcone": None,
    "core.symlinks": None,
    "core.trustctime": None,
}
_USERS_FILES = {"core.attributesfile": "attributes", "core.excludesfile": "ignore"}
# Extensions without effect on reading committed data.
_HARMLESS = {"noop", "noop-v1", "partialclone", "preciousobjects", "relativeworktrees", "worktreeconfig"}
_LATER = {"noop-v1", "objectformat", "refstorage", "relativeworktrees"}  # in effect since format version 1
_NUMBER = re.compile(r"[+-]?\d{1,9}")


@dataclass(frozen=True, slots=True)
class RepositoryConfig:
    """The settings of a repository that are used; all others, which may name programs, are ignored.

    `worktree` is unresolved.
    """

    object_format: ObjectFormat
    bare: bool
    worktree: bytes | None
    comparing: Mapping[str, str]
    remotes: tuple[tuple[bytes, bytes], ...]
    """Names and addresses of the remotes, in order."""
    partial: bool
    """Whether some objects may only be on a server."""


def parse_config(shared: bytes, own: bytes | None, *, linked: bool, where: Path) -> RepositoryConfig:
    """Parse the configuration of a repository, and the one of its work tree if it exists.

    `linked`: the work tree is one of several; the shared `bare` and `worktree` do not apply to it. Raises `Unavailable`
    if a file cannot be parsed, or requires an unknown format.
    """
    settings = parse_settings(shared, where=shown(where))
    extensions = _extensions(settings, where)
    mine = parse_settings(own, where=f"{shown(where)}.worktree") if own and _is_on(extensions, "worktreeconfig") else ()
    of_tree = dict(mine if linked else settings + mine)
    everything = settings + mine
    return RepositoryConfig(
        object_format=_object_format(extensions, where),
        bare=_boolean(b"core.bare", of_tree[b"core.bare"]) if b"core.bare" in of_tree else False,
        worktree=of_tree.get(b"core.worktree"),
        comparing=dict(_comparing(everything)),
        remotes=tuple(_remotes(everything)),
        partial="partialclone" in extensions or any(_is_promisor(*setting) for setting in everything),
    )


def comparing_as_the_user() -> dict[str, str]:
    """Return the user's own settings for comparing files, and the path of the user's ignore file."""
    settings = user_settings()
    named = {printable(key): os.fsdecode(value or b"") for key, value in settings}
    files = {key: named.get(key) or str(user_file(usual) or "") for key, usual in _USERS_FILES.items()}
    return dict(_comparing(settings)) | {key: _expanded(file) for key, file in files.items() if file}


def _comparing(settings: Settings) -> Iterator[tuple[str, str]]:
    for raw, value in settings:
        key = printable(raw)
        if key in _COMPARING:
            named = (value or b"").decode("latin-1").lower()
            words = _COMPARING[key] or ()
            yield key, named if named in words else str(_boolean(raw, value)).lower()


def _remotes(settings: Settings) -> Iterator[tuple[bytes, bytes]]:
    for key, value in settings:
        if key.startswith(b"remote.") and key.endswith(b".url") and value:
            yield key[len(b"remote.") : -len(b".url")], value


def _is_promisor(key: bytes, value: bytes | None) -> bool:
    named = key.startswith(b"remote.") and key.endswith((b".promisor", b".partialclonefilter"))
    return named and (value is None or value.lower() not in (b"false", b"no", b"off", b"0", b""))


def _extensions(settings: Settings, where: Path) -> dict[str, bytes | None]:
    """Return the extensions of the format. Raises `Unavailable` for an unknown one."""
    named = dict(settings).get(b"core.repositoryformatversion") or b"0"
    if named not in (b"0", b"1"):
        raise _unknown(f"The repository's format has version {printable(named)}", where)
    extensions = {
        printable(key).removeprefix("extensions."): value for key, value in settings if key.startswith(b"extensions.")
    }
    if named == b"0":  # the version in which most extensions have no effect
        return {name: value for name, value in extensions.items() if name in _HARMLESS - _LATER}
    for name, value in extensions.items():
        files = name == "refstorage" and (value or b"").lower() == b"files"
        if name not in _HARMLESS | {"objectformat"} and not files:
            shown = printable(value or b"")
            raise _unknown(f"The repository's format has the extension {name} = {shown}", where)
    return extensions


def _object_format(extensions: Mapping[str, bytes | None], where: Path) -> ObjectFormat:
    named = (extensions.get("objectformat") or b"sha1").lower()
    if named == b"sha1":
        return "sha1"
    if named == b"sha256":
        return "sha256"
    raise _unknown(f"The repository's objects have format {printable(named)}", where)


def _unknown(problem: str, where: Path) -> Unavailable:
    return Unavailable(
        f"{problem}, which Treering does not support ({shown(where)}).",
        hint="Read a clone in the usual format: `git clone --ref-format=files --bare`.",
    )


def _is_on(extensions: Mapping[str, bytes | None], name: str) -> bool:
    return name in extensions and _boolean(f"extensions.{name}".encode(), extensions[name])


def _boolean(key: bytes, value: bytes | None) -> bool:
    text = "true" if value is None else value.decode("latin-1").lower()
    if text in _TRUE or (_NUMBER.fullmatch(text) and int(text) != 0):
        return True
    if text in _FALSE or _NUMBER.fullmatch(text):
        return False
    raise Unavailable(
        f"{printable(key)} is {printable(value or b'')!r} in a git configuration; git accepts only true or false.",
        hint="Correct the git configuration.",
    )


def _expanded(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~") else path


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
_SYMBOLIC = 5  # the maximum depth of symbolic refs, as in git


class PrivateGitFolder:
    """Creates the folder on first use, and removes it when this object is deleted."""

    def __init__(self, layout: GitLayout, config: RepositoryConfig, access: FileAccess) -> None:
        self._layout = layout
        self._config = config
        self._access = access
        self._lock = Lock()
        self._folder: Path | None = None
        self._environment: dict[str, str] = {}
        self._has_index = False

    @property
    def folder(self) -> Path:
        """The folder. Raises `Denied` if a part of the repository may not be read, `Unavailable` if it cannot."""
        with self._lock, reading(self._layout.git_dir):
            return self._created()

    def environment(self) -> dict[str, str]:
        """Return the environment for git commands on committed data."""
        with self._lock, reading(self._layout.git_dir):
            self._created()
            return self._environment

    def comparing(self, top: Path) -> dict[str, str]:
        """Return the environment for git commands that compare a work tree."""
        with self._lock, reading(self._layout.git_dir):
            folder = self._created()
            if not self._has_index:
                self._take_index(folder)
                self._has_index = True
            return {**self._environment, "GIT_WORK_TREE": str(top)}

    def _created(self) -> Path:
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
        self._environment = isolated_environment(
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
        """Copy the additional files for comparing a work tree."""
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
        """Copy a file, if it exists, with its time: by the time of the index, git decides which entries to recheck."""
        stream = open_part(home / name, self._access)
        if stream is None:
            return b""
        with stream:
            status = os.fstat(stream.fileno())
            if status.st_size > _MOST_COPIED:
                raise Unavailable(
                    f"{shown(home / name)} is larger than {_MOST_COPIED:,} bytes.",
                    hint="Read a commit of a bare clone instead.",
                )
            data = read_at_most(stream, _MOST_COPIED)
        (folder / name).write_bytes(data)
        os.utime(folder / name, ns=(status.st_atime_ns, status.st_mtime_ns))
        return data

    def _head(self) -> bytes:
        file = self._layout.git_dir / "HEAD"
        text = self._linked_ref(file) or read_part(file, self._access, most=_MOST_REF) or b""
        if not _LOOSE.fullmatch(text):
            raise Unavailable(
                f"{shown(file)} contains neither a commit nor a branch.", hint="Run `git fsck` in the repository."
            )
        return text

    def _refs(self) -> Iterator[tuple[bytes, bytes]]:
        """Yield every ref with its id. Loose refs take precedence over packed ones."""
        packed = read_part(self._layout.common / "packed-refs", self._access) or b""
        packed_refs = {match[2]: match[1] for match in map(_PACKED.fullmatch, packed.split(b"\n")) if match}
        loose = dict(self._loose_refs())
        for name in sorted(packed_refs | loose):
            one = name
            for _ in range(_SYMBOLIC):
                value = loose.get(one) or packed_refs.get(one, b"")
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
        """Return the target of a ref that is a symbolic link, as created by very old versions of git."""
        if not file.is_symlink():
            return None
        target = os.fsencode(file.readlink())
        return b"ref: " + target if target.startswith(b"refs/") else None


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'


def _written(settings: Mapping[str, str]) -> bytes:
    """Serialize a git configuration."""
    lines: list[str] = []
    for key, value in settings.items():
        section, _, name = key.partition(".")
        escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
        lines.append(f'[{section}]\n\t{name} = "{escaped}"\n')
    return "".join(lines).encode("utf-8", "surrogateescape")
