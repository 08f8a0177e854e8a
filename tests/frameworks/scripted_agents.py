"""Agents of LangChain whose models follow a script, and stores that fail when they are told to."""

from collections import defaultdict
from threading import Lock

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from pydantic import PrivateAttr

from treering.testing import HashingEmbedder


def says(text="", *calls):
    """Return an answer of a model: a text, and calls of tools as (name, arguments, id)."""
    return AIMessage(text, tool_calls=[{"name": name, "args": args, "id": number} for name, args, number in calls])


def stores(content, number="call-1", kind="structural_decision", **more):
    """Return a call of `store_memory`."""
    return ("store_memory", {"content": content, "memory_type": kind, **more}, number)


def recalls(query, number="call-r", **more):
    """Return a call of `recall_memories`."""
    return ("recall_memories", {"query": query, **more}, number)


class Scripted(BaseChatModel):
    """Gives the answers of a script, one for each call; an exception in it is raised. Keeps what it was shown."""

    script: list
    _given: int = PrivateAttr(default=0)
    _seen: list = PrivateAttr(default_factory=list)
    _tools: list = PrivateAttr(default_factory=list)

    @property
    def _llm_type(self):
        return "scripted"

    @property
    def seen(self):
        """The messages of each call."""
        return self._seen

    @property
    def tools(self):
        """The tools that were bound last."""
        return self._tools

    def bind_tools(self, tools, **options):
        self._tools[:] = tools
        return self

    def _generate(self, messages, stop=None, run_manager=None, **options):
        self._seen.append(list(messages))
        self._given += 1
        answer = self.script[self._given - 1]
        if isinstance(answer, Exception):
            raise answer
        return ChatResult(generations=[ChatGeneration(message=answer.model_copy(deep=True))])


class FailingStore:
    """A store of memories of which calls fail as planned: before they do anything, or after they did it."""

    def __init__(self, kept):
        self._kept = kept
        self._planned = defaultdict(list)
        self._lock = Lock()
        self.calls = defaultdict(int)

    def plan(self, method, *moments):
        """Let the next calls of a method fail `before` or `after` they work."""
        self._planned[method] += moments

    def store(self, repository, draft, *, key=None):
        return self._done("store", repository, draft, key=key)

    def search(self, repository, query, **options):
        return self._done("search", repository, query, **options)

    def by_files(self, repository, file_paths):
        return self._done("by_files", repository, file_paths)

    def get(self, repository, memory_id):
        return self._done("get", repository, memory_id)

    def purge(self, repository, *, erase=False):
        return self._done("purge", repository, erase=erase)

    def current_generation(self, repository):
        return self._done("current_generation", repository)

    def complete_generation(self, repository):
        return self._done("complete_generation", repository)

    def _done(self, method, *given, **options):
        with self._lock:
            self.calls[method] += 1
            moment = self._planned[method].pop(0) if self._planned[method] else ""
        if moment == "before":
            raise OSError("cannot connect to 10.0.0.7 as admin:hunter2")
        answer = getattr(self._kept, method)(*given, **options)
        if moment == "after":
            raise OSError("10.0.0.7 closed the connection of admin:hunter2")
        return answer


PARTS = {"background": False, "embedder": HashingEmbedder(), "channel": "user"}
"""How tests open a space."""
