"""The adapter for addresses of the web: a page, or the pages that a sitemap or a text lists."""

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any
from xml.parsers.expat import ErrorString, ExpatError, ParserCreate

from protego import Protego

from treering.core.errors import InvalidInput
from treering.extensions.documents.fetching import FetchedPage, Fetcher, Missing, NotModified, Validators, unpacked
from treering.ports.adapter import (
    AlreadyRead,
    Failed,
    FileAccess,
    Reading,
    ReadLimits,
    Skipped,
    SourceDraft,
    Unchanged,
    Vanished,
)
from treering.ports.format import Formats
from treering.sources.formats import built_in_formats, draft_file, is_read_in_part
from treering.sources.reading.encodings import decode
from treering.sources.reading.web_addresses import FetchRefused, WebAddress, address_of, joined, parse_address

# Sitemaps (sitemaps.org): the pages that a site lists, and what its `robots.txt` asks of those who read many.


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
        raise FetchRefused("it is a sitemap with a DOCTYPE, which sitemaps must not have")

    def start(self, name: str, _attributes: object) -> None:
        local = name.rpartition(":")[2]
        self.is_index = self.is_index or (not self._depth and local == "sitemapindex")
        self._depth.append(local)
        self._elements += 1
        if len(self._depth) > _DEEPEST or self._elements > _MOST_ELEMENTS:
            raise FetchRefused("it is a sitemap with too many elements, or too deep nesting")
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


_ENDINGS = {
    "text/html": ".html",
    "application/xhtml+xml": ".html",
    "text/plain": ".txt",
    "text/markdown": ".md",
    "text/csv": ".csv",
    "application/json": ".json",
    "application/yaml": ".yaml",
    "application/xml": ".xml",
    "text/xml": ".xml",
    "application/pdf": ".pdf",
    "application/epub+zip": ".epub",
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document": ".docx",
    "application/vnd.openxmlformats-officedocument.presentationml.presentation": ".pptx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": ".xlsx",
    "application/vnd.oasis.opendocument.text": ".odt",
    "application/vnd.oasis.opendocument.spreadsheet": ".ods",
    "application/vnd.oasis.opendocument.presentation": ".odp",
    "application/x-ipynb+json": ".ipynb",
    "application/vnd.oai.openapi": ".yaml",
    "application/vnd.oai.openapi+json": ".json",
    "application/x-yaml": ".yaml",
    "text/yaml": ".yaml",
    "application/gzip": ".xml",
    "application/x-gzip": ".xml",
}
"""The media types that are read, and what a file of each is called: formats know files by their names."""
_PACKED = frozenset({"application/gzip", "application/x-gzip"})
_MOST_SITEMAPS = 50
_ASKS_NOTHING = range(400, 500)
_EVERYTHING = "User-agent: *\nDisallow: /"
_UTF_8 = frozenset({"", "utf-8", "utf8"})
"""Encodings of Python that no page has; some take very long for long texts."""


