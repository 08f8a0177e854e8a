"""Plan and write the pages of a wiki with LangChain agents, which read the repository and have a memory."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, TypeVar

from langchain.agents import create_agent
from langchain.agents.middleware.types import AgentMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.errors import GraphRecursionError
from pydantic import BaseModel, Field

from treering.core.canonical import canonical_json, digest
from treering.core.characters import one_line
from treering.core.errors import Unavailable
from treering.extensions.encoder.asking import Budget
from treering.extensions.encoder.language_model import Usage
from treering.extensions.wiki.agent_pages import page_with_citations, usable_plan
from treering.extensions.wiki.memories.wiki_memory_service import WikiMemoryService
from treering.extensions.wiki.pages import PageKind, PagePlan, WikiPage, WikiPlan
from treering.extensions.wiki.work_tree import WikiMaterial
from treering.frameworks.langchain.run_scope import WikiRunContext
from treering.frameworks.langchain.wiki_middleware import WikiMemoryMiddleware
from treering.frameworks.wiki_generation.agent_prompts import PAGE, STRUCTURE, VERSION, page_task, structure_task
from treering.frameworks.wiki_generation.repository_tools import RepositoryTools
from treering.frameworks.wiki_generation.spending import SpendingMiddleware, price_of

_STEPS = 100
"""The maximum number of graph steps of one agent; a model call takes several."""
_ATTEMPTS = 4
"""The maximum number of results of one agent that do not fit the schema."""
_SHOWN_CHARS = 300
_CALLS, _ASKED, _ANSWERED = 4, 3_000, 2_500
"""The estimate per page besides its files, which are read twice: calls, input tokens per call, output tokens."""
_BYTES_PER_TOKEN = 3.6

_Result = TypeVar("_Result", bound=BaseModel)


class PageToPlan(BaseModel):
    """A page of the plan."""

    path: str = Field(description="Its path, such as modules/routing.md.")
    title: str
    kind: PageKind
    purpose: str = Field(description="Its content, in one sentence.")
    relevant_files: list[str] = Field(description="Its source files, by path from the root.")


class WikiStructure(BaseModel):
    """The plan of the wiki."""

    title: str
    description: str
    pages: list[PageToPlan]
    decisions: list[str] = Field(default=[], description="Decisions on the structure that later runs should know.")


class QuotedPlace(BaseModel):
    """Lines cited by the page."""

    path: str
    first_line: int
    last_line: int
    quote: str = Field(default="", description="A few words, copied from these lines.")


class WikiPageText(BaseModel):
    """The page."""

    body: str = Field(description="The page in Markdown, beginning with its title.")
    citations: list[QuotedPlace] = []
    patterns: list[str] = Field(default=[], description="Patterns in the code that later runs should know.")
    cross_references: list[str] = Field(default=[], description="Related pages and files, for later runs.")


class AgentWriter:
    """A `WikiWriter` that asks a chat model. Safe to use from many threads: each page has an agent of its own."""

    def __init__(
        self,
        material: WikiMaterial,
        model: str | BaseChatModel,
        *,
        budget: Budget | None = None,
        middleware: Sequence[AgentMiddleware[Any, Any, Any]] = (),
    ) -> None:
        self._material = material
        self._model = model
        self._budget = budget
        self._middleware = middleware
        self._reports: dict[str | None, tuple[tuple[str, ...], Usage]] = {}

    def plan_inputs(self) -> str:
        """Return a digest of the list of files: their content changes pages, not the plan."""
        return digest(canonical_json([VERSION, *self._material.read.tree.sizes]))

    def plan(self) -> WikiPlan:
        """Let an agent plan the pages. Raises `CeilingReached` and the errors of the model."""
        made, usage = self._ask("structure_agent", STRUCTURE, structure_task(self._material), WikiStructure, "plan")
        pages = [PagePlan(one.path, one.title, one.kind, one.purpose, tuple(one.relevant_files)) for one in made.pages]
        plan, notes = usable_plan(WikiPlan(made.title, made.description, tuple(pages)), self._material.read.tree.sizes)
        self._reports[None] = (notes, usage)
        return plan

    def write(self, plan: WikiPlan, page: PagePlan) -> WikiPage:
        """Let an agent write a page. Raises `CeilingReached` and the errors of the model."""
        made, usage = self._ask("page_agent", PAGE, page_task(plan, page), WikiPageText, page.path)
        quotes = {(one.path, one.first_line, one.last_line): one.quote for one in made.citations}
        written, notes = page_with_citations(plan, page, made.body, quotes, self._material.citations)
        self._reports[page.path] = (notes, usage)
        return written

    def inputs(self, plan: WikiPlan, page: PagePlan) -> str:
        """Return a digest of the page's plan and its source files."""
        texts = [self._material.read.tree.lines(path) for path in page.relevant_files]
        fields = [VERSION, page.path, page.title, page.kind, page.purpose, *page.relevant_files]
        return digest(canonical_json([fields, [[*lines] if lines else None for lines in texts]]))

    def report_on(self, path: str | None) -> tuple[tuple[str, ...], Usage]:
        """Return the omissions of a page and its usage; `None` for the plan."""
        return self._reports.get(path, ((), Usage()))

    def estimate(self, pages: Sequence[PagePlan]) -> Usage:
        """Estimate the usage of writing pages, from the sizes of their source files."""
        sizes: Mapping[str, int] = self._material.read.tree.sizes
        files = sum(sizes.get(path, 0) for page in pages for path in page.relevant_files)
        given = int(2 * files / _BYTES_PER_TOKEN) + _CALLS * _ASKED * len(pages)
        answered = _ANSWERED * len(pages)
        cost = None if isinstance(self._model, str) else price_of(self._model, given, answered)
        return Usage(_CALLS * len(pages), given, answered, cost)

    def _ask(self, agent: str, system: str, task: str, schema: type[_Result], step: str) -> tuple[_Result, Usage]:
        about, spending = self._material.repository, SpendingMiddleware(self._budget)
        memory = WikiMemoryMiddleware(agent, service=WikiMemoryService(self._material.memories))
        made = create_agent(
            self._model,
            RepositoryTools(self._material.space, lambda _runtime: self._material.read).tools(),
            system_prompt=system,
            middleware=[spending, memory, *self._middleware],
            response_format=ToolStrategy(schema, handle_errors=_Misfits(agent)),
            context_schema=WikiRunContext,
        )
        context = WikiRunContext(about.repository_id, about.branch, about.commit, about.generation)
        # Repeated calls have the same thread id, so that their memories are stored once.
        thread = f"wiki {self._material.run_id} {PurePosixPath(step)}"
        config: RunnableConfig = {"configurable": {"thread_id": thread}, "recursion_limit": _STEPS}
        try:
            state = made.invoke({"messages": [HumanMessage(task)]}, config, context=context)
        except GraphRecursionError as error:
            raise _no_result(agent, f"within {_STEPS} steps") from error
        result = state.get("structured_response")
        if not isinstance(result, schema):
            raise _no_result(agent)
        return result, spending.used


class _Misfits:
    """Return invalid results to an agent with the error, at most `_ATTEMPTS` times."""

    def __init__(self, agent: str) -> None:
        self._agent = agent
        self._count = 0

    def __call__(self, error: Exception) -> str:
        """Return the message for the agent. Raises `Unavailable` after the last attempt."""
        self._count += 1
        if self._count >= _ATTEMPTS:
            why = one_line(str(error), most=_SHOWN_CHARS)
            raise _no_result(self._agent, f"in {_ATTEMPTS} attempts: {why}") from error
        return f"The result is not valid: {error} Correct it and call the tool again."


def _no_result(agent: str, why: str = "") -> Unavailable:
    return Unavailable(
        f"The {agent} gave no valid result{' ' * bool(why)}{why}.", hint="Generate again, or use another model."
    )
