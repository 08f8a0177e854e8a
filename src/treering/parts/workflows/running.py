"""Run a workflow: node after node, each with the outputs of earlier ones."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, TypeVar

from treering.core.errors import InvalidInput, TreeringError
from treering.core.fencing import fence
from treering.parts.workflows.checking import WorkflowEnvironment, verify
from treering.parts.workflows.definition import (
    CHAT_VARIABLES,
    NUMBERED,
    RECALLED,
    AskingSettings,
    ChatContext,
    Preset,
    Template,
)
from treering.parts.workflows.registry import RunEnded, Scene, Workflow, WorkflowNode
from treering.ports.models import LanguageModel, Usage
from treering.ports.runtime import Clock
from treering.retrieval.extraction.asking import Budget, most_used
from treering.verbs.engine import Progress, silent
from treering.verbs.envelope import Value

AnyHeld = TypeVar("AnyHeld")
_ORIGIN = "memory of the conversation"
REQUESTS = 200
"""The maximum number of model calls per run without a budget."""


class StepReport(Value):
    """The output of one node."""

    id: str
    type: str
    output: str
    seconds: float
    usage: Usage


class RunReport(Value):
    """The result of a run.

    `text` is the output of the node with `returnToUser`, else of the last. `ended`: a node ended the run early, which
    is not an error (another run holds a lock); then, and if it was `cancelled`, `text` is empty unless the node with
    `returnToUser` had run. `why` is the reason. `warnings`: possible mistakes in the workflow.
    """

    outcome: Literal["done", "ended", "cancelled"]
    text: str
    why: str = ""
    steps: tuple[StepReport, ...] = ()
    usage: Usage = Usage()
    warnings: tuple[str, ...] = ()


def never() -> bool:
    """Return `False`: the default for `cancelled`."""
    return False


class Runner:
    """Run workflows with given models. May be shared by threads.

    `endpoints` and `presets` are the ones named by nodes; they take precedence over those in a workflow. All runs share
    the `budget`; without one, each run may call models `REQUESTS` times.
    """

    def __init__(
        self,
        clock: Clock,
        *,
        endpoints: Mapping[str, LanguageModel] | None = None,
        presets: Mapping[str, Preset] | None = None,
        budget: Budget | None = None,
    ) -> None:
        self._clock = clock
        self._endpoints = dict(endpoints or {})
        self._presets = dict(presets or {})
        self._budget = budget

    def run(
        self,
        workflow: Workflow,
        *,
        inputs: Sequence[str] = (),
        scene: Scene | None = None,
        progress: Progress = silent,
        cancelled: Callable[[], bool] = never,
        material: bool = False,
    ) -> RunReport:
        """Run a workflow. `inputs` are `{agent1Input}`, `{agent2Input}`, …; `scene` is the conversation, if any.

        Recalled text is fenced as data in prompts; with `material` the inputs are too. `cancelled` is called before
        each node, and between the parts of long ones, to check whether to stop. Raises `InvalidInput` before anything
        runs if the workflow uses an unknown name, and the errors of nodes, with the node and the outputs of earlier
        ones in `details["outputs"]`.
        """
        verify(workflow, self._known(len(inputs), scene))
        given = _Given(
            endpoints=self._endpoints,
            presets={**workflow.header.presets, **self._presets},
            budget=self._budget or Budget(requests=REQUESTS),
            inputs=tuple(inputs),
            variables=workflow.header.variables,
            scene=scene,
            now=self._clock.now(),
            run_id=self._clock.random_bytes(8).hex(),
            cancelled=cancelled,
            material=material,
        )
        with ExitStack() as held:
            return self._through(workflow, given, held, progress)

    def _known(self, inputs: int, scene: Scene | None) -> WorkflowEnvironment:
        return WorkflowEnvironment(frozenset(self._endpoints), frozenset(self._presets), inputs, chat=scene is not None)

    def _through(self, workflow: Workflow, given: "_Given", held: ExitStack, progress: Progress) -> RunReport:
        steps: list[StepReport] = []
        memories: set[int] = set()
        for node in workflow.nodes:
            ended = given.ended()
            if ended:
                return _report(workflow, steps, Usage(), ended)
            progress(node.settings.title or node.id, node.position - 1, len(workflow.nodes))
            begun = self._clock.elapsed()
            step = NodeStep(node, given, tuple(report.output for report in steps), held, frozenset(memories))
            output = _output(node, step)
            if isinstance(output, RunEnded):
                return _report(workflow, steps, step.usage, output)
            seconds = self._clock.elapsed() - begun
            memories |= {len(steps)} if step.recalls else set()
            steps.append(StepReport(id=node.id, type=node.type.name, output=output, seconds=seconds, usage=step.usage))
        progress("done", len(workflow.nodes), len(workflow.nodes))
        return _report(workflow, steps, Usage(), None)


@dataclass(frozen=True, slots=True)
class _Given:
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


class NodeStep:
    """A `registry.Step`: one node of one run."""

    def __init__(
        self, node: WorkflowNode, given: _Given, outputs: tuple[str, ...], held: ExitStack, memories: frozenset[int]
    ) -> None:
        self.usage: Usage = Usage()
        self._recalled = False
        self._memories = memories
        self._node = node
        self._given = given
        self._outputs = outputs
        self._held = held

    @property
    def scene(self) -> Scene:
        """Return the conversation of the workflow. Raises `InvalidInput` if there is none."""
        if self._given.scene is None:
            raise InvalidInput(
                "It needs a conversation, but the workflow runs without one.", hint="Run the workflow in a discussion."
            )
        return self._given.scene

    @property
    def node_id(self) -> str:
        """The id of the node."""
        return self._node.id

    @property
    def run_id(self) -> str:
        """The unique id of this run."""
        return self._given.run_id

    @property
    def model_id(self) -> str:
        """The id of the model used by `ask`."""
        return self._model.model_id

    @property
    def now(self) -> datetime:
        """The start time of the run."""
        return self._given.now

    @property
    def outputs(self) -> tuple[str, ...]:
        """The outputs of earlier nodes."""
        return self._outputs

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
        answer = self._given.budget.spend(
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
        self._given.ends.append((over, why))

    def cancelled(self) -> bool:
        """Return whether the run should stop."""
        return self._given.cancelled()

    def _shown(self, name: str) -> str:
        return self._put_in(self._value(name)) if self._is_recalled(name) else self._value(name)

    def _put_in(self, recalled: str) -> str:
        """Return recalled content for a template: fenced as data if a model reads it."""
        self._recalled = True
        return fence(recalled, origin=_ORIGIN) if self._node.mentions.asks and recalled.strip() else recalled

    def _is_recalled(self, name: str) -> bool:
        numbered = NUMBERED.fullmatch(name)
        if numbered:
            return self._given.material if numbered[2] == "Input" else int(numbered[1]) - 1 in self._memories
        return name in RECALLED

    def _value(self, name: str) -> str:
        numbered = NUMBERED.fullmatch(name)
        if numbered:
            return (self._given.inputs if numbered[2] == "Input" else self._outputs)[int(numbered[1]) - 1]
        if name in self._given.variables:
            return self._given.variables[name]
        scene = self.scene
        chat = ChatContext(scene.recollection, self._given.now, scene.discussion_id, scene.system_prompt)
        return CHAT_VARIABLES[name].value(chat)

    @property
    def _asking(self) -> AskingSettings:
        settings = self._node.settings
        return settings if isinstance(settings, AskingSettings) else AskingSettings(type=settings.type)

    @property
    def _model(self) -> LanguageModel:
        name = self._asking.endpoint_name
        return self._given.endpoints[name] if name else next(iter(self._given.endpoints.values()))

    @property
    def _max_output_tokens(self) -> int:
        preset = self._given.presets[self._asking.preset] if self._asking.preset else Preset()
        return self._asking.max_output_tokens or preset.max_output_tokens


def _output(node: WorkflowNode, step: NodeStep) -> str | RunEnded:
    """Run a node; add its name to errors."""
    try:
        return node.type.run(node.settings, step)
    except TreeringError as error:
        raise _named(error, node, step.outputs) from error


def _named(error: TreeringError, node: WorkflowNode, outputs: Sequence[str]) -> TreeringError:
    ours = [each for each in type(error).__mro__ if issubclass(each, TreeringError)]
    # The nearest class with the standard constructor; others build their messages themselves.
    kind = next(each for each in ours if each.__init__ is TreeringError.__init__)
    message = f"{node.mentions.where} ({node.type.name}): {error.message}"
    details = {**error.details, "node": node.id, "outputs": list(outputs)}
    return kind(message, hint=error.hint, details=details)


def _report(workflow: Workflow, steps: Sequence[StepReport], last: Usage, ended: RunEnded | None) -> RunReport:
    returned = workflow.returned
    whole = ended is None or returned.settings.return_to_user
    ran = {report.id: report.output for report in steps}
    return RunReport(
        outcome="done" if ended is None else "cancelled" if ended.cancelled else "ended",
        text=ran.get(returned.id, "") if whole else "",
        why=ended.why if ended else "",
        steps=tuple(steps),
        usage=sum((report.usage for report in steps), last),
        warnings=workflow.warnings,
    )
