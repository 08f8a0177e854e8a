"""Who asks, and what a route needs of who asks it."""

from dataclasses import dataclass, field, replace
from typing import Literal

from fastapi import Request

from treering.core.errors import Denied
from treering.core.patch import Author
from treering.core.scope import ROOT, is_within
from treering.ports.stores import KeyLimits
from treering.verbs.envelope import Rights

Reach = Literal["anybody", "any key", "space", "project"]
"""Who may ask: everybody; whoever has a key; those whose key opens the server's space, or the project of the path."""


@dataclass(frozen=True, slots=True)
class RouteAccess:
    """What a route needs of who asks it. No field has a default: each route says it."""

    reach: Reach
    needs: Rights
    """The least that it does. A route of several operations checks each besides, by its own rights."""
    whole_space: bool
    """Whether it tells of the whole space, or changes it: a key of a scope is refused."""


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks: the holder of a key, or, on a server without keys, any program of this machine."""

    granted: Rights
    author: Author | None = None
    """In whose name is written; `None`: in that of whoever started the server."""
    scope: str = ROOT
    """The scope this caller is confined to."""
    key: str = ""
    """The id of its key; empty for one without."""
    limits: KeyLimits = field(default_factory=KeyLimits)
    """How much it may ask, where its key says so."""
    name: str = ""
    """The name of its key."""
    space: str = ""
    """The name of the space that its key opens."""

    @property
    def has_key(self) -> bool:
        """Whether it asks with a key."""
        return bool(self.key)

    @property
    def granted_besides(self) -> Rights:
        """What it may do by operations that are no modes of a verb: those read no files and fetch nothing."""
        return replace(self.granted, reads_files=False, fetches=False)

    def scope_for(self, asked: str | None) -> str:
        """Return the scope of a call: the one it names, else the one of its key.

        Raises `Denied` for a scope that is neither that of the key nor below it.
        """
        if asked is None:
            return self.scope
        if not is_within(asked, self.scope):
            raise Denied(
                f"This key is for the scope {self.scope} and what lies below; the call names {asked}.",
                hint=f"Name {self.scope}, a scope below it, or none.",
            )
        return asked


def caller_of(request: Request) -> Caller:
    """Return who made a request, as the gate found it."""
    caller: Caller = request.state.caller
    return caller
