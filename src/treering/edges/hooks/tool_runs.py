"""Logging of tool runs: a wrapper around functions, objects with a method `run` or their class, and MCP servers."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial, wraps
from time import perf_counter
from typing import Any, TypeVar, overload

from treering.core.errors import InvalidInput
from treering.edges.hooks.logged_calls import LoggedCall, Owner, call_of
from treering.edges.memory_client import BlockingMemoryClient, MemorySystemClient
from treering.memories.client.tool_runs import run_of

_LOG = logging.getLogger(__name__)
_Tool = TypeVar("_Tool", bound=Any)
_RUN = "run"
_CALL_TOOL = "call_tool"
_RUNNING: ContextVar[tuple[LoggedCall, ...]] = ContextVar("treering_running_tools", default=())
"""The runs that are being logged, so that what two registries wrap is one run all the same."""

Client = MemorySystemClient | BlockingMemoryClient


@overload
def log_tool_runs(
    tool: _Tool,
    *,
    client: Client | None = None,
    name: str | None = None,
    session_id: str | None = None,
    agent_type: str | None = None,
    unfinished: tuple[type[Exception], ...] = (),
) -> _Tool: ...


@overload
def log_tool_runs(
    tool: None = None,
    *,
    client: Client | None = None,
    name: str | None = None,
    session_id: str | None = None,
    agent_type: str | None = None,
    unfinished: tuple[type[Exception], ...] = (),
) -> Callable[[_Tool], _Tool]: ...


def log_tool_runs(
    tool: Any = None,
    *,
    client: Client | None = None,
    name: str | None = None,
    session_id: str | None = None,
    agent_type: str | None = None,
    unfinished: tuple[type[Exception], ...] = (),
) -> Any:
    """Return a tool that stores one memory of each of its runs, and else does what it did.

    `tool`: a function, asynchronous or not; an object with a method `run`, or a class of such objects; or an MCP server
    with a method `call_tool`. The method of an object or a class is replaced. Without a tool a decorator is returned.
    Signatures stay, so that a framework reads the same schema.

    `client`: by default `memory_client` of the object, of the dependencies in the tool's first argument, or of the
    graph node that calls it; without one nothing is stored. `name`: by default that of the object's `spec`, its `name`,
    or the function's. `session_id`, `agent_type`: by default those of the object, the dependencies or the node.
    `unfinished`: exceptions that put a run off, as for an approval: nothing is stored where one is raised.

    Parameters, results and errors are kept without secrets, in at most 2,000 characters each. What goes wrong with the
    memory is logged, and the tool goes on. Raises `InvalidInput` for what cannot be run, and for generators.
    """
    given = Owner(name=name, client=client, session_id=session_id, agent_type=agent_type, unfinished=unfinished)
    return partial(_wrapped, given=given) if tool is None else _wrapped(tool, given=given)


def _wrapped(tool: Any, *, given: Owner) -> Any:
    if inspect.isroutine(tool):
        return _logged(tool, given)
    for method in (_CALL_TOOL, _RUN):
        if callable(found := getattr(tool, method, None)):
            is_class = isinstance(tool, type)
            owner = given.holding(None if is_class else tool, is_method=is_class, is_server=method == _CALL_TOOL)
            return _with_method(tool, method, _logged(found, owner))
    if isinstance(tool, type) or not callable(tool):
        raise InvalidInput(
            f"{getattr(tool, '__name__', type(tool).__name__)} is not a function, and has no method `run`.",
            hint="Give a function, an object with a method `run`, or the class of one.",
        )
    return _logged(tool, given)


def _with_method(tool: Any, name: str, method: Callable[..., Any]) -> Any:
    try:
        setattr(tool, name, method)
    except (AttributeError, ValueError) as error:  # it has slots, or is a model
        raise InvalidInput(
            f"The method {name!r} of {type(tool).__name__} cannot be replaced.",
            hint="Wrap its class, or the function that it runs.",
        ) from error
    return tool


def _logged(function: Callable[..., Any], owner: Owner) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(
            f"{function.__qualname__} is a generator, which has no one result.",
            hint="Wrap the function that takes what it yields.",
        )

    @wraps(function)
    def logged(*given: Any, **named: Any) -> Any:
        run = _begun(function, owner, given, named)
        return function(*given, **named) if run is None else _called(partial(function, *given, **named), run)

    @wraps(function)
    async def logged_async(*given: Any, **named: Any) -> Any:
        run = _begun(function, owner, given, named)
        work = function(*given, **named)
        return await (work if run is None else _awaited(work, run))

    return logged_async if inspect.iscoroutinefunction(function) else logged


@dataclass(slots=True)
class _Run:
    call: LoggedCall
    began: float
    unfinished: tuple[type[Exception], ...]

    def keep(self, outcome: Any) -> None:
        """Store how it ended. What goes wrong with that is logged."""
        if isinstance(outcome, self.unfinished):
            return
        try:
            lasted = perf_counter() - self.began
            run = run_of(self.call.tool, self.call.parameters, lasted, outcome, self.call.extra)
            self.call.client.store(*run.memory)
        except Exception:  # noqa: BLE001 - whatever it is, the tool goes on
            _LOG.warning("A run of the tool %s was not kept in memory.", self.call.tool, exc_info=True)


def _begun(function: Callable[..., Any], owner: Owner, given: tuple[Any, ...], named: Mapping[str, Any]) -> _Run | None:
    """Return the run that begins, or `None` where it is not to be kept."""
    try:
        call = call_of(function, owner, given, named)
    except Exception:  # noqa: BLE001 - whatever it is, the tool goes on
        _LOG.warning("A run of a tool is not kept in memory: it cannot be described.", exc_info=True)
        return None
    if call is None or any(outer.is_same(call) for outer in _RUNNING.get()):
        return None
    return _Run(call, perf_counter(), owner.unfinished)


def _called(work: Callable[[], Any], run: _Run) -> Any:
    token = _RUNNING.set((*_RUNNING.get(), run.call))
    try:
        result = work()
    except BaseException as error:
        run.keep(error)
        raise
    finally:
        _RUNNING.reset(token)
    if inspect.isawaitable(result):
        return _awaited(result, run)
    run.keep(result)
    return result


async def _awaited(work: Awaitable[Any], run: _Run) -> Any:
    token = _RUNNING.set((*_RUNNING.get(), run.call))
    try:
        result = await work
    except Exception as error:
        await _kept(run, error)
        raise
    except BaseException as error:
        # Who is cancelled cannot wait: each await would be cancelled, too.
        _keeping(run, error)
        raise
    finally:
        _RUNNING.reset(token)
    await _kept(run, result)
    return result


async def _kept(run: _Run, outcome: Any) -> None:
    if keeping := _keeping(run, outcome):
        await asyncio.shield(keeping)


def _keeping(run: _Run, outcome: Any) -> "asyncio.Future[None] | None":
    """Store how a run ended, off the event loop where there is one. It is stored even where nobody waits for it."""
    try:
        return asyncio.get_running_loop().run_in_executor(None, run.keep, outcome)
    except RuntimeError:  # there is no loop, or it has ended its threads
        run.keep(outcome)
        return None
