"""YAML files of a repository, parsed with limits; see `bounded_files`."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from treering.core.characters import shown
from treering.core.errors import InvalidInput
from treering.sources.reading.bounded_files import (
    MAX_DEPTH,
    OUT_OF_RANGE,
    TOO_DEEP,
    once,
    parse_json,
    parse_toml,
    read_text_file,
)

MAX_VALUES = 100_000
"""The maximum number of values in a document, with aliases expanded."""
MAX_NUMBER_CHARS = 400
"""The maximum length of a number without quotes, because Python converts long ones slowly."""


class MalformedYaml(ValueError):
    """A text is not valid YAML."""


def read_data_file(file: Path) -> object:
    """Read a file of JSON, TOML or YAML, by its suffix. Raises the errors of `read_text_file`."""
    text = read_text_file(file)
    parse, name = _PARSERS.get(file.suffix.lower(), (parse_yaml, "YAML"))
    try:
        return parse(text)
    except ValueError as error:
        raise InvalidInput(f"{shown(file)} is not valid {name}: {error}.", hint="Correct the file.") from error


def parse_yaml(text: str, *, aliases: bool = True, unique_keys: bool = False, max_depth: int = MAX_DEPTH) -> object:
    """Parse YAML, counting the values of an alias each time it is used.

    Raises `ValueError` with the place of an error, or the exceeded limit; without `aliases` also for an alias, and with
    `unique_keys` for a duplicate key in a mapping.
    """
    try:
        _check_events(yaml.parse(text, Loader=_LOADER), max_depth, aliases=aliases)
        loader = _LOADER(text)
        root = loader.get_single_node()
        nodes = _checked_nodes(root, max_depth) if root else []
        for node in nodes if unique_keys else ():
            if isinstance(node, yaml.MappingNode):
                once([(str(key.value), None) for key, _ in node.value])
        data: object = loader.construct_document(root) if root else None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        place = f" at line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise MalformedYaml(f"{error.problem or 'it is malformed'}{place}") from None
    except yaml.YAMLError:
        raise MalformedYaml("it has characters that YAML does not allow") from None
    except OverflowError:
        raise ValueError(OUT_OF_RANGE) from None
    return data


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
_NUMBER = re.compile(r"[-+.:_0-9a-fA-FxoX]+")
_TOO_MANY = f"it has more than {MAX_VALUES:,} values with its aliases expanded"
_PARSERS: dict[str, tuple[Callable[[str], object], str]] = {
    ".json": (parse_json, "JSON"),
    ".toml": (parse_toml, "TOML"),
}


def _check_events(events: Iterator[yaml.Event], max_depth: int, *, aliases: bool) -> None:
    """Refuse deep nesting, which uses up the parser's stack, and long numbers, which are slow to convert."""
    depth = 0
    for number, event in enumerate(events):
        if number > 2 * MAX_VALUES:
            raise ValueError(_TOO_MANY)
        if isinstance(event, yaml.AliasEvent) and not aliases:
            raise ValueError("it uses aliases (*name), which are not supported; repeat the text instead")
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > max_depth:
            raise ValueError(TOO_DEEP.format(max_depth))
        if not isinstance(event, yaml.ScalarEvent) or len(event.value) <= MAX_NUMBER_CHARS:
            continue
        if event.implicit[0] and _NUMBER.fullmatch(event.value):
            raise ValueError(f"it has a number of more than {MAX_NUMBER_CHARS} digits")


class _Size(NamedTuple):
    values: int
    depth: int


def _checked_nodes(root: yaml.Node, max_depth: int) -> list[yaml.Node]:
    """Return all nodes of a document.

    Raises `ValueError` if it is too large or too deep with its aliases expanded.
    """
    sizes: dict[int, _Size] = {}
    nodes: list[yaml.Node] = []
    path = [(root, _parts(root))]
    while path:
        node, parts = path[-1]
        if (part := next((one for one in parts if id(one) not in sizes), None)) is not None:
            path.append((part, _parts(part)))
            if len(path) > max_depth + 1:  # also for an alias inside its own value
                raise ValueError(TOO_DEEP.format(max_depth))
            continue
        path.pop()
        nodes.append(node)
        inner = [sizes[id(one)] for one in _parts(node)]
        size = _Size(1 + sum(one.values for one in inner), 1 + max((one.depth for one in inner), default=0))
        if size.values > MAX_VALUES:
            raise ValueError(_TOO_MANY)
        if size.depth > max_depth + 1:
            raise ValueError(TOO_DEEP.format(max_depth))
        sizes[id(node)] = size
    return nodes


def _parts(node: yaml.Node) -> Iterator[yaml.Node]:
    match node:
        case yaml.MappingNode():
            yield from (part for pair in node.value for part in pair)
        case yaml.SequenceNode():
            yield from node.value
        case _:
            return
