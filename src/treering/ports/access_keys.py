"""The port of access keys: who may ask a server that other machines reach, for what, and until when."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from treering.core.objects import Channel
from treering.core.scope import ROOT

KeyRight = Literal["read", "write", "review", "admin"]
"""What a key lets its holder do; each includes those before it."""


@dataclass(frozen=True, slots=True)
class KeyLimits:
    """How much the holder of a key may ask of one server. `None`: as much as that server allows every key."""

    requests_per_minute: int | None = None
    at_once: int | None = None
    """Requests that are answered at the same time."""
    max_body_bytes: int | None = None
    """The largest body of a request. A server that takes less than this says so."""


@dataclass(frozen=True, slots=True)
class AccessKey:
    """One key, without its secret."""

    id: str
    """Public: it is part of the key, and names it in lists and logs."""
    name: str
    """Unique among the keys that are not revoked. What is written with the key is written by an actor of this name."""
    digest: bytes
    """The SHA-256 of the secret."""
    space: str
    """The space it opens, as `system.access_keys.space_name` writes it. A project is a space, too."""
    scope: str = ROOT
    """The scope it is confined to: it sees and changes what lies there and below, and nothing above or beside it."""
    right: KeyRight = "read"
    channel: Channel = "agent"
    created: datetime | None = None
    expires: datetime | None = None
    """From then on it opens nothing."""
    revoked: datetime | None = None
    used: datetime | None = None
    """When it was used last, exact to a minute."""
    limits: KeyLimits = field(default_factory=KeyLimits)


class AccessKeys(Protocol):
    """Keeps keys, durably. Safe to use from many threads and processes."""

    def add(self, key: AccessKey) -> None:
        """Keep a new key. Raises `Conflict` where a key that is not revoked has its name."""
        ...

    def find(self, key_id: str) -> AccessKey | None:
        """Return a key, also one that is revoked or has expired."""
        ...

    def all(self) -> Sequence[AccessKey]:
        """Return all keys, the oldest first."""
        ...

    def revoke(self, key_id: str, *, at: datetime) -> None:
        """Have a key open nothing from now on. A key that is revoked already keeps its time."""
        ...

    def note_use(self, key_id: str, *, at: datetime) -> None:
        """Keep when a key was used last."""
        ...

    def close(self) -> None:
        """Release files and connections."""
        ...
