"""Types of nodes in an extensible table, their conversation (`Scene`), and their running nodes (`Step`)."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, TypeVar

from treering.core.errors import InvalidInput
from treering.core.fencing import fence
from treering.extensions.discussions.memory import Discussion, Recollection
from treering.extensions.encoder.asking import Budget, most_used
from treering.extensions.encoder.language_model import LanguageModel, Usage
from treering.extensions.workflows.definition import (
    CHAT_VARIABLES,
    NAME,
    NUMBERED,
    RECALLED,
    AskingSettings,
    ChatContext,
    Header,
    NodeSettings,
    Preset,
    Template,
)
from treering.extensions.workflows.results import StoredResults
from treering.ports.runtime import Leases
from treering.verbs.engine import Engine

_ORIGIN = "memory of the conversation"


@dataclass(frozen=True, slots=True)
class Scene:
    """A conversation. Fields of stored conversations are `None` for messages without one: nothing is stored for those.

    `creator` makes memories, `results` stores results of chunks, `leases` let one run at a time work.
    """

    recollection: Recollection
    discussion_id: str = ""
    system_prompt: str = ""
    scope: str = ""
    creator: Discussion | None = None
    results: StoredResults | None = None
    leases: Leases | None = None

    @property
    def is_kept(self) -> bool:
        """Return whether it is a stored discussion."""
        return self.creator is not None


def scene_of(engine: Engine, discussion: Discussion, *, system_prompt: str = "") -> Scene:
    """Return the scene of a stored discussion."""
    return Scene(
        recollection=discussion,
        discussion_id=discussion.id,
        system_prompt=system_prompt,
        scope=discussion.ref.scope,
        creator=discussion,
        results=StoredResults(engine, discussion.ref),
        leases=engine.leases,
    )


AnySettings = TypeVar("AnySettings", bound=NodeSettings)
AnyHeld = TypeVar("AnyHeld")


@dataclass(frozen=True, slots=True)
class RunEnded:
    """Returned by a node instead of an output to end the workflow, which is not an error."""

    why: str
    cancelled: bool = False
    """Whether it ends because of a cancellation."""


@dataclass(frozen=True, slots=True)
class NodeType(Generic[AnySettings]):
    """A type of node: `run` gets its settings and returns its output.

    `remembers`: whether it uses the memory of a conversation. `variables`: names for its own templates; `run` passes
    their values to `Step.fill`. `creates`: whether it makes memories or a summary, which the generator of the
    discussion may call a model.
    """

    name: str
    summary: str
    settings: type[AnySettings]
    run: Callable[[AnySettings, "Step"], str | RunEnded]
    remembers: bool = False
    variables: tuple[str, ...] = ()
    creates: bool = False


class NodeTypes(Mapping[str, NodeType[Any]]):
    """A table of node types by name. Raises `InvalidInput` for a name that is used or is not a single word."""

    def __init__(self, types: Iterable[NodeType[Any]]) -> None:
        self._types: dict[str, NodeType[Any]] = {}
        for one in types:
            if one.name in self._types or not NAME.fullmatch(one.name):
                raise InvalidInput(
                    f"{one.name!r} is not a valid name for a node type: it is already used, or not a single word.",
                    hint="Choose another name of letters, digits and underscores.",
                )
            self._types[one.name] = one

    def with_types(self, *types: NodeType[Any]) -> "NodeTypes":
        """Return a table with additional types."""
        return NodeTypes([*self._types.values(), *types])

    def __getitem__(self, name: str) -> NodeType[Any]:
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


@dataclass(frozen=True, slots=True)
class Mentions:
    """The names that one node uses, which must exist before a workflow runs."""

    where: str
    templates: tuple[tuple[str, Template], ...] = ()
    """By key."""
    own: tuple[str, ...] = ()
    """Variables of its node type."""
    asks: bool = False
    remembers: bool = False
    type: str = ""
    endpoint: str = ""
    preset: str = ""


@dataclass(frozen=True, slots=True)
class WorkflowNode:
    """One node. Its output is `{agent<position>Output}` to the nodes after it."""

    position: int
    id: str
    type: NodeType[Any]
    settings: NodeSettings
    mentions: Mentions


@dataclass(frozen=True, slots=True)
class Workflow:
    """A validated workflow from `checking.load`."""

    nodes: tuple[WorkflowNode, ...]
    header: Header = field(default_factory=Header)

    @property
    def returned(self) -> WorkflowNode:
        """The node whose output is the workflow's: the last one with `returnToUser`, or the last."""
        return next(reversed(self._returning), self.nodes[-1])

    @property
    def warnings(self) -> tuple[str, ...]:
        """Possible mistakes, and how they are handled."""
        if len(self._returning) < 2:
            return ()
        several = ", ".join(node.mentions.where for node in self._returning)
        return (f"Several nodes set returnToUser: {several}. The output of the last one is returned.",)

    @property
    def _returning(self) -> list[WorkflowNode]:
        return [node for node in self.nodes if node.settings.return_to_user]


