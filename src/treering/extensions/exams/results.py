"""The results of an exam: metrics with intervals, changes since the previous run, and output formats."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from xml.sax.saxutils import escape, quoteattr

import numpy as np
from pydantic import Field, ValidationError

from treering.core.canonical import Instant
from treering.core.counting import counted_things
from treering.core.errors import Corrupt, InvalidInput, NotFound, Unavailable
from treering.core.patch import shortened
from treering.extensions.exams.exam import FIRST, ExamAnswer, FoundExpected
from treering.ports.runtime import JobLog
from treering.sources.reading.bounded_files import check_inside, read_text_file
from treering.verbs.engine import Engine
from treering.verbs.envelope import READS, Call, Nothing, Operation, Value
from treering.verbs.leases import held

RUNS = "runs.jsonl"
"""The file next to the questions with one line for each run."""

_ROUNDS = 2_000
_CUTOFFS = (1, 3, 5, FIRST)
_SHOWN = 20


class Estimate(Value):
    """A mean in percent (tokens: absolute), with its 95 % interval over questions, and the number of questions."""

    mean: float
    low: float
    high: float
    questions: int

    def __str__(self) -> str:
        return f"{self.mean:.1f} [{self.low:.1f}, {self.high:.1f}]"


class ExamRun(Value):
    """One run of an exam."""

    at: Instant
    sequence: int
    """The sequence number of the space's log."""
    answers: tuple[ExamAnswer, ...]


class ChangedAnswer(Value):
    """A question whose answer changed since the previous run: each expected result, with its ranks then and now."""

    key: str
    ask: str
    better: bool
    wanted: tuple[str, ...]


class ExamReport(Value):
    """A run with its metrics, and the changes since the previous run."""

    run: ExamRun
    figures: Mapping[str, Estimate]
    gains: Mapping[str, Estimate] = {}
    """The increase of each metric, over the questions of both runs."""
    moved: tuple[ChangedAnswer, ...] = ()
    missed: tuple[str, ...] = ()
    """The metrics below their required minimum, with the differences."""


def report_on(run: ExamRun, before: ExamRun | None, least: Mapping[str, float]) -> ExamReport:
    """Summarize a run, and compare it with the previous one, question by question.

    `least`: the required minimum of metrics. Raises `InvalidInput` for an unknown metric.
    """
    measured = {answer.key: _measures(answer) for answer in run.answers}
    figures = _figures(measured)
    if unknown := [name for name in least if name not in NAMES]:
        raise InvalidInput(f"Unknown metric {unknown[0]!r}.", hint=f"Available: {', '.join(NAMES)}.")
    below = [
        f"{name} is {figures[name].mean:.1f}; the required minimum is {bound:g}"
        for name, bound in least.items()
        if name in figures and figures[name].mean < bound
    ]
    if before is None:
        return ExamReport(run=run, figures=figures, missed=tuple(below))
    old = {answer.key: answer for answer in before.answers}
    gained = {
        answer.key: {
            name: now - then
            for name, now in measured[answer.key].items()
            if (then := _measures(old[answer.key]).get(name)) is not None
        }
        for answer in run.answers
        if answer.key in old
    }
    moved = (change for answer in run.answers if answer.key in old and (change := _moved(old[answer.key], answer)))
    return ExamReport(
        run=run,
        figures=figures,
        gains=_figures(gained),
        moved=tuple(sorted(moved, key=lambda one: one.better)),
        missed=tuple(below),
    )


NAMES = (*(f"recall@{first}" for first in _CUTOFFS), "all@10", "precision", "clean", "refused", "answered", "tokens")
"""Metrics: shares of the expected results among the first ranks; questions with all of them among the first ten; the
share of expected results in a pack; questions without forbidden results; the refused ones of the questions to refuse;
the answered ones of the others; tokens of a pack up to the last expected result."""


def _measures(answer: ExamAnswer) -> dict[str, float]:
    values: dict[str, float | None] = {f"recall@{first}": answer.recall(first) for first in _CUTOFFS}
    values["all@10"] = None if not answer.found else float(answer.recall(FIRST) == 1.0)
    values["precision"] = answer.packed_right / answer.packed if answer.found and answer.packed else None
    values["clean"] = float(not answer.forbidden)
    values["refused" if answer.refuse else "answered"] = float(answer.refused == answer.refuse)
    measures = {name: 100 * value for name, value in values.items() if value is not None}
    return {**measures, "tokens": float(answer.tokens)} if answer.tokens is not None else measures


def _figures(measured: Mapping[str, Mapping[str, float]]) -> dict[str, Estimate]:
    values = {name: [of_one[name] for of_one in measured.values() if name in of_one] for name in NAMES}
    return {name: _estimate(of_all) for name, of_all in values.items() if of_all}


def _estimate(values: Sequence[float]) -> Estimate:
    """Estimate a mean with its bootstrap interval over questions."""
    held = np.array(values)
    drawn = np.random.default_rng(0).integers(len(held), size=(_ROUNDS, len(held)))
    low, high = np.percentile(held[drawn].mean(axis=1), (2.5, 97.5))
    return Estimate(mean=float(held.mean()), low=float(low), high=float(high), questions=len(held))


