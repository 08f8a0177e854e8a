"""Propose questions for an exam from the commits of a repository and the decisions of a space."""

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import yaml

from treering.core.errors import InvalidInput
from treering.core.objects import Decision, Knowledge, Source
from treering.extensions.code.repository.contents import RepositoryContents
from treering.extensions.exams.exam import ExamQuestion, ExpectedFind
from treering.ports.ledger import ObjectRequest, Selection
from treering.surfaces.python.space import Space

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
    made = [*_of_history(RepositoryContents.open(folder), commits), *_of_decisions(space)]
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


def _of_history(repository: RepositoryContents, commits: int) -> Iterator[ExamQuestion]:
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
