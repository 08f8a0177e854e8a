"""The edits that a call of a client's tool makes: which files, which symbols, and whether a signature changes."""

import os
import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path, PurePosixPath
from typing import Any

from treering.core.evidence import places_of_lines
from treering.extensions.code.links.used_lines import lines_using
from treering.extensions.code.parsing.outline import CodeOutline, Symbol, outline
from treering.extensions.coding_agents.client_input import object_in
from treering.extensions.conversations.tool_calls import PATCHED, PATH_ARGUMENTS
from treering.retrieval.index.code_names import ANYWHERE, OWN, code_file, read_use

_BEFORE = ("old_string", "oldString", "old_str")
_AFTER = ("new_string", "newString", "new_str")
_PATCHES = ("command", "input", "patch")
_HUNK = re.compile(r"^@@.*$", re.MULTILINE)
_LAYOUT = re.compile(r"\s|,(?=\s*[)\]}])")
_CALLED = ("function", "method", "macro")
_CONSTRUCTORS = frozenset({"__init__", "__new__", "__construct", "constructor", "initialize"})
_WORD = re.compile(r"\w+(?:\.\w+)*")
_MAX_CHARS = 500_000
"""Of a file that is outlined; longer ones have no outline anyway."""
_MAX_SYMBOLS = 3


@dataclass(frozen=True, slots=True)
class Replacement:
    """A text that an edit replaces by another."""

    before: str
    after: str


@dataclass(frozen=True, slots=True)
class FileEdit:
    """The changes of a call to one file, by its path from the top of the repository; empty if it only reads."""

    path: str
    changes: tuple[Replacement, ...] = ()
    content: str | None = None
    """The whole new file, if the tool writes it."""


@dataclass(frozen=True, slots=True)
class TouchedSymbols:
    """The definitions that an edit is in, and those whose signature it changes or removes, by their qualified names."""

    symbols: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    lines: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    """The lines of the file, before the edit, that use a symbol of `signatures` outside of the symbol itself."""
    file: CodeOutline | None = field(default=None, compare=False, repr=False)
    """The file before the edit."""


def file_edits(given: Mapping[str, Any], top: Path) -> list[FileEdit]:
    """Return the changes and reads of a tool, by files below the top of the repository; other files are omitted."""
    call = given.get("tool_input")
    asked = object_in(call) or {"patch": call}
    named = [value for key in PATH_ARGUMENTS if isinstance(value := asked.get(key), str)]
    content = asked.get("content", asked.get("file_text"))
    edits = [
        FileEdit(name, tuple(_replacements(asked)), content if isinstance(content, str) else None) for name in named
    ]
    patch = next((value for key in _PATCHES if isinstance(value := asked.get(key), str)), "")
    found: dict[str, FileEdit] = {}
    for edit in [*edits, *_patched(patch)]:
        place = os.path.relpath(os.path.realpath(Path(given.get("cwd") or top, edit.path)), os.path.realpath(top))
        if not place.startswith(".."):
            path = PurePosixPath(Path(place)).as_posix()
            found.setdefault(path, FileEdit(path, edit.changes, edit.content))
    return list(found.values())


def touched_by(edit: FileEdit, top: Path) -> TouchedSymbols:
    """Return the symbols of a file, as it is now, that an edit touches."""
    text = text_at(edit.path, top)
    changes = replacements_of(edit, top)
    known = [one for one in changes if one.before in text] if text else []
    old = outline(edit.path, text) if known else None
    if old is None:
        return TouchedSymbols()
    after = text
    for one in known:
        after = after.replace(one.before, one.after, 1)
    symbols = dict.fromkeys(name for one in known for name in _innermost(old.symbols, _changed_lines(text, one)))
    new = outline(edit.path, after)
    kept = {(one.qualified, _plain(one.signature)) for one in new.symbols} if new else None
    changed = {
        dotted(one): one
        for one in old.symbols
        if kept is not None and one.kind in _CALLED and (one.qualified, _plain(one.signature)) not in kept
    }
    signatures = tuple(changed)[:_MAX_SYMBOLS]
    lines = {name: _lines_using(changed[name], old, text) for name in signatures}
    return TouchedSymbols(tuple(symbols)[:_MAX_SYMBOLS], signatures, lines, old)


def replacements_of(edit: FileEdit, top: Path) -> Sequence[Replacement]:
    """Return the changes of an edit; of a whole new file, one that replaces its text as it is now."""
    return edit.changes if edit.content is None else (Replacement(text_at(edit.path, top), edit.content),)


def whole_changes_of(edit: FileEdit, top: Path) -> Sequence[Replacement]:
    """Return the whole file before and after an edit; its changes alone if the file does not contain them."""
    changes = replacements_of(edit, top)
    text = after = text_at(edit.path, top) if changes else ""
    for one in changes:
        if one.before not in after:
            return changes
        after = after.replace(one.before, one.after, 1)
    return (Replacement(text, after),) if changes else ()


@dataclass(frozen=True, slots=True)
class ChangedLines:
    """The lines of a file before and after an edit, and the first and last line of each change, from 1, before it."""

    before: Sequence[str] = ()
    after: Sequence[str] = ()
    ranges: Sequence[tuple[int, int]] = ()

    @classmethod
    def of(cls, edit: FileEdit, top: Path) -> "ChangedLines":
        """Return the lines that an edit changes in a file as it is now; none if it only reads or creates the file."""
        text = text_at(edit.path, top)
        if not text:
            return cls()
        changes = [one for one in replacements_of(edit, top) if one.before in text]
        after = text
        for one in changes:
            after = after.replace(one.before, one.after, 1)
        return cls(text.split("\n"), after.split("\n"), [_changed_lines(text, one) for one in changes])

    def include(self, cited: Sequence[str], line: int) -> bool:
        """Return whether a change removes or edits lines which were read at a line and may have moved since."""
        found = [*places_of_lines(cited, self.before)] if self.ranges else []
        if len(found) <= len([*places_of_lines(cited, self.after)]):
            return False
        start = min(found, key=lambda one: abs(one - line))
        return any(first <= start + len(cited) - 1 and start <= last for first, last in self.ranges)


