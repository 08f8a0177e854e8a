"""Make the brief that a session begins with."""

import time
from pathlib import Path

from treering.parts.coding_agents.ready_pack import ReadyPack, state_of
from treering.stores.sqlite.ready import standing
from treering.surfaces.python.space import Space, open_space
from treering.system.address import file_address

_TRIES = 3


def made_now(file: Path, folder: Path) -> ReadyPack | None:
    """Return what a session in a folder begins with; `None` if the space is written all the time.

    Raises `OSError`, `TreeringError`.
    """
    with open_space(file_address(file), create=False, background=False) as space:
        return pack_of_brief(space, file, folder)


def pack_of_brief(space: Space, file: Path, folder: Path) -> ReadyPack | None:
    """Return the brief of a folder as a pack to keep ready; `None` if the space is written all the time."""
    for _ in range(_TRIES):
        head = standing(file).head
        report = space.asked_from(folder).query("brief")
        now = standing(file, report.ids)
        if now.head == head:  # else it was written meanwhile, and the text may be of before or after
            text = "\n".join(report.lines)
            return ReadyPack(str(folder), state_of(folder), time.time(), now.head, now.revisions, text)
    return None
