"""Commands for feedback: which hits of an answer were right, wrong or used."""

from typing import Annotated

from typer import Argument, Option, Typer

from treering.surfaces.cli.flags import Access, WriteFlags, add_group
from treering.surfaces.cli.session import answer, opened

Scope = Annotated[
    str, Option("--scope", metavar="PATH", help="The scope of the query; for off and erase, / means all scopes.")
]


def add_feedback(app: Typer) -> None:
    """Add the commands to the command line."""
    add_group(app, "feedback", "Mark hits of an answer as right, wrong or used.", give, status, off, on, erase)


def give(
    question: Annotated[str, Argument(metavar="QUESTION", help="The question, or the field `answer` of a query.")],
    writing: WriteFlags,
    access: Access,
    scope: Scope = "/",
    right: Annotated[
        list[str] | None, Option("--right", metavar="ID", help="A hit that answers the question; repeatable.")
    ] = None,
    wrong: Annotated[list[str] | None, Option("--wrong", metavar="ID", help="A hit that does not; repeatable.")] = None,
    used: Annotated[
        list[str] | None, Option("--used", metavar="ID", help="A hit that was cited, opened or edited; repeatable.")
    ] = None,
    neither: Annotated[
        list[str] | None, Option("--neither", metavar="ID", help="Remove the mark right or wrong; repeatable.")
    ] = None,
) -> None:
    """Mark hits of an answer as right, wrong or used.

    Marks slightly affect the rank in answers to similar questions in this scope,
    less with time, and never change trust. --explain shows the effect.
    """
    from treering.surfaces.cli.calls import call
    from treering.surfaces.cli.rendering import render
    from treering.verbs.envelope import Envelope

    marks = {"right": right or [], "wrong": wrong or [], "used": used or [], "neither": neither or []}
    envelope = Envelope(mode="feedback", scope=scope, input={"question": question, **marks})
    with opened(access, writing) as space:
        report = call(space, "crystallize", envelope)
    answer(access, report, render(report))


def status(access: Access, scope: Scope = "/") -> None:
    """Show the stored feedback and whether it counts."""
    _change("status", scope, access, WriteFlags())


def off(writing: WriteFlags, access: Access, scope: Scope = "/") -> None:
    """Ignore feedback. It stays stored."""
    _change("off", scope, access, writing)


def on(writing: WriteFlags, access: Access, scope: Scope = "/") -> None:
    """Use feedback again."""
    _change("on", scope, access, writing)


def erase(writing: WriteFlags, access: Access, scope: Scope = "/") -> None:
    """Erase all feedback of a scope, or of all scopes with --scope /."""
    _change("erase", scope, access, writing)


def _change(what: str, scope: str, access: Access, writing: WriteFlags) -> None:
    from treering.surfaces.cli.rendering_changes import render_feedback
    from treering.verbs.feedback import ON_SCOPES

    with opened(access, writing) as space:
        report = space.perform(ON_SCOPES[what], scope=scope)
    answer(access, report, render_feedback(report))
