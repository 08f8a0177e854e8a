"""The everyday methods of a space as coroutines, each of which runs in a worker thread."""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from types import TracebackType
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from treering.core.objects import Channel
from treering.surfaces.python.space import Space, open_space

_Given = ParamSpec("_Given")
_Result = TypeVar("_Result")


def open_async(
    address: str | None = None, *, actor: str | None = None, channel: Channel = "agent", **options: Any
) -> "AsyncSpace":
    """Return a space for `async with`, which opens it. Takes the options of `treering.open`."""
    return AsyncSpace(address, actor=actor, channel=channel, **options)


def _in_thread(
    method: Callable[Concatenate[Space, _Given], _Result],
) -> "Callable[Concatenate[AsyncSpace, _Given], Coroutine[Any, Any, _Result]]":
    """Return a method of `Space` as a coroutine."""

    @wraps(method)
    async def run(self: "AsyncSpace", /, *given: _Given.args, **named: _Given.kwargs) -> _Result:
        return await asyncio.to_thread(method, self.space, *given, **named)

    return run


class AsyncSpace:
    """A space whose methods are coroutines. Each is the method of `treering.Space` with this name."""

    def __init__(self, address: str | None, **options: Any) -> None:
        self._address, self._options = address, options
        self._space: Space | None = None

    @property
    def space(self) -> Space:
        """The open space, for everything that has no method here. Raises `RuntimeError` outside of `async with`."""
        if self._space is None:
            raise RuntimeError("The space is not open: use it inside `async with treering.aio.open() as space`.")
        return self._space

    async def __aenter__(self) -> Self:
        self._space = await asyncio.to_thread(open_space, self._address, **self._options)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.space.close)

    add = _in_thread(Space.add)
    search = _in_thread(Space.search)
    ask = _in_thread(Space.ask)
    brief = _in_thread(Space.brief)
    show = _in_thread(Space.show)
    person = _in_thread(Space.person)
    read = _in_thread(Space.read)
    log = _in_thread(Space.log)
    decide = _in_thread(Space.decide)
    rule = _in_thread(Space.rule)
    prefer = _in_thread(Space.prefer)
    fact = _in_thread(Space.fact)
    task = _in_thread(Space.task)
    done = _in_thread(Space.done)
    replace = _in_thread(Space.replace)
    undo = _in_thread(Space.undo)
