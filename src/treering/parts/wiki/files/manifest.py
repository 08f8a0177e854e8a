"""What was written into a folder: kept there, so that a person's edits are seen and gone pages are known."""

import json
import re
from collections.abc import Iterable, Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from treering.core.errors import Corrupt, InvalidInput
from treering.verbs.envelope import Value

# Which paths pages may have below the root of a wiki.


INDEX = "index.md"
LOG = "log.md"
RESERVED = frozenset({INDEX, LOG})
"""Files that every wiki has besides its pages."""

_LONGEST_NAME = 200  # bytes, below what file systems take
_LONGEST_PATH = 1_000
_NOT_IN_NAMES = re.compile(r'[\x00-\x1f\x7f-\x9f\\:*?"<>|#%\u2028\u2029\ud800-\udfff]')
_DEVICE = re.compile(r"(?:con|prn|aux|nul|com\d|lpt\d)(?:\..*)?", re.IGNORECASE)


def check_page_paths(paths: Iterable[str]) -> None:
    """Raise `InvalidInput` for a path that no page may have, and for two that a file system may take for one."""
    taken: dict[str, str] = {folded: folded for folded in RESERVED}
    for path in paths:
        if not is_page_path(path):
            raise InvalidInput(
                f"{path[:200]!r} cannot be the path of a wiki page.",
                hint="A path is relative, ends in .md, and has no '..', hidden or reserved names.",
            )
        if path.casefold() in taken:
            raise InvalidInput(
                f"Two pages would have the path {path!r}.",
                hint=f"Capitals make no difference; {' and '.join(sorted(RESERVED))} are made by the wiki itself.",
            )
        taken[path.casefold()] = path
    _refuse_page_as_folder(taken)


def is_page_path(path: str) -> bool:
    """Tell whether a path stays below its root on every file system, and names a Markdown file."""
    return path.endswith(".md") and len(path) <= _LONGEST_PATH and all(map(_is_name, path.split("/")))


def _is_name(name: str) -> bool:
    return (
        bool(name)
        and not name.startswith((".", " ", "-"))
        and not name.endswith((".", " "))
        and name != ".md"
        and not _NOT_IN_NAMES.search(name)
        and not _DEVICE.fullmatch(name)
        and len(name.encode()) <= _LONGEST_NAME
    )


def _refuse_page_as_folder(taken: Iterable[str]) -> None:
    pages = set(taken)
    for path in pages:
        parts = path.split("/")
        for end in range(1, len(parts)):
            above = "/".join(parts[:end])
            if above in pages:
                raise InvalidInput(
                    f"{above!r} would be a page and a folder of pages.", hint="Give one of them another name."
                )


MANIFEST = ".treering-wiki.json"

VERSION = 1
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


def _page_path(path: str) -> str:
    if not is_page_path(path):
        raise ValueError("this is not the path of a page")
    return path


_Path = Annotated[str, AfterValidator(_page_path)]


class WrittenCitation(Value):
    """Lines that a page rests on, as they stood when it was written."""

    path: str
    first: int
    last: int
    commit: str = ""
    digest: str = ""
    """Of their text; empty where it was not known."""

    def __str__(self) -> str:
        at = f" @ {self.commit[:12]}" if self.commit else ""
        return f"{self.path}#L{self.first}-L{self.last}{at}"


class WrittenFile(Value):
    """A file as Treering wrote it, before any region of a person."""

    digest: _Digest
    """Of its text."""
    blocks: tuple[_Digest, ...]
    """Of each of its blocks."""
    title: str = ""
    cited: tuple[WrittenCitation, ...] = ()
    unresolved: tuple[str, ...] = ()
    """Links of its body that lead nowhere; they were written as plain text."""


class WikiLogEntry(Value):
    """One time the wiki changed."""

    date: str = ""
    """Of the commit, as YYYY-MM-DD."""
    commit: str = ""
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class WikiManifest(Value):
    """All that was written into a folder."""

    version: Literal[1] = 1
    title: str = ""
    files: Mapping[_Path, WrittenFile] = Field(default={})
    log: tuple[WikiLogEntry, ...] = ()
    """Newest first."""


def manifest_text(manifest: WikiManifest) -> str:
    """Write a manifest as JSON, a line per file, so that it is read well in a comparison of versions."""
    files = [f"  {_json(path)}: {_json(_data(one))}" for path, one in sorted(manifest.files.items())]
    log = [f"  {_json(_data(entry))}" for entry in manifest.log]
    return (
        f'{{"version": {VERSION}, "title": {_json(manifest.title)},\n"files": {{\n'
        + ",\n".join(files)
        + '\n},\n"log": [\n'
        + ",\n".join(log)
        + "\n]}\n"
    )


def read_manifest(data: bytes, *, place: str) -> WikiManifest:
    """Read a manifest. Raises `InvalidInput` for one of a later version, `Corrupt` for what is not a manifest."""
    try:
        found = json.loads(data)
        if isinstance(found, Mapping) and isinstance(found.get("version"), int) and found["version"] > VERSION:
            raise InvalidInput(
                f"{place} was written by a later version of Treering (version {found['version']}).",
                hint="Upgrade Treering.",
            )
        return WikiManifest.model_validate(found)
    except (ValueError, RecursionError, ValidationError) as error:
        raise Corrupt(
            f"{place} cannot be read.",
            hint="Restore it, from version control for example. Without it all pages there count as a person's.",
        ) from error


def _data(value: Value) -> Any:
    return value.model_dump(mode="json", exclude_defaults=True)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)
