"""Pages as Markdown files in the manner of the Open Knowledge Format, and what writing them changes in a folder."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from treering.core.characters import well_formed
from treering.extensions.wiki.files.links import (
    Address,
    BodyLink,
    HeadingAnchor,
    SourceAddresses,
    body_links,
    escaped,
    heading_anchors,
    quoted_path,
    relative_path,
    with_addresses,
)
from treering.extensions.wiki.files.manifest import (
    INDEX,
    LOG,
    MatterField,
    PageText,
    WikiLogEntry,
    WikiManifest,
    WrittenCitation,
    WrittenFile,
    block_digests,
    blocks,
    check_page_paths,
    front_matter,
    manifest_text,
    merged,
    part,
    short_digest,
    without_markers,
)
from treering.extensions.wiki.pages import LineCitation, PageKind, PublishedWiki, WikiPage, WikiPlan

CitedText = Callable[[LineCitation], str]
"""Returns the text of lines; empty where it is not known."""

MOST_LOGGED = 100
"""Entries kept in the log."""

_MOST_NAMED = 20
_MOST_SOURCES = 200
_SECTIONS: Mapping[PageKind, str] = {
    PageKind.OVERVIEW: "Overview",
    PageKind.ARCHITECTURE: "Architecture",
    PageKind.MODULE: "Modules",
    PageKind.DOCUMENT: "Documents",
    PageKind.HOWTO: "How to",
    PageKind.REFERENCE: "Reference",
    PageKind.DECISIONS: "Decisions and constraints",
    PageKind.CHANGES: "Changes",
}


@dataclass(frozen=True, slots=True)
class RenderedFile:
    """A file of a wiki, and what the manifest keeps of it."""

    path: str
    text: str
    title: str = ""
    cited: tuple[WrittenCitation, ...] = ()
    unresolved: tuple[str, ...] = ()

    def record(self) -> WrittenFile:
        """Return what the manifest keeps of it."""
        return WrittenFile(
            digest=short_digest(self.text),
            blocks=block_digests(self.text),
            title=self.title,
            cited=self.cited,
            unresolved=self.unresolved,
        )


def render_pages(
    plan: WikiPlan, pages: Sequence[WikiPage], *, addresses: SourceAddresses, cited_text: CitedText
) -> list[RenderedFile]:
    """Render the pages and the index. Raises `InvalidInput` for paths that pages cannot have."""
    check_page_paths(page.plan.path for page in pages)
    pages = [replace(page, body=_clean(page.body)) for page in pages]
    anchors = {page.plan.path: list(heading_anchors(page.body)) for page in pages}
    wanted = _wanted_anchors(pages, anchors)
    rendered = [_page(page, anchors, wanted[page.plan.path], addresses, cited_text) for page in pages]
    return [*rendered, RenderedFile(INDEX, _index(plan, pages), plan.title)]


def render_log(title: str, entries: Sequence[WikiLogEntry], titles: Mapping[str, str]) -> RenderedFile:
    """Render the log of a wiki, newest first. `titles` of the pages that are there now."""
    parts = [front_matter({"type": "log", "title": f"{title}: log"}), f"# {escaped(title)}: log\n"]
    for entry in entries:
        commit = f"commit `{entry.commit[:12]}`" if entry.commit else "no commit"
        parts.append(f"## {', '.join(filter(None, [entry.date, commit]))}\n")
        told = [
            _listed(what, paths, titles) for what, paths in (("Written", entry.written), ("Removed", entry.removed))
        ]
        parts.append("\n".join(filter(None, told)) + "\n")
    return RenderedFile(LOG, "\n".join(parts), f"{title}: log")


def _page(
    page: WikiPage,
    anchors: Mapping[str, Sequence[HeadingAnchor]],
    wanted: Mapping[int, str],
    addresses: SourceAddresses,
    cited_text: CitedText,
) -> RenderedFile:
    path, unresolved = page.plan.path, list[str]()
    address = _address_of(page, anchors, addresses, unresolved)
    body = with_addresses(_with_anchors(without_markers(page.body), wanted), address)
    cited = tuple(_cited(one, cited_text) for one in dict.fromkeys(page.citations))
    head = front_matter(_fields(page, cited, resolved=not unresolved))
    text = f"{head}\n{body.strip()}\n"
    return RenderedFile(path, text, page.plan.title, cited, tuple(dict.fromkeys(unresolved)))


def _fields(page: WikiPage, cited: Sequence[WrittenCitation], *, resolved: bool) -> Mapping[str, MatterField]:
    plan = page.plan
    sources = [str(one) for one in cited]
    more = len(sources) - _MOST_SOURCES
    return {
        "type": plan.kind.value,
        "title": plan.title,
        "description": plan.purpose,
        "aliases": plan.aliases,
        "status": "fresh" if resolved else "unresolved",
        "generated": True,
        "sources": [*sources[:_MOST_SOURCES], *([f"and {more} more"] if more > 0 else [])],
        "verified": sorted({one.commit[:12] for one in cited if one.commit}),
        "stale_after": "a change of its sources",
    }


def _cited(one: LineCitation, text_of: CitedText) -> WrittenCitation:
    text = text_of(one)
    return WrittenCitation(
        path=one.path,
        first=one.first_line,
        last=one.last_line,
        commit=one.commit or "",
        digest=short_digest(text) if text else "",
    )


def _clean(body: str) -> str:
    """Return a body that a file in UTF-8 holds: no halves of characters, no foreign line ends, no NUL."""
    text = body.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    return well_formed(text)


def _address_of(
    page: WikiPage,
    anchors: Mapping[str, Sequence[HeadingAnchor]],
    addresses: SourceAddresses,
    unresolved: list[str],
) -> Address:
    cited = {(one.path, one.first_line, one.last_line): one for one in page.citations}
    here = page.plan.path

    def address(link: BodyLink) -> str | None:
        if link.scheme == "source":
            lines = link.lines or (0, 0)
            citation = cited.get((link.path, *lines))
            if citation is None:
                unresolved.append(f"source:{link.path}" + (f"#{link.fragment}" if link.fragment else ""))
                return None
            return addresses.address(here, citation)
        if link.path in (INDEX, LOG):
            return quoted_path(relative_path(here, link.path))
        if link.path not in anchors:
            unresolved.append(f"page:{link.path}")
            return None
        way = quoted_path(relative_path(here, link.path)) if link.path != here else ""
        if link.fragment and any(one.forge == link.fragment for one in anchors[link.path]):
            return f"{way}#{quoted_path(link.fragment)}"
        if link.fragment:
            unresolved.append(f"page:{link.path}#{link.fragment}")
        return way or quoted_path(here.rpartition("/")[2])

    return address


def _wanted_anchors(
    pages: Sequence[WikiPage], anchors: Mapping[str, Sequence[HeadingAnchor]]
) -> Mapping[str, dict[int, str]]:
    """Return, by page and line, the anchors that links name and that site builders would call otherwise."""
    named = {(link.path, link.fragment) for page in pages for link in body_links(page.body) if link.scheme == "page"}
    return {
        path: {one.line: one.forge for one in found if one.site != one.forge and (path, one.forge) in named}
        for path, found in anchors.items()
    }


def _with_anchors(body: str, wanted: Mapping[int, str]) -> str:
    if not wanted:
        return body
    lines = list[str]()
    for number, line in enumerate(body.split("\n")):
        lines += [f'<a id="{escaped_attribute(wanted[number])}"></a>', "", line] if number in wanted else [line]
    return "\n".join(lines)


def escaped_attribute(text: str) -> str:
    """Write a text as the value of an attribute in double quotes."""
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;").replace(">", "&gt;")


def _index(plan: WikiPlan, pages: Sequence[WikiPage]) -> str:
    parts = [front_matter({"okf_version": "0.1", "type": "index", "title": plan.title}), f"# {escaped(plan.title)}\n"]
    if plan.description.strip():
        parts.append(f"{escaped(plan.description)}\n")
    for kind, name in _SECTIONS.items():
        listed = [_entry(page) for page in pages if page.plan.kind == kind]
        if listed:
            parts.append(f"## {name}\n\n" + "\n".join(listed) + "\n")
    parts.append(f"Changes by commit: [log]({LOG}).\n")
    return "\n".join(parts)


def _entry(page: WikiPage) -> str:
    link = f"* [{escaped(page.plan.title)}]({quoted_path(page.plan.path)})"
    return f"{link} - {escaped(page.plan.purpose)}" if page.plan.purpose.strip() else link


def _listed(what: str, paths: Sequence[str], titles: Mapping[str, str]) -> str:
    if not paths:
        return ""
    named = [
        f"[{escaped(titles[path])}]({quoted_path(path)})" if path in titles else f"`{path}`"
        for path in paths[:_MOST_NAMED]
    ]
    more = len(paths) - len(named)
    return f"* **{what}**: {', '.join(named)}" + (f" and {more} more" if more > 0 else "")


# What publishing changes in a folder: decided from what is to be there, what was written, and what lies there now.


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
