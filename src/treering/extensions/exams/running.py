"""Implementation of the exam commands: run an exam, and propose questions from a repository and a space."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import yaml

from treering.core.counting import counted_things
from treering.core.errors import InvalidInput, NotFound
from treering.core.objects import Decision, Knowledge, Source
from treering.extensions.exams.exam import FOLDER, ExamQuestion, ExpectedFind, ask_all, read_questions
from treering.extensions.exams.results import (
    ExamRun,
    as_json,
    as_junit,
    as_lines,
    as_markdown,
    keep_in_space,
    keep_run,
    last_run,
    report_on,
)
from treering.ports.ledger import ObjectRequest, Selection
from treering.sources.git.repository import GitRepository, open_repository
from treering.sources.reading.bounded_files import check_inside
from treering.surfaces.cli.flags import Access
from treering.surfaces.cli.printing import line, say
from treering.surfaces.cli.session import answer, bars, opened
from treering.surfaces.python.space import Space


def run_exam(
    access: Access,
    place: Path | None,
    *,
    least: Mapping[str, float],
    candidates: bool,
    semantic: bool,
    keep: bool,
    form: str,
) -> bool:
    """Run an exam and print its report; return whether no metric is below its required minimum.

    Raises `NotFound` if there are no questions.
    """
    below = Path() if place is None else None
    place = place or FOLDER
    folder = place if place.is_dir() else place.parent
    statuses = {"accepted", "candidate"} if candidates else {"accepted"}
    questions = [one for one in read_questions(place, below=below) if one.status in statuses]
    if not questions:
        raise NotFound(f"No question at {place} is accepted.", hint="Accept some of them, or use --candidates.")
    before = last_run(folder, below=below or folder)
    with opened(access) as space, bars() as advance:
        answers = ask_all(space, questions, semantic=semantic, told=lambda done, total: advance("asking", done, total))
        run = ExamRun(at=space.engine.clock.now(), sequence=space.engine.ledger.sequence(), answers=answers)
        report = report_on(run, before, least)
        if keep:
            keep_in_space(space.engine, str(place), report)
    if keep:
        keep_run(folder, run, below=below or folder)
    match form:
        case "text":
            say("\n".join(as_lines(report)))
        case "json":
            say(as_json(report).rstrip())
        case "markdown":
            say(as_markdown(report).rstrip())
        case _:
            say(as_junit(report).rstrip())
    return not report.missed


def make_exam(access: Access, place: Path | None, *, commits: int) -> None:
    """Write new questions into `proposed.yaml` of an exam."""
    folder, below = place or FOLDER, place or Path()
    if folder.suffix in (".yaml", ".yml"):
        raise InvalidInput(
            f"{folder} is a file.", hint="Give a folder; the proposals are written to proposed.yaml there."
        )
    known = _known(folder, below)
    file = folder / PROPOSED
    before = read_questions(file, below=below) if file.is_file() else ()
    with opened(access) as space:
        questions = proposed(space, Path(), commits=commits, known=known)
    if questions:
        check_inside(file, below)
        write_proposed(file, questions, before)
    facts = {"file": str(file), "proposed": len(questions), "known": len(known)}
    message = f"{counted_things(len(questions), 'question')} proposed in {file}; accept the useful ones."
    answer(access, facts, [line(message if questions else "Nothing new to propose.")])


def _known(folder: Path, below: Path) -> tuple[ExamQuestion, ...]:
    try:
        return read_questions(folder, below=below)
    except NotFound:
        return ()


PROPOSED = "proposed.yaml"
_MOST_FILES = 4
"""The maximum number of files of a commit that becomes a question: larger commits are not about one place."""
_LEAST_WORDS = 4
_NO_QUESTION = re.compile(
    r"^(merge|revert|bump|release|version|update (changelog|dependenc)|prepare|format|lint|typo|fixup|squash|wip)\b",
    re.IGNORECASE,
)
_NO_ANSWER = re.compile(
    r"(^|/)(change(s|log)[^/]*|news[^/]*|[^/]*\.lock|package-lock\.json|version[^/]*)$", re.IGNORECASE
)
_TYPE = re.compile(
    r"^(feat|fix|docs|refactor|perf|tests?|chore|build|ci|style)(?P<scope>\([^)]*\))?!?: ", re.IGNORECASE
)
_HEAD = """\
# Questions proposed by `treering exam make`. Candidates do not count: read, correct and mark them `accepted`,
# or `rejected`, so that they are not proposed again.
"""


def proposed(space: Space, folder: Path, *, commits: int, known: Iterable[ExamQuestion]) -> tuple[ExamQuestion, ...]:
    """Propose new questions from the last commits of a repository and from decisions in the space.

    The question of a commit is its subject; the expected results are its files, if they still exist. Raises `NotFound`
    if the folder is in no repository.
    """
    keys = {question.key for question in known}
    made = [*_of_history(open_repository(folder), commits), *_of_decisions(space)]
    return tuple({one.key: one for one in made if one.key not in keys}.values())


def write_proposed(file: Path, questions: Sequence[ExamQuestion], before: Sequence[ExamQuestion]) -> None:
    """Write proposals after the existing ones."""
    rows = [
        one.model_dump(mode="json", exclude_defaults=True) | {"status": one.status} for one in (*before, *questions)
    ]
    for one in rows:
        one["must"] = [wanted if len(wanted) > 1 else next(iter(wanted.values())) for wanted in one.get("must", [])]
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        text = yaml.safe_dump({"questions": rows}, allow_unicode=True, sort_keys=False, width=100)
        file.write_text(_HEAD + text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput(f"Cannot write {file}: {error.strerror}.", hint="Choose another folder.") from error


def _of_history(repository: GitRepository, commits: int) -> Iterator[ExamQuestion]:
    head = repository.head()
    if head is None:
        return
    existing = {entry.path for entry in repository.entries(head)}
    for commit in repository.history(head, last=commits):
        question = _TYPE.sub("", commit.subject).strip()
        paths = [path for path in commit.paths if not _NO_ANSWER.search(path)]
        is_question = len(question.split()) >= _LEAST_WORDS and not _NO_QUESTION.match(commit.subject)
        if is_question and 0 < len(paths) <= _MOST_FILES and existing.issuperset(paths):
            must = tuple(ExpectedFind(file=path) for path in paths)
            source = f"commit {commit.commit[:12]} of {commit.when:%Y-%m-%d}"
            yield ExamQuestion(
                ask=question, id=f"commit-{commit.commit[:12]}", must=must, status="candidate", source=source
            )


def _of_decisions(space: Space) -> Iterator[ExamQuestion]:
    """Yield the question of each active decision, with the decision and its source files as expected results."""
    ledger = space.engine.ledger
    for item in ledger.select(Selection(scope="/", descend=True, types=("knowledge",))):
        if not isinstance(item, Knowledge) or not isinstance(item.payload, Decision) or item.status != "active":
            continue
        ids = tuple(ref.source_id for ref in item.evidence_refs)
        sources = ledger.read([ObjectRequest(objects=ids)])[0].objects
        files = {
            one.origin.rpartition("#")[2] for one in sources.values() if isinstance(one, Source) and "#" in one.origin
        }
        must = (ExpectedFind(object=item.id), *(ExpectedFind(file=file) for file in sorted(files)))
        yield ExamQuestion(
            ask=item.payload.question,
            id=item.id,
            scope=item.scope,
            must=must,
            status="candidate",
            source=f"decision {item.id}",
        )
