"""The parts of a wiki: a plan of its pages, and pages whose statements cite lines of files at a commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class PageKind(StrEnum):
    """The subject of a page."""

    OVERVIEW = "overview"
    ARCHITECTURE = "architecture"
    MODULE = "module"
    DOCUMENT = "document"
    HOWTO = "howto"
    REFERENCE = "reference"
    DECISIONS = "decisions"
    CHANGES = "changes"


@dataclass(frozen=True, slots=True)
class LineCitation:
    """Lines of a file at a commit."""

    path: str
    """Relative to the root of the work tree, with `/`."""
    first_line: int
    last_line: int
    """Inclusive; lines count from 1."""
    commit: str | None
    """`None` if the folder is not a git repository."""
    content_hash: str
    """The salted hash of the text of the lines, as in segments."""
    source_id: str
    segment_id: str

    @property
    def place(self) -> tuple[str, int, int]:
        """Its path, first and last line."""
        return self.path, self.first_line, self.last_line

    @property
    def numbers(self) -> str:
        """Its lines in words, such as `lines 3–5`."""
        first, last = self.first_line, self.last_line
        return f"line {first}" if first == last else f"lines {first}–{last}"

    def __str__(self) -> str:
        lines = f"#L{self.first_line}-L{self.last_line}"
        return f"{self.path}{lines} @ {self.commit[:12]}" if self.commit else f"{self.path}{lines}"


@dataclass(frozen=True, slots=True)
class PagePlan:
    """A planned page."""

    path: str
    """Its path in the wiki, such as `modules/flask-app.md`, which identifies the page."""
    title: str
    kind: PageKind
    purpose: str
    """Its content, in one sentence; "" if unknown."""
    relevant_files: tuple[str, ...]
    importance: float = 0.0
    """The share of its files in the PageRank of the code, from 0 to 1."""
    aliases: tuple[str, ...] = ()
    group: str = ""
    """The heading in the index below which it is listed with similar pages."""


@dataclass(frozen=True, slots=True)
class WikiPlan:
    """The pages of a wiki, in reading order."""

    title: str
    description: str
    pages: tuple[PagePlan, ...]


@dataclass(frozen=True, slots=True)
class WikiPage:
    """A written page.

    `body` is Markdown without frontmatter, beginning with its `# title`. A link to another page is relative to the root
    of the wiki with the scheme `page:` (`[Routing](page:modules/routing.md#rules)`), and a citation has the scheme
    `source:` (`[app.py, lines 10 to 20](source:src/app.py#L10-L20)`). The publisher converts both to addresses that
    work for its readers.
    """

    plan: PagePlan
    body: str
    citations: tuple[LineCitation, ...]
    """The evidence of the body. Each `source:` link is one of them, with a percent-encoded path."""


class WikiWriter(Protocol):
    """Plan and write the pages of one repository, from the content of a space."""

    def plan(self) -> WikiPlan:
        """Plan the pages."""
        ...

    def write(self, plan: WikiPlan, page: PagePlan) -> WikiPage:
        """Write one page. The same space and plan give the same page."""
        ...

    def inputs(self, plan: WikiPlan, page: PagePlan) -> str:
        """Return a digest of all inputs of the page: if it is unchanged, the page need not be written again."""
        ...


@dataclass(frozen=True, slots=True)
class PublishedWiki:
    """The changes of publishing on disk; paths are relative to the root of the wiki."""

    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]
    conflicts: tuple[str, ...]
    """Pages that a person changed outside of marked regions; they are left unchanged."""


class WikiPublisher(Protocol):
    """Publish complete wikis for readers."""

    def publish(self, plan: WikiPlan, pages: Sequence[WikiPage]) -> PublishedWiki:
        """Replace all generated pages with these, atomically."""
        ...
