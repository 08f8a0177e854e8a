"""Ignore rules of git for a folder from outside of it: the user's, the repository's, and those of folders above."""

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from treering.core.errors import TreeringError
from treering.ports.adapter import FileAccess
from treering.sources.git.private import comparing_as_the_user
from treering.sources.git.process import locate, read_part
from treering.sources.reading.folder import IgnoreRules, parse_patterns

_MAX_BYTES = 1_000_000


def rules_around(folder: Path, access: FileAccess) -> IgnoreRules:
    """Return the rules for a folder of a work tree that precede its own; none outside a work tree.

    These are `core.excludesFile` of the user, `info/exclude` of the repository and `.gitignore` of the folders above;
    the nearest takes precedence. If the folder itself is ignored, it was named on purpose, so no rules apply.
    """
    try:
        layout = locate(folder, access)
        top = layout.around if layout.inside else None
        if top is None:
            return IgnoreRules()
        exclude = read_part(layout.common / "info" / "exclude", access, most=_MAX_BYTES) or b""
        users = _users_file()
    except TreeringError:  # it may not be read, or is broken; the folder can be read without the rules
        return IgnoreRules()
    rules = IgnoreRules(tuple(("", own) for text in (exclude, users) if (own := tuple(parse_patterns(_lines(text))))))
    place, relative = top, ""
    for name in folder.relative_to(top).parts:
        rules = rules.below(place, relative)
        place, relative = place / name, f"{relative}/{name}".removeprefix("/")
        if rules.leave_out(relative, folder=True):
            return IgnoreRules()
    return replace(rules, above=f"{relative}/" if relative else "")


def _users_file() -> bytes:
    file = Path(comparing_as_the_user().get("core.excludesfile", os.devnull))
    try:
        return file.read_bytes() if file.is_file() and file.stat().st_size <= _MAX_BYTES else b""
    except OSError:
        return b""


def _lines(text: bytes) -> Sequence[str]:
    return text.decode("utf-8", "replace").removeprefix("\ufeff").split("\n")
