"""The changes that publishing makes in a folder, from the rendered, written and current files."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from treering.extensions.wiki.files.manifest import WikiLogEntry, WikiManifest, WrittenFile, manifest_text
from treering.extensions.wiki.files.page_path import INDEX, LOG
from treering.extensions.wiki.files.regions import (
    PageText,
    block_digests,
    blocks,
    merged,
    part,
    short_digest,
)
from treering.extensions.wiki.files.rendering import MOST_LOGGED, RenderedFile, render_log
from treering.extensions.wiki.pages import PublishedWiki


@dataclass(frozen=True, slots=True)
class KnownFile:
    """An existing file; `None` for something else, such as a symbolic link or a folder."""

    data: bytes | None

    @property
    def text(self) -> PageText | None:
        """Its split text, or `None` if it is not text."""
        try:
            return None if self.data is None else part(self.data.decode())
        except UnicodeDecodeError:
            return None


@dataclass(frozen=True, slots=True)
class FolderChanges:
    """The changes to make in a folder."""

    published: PublishedWiki
    texts: Mapping[str, str]
    """The files to write, by path."""
    manifest_text: str | None
    """`None` if there is nothing to do."""


@dataclass(frozen=True, slots=True)
class _Decision:
    """The outcome for a file: its new text is written, it is up to date, or it contains a person's text."""

    outcome: Literal["written", "unchanged", "conflict"]
    text: str = ""


def changes_for(
    title: str,
    rendered: Sequence[RenderedFile],
    manifest: WikiManifest,
    known: Mapping[str, KnownFile],
    *,
    commit: str = "",
    date: str = "",
) -> FolderChanges:
    """Return the changes that replace all written files with the rendered ones, without changing a person's text."""
    records = dict(manifest.files)
    decisions = {one.path: _decide(one, records.get(one.path), known.get(one.path)) for one in rendered}
    obsolete = {path: _removable(record, known.get(path)) for path, record in records.items() if path not in decisions}
    obsolete.pop(LOG, None)
    written = [path for path in _paths(decisions, "written") if path != INDEX]
    removed = tuple(sorted(path for path, removable in obsolete.items() if removable and path in known))
    entries = _log(manifest, written, removed, commit, date)
    log = render_log(title, entries, {one.path: one.title for one in rendered})
    decisions[LOG] = _decide(log, records.get(LOG), known.get(LOG))
    files = dict(_records([*rendered, log], decisions, records))
    edited = [path for path, removable in obsolete.items() if not removable]
    files |= {path: records[path] for path in edited}
    now = manifest_text(WikiManifest(title=title, files=files, log=entries))
    texts = {path: decisions[path].text for path in _paths(decisions, "written")}
    idle = not texts and not removed and now == manifest_text(manifest)
    published = PublishedWiki(
        written=tuple(sorted(texts)),
        unchanged=tuple(_paths(decisions, "unchanged")),
        removed=removed,
        conflicts=tuple(sorted([*_paths(decisions, "conflict"), *edited])),
    )
    return FolderChanges(published, texts, None if idle else now)


def _paths(decisions: Mapping[str, _Decision], outcome: str) -> list[str]:
    return sorted(path for path, decision in decisions.items() if decision.outcome == outcome)


def is_edited(record: WrittenFile, text: PageText | None) -> bool:
    """Return whether a person changed a written file outside of marked regions."""
    return text is None or text.open_region or block_digests(text.written) != record.blocks


def edited_blocks(record: WrittenFile, text: PageText) -> list[tuple[str, str]]:
    """Return the blocks of a page that Treering did not write, each with the heading above it."""
    left = list(record.blocks)
    edited, heading = list[tuple[str, str]](), ""
    for block in blocks(text.written):
        first = block.split("\n", 1)[0]
        heading = first.lstrip("# ").strip() if first.startswith("#") else heading
        digest = short_digest(block)
        if digest in left:
            left.remove(digest)
        elif not block.startswith("---\n"):  # the front matter
            edited.append((heading, block))
    return edited


def _decide(new: RenderedFile, record: WrittenFile | None, known: KnownFile | None) -> _Decision:
    if known is None:
        return _Decision("written", new.text)
    text = known.text
    if text is None or text.open_region:
        return _Decision("conflict")
    current = block_digests(text.written)
    is_same = current == block_digests(new.text)
    if record is None or record.blocks != current:
        return _Decision("unchanged" if is_same else "conflict")
    if is_same and record.digest == short_digest(new.text):
        return _Decision("unchanged")
    return _Decision("written", merged(new.text, text))


def _removable(record: WrittenFile, known: KnownFile | None) -> bool:
    """Return whether an obsolete page contains nothing from a person."""
    if known is None:
        return True
    text = known.text
    return text is not None and not is_edited(record, text) and not text.regions and not text.entries


def _records(
    rendered: Sequence[RenderedFile], decisions: Mapping[str, _Decision], before: Mapping[str, WrittenFile]
) -> Iterator[tuple[str, WrittenFile]]:
    for one in rendered:
        if decisions[one.path].outcome != "conflict":
            yield one.path, one.record()
        elif one.path in before:
            yield one.path, before[one.path]


def _log(
    manifest: WikiManifest, written: Sequence[str], removed: Sequence[str], commit: str, date: str
) -> tuple[WikiLogEntry, ...]:
    if not written and not removed:
        return manifest.log
    entry = WikiLogEntry(date=date, commit=commit, written=tuple(written), removed=tuple(removed))
    return (entry, *manifest.log)[:MOST_LOGGED]
