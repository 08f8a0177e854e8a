"""A small supervisor that works through tickets: it directs a worker turn by turn and learns from every ticket.

What is recalled goes into the supervisor's prompts alone. A worker is told what the supervisor writes, nothing else;
before its first turn the ticket's title and description, where the supervisor writes nothing.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Literal, Protocol

from treering.core.errors import Denied, TreeringError
from treering.parts.projects.assessing import Assessment, Assessor, Briefing
from treering.parts.projects.ticket import MemoryFailure, RunState, Ticket, TicketMemory
from treering.parts.projects.ticket_record import Exchange, remembered
from treering.ports.models import Usage
from treering.ports.runtime import Clock
from treering.retrieval.extraction.asking import Budget
from treering.verbs.engine import Progress, silent
from treering.verbs.envelope import Value

ANSWER_CHARS = 12_000
"""How much of a worker's answer is kept and assessed: its beginning and its end."""

_REQUESTS = 2  # an assessment, and once more where it cannot be read


@dataclass(frozen=True, slots=True)
class Response:
    """What a worker answered, and what went wrong where something did."""

    text: str
    problem: str = ""


class Worker(Protocol):
    """Does what it is told, such as a coding agent in a work tree."""

    def work(self, prompt: str, *, seconds: float) -> Response:
        """Do one turn, within so many seconds. What goes wrong is a `problem` of the response, never raised."""
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """What one ticket may take, over all runs at it. `dollars`: what the supervisor's model may cost."""

    turns: int = 20
    seconds: float = 3_600.0
    dollars: Decimal | None = None


class TicketResult(Value):
    """What became of a ticket.

    `stopped`: a limit was reached; `taken`: another run is at it; `failed`: nobody could assess it. Such a ticket
    goes on where it was when it is run again.
    """

    ticket: Ticket
    outcome: Literal["completed", "already_completed", "stopped", "taken", "failed"]
    why: str = ""
    summary: str = ""
    turns: int = 0
    seconds: float = 0.0
    requests: int = 0
    cost: Decimal | None = Decimal(0)
    """In US dollars; `None` where the model's price is not known."""


class SupervisorReport(Value):
    """What became of all tickets, and what memory could not do meanwhile."""

    results: tuple[TicketResult, ...]
    memory_failures: tuple[MemoryFailure, ...] = ()


