"""Citations of lines: made, checked against the files as they stand, and required of what agents plan and write."""

import re
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from treering.core.errors import NotFound
from treering.core.evidence import Lines, Segment, segment_hash
from treering.core.objects import Source
from treering.parts.wiki.files.links import BodyLink, source_target, target_of, with_addresses
from treering.parts.wiki.files.manifest import RESERVED, is_page_path
from treering.parts.wiki.pages import LineCitation, PagePlan, WikiPage, WikiPlan
from treering.verbs.engine import Engine

_FILE_OF_REPOSITORY = "repo:"


class CitationState(StrEnum):
    """Whether cited lines are still there."""

    HOLDS = "holds"
    MOVED = "moved"
    """They are elsewhere in the file, word for word."""
    CHANGED = "changed"
    GONE = "gone"
    """The file is no longer there."""


class PageStatus(StrEnum):
    """Whether the citations of a page are valid: `stale` if lines changed, `unresolved` if a file is gone."""

    FRESH = "fresh"
    STALE = "stale"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True, slots=True)
class CheckedCitation:
    """A citation after a check. `now` is where its lines stand; of changed lines, where they stood."""

    cited: LineCitation
    now: LineCitation
    state: CitationState


@dataclass(frozen=True, slots=True)
class RepositoryPlace:
    """Where a space holds the files of a repository: their scope, and what their origins begin with."""

    scope: str
    prefix: str
    """The rest of an origin is the path of the file."""

    @property
    def root(self) -> str:
        """The origin of the repository itself."""
        return self.prefix.removesuffix("#").removesuffix("/")


class Citations:
    """The lines of one repository. It reads each source and file once: make one for each run.

    `lines_in_tree`: returns the lines of a text file of the work tree, by its path from the root; `None` if missing.
    """

    def __init__(
        self,
        engine: Engine,
        place: RepositoryPlace,
        lines_in_tree: Callable[[str], Sequence[str] | None] | None = None,
    ) -> None:
        self._engine = engine
        self._place = place
        self._lines_in_tree = lines_in_tree
        self._sources: dict[str, Source | None] = {}
        self._lines: dict[str, Sequence[str] | None] = {}

    def cite(self, path: str, first: int, last: int) -> LineCitation | None:
        """Return a citation of lines of a file; `None` where there are no such lines or the space has not read them."""
        lines = self.lines_of(path)
        source = self._source_at(path)
        if not source or lines is None or not 1 <= first <= last <= len(lines):
            return None
        holder = _segment_at(source, first)
        if holder is None or not isinstance(holder.locator, Lines):
            return None
        text = "\n".join(lines[first - 1 : last])
        return LineCitation(
            path=path,
            first_line=first,
            last_line=last,
            commit=holder.locator.commit,
            content_hash=segment_hash(text, salt=source.salt),
            source_id=source.id,
            segment_id=holder.segment_id,
        )

    def lines_of(self, path: str) -> Sequence[str] | None:
        """Return the lines of a file; `None` where it cannot be read."""
        if path not in self._lines:
            self._lines[path] = self._lines_in_tree(path) if self._lines_in_tree else None
        return self._lines[path]

    def check(self, citation: LineCitation) -> CheckedCitation:
        """Say whether cited lines still stand, and where."""
        source = self._source(citation.source_id)
        if source is None:
            return CheckedCitation(citation, citation, CitationState.GONE)
        place = self._as_segment(citation, source) or self._as_lines(citation, source)
        if place is None:
            return CheckedCitation(citation, citation, CitationState.CHANGED)
        first, last, commit = place
        path = _path_of(source) or citation.path
        now = replace(citation, path=path, first_line=first, last_line=last, commit=commit)
        same = (first, last, path) == (citation.first_line, citation.last_line, citation.path)
        return CheckedCitation(citation, now, CitationState.HOLDS if same else CitationState.MOVED)

    def _as_segment(self, citation: LineCitation, source: Source) -> tuple[int, int, str | None] | None:
        """Return where the segment stands that has the cited text."""
        found = [one for one in source.segments if one.hash == citation.content_hash]
        for one in sorted(found, key=lambda one: one.segment_id != citation.segment_id):
            if isinstance(one.locator, Lines):
                start, end = one.locator.start, one.locator.end
                inside = start <= citation.first_line and citation.last_line <= end
                first, last = (citation.first_line, citation.last_line) if inside else (start, end)
                return first, last, one.locator.commit
        return None

    def _as_lines(self, citation: LineCitation, source: Source) -> tuple[int, int, str | None] | None:
        """Return where the cited lines stand in the file, the nearest place first."""
        lines = self.lines_of(_path_of(source) or citation.path) or ()
        start = _cited_start(citation, lines, source.salt)
        if not start:
            return None
        holder = _segment_at(source, start)
        commit = holder.locator.commit if holder and isinstance(holder.locator, Lines) else citation.commit
        return start, start + citation.last_line - citation.first_line, commit

    def _source(self, identity: str) -> Source | None:
        if identity not in self._sources:
            try:
                found = self._engine.ledger.get(identity)
            except NotFound:
                found = None
            self._sources[identity] = found if isinstance(found, Source) and found.status == "active" else None
        return self._sources[identity]

    def _source_at(self, path: str) -> Source | None:
        origin = f"{self._place.prefix}{path}"
        states = self._engine.ledger.sources_at(scope=self._place.scope, origins=[origin])
        return self._source(states[origin].id) if origin in states else None


