"""The body of a page while it is written: blocks of Markdown, and what each link to a source cites."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from treering.memories.wiki.pages import LineCitation, PagePlan, WikiPage, WikiPlan
from treering.memories.wiki.repository.api_entries import CitedSpan
from treering.memories.wiki.repository.files import WikiFile
from treering.memories.wiki.repository.prose import Words
from treering.memories.wiki.rules.markup import blocks, code, link, opening, page_target, plain, source_target


@dataclass
class PageBody:
    """Collects the blocks of one page. What is added is Markdown; the methods that make links escape what they show."""

    plan: WikiPlan
    page: PagePlan
    parts: list[str] = field(default_factory=list)
    cited: dict[LineCitation, None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._paths = {page.path: page for page in self.plan.pages}

    def add(self, *parts: str) -> None:
        """Add blocks; empty ones are left out."""
        self.parts += [part for part in parts if part]

    def section(self, heading: str, *parts: str, level: int = 2) -> None:
        """Add blocks under a heading, which is Markdown; nothing at all where all of them are empty."""
        said = [part for part in parts if part]
        if said:
            self.parts += [f"{'#' * level} {heading}", *said]

    def source(self, file: WikiFile, lines: CitedSpan | None, label: str = "") -> str:
        """Return a link to lines of a file, and cite them; only the label where no lines are known.

        `label` is Markdown; without it the link says which lines these are.
        """
        if lines is None:
            return label
        self.cited[
            LineCitation(
                path=file.path,
                first_line=lines.first,
                last_line=lines.last,
                commit=file.commit,
                content_hash=lines.content_hash,
                source_id=file.source_id,
                segment_id=lines.segment_id,
            )
        ] = None
        return link(label or _told_lines(lines), source_target(file.path, lines.first, lines.last))

    def file(self, file: WikiFile) -> str:
        """Return the path of a file as a link to where it begins."""
        return self.source(file, file.head, code(file.path))

    def to_page(self, path: str, label: str, *, anchor: str = "") -> str:
        """Return a link to another page where the plan has it, else only the label."""
        return link(label, page_target(path, anchor)) if path in self._paths and path != self.page.path else label

    def has_page(self, path: str) -> bool:
        """Tell whether the plan has a page."""
        return path in self._paths

    def finish(self) -> WikiPage:
        """Return the page."""
        body = blocks(f"# {plain(self.page.title)}", *self.parts) + "\n"
        return WikiPage(self.page, body, tuple(self.cited))


def shown(words: Sequence[Words]) -> str:
    """Return words as Markdown inside of a line."""
    said = []
    for one in words:
        marked = code(one.text) if one.code else plain(one.text)
        before = " " if one.text[:1].isspace() and marked else ""
        after = " " if one.text[-1:].isspace() and marked.strip() and len(one.text) > 1 else ""
        said.append(f"{before}{marked}{after}" if marked else " " * bool(one.text))
    return "".join(said).strip()


def paragraph(words: Sequence[Words]) -> str:
    """Return words as a paragraph of their own."""
    return opening(shown(words))


def counted(count: int, one: str, many: str = "") -> str:
    """Return a number with the word for it: `1 module`, `3 modules`."""
    return f"{count:,} {one if count == 1 else many or f'{one}s'}"


def _told_lines(lines: CitedSpan) -> str:
    return f"line {lines.first}" if lines.first == lines.last else f"lines {lines.first}–{lines.last}"
