"""Exclude the configuration of a client from git, because it contains paths of this machine."""

import os
import re
from collections.abc import Iterable
from pathlib import Path

from treering.extensions.coding_agents.json_text import Inserted
from treering.system.repository_place import GitPlace, repository_at
from treering.system.tracked_space import is_tracked

_SPECIAL = re.compile(r"[\\*?\[ ]")


def exclude_file(folder: Path) -> Path | None:
    """Return the list of local exclusions of the repository of a folder; `None` without a work tree."""
    place = _work_tree(folder)
    return place.common / "info" / "exclude" if place else None


def exclude(text: str, client: str, files: Iterable[Path], folder: Path) -> Inserted | None:
    """Add the files that git does not track to a list of exclusions; `None` if it has them, or git tracks all."""
    place = _work_tree(folder)
    if place is None or place.top is None:
        return None
    names = [Path(os.path.realpath(file)).relative_to(place.top) for file in files]
    patterns = [_pattern(name) for name in names if not is_tracked(place, name)]
    added = [one for one in patterns if one not in text.splitlines() and "\n" not in one]
    if not added:
        return None
    lines = "\n".join((f"# treering connect {client}", *added))
    # A last line without an end stays the user's own after any of the pieces is removed.
    piece = f"\n{lines}" if text and not text.endswith("\n") else f"{lines}\n"
    return Inserted(text + piece, piece)


def _work_tree(folder: Path) -> GitPlace | None:
    """Return the repository of a work tree, unless the folder only claims to belong to one elsewhere."""
    place = repository_at(folder)
    if place is None or place.top is None or not place.names_back:
        return None
    is_own = Path(os.path.realpath(place.common / "info" / "exclude")).is_relative_to(place.common)
    return place if is_own else None


def _pattern(name: Path) -> str:
    return "/" + _SPECIAL.sub(r"\\\g<0>", name.as_posix())
