"""Skip pages that Treering wrote when a repository or folder is read: generated text is no evidence.

Text that a person changed in a page is read as a separate source, with a proposed statement for review. Regions marked
as written by a person are read without a statement. Pages are read from the work tree, committed or not.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from treering.core.errors import TreeringError
from treering.core.evidence import Lines, find_lines
from treering.extensions.wiki.files.changes import KnownFile, edited_blocks, is_edited
from treering.extensions.wiki.files.manifest import MANIFEST, WikiManifest, WrittenFile, read_manifest
from treering.extensions.wiki.files.page_path import INDEX, LOG
from treering.extensions.wiki.files.regions import PageText
from treering.ports.adapter import FileAccess, KnowledgeDraft, OwnFiles, SegmentDraft, Skipped, SourceDraft
from treering.sources.reading.folder import read_bytes

PREFIX = "wiki-page:"
"""The prefix of the origin of a person's text in a page; the origin of the page follows."""

_MOST_BYTES = 64 * 1024 * 1024
_LONGEST = 1_000
_TITLE_CHARS = 120
_PASSED_OVER = "a page written by Treering; only changes made by a person are read"
DESCRIBED = "is described as"
"""The predicate of the statements of edited pages."""


@dataclass(frozen=True, slots=True)
class WikiPages:
    """The wikis below one root, by the path of their folder."""

    wikis: Mapping[str, WikiManifest]

    def reading(
        self, data: bytes, *, path: str, origin: str, commit: str | None = None
    ) -> SourceDraft | Skipped | None:
        """Read a file that may be a page; return `None` if it is not."""
        if is_manifest_of_wiki(path):
            return Skipped(origin, "a list of the pages written by Treering")
        record = self._record(path)
        return _reading(record, data, path=path, origin=origin, commit=commit) if record else None

    def wrote(self, path: str) -> bool:
        """Return whether Treering wrote a file."""
        return bool(self.wikis) and (is_manifest_of_wiki(path) or self._record(path) is not None)

    def cited_by(self, path: str) -> list[str]:
        """Return the paths of the files that a page cites, each once."""
        record = self._record(path)
        return list(dict.fromkeys(one.path for one in record.cited)) if record else []

    def _record(self, path: str) -> WrittenFile | None:
        parts = path.split("/")
        for end in range(len(parts)):
            wiki = self.wikis.get("/".join(parts[:end]))
            if wiki is not None:
                return wiki.files.get("/".join(parts[end:]))
        return None


@dataclass(frozen=True, slots=True)
class WikisOnDisk:
    """The wikis that contain given files, found in the folders above them."""

    access: FileAccess
    _found: dict[Path, WikiManifest | None] = field(default_factory=dict)

    def reading(self, data: bytes, *, place: Path, path: str, origin: str) -> SourceDraft | Skipped | None:
        """Read a file that may be a page, or return `None` if it is not. `path`: its path in citations."""
        if is_manifest_of_wiki(place.name):
            return Skipped(origin, "a list of the pages written by Treering")
        if place.suffix != ".md":
            return None
        for folder in place.parents:
            wiki = self._wiki(folder)
            if wiki is not None:
                record = wiki.files.get(place.relative_to(folder).as_posix())
                return _reading(record, data, path=path, origin=origin, commit=None) if record else None
        return None

    def _wiki(self, folder: Path) -> WikiManifest | None:
        if folder not in self._found:
            self._found[folder] = _wiki_in(folder) if self.access.holds(folder) else None
        return self._found[folder]


def wiki_pages(manifests: Mapping[str, bytes]) -> WikiPages:
    """Return the wikis with these manifests (by path); unreadable ones are omitted."""
    wikis = {path.rpartition("/")[0]: _manifest(data) for path, data in manifests.items()}
    return WikiPages({folder: wiki for folder, wiki in wikis.items() if wiki is not None})


def wikis_on_disk(top: Path, folders: Iterable[str]) -> dict[str, WikiManifest]:
    """Return the wikis in some folders of a work tree and directly below its top, by path."""
    below = (place.parent.name for place in sorted(top.glob(f"*/{MANIFEST}")))
    wikis: dict[str, WikiManifest] = {}
    for folder in dict.fromkeys([*folders, "", *below]):
        is_inside = (top / folder).resolve().is_relative_to(top.resolve())
        if is_inside and (wiki := _wiki_in(top / folder)):
            wikis[folder] = wiki
    return wikis


def has_manual_changes(record: WrittenFile, page: Path) -> bool:
    """Return whether a person changed a page of a work tree, or wrote a region into it."""
    data = _regular_file(page)
    return data is not None and isinstance(_reading(record, data, path=page.name, origin="", commit=None), SourceDraft)


