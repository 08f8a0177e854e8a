"""Types of nodes: what each is called, what it is told, and what it does. New types are added to a table."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from treering.core.errors import InvalidInput
from treering.parts.workflows.definition import Header, NodeSettings
from treering.parts.workflows.scene import Scene
from treering.parts.workflows.variables import NAME, Template
from treering.ports.models import Usage

AnySettings = TypeVar("AnySettings", bound=NodeSettings)
AnyHeld = TypeVar("AnyHeld")


@dataclass(frozen=True, slots=True)
class RunEnded:
    """What a node gives instead of an output where the workflow ends here, which is not a failure."""

    why: str
    cancelled: bool = False
    """Whether it ends because somebody wanted it to."""


class Step(Protocol):
    """What a node may use while it runs."""

    @property
    def scene(self) -> Scene:
        """Return the conversation the workflow runs in. Raises `InvalidInput` where there is none."""
        ...

    @property
    def node_id(self) -> str:
        """Name the node."""
        ...

    @property
    def run_id(self) -> str:
        """Name this run, unlike any other."""
        ...

    @property
    def model_id(self) -> str:
        """Name the model that `ask` asks."""
        ...

    @property
    def now(self) -> datetime:
        """Tell when the run began."""
        ...

    def fill(self, template: Template, own: Mapping[str, str] | None = None) -> str:
        """Put the values of variables into a template; `own` are those that only this type of node has."""
        ...

    def ask(self, prompt: str, *, system: str = "") -> str:
        """Ask the node's model, inside the budget. Raises what the model and the budget raise."""
        ...

    def used(self, usage: Usage) -> None:
        """Count what was used of models otherwise than by `ask`."""
        ...

    def hold(self, held: AbstractContextManager[AnyHeld]) -> AnyHeld:
        """Enter what is left when the run ends, however it ends."""
        ...

    def end_when(self, over: Callable[[], bool], why: str) -> None:
        """Have the run end before a later node where `over` says so then."""
        ...

    def cancelled(self) -> bool:
        """Tell whether somebody wants the run to stop; to ask between the parts of long work."""
        ...


@dataclass(frozen=True, slots=True)
class NodeType(Generic[AnySettings]):
    """A type of node: `run` gets its settings and gives its output.

    `remembers`: whether it reads or writes the memory of a conversation. `variables`: names that only its own
    templates may use; `run` gives their values to `Step.fill`. `creates`: whether it has memories or a summary made,
    for which the generator of the discussion may ask a model.
    """

    name: str
    summary: str
    settings: type[AnySettings]
    run: Callable[[AnySettings, Step], str | RunEnded]
    remembers: bool = False
    variables: tuple[str, ...] = ()
    creates: bool = False


class NodeTypes(Mapping[str, NodeType[Any]]):
    """A table of node types by name. Raises `InvalidInput` for a name that is taken or is not a single word."""

    def __init__(self, types: Iterable[NodeType[Any]]) -> None:
        self._types: dict[str, NodeType[Any]] = {}
        for one in types:
            if one.name in self._types or not NAME.fullmatch(one.name):
                raise InvalidInput(
                    f"{one.name!r} cannot name a type of node: it is taken, or not a single word.",
                    hint="Choose another name, of letters, digits and underscores.",
                )
            self._types[one.name] = one

    def with_types(self, *types: NodeType[Any]) -> "NodeTypes":
        """Return a table that has further types."""
        return NodeTypes([*self._types.values(), *types])

    def __getitem__(self, name: str) -> NodeType[Any]:
        return self._types[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._types)

    def __len__(self) -> int:
        return len(self._types)


# A checked workflow: its nodes in the order in which they run, and the names they use.


@dataclass(frozen=True, slots=True)
class Mentions:
    """The names one node uses, and where: what has to be there before anything runs."""

    where: str
    templates: tuple[tuple[str, Template], ...] = ()
    """By the key they are written under."""
    own: tuple[str, ...] = ()
    """Variables that only nodes of its type have."""
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
    """A workflow that was checked; `checking.load` makes it."""

    nodes: tuple[WorkflowNode, ...]
    header: Header = field(default_factory=Header)

    @property
    def returned(self) -> WorkflowNode:
        """The node whose output is the workflow's: the last that says `returnToUser`, or the last."""
        return next(reversed(self._returning), self.nodes[-1])

    @property
    def warnings(self) -> tuple[str, ...]:
        """What may be a mistake in it, and what is done about it."""
        if len(self._returning) < 2:
            return ()
        several = ", ".join(node.mentions.where for node in self._returning)
        return (f"Several nodes say returnToUser: {several}. The output of the last of them is returned.",)

    @property
    def _returning(self) -> list[WorkflowNode]:
        return [node for node in self.nodes if node.settings.return_to_user]
