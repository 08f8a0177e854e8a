"""Run a workflow: node after node, each with the outputs of earlier ones."""

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from typing import Literal

from treering.core.errors import TreeringError
from treering.extensions.encoder.asking import Budget
from treering.extensions.encoder.language_model import LanguageModel, Usage
from treering.extensions.workflows.checking import WorkflowEnvironment, verify
from treering.extensions.workflows.definition import Preset
from treering.extensions.workflows.registry import RunData, RunEnded, Scene, Step, Workflow, WorkflowNode
from treering.ports.runtime import Clock
from treering.verbs.engine import Progress, silent
from treering.verbs.envelope import Value

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
        names = frozenset(self._endpoints), frozenset(self._presets)
        verify(workflow, WorkflowEnvironment(*names, len(inputs), chat=scene is not None))
        given = RunData(
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

    def _through(self, workflow: Workflow, given: RunData, held: ExitStack, progress: Progress) -> RunReport:
        steps: list[StepReport] = []
        memories: set[int] = set()
        for node in workflow.nodes:
            ended = given.ended()
            if ended:
                return _report(workflow, steps, Usage(), ended)
            progress(node.settings.title or node.id, node.position - 1, len(workflow.nodes))
            begun = self._clock.elapsed()
            step = Step(node, given, tuple(report.output for report in steps), held, frozenset(memories))
            output = _output(node, step)
            if isinstance(output, RunEnded):
                return _report(workflow, steps, step.usage, output)
            seconds = self._clock.elapsed() - begun
            memories |= {len(steps)} if step.recalls else set()
            steps.append(StepReport(id=node.id, type=node.type.name, output=output, seconds=seconds, usage=step.usage))
        progress("done", len(workflow.nodes), len(workflow.nodes))
        return _report(workflow, steps, Usage(), None)


def _output(node: WorkflowNode, step: Step) -> str | RunEnded:
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
