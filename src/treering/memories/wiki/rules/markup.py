"""Markdown made of stored text that may hold anything: what is written here is shown, and never obeyed.

The pages hold no raw HTML at all, so that every reader of Markdown may refuse it. What is written renders the same in
CommonMark, GitHub's Markdown and Python-Markdown: characters that only some of these let a backslash escape become
entities.
"""

import re
from collections.abc import Sequence

from treering.core.characters import visible, without_invisible

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]+")
_SPACES = re.compile(r"\s+")
_SPECIAL = re.compile(r"[\\`*\[\]<&|{}$~^#]|={2,}|(?<![^\W_])_|_(?![^\W_])|!(?=\[)")
_ENTITIES = {"<": "&lt;", "&": "&amp;", "$": "&#36;", "~": "&#126;", "^": "&#94;"}
_BLOCK_START = re.compile(r"(>|[-+](?=\s|$)|-{2,}|\d{1,9}(?=[.)])|[:=?!]{2,}|:(?=\s)|\t)")
_UNSAFE_IN_PATH = re.compile(r"[^A-Za-z0-9/._~-]")
_BACKTICKS = re.compile(r"`+")
_LANGUAGE = re.compile(r"[A-Za-z0-9+#.-]{1,20}")


def one_line(text: str) -> str:
    """Return a text as one line, without controls and invisible characters."""
    return _SPACES.sub(" ", _CONTROLS.sub(" ", without_invisible(text))).strip()


def plain(text: str) -> str:
    """Return a text as words inside of a line: nothing in it is markup."""
    return _SPECIAL.sub(_escaped, one_line(text))


def opening(markdown: str) -> str:
    """Return inline Markdown as the beginning of a paragraph: nothing in it begins a list, a rule or the like."""
    found = _BLOCK_START.match(markdown)
    if not found:
        return markdown
    sign = found[1]
    if sign.isdigit():
        return f"{sign}\\{markdown[len(sign) :]}"
    return "".join(f"&#{ord(one)};" for one in sign) + markdown[len(sign) :]


def code(text: str) -> str:
    """Return a text as code inside of a line, also of a table; as plain words where no table could hold that code."""
    line = one_line(text)
    if not line:
        return ""
    if "|" in line or "`" in line:
        return plain(line)
    return f"`{line}`"


def link(label: str, target: str) -> str:
    """Return a link; `label` is Markdown, `target` an address that was escaped before."""
    return f"[{label}]({target})" if label else ""


def fenced(text: str, language: str = "") -> str:
    """Return a text as a block of code."""
    shown = visible(text.replace("\r\n", "\n")).rstrip("\n")
    longest = max((len(run) for run in _BACKTICKS.findall(shown)), default=0)
    fence = "`" * max(3, longest + 1)
    named = language if _LANGUAGE.fullmatch(language) else ""
    return f"{fence}{named}\n{shown}\n{fence}"


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table. Cells are Markdown of one line, in which every pipe was escaped before."""
    lines = [_row(heads), _row(["---"] * len(heads)), *map(_row, rows)]
    return "\n".join(lines)


def bullets(items: Sequence[str]) -> str:
    """Return a list. Items are Markdown of one line."""
    return "\n".join(f"- {item}" for item in items)


def page_target(path: str, anchor: str = "") -> str:
    """Return the address of another page of the wiki."""
    return f"page:{_quoted(path)}" + (f"#{anchor}" if anchor else "")


def source_target(path: str, first: int, last: int) -> str:
    """Return the address of lines of a file, whose path is percent-encoded."""
    return f"source:{_quoted(path)}#L{first}-L{last}"


def blocks(*parts: str) -> str:
    """Join blocks of Markdown with an empty line between; empty ones are left out."""
    return "\n\n".join(part for part in parts if part)


def _escaped(found: re.Match[str]) -> str:
    sign = found[0]
    return "&#61;" * len(sign) if sign[0] == "=" else _ENTITIES.get(sign) or f"\\{sign}"


def _row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _quoted(path: str) -> str:
    return _UNSAFE_IN_PATH.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), path)
