"""The default location of a client's memories: one file for each project, in the data folder."""

import re
from pathlib import Path

from treering.core.canonical import digest
from treering.extensions.client.config import MemoryConfig
from treering.system.address import FILES
from treering.system.settings import FOLDER, Settings

_SHARED = "memory.db"
"""The file that all programs of a user shared in earlier versions."""
_DIGITS = 16
_LONGEST_NAME = 40
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]")


def with_place(config: MemoryConfig, settings: Settings) -> MemoryConfig:
    """Return a configuration with the default file of its memories, if they are in a file and it names none.

    A pickled client thereby finds its memories in a process with another working folder.
    """
    if config.ledger != "sqlite" or config.sqlite.path is not None:
        return config
    path = str(default_file(settings))
    sqlite = config.sqlite.model_copy(update={"path": f"{FILES}:{path}" if ":" in path else path})
    return config.model_copy(update={"sqlite": sqlite})


def default_file(settings: Settings) -> Path:
    """Return the file of a project's memories.

    It is in the data folder, because the author of a project could put a file into the project. The shared file of
    earlier versions is used if it exists.
    """
    data_folder = settings.data_dir.absolute()
    if (data_folder / _SHARED).is_file():
        return data_folder / _SHARED
    project = _project_folder(settings)
    name = _UNSAFE.sub("_", project.name)[:_LONGEST_NAME] or "root"
    return data_folder / "memories" / f"{name}-{digest(str(project))[:_DIGITS]}.db"


def _project_folder(settings: Settings) -> Path:
    """Return the work tree of the working folder, else the nearest folder with a `.treering`, else itself."""
    place = settings.repository
    if place and place.top:
        return place.top
    folder = settings.folder.resolve()
    return next((one for one in (folder, *folder.parents) if (one / FOLDER).is_dir()), folder)
