"""Questions of an exam, and the answers of a space: which expected results were found, and at which rank."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, TypeAdapter, ValidationError, model_validator

from treering.core.canonical import digest, is_object, normalise_text
from treering.core.errors import InvalidInput, NotFound
from treering.extensions.documents.bounded_yaml import parse_yaml
from treering.retrieval.text.analysis import estimate_tokens
from treering.sources.reading.bounded_files import read_text_file
from treering.surfaces.python.space import Space
from treering.verbs.envelope import Value
from treering.verbs.query.context import ContextReport
from treering.verbs.query.search import SearchReport

FOLDER = Path(".treering") / "exam"
LOOKED_AT = 50
"""The number of ranked sources that are searched for expected results."""

_LINES = re.compile(r"(?P<path>.+?)#L(?P<first>\d+)(?:-L?(?P<last>\d+))?")


@dataclass(frozen=True, slots=True)
class ShownItem:
    """A source or an object in an answer, with the search methods that found it, the best first."""

    object_id: str
    origin: str
    passages: tuple[tuple[str, str], ...]
    """The place and the text of each shown passage."""
    arms: tuple[str, ...] = ()


class ExpectedFind(Value):
    """An expected or forbidden result: exactly one of three."""

    file: str = ""
    """The end of a path; with `#L3-L9`, a passage must contain one of these lines."""
    object: str = ""
    """An id."""
    says: str = ""
    """Consecutive words of a passage; case and white space are ignored."""

    @model_validator(mode="after")
    def _one(self) -> "ExpectedFind":
        if sum(map(bool, (self.file, self.object, self.says))) != 1:
            raise ValueError("give exactly one of 'file', 'object' and 'says'")
        return self

    def __str__(self) -> str:
        return self.file or self.object or f"“{self.says}”"

    def is_in(self, shown: ShownItem) -> bool:
        """Return whether a shown item is this result."""
        if self.object:
            return shown.object_id == self.object
        if self.says:
            return any(normalise_text(self.says) in normalise_text(text) for _, text in shown.passages)
        named = _LINES.fullmatch(self.file)
        path = named["path"] if named else self.file
        if not f"/{shown.origin.rpartition('#')[2]}".endswith(f"/{path}"):
            return False
        if named is None:
            return True
        first, last = int(named["first"]), int(named["last"] or named["first"])
        places = (_LINES.match(place) for place, _ in shown.passages)
        return any(one and int(one["first"]) <= last and int(one["last"] or one["first"]) >= first for one in places)


def _expected(given: Any) -> Any:
    if not isinstance(given, str):
        return given
    return {"object": given} if is_object(given) else {"file": given}


ExpectedOrName = Annotated[ExpectedFind, BeforeValidator(_expected)]
"""A plain text is an id or a file."""


class ExamQuestion(Value):
    """A question with its expected results."""

    ask: str = Field(min_length=1, max_length=10_000)
    id: str = ""
    """Default: derived from the question."""
    scope: str = "/"
    must: tuple[ExpectedOrName, ...] = ()
    must_not: tuple[ExpectedOrName, ...] = ()
    refuse: bool = False
    """Whether the space contains no answer, so that the right answer is a refusal."""
    status: Literal["accepted", "candidate", "rejected"] = "accepted"
    """A candidate is a proposal that counts once a person marks it `accepted`; a rejected one is not proposed again."""
    source: str = ""
    """Its origin, such as `commit 1f3c…`."""

    @model_validator(mode="after")
    def _has_an_answer(self) -> "ExamQuestion":
        if self.refuse and self.must:
            raise ValueError("a question with refuse has no results to find; remove must or refuse")
        if not (self.refuse or self.must or self.must_not):
            raise ValueError(
                "give results that must be found (must), results that must not be found (must_not), or refuse: true"
            )
        return self

    @property
    def key(self) -> str:
        """Its stable identifier across runs."""
        return self.id or digest(f"{self.scope}\n{self.ask}")[:12]


_QUESTIONS = TypeAdapter(tuple[ExamQuestion, ...])


def read_questions(place: Path, *, below: Path | None = None) -> tuple[ExamQuestion, ...]:
    """Read the questions of a file, or of all YAML files in a folder, sorted by name.

    Links must not lead out of the folder `below`, by default the folder of the questions. Raises `NotFound` if there
    are none, and `InvalidInput` for an invalid file or a repeated key.
    """
    files = sorted(place.glob("*.y*ml")) if place.is_dir() else [place]
    if not files or not files[0].is_file():
        raise NotFound(
            f"There is no exam at {place}.", hint="Put questions into a YAML file there, or run: treering exam make."
        )
    questions: dict[str, ExamQuestion] = {}
    for file in files:
        for question in _read(file, below or (place if place.is_dir() else place.parent)):
            if question.key in questions:
                raise InvalidInput(
                    f"{file}: the question {question.key} appears twice.", hint="Give each question a unique id."
                )
            questions[question.key] = question
    return tuple(questions.values())


def _read(file: Path, below: Path) -> tuple[ExamQuestion, ...]:
    hint = "An exam is a YAML file with a list `questions`; see `treering exam run --help`."
    try:
        data = parse_yaml(read_text_file(file, below=below))
        return _QUESTIONS.validate_python(data["questions"] if isinstance(data, dict) else data)
    except ValidationError as error:
        first = error.errors()[0]
        number, *field = first["loc"] or ("",)
        where = f"question {int(number) + 1}" if isinstance(number, int) else "the list"
        key = ".".join(map(str, field))
        raise InvalidInput(f"{file}, {where}{f', {key}' if key else ''}: {first['msg']}.", hint=hint) from error
    except KeyError as error:
        raise InvalidInput(f"{file} is not an exam: it has no list of questions.", hint=hint) from error
    except (OSError, ValueError) as error:
        raise InvalidInput(f"{file} is not an exam: {error}.", hint=hint) from error


class FoundExpected(Value):
    """An expected result: its rank in the ranking from 1, `None` if it is not among the first 50."""

    wanted: str
    rank: int | None
    arms: tuple[str, ...] = ()
    """The search methods that found it, such as `words` and `vectors`, the best first."""


class ExamAnswer(Value):
    """The answer of a space to a question."""

    key: str
    ask: str
    refuse: bool
    found: tuple[FoundExpected, ...]
    forbidden: tuple[FoundExpected, ...]
    """Forbidden results among the first ten."""
    refused: bool
    """Whether the context stated that there is no answer."""
    tokens: int | None
    """The tokens of the pack up to the last expected result; `None` if one is missing."""
    packed: int
    """The number of passages and objects in the pack."""
    packed_right: int
    """The number of expected ones among them."""

    @property
    def is_right(self) -> bool:
        """Whether it was refused as expected, or all expected and no forbidden results are among the first ten."""
        if self.refuse != self.refused:
            return False
        return not self.forbidden and all(one.rank is not None and one.rank <= FIRST for one in self.found)

    def recall(self, first: int) -> float | None:
        """Return the share of expected results among the first ranks; `None` if none are expected."""
        if not self.found:
            return None
        return sum(one.rank is not None and one.rank <= first for one in self.found) / len(self.found)


FIRST = 10
"""The number of ranked sources that count as shown."""


def answered(space: Space, question: ExamQuestion, *, semantic: bool = True, max_tokens: int = 4_000) -> ExamAnswer:
    """Ask a space for a ranking and a context, and search them for expected and forbidden results."""
    options = {"limit": LOOKED_AT, "semantic": semantic, "explain": True, "group": "source", "lines": 0}
    ranked = _ranked(space.query("search", question.scope, {"text": question.ask}, options))
    limits = {"semantic": semantic, "max_tokens": max_tokens}
    context = space.query("context", question.scope, {"task": question.ask}, limits)
    refused = context.empty is not None
    packed = [] if refused else _packed(context)
    return ExamAnswer(
        key=question.key,
        ask=question.ask,
        refuse=question.refuse,
        found=tuple(_placed(expected, ranked) for expected in question.must),
        forbidden=tuple(one for each in question.must_not if (one := _placed(each, ranked[:FIRST])).rank),
        refused=refused,
        tokens=_tokens_until(question.must, packed),
        packed=len(packed),
        packed_right=sum(any(expected.is_in(one) for expected in question.must) for one in packed),
    )


def ask_all(
    space: Space, questions: Sequence[ExamQuestion], *, semantic: bool, told: Callable[[int, int], None]
) -> tuple[ExamAnswer, ...]:
    """Ask every question; call `told` with the progress after each."""
    answers: list[ExamAnswer] = []
    for number, question in enumerate(questions, 1):
        answers.append(answered(space, question, semantic=semantic))
        told(number, len(questions))
    return tuple(answers)


def _ranked(report: SearchReport) -> list[ShownItem]:
    return [
        ShownItem(
            hit.object_id,
            hit.origin,
            ((hit.place, hit.text), *((passage.place, passage.text) for passage in hit.more)),
            _arms(hit.explain or {}),
        )
        for hit in report.hits
    ]


def _arms(explained: Mapping[str, Any]) -> tuple[str, ...]:
    arms: Mapping[str, Mapping[str, float]] = explained.get("arms", {})
    return tuple(sorted(arms, key=lambda arm: -arms[arm]["normalised"]))


def _packed(report: ContextReport) -> list[ShownItem]:
    cited = {(one.object_id, one.segment_id): one for one in report.pack.citations}
    shown = list[ShownItem]()
    for item in report.pack.items:
        of_it = cited.get((item.object_id, item.segment_id))
        place, origin = (of_it.place, of_it.origin) if of_it else ("", "")
        shown.append(ShownItem(item.object_id, origin, ((place, item.text),)))
    return shown


def _placed(expected: ExpectedFind, ranked: Sequence[ShownItem]) -> FoundExpected:
    for rank, one in enumerate(ranked, 1):
        if expected.is_in(one):
            return FoundExpected(wanted=str(expected), rank=rank, arms=one.arms)
    return FoundExpected(wanted=str(expected), rank=None)


def _tokens_until(must: Sequence[ExpectedFind], packed: Sequence[ShownItem]) -> int | None:
    left, tokens = list(must), 0
    for one in packed if left else ():
        tokens += sum(estimate_tokens(text) for _, text in one.passages)
        left = [wanted for wanted in left if not wanted.is_in(one)]
        if not left:
            return tokens
    return None
