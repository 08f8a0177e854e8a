"""Commands that examine a memory and propose questions for that."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

from typer import Exit, Option, Typer

from treering.core.counting import counted_things
from treering.core.errors import InvalidInput, NotFound
from treering.facades import LazyModule
from treering.surfaces.cli.flags import Access, add_group
from treering.surfaces.cli.help import CommandHelp
from treering.surfaces.cli.printing import line, say
from treering.surfaces.cli.session import answer, bars, opened

if TYPE_CHECKING:
    from treering.extensions.exams import exam as exams
    from treering.extensions.exams import proposing, results
else:
    exams = LazyModule("treering.extensions.exams.exam")
    proposing = LazyModule("treering.extensions.exams.proposing")
    results = LazyModule("treering.extensions.exams.results")

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
    least = dict(map(_bound, flags.least or ()))
    below = Path() if exam is None else None
    place = exam or exams.FOLDER
    folder = place if place.is_dir() else place.parent
    statuses = {"accepted", "candidate"} if flags.candidates else {"accepted"}
    questions = [one for one in exams.read_questions(place, below=below) if one.status in statuses]
    if not questions:
        raise NotFound(f"No question at {place} is accepted.", hint="Accept some of them, or use --candidates.")
    before = results.last_run(folder, below=below or folder)
    with opened(access) as space, bars() as advance:
        answers = exams.ask_all(
            space,
            questions,
            semantic=not flags.words,
            told=lambda done, total: advance("asking", done, total),
        )
        taken = results.ExamRun(at=space.engine.clock.now(), sequence=space.engine.ledger.sequence(), answers=answers)
        report = results.report_on(taken, before, least)
        if flags.keep:
            results.keep_in_space(space.engine, str(place), report)
    if flags.keep:
        results.keep_run(folder, taken, below=below or folder)
    say(results.render(report, "json" if access.as_json else flags.form))
    if report.missed:
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
    from treering.sources.reading.bounded_files import check_inside

    folder, below = exam or exams.FOLDER, exam or Path()
    if folder.suffix in (".yaml", ".yml"):
        raise InvalidInput(
            f"{folder} is a file.", hint="Give a folder; the proposals are written to proposed.yaml there."
        )
    known = _known(folder, below)
    file = folder / proposing.PROPOSED
    before = exams.read_questions(file, below=below) if file.is_file() else ()
    with opened(access) as space:
        questions = proposing.proposed(space, Path(), commits=commits, known=known)
    if questions:
        check_inside(file, below)
        proposing.write_proposed(file, questions, before)
    facts = {"file": str(file), "proposed": len(questions), "known": len(known)}
    message = f"{counted_things(len(questions), 'question')} proposed in {file}; accept the useful ones."
    answer(access, facts, [line(message if questions else "Nothing new to propose.")])


def _known(folder: Path, below: Path) -> "tuple[exams.ExamQuestion, ...]":
    try:
        return exams.read_questions(folder, below=below)
    except NotFound:
        return ()


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
