"""Logging of tool runs: a wrapper around functions, objects with a method `run` or their class, and MCP servers."""

import asyncio
import inspect
import logging
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial, wraps
from time import perf_counter
from typing import Any

from treering.core.errors import InvalidInput
from treering.extensions.client.blocking import BlockingMemoryClient
from treering.extensions.client.client import MemorySystemClient
from treering.extensions.client.hooks.execution_history import capped, run_of
from treering.extensions.client.hooks.memory_access import (
    CLIENT,
    NODE,
    PROFILE,
    SESSION,
    STATE_SESSION,
    read_field,
    with_or_without_first,
)
from treering.extensions.client.items.documents import AGENT
from treering.extensions.client.profiles import AgentProfile

Client = MemorySystemClient | BlockingMemoryClient

_LOG = logging.getLogger(__name__)
_RUN = "run"
_CALL_TOOL = "call_tool"
_CONTEXTS = frozenset({"Context", "RunContext", "RunContextWrapper", "ToolContext"})
"""Context types that frameworks pass to tools, by name, because the frameworks need not be installed."""


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """A tool's run to be stored, and the client that stores it."""

    tool: str
    parameters: Mapping[str, Any]
    client: BlockingMemoryClient
    extra: Mapping[str, Any]

    def is_same(self, inner: "LoggedCall") -> bool:
        """Return whether a run that begins inside this one is the same: the same tool with the same parameters.

        The inner run may have more parameters, because defaults are filled in on the way.
        """
        missing = object()
        alike = all(inner.parameters.get(name, missing) == value for name, value in self.parameters.items())
        return self.tool == inner.tool and alike


@dataclass(frozen=True, slots=True)
class Owner:
    """The options of a wrapped tool, and the object whose method it is."""

    name: str | None = None
    client: MemorySystemClient | BlockingMemoryClient | None = None
    session_id: str | None = None
    agent_type: str | None = None
    unfinished: tuple[type[Exception], ...] = ()
    instance: Any = None
    is_method: bool = False
    """The first argument is the object."""
    is_server: bool = False
    """The arguments are the name of a tool and its parameters."""


def call_of(
    function: Callable[..., Any], owner: Owner, given: tuple[Any, ...], named: Mapping[str, Any]
) -> LoggedCall | None:
    """Return the run that a call of a tool begins; `None` without a client to store it."""
    if owner.is_method:
        instance, given = given[0], given[1:]
    else:
        instance = owner.instance
    holders = [instance, *(read_field(one, "deps") for one in given[:1])]
    client = owner.client or _first(holders, CLIENT) or _of_node("client")
    if not isinstance(client, MemorySystemClient | BlockingMemoryClient) or not client.config.enabled:
        return None
    parameters = _parameters(function, owner, given, named)
    name = owner.name or _name(instance, function)
    if owner.is_server:
        name, parameters = _of_server(parameters)
    session = owner.session_id or _first(holders, STATE_SESSION) or _first(holders, SESSION) or _of_node("session_id")
    agent = owner.agent_type or _agent_of(holders) or _of_node("agent_type")
    extra = {SESSION: session, AGENT: agent}
    capped_parameters = capped(parameters)
    return LoggedCall(
        tool=name,
        parameters=capped_parameters if isinstance(capped_parameters, Mapping) else {"…": capped_parameters},
        client=client.sync if isinstance(client, MemorySystemClient) else client,
        extra={key: value for key, value in extra.items() if value is not None},
    )


def _parameters(
    function: Callable[..., Any], owner: Owner, given: tuple[Any, ...], named: Mapping[str, Any]
) -> Mapping[str, Any]:
    """Return the arguments of a call by name, without contexts; of `run(params)` the parameters themselves."""
    placeholder = (None,) if owner.is_method else ()
    try:
        bound = inspect.signature(function).bind(*placeholder, *given, **named)
    except (TypeError, ValueError):  # invalid input, which the tool itself reports, or no signature
        return {**{str(at): one for at, one in enumerate(given)}, **named}
    by_name: dict[str, Any] = {}
    for name, value in list(bound.arguments.items())[len(placeholder) :]:
        takes_rest = bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        by_name |= value if takes_rest else {name: value}
    data = {name: value for name, value in by_name.items() if not _is_context(value)}
    only = next(iter(data.values())) if len(data) == 1 else None
    is_run = (owner.is_method or owner.instance is not None) and not owner.is_server
    return only if is_run and isinstance(only, Mapping) else data


def _is_context(value: Any) -> bool:
    """Return whether an argument is the context that a framework passes to tools next to their parameters."""
    return type(value).__name__ in _CONTEXTS


