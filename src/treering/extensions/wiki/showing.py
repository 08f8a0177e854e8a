"""Pages as HTML for a browser on this machine, and the local server that shows them: nothing in a page is obeyed."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qs, urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token

from treering.core.characters import visible
from treering.core.errors import NotFound, TreeringError, Unavailable
from treering.core.secrets.redaction import redact
from treering.extensions.wiki.diagrams import draw_diagram, parse_diagram
from treering.extensions.wiki.files.links import heading_anchors, quoted_path, unquoted
from treering.extensions.wiki.files.manifest import (
    INDEX,
    LOG,
    MANIFEST,
    WikiManifest,
    is_page_path,
    read_manifest,
    without_matter,
)
from treering.sources.reading.folder import place_in, read_bytes

STYLE = "/-/style.css"
"""Where the browser finds the style sheet."""

POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""What a browser may load with a page: its style sheet. No script runs, and no image is fetched."""

_MOST_BYTES = 4 * 1024 * 1024
_OURS = re.compile(r"^(?: {0,3}<!--\s*treering:(?:keep|end)\s*-->|<a id=\"[^\"\n]*\"></a>)[ \t]*$", re.MULTILINE)
_PURPOSE = re.compile(r"^(\* \[.*\]\([^)\n]*\)) - .*$", re.MULTILINE)
_WEB = re.compile(r"(?:https?:|mailto:)", re.IGNORECASE)
_DIAGRAM = "<details><summary>The diagram as text (Mermaid)</summary>\n"
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


SOURCE = "/-/source/"
"""Below which the browser finds the files that pages cite."""


@dataclass(frozen=True)
class CitedFiles:
    """The files of the work tree around a wiki that its pages cite: no others are shown."""

    top: Path
    wiki: tuple[str, ...]
    """The parts of the path of the wiki below the top."""
    paths: frozenset[str]

    @classmethod
    def around(cls, folder: Path) -> "CitedFiles":
        """Return those of the wiki in a folder: of the git repository that it lies in, else of the folder around it."""
        place = folder.resolve()
        top = next((one for one in place.parents if (one / ".git").exists()), place.parent)
        try:
            manifest = read_manifest(read_bytes(place / MANIFEST, _MOST_BYTES) or b"", place=MANIFEST)
        except (OSError, TreeringError):
            manifest = WikiManifest()
        paths = {one.path for file in manifest.files.values() for one in file.cited}
        return cls(top, place.relative_to(top).parts, frozenset(paths))

    def text(self, path: str) -> str | None:
        """Return the text of a cited file as it lies now, secrets redacted; `None` for any other."""
        place = place_in(self.top, path)
        if path not in self.paths or not place.resolve().is_relative_to(self.top):
            return None
        text = _text_at(place)
        return None if text is None or "\0" in text else redact(text).text


@dataclass(frozen=True, slots=True)
class WikiBrowser:
    """Shows the pages of one folder, and the files they cite. Links in the place of pages are not followed."""

    folder: Path

    def html(self, address: str) -> str | None:
        """Return a page as HTML, by the path of its address; `None` where there is none."""
        path = unquoted(address.removeprefix("/")) or INDEX
        text = self._text(path)
        if text is None:
            return None
        body = without_matter(text)
        shown = html_of(body, path, headings=True, cited=CitedFiles.around(self.folder))
        return self._page(_title(body) or path, _status(text), shown)

    def source_html(self, address: str, lines: str) -> str | None:
        """Return a cited file as HTML, `lines` such as `10-20` set off; `None` for a file that no page cites."""
        path = unquoted(address.removeprefix(SOURCE))
        text = CitedFiles.around(self.folder).text(path)
        if text is None:
            return None
        found = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", lines)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (0, 0)
        rows = (
            f'<span class="line{" cited" if first <= at <= last else ""}" id="L{at}">{escape(visible(line))}\n</span>'
            for at, line in enumerate(text.splitlines(), 1)
        )
        body = f'<h1><code>{escape(path)}</code></h1>\n<pre class="source" tabindex="0">{"".join(rows)}</pre>'
        return self._page(path, "current file", body)

    def _page(self, title: str, status: str, body: str) -> str:
        index = without_matter(self._text(INDEX) or "")
        return _PAGE.format(
            title=escape(title),
            style=STYLE,
            index="/" + quoted_path(INDEX),
            log="/" + quoted_path(LOG),
            status=escape(status),
            navigation=html_of(_PURPOSE.sub(r"\1", index), INDEX, headings=False),
            body=body,
        )

    def _text(self, path: str) -> str | None:
        place = self.folder / path
        if not is_page_path(path) or not place.resolve().is_relative_to(self.folder.resolve()):
            return None
        return _text_at(place)


def _text_at(place: Path) -> str | None:
    try:
        data = read_bytes(place, _MOST_BYTES)
    except OSError:
        return None
    return None if data is None or len(data) > _MOST_BYTES else data.decode("utf-8", "replace")


def style_sheet() -> bytes:
    """Return the style sheet of all pages."""
    return (files("treering.extensions.wiki") / "style.css").read_bytes()


def html_of(body: str, path: str, *, headings: bool, base: str = "/", cited: CitedFiles | None = None) -> str:
    """Return the Markdown of a page as HTML in which nothing is obeyed.

    Links to pages lead below `base`, and those to `cited` files to where the browser shows these.
    """
    shown = _OURS.sub("", body)
    tokens = _MARKDOWN.parse(shown)
    tokens = [part for token in tokens for part in (_folded(token) if _is_diagram(token) else [token])]
    anchors = {one.line: one.forge for one in heading_anchors(shown)} if headings else {}
    for token in tokens:
        if token.type == "heading_open" and token.map and token.map[0] in anchors:
            token.attrSet("id", anchors[token.map[0]])
        if token.children:
            token.children = _with_safe_links(token.children, partial(_address, path=path, base=base, cited=cited))
    return str(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))