@dataclass(frozen=True, slots=True)
class CrawlPace:
    """How many pages of a sitemap or a list are read, and how fast: one after another, with so many seconds between."""

    pages: int = 500
    delay: float = 1.0
    most_delay: float = 30.0
    looked_at: int = 5_000
    """For how many addresses `robots.txt` is asked."""
    pause: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class UrlAdapter:
    """Reads what stands at an address. A sitemap gives a source per page that it lists on its own host.

    A target of several lines is a list with an address per line; blank lines, and those that begin with #, are skipped.

    What a server says is the same (304) is not fetched again; a page that it says is gone archives its source. One
    address that is asked for by name is fetched whatever `robots.txt` says; pages that are listed only where it lets.
    """

    formats: Formats = field(default_factory=built_in_formats)
    fetcher: Fetcher = field(default_factory=Fetcher)
    pace: CrawlPace = CrawlPace()

    @classmethod
    def for_space(cls, formats: Formats, access: FileAccess) -> "UrlAdapter":
        """Return the adapter of a space; it reads no files."""
        del access
        return cls(formats)

    def origin(self, target: str) -> str:
        """Return the address as it is always written; of a list the first. Raises `InvalidInput`."""
        if _APART_IN_LIST not in target:
            return parse_address(target).text
        first = next((place for place in _addresses(target) if isinstance(place, WebAddress)), None)
        if first is None:
            raise InvalidInput("The list contains no addresses.", hint="Give one http or https address per line.")
        return first.text

    def count(self, target: str, options: Mapping[str, Any]) -> int | None:
        """How many pages there are shows when they are read."""
        del target, options
        return None

    def read(
        self, target: str, *, known: AlreadyRead, limits: ReadLimits, options: Mapping[str, Any]
    ) -> Iterator[Reading]:
        """Yield the page, or a result per page of a sitemap or list. Raises `InvalidInput` for another address."""
        self.origin(target)
        redact_secrets = options.get("redact_secrets", True)
        if not isinstance(redact_secrets, bool):
            raise InvalidInput("`redact_secrets` must be true or false.", hint="Correct or omit it.")
        asked = _Asked(known, limits, redact_secrets)
        if _APART_IN_LIST in target:
            return self._visited(_addresses(target), {}, asked)
        return self._readings(parse_address(target), asked)

    def _readings(self, address: WebAddress, asked: "_Asked") -> Iterator[Reading]:
        try:
            page = self.fetcher.fetch(address, types=tuple(_ENDINGS), known=asked.validators(address))
            listed = _sitemap_of(page)
        except FetchRefused as error:
            yield Failed(address.text, str(error))
            return
        if listed is None:
            yield self._reading(address, page, asked)
        else:
            yield from self._listed(address, listed, asked)

    def _listed(self, address: WebAddress, sitemap: Sitemap, asked: "_Asked") -> Iterator[Reading]:
        politeness = self._politeness(address)
        places = self._places(address, sitemap, self._wait(politeness))
        yield from self._visited(places, {address.root: politeness}, asked, only=address)

    def _visited(
        self,
        places: Iterator[WebAddress | Failed],
        sites: dict[str, Politeness],
        asked: "_Asked",
        *,
        only: WebAddress | None = None,
    ) -> Iterator[Reading]:
        """Read pages one after another. `sites` is what their servers ask for, as far as it is known."""
        read = looked_at = 0
        for place in _distinct(places, asked.limits.max_items):
            if not isinstance(place, WebAddress):
                yield place
                continue
            if only and place.root != only.root:
                yield Skipped(place.text, f"it is on another host than the sitemap ({only.host})")
                continue
            looked_at += 1
            if read >= self.pace.pages or looked_at > self.pace.looked_at:
                yield Skipped(place.text, f"it exceeds the limit of {self.pace.pages:,} pages per sitemap or list")
                continue
            if place.root not in sites:
                sites[place.root] = self._politeness(place)
            if not sites[place.root].allows(place.text):
                yield Skipped(place.text, "the robots.txt of its host forbids reading it, or cannot be read")
                continue
            self.pace.pause(self._wait(sites[place.root]))
            read += 1
            yield self._page(place, asked)

    def _wait(self, politeness: Politeness) -> float:
        return politeness.delay(least=self.pace.delay, most=self.pace.most_delay)

    def _places(self, address: WebAddress, sitemap: Sitemap, wait: float) -> Iterator[WebAddress | Failed]:
        """Return the pages of a sitemap, and of those that an index lists."""
        for at, text in enumerate(sitemap.places):
            try:
                place = joined(address, text)
                if not sitemap.is_index:
                    yield place
                    continue
                if at >= _MOST_SITEMAPS or place.root != address.root:
                    yield Failed(place.text, f"only {_MOST_SITEMAPS} sitemaps per host are read")
                    continue
                self.pace.pause(wait)
                inner = _sitemap_of(self.fetcher.fetch(place, types=tuple(_ENDINGS)))
                if inner is None or inner.is_index:
                    yield Failed(place.text, "it is not a sitemap with pages")
                else:
                    yield from self._places(address, inner, wait)
            except FetchRefused as error:
                yield Failed(f"{address.text}#{at + 1}", str(error))

    def _page(self, address: WebAddress, asked: "_Asked") -> Reading:
        try:
            page = self.fetcher.fetch(address, types=tuple(_ENDINGS), known=asked.validators(address))
            if _sitemap_of(page) is not None:
                return Failed(address.text, "it is a sitemap: give its address on its own")
            return self._reading(address, page, asked)
        except FetchRefused as error:
            return Failed(address.text, str(error))

    def _reading(self, address: WebAddress, page: FetchedPage | NotModified | Missing, asked: "_Asked") -> Reading:
        origin = address.text
        before = asked.fingerprint(address)
        match page:
            case NotModified():
                return Unchanged(origin)
            case Missing(status) if before:
                del status
                return Vanished(origin)
            case Missing(status):
                return Failed(origin, f"the page does not exist: the server responded {status}")
        digest = sha256(page.data).hexdigest()
        if before.partition(_APART)[0] == digest:
            return Unchanged(origin)
        draft = draft_file(
            _in_utf_8(page),
            path=_file_name(page),
            origin=origin,
            commit=None,
            limits=asked.limits,
            redact_secrets=asked.redact_secrets,
            address=_without_query(page.address, address),
            fingerprint=_APART.join((digest, page.validators.etag, page.validators.modified)),
            formats=self.formats,
        )
        if not isinstance(draft, SourceDraft):
            return draft
        payload = {**draft.payload, "url": _without_query(page.address, address)}
        return replace(draft, kind="web", payload=payload, title=_title(draft, origin))

    def _politeness(self, address: WebAddress) -> Politeness:
        agent = "Treering"
        try:
            found = self.fetcher.fetch(joined(address, "/robots.txt"), types=None)
        except FetchRefused as error:
            # RFC 9309: a site that cannot tell now what it asks, asks for everything; one that keeps it to itself, not.
            return Politeness.of("" if error.status in _ASKS_NOTHING else _EVERYTHING, agent)
        return Politeness.of(found.data.decode("utf-8", "replace") if isinstance(found, FetchedPage) else "", agent)


