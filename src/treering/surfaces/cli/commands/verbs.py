"""The four verbs as commands."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from typer import Argument, Option, Typer

from treering.facades import LazyModule
from treering.surfaces.cli.flags import (
    Access,
    Calling,
    IngestFlags,
    Note,
    QueryFlags,
    RecordFlags,
    Recording,
    WriteFlags,
    add_commands,
    add_group,
    modes,
    spread,
)
from treering.surfaces.cli.help import VerbCommand

if TYPE_CHECKING:
    from treering.surfaces.cli import verbs
else:
    verbs = LazyModule("treering.surfaces.cli.verbs")


VERBS = ("ingest", "query", "crystallize", "lint")


def add_verbs(app: Typer) -> None:
    """Add the commands to the command line."""
    for command in (ingest, query, crystallize, lint):
        app.command(cls=VerbCommand)(spread(command))


def ingest(
    bringing: IngestFlags,
    note: Note,
    calling: Calling,
    writing: WriteFlags,
    access: Access,
    what: Annotated[
        str, Argument(metavar="PATH", help="A folder, a file, a repository; - for a text from stdin.")
    ] = "",
    mode: Annotated[
        str,
        Option(
            "--mode",
            metavar="MODE",
            help="See below. Default: repo where git knows the path, else path.",
            autocompletion=modes,
        ),
    ] = "",
) -> None:
    """Bring in repositories, folders, files and texts.

    Unchanged input changes nothing, so it is always safe to do it again.
    """
    verbs.ingest(what, mode, access, calling, bringing, note, writing)


def query(
    reading: QueryFlags,
    calling: Calling,
    access: Access,
    words: Annotated[list[str] | None, Argument(metavar="TEXT", help="The task, the words, or the ids.")] = None,
    mode: Annotated[
        str, Option("--mode", metavar="MODE", help="See below. Default: context.", autocompletion=modes)
    ] = "",
    proof: Annotated[
        Path | None, Option("--proof", metavar="FILE", help="Also write a proof of the context, for `treering verify`.")
    ] = None,
    sign: Annotated[
        Path | None, Option("--sign", metavar="KEY", help="Sign the proof with a private key of ssh.")
    ] = None,
) -> None:
    """Ask what is known, for a task or in general.

    Text is a task to gather context for, unless --mode says otherwise.
    """
    verbs.query(words or [], mode, access, calling, reading, proof=proof, key=sign)


def crystallize(
    saying: RecordFlags,
    recording: Recording,
    calling: Calling,
    writing: WriteFlags,
    access: Access,
    ids: Annotated[list[str] | None, Argument(metavar="ID", help="What to change, promote or supersede.")] = None,
    mode: Annotated[
        str,
        Option(
            "--mode",
            metavar="MODE",
            help="See below. Default: what --kind belongs to, else activity.",
            autocompletion=modes,
        ),
    ] = "",
) -> None:
    """Record what was done, decided and learned.

    Everything of one call is written as one patch, whole or not at all.
    """
    verbs.crystallize(ids or [], mode, access, calling, saying, recording, writing)


def lint(
    calling: Calling,
    writing: WriteFlags,
    access: Access,
    mode: Annotated[str, Argument(metavar="MODE", help="Default: structure and semantic.", autocompletion=modes)] = "",
    about: Annotated[str, Argument(metavar="ID", help="For audit: whose history.")] = "",
    rule: Annotated[list[str] | None, Option("--rule", metavar="NAME", help="Only this rule; may be repeated.")] = None,
    limit: Annotated[int | None, Option("--limit", metavar="N", help="At most so many findings.")] = None,
    apply: Annotated[bool, Option("--apply", help="Apply the repairs, or rebuild the index.")] = False,
    wait: Annotated[bool, Option("--wait", help="For reindex: also make all vectors that wait.")] = False,
    strict: Annotated[bool, Option("--strict", help="Exit with 1 where there are errors.")] = False,
) -> None:
    """Find drift, and repair it.

    Broken references, contradictions, stale beliefs; the audit log and the indexes verified.
    """
    options = {"limit": limit, "apply": apply or None, "wait": wait or None}
    verbs.lint(mode, about, rule or [], access, calling, options, writing, strict=strict)


# Commands by which a person decides: review, revert, erase.


Patch = Annotated[str, Argument(metavar="PATCH", help="The id of a patch.")]
Reason = Annotated[str, Option("--reason", metavar="TEXT", help="Why, for the audit log.")]


def add_reviews(app: Typer) -> None:
    """Add the commands to the command line."""
    add_group(
        app,
        "review",
        "Decide about patches that wait for review.",
        {"list": show_waiting, "show": show, "apply": apply, "reject": reject, "propose": propose},
    )
    add_group(
        app,
        "feedback",
        "Say which hits of an answer were right, wrong or used.",
        {"give": give_feedback, "status": feedback_status, "off": off, "on": on, "erase": erase_feedback},
    )
    add_commands(app, {"revert": revert, "erase": erase, "consolidate": consolidate})


def show_waiting(access: Access) -> None:
    """List the patches that wait, newest first."""
    verbs.show_waiting(access)


def show(patch: Patch, access: Access) -> None:
    """Show what a waiting patch would change, field by field."""
    verbs.show(patch, access)


def apply(
    patches: Annotated[list[str], Argument(metavar="PATCH", help="The ids of patches.")],
    writing: WriteFlags,
    access: Access,
) -> None:
    """Apply waiting patches, each by itself.

    Nobody approves their own proposal, unless the policy file says so.
    """
    verbs.apply(patches, access, writing)


def reject(patch: Patch, writing: WriteFlags, access: Access, reason: Reason = "") -> None:
    """Turn a waiting patch down."""
    verbs.reject(patch, reason, access, writing)


def propose(
    writing: WriteFlags,
    access: Access,
    scope: Annotated[str, Option("--scope", metavar="PATH", help="Only sources of this scope and below.")] = "/",
    limit: Annotated[int, Option("--limit", metavar="N", min=1, max=1000, help="At most so many.")] = 100,
    closed: Annotated[
        bool, Option("--closed", help="Also tickets that were closed before they were tracked here, as activities.")
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only tell what sources ask for, also what waits already.")
    ] = False,
) -> None:
    """Lay before the reviewers what sources ask for.

    Tickets and TODO comments become work items once somebody applies the patch; tickets that were closed, and
    comments that are gone, end them the same way. What somebody turned down is not proposed again.
    """
    verbs.propose(scope, {"limit": limit, "closed": closed, "dry_run": dry_run}, access, writing)


def revert(patch: Patch, writing: WriteFlags, access: Access, reason: Reason = "") -> None:
    """Take back what a patch did, or say why that cannot be."""
    verbs.revert(patch, reason, access, writing)


def erase(
    ids: Annotated[list[str], Argument(metavar="ID", help="The objects to remove.")],
    writing: WriteFlags,
    access: Access,
    reason: Reason = "",
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Remove objects for good, everywhere, and prove it.

    This cannot be taken back. The audit log keeps the fact, and hashes.
    """
    verbs.erase(ids, reason, access, writing, sure=yes)


