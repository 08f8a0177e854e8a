"""A ticket, whichever tracker exported it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from pydantic import JsonValue

from treering.tools.turns import Message


@dataclass(frozen=True, slots=True)
class ExportedTicket:
    """A ticket as it stands in an export. `state` is in the tracker's own word, such as `CLOSED` or `In Progress`."""

    tracker: str
    key: str
    title: str
    state: str
    description: str = ""
    author: str = ""
    opened: datetime | None = None
    updated: datetime | None = None
    comments: tuple[Message, ...] = ()
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class UnreadTicket:
    """A part of an export that is not a ticket, or cannot be read as one, and why."""

    name: str
    why: str


TicketResult = ExportedTicket | UnreadTicket
