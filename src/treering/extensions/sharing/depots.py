"""Where bundles lie: under refs of a git remote, or in a shared folder."""

import hashlib
import io
import os
import re
import shutil
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Literal, Protocol

from treering.core.characters import printable
from treering.core.errors import Corrupt, Denied, InvalidInput, NotFound, Unavailable
from treering.sources.git.process import run_git
from treering.sources.git.repository import GitRepository
from treering.sources.reading.folder import read_bytes, reason
from treering.system.git_start import isolated_environment, remote_environment, remote_options, served
from treering.system.machine import make_folder, replace_file

Files = dict[str, bytes]

MANIFEST = "manifest.json"
MAX_MANIFEST_BYTES = 1 << 20
MAX_MANIFESTS_BYTES = 64 << 20
"""Of manifests that are read together."""
MAX_BUNDLE_BYTES = 256 << 20
MAX_LISTED_PLACES = 100_000

_REFS = "refs/treering"
_PLACE = re.compile(r"[0-9a-f]{32}")
_FILE = re.compile(r"[0-9a-f]{32}\.bundle|manifest\.json")
_URL = re.compile(r"[a-z][a-z0-9+.-]*://|[^/\\]+@[^/\\]+:|[A-Za-z0-9.-]{2,}:")
_SECONDS = 600
_WHO = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "treering"), ("EMAIL", "treering@localhost"), ("DATE", "2000-01-01T00:00:00Z"))
}
Kind = Literal["git", "folder"]


