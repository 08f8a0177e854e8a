"""A workflow as text: JSON or YAML into the data that `parts.workflows` checks."""

import json
from collections.abc import Iterable, Iterator

import yaml

from treering.core.errors import InvalidInput
from treering.parts.workflows.catalog import NODE_TYPES
from treering.parts.workflows.checking import ANYTHING, WorkflowEnvironment, from_data
from treering.parts.workflows.definition import HOW_TO_WRITE
from treering.parts.workflows.registry import NodeTypes, Workflow

MOST_CHARS = 200_000
MOST_DEPTH = 20


def load(text: str, *, types: NodeTypes = NODE_TYPES, known: WorkflowEnvironment = ANYTHING) -> Workflow:
    """Read a workflow and check it (`checking.from_data`). Raises `InvalidInput` as that and `read` do."""
    return from_data(read(text), types=types, known=known)


def read(text: str) -> object:
    """Read JSON or YAML. Raises `InvalidInput` for what is neither, is too long, or repeats itself by aliases."""
    if len(text) > MOST_CHARS:
        raise InvalidInput(
            f"The workflow has {len(text)} characters, more than {MOST_CHARS}.", hint="Keep long texts elsewhere."
        )
    try:
        return _json(text) if text.lstrip()[:1] in {"{", "["} else _yaml(text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        reason = " ".join(str(error).split())
        raise InvalidInput(f"The workflow cannot be read: {reason}.", hint=HOW_TO_WRITE) from error


def _json(text: str) -> object:
    try:
        return json.loads(text, object_pairs_hook=_once)
    except json.JSONDecodeError:
        return _flow(text)


def _flow(text: str) -> object:
    """Read what begins as JSON does, but is YAML; where it is not, the error that tells of JSON is the better one."""
    try:
        return _yaml(text)
    except yaml.YAMLError:
        return json.loads(text)


def _yaml(text: str) -> object:
    _check_shape(yaml.parse(text, Loader=yaml.SafeLoader))
    for mapping in _mappings(yaml.compose(text, Loader=yaml.SafeLoader)):
        _check_once([str(key.value) for key, _ in mapping.value])
    data: object = yaml.safe_load(text)
    return data


def _check_shape(events: Iterable[yaml.Event]) -> None:
    """Refuse what would take long: aliases of aliases grow without end, and deep nesting is read ever more slowly."""
    depth = 0
    for event in events:
        if isinstance(event, yaml.AliasEvent):
            problem = "it uses aliases (*name); write a text that is used twice under 'variables'"
            raise ValueError(problem)  # noqa: TRY004 - what is wrong is the text, not its type
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > MOST_DEPTH:
            raise ValueError(f"it is nested more than {MOST_DEPTH} deep")


def _mappings(root: yaml.Node | None) -> Iterator[yaml.MappingNode]:
    waiting = [root]
    while waiting:
        match waiting.pop():
            case yaml.MappingNode() as mapping:
                yield mapping
                waiting += [value for _, value in mapping.value]
            case yaml.SequenceNode() as sequence:
                waiting += sequence.value
            case _:
                pass


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    _check_once([name for name, _ in pairs])
    return dict(pairs)


def _check_once(names: list[str]) -> None:
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} is written twice in one object")
