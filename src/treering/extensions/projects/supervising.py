"""The implementation of `treering supervise`."""

import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from treering.core.characters import visible_line
from treering.core.errors import InvalidInput
from treering.extensions.projects.project import ProjectMemory
from treering.extensions.projects.spaces import open_projects
from treering.extensions.projects.supervisor import (
    Assessor,
    Limits,
    ModelAssessor,
    Supervisor,
    SupervisorReport,
    TicketResult,
)
from treering.extensions.projects.ticket import TicketMemory
from treering.surfaces.cli.flags import Access
from treering.surfaces.cli.printing import IndentedLine, line, tell
from treering.surfaces.cli.session import answer, terminable
from treering.system.machine import SystemClock

if TYPE_CHECKING:
    from treering.extensions.projects.commands import SuperviseFlags
from treering.extensions.projects.shell_worker import ShellWorker
from treering.extensions.projects.ticket_files import read_script, read_tickets

_NOT_DONE = 1
_DONE = frozenset({"completed", "already_completed"})
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


def supervise(flags: "SuperviseFlags") -> None:
    """Work through the tickets of a file; exit with code 1 if one is not done."""
    tickets = read_tickets(flags.tickets)
    assessor = _assessor(flags)
    if not flags.folder.is_dir():
        raise InvalidInput(f"{flags.folder} is not a folder.", hint="Give the work tree with --folder.")
    project = flags.project or _name_of(flags.folder)
    with terminable(), _memory(flags) as memory:
        supervisor = Supervisor(
            assessor,
            ShellWorker(flags.worker, flags.folder),
            memory=TicketMemory(project, memory),
            clock=SystemClock(),
            limits=Limits(turns=flags.max_turns, seconds=flags.max_minutes * 60, dollars=flags.max_cost),
            progress=_tell_turn,
        )
        tell(_ceilings(flags, len(tickets), project))
        report = supervisor.run(tickets)
    answer(Access(as_json=flags.as_json), report, list(_lines(report)))
    if any(result.outcome not in _DONE for result in report.results):
        raise typer.Exit(_NOT_DONE)


def _assessor(flags: "SuperviseFlags") -> Assessor:
    if bool(flags.model) == bool(flags.script):
        raise InvalidInput(
            "treering supervise needs --model or --script.",
            hint="Give a model with --model, or a script with --script.",
        )
    if flags.script:
        return read_script(flags.script)
    from treering.extensions.encoder.language_models import open_model  # needs an extra, which scripts do not need

    return ModelAssessor(open_model(flags.model, base_url=flags.model_url or None))


def _memory(flags: "SuperviseFlags") -> AbstractContextManager[ProjectMemory | None]:
    return nullcontext() if flags.no_memory else open_projects()


def _name_of(folder: Path) -> str:
    """Derive a project id from the name of a folder."""
    return _UNFIT.sub("-", folder.resolve().name).strip("-_")[:64] or "project"


def _ceilings(flags: "SuperviseFlags", count: int, project: str) -> str:
    cost = "any cost" if flags.max_cost is None else f"${flags.max_cost}"
    memory = "without memory" if flags.no_memory else f"with the memory of project {project}"
    tickets = "1 ticket" if count == 1 else f"{count} tickets, each"
    turns, minutes = _counted(flags.max_turns, "turn"), _counted(flags.max_minutes, "minute")
    return f"{tickets} with at most {turns}, {minutes} and {cost}; {memory}."


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
