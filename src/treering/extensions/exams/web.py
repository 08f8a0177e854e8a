"""The web page of exams: the stored runs, and one with its metrics and questions."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from treering.extensions.exams.exam import ExamAnswer
from treering.extensions.exams.results import HISTORY, NAMES, ChangedAnswer, why_wrong
from treering.extensions.server.web.view import PageView, Rendered, WebPage

_SHOWN = 50


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """A question of a run, the problems of its answer, and the change since the previous run."""

    answer: ExamAnswer
    wrong: Sequence[str]
    moved: ChangedAnswer | None


def exams(view: PageView) -> Rendered:
    """Show the stored runs, and one with its metrics and questions."""
    history = view.perform(HISTORY, {"run": view.number("run", default=0, most=10**9)})
    chosen, first = view.text("show"), view.number("from", default=0, most=10**6)
    moved = {one.key: one for one in history.moved}
    answers = [ShownAnswer(one, [] if one.is_right else why_wrong(one), moved.get(one.key)) for one in history.answers]
    kinds = {
        "wrong": [one for one in answers if one.wrong],
        "changed": [one for one in answers if one.moved],
        "all": answers,
    }
    chosen = chosen if chosen in kinds else next(kind for kind in kinds if kinds[kind] or kind == "all")
    values: dict[str, Any] = {
        "exams": history,
        "names": NAMES,
        "kinds": {kind: len(those) for kind, those in kinds.items()},
        "chosen": chosen,
        "answers": kinds[chosen][first : first + _SHOWN],
        "further": first + _SHOWN if first + _SHOWN < len(kinds[chosen]) else 0,
        "command": ("treering", "exam", "run", *(("--exam", history.shown.exam) if history.shown else ())),
    }
    return Rendered("treering.extensions.exams:templates/exams.html", values)


PAGES = (WebPage("/exams", exams, "Exams"),)
