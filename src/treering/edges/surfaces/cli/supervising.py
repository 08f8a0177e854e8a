"""What `treering supervise` does."""

import re
import signal
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path

import typer

from treering.core.characters import visible_line
from treering.core.errors import InvalidInput
from treering.edges.clock import SystemClock
from treering.edges.projects import open_projects
from treering.edges.surfaces.cli.flags import Access
from treering.edges.surfaces.cli.printing import tell
from treering.edges.surfaces.cli.rendering.lines import IndentedLine, line
from treering.edges.surfaces.cli.session import answer
from treering.edges.surfaces.cli.ticket_files import read_script, read_tickets
from treering.edges.workers.shell import ShellWorker
from treering.memories.assessing import Assessor, ModelAssessor
from treering.memories.project import ProjectMemory
from treering.memories.supervisor import Limits, Supervisor, SupervisorReport, TicketResult
from treering.memories.ticket import TicketMemory

_NOT_DONE = 1
_TERMINATED = 143
_DONE = frozenset({"completed", "already_completed"})
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class SuperviseArguments:
    """What the command line says."""

    tickets: Path
    worker: str
    model: str
    model_url: str
    script: Path | None
    project: str
    memory: bool
    folder: Path
    turns: int
    minutes: float
    dollars: Decimal | None
    as_json: bool


def supervise(asked: SuperviseArguments) -> None:
    """Work through the tickets of a file; leave with exit code 1 where one is not done."""
    tickets = read_tickets(asked.tickets)
    assessor = _assessor(asked)
    if not asked.folder.is_dir():
        raise InvalidInput(f"{asked.folder} is not a folder.", hint="Name the work tree with --folder.")
    project = asked.project or _name_of(asked.folder)
    with _terminable(), _memory(asked) as memory:
        supervisor = Supervisor(
            assessor,
            ShellWorker(asked.worker, asked.folder),
            memory=TicketMemory(project, memory),
            clock=SystemClock(),
            limits=Limits(turns=asked.turns, seconds=asked.minutes * 60, dollars=asked.dollars),
            progress=_tell_turn,
        )
        tell(_ceilings(asked, len(tickets), project))
        report = supervisor.run(tickets)
    answer(Access(as_json=asked.as_json), report, list(_lines(report)))
    if any(result.outcome not in _DONE for result in report.results):
        raise typer.Exit(_NOT_DONE)


def _assessor(asked: SuperviseArguments) -> Assessor:
    if bool(asked.model) == bool(asked.script):
        raise InvalidInput(
            "treering supervise needs either --model or --script.",
            hint="Name a model with --model, or a script with --script.",
        )
    if asked.script:
        return read_script(asked.script)
    from treering.edges.models.pydantic_ai import open_model  # it needs an extra, which a script does not

    return ModelAssessor(open_model(asked.model, base_url=asked.model_url or None))


def _memory(asked: SuperviseArguments) -> AbstractContextManager[ProjectMemory | None]:
    return open_projects() if asked.memory else nullcontext()


def _name_of(folder: Path) -> str:
    """Make a project id of a folder's name."""
    return _UNFIT.sub("-", folder.resolve().name).strip("-_")[:64] or "project"


@contextmanager
def _terminable() -> Iterator[None]:
    """Leave in order when asked to end, so that no worker is left behind in the work tree."""
    before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(_TERMINATED))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _ceilings(asked: SuperviseArguments, count: int, project: str) -> str:
    cost = "any cost" if asked.dollars is None else f"${asked.dollars}"
    kept = f"with the memory of project {project}" if asked.memory else "without memory"
    tickets = "1 ticket" if count == 1 else f"{count} tickets, each"
    turns, minutes = _counted(asked.turns, "turn"), _counted(asked.minutes, "minute")
    return f"{tickets} with at most {turns}, {minutes} and {cost}; {kept}."


def _tell_turn(title: str, done: int, total: int | None) -> None:
    tell(f"{visible_line(title)}: turn {done + 1} of at most {total}")


def _lines(report: SupervisorReport) -> Iterator[IndentedLine]:
    for result in report.results:
        style = "green" if result.outcome in _DONE else "red"
        yield line((result.outcome.replace("_", " "), style), f"  {result.ticket.title}{_took(result)}")
        if result.why or result.summary:
            yield line(result.why or result.summary, indent=2)
    for failure in report.memory_failures:
        yield line(("memory failed", "yellow"), f" at {failure.step}: {failure.why}")


def _took(result: TicketResult) -> str:
    if not result.turns:
        return ""
    cost = "" if not result.cost else f", ${result.cost:.4f}"
    return f" ({_counted(result.turns, 'turn')}, {result.seconds:.0f} s{cost})"


def _counted(count: float, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:g} {what}s"
