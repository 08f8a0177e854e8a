"""Two tools behind one registry, whose runs are logged: a search in papers, and an aligner."""

from dataclasses import dataclass, field
from typing import Any

from treering.client import MemorySystemClient, log_tool_runs

PAPERS = {
    "Aligning short reads": "Most aligners begin with seeds of length 19, which suits reads of 100 bases and more.",
    "Protein kinases": "Kinases transfer phosphate groups; their inhibitors bind at the site of ATP.",
    "Seeds and sensitivity": "Shorter seeds find more matches in short reads, and take longer.",
}
READ_LENGTH = 18
BEST_SEED = 11


@dataclass(frozen=True)
class ToolSpec:
    """The name of a tool, and its parameters."""

    name: str
    inputs: dict[str, type]


@dataclass(frozen=True)
class ExecutionResult:
    """The result of a tool."""

    success: bool
    data: dict[str, Any] = field(default_factory=dict)
    error: str | None = None


@log_tool_runs
class ToolRunner:
    """Runs one tool: checks its input first, and answers with the error where it fails.

    Integration point 6: each run of any tool is one memory. It is logged here and nowhere else.
    """

    spec: ToolSpec
    memory_client: MemorySystemClient | None = None

    def run(self, params: dict[str, Any]) -> ExecutionResult:
        """Run the tool."""
        for name, kind in self.spec.inputs.items():
            if not isinstance(params.get(name), kind):
                return ExecutionResult(success=False, error=f"{name}: {kind.__name__} expected")
        try:
            return ExecutionResult(success=True, data=self.execute(params))
        except ValueError as error:
            return ExecutionResult(success=False, error=str(error))

    def execute(self, params: dict[str, Any]) -> dict[str, Any]:
        """Run the tool."""
        raise NotImplementedError


class SearchPapers(ToolRunner):
    """Finds the papers that share most words with a question."""

    spec = ToolSpec("search_papers", {"query": str})

    def execute(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the best paper."""
        words = set(params["query"].casefold().split())
        title = max(PAPERS, key=lambda one: len(words & set(f"{one} {PAPERS[one]}".casefold().split())))
        return {"title": title, "abstract": PAPERS[title]}


class AlignReads(ToolRunner):
    """Aligns the short reads of a sample, with seeds of one length."""

    spec = ToolSpec("align_reads", {"sample": str, "seed_length": int})

    def execute(self, params: dict[str, Any]) -> dict[str, Any]:
        """Return the share of the reads that are mapped, in percent."""
        seed_length = params["seed_length"]
        if seed_length > READ_LENGTH:
            raise ValueError(f"seed_length: {seed_length} is longer than the reads, which have {READ_LENGTH} bases")
        return {"mapped": 98 - 4 * abs(seed_length - BEST_SEED)}


class ToolRegistry:
    """Makes tools by name."""

    def __init__(self, memory_client: MemorySystemClient | None = None) -> None:
        self._memory_client = memory_client
        self._tools: dict[str, type[ToolRunner]] = {tool.spec.name: tool for tool in (SearchPapers, AlignReads)}

    def make(self, name: str) -> ToolRunner:
        """Return a runner of a tool."""
        runner = self._tools[name]()
        runner.memory_client = self._memory_client
        return runner
