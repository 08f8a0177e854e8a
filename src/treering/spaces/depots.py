"""Where bundles lie: under refs of a git remote, or in a shared folder."""

import io
import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Protocol

from treering.core.characters import printable
from treering.core.errors import Corrupt, InvalidInput, NotFound, Unavailable
from treering.sources.reading.folder import read_bytes, reason
from treering.sources.repository.git import open_repository
from treering.sources.repository.git_process import git_command, git_environment, run_git
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


class Depot(Protocol):
    """Where each copy has a place of its own, with files in it."""

    @property
    def name(self) -> str:
        """What people call it."""
        ...

    def places(self) -> Sequence[str]:
        """Return the names of the places that are there, as they are now."""
        ...

    def read(self, place: str, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return those of the files that are there.

        Raises `Corrupt` for a place or a file that is not what a copy leaves, or is larger; others can still be read.
        """
        ...

    def manifests(self, places: Sequence[str]) -> Mapping[str, bytes]:
        """Return the manifests of those places that cost less to read together; `read` reads the others."""
        ...

    def send(self, place: str, files: Files, *, keep: Sequence[str]) -> None:
        """Put files into a place. Of those that are there only `keep` stay. All at once, or nothing.

        Raises `Unavailable` where the remote cannot be reached, or does not have a file to keep any more.
        """
        ...

    def forget(self) -> None:
        """Remove what was brought from there to this machine."""
        ...


def depot_at(remote: str, cache: Path, *, folder: Path) -> Depot:
    """Return the depot that a remote names: a remote of the repository in `folder`, a URL, a repository, a folder.

    Raises `InvalidInput` where it is none of them.
    """
    if path := _path(remote):
        is_git = (path / ".git").exists() or ((path / "HEAD").is_file() and (path / "objects").is_dir())
        return GitDepot(str(path), cache) if is_git else FolderDepot(path)
    if remote and _URL.match(remote):
        return GitDepot(remote, cache)
    url = _url_of(remote or "origin", folder)
    return GitDepot(url if _URL.match(url) or Path(url).is_absolute() else str((folder / url).resolve()), cache)


def sync_place(remote: str, *, folder: Path) -> tuple[str, bool]:
    """Return a remote as hooks of the repository in `folder` may name it, and whether it is a place and no name.

    Raises `InvalidInput` for an address, which may hold a password, and for what is no remote.
    """
    if path := _path(remote):
        return str(path), True
    if _URL.match(remote):
        raise InvalidInput(
            "The address of a remote may hold a password, and a hook can be read by others.",
            hint="Give it a name: git remote add memory ADDRESS.",
        )
    _url_of(remote, folder)
    return remote, False


def _path(remote: str) -> Path | None:
    path = Path(remote).expanduser() if remote else None
    if path and (path.is_absolute() or remote.startswith(".") or path.is_dir()):
        return path.absolute()
    return None


def _url_of(name: str, folder: Path) -> str:
    config = open_repository(folder).common / "config"
    command = git_command("config", "--file", str(config), "--get", f"remote.{name}.url")
    done = run_git(command, git_environment(), folder=folder)
    url = done.stdout.decode(errors="replace").strip()
    if done.returncode or not url:
        raise InvalidInput(
            f"This repository has no remote {name!r}.", hint="Name a remote, its address, or a shared folder."
        )
    return url


class FolderDepot:
    """A folder that others reach too: a share, or one that is kept alike on several machines."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @property
    def name(self) -> str:
        """What people call it."""
        return str(self._folder)

    def places(self) -> Sequence[str]:
        """Return the names of the places that are there."""
        if not self._folder.is_dir():
            if not self._folder.parent.is_dir():
                raise NotFound(f"There is no folder {self._folder}.", hint="Make it, or name another one.")
            return []
        try:
            listed = [one.name for one in islice(self._folder.iterdir(), MAX_LISTED_PLACES)]
        except OSError as error:
            raise Unavailable(f"{self._folder} cannot be read: {reason(error)}.", hint="Look at its rights.") from error
        return sorted(name for name in listed if _PLACE.fullmatch(name))

    def read(self, place: str, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return those of the files that are there."""
        _check_folder(self._folder / place)
        found = {name: _read_file(self._folder / place / name) for name in names if _FILE.fullmatch(name)}
        return {name: data for name, data in found.items() if data is not None}

    def manifests(self, places: Sequence[str]) -> Mapping[str, bytes]:  # noqa: ARG002 - what a depot is asked
        """Return nothing: each file is read by itself."""
        return {}

    def send(self, place: str, files: Files, *, keep: Sequence[str]) -> None:
        """Put bundles first, then the manifest; what it does not name any more goes last."""
        folder = self._folder / place
        if folder.is_symlink():
            raise Unavailable(f"{folder} is a link.", hint="Remove it: it leads out of the shared folder.")
        try:
            make_folder(folder)
            for name in (name for name in files if (folder / name).is_symlink()):
                (folder / name).unlink()  # what it leads to is somebody's file, and not replaced
            for name in sorted(files, key=lambda one: (not one.endswith(".bundle"), one)):
                replace_file(folder / name, files[name])
            for old in folder.iterdir():
                if _FILE.fullmatch(old.name) and old.name not in (*keep, *files):
                    old.unlink()
        except OSError as error:
            raise Unavailable(f"{folder} cannot be written: {error.strerror}.", hint="Look at its rights.") from error

    def forget(self) -> None:
        """Do nothing: nothing was copied."""


def _check_folder(folder: Path) -> None:
    if folder.is_symlink() or not folder.is_dir():
        raise Corrupt("it is a link or no folder.", hint="Remove it from the shared folder.")


def _read_file(file: Path) -> bytes | None:
    most = _limit(file.name)
    try:
        data = read_bytes(file, most)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Corrupt(f"{file.name} cannot be read: {reason(error)}.", hint="Look at its rights.") from error
    if data is None or len(data) > most:
        raise _not_a_file(file.name)
    return data


def _limit(name: str) -> int:
    return MAX_MANIFEST_BYTES if name == MANIFEST else MAX_BUNDLE_BYTES


def _not_a_file(name: str) -> Corrupt:
    return Corrupt(f"{name} is no file, or has more than {_limit(name):,} bytes.", hint="Let its author sync again.")


@dataclass(frozen=True, slots=True)
class _Blob:
    id: str
    size: int


class GitDepot:
    """A git remote. A bare repository beside the space holds what was fetched; the person's own one is not touched.

    git runs with the person's settings, for it has to reach the remote as they do, but with none of the repository's.
    """

    def __init__(self, url: str, cache: Path) -> None:
        self._url = url
        self._cache = cache

    @property
    def name(self) -> str:
        """The address without what may be a password."""
        return re.sub(r"//[^/@]*@", "//", self._url)

    def places(self) -> Sequence[str]:
        """Fetch, and return the names of the places that are there."""
        if not (self._cache / "HEAD").is_file():
            make_folder(self._cache)
            self._git("init", "--quiet", "--bare", ".")
        self._git("fetch", "--quiet", "--no-tags", "--prune", "--", self._url, f"+{_REFS}/*:{_REFS}/*")
        listed = self._git("for-each-ref", f"--count={MAX_LISTED_PLACES}", "--format=%(refname)", _REFS)
        names = (ref.removeprefix(f"{_REFS}/") for ref in listed.decode(errors="replace").splitlines())
        return [name for name in names if _PLACE.fullmatch(name)]

    def read(self, place: str, names: Sequence[str]) -> Mapping[str, bytes]:
        """Return those of the files that are there."""
        there = self._listing(place, names)
        if wrong := next((name for name, blob in there.items() if blob.size > _limit(name)), None):
            raise _not_a_file(wrong)
        return {name: self._git("cat-file", "blob", blob.id) for name, blob in there.items()}

    def manifests(self, places: Sequence[str]) -> Mapping[str, bytes]:
        """Return manifests with two runs of git, however many places there are."""
        asked = [f"{_REFS}/{place}:{MANIFEST}\n".encode() for place in places]
        told = self._git("cat-file", "--batch-check=%(objecttype) %(objectsize)", given=b"".join(asked))
        fitting: dict[str, bytes] = {}
        left = MAX_MANIFESTS_BYTES
        for place, line, told_of in zip(places, asked, told.splitlines(), strict=True):
            kind, _, size = told_of.partition(b" ")
            if kind == b"blob" and int(size) <= min(left, MAX_MANIFEST_BYTES):
                fitting[place] = line
                left -= int(size)
        data = io.BytesIO(self._git("cat-file", "--batch=%(objectsize)", given=b"".join(fitting.values())))
        found: dict[str, bytes] = {}
        for place in fitting:
            found[place] = data.read(int(data.readline()))
            data.readline()
        return found

    def send(self, place: str, files: Files, *, keep: Sequence[str]) -> None:
        """Push a commit without a parent: what is not in it is not at the remote any more, once that is cleaned."""
        tree = {name: blob.id for name, blob in self._listing(place, keep).items()}
        if lost := [name for name in keep if name not in tree]:
            raise Unavailable(f"{lost[0]} was lost at {self.name}.", hint="Sync again: it is sent again then.")
        for name, data in files.items():
            tree[name] = self._git("hash-object", "-w", "--stdin", given=data).decode().strip()
        lines = "".join(f"100644 blob {blob}\t{name}\n" for name, blob in sorted(tree.items()))
        made = self._git("mktree", given=lines.encode()).decode().strip()
        commit = self._git("commit-tree", made, "-m", "Treering bundles").decode().strip()
        self._git("push", "--quiet", "--no-verify", "--", self._url, f"+{commit}:{_REFS}/{place}")
        self._git("update-ref", f"{_REFS}/{place}", commit)

    def forget(self) -> None:
        """Remove what was fetched."""
        shutil.rmtree(self._cache, ignore_errors=True)
        make_folder(self._cache)
        self._git("init", "--quiet", "--bare", ".")

    def _listing(self, place: str, names: Sequence[str]) -> dict[str, "_Blob"]:
        """Return those of the files that are blobs of a place. Raises `Corrupt` for a ref that holds no files."""
        if not (wanted := [name for name in names if _FILE.fullmatch(name)]):
            return {}
        try:
            listed = self._git("ls-tree", "-z", "-l", f"{_REFS}/{place}", "--", *wanted).decode(errors="replace")
        except Unavailable as error:
            raise Corrupt("its ref holds no files.", hint="Let its author sync again, or delete the ref.") from error
        found: dict[str, _Blob] = {}
        for line in filter(None, listed.split("\0")):
            told, _, name = line.partition("\t")
            _, kind, blob, size = told.split()
            if name in wanted and kind == "blob":
                found[name] = _Blob(blob, int(size))
        return found

    def _git(self, *arguments: str, given: bytes = b"") -> bytes:
        inherited = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
        kept = {name: os.environ[name] for name in ("GIT_SSH", "GIT_SSH_COMMAND", "GIT_ASKPASS") if name in os.environ}
        environment = {**inherited, **kept, **_WHO, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C", "GIT_DIR": "."}
        options = ("-c", "core.hooksPath=/dev/null", "-c", "gc.auto=0", "-c", "maintenance.auto=false")
        try:
            done = subprocess.run(  # noqa: S603 - no shell; the words are ours, and an address behind `--`
                git_command(*options, *arguments),
                cwd=self._cache,
                env=environment,
                input=given,
                capture_output=True,
                timeout=_SECONDS,
            )
        except subprocess.TimeoutExpired as error:
            raise Unavailable(f"{self.name} does not answer.", hint="Try again later.") from error
        if done.returncode:
            said = printable(done.stderr.strip()).replace(self._url, self.name)
            raise Unavailable(
                f"git {arguments[0]} failed for {self.name}: {said[:500]}",
                hint="Check that `git ls-remote` reaches it, and that you may push there.",
            )
        return done.stdout
