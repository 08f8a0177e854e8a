"""Doc comments and docstrings: where the lines about a definition begin, and what they say without markers."""

import re
from collections.abc import Sequence

from treering.edges.sources.code.languages import CodeLanguage

_MARKER = re.compile(r"^(?:/\*\*?!?|//[/!]?|\*(?!/)|#+!?|=begin)?[ \t]*")
_CLOSER = re.compile(r"(?<![ \t])[ \t]*+(?:(?<!\*)\*++/|=end)$")
_LICENCE = re.compile(r"copyright|licen[cs]e|SPDX-|all rights reserved", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"@\w|#!?\[")
_PREAMBLE = ("#!", "<?php", "'use strict'", '"use strict"', "# -*-", "# frozen_string_literal")
_DOCSTRING = re.compile(rb"[rRuUbB]{0,2}(\"\"\"|'''|\"|')")
_BEFORE_DOCSTRING = re.compile(rb"(?:\xef\xbb\xbf)?(?:[ \t\f]*(?:#[^\n]*)?\r?\n)*")


def lead_row(lines: Sequence[str], row: int, language: CodeLanguage) -> int:
    """Find the row (0-based) where the comments and attributes directly above `row` begin; `row` if none."""
    while row > 0:
        above = _lead_above(lines, row, language)
        if above == row:
            break
        row = above
    return row


def comment_text(lines: Sequence[str]) -> str:
    """Read the words of comment lines: no markers, no attributes, no rulers; `""` for a licence."""
    kept: list[str] = []
    in_attribute = False
    for line in lines:
        bare = line.strip()
        if in_attribute or _ATTRIBUTE.match(bare):
            in_attribute = (in_attribute or bare.startswith("#[")) and not bare.endswith("]")
            continue
        words = _CLOSER.sub("", _MARKER.sub("", bare, count=1))
        if any(map(str.isalnum, words)) or (kept and not words):
            kept.append(words)
    text = "\n".join(kept).strip()
    return "" if _LICENCE.search(text) else text


def docstring_at(data: bytes, start: int) -> str:
    """Read the string literal that starts at byte `start`, each line stripped; `""` where there is none."""
    opened = _DOCSTRING.match(data, start)
    if not opened:
        return ""
    end = data.find(opened[1], opened.end())
    raw = data[opened.end() : end if end >= 0 else len(data)].decode("utf-8", "replace")
    return "\n".join(line.strip() for line in raw.strip().splitlines())


def module_docstring(data: bytes) -> str:
    """Read the docstring of a whole Python file."""
    before = _BEFORE_DOCSTRING.match(data)
    return docstring_at(data, before.end() if before else 0)


def module_comment(lines: Sequence[str], language: CodeLanguage, taken: frozenset[int]) -> str:
    """Read the comment a file opens with, past its licence. `taken`: rows that document a definition."""
    row = 0
    while row < len(lines):
        bare = lines[row].strip().lstrip("\ufeff")
        if not bare or bare.startswith(_PREAMBLE):
            row += 1
            continue
        end = _comment_end(lines, row, language)
        text = comment_text(lines[row:end])
        if text or end == row:
            return "" if row in taken else text
        row = end
    return ""


def _lead_above(lines: Sequence[str], row: int, language: CodeLanguage) -> int:
    bare = lines[row - 1].strip()
    if not bare or bare.startswith(("//!", "#!")):
        return row
    for opener, closer in language.blocks:
        if bare.endswith(closer) and not bare.startswith(language.leads):
            return _block_start(lines, row, opener)
    return row - 1 if bare.startswith(language.leads) else row


def _block_start(lines: Sequence[str], row: int, opener: str) -> int:
    for start in range(row - 1, max(row - 200, 0) - 1, -1):
        found = lines[start].find(opener)
        if found >= 0:
            return start if not lines[start][:found].strip() else row
    return row


def _comment_end(lines: Sequence[str], row: int, language: CodeLanguage) -> int:
    """Return the row after the run of comment lines that starts at `row`; `row` where none starts."""
    closer = ""
    for at in range(row, len(lines)):
        bare = lines[at].strip().lstrip("\ufeff")
        closer = closer or next((end for start, end in language.blocks if bare.startswith(start)), "")
        if closer:
            closer = "" if closer in bare else closer
        elif not bare or not bare.startswith(language.leads):
            return at
    return len(lines)