class Supervisor:
    """Works through tickets. Its state is kept after every turn, so that a crashed run goes on at the next."""

    def __init__(
        self,
        assessor: Assessor,
        worker: Worker,
        *,
        memory: TicketMemory,
        clock: Clock,
        limits: Limits | None = None,
        progress: Progress = silent,
    ) -> None:
        self._assessor = assessor
        self._worker = worker
        self._memory = memory
        self._clock = clock
        self._limits = limits or Limits()
        self._progress = progress

    def run(self, tickets: Iterable[Ticket]) -> SupervisorReport:
        """Work on tickets, one after the other. One that fails holds up no other."""
        results = tuple(map(self.work, tickets))
        return SupervisorReport(results=results, memory_failures=tuple(self._memory.failures))

    def work(self, ticket: Ticket) -> TicketResult:
        """Work on one ticket until it is complete or a limit is reached."""
        if self._memory.is_done(ticket):
            return TicketResult(ticket=ticket, outcome="already_completed")
        step: RunState | TicketResult = self._begin(ticket)
        while isinstance(step, RunState):
            step = self._advance(ticket, step)
        return step

    def _begin(self, ticket: Ticket) -> RunState | TicketResult:
        run = self._clock.random_bytes(8).hex()
        known = self._memory.resume(ticket)
        if known:
            return self._kept(ticket, known.model_copy(update={"run": run}), takes_over=True)
        return self._assessed(ticket, RunState(run=run, prompt=""), self._memory.start(ticket))

    def _advance(self, ticket: Ticket, state: RunState) -> RunState | TicketResult:
        if state.response is not None:
            return self._assessed(ticket, state, self._memory.turn(state.prompt, state.response))
        if state.turns >= self._limits.turns:
            return self._ended(ticket, state, "stopped", f"it has taken {_counted(state.turns, 'turn')}")
        if state.seconds >= self._limits.seconds:
            return self._ended(ticket, state, "stopped", f"it has taken {_counted(round(state.seconds), 'second')}")
        return self._worked(ticket, state)

    def _worked(self, ticket: Ticket, state: RunState) -> RunState | TicketResult:
        self._progress(ticket.title, state.turns, self._limits.turns)
        started = self._clock.elapsed()
        response = self._worker.work(state.prompt, seconds=self._limits.seconds - state.seconds)
        changes = {"turns": state.turns + 1, "response": _told(response), "seconds": self._spent(state, started)}
        return self._kept(ticket, state.model_copy(update=changes))

    def _assessed(self, ticket: Ticket, state: RunState, memories: str) -> RunState | TicketResult:
        """Have the last turn assessed; before the first one, the ticket itself."""
        started = self._clock.elapsed()
        briefing = _briefing(ticket, state, memories, most_turns=self._limits.turns)
        budget = Budget(requests=_REQUESTS, dollars=self._dollars_left(state))
        found: Assessment | TreeringError
        try:
            found = self._assessor.assess(briefing, budget=budget)
        except TreeringError as error:
            found = error
        state = _charged(state, budget.used, seconds=self._spent(state, started))
        if isinstance(found, TreeringError):
            outcome: Literal["stopped", "failed"] = "stopped" if isinstance(found, Denied) else "failed"
            if state.turns:
                self._memory.keep(ticket, state)
            return self._ended(ticket, state, outcome, f"{found} {found.hint}".strip())
        if found.complete and state.turns:
            self._memory.complete(ticket, found.summary)
            return self._ended(ticket, state, "completed", summary=found.summary)
        prompt = found.next_prompt or f"{ticket.title}\n\n{ticket.description}"
        changes = {"prompt": prompt, "response": None, "earlier": _conversation(state)}
        return self._kept(ticket, state.model_copy(update=changes))

    def _kept(self, ticket: Ticket, state: RunState, *, takes_over: bool = False) -> RunState | TicketResult:
        if self._memory.keep(ticket, state, takes_over=takes_over):
            return state
        return self._ended(ticket, state, "taken", "another run has taken it over or completed it")

    def _dollars_left(self, state: RunState) -> Decimal | None:
        if self._limits.dollars is None:
            return None
        return max(self._limits.dollars - (state.cost or 0), Decimal(0))

    def _spent(self, state: RunState, started: float) -> float:
        return state.seconds + self._clock.elapsed() - started

    def _ended(
        self,
        ticket: Ticket,
        state: RunState,
        outcome: Literal["completed", "stopped", "taken", "failed"],
        why: str = "",
        summary: str = "",
    ) -> TicketResult:
        return TicketResult(
            ticket=ticket,
            outcome=outcome,
            why=why,
            summary=summary,
            turns=state.turns,
            seconds=state.seconds,
            requests=state.requests,
            cost=state.cost,
        )


def _briefing(ticket: Ticket, state: RunState, memories: str, *, most_turns: int) -> Briefing:
    return Briefing(
        ticket=ticket,
        turns=state.turns,
        most_turns=most_turns,
        earlier=state.earlier,
        prompt=state.prompt,
        response=state.response or "",
        memories=memories,
    )


def _conversation(state: RunState) -> tuple[Exchange, ...]:
    """Return the turns so far, with the last one where the worker has answered."""
    if state.response is None:
        return state.earlier
    return remembered([*state.earlier, Exchange(prompt=state.prompt, response=state.response)])


def _told(response: Response) -> str:
    text = response.text
    if len(text) > ANSWER_CHARS:
        half = ANSWER_CHARS // 2
        text = f"{text[:half]}\n… {len(text) - 2 * half} characters …\n{text[-half:]}"
    return f"The worker failed: {response.problem}.\n{text}" if response.problem else text


def _counted(count: int, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count} {what}s"


def _charged(state: RunState, used: Usage, *, seconds: float) -> RunState:
    cost = None if state.cost is None or used.cost is None else state.cost + used.cost
    return state.model_copy(update={"requests": state.requests + used.requests, "cost": cost, "seconds": seconds})
