"""Memory for supervising tickets: recall earlier lessons and store new ones.

Recalled memories are only for the supervisor. Memory never blocks a ticket: errors are logged and collected in
`failures`, and the work continues without memory.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from treering.core.errors import UnknownProject
from treering.extensions.projects.project import ProjectId, ProjectMemory, checked_project_id
from treering.extensions.projects.ticket_record import Completed, RunState, Ticket, TicketRecord
from treering.verbs.engine import retry_on_conflict

__all__ = ["Completed", "MemoryFailure", "RunState", "Ticket", "TicketMemory"]

HEADING = "Memories invoked:"
"""The first line of a block of memories."""

PASSAGES = 5
RESPONSE_CHARS = 500
"""The part of a response that is used to find similar turns."""

_LOG = logging.getLogger(__name__)
_Found = TypeVar("_Found")


@dataclass(frozen=True, slots=True)
class MemoryFailure:
    """A failed step of the memory, with the reason."""

    step: str
    why: str


class TicketMemory:
    """The memory of one project for its supervisors. Without a `memory`, the same flow without any.

    `passages`: how many a block holds at most. Raises `InvalidInput` for a bad project id; no method raises.
    """

    def __init__(self, project_id: ProjectId, memory: ProjectMemory | None = None, *, passages: int = PASSAGES) -> None:
        self.project_id: str = checked_project_id(project_id)
        self.failures: list[MemoryFailure] = []
        self._memory = memory
        self._passages = passages

    def start(self, ticket: Ticket) -> str:
        """Recall memories similar to a ticket: `HEADING` and one passage per line, or an empty text."""
        return self._block("start", ticket.query)

    def turn(self, last_prompt: str, last_response: str) -> str:
        """Recall memories similar to the last turn, as `start` does. Stores nothing."""
        return self._block("turn", f"{last_prompt}\n{last_response[:RESPONSE_CHARS]}")

    def complete(self, ticket: Ticket, summary: str | None) -> Completed | None:
        """Store the lessons of a ticket once: its document, its Activity and its resolved WorkItem, in one patch.

        A ticket without id that is completed again with another summary is a second ticket with the same text.
        Returns `None` without a memory, and on failure.
        """
        return self._on_record("complete", ticket, lambda record: record.complete(summary or ""), None, create=True)

    def revert(self, ticket: Ticket) -> bool:
        """Undo `complete`; the ticket is open again. Return whether there was anything to undo."""
        return self._on_record("revert", ticket, TicketRecord.revert, False)

    def is_done(self, ticket: Ticket) -> bool:
        """Return whether a ticket was completed."""
        return self._on_record("resume", ticket, TicketRecord.is_done, False)

    def resume(self, ticket: Ticket) -> RunState | None:
        """Return the state of an unfinished run of a ticket."""
        return self._on_record("resume", ticket, TicketRecord.state, None)

    def keep(self, ticket: Ticket, state: RunState, *, takes_over: bool = False) -> bool:
        """Store the state of a ticket's run; return whether it may continue.

        It may not if the ticket was completed meanwhile, or another run has taken it over.
        """
        return self._on_record(
            "keep", ticket, lambda record: record.keep(state, takes_over=takes_over), True, create=True
        )

    def _block(self, step: str, query: str) -> str:
        memory = self._memory
        if memory is None or not query.strip():
            return ""
        return self._tried(step, lambda: _block(memory, self.project_id, query, self._passages), "")

    def _on_record(
        self,
        step: str,
        ticket: Ticket,
        work: Callable[[TicketRecord], _Found],
        otherwise: _Found,
        *,
        create: bool = False,
    ) -> _Found:
        memory = self._memory
        if memory is None:
            return otherwise

        def on_record() -> _Found:
            with memory.engine(self.project_id, create=create) as engine:
                return work(TicketRecord(engine, ticket))

        return self._tried(step, lambda: retry_on_conflict(on_record), otherwise)

    def _tried(self, step: str, work: Callable[[], _Found], otherwise: _Found) -> _Found:
        try:
            return work()
        except UnknownProject:
            return otherwise  # the project has no memory yet
        # Any error, even of the caller's own extractor: memory never blocks a ticket.
        except Exception as error:  # noqa: BLE001
            _LOG.warning("Memory of project %s failed at %s: %s", self.project_id, step, error)
            self.failures.append(MemoryFailure(step, str(error) or type(error).__name__))
            return otherwise


def _block(memory: ProjectMemory, project_id: str, query: str, passages: int) -> str:
    (recalled,) = memory.retrieve(project_id, [query], passages)
    lines = [" ".join(doc.split()) for doc in recalled["docs"]]
    return "\n".join([HEADING, *lines]) if lines else ""
