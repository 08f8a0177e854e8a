"""The data of a run: the state of the workflow, the dependencies of its agents, and the history of its tools."""

from collections import Counter
from dataclasses import dataclass, field, replace
from enum import Enum
from time import time
from typing import Any

from pydantic import BaseModel

from treering.client import MemoryDependencies, MemoryState

from .tools import ToolRegistry


class ExecutionStatus(Enum):
    """How a step ended."""

    SUCCESS = "success"
    FAILED = "failed"


@dataclass
class ExecutionItem:
    """One step of a run."""

    step_name: str
    tool: str
    status: ExecutionStatus
    result: dict[str, Any] | None = None
    error: str | None = None
    timestamp: float = field(default_factory=time)
    duration: float | None = None
    retry_count: int = 0


@dataclass
class ExecutionHistory:
    """The steps of a run, in order."""

    items: list[ExecutionItem] = field(default_factory=list)

    def get_failure_patterns(self) -> dict[str, int]:
        """Return how many steps failed for each kind of error."""
        failed = [item for item in self.items if item.status is ExecutionStatus.FAILED]
        return dict(Counter("seed_too_long" if "longer than" in (item.error or "") else "other" for item in failed))


class Plan(BaseModel):
    """The decision of the planner: where to begin, and the reason."""

    seed_length: int
    step: int
    because: list[str] = []


@dataclass(frozen=True)
class Alignment:
    """The result of one seed length: the share of mapped reads in percent; `None` if it failed."""

    seed_length: int
    mapped: int | None

    def __str__(self) -> str:
        return f"{self.seed_length}: {'failed' if self.mapped is None else f'{self.mapped} %'}"


@dataclass
class ResearchState(MemoryState):
    """The state of the workflow. Integration point 1: its memory fields are inherited."""

    question: str
    max_iterations: int = 3
    plan: Plan | None = None
    tried: list[Alignment] = field(default_factory=list)
    history: ExecutionHistory = field(default_factory=ExecutionHistory)
    earlier_plans: list[str] = field(default_factory=list)
    """The memories of earlier runs that the node of the plan received."""
    recalled: list[str] = field(default_factory=list)
    """The memories that the planner retrieved."""

    @property
    def best(self) -> Alignment | None:
        """The alignment that mapped most."""
        worked = [one for one in self.tried if one.mapped is not None]
        return max(worked, key=lambda one: one.mapped or 0, default=None)

    @property
    def next_seed_length(self) -> int:
        """The seed length to try now."""
        if self.plan is None:
            raise ValueError("There is no plan yet.")
        return self.plan.seed_length + self.plan.step * len(self.tried)

    @property
    def goes_on(self) -> bool:
        """Whether to try another seed length: until one maps less than the one before, or there were enough."""
        shares = [one.mapped or 0 for one in self.tried]
        return len(shares) < self.max_iterations and (len(shares) < 2 or shares[-1] >= shares[-2])

    def took(self, alignment: Alignment, duration: float) -> None:
        """Add the result, and the step to the history."""
        self.tried.append(alignment)
        worked = alignment.mapped is not None
        self.history.items.append(
            ExecutionItem(
                step_name=f"align with seed length {alignment.seed_length}",
                tool="align_reads",
                status=ExecutionStatus.SUCCESS if worked else ExecutionStatus.FAILED,
                result={"mapped": alignment.mapped} if worked else None,
                error=None if worked else f"seed length {alignment.seed_length} is longer than the reads",
                duration=duration,
            )
        )


@dataclass
class AgentDependencies(MemoryDependencies):
    """The dependencies of the agents. Integration point 2: their memory fields are inherited."""

    tools: ToolRegistry = field(default_factory=ToolRegistry)

    def of_all_runs(self, agent_profile: str) -> "AgentDependencies":
        """Return the dependencies of an agent that sees the memories of all runs: it has no session."""
        return replace(self, session_id=None, agent_profile=agent_profile)