@dataclass(frozen=True, slots=True)
class RunData:
    """The common data of all nodes of a run."""

    endpoints: Mapping[str, LanguageModel]
    presets: Mapping[str, Preset]
    budget: Budget
    inputs: tuple[str, ...]
    variables: Mapping[str, str]
    scene: Scene | None
    now: datetime
    run_id: str
    cancelled: Callable[[], bool]
    material: bool
    ends: list[tuple[Callable[[], bool], str]] = field(default_factory=list)
    """Conditions that end the run, with reasons."""

    def ended(self) -> RunEnded | None:
        """Return the reason to end the run before the next node, if there is one."""
        if self.cancelled():
            return RunEnded("The run was cancelled.", cancelled=True)
        return next((RunEnded(why) for over, why in self.ends if over()), None)


class Step:
    """One node of one run, as its type sees it."""

    outputs: tuple[str, ...]
    """The outputs of earlier nodes."""

    def __init__(
        self, node: WorkflowNode, run: RunData, outputs: tuple[str, ...], held: ExitStack, memories: frozenset[int]
    ) -> None:
        self.usage: Usage = Usage()
        self._recalled = False
        self._memories = memories
        self._node = node
        self._run = run
        self.outputs = outputs
        self._held = held

    @property
    def scene(self) -> Scene:
        """Return the conversation of the workflow. Raises `InvalidInput` if there is none."""
        if self._run.scene is None:
            raise InvalidInput(
                "It needs a conversation, but the workflow runs without one.", hint="Run the workflow in a discussion."
            )
        return self._run.scene

    @property
    def node_id(self) -> str:
        """The id of the node."""
        return self._node.id

    @property
    def run_id(self) -> str:
        """The unique id of this run."""
        return self._run.run_id

    @property
    def model_id(self) -> str:
        """The id of the model used by `ask`."""
        return self._model.model_id

    @property
    def now(self) -> datetime:
        """The start time of the run."""
        return self._run.now

    def fill(self, template: Template, own: Mapping[str, str] | None = None) -> str:
        """Insert the values of variables into a template."""
        mine = own or {}
        return template.fill(lambda name: self._put_in(mine[name]) if name in mine else self._shown(name))

    @property
    def recalls(self) -> bool:
        """Whether the output is, or contains, recalled content; a model's answer does not count as recalled."""
        return self._node.type.remembers or (self._recalled and not self._node.mentions.asks)

    def ask(self, prompt: str, *, system: str = "") -> str:
        """Call the node's model, within the budget."""
        model, most = self._model, self._max_output_tokens
        answer = self._run.budget.spend(
            most_used(model, prompt, system=system, max_output_tokens=most),
            lambda: model.answer(prompt, system=system, max_output_tokens=most),
        )
        self.used(answer.usage)
        return answer.text

    def used(self, usage: Usage) -> None:
        """Add the usage of models."""
        self.usage += usage

    def hold(self, held: AbstractContextManager[AnyHeld]) -> AnyHeld:
        """Enter a context that is left when the run ends in any way."""
        return self._held.enter_context(held)

    def end_when(self, over: Callable[[], bool], why: str) -> None:
        """End the run before a later node if `over` returns true then."""
        self._run.ends.append((over, why))

    def cancelled(self) -> bool:
        """Return whether the run should stop."""
        return self._run.cancelled()

    def _shown(self, name: str) -> str:
        return self._put_in(self._value(name)) if self._is_recalled(name) else self._value(name)

    def _put_in(self, recalled: str) -> str:
        """Return recalled content for a template: fenced as data if a model reads it."""
        self._recalled = True
        return fence(recalled, origin=_ORIGIN) if self._node.mentions.asks and recalled.strip() else recalled

    def _is_recalled(self, name: str) -> bool:
        numbered = NUMBERED.fullmatch(name)
        if numbered:
            return self._run.material if numbered[2] == "Input" else int(numbered[1]) - 1 in self._memories
        return name in RECALLED

    def _value(self, name: str) -> str:
        numbered = NUMBERED.fullmatch(name)
        if numbered:
            return (self._run.inputs if numbered[2] == "Input" else self.outputs)[int(numbered[1]) - 1]
        if name in self._run.variables:
            return self._run.variables[name]
        scene = self.scene
        chat = ChatContext(scene.recollection, self._run.now, scene.discussion_id, scene.system_prompt)
        return CHAT_VARIABLES[name].value(chat)

    @property
    def _asking(self) -> AskingSettings:
        settings = self._node.settings
        return settings if isinstance(settings, AskingSettings) else AskingSettings(type=settings.type)

    @property
    def _model(self) -> LanguageModel:
        name = self._asking.endpoint_name
        return self._run.endpoints[name] if name else next(iter(self._run.endpoints.values()))

    @property
    def _max_output_tokens(self) -> int:
        preset = self._run.presets[self._asking.preset] if self._asking.preset else Preset()
        return self._asking.max_output_tokens or preset.max_output_tokens
