"""The models and node types that a command line names, and the file that configures how memories are made."""

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, ConfigDict, Field, PositiveInt, ValidationError
from pydantic.alias_generators import to_camel

from treering.core.errors import InvalidInput, NotFound, nearest
from treering.extensions.discussions.generators.built_in import BuiltInGenerator
from treering.extensions.discussions.generators.by_model import DEFAULT_PROMPTS, ModelGenerator, Prompt, Prompts
from treering.extensions.discussions.generators.generator import DiscussionSettings, Generator, MakingPlan
from treering.extensions.encoder.asking import Budget
from treering.extensions.encoder.language_model import LanguageModel
from treering.extensions.encoder.language_models import ScriptedModel
from treering.extensions.workflows.catalog import NODE_TYPES
from treering.extensions.workflows.checking import field_problems, load, read, refusal
from treering.extensions.workflows.definition import Preset
from treering.extensions.workflows.generator import GeneratorWorkflows, WorkflowGenerator
from treering.extensions.workflows.registry import NodeType, NodeTypes, Workflow
from treering.ports.runtime import Clock
from treering.surfaces.cli.flags import MakingFlags, ModelFlags
from treering.surfaces.cli.printing import tell
from treering.system.machine import SystemClock

OpenEndpoints = Callable[[Mapping[str, str], Sequence[str]], Mapping[str, LanguageModel]]
"""Opens the models of endpoints: the declared ones by name, and further required names."""

WORKFLOW_FOLDERS = ("", "Workflows", "workflows")
"""The default folders of workflows, relative to the file."""
_ENDINGS = (".json", ".yaml", ".yml")
_PLACEHOLDERS = {
    "[TextChunk]": "[chunk]",
    "[Memory_file]": "[recent_memories]",
    "[Full_Memory_file]": "[all_memories]",
    "[Chat_Summary]": "[summary]",
}
"""The placeholders of other programs, and ours."""


def _written_prompt(value: object) -> object:
    return {"prompt": value} if isinstance(value, str) else value


class _Part(BaseModel):
    model_config: ClassVar[ConfigDict] = ConfigDict(
        frozen=True, extra="forbid", strict=True, alias_generator=to_camel, populate_by_name=True
    )


class WrittenPrompt(_Part):
    """A prompt with placeholders in `[…]`, and its system prompt."""

    prompt: str
    system_prompt: str = ""

    @property
    def read(self) -> Prompt:
        """The prompt with our placeholders."""
        text = self.prompt
        for theirs, ours in _PLACEHOLDERS.items():
            text = text.replace(theirs, ours)
        return Prompt(text, self.system_prompt)


_Prompt = Annotated[WrittenPrompt | None, BeforeValidator(_written_prompt)]


class WrittenPrompts(_Part):
    """The prompts of direct model calls that differ from the defaults."""

    memories: _Prompt = None
    condense: _Prompt = None
    fold: _Prompt = None
    merge: _Prompt = None


