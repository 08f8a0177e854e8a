"""Validate the plans and pages of agents: drop missing files, unplanned pages and invalid citations."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from treering.extensions.wiki.citing import Citations
from treering.extensions.wiki.files.links import BodyLink, source_target, target_of, with_addresses, with_page_links
from treering.extensions.wiki.files.page_path import RESERVED, is_page_path
from treering.extensions.wiki.pages import LineCitation, PagePlan, WikiPage, WikiPlan

LinesPlace = tuple[str, int, int]
"""A path, and the first and last of some of its lines."""
_NO_NAME = re.compile(r"[^a-z0-9]+")


def usable_plan(plan: WikiPlan, files: Collection[str]) -> tuple[WikiPlan, tuple[str, ...]]:
    """Return a plan with valid paths and existing files, and notes on the changes."""
    notes: list[str] = []
    pages: dict[str, PagePlan] = {}
    for page in plan.pages:
        path = page.path if _is_valid(page.path) else f"{_slug(page.title)}.md"
        path = path if _is_valid(path) else f"{_slug(page.title)}-2.md"
        if path != page.path:
            notes.append(f"the page {page.path!r} has the path {path!r}")
        if path.casefold() in pages:
            notes.append(f"the page {path!r} was planned twice")
            continue
        relevant = dict.fromkeys(page.relevant_files)
        notes += [f"{path} cites the file {file!r}, which does not exist" for file in relevant if file not in files]
        existing = tuple(file for file in relevant if file in files)
        pages[path.casefold()] = replace(page, path=path, relevant_files=existing)
    return replace(plan, pages=tuple(pages.values())), tuple(notes)


def page_with_citations(
    plan: WikiPlan, page: PagePlan, body: str, quotes: Mapping[LinesPlace, str], citations: Citations
) -> tuple[WikiPage, tuple[str, ...]]:
    """Return the page that an agent wrote, and notes on dropped links. `quotes`: words copied from cited lines.

    A citation is valid if its lines exist and contain the quoted words; if the words occur elsewhere in the file
    exactly once, the citation is moved there. Links of invalid citations and to unplanned pages become plain text.
    """
    paths = {one.path for one in plan.pages}
    citations_by_place: dict[LinesPlace, LineCitation] = {}
    notes: list[str] = []
    linked = set[LinesPlace | None]()

    def address(link: BodyLink) -> str | None:
        if link.scheme == "page":
            if link.path not in paths:
                notes.append(f"a link to the page {link.path!r}, which is not planned")
            return target_of(link) if link.path in paths else None
        place = (link.path, *link.lines) if link.lines else None
        linked.add(place)
        cited = _cited(place, quotes.get(place, ""), citations) if place else None
        if cited is None:
            notes.append(f"a citation of {link.path}#{link.fragment}, which is not valid")
            return None
        citations_by_place[cited.place] = cited
        return source_target(cited)

    text = with_addresses(with_page_links(body.strip(), page.path, paths), address)
    notes += [
        f"a citation of {path}#L{first}-L{last}, which no link names" for path, first, last in quotes.keys() - linked
    ]
    titled = text if text.startswith("# ") else f"# {page.title}\n\n{text}"
    return WikiPage(page, f"{titled}\n", tuple(citations_by_place.values())), tuple(notes)


def _slug(title: str) -> str:
    return _NO_NAME.sub("-", title.casefold()).strip("-")[:80] or "page"


def _is_valid(path: str) -> bool:
    return is_page_path(path) and path.casefold() not in RESERVED


def _cited(place: LinesPlace, quote: str, citations: Citations) -> LineCitation | None:
    path, first, last = place
    lines = citations.lines_of(path)
    if lines is None:
        return None
    words = quote.split()
    if words and not _contains(lines[max(first - 1, 0) : last], words):
        count = last - first
        starts = [at for at in range(len(lines)) if _begins(lines, at, words)]
        if len(starts) != 1:
            return None
        first, last = starts[0] + 1, min(starts[0] + 1 + max(count, 0), len(lines))
    return citations.cite(path, first, last)


def _contains(lines: Sequence[str], words: Sequence[str]) -> bool:
    return " ".join(words) in " ".join(" ".join(lines).split())


def _begins(lines: Sequence[str], at: int, words: Sequence[str]) -> bool:
    """Return whether the words begin in a line."""
    return _contains(lines[at : at + len(words)], words) and not _contains(lines[at + 1 : at + len(words)], words)
