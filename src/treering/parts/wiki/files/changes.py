"""What publishing changes in a folder: decided from what is to be there, what was written, and what lies there now."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from treering.parts.wiki.files.manifest import INDEX, LOG, WikiLogEntry, WikiManifest, WrittenFile, manifest_text
from treering.parts.wiki.files.regions import PageText, block_digests, blocks, merged, part, short_digest
from treering.parts.wiki.files.rendering import MOST_LOGGED, RenderedFile, render_log
from treering.parts.wiki.pages import PublishedWiki


@dataclass(frozen=True, slots=True)
class KnownFile:
    """A file that lies there; `None`: something else does, such as a link or a folder."""

    data: bytes | None

    @property
    def text(self) -> PageText | None:
        """Return its parts; `None` where it is not text."""
        try:
            return None if self.data is None else part(self.data.decode())
        except UnicodeDecodeError:
            return None


@dataclass(frozen=True, slots=True)
class FolderChanges:
    """What is to be done in a folder."""

    told: PublishedWiki
    texts: Mapping[str, str]
    """By path, the files to write."""
    manifest_text: str | None
    """`None` where nothing is to be done at all."""


@dataclass(frozen=True, slots=True)
class _Write:
    text: str


@dataclass(frozen=True, slots=True)
class _Stay:
    """It is there already."""


@dataclass(frozen=True, slots=True)
class _Keep:
    """A person's text is there: it is not touched."""


_Decision = _Write | _Stay | _Keep


def changes_for(
    title: str,
    rendered: Sequence[RenderedFile],
    manifest: WikiManifest,
    known: Mapping[str, KnownFile],
    *,
    commit: str = "",
    date: str = "",
) -> FolderChanges:
    """Return what makes a folder hold the rendered files and no other written ones, without touching what is yours."""
    records = dict(manifest.files)
    decided = {one.path: _decided(one, records.get(one.path), known.get(one.path)) for one in rendered}
    gone = {path: _departs(record, known.get(path)) for path, record in records.items() if path not in decided}
    gone.pop(LOG, None)
    written = tuple(sorted(path for path, what in decided.items() if isinstance(what, _Write)))
    removed = tuple(sorted(path for path, leaves in gone.items() if leaves and path in known))
    entries = _log(manifest, [path for path in written if path != INDEX], removed, commit, date)
    log = render_log(title, entries, {one.path: one.title for one in rendered})
    decided[LOG] = _decided(log, records.get(LOG), known.get(LOG))
    files = dict(_records([*rendered, log], decided, records))
    files |= {path: records[path] for path, leaves in gone.items() if not leaves}
    now = manifest_text(WikiManifest(title=title, files=files, log=entries))
    texts = {path: what.text for path, what in decided.items() if isinstance(what, _Write)}
    idle = not texts and not removed and now == manifest_text(manifest)
    told = PublishedWiki(
        written=tuple(sorted(texts)),
        unchanged=tuple(sorted(path for path, what in decided.items() if isinstance(what, _Stay))),
        removed=removed,
        conflicts=tuple(sorted([*_kept(decided), *(path for path, leaves in gone.items() if not leaves)])),
    )
    return FolderChanges(told, texts, None if idle else now)


def is_edited(record: WrittenFile, text: PageText | None) -> bool:
    """Tell whether a person changed what was written, outside of regions of their own."""
    return text is None or text.open_region or block_digests(text.written) != record.blocks


def edited_blocks(record: WrittenFile, text: PageText) -> list[tuple[str, str]]:
    """Return the blocks of a page that Treering did not write, each with the heading above it, in their order."""
    left = list(record.blocks)
    edited, heading = list[tuple[str, str]](), ""
    for block in blocks(text.written):
        first = block.split("\n", 1)[0]
        heading = first.lstrip("# ").strip() if first.startswith("#") else heading
        digest = short_digest(block)
        if digest in left:
            left.remove(digest)
        elif not block.startswith("---\n"):  # front matter states nothing
            edited.append((heading, block))
    return edited


def _decided(new: RenderedFile, record: WrittenFile | None, known: KnownFile | None) -> _Decision:
    if known is None:
        return _Write(new.text)
    text = known.text
    if text is None or text.open_region:
        return _Keep()
    there = block_digests(text.written)
    if there == block_digests(new.text):
        moved = record is not None and record.blocks == there and record.digest != short_digest(new.text)
        return _Write(merged(new.text, text)) if moved else _Stay()
    return _Write(merged(new.text, text)) if record is not None and record.blocks == there else _Keep()


def _departs(record: WrittenFile, known: KnownFile | None) -> bool:
    """Tell whether a page that is no more can go: there is nothing of a person in it."""
    if known is None:
        return True
    text = known.text
    return text is not None and not is_edited(record, text) and not text.regions and not text.entries


def _records(
    rendered: Sequence[RenderedFile], decided: Mapping[str, _Decision], before: Mapping[str, WrittenFile]
) -> Iterator[tuple[str, WrittenFile]]:
    for one in rendered:
        if not isinstance(decided[one.path], _Keep):
            yield one.path, one.record()
        elif one.path in before:
            yield one.path, before[one.path]


def _kept(decided: Mapping[str, _Decision]) -> list[str]:
    return [path for path, what in decided.items() if isinstance(what, _Keep)]


def _log(
    manifest: WikiManifest, written: Sequence[str], removed: Sequence[str], commit: str, date: str
) -> tuple[WikiLogEntry, ...]:
    if not written and not removed:
        return manifest.log
    entry = WikiLogEntry(date=date, commit=commit, written=tuple(written), removed=tuple(removed))
    return (entry, *manifest.log)[:MOST_LOGGED]
