"""Configuration and data files: where their top-level blocks begin, and what these are called."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from treering.edges.sources.lines import is_blank

Names = dict[int, str]
"""The name of a block by the line (from 0) it starts on; an empty name where it has none."""


def top_level_blocks(path: str, lines: Sequence[str]) -> Names:
    """Find the blocks by the look of their first lines, so that a broken or commented file is cut as well.

    A block begins at a table header of TOML and INI, an unindented key of YAML, a member of the outermost
    object or array of indented JSON, an element below the root of indented XML, else at each line.
    Comment lines right above belong to it.
    """
    opener = _opener(PurePosixPath(path).suffix.lower(), lines)
    blocks = {}
    for at, line in enumerate(lines):
        found = None if _COMMENT.match(line) else opener.match(line)
        if found:
            blocks[_with_comments(lines, at)] = (found["name"] or "").strip("\"' ")
    return blocks


_TABLE = re.compile(r"\[\[?(?P<name>[^\[\]\n]{1,200})\]")
_KEY = re.compile(r"(?P<name>[^\s#:\-][^:#\n]{0,100}):(?:\s|$)|---|-\s")
_LINE = re.compile(r"(?P<name>)\S")
_OPENERS = {
    **dict.fromkeys((".toml", ".ini", ".cfg", ".editorconfig", ".conf", ".lock"), _TABLE),
    **dict.fromkeys((".yaml", ".yml"), _KEY),
}
_MEMBER = r'(?:"(?P<name>[^"\n]{1,200})"\s{0,4}:|[\[{"\d])'
_ELEMENT = r"<(?P<name>[\w:.-]{1,100})"
_INDENTED_OPENERS = {
    **dict.fromkeys((".json", ".jsonc", ".json5", ".ipynb", ".geojson", ".webmanifest"), _MEMBER),
    **dict.fromkeys((".xml", ".csproj", ".svg", ".xsd", ".plist", ".props"), _ELEMENT),
}
_INDENT = re.compile(r"[ \t]+(?=\S)")
_COMMENT = re.compile(r"[ \t]*(?:#|;|//)")


def _opener(suffix: str, lines: Sequence[str]) -> re.Pattern[str]:
    opening = _INDENTED_OPENERS.get(suffix)
    if opening is None:
        return _OPENERS.get(suffix, _LINE)
    # What stands directly below the root is indented as the first indented line is.
    indent = next((found[0] for line in lines if (found := _INDENT.match(line))), "")
    return re.compile(re.escape(indent) + opening)


def _with_comments(lines: Sequence[str], at: int) -> int:
    while at and not is_blank(lines[at - 1]) and _COMMENT.match(lines[at - 1]):
        at -= 1
    return at
