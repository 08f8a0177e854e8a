"""What a wiki is made of: a plan of its pages, and pages whose statements cite lines of files at a commit."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class PageKind(StrEnum):
    """What a page is about."""

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
    """Lines of a file as they stood at a commit."""

    path: str
    """Relative to the root of the work tree, with `/`."""
    first_line: int
    last_line: int
    """Inclusive; lines count from 1."""
    commit: str | None
    """`None` where the folder is not a git repository."""
    content_hash: str
    """Of the text of the lines, as segments carry it."""
    source_id: str
    segment_id: str

    def __str__(self) -> str:
        lines = f"#L{self.first_line}-L{self.last_line}"
        return f"{self.path}{lines} @ {self.commit[:12]}" if self.commit else f"{self.path}{lines}"


@dataclass(frozen=True, slots=True)
class PagePlan:
    """A page that is to be written."""

    path: str
    """Where it lies below the root of the wiki: `modules/flask-app.md`. It is the identity of the page."""
    title: str
    kind: PageKind
    purpose: str
    """What a reader finds there, in one sentence."""
    relevant_files: tuple[str, ...]
    importance: float = 0.0
    """Share of the walk over the symbol graph that its files hold, 0 to 1."""
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class WikiPlan:
    """The pages of a wiki, in the order in which they are read."""

    title: str
    description: str
    pages: tuple[PagePlan, ...]


@dataclass(frozen=True, slots=True)
class WikiPage:
    """A page as it was written.

    `body` is Markdown without frontmatter, beginning at its `# title`. A link to another page is written relative to
    the root of the wiki with the scheme `page:` (`[Routing](page:modules/routing.md#rules)`), and a citation with the
    scheme `source:` (`[app.py, lines 10 to 20](source:src/app.py#L10-L20)`). Who publishes it turns both into
    addresses that work where the page is read.
    """

    plan: PagePlan
    body: str
    citations: tuple[LineCitation, ...]
    """What the statements of the body rest on; each `source:` link of the body is one of them, its path percent-encoded
    as in an address."""


class WikiWriter(Protocol):
    """Plans and writes the pages of one repository, from what a space holds of it."""

    def plan(self) -> WikiPlan:
        """Say which pages there are to be."""
        ...

    def write(self, plan: WikiPlan, page: PagePlan) -> WikiPage:
        """Write one page. The same space and plan give the same page."""
        ...

    def inputs(self, plan: WikiPlan, page: PagePlan) -> str:
        """Return a digest of all that the page is made of: where it is the same, the page need not be written again."""
        ...


@dataclass(frozen=True, slots=True)
class PublishedWiki:
    """What publishing changed on the disk; paths are relative to the root of the wiki."""

    written: tuple[str, ...]
    unchanged: tuple[str, ...]
    removed: tuple[str, ...]
    conflicts: tuple[str, ...]
    """Pages that a person had edited outside of the regions of their own: these stay as they are."""


class WikiPublisher(Protocol):
    """Puts complete wikis where people read them."""

    def publish(self, plan: WikiPlan, pages: Sequence[WikiPage]) -> PublishedWiki:
        """Make the place hold these pages and no other generated ones; all of them, or none."""
        ...
