"""The body of a page under construction, with the lines it cites."""

from dataclasses import dataclass, field

from treering.extensions.wiki.files.links import quoted_path, source_target
from treering.extensions.wiki.pages import LineCitation, PagePlan, WikiPage, WikiPlan
from treering.extensions.wiki.repository.facts import RepositoryFacts
from treering.extensions.wiki.repository.files import WikiFile
from treering.extensions.wiki.rules.markdown import code, link, plain
from treering.extensions.wiki.rules.page_paths import PagePaths


@dataclass
class PageBody:
    """The Markdown blocks of one page. Methods that return links expect labels in Markdown."""

    facts: RepositoryFacts
    paths: PagePaths
    plan: WikiPlan
    page: PagePlan
    parts: list[str] = field(default_factory=list)
    cited: dict[LineCitation, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._planned = frozenset(page.path for page in self.plan.pages)

    def add(self, *parts: str) -> None:
        """Append the blocks that are not empty."""
        self.parts += [part for part in parts if part]

    def section(self, heading: str, *parts: str, level: int = 2) -> None:
        """Append a heading and its blocks, or nothing if all blocks are empty."""
        if any(parts):
            self.add(f"{'#' * level} {heading}", *parts)

    def source(self, lines: LineCitation | None, label: str = "") -> str:
        """Cite lines and return the link; only the label if `lines` is `None`.

        `label`: default: the line numbers.
        """
        if lines is None:
            return label
        self.cited[lines] = None
        return link(label or lines.numbers, source_target(lines))

    def file(self, file: WikiFile) -> str:
        """Return the path of a file as a link to its beginning."""
        return self.source(file.head, code(file.path))

    def to_page(self, path: str, label: str) -> str:
        """Return a link to another page, or only the label if the page is not planned."""
        return link(label, f"page:{quoted_path(path)}") if self.has_page(path) and path != self.page.path else label

    def has_page(self, path: str) -> bool:
        """Return whether a page is planned."""
        return path in self._planned

    def finish(self) -> WikiPage:
        """Return the page."""
        body = "\n\n".join([f"# {plain(self.page.title)}", *self.parts])
        return WikiPage(self.page, f"{body}\n", tuple(self.cited))
