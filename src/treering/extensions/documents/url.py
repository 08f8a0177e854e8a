"""The adapter for web addresses: a page, or the pages of a sitemap or a list."""

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
from treering.extensions.documents.web_addresses import FetchRefused, WebAddress, address_of, joined, parse_address
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

MOST_PLACES = 50_000
"""The maximum of the protocol for one sitemap."""
_LONGEST_PLACE = 2_000
_DEEPEST = 16
_MOST_ELEMENTS = 2_000_000
_MOST_RULES = 5_000
"""Lines of a `robots.txt` that are used; each page is compared with each of them."""
_MOST_ROBOTS = 512_000
"""Characters of a `robots.txt` that are read; RFC 9309 requires 500 KiB."""


@dataclass(frozen=True, slots=True)
class Sitemap:
    """The addresses in a sitemap (sitemaps.org): of pages, or of more sitemaps in an index."""

    places: tuple[str, ...]
    is_index: bool = False


def is_sitemap(data: bytes) -> bool:
    """Return whether a document may be a sitemap, by its beginning."""
    head = data[:2_000]
    return b"<urlset" in head or b"<sitemapindex" in head


def parse_sitemap(data: bytes) -> Sitemap:
    """Parse a sitemap. Raises `FetchRefused` for a damaged one, or one that declares entities."""
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
    """The rules of a site for crawlers (RFC 9309)."""

    rules: Protego
    agent: str

    @classmethod
    def of(cls, robots: str, agent: str) -> "Politeness":
        """Parse a `robots.txt`; an empty one has no rules, and invalid lines are ignored."""
        lines = robots[:_MOST_ROBOTS].lstrip("\ufeff").splitlines()
        return cls(Protego.parse("\n".join(lines[:_MOST_RULES])), agent)

    def allows(self, address: str) -> bool:
        """Return whether a page may be read."""
        return bool(self.rules.can_fetch(address, self.agent))

    def delay(self, *, least: float, most: float) -> float:
        """Return the seconds to wait between two pages."""
        delay = self.rules.crawl_delay(self.agent)
        return min(most, max(least, float(delay))) if delay else least


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
"""The supported media types, with their suffixes, by which formats recognize files."""
_PACKED = frozenset({"application/gzip", "application/x-gzip"})
_MOST_SITEMAPS = 50
_ASKS_NOTHING = range(400, 500)
_EVERYTHING = "User-agent: *\nDisallow: /"
_APART = " | "
"""Separates the digest of a page and the server's validators in a fingerprint."""
_APART_IN_LIST = "\n"
_MOST_SITEMAP = 50_000_000  # the maximum of the protocol
_UTF_8 = frozenset({"", "utf-8", "utf8"})
"""Charsets for which no conversion is needed."""


@dataclass(frozen=True, slots=True)
class CrawlPace:
    """Limits for crawling a sitemap or list: the number of pages, and the seconds between them."""

    pages: int = 500
    delay: float = 1.0
    most_delay: float = 30.0
    looked_at: int = 5_000
    """The number of addresses that are checked with `robots.txt`."""
    pause: Callable[[float], None] = time.sleep


