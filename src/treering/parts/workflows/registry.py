"""Types of nodes in an extensible table, and the conversation they work on (`Scene`)."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from treering.core.errors import Conflict, InvalidInput, InvalidPatch
from treering.core.evidence import EvidenceRef
from treering.core.filters import And, Compare
from treering.core.objects import Knowledge, Summary
from treering.core.patch import Create
from treering.parts.discussions.identity import DiscussionRef, apply_patch
from treering.parts.discussions.log.blocks import StoredMessage
from treering.parts.discussions.memory import Discussion, Recollection
from treering.parts.discussions.summaries.memories import citing
from treering.parts.workflows.definition import NAME, Header, NodeSettings, Template
from treering.ports.ledger import Selection
from treering.ports.models import Usage
from treering.ports.runtime import Leases
from treering.verbs.crystallize.drafting import make
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call


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
    results: "StoredResults | None" = None
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


@dataclass(frozen=True, slots=True)
class StoredResults:
    """The results for chunks of one discussion, as knowledge with the messages of the chunk as evidence."""

    engine: Engine
    ref: DiscussionRef

    def find(self, key: str) -> str | None:
        """Return the result with a key. The cost does not grow with the discussion."""
        named = {"kind": "summary", "scope": self.ref.scope, "title": self._title(key), "status": "active"}
        where = And(tuple(Compare(name, "eq", value) for name, value in named.items()))
        items = self.engine.ledger.select(Selection(scope=self.ref.scope, types=("knowledge",), where=where))
        return next((item.summary for item in items if isinstance(item, Knowledge) and _is_of(item, key)), None)

    def keep(self, key: str, text: str, messages: Sequence[StoredMessage], *, made_by: str) -> None:
        """Store a result, without secrets, unless another run already stored one.

        Raises `Conflict` if a message was withdrawn in the meantime, `Denied` if the space requires a review.
        """
        evidence = citing(messages)
        fields = {
            "kind": "summary",
            "title": self._title(key),
            "summary": text,
            "status": "active",
            "evidence_refs": [ref.model_dump(mode="json") for ref in evidence],
            "payload": self._payload(key, messages, made_by).model_dump(mode="json"),
            "memory_source": "system_generated",
        }
        item = make(Call(self.engine, self.ref.scope), Knowledge, fields)
        reason = f"What was made of messages {messages[0].position} to {messages[-1].position}"
        try:
            apply_patch(self.engine, self.ref, [Create(object=item)], reason=reason)
        except InvalidPatch as error:
            if self._exist(evidence):
                raise
            raise Conflict("A message was withdrawn in the meantime.", hint="Run the workflow again.") from error

    def _payload(self, key: str, messages: Sequence[StoredMessage], made_by: str) -> Summary:
        return Summary(form="digest", key=key, first=messages[0].position, last=messages[-1].position, made_by=made_by)

    def _title(self, key: str) -> str:
        return f"Discussion {self.ref.id}: made of a chunk, {key}"

    def _exist(self, evidence: Sequence[EvidenceRef]) -> bool:
        places = [(ref.source_id, ref.segment_id) for ref in evidence]
        return len(self.engine.ledger.segments(places)) == len(set(places))


def _is_of(item: Knowledge, key: str) -> bool:
    return isinstance(item.payload, Summary) and item.payload.key == key


AnySettings = TypeVar("AnySettings", bound=NodeSettings)
AnyHeld = TypeVar("AnyHeld")


@dataclass(frozen=True, slots=True)
class RunEnded:
    """Returned by a node instead of an output to end the workflow, which is not an error."""

    why: str
    cancelled: bool = False
    """Whether it ends because of a cancellation."""


class Step(Protocol):
    """The interface of a running node."""

    @property
    def scene(self) -> Scene:
        """Return the conversation of the workflow. Raises `InvalidInput` if there is none."""
        ...

    @property
    def node_id(self) -> str:
        """The id of the node."""
        ...

    @property
    def run_id(self) -> str:
        """The unique id of this run."""
        ...

    @property
    def model_id(self) -> str:
        """The id of the model used by `ask`."""
        ...

    @property
    def now(self) -> datetime:
        """The start time of the run."""
        ...

    def fill(self, template: Template, own: Mapping[str, str] | None = None) -> str:
        """Insert the values of variables into a template; `own` are variables of this type of node."""
        ...

    def ask(self, prompt: str, *, system: str = "") -> str:
        """Call the node's model, within the budget. Raises the errors of the model and the budget."""
        ...

    def used(self, usage: Usage) -> None:
        """Record usage of models outside `ask`."""
        ...

    def hold(self, held: AbstractContextManager[AnyHeld]) -> AnyHeld:
        """Enter a context that is left when the run ends in any way."""
        ...

    def end_when(self, over: Callable[[], bool], why: str) -> None:
        """End the run before a later node if `over` returns a reason then."""
        ...

    def cancelled(self) -> bool:
        """Return whether the run should stop; call it between parts of long work."""
        ...


@dataclass(frozen=True, slots=True)
class NodeType(Generic[AnySettings]):
    """A type of node: `run` gets its settings and returns its output.

    `remembers`: whether it uses the memory of a conversation. `variables`: names for its own templates; `run` passes
    their values to `Step.fill`. `creates`: whether it makes memories or a summary, for which the generator of the
    discussion may call a model.
    """

    name: str
    summary: str
    settings: type[AnySettings]
    run: Callable[[AnySettings, Step], str | RunEnded]
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
