"""Where in a source a segment stands, typed by the kind of source."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt

from treering.core.times import Instant


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
    `core.conversation.chain_hashes` gives: it tells the message from an equal one said elsewhere.
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
