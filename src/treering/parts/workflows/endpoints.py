"""The models that a command line names, for the endpoints of workflows, and the plan by which memories are made."""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

from treering.core.errors import InvalidInput, nearest
from treering.models.scripted import ScriptedModel
from treering.parts.discussions.settings import MakingPlan
from treering.parts.workflows.catalog import NODE_TYPES
from treering.parts.workflows.discussion_config import OpenEndpoints, PlanReader
from treering.parts.workflows.registry import NodeType, NodeTypes
from treering.parts.workflows.text import read
from treering.ports.models import LanguageModel
from treering.retrieval.extraction.asking import Budget
from treering.surfaces.cli.flags import MakingFlags, ModelFlags
from treering.surfaces.cli.printing import tell
from treering.system.machine import SystemClock

_SCRIPT = 'Write a list of texts such as `["Hello"]`, or one such list by the name of each endpoint.'


class GivenModels:
    """What the command line says of models: `NAME=MODEL`, where they are, or answers written beforehand.

    All calls of them share a `budget`. Raises what `load_node_types` raises.
    """

    def __init__(self, flags: ModelFlags) -> None:
        self.budget = Budget(requests=flags.max_requests)
        self.types = load_node_types(flags.nodes or ())
        self._flags = flags

    def opened(self, declared: Mapping[str, str], names: Iterable[str]) -> dict[str, LanguageModel]:
        """Open the models that may be asked: those given, else those declared; `names` are what else is asked for.

        Raises what opening a model raises.
        """
        if self._flags.scripted:
            return _scripted(self._flags.scripted, [*declared, *names])
        models = {name: model for name, model in declared.items() if model} | named_models(self._flags.endpoint or ())
        if not models:
            return {}
        from treering.models.pydantic_ai import open_model  # it needs an extra, which no other command does

        url = self._flags.endpoint_url or None
        return {name: open_model(model, base_url=url) for name, model in models.items()}

    def plan(self, config: Path | None, *, endpoints: OpenEndpoints | None = None) -> MakingPlan:
        """Return the plan of a file, or that of the models that are given, and tell its warnings.

        Raises what `PlanReader.plan` raises.
        """
        plan = PlanReader(SystemClock(), endpoints or self.opened, self.budget, self.types).plan(config)
        for warning in plan.warnings:
            tell(warning)
        return plan


def plan_of(flags: MakingFlags) -> MakingPlan:
    """Return how memories are made by what the command line says: by rules, where it says nothing."""
    return GivenModels(flags).plan(flags.config)


def named_models(endpoints: Sequence[str]) -> dict[str, str]:
    """Read `NAME=MODEL`. Raises `InvalidInput` for what is not."""
    found = {}
    for given in endpoints:
        name, equals, model = given.partition("=")
        if not (name and equals and model):
            raise InvalidInput(f"--endpoint needs NAME=MODEL, got {given!r}.", hint="Such as main=openai:gpt-5-mini.")
        found[name] = model
    return found


def _scripted(path: Path, names: Sequence[str]) -> dict[str, LanguageModel]:
    data = read(path.read_bytes().decode(errors="replace"))
    if isinstance(data, dict):
        return {
            str(name): ScriptedModel(_answers(path, given), name=f"scripted {name}") for name, given in data.items()
        }
    model = ScriptedModel(_answers(path, data))
    return dict.fromkeys(sorted(set(names)) or ["scripted"], model)


def _answers(path: Path, data: object) -> list[str]:
    """Return the answers: texts, or lists, which stand for their JSON."""
    if not isinstance(data, list) or not all(isinstance(answer, str | list) for answer in data):
        raise InvalidInput(f"{path.name} must hold a list of answers.", hint=_SCRIPT)
    return [answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False) for answer in data]


# Types of workflow nodes that somebody else wrote, named as `module:NAME`.


_HOW = "Name a module and what in it is a NodeType, or a list of them, such as my_nodes:FIRST_FIVE."


def load_node_types(names: Sequence[str]) -> NodeTypes:
    """Return the table of node types with those that are named as `module:NAME`, of modules in the working folder too.

    What is named may be a `NodeType`, several, or a table of them. Importing a module runs it. Raises `InvalidInput`
    for an invalid name, a module that cannot be imported, and what is not a node type.
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
