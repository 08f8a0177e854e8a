"""Markdown from stored text: the text is shown as written, never interpreted as markup."""

import re
from collections.abc import Sequence

from treering.core.characters import visible, without_invisible
from treering.core.counting import counted_things
from treering.extensions.wiki.repository.prose import Words, cut, words_of

SHORT_TEXT_CHARS = 400

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
_SPACES = re.compile(r"\s+")
_SPECIAL = re.compile(r"[\\`*\[\]<&|{}$~^#]|={2,}|(?<![^\W_])_|_(?![^\W_])|!(?=\[)")
_ENTITIES = {"<": "&lt;", "&": "&amp;", "$": "&#36;", "~": "&#126;", "^": "&#94;"}
_BLOCK_START = re.compile(r"(>|[-+](?=\s|$)|-{2,}|\d{1,9}(?=[.)])|[:=?!]{2,}|:(?=\s)|\t)")
_BACKTICKS = re.compile(r"`+")
_LANGUAGE = re.compile(r"[A-Za-z0-9+#.-]{1,20}")


def one_line(text: str) -> str:
    """Join a text into one line, without control and invisible characters."""
    return _SPACES.sub(" ", _CONTROLS.sub(" ", without_invisible(text))).strip()


def plain(text: str) -> str:
    """Escape a text for use within a line."""
    return _SPECIAL.sub(_escaped, one_line(text))


def code(text: str) -> str:
    """Format a text as inline code, or as plain text if it contains a pipe or backtick, which a table cannot hold."""
    line = one_line(text)
    if "|" in line or "`" in line:
        return plain(line)
    return f"`{line}`" if line else ""


def shown(words: Sequence[Words]) -> str:
    """Format words as inline Markdown."""
    parts = []
    for one in words:
        marked = code(one.text) if one.code else plain(one.text)
        before = " " if one.text[:1].isspace() and marked else ""
        after = " " if one.text[-1:].isspace() and marked.strip() and len(one.text) > 1 else ""
        parts.append(f"{before}{marked}{after}" if marked else " " * bool(one.text))
    return "".join(parts).strip()


def short_text(text: str) -> str:
    """Format stored text as one line of Markdown, cut to `SHORT_TEXT_CHARS`."""
    return shown(cut(words_of(text), SHORT_TEXT_CHARS))


def paragraph(words: Sequence[Words]) -> str:
    """Format words as a paragraph."""
    return paragraph_start(shown(words))


def paragraph_start(markdown: str) -> str:
    """Escape the start of inline Markdown, so that it begins a paragraph and not a list, quotation or rule."""
    found = _BLOCK_START.match(markdown)
    if not found:
        return markdown
    sign = found[1]
    if sign.isdigit():
        return f"{sign}\\{markdown[len(sign) :]}"
    return "".join(f"&#{ord(one)};" for one in sign) + markdown[len(sign) :]


def link(label: str, target: str) -> str:
    """Return a link. `label` is Markdown; `target` is an escaped address."""
    return f"[{label}]({target})" if label else ""


def fenced(text: str, language: str = "") -> str:
    """Return a fenced code block."""
    body = visible(text.replace("\r\n", "\n")).rstrip("\n")
    longest = max((len(run) for run in _BACKTICKS.findall(body)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language if _LANGUAGE.fullmatch(language) else ''}\n{body}\n{fence}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table, or "" without rows. Cells are one line of Markdown with escaped pipes."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines) if rows else ""


def bullets(items: Sequence[str]) -> str:
    """Return a list, or "" without items. Items are one line of Markdown."""
    return "\n".join(f"- {item}" for item in items)


def remainder(count: int, thing: str, things: str = "") -> str:
    """Return "3 more files." for the entries that are not shown, or "" if there are none."""
    return f"{counted_things(count, thing, things)}." if count > 0 else ""


def _escaped(found: re.Match[str]) -> str:
    sign = found[0]
    return "&#61;" * len(sign) if sign[0] == "=" else _ENTITIES.get(sign) or f"\\{sign}"
