"""What a folder's `.gitignore` files leave out, as git reads them, and what is never read.

Patterns are matched here against one path at a time on the way down, as git does; a library that matches whole
paths lets `!keep/` also bring back what lies in `keep/` and another pattern leaves out.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

NEVER_READ = frozenset({".git", ".treering", ".venv", "node_modules", "__pycache__"})


@dataclass(frozen=True, slots=True)
class Pattern:
    """One line of a `.gitignore` file: what it matches, and whether it leaves out or brings back."""

    regex: re.Pattern[str]
    leaves_out: bool
    folders_only: bool


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that hold in a folder: its own and those of the folders above, the nearest first."""

    sets: tuple[tuple[str, tuple[Pattern, ...]], ...] = ()
    """The folder a set of rules stands in (relative to the root, empty or ending in `/`), and the rules."""

    def below(self, folder: Path, relative: str) -> "IgnoreRules":
        """Add the rules that `folder` itself sets. `relative` is its path from the root, empty for the root."""
        own = tuple(parse_patterns(_lines_in(folder)))
        return IgnoreRules(((f"{relative}/" if relative else "", own), *self.sets)) if own else self

    def leave_out(self, relative: str, *, folder: bool) -> bool:
        """Tell whether a path (from the root) is left out. What lies in a folder left out is never asked for."""
        if relative.rpartition("/")[2] in NEVER_READ:
            return True
        for base, patterns in self.sets:
            path = relative.removeprefix(base)
            for pattern in reversed(patterns):
                if (folder or not pattern.folders_only) and pattern.regex.fullmatch(path):
                    return pattern.leaves_out
        return False


def parse_patterns(lines: Sequence[str]) -> Iterator[Pattern]:
    """Read the lines of a `.gitignore` file, each once. Like git, pass over a pattern that cannot be read.

    Of a file with very many lines the last ones are read, which decide.
    """
    # The same line again changes nothing but which of two is the last to match.
    latest = list(dict.fromkeys(reversed(lines)))[:_MOST_LINES]
    for line in reversed(latest):
        glob = _without_trailing_space(line.removesuffix("\r"))
        if not glob or glob.startswith("#"):
            continue
        leaves_out = not glob.startswith("!")
        glob = glob.removeprefix("!")
        folders_only = glob.endswith("/")
        glob = glob.removesuffix("/")
        try:
            if 0 < len(glob) <= _LONGEST_PATTERN:
                yield Pattern(re.compile(_regex(glob), re.DOTALL), leaves_out, folders_only)
        except re.error:
            continue


_LONGEST_RULES = 1_000_000
_MOST_LINES = 5_000
_LONGEST_PATTERN = 4_096  # of a path on Linux
_GLOB = re.compile(
    r"(?P<star>\*+)|(?P<one>\?)|\[(?P<negated>[!^]?)(?P<chars>\]?(?:\[:\w{1,9}:\]|\\.|[^\]\\]){0,200})\]"
    r"|\\(?P<escaped>.)|(?P<plain>.)",
    re.DOTALL,
)
_CLASSES = {"alpha": "a-zA-Z", "digit": "0-9", "alnum": "a-zA-Z0-9", "upper": "A-Z", "lower": "a-z", "space": r"\s"}
_POSIX = re.compile(r"\[:(\w+):\]")
_FOLDERS = r"(?:[^/]+/)*"


def _without_trailing_space(line: str) -> str:
    """Return a line without the spaces at its end; one behind a backslash stays."""
    bare = line.rstrip(" \t")
    return line[: len(bare) + 1] if bare.endswith("\\") else bare


def _regex(glob: str) -> str:
    """Translate a pattern. One with a slash inside starts at its folder, another matches a name at any depth.

    What stands between two wildcards is taken where it first occurs and kept (atomic groups), so that no
    pattern makes matching slow.
    """
    parts = glob.removeprefix("/").split("/") if "/" in glob else ["**", glob]
    runs: list[list[str]] = [[]]
    for part in parts:
        if part == "**":
            runs.append([])
        else:
            runs[-1].append(_name(part))
    if len(runs) == 1:
        return "/".join(runs[0])
    first, *middle, last = map("/".join, runs)
    between = "".join(rf"(?>{_FOLDERS}?{run}/)" for run in middle if run)
    return f"{first}{'/' if first else ''}{between}" + (_FOLDERS + last if last else ".+")


def _name(glob: str) -> str:
    """Translate the part of a pattern between two slashes."""
    runs = [""]
    for found in _GLOB.finditer(glob):
        if found["star"]:
            runs.append("")
        else:
            runs[-1] += _character(found)
    if len(runs) == 1:
        return runs[0]
    first, *middle, last = runs
    return first + "".join(rf"(?>[^/]*?{run})" for run in middle) + "[^/]*" + last


def _character(found: re.Match[str]) -> str:
    if found["one"]:
        return "[^/]"
    if found["chars"] is None:
        return re.escape(found["escaped"] or found["plain"])
    named = _POSIX.sub(lambda name: _CLASSES.get(name[1], ""), found["chars"])
    inside = re.sub(r"(?<!\\)([\[&~|])", r"\\\1", named)
    inside = rf"\{inside}" if inside.startswith("]") else inside
    return rf"(?!/)[{'^' if found['negated'] else ''}{inside}]"


def _lines_in(folder: Path) -> list[str]:
    """Read a folder's own rules. As git does, a link and an unreadable file are passed over."""
    file = folder / ".gitignore"
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _LONGEST_RULES:
            return []
        return file.read_bytes().decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    except OSError:
        return []
