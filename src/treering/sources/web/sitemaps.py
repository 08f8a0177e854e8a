"""Sitemaps (sitemaps.org): the pages that a site lists, and what its `robots.txt` asks of those who read many."""

from collections.abc import Iterator
from dataclasses import dataclass
from xml.parsers.expat import ErrorString, ExpatError, ParserCreate

from protego import Protego

from treering.sources.reading.web_addresses import FetchRefused

MOST_PLACES = 50_000
"""As many as the protocol allows in one sitemap."""
_LONGEST_PLACE = 2_000
_DEEPEST = 16
_MOST_ELEMENTS = 2_000_000
_MOST_RULES = 5_000
"""So many lines of a `robots.txt` are kept to: each page is compared with each of them."""
_MOST_ROBOTS = 512_000
"""How many characters of a `robots.txt` are read; RFC 9309 asks for 500 KiB."""


@dataclass(frozen=True, slots=True)
class Sitemap:
    """The addresses that a sitemap lists: of pages, or of more sitemaps where it is an index."""

    places: tuple[str, ...]
    is_index: bool = False


def is_sitemap(data: bytes) -> bool:
    """Tell by how it begins whether a document may be a sitemap."""
    head = data[:2_000]
    return b"<urlset" in head or b"<sitemapindex" in head


def parse_sitemap(data: bytes) -> Sitemap:
    """Read a sitemap. Raises `FetchRefused` for one that is damaged, or declares entities."""
    reader = _SitemapReader()
    parser = ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = reader.refuse
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.CharacterDataHandler = reader.text
    try:
        parser.Parse(data, True)
    except ExpatError as error:
        raise FetchRefused(f"it is a damaged sitemap ({ErrorString(error.code)})") from None
    except (ValueError, LookupError):
        raise FetchRefused("it is a sitemap in an encoding that is not read") from None
    return Sitemap(tuple(reader.places()), reader.is_index)


class _SitemapReader:
    def __init__(self) -> None:
        self.is_index = False
        self._depth: list[str] = []
        self._parts: list[str] = []
        self._length = 0
        self._elements = 0
        self._places: list[str] = []

    def refuse(self, *_: object) -> None:
        raise FetchRefused("it is a sitemap with a DOCTYPE, which sitemaps do not have")

    def start(self, name: str, _attributes: object) -> None:
        local = name.rpartition(":")[2]
        self.is_index = self.is_index or (not self._depth and local == "sitemapindex")
        self._depth.append(local)
        self._elements += 1
        if len(self._depth) > _DEEPEST or self._elements > _MOST_ELEMENTS:
            raise FetchRefused("it is a sitemap with more elements, or deeper nesting, than a sitemap may have")
        self._parts, self._length = [], 0

    def text(self, data: str) -> None:
        if self._depth[-2:] in (["url", "loc"], ["sitemap", "loc"]) and self._length <= 2 * _LONGEST_PLACE:
            self._parts.append(data)
            self._length += len(data)

    def end(self, _name: str) -> None:
        place = "".join(self._parts).strip()
        self._depth.pop()
        self._parts, self._length = [], 0
        if place and len(place) <= _LONGEST_PLACE and len(self._places) < MOST_PLACES:
            self._places.append(place)

    def places(self) -> Iterator[str]:
        return iter(dict.fromkeys(self._places))


@dataclass(frozen=True, slots=True)
class Politeness:
    """What a site asks of those who read many of its pages (RFC 9309)."""

    rules: Protego
    agent: str

    @classmethod
    def of(cls, robots: str, agent: str) -> "Politeness":
        """Read a `robots.txt`; an empty one asks nothing, and a line that cannot be read is as if it were not there."""
        lines = robots[:_MOST_ROBOTS].lstrip("\ufeff").splitlines()
        return cls(Protego.parse("\n".join(lines[:_MOST_RULES])), agent)

    def allows(self, address: str) -> bool:
        """Tell whether a page may be read."""
        return bool(self.rules.can_fetch(address, self.agent))

    def delay(self, *, least: float, most: float) -> float:
        """Return how many seconds to wait between two pages."""
        asked = self.rules.crawl_delay(self.agent)
        return min(most, max(least, float(asked))) if asked else least
