"""Segments of sources, the references that rest on them, and finding them again after an edit."""

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from treering.core.canonical import digest
from treering.core.ids import Instant
from treering.core.matching import matching_stretches

# Where in a source a segment stands, typed by the kind of source.


class _Locator(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, defer_build=True)


class Lines(_Locator):
    """Lines `start..end` (1-based, inclusive) of a file, at a commit where it came from one.

    `heading` names the spot for people: a heading path or a symbol's qualified name.
    """

    type: Literal["lines"] = "lines"
    path: str
    start: PositiveInt
    end: PositiveInt
    commit: str | None = None
    heading: str = ""

    def cite(self) -> str:
        """Name the place for people."""
        at = f" @ {self.commit[:12]}" if self.commit else ""
        return f"{self.path}#L{self.start}-L{self.end}{at}"


class Section(_Locator):
    """A stretch of an inline text: its heading path and character offset.

    `link` is where a browser shows a passage of a web page: the address of the page with a text fragment.
    """

    type: Literal["section"] = "section"
    heading: str = ""
    offset: NonNegativeInt = 0
    link: str = Field(default="", exclude_if=lambda link: not link)

    def cite(self) -> str:
        """Name the place for people."""
        return f"{self.heading or 'text'} (offset {self.offset})"


class Page(_Locator):
    """A page of a paginated document (from 1); `paragraph` counts on it from 1. `box` is in points."""

    type: Literal["page"] = "page"
    page: PositiveInt
    box: tuple[float, float, float, float] | None = None
    paragraph: PositiveInt | None = Field(default=None, exclude_if=lambda paragraph: paragraph is None)

    def cite(self) -> str:
        """Name the place for people, as the fragment of an address that programs open PDF files with."""
        return f"#page={self.page}"


class Turn(_Locator):
    """One message of a conversation.

    `turn` is its position, `speaker` who spoke: a name, or else the role. `chain` is what
    `core.canonical.chain_hashes` gives: it tells the message from an equal one said elsewhere.
    """

    type: Literal["turn"] = "turn"
    turn: NonNegativeInt
    message_id: str = ""
    speaker: str = ""
    role: str = Field(default="", exclude_if=lambda role: not role)
    at: Instant | None = Field(default=None, exclude_if=lambda at: at is None)
    chain: str = Field(default="", exclude_if=lambda chain: not chain)

    def cite(self) -> str:
        """Name the place for people."""
        return f"turn {self.turn}" + (f" ({self.speaker})" if self.speaker else "")


class Pointer(_Locator):
    """A place in a structured document, as a JSON pointer (RFC 6901)."""

    type: Literal["pointer"] = "pointer"
    pointer: str

    def cite(self) -> str:
        """Name the place for people."""
        return self.pointer or "/"


Locator = Annotated[Lines | Section | Page | Turn | Pointer, Field(discriminator="type")]


def place_in(locator: Locator, origin: str) -> str:
    """Name a place with what it is a place of; lines of a file and a link to a passage name it themselves."""
    match locator:
        case Lines():
            return locator.cite()
        case Page():
            return f"{origin}{locator.cite()}"
        case Section(link=link) if link:
            return link
    return f"{origin}: {locator.cite()}"


class Triple(BaseModel):
    """A statement of three parts: what it is about, how it is related, to what. In the words of the text."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    subject: str = Field(min_length=1)
    relation: str
    object: str = Field(min_length=1)


class Definition(BaseModel):
    """A definition in a segment of code: its qualified name, and its first and last line there, counted from 1."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    name: str = Field(min_length=1)
    first: int = Field(ge=1)
    last: int = Field(ge=1)


class Segment(BaseModel):
    """A stretch of a source, word for word.

    `hash` is `digest(excerpt, salt=<the source's salt>)`. `segment_id` survives re-reading where the text is
    unchanged. `heading`, `role` and `gist` say how it is searched (see `ports.adapter.SegmentDraft`).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    segment_id: str
    locator: Locator
    excerpt: str
    hash: str
    position: int = Field(ge=0)
    heading: str = ""
    role: Literal["prose", "symbol", "code", "data"] = "prose"
    gist: str | None = None
    triples: tuple[Triple, ...] = Field(default=(), exclude_if=lambda triples: not triples)
    """What the text states, where a writer or a model said so; the graph reads the text besides."""
    definitions: tuple[Definition, ...] = Field(default=(), exclude_if=lambda definitions: not definitions)
    """The definitions that fill a part of it: knowledge about one of them outlives a change of the rest."""
    uses: tuple[str, ...] = Field(default=(), exclude_if=lambda uses: not uses)
    """What it imports, calls and uses of other code, as the code says it (`core.code_use`)."""


class EvidenceRef(BaseModel):
    """A reference to the segment that supports or contradicts a piece of knowledge."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    source_id: str
    segment_id: str
    role: Literal["supports", "contradicts"] = "supports"
    quote_hash: str = ""
    verified_at: Instant | None = None


def segment_hash(excerpt: str, *, salt: str) -> str:
    """Hash a segment's text with its source's salt."""
    return digest(excerpt, salt=salt)


def relocate(old: Sequence[str], new: Sequence[str]) -> list[int | None]:
    """Match texts of an earlier reading to those of a new one, for each new text the index of its old self.

    Equal texts in the same order are matched by their neighbours first (longest common runs); what is left,
    moved texts, by equality in order of appearance. A text without an equal is new (`None`).
    """
    matched: list[int | None] = [None] * len(new)
    taken: set[int] = set()
    for stretch in matching_stretches(old, new):
        for step in range(stretch.size):
            matched[stretch.new + step] = stretch.old + step
            taken.add(stretch.old + step)
    left: dict[str, list[int]] = {}
    for index in reversed(range(len(old))):
        if index not in taken:
            left.setdefault(old[index], []).append(index)
    for index, text in enumerate(new):
        if matched[index] is None and left.get(text):
            matched[index] = left[text].pop()
    return matched


def find_lines(quote: str, text: str) -> tuple[int, int] | None:
    """Find whole lines of `quote` word for word in `text`; return their 1-based first and last line."""
    wanted, lines = quote.splitlines(), text.splitlines()
    if not wanted:
        return None
    for start in range(len(lines) - len(wanted) + 1):
        if lines[start] == wanted[0] and lines[start : start + len(wanted)] == wanted:
            return start + 1, start + len(wanted)
    return None