def _moved(old: ExamAnswer, new: ExamAnswer) -> ChangedAnswer | None:
    then = {one.wanted: one for one in old.found}
    changed = [(then[one.wanted], one) for one in new.found if one.wanted in then and then[one.wanted].rank != one.rank]
    changes = [f"{now.wanted}: {_place(before)} → {_place(now)}" for before, now in changed]
    if old.refused != new.refused:
        changes.append(f"{'refused' if old.refused else 'answered'} → {'refused' if new.refused else 'answered'}")
    if not changes:
        return None
    worse = [_rank(now) > _rank(before) for before, now in changed]
    better = not any(worse) and new.refused <= old.refused if not new.refuse else new.refused
    return ChangedAnswer(key=new.key, ask=new.ask, better=better, wanted=tuple(changes))


def _rank(found: FoundExpected) -> float:
    return float("inf") if found.rank is None else found.rank


def _place(found: FoundExpected) -> str:
    if found.rank is None:
        return "not found"
    return f"{found.rank} by {', '.join(found.arms)}" if found.arms else str(found.rank)


_MAX_BYTES_OF_RUNS = 50_000_000


def last_run(folder: Path, *, below: Path) -> ExamRun | None:
    """Return the last stored run. Raises `Corrupt` if the file does not end with a run.

    Links must not lead out of the folder `below`.
    """
    try:
        lines = read_text_file(folder / RUNS, below=below, max_bytes=_MAX_BYTES_OF_RUNS).splitlines()
    except FileNotFoundError:
        return None
    try:
        return ExamRun.model_validate_json(lines[-1]) if lines else None
    except ValidationError as error:
        raise Corrupt(f"{folder / RUNS} does not end with a run.", hint="Delete its last line.") from error


def keep_run(folder: Path, run: ExamRun, *, below: Path) -> None:
    """Append a run to the file of runs. Links must not lead out of the folder `below`."""
    check_inside(folder / RUNS, below)
    with (folder / RUNS).open("a", encoding="utf-8") as file:
        file.write(f"{run.model_dump_json()}\n")


_ALL = "exams"
_MOST_KEPT = 20


class KeptRun(Value):
    """A stored run, as in the list of all."""

    number: int
    """Counted from 1; the previous run may be of another exam."""
    exam: str
    """The file or folder of its questions, as given."""
    at: Instant
    sequence: int
    questions: int
    right: int
    figures: Mapping[str, Estimate]
    gains: Mapping[str, Estimate] = {}


class ExamHistory(Value):
    """The stored runs, newest first, and one of them with its answers."""

    runs: tuple[KeptRun, ...] = ()
    shown: KeptRun | None = None
    answers: tuple[ExamAnswer, ...] = ()
    """Without answers with content that was erased since."""
    moved: tuple[ChangedAnswer, ...] = ()


def keep_in_space(engine: Engine, exam: str, report: ExamReport) -> None:
    """Store a run in a space, which stores the last 20 runs. A read-only space stores none.

    Raises `Unavailable` after a bounded wait for another process that stores a run.
    """
    jobs = engine.feedback
    if jobs is None:
        return
    owner = engine.clock.random_bytes(8).hex()
    with held(engine.leases, _ALL, owner, 10.0, wait_seconds=5.0) as lease:
        if lease is None:
            raise Unavailable("Another process is saving an exam run.", hint="Try again.")
        before = _listed(jobs)
        number = before[0].number + 1 if before else 1
        run = KeptRun(
            number=number,
            exam=exam,
            at=report.run.at,
            sequence=report.run.sequence,
            questions=len(report.run.answers),
            right=sum(one.is_right for one in report.run.answers),
            figures=report.figures,
            gains=report.gains,
        )
        data = report.model_dump(mode="json", include={"run", "moved"})
        # An erasure removes the rows of a list that name erased content (`retrieval.index.projection.Named`).
        jobs.save(_row(number), {"scope": None, "answers": data["run"]["answers"], "moved": data["moved"]})
        runs = [one.model_dump(mode="json") for one in (run, *before)]
        jobs.save(_ALL, {"scope": None, "runs": runs[:_MOST_KEPT]})


def _row(number: int) -> str:
    """Return the name of the row of a run; the row of the oldest run is reused."""
    return f"exam:{number % _MOST_KEPT}"


def _listed(jobs: JobLog) -> tuple[KeptRun, ...]:
    try:
        return tuple(map(KeptRun.model_validate, (jobs.find(_ALL) or {}).get("runs", ())))
    except ValidationError as error:
        raise Corrupt("The exam runs in this space cannot be read.", hint="Restore the space from a backup.") from error


class HistoryInput(Value):
    """The run to show."""

    run: int = Field(default=0, ge=0)
    """Its number; 0: the newest."""