def consolidate(
    writing: WriteFlags,
    access: Access,
    scope: Annotated[str, Option("--scope", metavar="PATH", help="Only what lies there and below.")] = "/",
    propose: Annotated[bool, Option("--propose", help="Lay each group before the reviewers.")] = False,
    apply: Annotated[bool, Option("--apply", help="Carry each group out, by a patch that can be reverted.")] = False,
    limit: Annotated[int, Option("--limit", metavar="N", min=1, help="At most so many groups.")] = 100,
    keep_passages: Annotated[
        int | None, Option("--keep-passages", metavar="N", min=0, help="Archive what is used least, down to so many.")
    ] = None,
    keep_mb: Annotated[
        float | None, Option("--keep-mb", metavar="MB", min=0, help="The same, down to so much text.")
    ] = None,
) -> None:
    """Say once what is said twice, and keep to a budget.

    Repetitions, runs of like activities and decisions that were replaced long
    ago are shown with both sides. Nothing is deleted: they are archived, and
    `treering revert` brings them back. What a person wrote or confirmed stays,
    and so does what something current rests on.
    """
    options = {"propose": propose, "apply": apply, "limit": limit, "keep_passages": keep_passages, "keep_mb": keep_mb}
    verbs.lint("consolidate", "", [], access, Calling(scope=scope), options, writing, strict=False)


# Feedback: what was right, wrong or used of an answer.


ScopeOfFeedback = Annotated[
    str, Option("--scope", metavar="PATH", help="The scope of the query; / stands for all of them at off and erase.")
]


def give_feedback(
    asked: Annotated[str, Argument(metavar="QUESTION", help="What was asked, or the field `answer` of a query.")],
    writing: WriteFlags,
    access: Access,
    scope: ScopeOfFeedback = "/",
    right: Annotated[list[str] | None, Option("--right", metavar="ID", help="A hit that answers; repeatable.")] = None,
    wrong: Annotated[list[str] | None, Option("--wrong", metavar="ID", help="A hit that does not.")] = None,
    used: Annotated[list[str] | None, Option("--used", metavar="ID", help="What was cited, opened or edited.")] = None,
    neither: Annotated[
        list[str] | None, Option("--neither", metavar="ID", help="Take back that it is right or wrong.")
    ] = None,
) -> None:
    """Say which hits of an answer were right, wrong or used.

    It counts a little, for questions that are much alike, in this scope only,
    and less with time; it changes no trust. --explain shows it.
    """
    given = {"right": right or [], "wrong": wrong or [], "used": used or [], "neither": neither or []}
    verbs.give_feedback(asked, scope, given, access, writing)


def feedback_status(access: Access, scope: ScopeOfFeedback = "/") -> None:
    """Tell what feedback is kept, and whether it counts."""
    verbs.feedback("status", scope, access, WriteFlags())


def off(writing: WriteFlags, access: Access, scope: ScopeOfFeedback = "/") -> None:
    """Let feedback count for nothing. It is kept."""
    verbs.feedback("off", scope, access, writing)


def on(writing: WriteFlags, access: Access, scope: ScopeOfFeedback = "/") -> None:
    """Let feedback count again."""
    verbs.feedback("on", scope, access, writing)


def erase_feedback(writing: WriteFlags, access: Access, scope: ScopeOfFeedback = "/") -> None:
    """Erase all feedback of a scope; at / that of all scopes."""
    verbs.feedback("erase", scope, access, writing)
