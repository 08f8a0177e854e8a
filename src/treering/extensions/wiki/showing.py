"""Pages of a wiki as safe HTML for a browser on this machine."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from html import escape
from importlib.resources import files
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from treering.core.characters import visible
from treering.core.errors import TreeringError
from treering.core.secrets.redaction import redact
from treering.extensions.wiki.diagrams import draw_diagram, parse_diagram
from treering.extensions.wiki.files.front_matter import without_matter
from treering.extensions.wiki.files.headings import heading_anchors
from treering.extensions.wiki.files.links import quoted_path, unquoted
from treering.extensions.wiki.files.manifest import MANIFEST, WikiManifest, read_manifest
from treering.extensions.wiki.files.page_path import INDEX, LOG, is_page_path
from treering.sources.reading.folder import place_in, read_bytes

STYLE = "/-/style.css"
"""The address of the style sheet."""

POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""A browser may load only the style sheet: no scripts, no images."""

_MOST_BYTES = 4 * 1024 * 1024
_OURS = re.compile(r"^(?: {0,3}<!--\s*treering:(?:keep|end)\s*-->|<a id=\"[^\"\n]*\"></a>)[ \t]*$", re.MULTILINE)
_PURPOSE = re.compile(r"^(\* \[.*\]\([^)\n]*\)) - .*$", re.MULTILINE)
_WEB = re.compile(r"(?:https?:|mailto:)", re.IGNORECASE)
_DIAGRAM = "<details><summary>The diagram as text (Mermaid)</summary>\n"
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


SOURCE = "/-/source/"
"""The address prefix of cited files."""


@dataclass(frozen=True)
class CitedFiles:
    """The files around a wiki that its pages cite; no other files are shown."""

    top: Path
    wiki: tuple[str, ...]
    """The path of the wiki below the top."""
    paths: frozenset[str]

    @classmethod
    def around(cls, folder: Path) -> "CitedFiles":
        """Return the cited files of the wiki in a folder, from its git repository, else from its parent folder."""
        place = folder.resolve()
        top = next((one for one in place.parents if (one / ".git").exists()), place.parent)
        try:
            manifest = read_manifest(read_bytes(place / MANIFEST, _MOST_BYTES) or b"", place=MANIFEST)
        except (OSError, TreeringError):
            manifest = WikiManifest()
        paths = {one.path for file in manifest.files.values() for one in file.cited}
        return cls(top, place.relative_to(top).parts, frozenset(paths))

    def text(self, path: str) -> str | None:
        """Return the current text of a cited file with redacted secrets, or `None` for any other file."""
        place = place_in(self.top, path)
        if path not in self.paths or not place.resolve().is_relative_to(self.top):
            return None
        text = _text_at(place)
        return None if text is None or "\0" in text else redact(text).text


@dataclass(frozen=True, slots=True)
class WikiBrowser:
    """Shows the pages of one folder and the files they cite. Symbolic links are not followed."""

    folder: Path

    def html(self, address: str) -> str | None:
        """Return a page as HTML by the path of its address, or `None` if it does not exist."""
        path = unquoted(address.removeprefix("/")) or INDEX
        text = self._text(path)
        if text is None:
            return None
        body = without_matter(text)
        shown = html_of(body, path, headings=True, cited=CitedFiles.around(self.folder))
        return self._page(_title(body) or path, _status(text), shown)

    def source_html(self, address: str, lines: str) -> str | None:
        """Return a cited file as HTML with highlighted `lines`, such as `10-20`; `None` if no page cites it."""
        path = unquoted(address.removeprefix(SOURCE))
        text = CitedFiles.around(self.folder).text(path)
        if text is None:
            return None
        range_match = re.fullmatch(r"(\d{1,7})(?:-(\d{1,7}))?", lines)
        first, last = (int(range_match[1]), int(range_match[2] or range_match[1])) if range_match else (0, 0)
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
    """Return the Markdown of a page as HTML, without raw HTML and unsafe links.

    Links to pages get addresses below `base`, links to `cited` files below `SOURCE`.
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
    """Draw a diagram, followed by its collapsed text."""
    diagram = parse_diagram(token.content)
    drawn = f'<div class="diagram-frame" tabindex="0">{draw_diagram(diagram)}</div>\n' if diagram else ""
    before, after = (Token("html_block", "", 0, content=text) for text in (drawn + _DIAGRAM, "</details>\n"))
    return [before, token, after]


def _with_safe_links(tokens: list[Token], address: Callable[[str], str | None]) -> list[Token]:
    """Rewrite links to pages as absolute addresses, and replace other links and images by their text."""
    safe, dropped = list[Token](), list[bool]()
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
        elif token.type == "image":
            safe += _with_safe_links(token.children or [], address)
            continue
        safe.append(token)
    return safe


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
        query = f"?lines={lines[1]}-{lines[2] or lines[1]}#L{lines[1]}" if lines else ""
        return f"{SOURCE}{quoted_path(file)}{query}"
    return None


def _title(body: str) -> str:
    heading = re.search(r"^# (.+)$", body, re.MULTILINE)
    inline = _MARKDOWN.parseInline(heading[1]) if heading else []
    return "".join(child.content for token in inline for child in token.children or ())


def _status(text: str) -> str:
    """Return the type and status from the front matter, such as `module · fresh`."""
    head = text.split("\n---\n", 1)[0]
    fields = dict(re.findall(r"^(type|status): ([a-z]+)$", head, re.MULTILINE))
    return " · ".join(fields[name] for name in ("type", "status") if name in fields)


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
