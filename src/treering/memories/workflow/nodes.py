"""Nodes that need no memory: a model's answer, a text, a lock."""

from pydantic import Field

from treering.memories.leasing import held
from treering.memories.workflow.definition import NOTHING, AskingSettings, NodeSettings, Text
from treering.memories.workflow.registry import NodeType, RunEnded, Step
from treering.memories.workflow.scene import Scene

LOCK_SECONDS = 60.0
"""How long a run that shows no sign of life keeps others out."""


class StandardSettings(AskingSettings):
    """A prompt for a model."""

    prompt: Text


class ResponseSettings(NodeSettings):
    """A text."""

    content: Text


class LockSettings(NodeSettings):
    """A lock: its name, and whether every discussion has one of this name, or the space has a single one."""

    workflow_lock_id: Text = NOTHING
    per_discussion: bool = True
    seconds: float = Field(default=LOCK_SECONDS, gt=0, le=86_400)


def ask(told: StandardSettings, step: Step) -> str:
    """Ask the model."""
    return step.ask(step.fill(told.prompt), system=step.fill(told.system_prompt))


def respond(told: ResponseSettings, step: Step) -> str:
    """Return the text."""
    return step.fill(told.content)


def lock(told: LockSettings, step: Step) -> str | RunEnded:
    """Hold a lock until the run ends, or end it here because another run holds it.

    Messages at hand have nothing that two runs could want at once: there it does nothing.
    """
    scene = step.scene
    if scene.leases is None:
        return ""
    name = step.fill(told.workflow_lock_id)
    lease = step.hold(held(scene.leases, _lease_name(scene, told, name), step.run_id, told.seconds))
    called = f"the lock {name!r}" if name else "the lock"
    if lease is None:
        return RunEnded(f"Another run holds {called}.")
    step.end_when(lambda: lease.lost, f"This run lost {called}.")
    return ""


def _lease_name(scene: Scene, told: LockSettings, name: str) -> str:
    return f"workflow:{scene.scope if told.per_discussion else ''}:{name}"


NODES = (
    NodeType("Standard", "asks a language model", StandardSettings, ask),
    NodeType("StaticResponse", "gives a text", ResponseSettings, respond),
    NodeType(
        "WorkflowLock", "lets one run at a time go on; another one ends there", LockSettings, lock, remembers=True
    ),
)