def cited_words(citation: LineCitation, text: str, salt: str) -> str:
    """Return the cited lines out of a text of their file; empty where it does not have them. `salt`: of the source."""
    lines = text.splitlines()
    start = _cited_start(citation, lines, salt)
    return "\n".join(lines[start - 1 : start + citation.last_line - citation.first_line]) if start else ""


def _cited_start(citation: LineCitation, lines: Sequence[str], salt: str) -> int:
    """Return at which line the cited ones begin in a file, the nearest place first; 0 where they are not there."""
    count = citation.last_line - citation.first_line + 1
    starts = sorted(range(1, len(lines) - count + 2), key=lambda start: abs(start - citation.first_line))
    for start in starts:
        if segment_hash("\n".join(lines[start - 1 : start - 1 + count]), salt=salt) == citation.content_hash:
            return start
    return 0


def status_of(checked: Iterable[CheckedCitation]) -> PageStatus:
    """Return the status of a page from the check of all that it cites."""
    states = {one.state for one in checked}
    if CitationState.GONE in states:
        return PageStatus.UNRESOLVED
    return PageStatus.STALE if CitationState.CHANGED in states else PageStatus.FRESH


def relocated(page: WikiPage, checked: Iterable[CheckedCitation]) -> WikiPage:
    """Return a page with its citations, and the links to them, where the cited lines stand now."""
    moves = {_place(one.cited): one.now for one in checked}

    def address(link: BodyLink) -> str:
        first, last = link.lines or (0, 0)
        now = moves.get((link.path, first, last)) if link.scheme == "source" else None
        return target_of(link) if now is None else source_target(now)

    citations = tuple(moves.get(_place(one), one) for one in page.citations)
    return replace(page, body=with_addresses(page.body, address), citations=citations)


def _place(citation: LineCitation) -> tuple[str, int, int]:
    return citation.path, citation.first_line, citation.last_line


def _path_of(source: Source) -> str:
    return next((one.locator.path for one in source.segments if isinstance(one.locator, Lines)), "")


def _segment_at(source: Source, line: int) -> Segment | None:
    """Return the segment that holds a line, else the last one before it, else the first."""
    placed = [one for one in source.segments if isinstance(one.locator, Lines)]
    before = [one for one in placed if isinstance(one.locator, Lines) and one.locator.start <= line]
    return before[-1] if before else (placed[0] if placed else None)


# What agents plan and write, made fit for a wiki: files and pages that are not there and lines that do not hold go.


