"""Many agents on many repositories through one middleware, with faults in every run: what is mixed, lost or doubled."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from threading import Lock
from typing import Any

from langchain.agents import create_agent
from langchain.agents.middleware import ModelRetryMiddleware, TodoListMiddleware, ToolRetryMiddleware
from langchain.agents.structured_output import ToolStrategy
from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable
from pydantic import BaseModel, PrivateAttr

import treering
from benchmarks.costs import cost_of
from benchmarks.figures import Figure, Row, at_most
from benchmarks.plan import Plan, workplace
from treering.core.objects import Source
from treering.extensions.wiki.memories.space_memories import SpaceWikiMemories
from treering.extensions.wiki.memories.wiki_memory import (
    KeptWikiMemory,
    StoredWikiMemory,
    WikiMemoryDraft,
    WikiRepository,
)
from treering.langchain import WikiMemoryMiddleware, WikiRunContext
from treering.ports.ledger import Selection
from treering.testing import HashingEmbedder
from treering.wiki import WikiMemoryService

_AGENTS, _QUICK_AGENTS = 200, 12
_REPOSITORIES, _QUICK_REPOSITORIES = 50, 4
_AT_ONCE = 16
_STORES = 3
"""Of each run: two by tools, one taken from the structured response."""


class _Result(BaseModel):
    """What an agent answers."""

    text: str
    decisions: list[str]


class _Script(BaseChatModel):
    """Gives one answer for each call, or raises it; keeps the texts it was shown."""

    answers: list[Any]
    _given: int = PrivateAttr(default=0)
    _shown: list[str] = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self) -> str:
        return "script"

    @property
    def shown(self) -> str:
        """All that the model was shown."""
        return "\n".join(self._shown)

    def bind_tools(
        self,
        tools: Sequence[Any],  # noqa: ARG002 - LangChain's signature, here and below
        **options: Any,  # noqa: ARG002
    ) -> Runnable[Any, AIMessage]:
        """Answer by the script, whatever tools there are."""
        return self

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,  # noqa: ARG002
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002
        **options: Any,  # noqa: ARG002
    ) -> ChatResult:
        self._shown += [str(message.text) for message in messages]
        self._given += 1
        answer = self.answers[self._given - 1]
        if isinstance(answer, Exception):
            raise answer
        return ChatResult(generations=[ChatGeneration(message=answer)])


class _FailsOnce:
    """A store over a space that fails twice for each agent: at its first store and at its first recall.

    The store of an odd agent fails before the memory is kept, that of an even one after.
    """

    def __init__(self, kept: SpaceWikiMemories) -> None:
        self._kept = kept
        self._lock = Lock()
        self._met: set[str] = set()
        self.faults = 0

    def store(self, repository: WikiRepository, draft: WikiMemoryDraft, *, key: str | None = None) -> StoredWikiMemory:
        """Keep a memory, or fail before or after that."""
        first = draft.content.endswith("finding 1.") and self._is_first(draft.content)
        if first and _number(draft.content) % 2:
            raise ConnectionError("lost before")
        stored = self._kept.store(repository, draft, key=key)
        if first:
            raise ConnectionError("lost after")
        return stored

    def search(self, repository: WikiRepository, query: str, **options: Any) -> Sequence[KeptWikiMemory]:
        """Search, or fail."""
        if query.startswith("findings of agent") and self._is_first(query):
            raise ConnectionError("lost")
        return self._kept.search(repository, query, **options)

    def by_files(self, repository: WikiRepository, file_paths: Sequence[str]) -> Sequence[KeptWikiMemory]:
        """Return what the space returns."""
        return self._kept.by_files(repository, file_paths)

    def get(self, repository: WikiRepository, memory_id: str) -> KeptWikiMemory | None:
        """Return what the space returns."""
        return self._kept.get(repository, memory_id)

    def purge(self, repository: WikiRepository, *, erase: bool = False) -> int:
        """Purge as the space does."""
        return self._kept.purge(repository, erase=erase)

    def _is_first(self, text: str) -> bool:
        with self._lock:
            first = text not in self._met
            self._met.add(text)
            self.faults += first
            return first


def measure(plan: Plan) -> list[Row]:
    """Run the agents in threads, then in one event loop, each time over a file of its own."""
    agents, repositories = (_QUICK_AGENTS, _QUICK_REPOSITORIES) if plan.quick else (_AGENTS, _REPOSITORIES)
    rows: list[Row] = []
    for name, together in (("in threads", _in_threads), ("in one event loop", _in_a_loop)):
        with workplace() as folder, _opened(f"sqlite:{folder / 'space.db'}") as space:
            store = _FailsOnce(SpaceWikiMemories(space.engine))
            middleware = WikiMemoryMiddleware("page_agent", service=WikiMemoryService(store))
            models = [_Script(answers=_answers(number, repositories)) for number in range(agents)]
            runs = [_agent(middleware, model) for model in models]
            cost = cost_of(partial(together, runs, repositories))
            faults = store.faults + len(models)  # each model fails once, too
            rows += _figures(name, space, models, repositories, cost.cpu, faults)
    return rows


def _opened(address: str) -> treering.Space:
    return treering.open(address, background=False, embedder=HashingEmbedder())


def _agent(middleware: WikiMemoryMiddleware, model: _Script) -> Any:
    stack: list[Any] = [
        middleware,
        TodoListMiddleware(),
        ModelRetryMiddleware(max_retries=3, initial_delay=0.0),
        ToolRetryMiddleware(max_retries=3, initial_delay=0.0),
    ]
    return create_agent(model, middleware=stack, response_format=ToolStrategy(_Result))


def _answers(number: int, repositories: int) -> list[AIMessage | Exception]:
    """Return the script of a run: two findings stored, what is known recalled, a decision answered; one fault."""
    home = _home(number, repositories)
    findings = [
        _call(
            "store_memory",
            f"call_{one}",
            content=_finding(number, home, one),
            memory_type="pattern_found",
            file_paths=["src/app.py"],
        )
        for one in (1, 2)
    ]
    answer = _call("_Result", "result", text="A page.", decisions=[_finding(number, home, 3)])
    return [
        TimeoutError("the model is busy"),
        AIMessage("", tool_calls=findings[:1]),
        AIMessage(
            "", tool_calls=[_call("recall_memories", "call_1", query=f"findings of agent {number}"), *findings[1:]]
        ),
        AIMessage("", tool_calls=[answer]),
    ]


def _call(name: str, number: str, **arguments: Any) -> Any:
    return {"name": name, "args": arguments, "id": number}


def _finding(number: int, home: str, one: int) -> str:
    return f"Agent {number} of {home}, finding {one}."


def _number(finding: str) -> int:
    return int(finding.split()[1])


def _home(number: int, repositories: int) -> str:
    return f"repository-{number % repositories:03}"


def _given(number: int, repositories: int) -> tuple[dict[str, Any], WikiRunContext | None]:
    """Return the state and the context of a run: every third one tells its repository by its state."""
    home, task = _home(number, repositories), {"messages": [HumanMessage("Write the page on findings.")]}
    return ({**task, "repository_id": home}, None) if number % 3 == 0 else (task, WikiRunContext(home))


def _in_threads(runs: Sequence[Any], repositories: int) -> None:
    def run(number: int) -> None:
        state, context = _given(number, repositories)
        runs[number].invoke(state, context=context)

    with ThreadPoolExecutor(_AT_ONCE) as threads:
        list(threads.map(run, range(len(runs))))


def _in_a_loop(runs: Sequence[Any], repositories: int) -> None:
    async def together() -> None:
        given = (_given(number, repositories) for number in range(len(runs)))
        calls = (run.ainvoke(state, context=told) for run, (state, told) in zip(runs, given, strict=True))
        await asyncio.gather(*calls)

    asyncio.run(together())


def _figures(
    name: str, space: treering.Space, models: Sequence[_Script], repositories: int, cpu: float, faults: int
) -> list[Row]:
    """Hold what the ledger has, and what each model was shown, against what was meant."""
    kept = [one for one in space.engine.ledger.select(Selection(descend=True)) if isinstance(one, Source)]
    texts = Counter((one.metadata.get("repository_id"), one.title) for one in kept if one.title)
    meant = {
        (home, _finding(number, home, one))
        for number in range(len(models))
        for one in range(1, _STORES + 1)
        for home in (_home(number, repositories),)
    }
    elsewhere = sum(count for (home, text), count in texts.items() if f" of {home}," not in text)
    wrong = sum(texts[one] != 1 for one in meant) + len(texts.keys() - meant)
    homes = {_home(number, repositories) for number in range(len(models))}
    leaks = sum(
        f" of {other}," in model.shown
        for number, model in enumerate(models)
        for other in homes - {_home(number, repositories)}
    )
    recalled = sum("Found " in model.shown for model in models)
    what = f"{len(models)} agents on {repositories} repositories, {faults} faults"
    return [
        Figure(f"memories in another's repository, {name}", elsewhere, "", at_most(0), what),
        Figure(f"memories shown to another's agent, {name}", leaks, "", at_most(0), f"{recalled} runs recalled some"),
        Figure(f"stores not kept exactly once, {name}", wrong, "", at_most(0), f"of {len(meant)}"),
        Figure(f"a run, {name}", 1000 * cpu / len(models), "ms CPU"),
    ]
