"""Health: problems with the command that repairs each, and the patches that wait for review."""

from collections.abc import Sequence
from dataclasses import dataclass

from treering.core.errors import InvalidInput, TreeringError
from treering.core.patch import PatchRecord
from treering.core.writing.draft import ObjectChange
from treering.extensions.server.web.overview import OBJECTS, ObjectList
from treering.extensions.server.web.view import PageView, Rendered
from treering.verbs.crystallize import review
from treering.verbs.envelope import Envelope
from treering.verbs.lint.lint import LintReport

_LISTED = 50
_REVIEWED = 20
_FINDINGS = 200
_WAITS = "Candidates"
_KINDS: Sequence[tuple[str, str, str, Sequence[str], Sequence[str]]] = (
    (
        "Stale",
        "Its evidence has changed or is gone.",
        "Open it to see which evidence changed. If the words still exist elsewhere, this finds them:",
        ("treering", "lint", "repair", "--apply"),
        ("stale",),
    ),
    (
        "Contested",
        "Another statement contradicts it, or someone disputes it.",
        "Decide which one is right, and replace the other:",
        ("treering", "crystallize", "OLD_ID", "--by", "NEW_ID"),
        ("contested",),
    ),
    (
        "Expired",
        "Its validity has expired.",
        "Archive it, or extend its validity:",
        ("treering", "crystallize", "ID", "--status", "archived"),
        (),
    ),
    (
        _WAITS,
        "It is not confirmed yet.",
        "Promote those with valid evidence:",
        ("treering", "crystallize", "--mode", "promote", "ID"),
        ("candidate",),
    ),
)
"""Kinds of problems: name, meaning, what to do, with which command, and statuses; without one, expired entries."""


@dataclass(frozen=True, slots=True)
class WaitingPatch:
    """A waiting patch with its current changes, or the reason why it cannot be applied."""

    record: PatchRecord
    changes: tuple[ObjectChange, ...]
    problem: str = ""


@dataclass(frozen=True, slots=True)
class HealthIssue:
    """One kind of problem."""

    name: str
    meaning: str
    mending: str
    command: Sequence[str]
    found: ObjectList
    is_wrong: bool
    """Whether it needs attention; candidates only wait."""


def health(view: PageView) -> Rendered:
    """Show stale, contested, expired and waiting entries; with `check`, the findings of all lint rules.

    Reviews concern the whole space, so callers limited to a scope see none.
    """
    waiting = view.perform(review.LIST, {}, limit=_REVIEWED).root if view.is_whole_space else ()
    return Rendered(
        "health.html",
        {
            "overview": view.overview(),
            "complaints": [_issue(view, *kind) for kind in _KINDS],
            "waiting": [_waiting(view, record) for record in waiting],
            "may_decide": view.space.grants(review.APPLY),
            "lint": _lint(view) if view.text("check") else None,
            "done": view.text("done"),
            "command": ("treering", "lint", "semantic"),
        },
    )


def _issue(
    view: PageView, name: str, meaning: str, mending: str, command: Sequence[str], statuses: Sequence[str]
) -> HealthIssue:
    selection = {"type": "knowledge", "statuses": statuses}
    listed = view.perform(OBJECTS, selection, descend=True, limit=_LISTED, expired=not statuses)
    return HealthIssue(name, meaning, mending, command, listed, is_wrong=name != _WAITS)


def _waiting(view: PageView, record: PatchRecord) -> WaitingPatch:
    try:
        return WaitingPatch(record, view.perform(review.SHOW, {"patch_id": record.id}).root)
    except TreeringError as error:
        return WaitingPatch(record, (), f"{error.message} {error.hint}")


def _lint(view: PageView) -> LintReport:
    report = view.space.call("lint", Envelope(scope=view.scope, options={"limit": _FINDINGS}))
    if not isinstance(report, LintReport):
        raise TypeError(f"lint gave {type(report).__name__}")
    return report


def decide(view: PageView) -> Rendered:
    """Apply or reject a waiting patch, as the form requests. Raises `InvalidInput` for another decision."""
    given = {"patch_id": view.text("patch_id")}
    match view.text("decision"):
        case "approve":
            view.perform(review.APPLY, given)
            outcome = "approved"
        case "reject":
            view.perform(review.REJECT, given, reason=view.text("reason"))
            outcome = "rejected"
        case other:
            raise InvalidInput(f"{other[:40]!r} is not a decision.", hint="Choose approve or reject.")
    return Rendered("", redirect=view.link("health", done=outcome))