_APART = " | "
"""What stands in a fingerprint between the digest of a page and the validators of its server."""


@dataclass(frozen=True, slots=True)
class _Asked:
    known: AlreadyRead
    limits: ReadLimits
    redact_secrets: bool

    def fingerprint(self, address: WebAddress) -> str:
        """Return the fingerprint of a page as it is kept; empty where it is not."""
        origin = address.text
        return self.known.fingerprints.get(origin) or self.known.below(origin).get(origin, "")

    def validators(self, address: WebAddress) -> Validators | None:
        fingerprint = self.fingerprint(address)
        parts = fingerprint.split(_APART)
        return Validators(parts[1], parts[2]) if len(parts) == 3 and not is_read_in_part(fingerprint) else None


_APART_IN_LIST = "\n"


def _addresses(text: str) -> Iterator[WebAddress | Failed]:
    """Read a list with an address per line. A line that is not an address is not shown: it may hold anything."""
    for number, line in enumerate(text.split(_APART_IN_LIST), start=1):
        said = line.strip().removeprefix("\ufeff")
        if not said or said.startswith("#"):
            continue
        try:
            yield address_of(said)
        except FetchRefused as error:
            yield Failed(f"line {number}", str(error))


def _distinct(places: Iterator[WebAddress | Failed], most: int) -> Iterator[WebAddress | Failed | Skipped]:
    """Return each address once, however it is written, and say so where there are more than `most`."""
    told = set[str]()
    for place in places:
        if isinstance(place, Failed):
            yield place
        elif place.text not in told:
            if len(told) >= most:
                yield Skipped(place.text, f"it exceeds the limit max_items of {most:,}, like all items after it")
                return
            told.add(place.text)
            yield place


def _without_query(found: WebAddress, asked: WebAddress) -> str:
    """Return where a page was found. The query that a redirect led to may be a signature for one visit."""
    return found.text if found == asked else found.text.partition("?")[0]


def _sitemap_of(page: FetchedPage | NotModified | Missing) -> Sitemap | None:
    if not isinstance(page, FetchedPage):
        return None
    data = unpacked(page.data, _MOST_SITEMAP) if page.type in _PACKED else page.data
    return parse_sitemap(data) if is_sitemap(data) else None


_MOST_SITEMAP = 50_000_000  # as the protocol allows


def _in_utf_8(page: FetchedPage) -> bytes:
    """Return text in the encoding that formats expect, where its server says which it has."""
    if page.charset in _UTF_8 or not (page.type.startswith("text/") or page.type.endswith(("xml", "json"))):
        return page.data
    decoded = decode(page.data, declared=page.charset)
    return decoded.text.encode() if decoded else page.data


def _file_name(page: FetchedPage) -> str:
    """Return what a page would be called as a file."""
    ending = _ENDINGS.get(page.type, "")
    name = PurePosixPath(page.address.path.partition("?")[0]).name or "index"
    return name if PurePosixPath(name).suffix.lower() == ending else f"{name}{ending}"


def _title(draft: SourceDraft, origin: str) -> str:
    return draft.title if draft.title and not draft.title.endswith(tuple(_ENDINGS.values())) else origin