def edit_fingerprint(record: WrittenFile, known: KnownFile) -> str:
    """Return the fingerprint of the source of a person's text in a page, or "" without such text."""
    draft = _reading(record, known.data or b"", path=record.title, origin="", commit=None)
    return draft.fingerprint if isinstance(draft, SourceDraft) else ""


def pages_on_disk(top: Path, manifests: Mapping[str, bytes], present: Container[str]) -> tuple[list[str], list[str]]:
    """Return the files of a commit that are gone from a work tree, and the files to read from the work tree.

    `manifests`: the manifests of the commit by path. `present`: the paths of its files. Of an uncommitted wiki, only
    pages changed by a person are read.
    """
    committed = wiki_pages(manifests).wikis
    gone: list[str] = []
    current: list[str] = []
    for folder, wiki in wikis_on_disk(top, committed).items():
        before = committed[folder].files if folder in committed else {}
        gone += [_inside_of(folder, name) for name in before.keys() - wiki.files.keys()]
        pages = {_inside_of(folder, name): record for name, record in wiki.files.items()}
        to_read = [path for path, one in pages.items() if path in present or has_manual_changes(one, top / path)]
        current += [*to_read, *([_inside_of(folder, MANIFEST)] if to_read else [])]
    return gone, current


def _inside_of(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def is_manifest_of_wiki(path: str) -> bool:
    """Return whether a file has the name of a wiki's manifest."""
    return path.rpartition("/")[2] == MANIFEST


def _wiki_in(folder: Path) -> WikiManifest | None:
    return _manifest(_regular_file(folder / MANIFEST))


def _regular_file(place: Path) -> bytes | None:
    return read_bytes(place, _MOST_BYTES) if place.is_file() and not place.is_symlink() else None


def _manifest(data: bytes | None) -> WikiManifest | None:
    try:
        return read_manifest(data or b"", place=MANIFEST)
    except TreeringError:  # without a readable manifest its pages are treated as ordinary files
        return None


def _reading(
    record: WrittenFile, data: bytes, *, path: str, origin: str, commit: str | None
) -> SourceDraft | Skipped | None:
    text = KnownFile(data).text
    if text is None or path.rpartition("/")[2] in (INDEX, LOG):
        return Skipped(origin, _PASSED_OVER)
    if text.open_region:
        return Skipped(origin, "a page whose region for a person lacks its start or its end")
    edits = edited_blocks(record, text) if is_edited(record, text) else []
    if not edits and not text.regions:
        removed = "; deleted passages state nothing" if is_edited(record, text) else ""
        return Skipped(origin, _PASSED_OVER + removed)
    return _draft(record.title or path, edits, text, data.decode(), path=path, origin=origin, commit=commit)


def _draft(
    title: str,
    edits: list[tuple[str, str]],
    text: PageText,
    whole: str,
    *,
    path: str,
    origin: str,
    commit: str | None,
) -> SourceDraft:
    headed = [*edits, *((one.heading.lstrip("# "), _inside(one.text)) for one in text.regions)]
    lines = whole.removeprefix("\ufeff").replace("\r\n", "\n")
    segments = tuple(_segment(heading, passage, lines, path, commit) for heading, passage in headed)
    return SourceDraft(
        kind="markdown",
        origin=f"{PREFIX}{origin}",
        title=f"{title}: what a person wrote",
        fingerprint=sha256("\0".join(passage for _, passage in headed).encode()).hexdigest(),
        content_type="markdown",
        segments=segments,
        knowledge=tuple(_statements(title, edits)),
        awaits_review=bool(edits),
    )


def _segment(heading: str, passage: str, lines: str, path: str, commit: str | None) -> SegmentDraft:
    first, last = find_lines(passage, lines) or (1, max(1, len(lines.splitlines())))
    return SegmentDraft(Lines(path=path, start=first, end=last, commit=commit, heading=heading), passage, heading)


def _statements(title: str, edits: list[tuple[str, str]]) -> Iterator[KnowledgeDraft]:
    for number, (heading, passage) in enumerate(edits):
        statement = passage if len(passage) <= _LONGEST else f"{passage[: _LONGEST - 1]}…"
        subject = f"{title} > {heading}" if heading and heading != title else title
        payload = {"subject": subject, "predicate": DESCRIBED, "object": statement}
        name = f"{title}: {' '.join(passage.split())}"[:_TITLE_CHARS]
        yield KnowledgeDraft("fact", name, payload, number, summary=statement)


def _inside(region: str) -> str:
    return "\n".join(region.split("\n")[1:-1]).strip("\n") or region


OWN_FILES = OwnFiles(is_manifest=is_manifest_of_wiki, below=wiki_pages, around=WikisOnDisk, as_they_lie=pages_on_disk)
"""How adapters recognize pages of wikis."""