def history(call: Call, given: HistoryInput, _options: Nothing) -> ExamHistory:
    """Return the stored runs, and one of them with its answers. Raises `NotFound` for an unknown run."""
    jobs = call.engine.feedback
    runs = _listed(jobs) if jobs else ()
    if jobs is None or not runs:
        return ExamHistory()
    shown = next((one for one in runs if given.run in (0, one.number)), None)
    if shown is None:
        raise NotFound(f"Run {given.run} does not exist.", hint=f"Stored runs: {runs[-1].number} to {runs[0].number}.")
    row = jobs.find(_row(shown.number)) or {}
    results = {name: row.get(name, ()) for name in ("answers", "moved")}
    try:
        return ExamHistory.model_validate({"runs": runs, "shown": shown, **results})
    except ValidationError as error:
        raise Corrupt(f"Run {shown.number} cannot be read.", hint="Restore the space from a backup.") from error


HISTORY = Operation(
    "exam history",
    "List the stored exam runs, or show the results of one.",
    HistoryInput,
    Nothing,
    ExamHistory,
    history,
    rights=READS,
)


def render(report: ExamReport, form: str) -> str:
    """Return the report as text, or as json, markdown or junit."""
    match form:
        case "text":
            return "\n".join(as_lines(report))
        case "json":
            return json.dumps(report.model_dump(mode="json"), indent=2, ensure_ascii=False)
        case "markdown":
            return as_markdown(report)
        case _:
            return as_junit(report)


def as_lines(report: ExamReport) -> Iterator[str]:
    """Yield the lines of the report for a terminal."""
    yield counted_things(len(report.run.answers), "question")
    for name, figure in report.figures.items():
        gain = _gain(report.gains.get(name))
        since = f"   since the last run {gain}" if gain else ""
        yield f"  {name:10} {figure!s:22} over {figure.questions}{since}"
    for answer in [one for one in report.run.answers if not one.is_right][:_SHOWN]:
        yield f"wrong: {answer.key}  {_short(answer.ask)}"
        yield from (f"    {line}" for line in why_wrong(answer))
    for moved in report.moved[:_SHOWN]:
        yield f"{'better' if moved.better else 'worse'}: {moved.key}  {_short(moved.ask)}"
        yield from (f"    {line}" for line in moved.wanted)
    yield from (f"below the required value: {line}" for line in report.missed)


def as_markdown(report: ExamReport) -> str:
    """Return the report for a pull request."""
    rows = [
        f"| {name} | {figure} | {figure.questions} | {_gain(report.gains.get(name))} |"
        for name, figure in report.figures.items()
    ]
    wrong = [
        f"- `{answer.key}` {_cell(_short(answer.ask))}: {_cell('; '.join(why_wrong(answer)))}"
        for answer in report.run.answers
        if not answer.is_right
    ]
    changed = [
        f"- {'better' if one.better else '**worse**'}: `{one.key}` {_cell(_short(one.ask))}: "
        f"{_cell('; '.join(one.wanted))}"
        for one in report.moved
    ]
    missed = [f"- below the required value: {line}" for line in report.missed]
    head = ["| metric | now | questions | since the last run |", "| --- | --- | --- | --- |"]
    return "\n".join(["## Exam", "", *missed, "", *head, *rows, "", *wrong[:_SHOWN], "", *changed[:_SHOWN]]).rstrip()


def as_junit(report: ExamReport) -> str:
    """Return the report for build servers: a case for each question, and one for each metric that is too low."""
    wrong = {answer.key: why_wrong(answer) for answer in report.run.answers if not answer.is_right}
    cases = [
        f'<testcase classname="exam" name={quoteattr(f"{answer.key} {_short(answer.ask)}")}>'
        + (f"<failure message={quoteattr('; '.join(wrong[answer.key]))}/>" if answer.key in wrong else "")
        + "</testcase>"
        for answer in report.run.answers
    ]
    cases += [
        f'<testcase classname="exam" name="figures"><failure>{escape(line)}</failure></testcase>'
        for line in report.missed
    ]
    failures = len(wrong) + len(report.missed)
    head = f'<testsuite name="exam" tests="{len(cases)}" failures="{failures}">'
    return "\n".join(['<?xml version="1.0" encoding="utf-8"?>', head, *cases, "</testsuite>"])


def why_wrong(answer: ExamAnswer) -> list[str]:
    """Return the problems of a wrong answer."""
    if answer.refuse != answer.refused:
        return [
            "answered, although the space contains no answer"
            if answer.refuse
            else "refused, although the space contains an answer"
        ]
    late = [one for one in answer.found if one.rank is None or one.rank > FIRST]
    return [
        *(f"{one.wanted}: {'not found' if one.rank is None else f'at {_place(one)}'}" for one in late),
        *(f"{one.wanted}: must not be found, but is at {_place(one)}" for one in answer.forbidden),
    ]


def _gain(gain: Estimate | None) -> str:
    return f"{gain.mean:+.1f} [{gain.low:+.1f}, {gain.high:+.1f}]" if gain else ""


def _short(text: str) -> str:
    return shortened(" ".join(text.split()), 100)


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("<", "&lt;")