def _is_diagram(token: Token) -> bool:
    return token.type == "fence" and token.info.strip() == "mermaid"


def _folded(token: Token) -> list[Token]:
    """Draw a diagram, and fold its text behind it."""
    diagram = parse_diagram(token.content)
    drawn = f'<div class="diagram-frame" tabindex="0">{draw_diagram(diagram)}</div>\n' if diagram else ""
    before, after = (Token("html_block", "", 0, content=text) for text in (drawn + _DIAGRAM, "</details>\n"))
    return [before, token, after]


def _with_safe_links(tokens: list[Token], address: Callable[[str], str | None]) -> list[Token]:
    """Make links that lead to no page here plain text; pages are found from the root, so that any of them can link."""
    made, dropped = list[Token](), list[bool]()
    for token in tokens:
        if token.type == "link_open":
            where = address(str(token.attrGet("href") or ""))
            dropped.append(where is None)
            if where is None:
                continue
            token.attrSet("href", where)
            if _WEB.match(where):
                token.attrSet("rel", "noopener noreferrer")
        elif token.type == "link_close" and dropped.pop():
            continue
        elif token.type == "image":  # its text stands for it
            made += _with_safe_links(token.children or [], address)
            continue
        made.append(token)
    return made


def _address(target: str, *, path: str, base: str, cited: CitedFiles | None) -> str | None:
    if _WEB.match(target) or target.startswith("#"):
        return target
    way, mark, fragment = target.partition("#")
    around = cited.wiki if cited else ()
    parts = [*around, *path.split("/")[:-1]]
    for name in unquoted(way).split("/"):
        if name == "..":
            if not parts:
                return None
            parts.pop()
        elif name not in ("", "."):
            parts.append(name)
    if tuple(parts[: len(around)]) == around and is_page_path(page := "/".join(parts[len(around) :])):
        return f"{base}{quoted_path(page)}{mark}{fragment}"
    if cited and (file := "/".join(parts)) in cited.paths:
        lines = re.fullmatch(r"L(\d+)(?:-L(\d+))?", fragment)
        said = f"?lines={lines[1]}-{lines[2] or lines[1]}#L{lines[1]}" if lines else ""
        return f"{SOURCE}{quoted_path(file)}{said}"
    return None


def _title(body: str) -> str:
    found = re.search(r"^# (.+)$", body, re.MULTILINE)
    inline = _MARKDOWN.parseInline(found[1]) if found else []
    return "".join(child.content for token in inline for child in token.children or ())


def _status(text: str) -> str:
    """Return what the front matter says of type and status, in a few words."""
    head = text.split("\n---\n", 1)[0]
    said = dict(re.findall(r"^(type|status): ([a-z]+)$", head, re.MULTILINE))
    return " · ".join(said[name] for name in ("type", "status") if name in said)


_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{title}</title>
<link rel="stylesheet" href="{style}">
</head>
<body>
<header><a href="{index}">Pages</a> <a href="{log}">Log</a> <span class="status">{status}</span></header>
<div class="columns">
<nav aria-label="Pages">{navigation}</nav>
<main>
{body}
</main>
</div>
</body>
</html>
"""


# A wiki for the browsers of this machine: read-only, over the loopback interface.


_ADDRESS = "127.0.0.1"
_NAMES = frozenset({"127.0.0.1", "localhost"})
_SECONDS = 30
_NO_PAGE = b"There is no such page."


@contextmanager
def wiki_server(folder: Path, *, port: int = 0) -> Iterator[ThreadingHTTPServer]:
    """Return a server of the pages of a folder that listens already; `serve_forever` answers, `shutdown` ends that.

    Raises `NotFound` if it is not a folder, `Unavailable` where the port is taken.
    """
    if not folder.is_dir():
        raise NotFound(f"The folder {folder} does not exist.", hint="Create the wiki first: treering wiki build.")
    browser = WikiBrowser(folder)
    handler = type("_Handler", (_WikiHandler,), {"browser": browser})
    try:
        server = ThreadingHTTPServer((_ADDRESS, port), handler)
    except OSError as error:
        raise Unavailable(
            f"Cannot use port {port} of {_ADDRESS}: {error.strerror}.", hint="Choose another one with --port, or 0."
        ) from error
    with server:
        yield server


class _WikiHandler(BaseHTTPRequestHandler):
    """Answers GET and HEAD."""

    browser: ClassVar[WikiBrowser]
    timeout = _SECONDS

    def do_GET(self) -> None:
        """Answer with a page or the style sheet."""
        if not self._is_meant():
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, b"This server answers to 127.0.0.1 only.", "text/plain")
            return
        asked = urlsplit(self.path)
        path = asked.path
        if path == STYLE:
            self._answer(HTTPStatus.OK, style_sheet(), "text/css")
            return
        if path.startswith(SOURCE):
            page = self.browser.source_html(path, parse_qs(asked.query).get("lines", [""])[0])
        else:
            page = self.browser.html(path)
        if page is None:
            self._answer(HTTPStatus.NOT_FOUND, _NO_PAGE, "text/plain")
        else:
            self._answer(HTTPStatus.OK, page.encode(), "text/html")

    do_HEAD = do_GET  # noqa: N815 - the name that the library asks for

    def _is_meant(self) -> bool:
        """Tell whether the request names this machine: a name that another site made lead here does not count."""
        return urlsplit(f"//{self.headers.get('Host', '')}").hostname in _NAMES

    def _answer(self, status: HTTPStatus, data: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Content-Security-Policy", POLICY)
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the name that the library has
        """Say nothing of each request."""