_NO_NAME = re.compile(r"[^a-z0-9]+")


@dataclass(frozen=True, slots=True)
class QuotedLines:
    """Lines that an agent cites, with some words that it copied from them."""

    path: str
    first_line: int
    last_line: int
    quote: str = ""


def usable_plan(plan: WikiPlan, files: Collection[str]) -> tuple[WikiPlan, tuple[str, ...]]:
    """Return a plan with paths that pages can have and files that are there, and what was changed for it."""
    notes: list[str] = []
    pages: dict[str, PagePlan] = {}
    for page in plan.pages:
        path = page.path if _can_be(page.path) else f"{_slug(page.title)}.md"
        path = path if _can_be(path) else f"{_slug(page.title)}-2.md"
        if path != page.path:
            notes.append(f"the page {page.path!r} has the path {path!r}")
        if path.casefold() in pages:
            notes.append(f"the page {path!r} was planned twice")
            continue
        gone = [file for file in page.relevant_files if file not in files]
        notes += [f"{path} cites the file {file!r}, which does not exist" for file in gone]
        there = tuple(dict.fromkeys(file for file in page.relevant_files if file in files))
        pages[path.casefold()] = replace(page, path=path, relevant_files=there)
    return replace(plan, pages=tuple(pages.values())), tuple(notes)


def page_with_citations(
    plan: WikiPlan, page: PagePlan, body: str, quoted: Iterable[QuotedLines], citations: Citations
) -> tuple[WikiPage, tuple[str, ...]]:
    """Return a page as an agent wrote it, and what was left out of it.

    A citation holds where its lines are there and have the words quoted of them; where these stand elsewhere in the
    file, once, it is moved to them. The links of others, and links to pages that are not planned, lose their target.
    """
    quotes = {(one.path, one.first_line, one.last_line): one.quote for one in quoted}
    paths = {one.path for one in plan.pages}
    made: dict[tuple[str, int, int], LineCitation] = {}
    notes: list[str] = []

    def address(link: BodyLink) -> str | None:
        if link.scheme == "page":
            if link.path not in paths:
                notes.append(f"a link to the page {link.path!r}, which is not planned")
            return target_of(link) if link.path in paths else None
        place = (link.path, *link.lines) if link.lines else None
        cited = _cited(place, quotes.get(place, ""), citations) if place else None
        if cited is None:
            notes.append(f"a citation of {link.path}#{link.fragment}, which is not valid")
            return None
        made[(cited.path, cited.first_line, cited.last_line)] = cited
        return source_target(cited)

    text = with_addresses(body.strip(), address)
    titled = text if text.startswith("# ") else f"# {page.title}\n\n{text}"
    return WikiPage(page, f"{titled}\n", tuple(made.values())), tuple(notes)


def _slug(title: str) -> str:
    return _NO_NAME.sub("-", title.casefold()).strip("-")[:80] or "page"


def _can_be(path: str) -> bool:
    return is_page_path(path) and path.casefold() not in RESERVED


def _cited(place: tuple[str, int, int], quote: str, citations: Citations) -> LineCitation | None:
    path, first, last = place
    lines = citations.lines_of(path)
    if lines is None:
        return None
    words = quote.split()
    if words and not _says(lines[max(first - 1, 0) : last], words):
        count = last - first
        starts = [at for at in range(len(lines)) if _begins(lines, at, words)]
        if len(starts) != 1:
            return None
        first, last = starts[0] + 1, min(starts[0] + 1 + max(count, 0), len(lines))
    return citations.cite(path, first, last)


def _says(lines: Sequence[str], words: Sequence[str]) -> bool:
    return " ".join(words) in " ".join(" ".join(lines).split())


def _begins(lines: Sequence[str], at: int, words: Sequence[str]) -> bool:
    """Tell whether the words begin in a line."""
    return _says(lines[at : at + len(words)], words) and not _says(lines[at + 1 : at + len(words)], words)
