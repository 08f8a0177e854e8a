"""Types of workflow nodes that somebody else wrote, named as `module:NAME`."""

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from treering.core.errors import InvalidInput, nearest
from treering.memories.workflow.catalog import NODE_TYPES
from treering.memories.workflow.registry import NodeType, NodeTypes

_HOW = "Name a module and what in it is a NodeType, or a list of them, such as my_nodes:FIRST_FIVE."


def load_node_types(names: Sequence[str]) -> NodeTypes:
    """Return the table of node types with those that are named as `module:NAME`, of modules in the working folder too.

    What is named may be a `NodeType`, several, or a table of them. Importing a module runs it. Raises `InvalidInput`
    for a name that is none, a module that cannot be imported, and what is not a node type.
    """
    types = NODE_TYPES
    for name in names:
        new = [one for one in _named(name) if types.get(one.name) is not one]
        types = types.with_types(*new)
    return types


def _named(name: str) -> list[NodeType[Any]]:
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise InvalidInput(f"--nodes needs module:NAME, got {name!r}.", hint=_HOW)
    try:
        with _working_folder():
            module = import_module(module_name)
    except (ImportError, SyntaxError) as error:
        raise InvalidInput(f"The module {module_name!r} cannot be imported: {error}.", hint=_HOW) from error
    if not hasattr(module, attribute):
        known = [each for each in vars(module) if not each.startswith("_")]
        hint = nearest(attribute, known) if known else _HOW
        raise InvalidInput(f"The module {module_name!r} has no {attribute!r}.", hint=hint)
    found = list(_types_in(getattr(module, attribute)))
    if not found or not all(isinstance(one, NodeType) for one in found):
        raise InvalidInput(f"{name} is not a NodeType and holds none.", hint=_HOW)
    return found


def _types_in(value: object) -> Iterable[Any]:
    match value:
        case NodeTypes():
            return value.values()
        case list() | tuple():
            return value
        case _:
            return (value,)


@contextmanager
def _working_folder() -> Iterator[None]:
    """Let modules of the working folder be found, which the command `treering` does not do by itself."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