class Depot(Protocol):
    """Where each copy has a place of its own, with files in it."""

    @property
    def name(self) -> str:
        """Its name for people."""
        ...

    def places(self) -> Sequence[str]:
        """Return the names of the current places."""
        ...

    def read(self, place: str, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return the files that exist.

        Raises `Corrupt` if the place or a file is malformed or too large; other places can still be read.
        """
        ...

    def manifests(self, places: Sequence[str]) -> Mapping[str, bytes]:
        """Return the manifests of those places that cost less to read together; `read` reads the others."""
        ...

    def send(self, place: str, files: Files, *, keep: Sequence[str]) -> None:
        """Put files into a place. Of the existing files only `keep` stay. All at once, or nothing.

        Raises `Unavailable` if the remote cannot be reached or no longer has a file to keep.
        """
        ...

    def forget(self) -> None:
        """Remove the local copy of fetched files."""
        ...


def depot_at(remote: str, caches: Path, *, folder: Path, kinds: MutableMapping[str, Kind]) -> Depot:
    """Return the depot that a remote names: a remote of the repository in `folder`, a URL, a repository, a folder.

    `caches`: the folder for copies of git remotes. `kinds`: the known kinds of paths; the kind of a new path is added,
    if it exists. Raises `InvalidInput` if it is none of these, or a new folder with other files, and `Denied` for a
    repository of another user.
    """
    if path := _path(remote):
        kind = kinds.get(str(path)) or _kind_of(path)
        if path.is_dir():  # a path may be missing by mistake, or for now
            kinds[str(path)] = kind
        return GitDepot(str(path), caches) if kind == "git" else FolderDepot(path)
    if remote and _URL.match(remote):
        return GitDepot(remote, caches)
    url = _url_of(remote or "origin", folder)
    return GitDepot(url if _URL.match(url) or Path(url).is_absolute() else str((folder / url).resolve()), caches)


def _kind_of(path: Path) -> Kind:
    """Decide the kind of a path used as a remote for the first time. Writers of a shared folder can imitate git."""
    heads = _heads(path)
    if not heads or _has_places(path):
        if path.is_dir() and not _has_places(path) and any(one.name[0] != "." for one in path.iterdir()):
            hint = "Give an empty folder, or a shared one."
            raise InvalidInput(f"The folder {path} contains other files.", hint=hint)
        return "folder"
    if os.name == "posix" and any(one.stat().st_uid != os.geteuid() for one in (path, *heads)):
        raise Denied(
            f"{path} looks like a git repository and belongs to another user.",
            hint=f"If you trust this repository, use {path.as_uri()}; otherwise choose another folder.",
        )
    return "git"


def warnings_of(depot: Depot) -> tuple[str, ...]:
    """Return a warning if a shared folder became a repository."""
    if isinstance(depot, FolderDepot) and _heads(Path(depot.name)):
        return (f"{depot.name} now looks like a git repository. It was first synced as a folder, and still is.",)
    return ()


def _heads(path: Path) -> list[Path]:
    """Return the entries that make a folder look like a repository or a work tree."""
    is_bare = (path / "HEAD").is_file() and (path / "objects").is_dir()
    return [one for one in (path / ".git", *([path / "HEAD"] if is_bare else [])) if one.exists()]


def _has_places(folder: Path) -> bool:
    return any(_PLACE.fullmatch(one.name) and one.is_dir() for one in folder.iterdir())


def sync_place(remote: str, *, folder: Path) -> tuple[str, bool]:
    """Return a remote as hooks of the repository in `folder` may name it, and whether it is a place and no name.

    Raises `InvalidInput` for an address, which may contain a password, and for an invalid remote.
    """
    if path := _path(remote):
        return str(path), True
    if _URL.match(remote):
        raise InvalidInput(
            "The address of a remote may contain a password, and others can read a hook.",
            hint="Give it a name: git remote add memory ADDRESS.",
        )
    _url_of(remote, folder)
    return remote, False


def _path(remote: str) -> Path | None:
    path = Path(remote).expanduser() if remote else None
    if path and (path.is_absolute() or remote.startswith(".") or path.is_dir()):
        return Path(os.path.abspath(path))  # noqa: PTH100 - links stay: their target may change, the name does not
    return None


def _url_of(name: str, folder: Path) -> str:
    config = GitRepository.open(folder).common / "config"
    command = ("config", "--file", str(config), "--get", f"remote.{name}.url")
    done = run_git(command, isolated_environment(), folder=folder)
    url = done.stdout.decode(errors="replace").strip()
    if done.returncode or not url:
        raise InvalidInput(
            f"This repository has no remote {name!r}.",
            hint="Give the name or the address of a remote, or a shared folder.",
        )
    return url


class FolderDepot:
    """A folder shared with others: a network share, or a folder synchronized between machines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def name(self) -> str:
        """Its name for people."""
        return str(self._folder)

    def places(self) -> Sequence[str]:
        """Return the names of the places that are there. Raises `NotFound` if the folder does not exist."""
        if not self._folder.is_dir():
            raise NotFound(f"The folder {self._folder} does not exist.", hint="Create it, or choose another folder.")
        try:
            listed = [one.name for one in islice(self._folder.iterdir(), MAX_LISTED_PLACES)]
        except OSError as error:
            raise Unavailable(
                f"{self._folder} cannot be read: {reason(error)}.", hint="Check its permissions."
            ) from error
        return sorted(name for name in listed if _PLACE.fullmatch(name))

    def read(self, place: str, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return the files that exist."""
        _check_folder(self._folder / place)
        contents = {name: _read_file(self._folder / place / name) for name in names if _FILE.fullmatch(name)}
        return {name: data for name, data in contents.items() if data is not None}

    def manifests(self, places: Sequence[str]) -> Mapping[str, bytes]:  # noqa: ARG002 - what a depot is asked
        """Return nothing: the caller reads each file separately."""
        return {}

    def send(self, place: str, files: Files, *, keep: Sequence[str]) -> None:
        """Write bundles first, then the manifest; delete bundles that it no longer names last."""
        folder = self._folder / place
        if folder.is_symlink():
            raise Unavailable(f"{folder} is a symbolic link.", hint="Remove it: it points outside the shared folder.")
        try:
            make_folder(folder)
            for name in (name for name in files if (folder / name).is_symlink()):
                (folder / name).unlink()  # remove the link, and do not overwrite its target
            for name in sorted(files, key=lambda one: (not one.endswith(".bundle"), one)):
                replace_file(folder / name, files[name])
            for old in folder.iterdir():
                if _FILE.fullmatch(old.name) and old.name not in (*keep, *files):
                    old.unlink()
        except OSError as error:
            raise Unavailable(
                f"{folder} cannot be written: {error.strerror}.", hint="Check its permissions."
            ) from error

    def forget(self) -> None:
        """Do nothing: nothing was copied."""


def _check_folder(folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        raise Corrupt("it is a link or not a folder.", hint="Remove it from the shared folder.")


def _read_file(file: Path) -> bytes | None:
    most = _limit(file.name)
    try:
        data = read_bytes(file, most)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Corrupt(f"{file.name} cannot be read: {reason(error)}.", hint="Check its permissions.") from error
    if data is None or len(data) > most:
        raise _not_a_file(file.name)
    return data


def _limit(name: str) -> int:
    return MAX_MANIFEST_BYTES if name == MANIFEST else MAX_BUNDLE_BYTES


def _not_a_file(name: str) -> Corrupt:
    return Corrupt(
        f"{name} is not a file, or is larger than {_limit(name):,} bytes.", hint="Ask its author to sync again."
    )


@dataclass(frozen=True, slots=True)
class _Blob:
    id: str
    size: int


class GitDepot:
    """A git remote. Fetched objects are in a bare repository in the user's data folder, not in the user's repository.

    git reaches the remote with the user's settings, but without a repository's settings.
    """

    def __init__(self, url: str, caches: Path) -> None:
        self._url = url
        self._cache = caches / hashlib.sha256(os.fsencode(url)).hexdigest()[:32]
        self._is_local = url.startswith("file:") or Path(url).is_absolute()

    @property
    def name(self) -> str:
        """The address without a password."""
        return re.sub(r"//[^/@]*@", "//", self._url)

    def places(self) -> Sequence[str]:
        """Fetch, and return the names of the places that are there."""
        if not (self._cache / "HEAD").is_file():
            self._begin()
        self._reach("fetch", "upload-pack", "--no-tags", "--prune", to=f"+{_REFS}/*:{_REFS}/*")
        listed = self._git("for-each-ref", f"--count={MAX_LISTED_PLACES}", "--format=%(refname)", _REFS)
        names = (ref.removeprefix(f"{_REFS}/") for ref in listed.decode(errors="replace").splitlines())
        return [name for name in names if _PLACE.fullmatch(name)]

    def read(self, place: str, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return the files that exist."""
        there = self._listing(place, names)
        if wrong := next((name for name, blob in there.items() if blob.size > _limit(name)), None):
            raise _not_a_file(wrong)
        return {name: self._git("cat-file", "blob", blob.id) for name, blob in there.items()}

    def manifests(self, places: Sequence[str]) -> Mapping[str, bytes]:
        """Return manifests with two runs of git, however many places there are."""
        requests = [f"{_REFS}/{place}:{MANIFEST}\n".encode() for place in places]
        sizes = self._git("cat-file", "--batch-check=%(objecttype) %(objectsize)", given=b"".join(requests))
        fitting: dict[str, bytes] = {}
        left = MAX_MANIFESTS_BYTES
        for place, line, told_of in zip(places, requests, sizes.splitlines(), strict=True):
            kind, _, size = told_of.partition(b" ")
            if kind == b"blob" and int(size) <= min(left, MAX_MANIFEST_BYTES):
                fitting[place] = line
                left -= int(size)
        data = io.BytesIO(self._git("cat-file", "--batch=%(objectsize)", given=b"".join(fitting.values())))
        contents: dict[str, bytes] = {}
        for place in fitting:
            contents[place] = data.read(int(data.readline()))
            data.readline()
        return contents

    def send(self, place: str, files: Files, *, keep: Sequence[str]) -> None:
        """Push a commit without a parent, so that the remote can discard all other files."""
        tree = {name: blob.id for name, blob in self._listing(place, keep).items()}
        if lost := [name for name in keep if name not in tree]:
            raise Unavailable(f"{lost[0]} is missing at {self.name}.", hint="Sync again to send it again.")
        for name, data in files.items():
            tree[name] = self._git("hash-object", "-w", "--stdin", given=data).decode().strip()
        lines = "".join(f"100644 blob {blob}\t{name}\n" for name, blob in sorted(tree.items()))
        made = self._git("mktree", given=lines.encode()).decode().strip()
        commit = self._git("commit-tree", made, "-m", "Treering bundles").decode().strip()
        self._reach("push", "receive-pack", "--no-verify", to=f"+{commit}:{_REFS}/{place}")
        self._git("update-ref", f"{_REFS}/{place}", commit)

    def forget(self) -> None:
        """Remove fetched objects."""
        shutil.rmtree(self._cache, ignore_errors=True)
        self._begin()

    def _begin(self) -> None:
        make_folder(self._cache)
        self._git("init", "--quiet", "--bare", "--template=", ".")

    def _listing(self, place: str, names: Sequence[str]) -> dict[str, "_Blob"]:
        """Return the files of a place that are blobs. Raises `Corrupt` for a ref that contains no files."""
        if not (wanted := [name for name in names if _FILE.fullmatch(name)]):
            return {}
        try:
            listed = self._git("ls-tree", "-z", "-l", f"{_REFS}/{place}", "--", *wanted).decode(errors="replace")
        except Unavailable as error:
            raise Corrupt(
                "its ref contains no files.", hint="Ask its author to sync again, or delete the ref."
            ) from error
        blobs: dict[str, _Blob] = {}
        for line in filter(None, listed.split("\0")):
            entry, _, name = line.partition("\t")
            _, kind, blob, size = entry.split()
            if name in wanted and kind == "blob":
                blobs[name] = _Blob(blob, int(size))
        return blobs

    def _git(self, *arguments: str, given: bytes = b"") -> bytes:
        """Run git on the fetched objects."""
        where = isolated_environment(GIT_DIR=str(self._cache), **_WHO)
        return self._run(arguments[0], arguments, where, given)

    def _reach(self, verb: str, serving: str, *options: str, to: str) -> None:
        """Fetch or push."""
        served_so = (f"--{serving}={served(serving)}",) if self._is_local else ()
        arguments = (*remote_options(local=self._is_local), verb, "--quiet", *options, *served_so, "--", self._url, to)
        self._run(verb, arguments, remote_environment(GIT_DIR=str(self._cache)))

    def _run(self, verb: str, arguments: Sequence[str], environment: dict[str, str], given: bytes = b"") -> bytes:
        done = run_git(arguments, environment, folder=self._cache, given=given, seconds=_SECONDS)
        if done.returncode:
            message = printable(b" ".join(done.stderr.split())).replace(self._url, self.name)
            raise Unavailable(
                f"git {verb} failed for {self.name}: {message[:500]}",
                hint="Check that `git ls-remote` reaches it and that you may push to it.",
            )
        return done.stdout
