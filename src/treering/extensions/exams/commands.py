"""Commands that examine a memory and propose questions for that."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from typer import Exit, Option, Typer

from treering.core.errors import InvalidInput
from treering.surfaces.cli.flags import Access, add_group
from treering.surfaces.cli.help import CommandHelp

Folder = Annotated[
    Path | None,
    Option("--exam", metavar="PATH", help="A YAML file, or a folder of them. Default: .treering/exam here."),
]
Form = Literal["text", "json", "markdown", "junit"]


def add_exams(app: Typer) -> None:
    """Add the commands to the command line."""
    add_group(app, "exam", "Test the answers of a memory, as you test code.", run, make)


@dataclass(frozen=True, slots=True)
class ExamFlags:
    """How to run an exam, and the results it must reach."""

    least: Annotated[
        list[str] | None,
        Option(
            "--least", metavar="FIGURE=N", help="Exit with 1 if a metric is lower, such as recall@5=80; repeatable."
        ),
    ] = None
    candidates: Annotated[bool, Option("--candidates", help="Also ask candidates that are not accepted yet.")] = False
    words: Annotated[bool, Option("--words", help="Search by words and names only, without vectors.")] = False
    keep: Annotated[bool, Option("--keep/--no-keep", help="Store the run, for comparison with the next.")] = True
    form: Annotated[Form, Option("--format", help="Output for people, programs, pull requests or build servers.")] = (
        "text"
    )


def run(flags: ExamFlags, access: Access, exam: Folder = None) -> None:
    """Ask the questions of an exam and report the results.

    Each question names the evidence to find (must), evidence that must not appear
    (must_not), or that nothing here answers it (refuse: true). The report shows the
    share of the evidence among the first 1, 3, 5 and 10 hits, with 95 % intervals,
    and the changes since the previous run.
    """
    from treering.extensions.exams.running import run_exam

    if not run_exam(
        access,
        exam,
        least=dict(map(_bound, flags.least or ())),
        candidates=flags.candidates,
        semantic=not flags.words,
        keep=flags.keep,
        form="json" if access.as_json else flags.form,
    ):
        raise Exit(1)


def make(
    access: Access,
    exam: Folder = None,
    commits: Annotated[int, Option("--commits", metavar="N", min=0, help="Number of last commits to read.")] = 500,
) -> None:
    """Propose questions from the commits and decisions.

    A commit's subject asks for the files it changed; a decision's question asks for
    the decision. Candidates are written to proposed.yaml, where you accept them.
    """
    from treering.extensions.exams.running import make_exam

    make_exam(access, exam, commits=commits)


def _bound(text: str) -> tuple[str, float]:
    name, _, number = text.partition("=")
    try:
        return name, float(number)
    except ValueError:
        raise InvalidInput(
            f"--least {text} does not contain a number.", hint="Use, for example: --least recall@5=80"
        ) from None


HELP = CommandHelp(
    groups={"The four tools": ("exam",)},
    examples={
        "exam run": (
            ("the questions in .treering/exam", "treering exam run"),
            ("in a build that fails below 80 %", "treering exam run --least recall@5=80 --format junit"),
            ("also the proposed questions", "treering exam run --candidates"),
        ),
        "exam make": (
            ("from the last 500 commits and all decisions", "treering exam make"),
            ("from more of the history", "treering exam make --commits 5000"),
        ),
    },
)