class DiscussionConfig(_Part):
    """The content of the file. Everything is optional.

    With `useVectorForQualityMemory` memories are made by the workflow `vectorMemoryWorkflowName`, else by
    `fileMemoryWorkflowName`; without one, by a direct model call, or by rules if no model is given. The summary, the
    state document and condensations are made by their workflows; without one, by a direct call if the file contains
    `endpointName` or `prompts` or no workflow makes memories, else by rules.
    """

    use_vector_for_quality_memory: bool = False
    vector_memory_workflow_name: str = ""
    file_memory_workflow_name: str = ""
    summary_workflow_name: str = ""
    state_workflow_name: str = ""
    condensing_workflow_name: str = ""
    workflows_folder: str | None = None
    endpoints: dict[str, str] = Field(default_factory=dict)
    endpoint_name: str = ""
    presets: dict[str, Preset] = Field(default_factory=dict)
    prompts: WrittenPrompts = WrittenPrompts()
    prompt: str = ""
    system_prompt: str = ""
    chunk_tokens: PositiveInt | None = Field(
        default=None, validation_alias=AliasChoices("chunkTokens", "chunkEstimatedTokenSize")
    )
    max_messages: PositiveInt | None = Field(
        default=None, validation_alias=AliasChoices("maxMessages", "maxMessagesBetweenChunks")
    )
    lookback: int | None = Field(default=None, ge=0, validation_alias=AliasChoices("lookback", "lookbackStartTurn"))
    max_output_tokens: PositiveInt | None = Field(
        default=None, validation_alias=AliasChoices("maxOutputTokens", "maxResponseSizeInTokens")
    )
    condense_every: int | None = Field(default=None, ge=0)
    condense_after: int | None = Field(default=None, ge=0)
    state: bool | None = None
    summary: bool | None = None

    @property
    def settings(self) -> DiscussionSettings:
        """The settings of the discussions. Raises `InvalidInput` for numbers that do not fit together."""
        given = {one.name: getattr(self, one.name, None) for one in fields(DiscussionSettings)}
        return DiscussionSettings(**{name: value for name, value in given.items() if value is not None})

    @property
    def own_prompt(self) -> bool:
        """Whether the prompt for memories is the file's own."""
        return bool(self.prompt or self.prompts.memories)

    @property
    def asks_directly(self) -> bool:
        """Whether the file configures direct model calls."""
        return bool(self.endpoint_name or self.prompt or self.system_prompt or self.prompts != WrittenPrompts())

    def read_prompts(self) -> Prompts:
        """Return the prompts of direct calls. Raises `InvalidInput` for an unknown or missing placeholder."""
        written = self.prompts.model_dump(exclude_none=True)
        own = {name: getattr(self.prompts, name).read for name in written}
        if self.prompt or self.system_prompt:
            text = self.prompt or DEFAULT_PROMPTS.memories.text
            own["memories"] = WrittenPrompt(prompt=text, system_prompt=self.system_prompt).read
        return replace(DEFAULT_PROMPTS, **own)


def read_config(path: Path) -> DiscussionConfig:
    """Read a file. Raises `InvalidInput` that names each invalid key, and `OSError`."""
    data = read(path.read_bytes().decode(errors="replace"))
    if not isinstance(data, dict):
        raise InvalidInput(
            f"{path.name} must contain an object.", hint='For example {"useVectorForQualityMemory": true}.'
        )
    try:
        return DiscussionConfig.model_validate(data)
    except ValidationError as error:
        problems = list(field_problems("", error, DiscussionConfig))
        raise refusal(f"{path.name}, ", problems, "Correct the file.") from error


