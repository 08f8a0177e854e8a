"""Fast commands: a process with all modules loaded, which `treering.__main__` passes short commands to."""

from treering.registry import Extension

EXTENSION = Extension("resident")
