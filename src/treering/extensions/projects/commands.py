"""The command that works through tickets."""

from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, BadParameter, Option, Typer

from treering.surfaces.cli.flags import add_commands
from treering.surfaces.cli.help import CommandHelp

if TYPE_CHECKING:
    from treering.extensions.projects.routes import ServedProjects
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
    as_json: Annotated[bool, Option("--json", help="Print only the report, as JSON.")] = False


def supervise(flags: SuperviseFlags) -> None:
    """Work through tickets, turn by turn, and learn.

    A supervisor recalls similar past work, instructs the worker, judges each turn,
    and stores what a ticket taught. Run again to resume; finished tickets stay
    finished. Exits with 1 if a ticket is not finished.
    """
    from treering.extensions.projects import supervising

    supervising.supervise(flags)


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