@dataclass(frozen=True, slots=True)
class PlanReader:
    """Makes plans from files, with a function that opens models, a shared budget, and node types."""

    clock: Clock
    open_endpoints: OpenEndpoints
    budget: Budget
    types: NodeTypes

    def plan(self, path: Path | None) -> MakingPlan:
        """Return the plan of a file, or without one the plan for the given models.

        Raises `InvalidInput` for problems in the file or in its workflows, and `NotFound` for a missing workflow.
        """
        config = read_config(path) if path else DiscussionConfig()
        workflows = self._workflows(config, path.parent if path else Path())
        used = [workflow for workflow, _ in workflows.given.values()]
        declared = dict(config.endpoints)
        for workflow in used:
            declared = {**workflow.header.endpoints, **declared}
        names = {config.endpoint_name, *(node.mentions.endpoint for one in used for node in one.nodes)}
        models = self.open_endpoints(declared, sorted(filter(None, names)))
        warnings = tuple(f"{use}: {each}" for use, (one, _) in workflows.given.items() for each in one.warnings)
        return MakingPlan(config.settings, self._generator(config, workflows, models), warnings)

    def _workflows(self, config: DiscussionConfig, folder: Path) -> GeneratorWorkflows:
        vectors = config.use_vector_for_quality_memory
        named = {
            "memories": config.vector_memory_workflow_name if vectors else "",
            "file_memories": "" if vectors else config.file_memory_workflow_name,
            "summary": config.summary_workflow_name,
            "state": config.state_workflow_name,
            "condensing": config.condensing_workflow_name,
        }
        folders = [
            folder / each for each in ([config.workflows_folder] if config.workflows_folder else WORKFLOW_FOLDERS)
        ]
        return GeneratorWorkflows(**{use: self._load(name, folders) for use, name in named.items() if name})

    def _load(self, name: str, folders: Sequence[Path]) -> Workflow:
        return load(_workflow_file(name, folders).read_bytes().decode(errors="replace"), types=self.types)

    def _generator(
        self, config: DiscussionConfig, workflows: GeneratorWorkflows, models: Mapping[str, LanguageModel]
    ) -> Generator | None:
        made_by_workflow = workflows.memories or workflows.file_memories
        direct = (config.asks_directly or not made_by_workflow) and (models or config.endpoint_name)
        otherwise = self._model_generator(config, models) if direct else BuiltInGenerator()
        if not workflows.given:
            return otherwise if direct else None
        return WorkflowGenerator(
            workflows, self.clock, otherwise=otherwise, endpoints=models, presets=config.presets, budget=self.budget
        )

    def _model_generator(self, config: DiscussionConfig, models: Mapping[str, LanguageModel]) -> ModelGenerator:
        return ModelGenerator(
            _model(config.endpoint_name, models),
            budget=self.budget,
            prompts=config.read_prompts(),
            max_output_tokens=config.settings.max_output_tokens,
            as_text=config.own_prompt and not config.use_vector_for_quality_memory,
        )


def _model(endpoint: str, models: Mapping[str, LanguageModel]) -> LanguageModel:
    """Return the model of an endpoint, or the only one. Raises `InvalidInput` if that is ambiguous."""
    if endpoint in models:
        return models[endpoint]
    if endpoint:
        hint = nearest(endpoint, models) if models else "Give it with --endpoint NAME=MODEL."
        raise InvalidInput(f"No model was given for the endpoint {endpoint!r}.", hint=hint)
    if len(models) > 1:
        raise InvalidInput(
            f"Several models can make memories: {', '.join(models)}.",
            hint="Set endpointName in the file to one of them.",
        )
    return next(iter(models.values()))


def _workflow_file(name: str, folders: Sequence[Path]) -> Path:
    """Return the file of a workflow. Raises `InvalidInput` for a path, `NotFound` if there is none with the name."""
    if Path(name).name != name or name in {"", ".", ".."}:
        raise InvalidInput(f"{name!r} is not a valid workflow name.", hint="Give the file name without its folder.")
    tried = [folder / f"{name}{ending}" for folder in folders for ending in ("", *_ENDINGS)]
    file = next((path for path in tried if path.is_file()), None)
    if file is None:
        places = ", ".join(str(folder) for folder in folders)
        raise NotFound(f"There is no workflow {name!r}.", hint=f"Create {name}.json in one of: {places}.")
    return file


_SCRIPT = 'Use a list of texts such as `["Hello"]`, or one such list per endpoint name.'


