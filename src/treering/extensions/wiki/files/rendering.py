"""Render pages as Markdown files in the Open Knowledge Format."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape

from treering.core.characters import well_formed
from treering.extensions.wiki.files.addresses import SourceAddress
from treering.extensions.wiki.files.front_matter import MatterField, front_matter
from treering.extensions.wiki.files.headings import HeadingAnchor, heading_anchors
from treering.extensions.wiki.files.links import (
    Address,
    BodyLink,
    body_links,
    escaped,
    quoted_path,
    relative_path,
    with_addresses,
)
from treering.extensions.wiki.files.manifest import WikiLogEntry, WrittenCitation, WrittenFile
from treering.extensions.wiki.files.page_path import INDEX, LOG, check_page_paths
from treering.extensions.wiki.files.regions import (
    block_digests,
    short_digest,
    without_markers,
)
from treering.extensions.wiki.pages import LineCitation, PageKind, WikiPage, WikiPlan

CitedText = Callable[[LineCitation], str]
"""Returns the text of cited lines, or "" if unknown."""

MOST_LOGGED = 100
"""The maximum number of entries in the log."""

_MOST_NAMED = 20
_MOST_SOURCES = 200
_SECTIONS = {PageKind.MODULE: "Modules", PageKind.DOCUMENT: "Documents"}
_START = "Start here"
"""The section of the index for pages of all other kinds."""


@dataclass(frozen=True, slots=True)
class RenderedFile:
    """A file of a wiki, with the values for the manifest."""

    path: str
    text: str
    title: str = ""
    cited: tuple[WrittenCitation, ...] = ()
    unresolved: tuple[str, ...] = ()

    def record(self) -> WrittenFile:
        """Return its entry in the manifest."""
        return WrittenFile(
            digest=short_digest(self.text),
            blocks=block_digests(self.text),
            title=self.title,
            cited=self.cited,
            unresolved=self.unresolved,
        )


def render_pages(
    plan: WikiPlan, pages: Sequence[WikiPage], *, addresses: SourceAddress, cited_text: CitedText
) -> list[RenderedFile]:
    """Render the pages and the index. Raises `InvalidInput` for invalid paths."""
    check_page_paths(page.plan.path for page in pages)
    pages = [replace(page, body=_clean(page.body)) for page in pages]
    anchors = {page.plan.path: list(heading_anchors(page.body)) for page in pages}
    wanted = _wanted_anchors(pages, anchors)
    rendered = [_page(page, anchors, wanted[page.plan.path], addresses, cited_text) for page in pages]
    return [*rendered, RenderedFile(INDEX, _index(plan, pages), plan.title)]


def render_log(title: str, entries: Sequence[WikiLogEntry], titles: Mapping[str, str]) -> RenderedFile:
    """Render the log of a wiki, newest first. `titles`: of the current pages."""
    parts = [front_matter({"type": "log", "title": f"{title}: log"}), f"# {escaped(title)}: log\n"]
    for entry in entries:
        commit = f"commit `{entry.commit[:12]}`" if entry.commit else "no commit"
        parts.append(f"## {', '.join(filter(None, [entry.date, commit]))}\n")
        changes = [_listed("Written", entry.written, titles), _listed("Removed", entry.removed, titles)]
        parts.append("\n".join(filter(None, changes)) + "\n")
    return RenderedFile(LOG, "\n".join(parts), f"{title}: log")


def _page(
    page: WikiPage,
    anchors: Mapping[str, Sequence[HeadingAnchor]],
    wanted: Mapping[int, str],
    addresses: SourceAddress,
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
        **({"description": plan.purpose} if plan.purpose else {}),
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
    """Remove unpaired surrogates, other line ends and NUL."""
    text = body.replace("\r\n", "\n").replace("\r", "\n").replace("\0", "\ufffd")
    return well_formed(text)


def _address_of(
    page: WikiPage,
    anchors: Mapping[str, Sequence[HeadingAnchor]],
    addresses: SourceAddress,
    unresolved: list[str],
) -> Address:
    cited = {one.place: one for one in page.citations}
    here = page.plan.path

    def address(link: BodyLink) -> str | None:
        if link.scheme == "source":
            lines = link.lines or (0, 0)
            citation = cited.get((link.path, *lines))
            if citation is None:
                unresolved.append(f"source:{link.path}" + (f"#{link.fragment}" if link.fragment else ""))
                return None
            return addresses(here, citation)
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
    """Return the linked anchors by page and line for which site builders use other names than forges."""
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
        lines += [f'<a id="{escape(wanted[number])}"></a>', "", line] if number in wanted else [line]
    return "\n".join(lines)


def _index(plan: WikiPlan, pages: Sequence[WikiPage]) -> str:
    parts = [front_matter({"okf_version": "0.1", "type": "index", "title": plan.title}), f"# {escaped(plan.title)}\n"]
    if plan.description.strip():
        parts.append(f"{escaped(plan.description)}\n")
    sections: dict[str, dict[str, list[str]]] = {one: {} for one in (_START, *_SECTIONS.values())}
    for page in pages:
        section = sections[_SECTIONS.get(page.plan.kind, _START)]
        section.setdefault(page.plan.group, []).append(_entry(page))
    for name, groups in sections.items():
        parts += [f"## {name}\n"] if groups else []
        for group, entries in groups.items():
            heading = f"### {escaped(group)}\n\n" if group and len(groups) > 1 else ""
            parts.append(heading + "\n".join(entries) + "\n")
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