@dataclass(frozen=True, slots=True)
class UrlAdapter:
    """Reads a page. A sitemap gives a source per page on its own host.

    A target of several lines is a list with an address per line; blank lines, and lines that begin with #, are skipped.

    Unchanged pages (304) are not fetched again; a missing page archives its source. A requested address is fetched
    regardless of `robots.txt`; listed pages only if it allows them.
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
        """Return the normal form of the address, or of the first one in a list. Raises `InvalidInput`."""
        if _APART_IN_LIST not in target:
            return parse_address(target).text
        first = next((place for place in _addresses(target) if isinstance(place, WebAddress)), None)
        if first is None:
            raise InvalidInput("The list contains no addresses.", hint="Give one http or https address per line.")
        return first.text

    def count(self, target: str, options: Mapping[str, Any]) -> int | None:
        """Return `None`, because the number of pages is unknown before they are read."""
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
        request = _Request(known, limits, redact_secrets)
        if _APART_IN_LIST in target:
            return self._visited(_addresses(target), {}, request)
        return self._readings(parse_address(target), request)

    def _readings(self, address: WebAddress, request: "_Request") -> Iterator[Reading]:
        try:
            page = self.fetcher.fetch(address, types=tuple(_ENDINGS), known=request.validators(address))
            listed = _sitemap_of(page)
        except FetchRefused as error:
            yield Failed(address.text, str(error))
            return
        if listed is None:
            yield self._reading(address, page, request)
        else:
            yield from self._listed(address, listed, request)

    def _listed(self, address: WebAddress, sitemap: Sitemap, request: "_Request") -> Iterator[Reading]:
        politeness = self._politeness(address)
        places = self._places(address, sitemap, self._wait(politeness))
        yield from self._visited(places, {address.root: politeness}, request, only=address)

    def _visited(
        self,
        places: Iterator[WebAddress | Failed],
        sites: dict[str, Politeness],
        request: "_Request",
        *,
        only: WebAddress | None = None,
    ) -> Iterator[Reading]:
        """Read pages one after another. `sites` are the known rules of their servers."""
        read = looked_at = 0
        for place in _distinct(places, request.limits.max_items):
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
            yield self._page(place, request)

    def _wait(self, politeness: Politeness) -> float:
        return politeness.delay(least=self.pace.delay, most=self.pace.most_delay)

    def _places(self, address: WebAddress, sitemap: Sitemap, wait: float) -> Iterator[WebAddress | Failed]:
        """Yield the pages of a sitemap, and of those in an index."""
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

    def _page(self, address: WebAddress, request: "_Request") -> Reading:
        try:
            page = self.fetcher.fetch(address, types=tuple(_ENDINGS), known=request.validators(address))
            if _sitemap_of(page) is not None:
                return Failed(address.text, "it is a sitemap: give its address on its own")
            return self._reading(address, page, request)
        except FetchRefused as error:
            return Failed(address.text, str(error))

    def _reading(self, address: WebAddress, page: FetchedPage | NotModified | Missing, request: "_Request") -> Reading:
        origin = address.text
        before = request.fingerprint(address)
        match page:
            case NotModified():
                return Unchanged(origin)
            case Missing() if before:
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
            limits=request.limits,
            redact_secrets=request.redact_secrets,
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
            page = self.fetcher.fetch(joined(address, "/robots.txt"), types=None)
        except FetchRefused as error:
            # RFC 9309: an error of the server (5xx) forbids everything, an unavailable file (4xx) nothing.
            return Politeness.of("" if error.status in _ASKS_NOTHING else _EVERYTHING, agent)
        return Politeness.of(page.data.decode("utf-8", "replace") if isinstance(page, FetchedPage) else "", agent)


@dataclass(frozen=True, slots=True)
class _Request:
    known: AlreadyRead
    limits: ReadLimits
    redact_secrets: bool

    def fingerprint(self, address: WebAddress) -> str:
        """Return the stored fingerprint of a page, or an empty text."""
        origin = address.text
        return self.known.fingerprints.get(origin) or self.known.below(origin).get(origin, "")

    def validators(self, address: WebAddress) -> Validators | None:
        fingerprint = self.fingerprint(address)
        parts = fingerprint.split(_APART)
        return Validators(parts[1], parts[2]) if len(parts) == 3 and not is_read_in_part(fingerprint) else None


def _addresses(text: str) -> Iterator[WebAddress | Failed]:
    """Parse a list with an address per line. Invalid lines are not quoted, because they may contain anything."""
    for number, line in enumerate(text.split(_APART_IN_LIST), start=1):
        address = line.strip().removeprefix("\ufeff")
        if not address or address.startswith("#"):
            continue
        try:
            yield address_of(address)
        except FetchRefused as error:
            yield Failed(f"line {number}", str(error))


def _distinct(places: Iterator[WebAddress | Failed], most: int) -> Iterator[WebAddress | Failed | Skipped]:
    """Yield each address once, and report it if there are more than `most`."""
    seen = set[str]()
    for place in places:
        if isinstance(place, Failed):
            yield place
        elif place.text not in seen:
            if len(seen) >= most:
                yield Skipped(place.text, f"it exceeds the limit max_items of {most:,}, like all items after it")
                return
            seen.add(place.text)
            yield place


def _without_query(final: WebAddress, requested: WebAddress) -> str:
    """Return the final address of a page. After a redirect, its query may be a signature for one visit."""
    return final.text if final == requested else final.text.partition("?")[0]


def _sitemap_of(page: FetchedPage | NotModified | Missing) -> Sitemap | None:
    if not isinstance(page, FetchedPage):
        return None
    data = unpacked(page.data, _MOST_SITEMAP) if page.type in _PACKED else page.data
    return parse_sitemap(data) if is_sitemap(data) else None


def _in_utf_8(page: FetchedPage) -> bytes:
    """Return text in UTF-8, which formats expect, if the server states its charset."""
    if page.charset in _UTF_8 or not (page.type.startswith("text/") or page.type.endswith(("xml", "json"))):
        return page.data
    decoded = decode(page.data, declared=page.charset)
    return decoded.text.encode() if decoded else page.data


def _file_name(page: FetchedPage) -> str:
    """Return a file name for a page."""
    ending = _ENDINGS.get(page.type, "")
    name = PurePosixPath(page.address.path.partition("?")[0]).name or "index"
    return name if PurePosixPath(name).suffix.lower() == ending else f"{name}{ending}"


def _title(draft: SourceDraft, origin: str) -> str:
    return draft.title if draft.title and not draft.title.endswith(tuple(_ENDINGS.values())) else origin
