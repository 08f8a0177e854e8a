"""What is known of a tool's run before it begins: which tool, with which parameters, and whose memory keeps it."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from treering.edges.hooks.memory_access import CLIENT, NODE, PROFILE, SESSION, STATE_SESSION, read_field
from treering.edges.memory_client import BlockingMemoryClient, MemorySystemClient
from treering.memories.client.metadata import AGENT
from treering.memories.client.profiles import AgentProfile
from treering.memories.client.tool_runs import capped


@dataclass(frozen=True, slots=True)
class LoggedCall:
    """A tool's run that is to be kept, and the client that keeps it."""

    tool: str
    parameters: Mapping[str, Any]
    client: BlockingMemoryClient
    extra: Mapping[str, Any]

    def is_same(self, inner: "LoggedCall") -> bool:
        """Tell whether a run that begins inside this one is this one: of the same tool, with the same parameters.

        It may have more of them, as defaults are filled in on the way.
        """
        missing = object()
        alike = all(inner.parameters.get(name, missing) == value for name, value in self.parameters.items())
        return self.tool == inner.tool and alike


@dataclass(frozen=True, slots=True)
class Owner:
    """What is given with a tool, and the object whose method it is."""

    name: str | None = None
    client: MemorySystemClient | BlockingMemoryClient | None = None
    session_id: str | None = None
    agent_type: str | None = None
    instance: Any = None
    is_method: bool = False
    """The first argument is the object."""
    is_server: bool = False
    """The arguments are the name of a tool and its parameters."""

    def holding(self, instance: Any, *, is_method: bool, is_server: bool) -> "Owner":
        """Return this with the object whose method is wrapped."""
        return replace(self, instance=instance, is_method=is_method, is_server=is_server)


def call_of(
    function: Callable[..., Any], owner: Owner, given: tuple[Any, ...], named: Mapping[str, Any]
) -> LoggedCall | None:
    """Return the run that a call of a tool begins; `None` where no client keeps it."""
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
    kept = capped(parameters)
    return LoggedCall(
        tool=name,
        parameters=kept if isinstance(kept, Mapping) else {"…": kept},
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
    except (TypeError, ValueError):  # invalid input, which the tool itself will say; or it tells no signature
        return {**{str(at): one for at, one in enumerate(given)}, **named}
    told: dict[str, Any] = {}
    for name, value in list(bound.arguments.items())[len(placeholder) :]:
        takes_rest = bound.signature.parameters[name].kind is inspect.Parameter.VAR_KEYWORD
        told |= value if takes_rest else {name: value}
    data = {name: value for name, value in told.items() if not _is_context(value)}
    only = next(iter(data.values())) if len(data) == 1 else None
    is_run = (owner.is_method or owner.instance is not None) and not owner.is_server
    return only if is_run and isinstance(only, Mapping) else data


def _is_context(value: Any) -> bool:
    """Tell whether an argument is the context that a framework gives its tools, such as Pydantic AI's or MCP's."""
    return type(value).__name__.endswith("Context")


def _of_server(parameters: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    arguments = parameters.get("arguments")
    return str(parameters.get("name")), arguments if isinstance(arguments, Mapping) else {}


def _name(instance: Any, function: Callable[..., Any]) -> str:
    told = read_field(read_field(instance, "spec"), "name") or read_field(instance, "name")
    if isinstance(told, str):
        return told
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
    told = profile or _first(holders, AGENT)
    return told if isinstance(told, str) else None


def _first(holders: list[Any], name: str) -> Any:
    return next((found for one in holders if (found := read_field(one, name)) is not None), None)


def _of_node(name: str) -> Any:
    node = NODE.get()
    return getattr(node.access, name) if node else None
