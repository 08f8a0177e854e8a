"""Check pages before they are published."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from treering.extensions.wiki.citing import CheckedCitation, CitationState
from treering.extensions.wiki.files.links import body_links
from treering.extensions.wiki.pages import WikiPage, WikiPlan


@dataclass(frozen=True, slots=True)
class PageProblem:
    """A problem of a page."""

    path: str
    problem: str

    def __str__(self) -> str:
        return f"{self.path}: {self.problem}"


def problems_of(
    plan: WikiPlan, pages: Mapping[str, WikiPage], checked: Mapping[str, tuple[CheckedCitation, ...]]
) -> Iterator[PageProblem]:
    """Yield the problems of pages: missing or empty pages, broken links, invalid citations.

    `checked`: the checked citations of each page.
    """
    paths = {page.path for page in plan.pages}
    for planned in plan.pages:
        page = pages.get(planned.path)
        if page is None:
            yield PageProblem(planned.path, "it was not written")
            continue
        if is_empty(page.body):
            yield PageProblem(planned.path, "it has no text")
        for wrong in _wrong_links(page, paths):
            yield PageProblem(planned.path, wrong)
        for one in checked.get(planned.path, ()):
            if one.state in (CitationState.CHANGED, CitationState.GONE):
                yield PageProblem(planned.path, f"it cites {one.cited}, but these lines do not exist there")


def is_empty(body: str) -> bool:
    """Return whether a page has only headings."""
    return not any(line.strip() and not line.lstrip().startswith("#") for line in body.splitlines())


def lost_links(page: WikiPage, plan: WikiPlan) -> list[str]:
    """Return the linked pages that are not in a plan."""
    paths = {one.path for one in plan.pages}
    links = [link.path for link in body_links(page.body) if link.scheme == "page"]
    return [path for path in dict.fromkeys(links) if path not in paths]


def _wrong_links(page: WikiPage, paths: set[str]) -> Iterator[str]:
    cited = {one.place for one in page.citations}
    for link in body_links(page.body):
        if link.scheme == "page" and link.path not in paths:
            yield f"it links to the page {link.path!r}, which is not in the wiki"
        if link.scheme == "source" and (link.lines is None or (link.path, *link.lines) not in cited):
            yield f"its link to {link.path}#{link.fragment} is not among its citations"
