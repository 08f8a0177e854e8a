"""Citations of lines: create them, check them against the current files, and update links that moved."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from treering.core.errors import NotFound
from treering.core.evidence import Lines, Segment, segment_hash
from treering.core.objects import Source
from treering.extensions.wiki.files.links import BodyLink, source_target, target_of, with_addresses
from treering.extensions.wiki.pages import LineCitation, WikiPage
from treering.verbs.engine import Engine


class CitationState(StrEnum):
    """The state of cited lines."""

    HOLDS = "holds"
    MOVED = "moved"
    """Moved within the file, unchanged."""
    CHANGED = "changed"
    GONE = "gone"
    """The file was deleted."""


class PageStatus(StrEnum):
    """Whether the citations of a page are valid: `stale` if lines changed, `unresolved` if a file is gone."""

    FRESH = "fresh"
    STALE = "stale"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True, slots=True)
class CheckedCitation:
    """A checked citation. `now`: the current place of its lines; the last known place if they changed."""

    cited: LineCitation
    now: LineCitation
    state: CitationState


@dataclass(frozen=True, slots=True)
class RepositoryPlace:
    """The place of a repository's files in a space: their scope, and the prefix of their origins."""

    scope: str
    prefix: str
    """An origin is this prefix and the path of the file."""

    @property
    def root(self) -> str:
        """The origin of the repository itself."""
        return self.prefix.removesuffix("#").removesuffix("/")


class Citations:
    """The citable lines of one repository. Sources are cached, so create one object per run.

    `lines_of`: returns the lines of a text file of the work tree by path, or `None` if it cannot be read.
    """

    def __init__(
        self,
        engine: Engine,
        place: RepositoryPlace,
        lines_of: Callable[[str], Sequence[str] | None],
    ) -> None:
        self._engine = engine
        self._place = place
        self.lines_of = lines_of
        self._sources: dict[str, Source | None] = {}

    def cite(self, path: str, first: int, last: int) -> LineCitation | None:
        """Return a citation of lines of a file, or `None` if they do not exist or are not in the space."""
        lines = self.lines_of(path)
        source = self._source_at(path)
        if not source or lines is None or not 1 <= first <= last <= len(lines):
            return None
        span = _span_at(source, first)
        if span is None:
            return None
        text = "\n".join(lines[first - 1 : last])
        return LineCitation(
            path=path,
            first_line=first,
            last_line=last,
            commit=span[0].commit,
            content_hash=segment_hash(text, salt=source.salt),
            source_id=source.id,
            segment_id=span[1].segment_id,
        )

    def check(self, citation: LineCitation) -> CheckedCitation:
        """Return the state and current place of cited lines."""
        source = self._source(citation.source_id)
        if source is None:
            return CheckedCitation(citation, citation, CitationState.GONE)
        place = self._as_segment(citation, source) or self._as_lines(citation, source)
        if place is None:
            return CheckedCitation(citation, citation, CitationState.CHANGED)
        first, last, commit = place
        path = _path_of(source) or citation.path
        now = replace(citation, path=path, first_line=first, last_line=last, commit=commit)
        same = now.place == citation.place
        return CheckedCitation(citation, now, CitationState.HOLDS if same else CitationState.MOVED)

    def _as_segment(self, citation: LineCitation, source: Source) -> tuple[int, int, str | None] | None:
        """Return the place of the segment with the cited text."""
        same = [(place, one) for place, one in _spans(source) if one.hash == citation.content_hash]
        if not same:
            return None
        place, _ = min(same, key=lambda span: span[1].segment_id != citation.segment_id)
        inside = place.start <= citation.first_line and citation.last_line <= place.end
        first, last = (citation.first_line, citation.last_line) if inside else (place.start, place.end)
        return first, last, place.commit

    def _as_lines(self, citation: LineCitation, source: Source) -> tuple[int, int, str | None] | None:
        """Return the place of the cited lines in the file that is nearest to the old one."""
        lines = self.lines_of(_path_of(source) or citation.path) or ()
        start = _cited_start(citation, lines, source.salt)
        if not start:
            return None
        span = _span_at(source, start)
        commit = span[0].commit if span else citation.commit
        return start, start + citation.last_line - citation.first_line, commit

    def _source(self, identity: str) -> Source | None:
        if identity not in self._sources:
            try:
                item = self._engine.ledger.get(identity)
            except NotFound:
                item = None
            self._sources[identity] = item if isinstance(item, Source) and item.status == "active" else None
        return self._sources[identity]

    def _source_at(self, path: str) -> Source | None:
        origin = f"{self._place.prefix}{path}"
        states = self._engine.ledger.sources_at(scope=self._place.scope, origins=[origin])
        return self._source(states[origin].id) if origin in states else None


def cited_words(citation: LineCitation, text: str, salt: str) -> str:
    """Return the cited lines from a text of their file, or "" if they are not in it. `salt`: of the source."""
    lines = text.splitlines()
    start = _cited_start(citation, lines, salt)
    return "\n".join(lines[start - 1 : start + citation.last_line - citation.first_line]) if start else ""


def _cited_start(citation: LineCitation, lines: Sequence[str], salt: str) -> int:
    """Return the first line of the nearest match of cited lines in a file, or 0 if there is none."""
    count = citation.last_line - citation.first_line + 1
    starts = sorted(range(1, len(lines) - count + 2), key=lambda start: abs(start - citation.first_line))
    for start in starts:
        if segment_hash("\n".join(lines[start - 1 : start - 1 + count]), salt=salt) == citation.content_hash:
            return start
    return 0


def status_of(checked: Iterable[CheckedCitation]) -> PageStatus:
    """Return the status of a page from its checked citations."""
    states = {one.state for one in checked}
    if CitationState.GONE in states:
        return PageStatus.UNRESOLVED
    return PageStatus.STALE if CitationState.CHANGED in states else PageStatus.FRESH


def relocated(page: WikiPage, checked: Iterable[CheckedCitation]) -> WikiPage:
    """Return a page with its citations and their links updated to the current lines."""
    moves = {one.cited.place: one.now for one in checked}

    def address(link: BodyLink) -> str:
        first, last = link.lines or (0, 0)
        now = moves.get((link.path, first, last)) if link.scheme == "source" else None
        return target_of(link) if now is None else source_target(now)

    citations = tuple(moves.get(one.place, one) for one in page.citations)
    return replace(page, body=with_addresses(page.body, address), citations=citations)


def _path_of(source: Source) -> str:
    return next((place.path for place, _ in _spans(source)), "")


def _span_at(source: Source, line: int) -> tuple[Lines, Segment] | None:
    """Return the segment with a line, else the last one before it, else the first, with its place."""
    spans = _spans(source)
    before = [span for span in spans if span[0].start <= line]
    return before[-1] if before else next(iter(spans), None)


def _spans(source: Source) -> list[tuple[Lines, Segment]]:
    return [(one.locator, one) for one in source.segments if isinstance(one.locator, Lines)]
