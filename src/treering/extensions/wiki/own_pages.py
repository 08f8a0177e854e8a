"""Pages of a wiki that Treering wrote, met as files: they are passed over, for nothing is evidence of itself.

What a person changed in one is read: it becomes a source of its own, and a proposal of what it states, which waits for
review. Regions of a person are read as they are, and state nothing. Of a repository the pages in the work tree are
read, so that an edit need not be committed.
"""

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from treering.core.errors import TreeringError
from treering.core.evidence import Lines, find_lines
from treering.extensions.wiki.files.manifest import (
    INDEX,
    LOG,
    MANIFEST,
    PageText,
    WikiManifest,
    WrittenFile,
    read_manifest,
)
from treering.extensions.wiki.files.rendering import KnownFile, edited_blocks, is_edited
from treering.ports.adapter import FileAccess, KnowledgeDraft, OwnFiles, SegmentDraft, Skipped, SourceDraft
from treering.sources.reading.folder import read_bytes

PREFIX = "wiki-page:"
"""What the origin of a person's part of a page begins with; the origin of the page follows."""

_MOST_BYTES = 64 * 1024 * 1024
_LONGEST = 1_000
_TITLE_CHARS = 120
_PASSED_OVER = "a page written by Treering; only changes made by a person are read"
_SAYS = "is described as"


@dataclass(frozen=True, slots=True)
class WikiPages:
    """The pages of wikis below one root, by the path of each wiki's folder."""

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
        """Tell whether Treering wrote a file: it tells nothing of the repository."""
        return bool(self.wikis) and (is_manifest_of_wiki(path) or self._record(path) is not None)

    def cited_by(self, path: str) -> list[str]:
        """Return the paths of the files that a page rests on, each once."""
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
    """The wikis that files lie in, looked for in the folders above each."""

    access: FileAccess
    _found: dict[Path, WikiManifest | None] = field(default_factory=dict)

    def reading(self, data: bytes, *, place: Path, path: str, origin: str) -> SourceDraft | Skipped | None:
        """Read a file that may be a page; `path` is what it is cited by. Return `None` if it is not."""
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
            place = folder / MANIFEST
            here = self.access.holds(folder) and place.is_file() and not place.is_symlink()
            self._found[folder] = _manifest(read_bytes(place, _MOST_BYTES)) if here else None
        return self._found[folder]


def wiki_pages(manifests: Mapping[str, bytes]) -> WikiPages:
    """Return the pages that manifests tell of, each by its path; an unreadable one is left out."""
    read = {path.rpartition("/")[0]: _manifest(data) for path, data in manifests.items()}
    return WikiPages({folder: wiki for folder, wiki in read.items() if wiki is not None})


def wikis_on_disk(top: Path, folders: Iterable[str]) -> dict[str, WikiManifest]:
    """Return the wikis in some folders of a work tree and in those right below its top, each by its path from there."""
    below = (place.parent.name for place in sorted(top.glob(f"*/{MANIFEST}")))
    found: dict[str, WikiManifest] = {}
    for folder in dict.fromkeys([*folders, "", *below]):
        place = top / folder / MANIFEST
        lies = place.is_file() and not place.is_symlink() and place.resolve().is_relative_to(top.resolve())
        wiki = _manifest(read_bytes(place, _MOST_BYTES)) if lies else None
        if wiki is not None:
            found[folder] = wiki
    return found


def has_manual_changes(record: WrittenFile, page: Path) -> bool:
    """Tell whether a person changed a page that lies in a work tree, or wrote a region of their own into it."""
    lies = page.is_file() and not page.is_symlink()
    data = read_bytes(page, _MOST_BYTES) if lies else None
    return data is not None and isinstance(_reading(record, data, path=page.name, origin="", commit=None), SourceDraft)


def pages_on_disk(top: Path, manifests: Mapping[str, bytes], present: Container[str]) -> tuple[list[str], list[str]]:
    """Return which files of a commit are gone from a work tree, and which are to be read as they lie there.

    `manifests`: those of the commit, by path; `present`: the paths of its files. Of a wiki that is not committed only
    the pages are read in which a person wrote.
    """
    committed = wiki_pages(manifests).wikis
    gone: list[str] = []
    lying: list[str] = []
    for folder, wiki in wikis_on_disk(top, committed).items():
        before = committed[folder].files if folder in committed else {}
        # A page that is gone is no other file of the repository.
        gone += [_inside_of(folder, name) for name in before.keys() - wiki.files.keys()]
        pages = {_inside_of(folder, name): record for name, record in wiki.files.items()}
        told = [path for path, one in pages.items() if path in present or has_manual_changes(one, top / path)]
        lying += [*told, *([_inside_of(folder, MANIFEST)] if told else [])]
    return gone, lying


def _inside_of(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name


def is_manifest_of_wiki(path: str) -> bool:
    """Tell by its name whether a file is the manifest of a wiki."""
    return path.rpartition("/")[2] == MANIFEST


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
        said = passage if len(passage) <= _LONGEST else f"{passage[: _LONGEST - 1]}…"
        subject = f"{title} > {heading}" if heading and heading != title else title
        payload = {"subject": subject, "predicate": _SAYS, "object": said}
        name = f"{title}: {' '.join(passage.split())}"[:_TITLE_CHARS]
        yield KnowledgeDraft("fact", name, payload, number, summary=said)


def _inside(region: str) -> str:
    return "\n".join(region.split("\n")[1:-1]).strip("\n") or region


OWN_FILES = OwnFiles(is_manifest=is_manifest_of_wiki, below=wiki_pages, around=WikisOnDisk, as_they_lie=pages_on_disk)
"""How adapters recognize pages of wikis."""
