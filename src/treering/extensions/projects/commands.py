"""The command that works through tickets."""

import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Exit, Option, Typer

from treering.core.characters import visible_line
from treering.core.errors import InvalidInput
from treering.surfaces.cli.flags import Access, AsJson, add_commands
from treering.surfaces.cli.help import CommandHelp
from treering.surfaces.cli.printing import IndentedLine, line, tell
from treering.surfaces.cli.session import answer, terminable
from treering.system.machine import SystemClock

if TYPE_CHECKING:
    from treering.extensions.projects.routes import ServedProjects
    from treering.extensions.projects.supervisor import Assessor, SupervisorReport, TicketResult
    from treering.system.settings import Settings


def add_supervising(app: Typer) -> None:
    """Add the command to the command line."""
    add_commands(app, supervise)


def _dollars(text: str) -> Decimal:
    try:
        amount = Decimal(text)
    except InvalidOperation as error:
        raise BadParameter(f"{text!r} is not an amount of dollars, such as 1.50") from error
    if not amount.is_finite() or amount < 0:
        raise BadParameter(f"{text!r} is not an amount of dollars, such as 1.50")
    return amount


_DONE = frozenset({"completed", "already_completed"})
_UNFIT = re.compile(r"[^A-Za-z0-9_-]+")


@dataclass(frozen=True, slots=True)
class SuperviseFlags:
    """The flags of `treering supervise`."""

    tickets: Annotated[Path, Argument(metavar="TICKETS", help="A list of {id, title, description}, in YAML or JSON.")]
    worker: Annotated[
        str,
        Option(
            "--worker",
            metavar="COMMAND",
            help="The command that does the work; gets its prompt on stdin, once per turn.",
        ),
    ]
    model: Annotated[
        str, Option("--model", metavar="NAME", help="The model that supervises, such as openai:gpt-5-mini.")
    ] = ""
    model_url: Annotated[str, Option("--model-url", metavar="URL", help="An OpenAI-compatible endpoint.")] = ""
    script: Annotated[
        Path | None, Option("--script", metavar="FILE", help="Prepared assessments instead of a model.")
    ] = None
    project: Annotated[
        str,
        Option("--project", metavar="ID", help="The project whose memory is used. Default: the name of the folder."),
    ] = ""
    no_memory: Annotated[bool, Option("--no-memory", help="Recall and store nothing; a crashed run cannot resume.")] = (
        False
    )
    folder: Annotated[Path, Option("--folder", metavar="PATH", help="The work tree.")] = Path()
    max_turns: Annotated[int, Option("--max-turns", min=1, help="Maximum turns per ticket.")] = 20
    max_minutes: Annotated[float, Option("--max-minutes", min=0.01, help="Maximum time per ticket.")] = 60.0
    max_cost: Annotated[
        Decimal | None,
        Option("--max-cost", metavar="DOLLARS", parser=_dollars, help="Maximum cost of supervising one ticket."),
    ] = None
    as_json: AsJson = False


def supervise(flags: SuperviseFlags) -> None:
    """Work through tickets, turn by turn, and learn.

    A supervisor recalls similar past work, instructs the worker, judges each turn,
    and stores what a ticket taught. Run again to resume; finished tickets stay
    finished. Exits with 1 if a ticket is not finished.
    """
    from treering.extensions.projects.shell_worker import ShellWorker
    from treering.extensions.projects.spaces import open_projects
    from treering.extensions.projects.supervisor import Limits, Supervisor
    from treering.extensions.projects.ticket import TicketMemory
    from treering.extensions.projects.ticket_files import read_tickets

    tickets = read_tickets(flags.tickets)
    assessor = _assessor(flags)
    if not flags.folder.is_dir():
        raise InvalidInput(f"{flags.folder} is not a folder.", hint="Give the work tree with --folder.")
    project = flags.project or _name_of(flags.folder)
    with terminable(), nullcontext() if flags.no_memory else open_projects() as memory:
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
        raise Exit(1)


@dataclass(frozen=True, slots=True)
class ProjectFlags:
    """Which projects `treering serve` serves."""

    projects: Annotated[
        str,
        Option(
            "--projects",
            metavar="PLACE",
            help="A folder, or postgresql://…?space=NAME for spaces NAME/PROJECT. Default: TREERING_DATA_DIR/projects.",
        ),
    ] = ""

    def chosen(self, settings: "Settings") -> "ServedProjects":
        """Return the chosen projects. Raises `InvalidInput` for an invalid address."""
        from treering.extensions.projects.routes import ServedProjects

        return ServedProjects.of(self.projects, settings)


def _assessor(flags: SuperviseFlags) -> "Assessor":
    if bool(flags.model) == bool(flags.script):
        raise InvalidInput(
            "treering supervise needs --model or --script.",
            hint="Give a model with --model, or a script with --script.",
        )
    if flags.script:
        from treering.extensions.projects.ticket_files import read_script

        return read_script(flags.script)
    from treering.extensions.encoder.language_models import open_model  # needs an extra, which scripts do not need
    from treering.extensions.projects.supervisor import ModelAssessor

    return ModelAssessor(open_model(flags.model, base_url=flags.model_url or None))


def _name_of(folder: Path) -> str:
    """Derive a project id from the name of a folder."""
    return _UNFIT.sub("-", folder.resolve().name).strip("-_")[:64] or "project"


def _ceilings(flags: SuperviseFlags, count: int, project: str) -> str:
    cost = "any cost" if flags.max_cost is None else f"${flags.max_cost}"
    memory = "without memory" if flags.no_memory else f"with the memory of project {project}"
    tickets = "1 ticket" if count == 1 else f"{count} tickets, each"
    turns, minutes = _counted(flags.max_turns, "turn"), _counted(flags.max_minutes, "minute")
    return f"{tickets} with at most {turns}, {minutes} and {cost}; {memory}."


def _tell_turn(title: str, done: int, total: int | None) -> None:
    tell(f"{visible_line(title)}: turn {done + 1} of at most {total}")


def _lines(report: "SupervisorReport") -> Iterator[IndentedLine]:
    for result in report.results:
        style = "green" if result.outcome in _DONE else "red"
        yield line((result.outcome.replace("_", " "), style), f"  {result.ticket.title}{_took(result)}")
        if result.why or result.summary:
            yield line(result.why or result.summary, indent=2)
    for failure in report.memory_failures:
        yield line(("memory failed", "yellow"), f" at {failure.step}: {failure.why}")


def _took(result: "TicketResult") -> str:
    if not result.turns:
        return ""
    cost = "" if not result.cost else f", ${result.cost:.4f}"
    return f" ({_counted(result.turns, 'turn')}, {result.seconds:.0f} s{cost})"


def _counted(count: float, what: str) -> str:
    return f"1 {what}" if count == 1 else f"{count:g} {what}s"


HELP = CommandHelp(
    groups={"Wikis, conversations, tickets": ("supervise",)},
    examples={
        "supervise": (
            (
                "a coding agent on the tickets of this work tree",
                'treering supervise tickets.yaml --worker "claude -p" --model openai:gpt-5-mini',
            ),
            (
                "with limits per ticket, in another folder",
                'treering supervise tickets.yaml --worker "codex exec -" --model openai:gpt-5-mini \\\n'
                "      --folder ../acme --max-turns 8 --max-minutes 30 --max-cost 0.50",
            ),
            (
                "try it without a model",
                "treering supervise tickets.yaml --worker ./work.sh --script assessments.yaml",
            ),
        ),
    },
)
