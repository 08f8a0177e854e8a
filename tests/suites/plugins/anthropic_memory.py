"""Run Anthropic's tests of its memory tool in files with the tool over a space in its place."""

import anthropic.lib.tools._beta_builtin_memory_tool as builtin
from suite_parts import client

from treering.anthropic import AsyncTreeringMemoryTool, TreeringMemoryTool
from treering.frameworks.memory_files import MemoryFiles

OF_A_DISK = ("symlink", "umask")
"""Words in the names of tests about links and permissions on a disk, which a space does not have."""

opened = {}


def space_of(base_path):
    """Return the client for a folder of a test; the last ones stay open until the session ends."""
    return opened.setdefault(base_path, client())


class Tool(TreeringMemoryTool):
    def __init__(self, base_path):
        super().__init__(space_of(base_path))
        self.base_path = base_path


class AsyncTool(AsyncTreeringMemoryTool):
    def __init__(self, base_path):
        super().__init__(space_of(base_path))
        self.base_path = base_path


def snapshot(base_path):
    """Return the files of a space as the suite reads them from a disk."""
    files = MemoryFiles(opened[base_path].records, "default")
    return {f"memories/{file.path}": file.text for file in files._below("")}


builtin.BetaLocalFilesystemMemoryTool = Tool
builtin.BetaAsyncLocalFilesystemMemoryTool = AsyncTool


def pytest_collection_modifyitems(config, items):
    left_out = [item for item in items if any(word in item.name for word in OF_A_DISK)]
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item not in left_out]
    for item in items:
        item.module.get_directory_snapshot = snapshot


def pytest_unconfigure():
    for one in opened.values():
        one.close()