def _of_server(parameters: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    arguments = parameters.get("arguments")
    return str(parameters.get("name")), arguments if isinstance(arguments, Mapping) else {}


def _name(instance: Any, function: Callable[..., Any]) -> str:
    named = (read_field(instance, "spec"), read_field(instance, "tool_spec"), instance)
    name = next((name for holder in named if isinstance(name := read_field(holder, "name"), str)), None)
    if name is not None:
        return name
    if instance is not None:
        return type(instance).__name__
    inner = inspect.unwrap(function)
    while isinstance(inner, partial):
        inner = inner.func
    return str(getattr(inner, "__name__", type(inner).__name__))


def _agent_of(holders: list[Any]) -> str | None:
    profile = _first(holders, PROFILE)
    if isinstance(profile, AgentProfile):
        return profile.agent_type
    name = profile or _first(holders, AGENT)
    return name if isinstance(name, str) else None


def _first(holders: list[Any], name: str) -> Any:
    return next((found for one in holders if (found := read_field(one, name)) is not None), None)


def _of_node(name: str) -> Any:
    node = NODE.get()
    return getattr(node.access, name) if node else None


_RUNNING: ContextVar[tuple[LoggedCall, ...]] = ContextVar("treering_running_tools", default=())
"""The runs being logged, so that a tool wrapped by two registries is stored once."""


@with_or_without_first
def log_tool_runs(
    tool: Any = None,
    *,
    client: Client | None = None,
    name: str | None = None,
    session_id: str | None = None,
    agent_type: str | None = None,
    unfinished: tuple[type[Exception], ...] = (),
) -> Any:
    """Return a tool that stores one memory of each of its runs, and otherwise works as before.

    `tool`: a function, asynchronous or not; an object with a method `run`, or a class of such objects; or an MCP server
    with a method `call_tool`. The method of an object or a class, and of its subclasses, is replaced. Without a tool, a
    decorator is returned. Signatures stay the same, so that a framework reads the same schema.

    `client`: default: `memory_client` of the object, of the dependencies in the tool's first argument, or of the
    calling graph node; without one, nothing is stored. `name`: default: the name in the object's `spec` or `tool_spec`,
    its `name`, or the function's name. `session_id`, `agent_type`: default: those of the object, the dependencies or
    the node. `unfinished`: exceptions that postpone a run, such as for an approval: nothing is stored if one is raised.

    Parameters, results and errors are stored without secrets, in at most 2,000 characters each. Errors of the memory
    are logged, and the tool continues. Raises `InvalidInput` for objects that cannot be run, and for generators.
    """
    given = Owner(name=name, client=client, session_id=session_id, agent_type=agent_type, unfinished=unfinished)
    return partial(_wrapped, given=given) if tool is None else _wrapped(tool, given=given)


def _wrapped(tool: Any, *, given: Owner) -> Any:
    if inspect.isroutine(tool):
        return _logged(tool, _of_function(tool, given))
    for method in (_CALL_TOOL, _RUN):
        if callable(function := getattr(tool, method, None)):
            is_class = isinstance(tool, type)
            instance = None if is_class else tool
            owner = replace(given, instance=instance, is_method=is_class, is_server=method == _CALL_TOOL)
            if is_class:
                _log_subclasses(tool, method, owner)
            return _with_method(tool, method, _logged(function, owner))
    if isinstance(tool, type) or not callable(tool):
        raise InvalidInput(
            f"{getattr(tool, '__name__', type(tool).__name__)} is not a function and has no method `run`.",
            hint="Pass a function, an object with a method `run`, or its class.",
        )
    return _logged(tool, given)


def _of_function(function: Callable[..., Any], given: Owner) -> Owner:
    """Return the options of a function, or of a method that is decorated in its class."""
    if not inspect.isfunction(function) or next(iter(inspect.signature(function).parameters), None) != "self":
        return given
    name = given.name or (None if function.__name__ == _RUN else function.__name__)
    return replace(given, name=name, is_method=True)


def _with_method(tool: Any, name: str, method: Callable[..., Any]) -> Any:
    try:
        setattr(tool, name, method)
    except (AttributeError, ValueError) as error:  # it has slots, or is a model
        raise InvalidInput(
            f"The method {name!r} of {type(tool).__name__} cannot be replaced.",
            hint="Wrap its class, or the function that it runs.",
        ) from error
    return tool


def _log_subclasses(tool: Any, name: str, owner: Owner) -> None:
    """Wrap the method in the subclasses that replace it, present and later ones."""

    def log(subclass: type) -> None:
        if inspect.isfunction(function := vars(subclass).get(name)):
            setattr(subclass, name, _logged(function, owner))

    own_hook = vars(tool).get("__init_subclass__")

    def init_subclass(cls: Any, /, **named: Any) -> None:
        hook = own_hook.__get__(None, cls) if own_hook else super(tool, cls).__init_subclass__
        hook(**named)
        log(cls)

    for subclass in _descendants(tool):
        log(subclass)
    tool.__init_subclass__ = classmethod(init_subclass)


def _descendants(tool: Any) -> Iterator[type]:
    for subclass in tool.__subclasses__():
        yield subclass
        yield from _descendants(subclass)


def _logged(function: Callable[..., Any], owner: Owner) -> Callable[..., Any]:
    if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
        raise InvalidInput(
            f"{function.__qualname__} is a generator, which has no single result.",
            hint="Wrap the function that consumes it.",
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
        """Store the outcome; log errors."""
        if isinstance(outcome, self.unfinished):
            return
        try:
            lasted = perf_counter() - self.began
            run = run_of(self.call.tool, self.call.parameters, lasted, outcome, self.call.extra)
            self.call.client.store(*run.memory)
        except Exception:  # noqa: BLE001 - the tool must continue after any error
            _LOG.warning("A run of the tool %s was not saved in memory.", self.call.tool, exc_info=True)


def _begun(function: Callable[..., Any], owner: Owner, given: tuple[Any, ...], named: Mapping[str, Any]) -> _Run | None:
    """Return the run that begins, or `None` if it is not stored."""
    try:
        call = call_of(function, owner, given, named)
    except Exception:  # noqa: BLE001 - the tool must continue after any error
        _LOG.warning("A tool run is not saved in memory: it cannot be described.", exc_info=True)
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
        # A canceled task cannot wait: each await would be canceled, too.
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
    """Store the outcome of a run, off the event loop if there is one, even if nothing waits for it."""
    try:
        return asyncio.get_running_loop().run_in_executor(None, run.keep, outcome)
    except RuntimeError:  # there is no loop, or it has ended its threads
        run.keep(outcome)
        return None