class GivenModels:
    """The models on the command line: `NAME=MODEL` and their address, or scripted answers.

    All their calls share a `budget`. Raises the errors of `load_node_types`.
    """

    def __init__(self, flags: ModelFlags) -> None:
        self.budget: Budget = Budget(requests=flags.max_requests)
        self.types: NodeTypes = load_node_types(flags.nodes or ())
        self._flags = flags

    def opened(self, declared: Mapping[str, str], names: Iterable[str]) -> dict[str, LanguageModel]:
        """Open the given models, else the declared ones; `names` are further required names.

        Raises the errors of opening a model.
        """
        if self._flags.scripted:
            return _scripted(self._flags.scripted, [*declared, *names])
        models = {name: model for name, model in declared.items() if model} | named_models(self._flags.endpoint or ())
        if not models:
            return {}
        from treering.extensions.encoder.language_models import open_model

        url = self._flags.endpoint_url or None
        return {name: open_model(model, base_url=url) for name, model in models.items()}

    def plan(self, config: Path | None, *, endpoints: OpenEndpoints | None = None) -> MakingPlan:
        """Return the plan of a file, or of the given models, and print its warnings.

        Raises the errors of `PlanReader.plan`.
        """
        plan = PlanReader(SystemClock(), endpoints or self.opened, self.budget, self.types).plan(config)
        for warning in plan.warnings:
            tell(warning)
        return plan


def plan_of(flags: MakingFlags) -> MakingPlan:
    """Return the plan for making memories by the options of the command line; by rules if there are none."""
    return GivenModels(flags).plan(flags.config)


def named_models(endpoints: Sequence[str]) -> dict[str, str]:
    """Read `NAME=MODEL`. Raises `InvalidInput` for other forms."""
    models = {}
    for given in endpoints:
        name, equals, model = given.partition("=")
        if not (name and equals and model):
            raise InvalidInput(
                f"--endpoint needs NAME=MODEL, not {given!r}.", hint="For example main=openai:gpt-5-mini."
            )
        models[name] = model
    return models


def _scripted(path: Path, names: Sequence[str]) -> dict[str, LanguageModel]:
    data = read(path.read_bytes().decode(errors="replace"))
    if isinstance(data, dict):
        return {
            str(name): ScriptedModel(_answers(path, given), name=f"scripted {name}") for name, given in data.items()
        }
    model = ScriptedModel(_answers(path, data))
    return dict.fromkeys(sorted(set(names)) or ["scripted"], model)


def _answers(path: Path, data: object) -> list[str]:
    """Return the answers: texts, or lists, which become JSON."""
    if not isinstance(data, list) or not all(isinstance(answer, str | list) for answer in data):
        raise InvalidInput(f"{path.name} must contain a list of answers.", hint=_SCRIPT)
    return [answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False) for answer in data]


_HOW = "Give module:NAME of a NodeType, or of a list of them, such as my_nodes:FIRST_FIVE."


def load_node_types(names: Sequence[str]) -> NodeTypes:
    """Return the node types with additional ones, named as `module:NAME`; modules may be in the working folder.

    NAME may be a `NodeType`, several, or a table of them. Importing a module runs it. Raises `InvalidInput` for a
    malformed name, a module that cannot be imported, and anything else than node types.
    """
    types = NODE_TYPES
    for name in names:
        new = [one for one in _named(name) if types.get(one.name) is not one]
        types = types.with_types(*new)
    return types


def _named(name: str) -> list[NodeType[Any]]:
    module_name, colon, attribute = name.partition(":")
    if not (module_name and colon and attribute):
        raise InvalidInput(f"--nodes needs module:NAME, not {name!r}.", hint=_HOW)
    try:
        with _working_folder():
            module = import_module(module_name)
    except (ImportError, SyntaxError) as error:
        raise InvalidInput(f"Cannot import the module {module_name!r}: {error}.", hint=_HOW) from error
    if not hasattr(module, attribute):
        known = [each for each in vars(module) if not each.startswith("_")]
        hint = nearest(attribute, known) if known else _HOW
        raise InvalidInput(f"The module {module_name!r} has no {attribute!r}.", hint=hint)
    types = list(_types_in(getattr(module, attribute)))
    if not types or not all(isinstance(one, NodeType) for one in types):
        raise InvalidInput(f"{name} is neither a NodeType nor a list of them.", hint=_HOW)
    return types


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
    """Make modules of the working folder importable, which the command `treering` does not do by default."""
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        sys.path.remove(folder)
