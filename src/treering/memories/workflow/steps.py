"""A checked workflow: its nodes in the order in which they run, and the names they use."""

from dataclasses import dataclass, field
from typing import Any

from treering.memories.workflow.definition import Header, NodeSettings
from treering.memories.workflow.registry import NodeType
from treering.memories.workflow.variables import Template


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
