"""The command `treering try`."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

from typer import Argument, Option, Typer

from treering.surfaces.cli.flags import add_commands
from treering.surfaces.cli.help import CommandHelp
from treering.surfaces.cli.printing import show, terminal
from treering.surfaces.cli.session import opened
from treering.system.address import file_address


def add_trial(app: Typer) -> None:
    """Add the command to the command line."""
    add_commands(app, try_)


def try_(
    question: Annotated[
        str, Argument(metavar="QUESTION", help="Default: a question made from a heading of the README.")
    ] = "",
    wait: Annotated[
        bool, Option("--wait", help="Embed everything first, so that search also matches by meaning.")
    ] = False,
) -> None:
    """Show what Treering does with the current folder.

    Asks the folder a question, records a decision with its line as evidence,
    and detects a change of that line in a copy. Nothing is stored.
    """
    from treering.extensions.trial.steps import steps

    console = terminal()
    with TemporaryDirectory(prefix="treering-") as folder:
        place = Path(folder)
        with opened(file_address(place / "try.db"), create=True) as space:
            for lines in steps(space, place, question, wait=wait):
                show(console, lines)


HELP = CommandHelp(
    groups={"Begin": ("try",)},
    examples={
        "try": (
            ("see what Treering does with the current folder", "treering try"),
            ("with your own question", 'treering try "how often is a fetch tried"'),
        ),
    },
)
