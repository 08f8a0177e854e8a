"""What Treering takes over from a repository's configuration. All else in it, which may name programs, is ignored."""

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from treering.core.errors import Unavailable
from treering.edges.sources.git_process import Settings, parse_settings, user_file, user_settings
from treering.edges.sources.names import printable, shown

ObjectFormat = Literal["sha1", "sha256"]

_TRUE = {"true", "yes", "on"}
_FALSE = {"false", "no", "off", ""}
# Keys that say how files are compared with what git stored, and the values they may have besides a boolean.
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
# Without a meaning for whoever reads what was committed.
_HARMLESS = {"noop", "noop-v1", "partialclone", "preciousobjects", "relativeworktrees", "worktreeconfig"}
_LATER = {"noop-v1", "objectformat", "refstorage", "relativeworktrees"}  # count from format version 1 on
_NUMBER = re.compile(r"[+-]?\d{1,9}")


@dataclass(frozen=True, slots=True)
class RepositoryConfig:
    """The part of a repository's configuration that is used. `worktree` is as it stands there."""

    object_format: ObjectFormat
    bare: bool
    worktree: bytes | None
    comparing: Mapping[str, str]
    remotes: tuple[tuple[bytes, bytes], ...]
    """Names and addresses of the remotes, in order."""
    partial: bool
    """Some objects may be only on a server."""


def parse_config(shared: bytes, own: bytes | None, *, linked: bool, where: Path) -> RepositoryConfig:
    """Read the configuration of a repository, and of one of its work trees where there is such a file.

    `linked`: the work tree is one of several, for which the shared file says nothing of bare and worktree.
    Raises `Unavailable` where it cannot be parsed, or asks for a format not known here.
    """
    settings = parse_settings(shared, where=shown(where))
    extensions = _extensions(settings, where)
    mine = parse_settings(own, where=f"{shown(where)}.worktree") if own and _is_on(extensions, "worktreeconfig") else []
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
    """Return what the user's own configuration says of comparing files, and their file of names to ignore."""
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
    """Return the extensions of the format. Raises `Unavailable` for one that is not known here."""
    named = dict(settings).get(b"core.repositoryformatversion") or b"0"
    if named not in (b"0", b"1"):
        raise _unknown(f"The repository's format has the version {printable(named)}", where)
    found = {
        printable(key).removeprefix("extensions."): value for key, value in settings if key.startswith(b"extensions.")
    }
    if named == b"0":  # the version in which most extensions have no meaning
        return {name: value for name, value in found.items() if name in _HARMLESS - _LATER}
    for name, value in found.items():
        files = name == "refstorage" and (value or b"").lower() == b"files"
        if name not in _HARMLESS | {"objectformat"} and not files:
            shown = printable(value or b"")
            raise _unknown(f"The repository's format has the extension {name} = {shown}", where)
    return found


def _object_format(extensions: Mapping[str, bytes | None], where: Path) -> ObjectFormat:
    named = (extensions.get("objectformat") or b"sha1").lower()
    if named == b"sha1":
        return "sha1"
    if named == b"sha256":
        return "sha256"
    raise _unknown(f"The repository's objects have the format {printable(named)}", where)


def _unknown(what: str, where: Path) -> Unavailable:
    return Unavailable(
        f"{what}, which Treering does not know ({shown(where)}).",
        hint="Read a clone of it that has the usual format: `git clone --ref-format=files --bare`.",
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
        f"{printable(key)} is {printable(value or b'')!r} in a git configuration; git takes true or false.",
        hint="Correct it there.",
    )


def _expanded(path: str) -> str:
    return str(Path(path).expanduser()) if path.startswith("~") else path
