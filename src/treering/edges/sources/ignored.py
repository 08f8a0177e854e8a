"""What a folder's `.gitignore` files leave out, as git reads them, and what is never read."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pathspec import GitIgnoreSpec

NEVER_READ = frozenset({".git", ".treering", ".venv", "node_modules", "__pycache__"})


@dataclass(frozen=True, slots=True)
class IgnoreRules:
    """The rules that hold in a folder: its own and those of the folders above, the nearest first."""

    own: tuple[tuple[str, GitIgnoreSpec], ...] = ()
    """The folder a set of rules stands in (relative to the root, empty or ending in `/`), and the rules."""

    def below(self, folder: Path, relative: str) -> "IgnoreRules":
        """Add the rules that `folder` itself sets. `relative` is its path from the root, empty for the root."""
        spec = _rules_in(folder)
        return IgnoreRules(((f"{relative}/" if relative else "", spec), *self.own)) if spec else self

    def leave_out(self, relative: str, *, folder: bool) -> bool:
        """Tell whether a path (from the root) is left out. What lies in a folder left out is never asked for."""
        if relative.rpartition("/")[2] in NEVER_READ:
            return True
        for base, spec in self.own:
            verdict = _verdict(spec, relative.removeprefix(base), folder=folder)
            if verdict is not None:
                return verdict
        return False


_LONGEST_RULES = 1_000_000
# `folder/**` leaves out what is inside, so that a later `!folder/this` can bring something back; pathspec would
# match the folder itself. The same is said by `folder/*`.
_EVERYTHING_INSIDE = re.compile(r"(?<=[^/\s*])/\*\*[ \t\r]*$")


def _verdict(spec: GitIgnoreSpec, path: str, *, folder: bool) -> bool | None:
    return spec.check_file(f"{path}/" if folder else path).include


def _rules_in(folder: Path) -> GitIgnoreSpec | None:
    """Read a folder's own rules. As git does, a link and an unreadable file are passed over."""
    file = folder / ".gitignore"
    try:
        if file.is_symlink() or not file.is_file() or file.stat().st_size > _LONGEST_RULES:
            return None
        lines = file.read_bytes().decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
    except OSError:
        return None
    return _spec([line if line.startswith("!") else _EVERYTHING_INSIDE.sub("/*", line) for line in lines])


def _spec(lines: Sequence[str]) -> GitIgnoreSpec:
    try:
        return GitIgnoreSpec.from_lines(lines)
    except ValueError:  # git passes over a pattern it cannot read; the others hold
        return GitIgnoreSpec.from_lines(line for line in lines if _is_pattern(line))


def _is_pattern(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:
        return False
    return True
