"""The manifest in the folder of a wiki: the written files and their digests, to detect changed and deleted pages."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, ValidationError

from treering.core.errors import Corrupt, InvalidInput
from treering.extensions.wiki.files.page_path import is_page_path
from treering.verbs.envelope import Value

MANIFEST = ".treering-wiki.json"

VERSION = 1
_Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{16}$")]


def _page_path(path: str) -> str:
    if not is_page_path(path):
        raise ValueError("this is not the path of a page")
    return path


_Path = Annotated[str, AfterValidator(_page_path)]


class WrittenCitation(Value):
    """Lines cited by a page when it was written."""

    path: str
    first: int
    last: int
    commit: str = ""
    digest: str = ""
    """The digest of their text; "" if unknown."""

    def __str__(self) -> str:
        at = f" @ {self.commit[:12]}" if self.commit else ""
        return f"{self.path}#L{self.first}-L{self.last}{at}"


class WrittenFile(Value):
    """A file as Treering wrote it, without regions of a person."""

    digest: _Digest
    """The digest of the text."""
    blocks: tuple[_Digest, ...]
    """The digest of each block."""
    title: str = ""
    cited: tuple[WrittenCitation, ...] = ()
    unresolved: tuple[str, ...] = ()
    """Broken links of the body; they were written as plain text."""


class WikiLogEntry(Value):
    """One change of the wiki."""

    date: str = ""
    """The date of the commit, as YYYY-MM-DD."""
    commit: str = ""
    written: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()


class WikiManifest(Value):
    """All files written into a folder."""

    version: Literal[1] = 1
    title: str = ""
    files: Mapping[_Path, WrittenFile] = Field(default={})
    log: tuple[WikiLogEntry, ...] = ()
    """Newest first."""


def manifest_text(manifest: WikiManifest) -> str:
    """Write a manifest as JSON with one line per file, for readable diffs."""
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
    """Read a manifest. Raises `InvalidInput` if it has a later version, `Corrupt` if it is not a manifest."""
    try:
        value = json.loads(data)
        version = value.get("version") if isinstance(value, Mapping) else None
        if isinstance(version, int) and version > VERSION:
            raise InvalidInput(
                f"{place} was written by a later version of Treering (version {version}).", hint="Upgrade Treering."
            )
        return WikiManifest.model_validate(value)
    except (ValueError, RecursionError, ValidationError) as error:
        raise Corrupt(
            f"{place} cannot be read.",
            hint="Restore it, for example from version control. Without it, all pages there count "
            "as written by a person.",
        ) from error


def _data(value: Value) -> Any:
    return value.model_dump(mode="json", exclude_defaults=True)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True)
