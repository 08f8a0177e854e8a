"""Pages as HTML for a browser on this machine: nothing that is written in a page is obeyed."""

import re
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path

from markdown_it import MarkdownIt
from markdown_it.token import Token

from treering.edges.sources.folder import read_bytes
from treering.edges.wiki_files.link_check import without_matter
from treering.memories.wiki.files.anchors import heading_anchors
from treering.memories.wiki.files.links import quoted_path, unquoted
from treering.memories.wiki.files.page_paths import INDEX, LOG, is_page_path

STYLE = "/-/style.css"
"""Where the browser finds the style sheet."""

POLICY = "default-src 'none'; style-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""What a browser may load with a page: its style sheet. No script runs, and no image is fetched."""

_MOST_BYTES = 4 * 1024 * 1024
_OURS = re.compile(r"^(?: {0,3}<!--\s*treering:(?:keep|end)\s*-->|<a id=\"[^\"\n]*\"></a>)[ \t]*$", re.MULTILINE)
_PURPOSE = re.compile(r"^(\* \[.*\]\([^)\n]*\)) - .*$", re.MULTILINE)
_WEB = re.compile(r"(?:https?:|mailto:)", re.IGNORECASE)
_DIAGRAM = "<details><summary>Diagram, as Mermaid</summary>\n"
_MARKDOWN = MarkdownIt("commonmark", {"html": False}).enable(["table", "strikethrough"])


@dataclass(frozen=True, slots=True)
class WikiBrowser:
    """Shows the pages of one folder. Only Markdown below it is read, and links are not followed."""

    folder: Path

    def html(self, address: str) -> str | None:
        """Return a page as HTML, by the path of its address; `None` where there is none."""
        path = unquoted(address.removeprefix("/")) or INDEX
        text = self._text(path)
        if text is None:
            return None
        index = self._text(INDEX) or ""
        body = without_matter(text)
        return _PAGE.format(
            title=escape(_title(body) or path),
            style=STYLE,
            index="/" + quoted_path(INDEX),
            log="/" + quoted_path(LOG),
            status=escape(_status(text)),
            navigation=html_of(_PURPOSE.sub(r"\1", without_matter(index)), INDEX, headings=False),
            body=html_of(body, path, headings=True),
        )

    def _text(self, path: str) -> str | None:
        place = self.folder / path
        if not is_page_path(path) or not place.resolve().is_relative_to(self.folder.resolve()):
            return None
        try:
            data = read_bytes(place, _MOST_BYTES)
        except OSError:
            return None
        return None if data is None or len(data) > _MOST_BYTES else data.decode("utf-8", "replace")


def style_sheet() -> bytes:
    """Return the style sheet of all pages."""
    return (files("treering.edges.wiki_files") / "style.css").read_bytes()


def html_of(body: str, path: str, *, headings: bool, base: str = "/") -> str:
    """Return the Markdown of a page as HTML in which nothing is obeyed; links to pages lead below `base`."""
    shown = _OURS.sub("", body)
    tokens = _MARKDOWN.parse(shown)
    tokens = [part for token in tokens for part in (_folded(token) if _is_diagram(token) else [token])]
    anchors = {one.line: one.forge for one in heading_anchors(shown)} if headings else {}
    for token in tokens:
        if token.type == "heading_open" and token.map and token.map[0] in anchors:
            token.attrSet("id", anchors[token.map[0]])
        if token.children:
            token.children = _with_safe_links(token.children, path, base)
    return str(_MARKDOWN.renderer.render(tokens, _MARKDOWN.options, {}))


def _is_diagram(token: Token) -> bool:
    return token.type == "fence" and token.info.strip() == "mermaid"


def _folded(token: Token) -> list[Token]:
    """Fold a diagram, which a page without scripts cannot draw."""
    before, after = (Token("html_block", "", 0, content=text) for text in (_DIAGRAM, "</details>\n"))
    return [before, token, after]


def _with_safe_links(tokens: list[Token], path: str, base: str) -> list[Token]:
    """Make links that lead to no page here plain text; pages are found from the root, so that any of them can link."""
    made, dropped = list[Token](), list[bool]()
    for token in tokens:
        if token.type == "link_open":
            where = _address(str(token.attrGet("href") or ""), path, base)
            dropped.append(where is None)
            if where is None:
                continue
            token.attrSet("href", where)
            if _WEB.match(where):
                token.attrSet("rel", "noopener noreferrer")
        elif token.type == "link_close" and dropped.pop():
            continue
        elif token.type == "image":  # its text stands for it
            made += _with_safe_links(token.children or [], path, base)
            continue
        made.append(token)
    return made


def _address(target: str, path: str, base: str) -> str | None:
    if _WEB.match(target) or target.startswith("#"):
        return target
    way, mark, fragment = target.partition("#")
    parts = path.split("/")[:-1]
    for name in unquoted(way).split("/"):
        if name == "..":
            if not parts:
                return None
            parts.pop()
        elif name not in ("", "."):
            parts.append(name)
    page = "/".join(parts)
    return f"{base}{quoted_path(page)}{mark}{fragment}" if is_page_path(page) else None


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
