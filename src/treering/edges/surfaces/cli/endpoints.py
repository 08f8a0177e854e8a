"""The models that a command line names, for the endpoints of workflows, and the plan by which memories are made."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from treering.core.errors import InvalidInput
from treering.derived.asking import Budget
from treering.edges.clock import SystemClock
from treering.edges.discussion_config import OpenEndpoints, PlanReader
from treering.edges.models.scripted import ScriptedModel
from treering.edges.node_types import load_node_types
from treering.edges.surfaces.cli.flags import MakingFlags, ModelFlags
from treering.edges.surfaces.cli.printing import tell
from treering.edges.workflow_text import read
from treering.memories.discussion.settings import MakingPlan
from treering.ports.model import LanguageModel

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
        from treering.edges.models.pydantic_ai import open_model  # it needs an extra, which no other command does

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
