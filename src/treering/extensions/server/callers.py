"""Callers, the access that routes require, and the limits of requests."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal

from fastapi import Request

from treering.core.patch import Author
from treering.core.scope import ROOT, Boundary
from treering.extensions.server import limits
from treering.ports.stores import KeyLimits
from treering.system.address import Address
from treering.verbs.envelope import Rights

Reach = Literal["anybody", "any key", "space", "project"]
"""Required key: none; any key; a key for the server's space; or a key for the project in the path."""
MAX_BODY_BYTES = 20_000_000


@dataclass(frozen=True, slots=True)
class RouteAccess:
    """The access a route requires. No field has a default, so that each route states all of them."""

    reach: Reach
    needs: Rights
    """The minimal rights of its calls. A route of several operations also checks the rights of each."""
    whole_space: bool
    """Whether it shows or changes the whole space: a key limited to a scope is refused."""


@dataclass(frozen=True, slots=True)
class Caller:
    """A caller: the holder of a key, or, on a server without keys, any program of this machine."""

    granted: Rights
    author: Author | None = None
    """The author of its writes; `None`: the user who started the server."""
    scope: str = ROOT
    """The scope this caller is confined to."""
    key: str = ""
    """The id of its key; empty for one without."""
    limits: KeyLimits = field(default_factory=KeyLimits)
    """The limits of its key, if there are any."""
    name: str = ""
    """The name of its key."""
    opens: Callable[[Address], bool] = lambda _: True
    """Returns whether it may use the space at an address."""
    read_up_to: str = ""
    """The highest scope above `scope` that it may read; empty: none."""

    @property
    def boundary(self) -> Boundary:
        """The scopes it may read."""
        return Boundary(self.scope, self.read_up_to)

    @property
    def has_key(self) -> bool:
        """Whether it has a key."""
        return bool(self.key)

    @property
    def granted_besides(self) -> Rights:
        """Its rights in operations that are not modes of a verb; they read no files and fetch no pages."""
        return replace(self.granted, reads_files=False, fetches=False)

    def scope_for(self, asked: str | None) -> str:
        """Return the scope of a call: the one it names, else the one of its key.

        Raises `Denied` for a scope outside the scope of the key.
        """
        if asked is None:
            return self.scope
        self.boundary.require(asked)
        return asked


def caller_of(request: Request) -> Caller:
    """Return the caller of a request, as determined by the gate."""
    caller: Caller = request.state.caller
    return caller


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits that prevent single clients from using up a server."""

    max_body_bytes: int = MAX_BODY_BYTES
    worked_on_at_once: int = limits.MAX_CALL_THREADS
    """Calls that have a thread, over HTTP and MCP together; the others wait."""
    most_at_once: int = 64
    """Requests that are processed once their body has arrived; others are asked to retry."""
    most_of_a_key: int = 16
    """Requests of one key that are processed concurrently; its others are asked to retry."""
    requests_per_minute: int = 1_200
    """Requests of one key per minute; for others the answer states when to retry."""
    requests_per_minute_without_key: int | None = None
    """Requests per minute of all callers on a server without keys; `None`: unlimited."""
    max_upload_bytes: int = 200_000_000
    """Bytes of an uploaded file; a limit of the key for bodies also applies."""
    uploads_at_once: int = 4
    """Files that are being sent or read."""
    uploads_of_a_key: int = 2
    """Files of one key that are being sent or read."""
    jobs_at_once: int = 2
    """Jobs that are worked on, in threads of their own; the others wait."""
    most_jobs: int = 32
    """Jobs that run or wait; further ones are asked to retry. The limit of one key is its limit of concurrent
    requests."""
    most_connections: int = 256
    """Open connections. For another one, the connection that has waited longest for its request is closed."""
    read_seconds: float = 30.0
    """How long a call that only reads may take: `query`, and retrieving of a project."""
    work_seconds: float = 3_600.0
    """How long any other call may take."""
    stop_seconds: float = 10.0
    """How long running calls may continue after a request to stop the server."""
    header_seconds: float = 10.0
    """The time limit for the head of a request."""
    body_seconds: float = 10.0
    """How long a body may take, in addition to the time for its bytes at `body_rate`."""
    body_rate: int = 100_000
    """The minimum transfer rate of a body, in bytes per second."""

    def for_caller(self, caller: Caller) -> "CallerBounds":
        """Return the limits of a caller: those of its key, else the default for keys."""
        of_key = caller.limits
        of_all = self.requests_per_minute if caller.has_key else self.requests_per_minute_without_key
        return CallerBounds(
            requests_per_minute=of_all if of_key.requests_per_minute is None else of_key.requests_per_minute,
            at_once=self.most_of_a_key if of_key.at_once is None else of_key.at_once,
            max_body_bytes=min(self.max_body_bytes, of_key.max_body_bytes or self.max_body_bytes),
            max_upload_bytes=min(self.max_upload_bytes, of_key.max_body_bytes or self.max_upload_bytes),
        )

    @property
    def most_waiting_bytes(self) -> int:
        """How many bytes of incomplete bodies are held in memory."""
        return 8 * self.max_body_bytes


@dataclass(frozen=True, slots=True)
class CallerBounds:
    """The limits of one caller."""

    requests_per_minute: int | None
    """`None`: any number."""
    at_once: int
    max_body_bytes: int
    max_upload_bytes: int