def text_at(path: str, top: Path) -> str:
    """Return the text of a file as it is now; empty without one."""
    with suppress(OSError):
        file = top / path
        return file.read_text(encoding="utf-8", errors="replace") if file.stat().st_size <= _MAX_CHARS else ""
    return ""


def name_in_calls(qualified: str) -> str:
    """Return the qualified name by which code calls a definition: of a constructor, its class."""
    owner, _, name = qualified.rpartition(".")
    is_constructor = name in _CONSTRUCTORS or name == owner.rpartition(".")[2]
    return owner if owner and is_constructor else qualified


def _lines_using(symbol: Symbol, file: CodeOutline, text: str) -> tuple[int, ...]:
    """Return the lines of a file, outside a symbol, that use it or a member of an unknown object with its name.

    An outline has the first use in each definition.
    """
    called = name_in_calls(dotted(symbol))
    name = called.rpartition(".")[2]
    names = {(OWN, called), (ANYWHERE, name), (ANYWHERE, f".{name}")}
    starts = sorted({one.start for one in file.symbols})
    family = one.family if (one := code_file(file.language, symbol.name)) else ""
    lines = text.split("\n")
    used: dict[int, None] = {}
    for first in (line for line, text in file.uses if (use := read_use(text)) and (use.module, use.name) in names):
        at = bisect_right(starts, first)
        part = "\n".join(lines[first - 1 : starts[at] - 1 if at < len(starts) else None])
        more = lines_using(part, name, family, member="." in called)
        used |= dict.fromkeys((first, *(first + line - 1 for line in more)))
    inherited = re.compile(rf"\b(?:super(?:\([^()]*\))?|parent|base)\s*(?:\.|::)\s*{re.escape(name)}\b")
    return tuple(
        line
        for line in sorted(used)
        if not symbol.start <= line <= symbol.end
        and not (inherited.search(lines[line - 1]) and not _inherits(file, line, called))
    )


def _inherits(file: CodeOutline, line: int, method: str) -> bool:
    """Return whether the class around a line inherits a method of a class of the same file."""
    owner, _, member = method.rpartition(".")
    classes = {dotted(one): one for one in file.symbols if one.kind == "class"}
    around = [one for one in classes.values() if one.start <= line <= one.end]
    level, seen = [min(around, key=lambda one: one.end - one.start)] if around else [], set[str]()
    defined = {dotted(one) for one in file.symbols}
    while level:
        bases = {word for one in level for word in _WORD.findall(one.signature)} & classes.keys() - seen
        bases -= {dotted(one) for one in level}
        if owner in bases:
            return True
        seen |= bases
        level = [classes[one] for one in bases if f"{one}.{member}" not in defined]
    return False


def _replacements(asked: Mapping[str, Any]) -> Iterator[Replacement]:
    several = asked.get("edits")
    for one in (asked, *(several if isinstance(several, list) else ())):
        if isinstance(one, Mapping):
            before = next((value for key in _BEFORE if isinstance(value := one.get(key), str)), "")
            after = next((value for key in _AFTER if isinstance(value := one.get(key), str)), "")
            if before or after:  # a replacement of nothing creates a file
                yield Replacement(before, after)


def _patched(patch: str) -> Iterator[FileEdit]:
    """Yield the files of a patch of Codex with the text that each of its hunks replaces, or that a new file has."""
    starts = [*PATCHED.finditer(patch)]
    for start, following in zip_longest(starts, starts[1:]):
        end = following.start() if following else len(patch)
        head, *hunks = _HUNK.split(patch[start.end() : end])
        added = "\n".join(line[1:] for line in head.split("\n") if line.startswith("+"))
        changes = tuple(one for one in map(_hunk, hunks) if one.before.strip())
        yield FileEdit((start[1] or start[2]).strip(), changes, added or None)


def _hunk(text: str) -> Replacement:
    lines = [line for line in text.strip("\n").split("\n") if not line.startswith("***")]
    before, after = ([line[1:] for line in lines if line[:1] in signs] for signs in ((" ", "-", ""), (" ", "+", "")))
    return Replacement("\n".join(before), "\n".join(after))


def _changed_lines(text: str, change: Replacement) -> tuple[int, int]:
    """Return the first and the last line of a text, from 1, that a replacement changes."""
    before, after = change.before.split("\n"), change.after.split("\n")
    head = next((at for at, pair in enumerate(zip(before, after, strict=False)) if pair[0] != pair[1]), len(before) - 1)
    tail = 0
    while tail < min(len(before), len(after)) - head - 1 and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    start = text.count("\n", 0, text.index(change.before)) + 1
    return start + min(head, len(before) - 1), start + max(len(before) - 1 - tail, head)


def _innermost(symbols: Sequence[Symbol], lines: tuple[int, int]) -> list[str]:
    """Return the smallest definition that contains all lines, else the definitions that overlap them."""
    first, last = lines
    around = [one for one in symbols if one.start <= first and last <= one.end]
    if around:
        return [dotted(min(around, key=lambda one: one.end - one.start))]
    return [dotted(one) for one in symbols if one.start <= last and first <= one.end]


def _plain(signature: str) -> str:
    """Return a signature as it is whatever lines it is written on."""
    return _LAYOUT.sub("", signature)


def dotted(symbol: Symbol) -> str:
    """Return the name of a symbol as the index spells it."""
    return symbol.qualified.replace("::", ".")
