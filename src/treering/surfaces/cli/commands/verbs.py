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
            help="See below. Default: repo if git tracks the path, else path.",
            autocompletion=modes,
        ),
    ] = "",
) -> None:
    """Ingest repositories, folders, files and texts.

    Unchanged input changes nothing, so it is safe to repeat.
    """
    verbs.ingest(what, mode, access, calling, bringing, note, writing)


def query(
    reading: QueryFlags,
    calling: Calling,
    access: Access,
    words: Annotated[list[str] | None, Argument(metavar="TEXT", help="A task, search words, or ids.")] = None,
    mode: Annotated[
        str, Option("--mode", metavar="MODE", help="See below. Default: context.", autocompletion=modes)
    ] = "",
    proof: Annotated[
        Path | None, Option("--proof", metavar="FILE", help="Also write a proof of the context, for `treering verify`.")
    ] = None,
    sign: Annotated[
        Path | None, Option("--sign", metavar="KEY", help="Sign the proof with this private ssh key.")
    ] = None,
) -> None:
    """Query the space, for a task or in general.

    Text is a task to gather context for, unless --mode names another mode.
    """
    verbs.query(words or [], mode, access, calling, reading, proof=proof, key=sign)


def crystallize(
    saying: RecordFlags,
    recording: Recording,
    calling: Calling,
    writing: WriteFlags,
    access: Access,
    ids: Annotated[
        list[str] | None, Argument(metavar="ID", help="The objects to change, promote or supersede.")
    ] = None,
    mode: Annotated[
        str,
        Option(
            "--mode",
            metavar="MODE",
            help="See below. Default: the mode of --kind, else activity.",
            autocompletion=modes,
        ),
    ] = "",
) -> None:
    """Record work, decisions and knowledge.

    One call writes one patch, completely or not at all.
    """
    verbs.crystallize(ids or [], mode, access, calling, saying, recording, writing)


def lint(
    calling: Calling,
    writing: WriteFlags,
    access: Access,
    mode: Annotated[str, Argument(metavar="MODE", help="Default: structure and semantic.", autocompletion=modes)] = "",
    about: Annotated[str, Argument(metavar="ID", help="For audit: the object whose history to show.")] = "",
    rule: Annotated[list[str] | None, Option("--rule", metavar="NAME", help="Only this rule; repeatable.")] = None,
    limit: Annotated[int | None, Option("--limit", metavar="N", help="At most this many findings.")] = None,
    apply: Annotated[bool, Option("--apply", help="Apply the repairs, or rebuild the index.")] = False,
    wait: Annotated[bool, Option("--wait", help="For reindex: also embed everything that is pending.")] = False,
    strict: Annotated[bool, Option("--strict", help="Exit with 1 if there are errors.")] = False,
) -> None:
    """Find and repair drift.

    Checks for broken references, contradictions and stale knowledge; verifies the audit log and the indexes.
    """
    options = {"limit": limit, "apply": apply or None, "wait": wait or None}
    verbs.lint(mode, about, rule or [], access, calling, options, writing, strict=strict)


# Commands by which a person decides: review, revert, erase.


Patch = Annotated[str, Argument(metavar="PATCH", help="The id of a patch.")]
Reason = Annotated[str, Option("--reason", metavar="TEXT", help="The reason, for the audit log.")]


def add_reviews(app: Typer) -> None:
    """Add the commands to the command line."""
    add_group(
        app,
        "review",
        "Decide about patches waiting for review.",
        {"list": show_waiting, "show": show, "apply": apply, "reject": reject, "propose": propose},
    )
    add_group(
        app,
        "feedback",
        "Mark hits of an answer as right, wrong or used.",
        {"give": give_feedback, "status": feedback_status, "off": off, "on": on, "erase": erase_feedback},
    )
    add_commands(app, {"revert": revert, "erase": erase, "consolidate": consolidate})


def show_waiting(access: Access) -> None:
    """List the patches waiting for review, newest first."""
    verbs.show_waiting(access)


def show(patch: Patch, access: Access) -> None:
    """Show the changes of a waiting patch, field by field."""
    verbs.show(patch, access)


def apply(
    patches: Annotated[list[str], Argument(metavar="PATCH", help="The ids of patches.")],
    writing: WriteFlags,
    access: Access,
) -> None:
    """Apply waiting patches, each separately.

    You cannot approve your own proposal unless the policy file allows it.
    """
    verbs.apply(patches, access, writing)


def reject(patch: Patch, writing: WriteFlags, access: Access, reason: Reason = "") -> None:
    """Reject a waiting patch."""
    verbs.reject(patch, reason, access, writing)


def propose(
    writing: WriteFlags,
    access: Access,
    scope: Annotated[str, Option("--scope", metavar="PATH", help="Only sources of this scope and below.")] = "/",
    limit: Annotated[int, Option("--limit", metavar="N", min=1, max=1000, help="At most this many.")] = 100,
    closed: Annotated[
        bool, Option("--closed", help="Also propose tickets closed before they were tracked here, as activities.")
    ] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Only list the requests of sources, including pending ones.")
    ] = False,
) -> None:
    """Propose work items for tickets and TODO comments.

    Applying the patch creates the work items; closed tickets and removed comments
    close them in the same way. A rejected proposal is not made again.
    """
    verbs.propose(scope, {"limit": limit, "closed": closed, "dry_run": dry_run}, access, writing)


def revert(patch: Patch, writing: WriteFlags, access: Access, reason: Reason = "") -> None:
    """Revert a patch, or explain why that is not possible."""
    verbs.revert(patch, reason, access, writing)


def erase(
    ids: Annotated[list[str], Argument(metavar="ID", help="The objects to remove.")],
    writing: WriteFlags,
    access: Access,
    reason: Reason = "",
    yes: Annotated[bool, Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Erase objects permanently, everywhere, and prove it.

    This cannot be undone. The audit log retains the fact and hashes.
    """
    verbs.erase(ids, reason, access, writing, sure=yes)


def consolidate(
    writing: WriteFlags,
    access: Access,
    scope: Annotated[str, Option("--scope", metavar="PATH", help="Only this scope and the scopes below it.")] = "/",
    propose: Annotated[bool, Option("--propose", help="Submit each group for review.")] = False,
    apply: Annotated[bool, Option("--apply", help="Apply each group, with a patch that can be reverted.")] = False,
    limit: Annotated[int, Option("--limit", metavar="N", min=1, help="At most this many groups.")] = 100,
    keep_passages: Annotated[
        int | None,
        Option("--keep-passages", metavar="N", min=0, help="Archive the least used passages, down to this number."),
    ] = None,
    keep_mb: Annotated[
        float | None, Option("--keep-mb", metavar="MB", min=0, help="The same, down to this much text.")
    ] = None,
) -> None:
    """Merge duplicates and archive entries over a budget.

    Lists duplicates, runs of similar activities and decisions replaced long ago,
    with both sides. Nothing is deleted: entries are archived, and `treering
    revert` restores them. Entries that a person wrote or confirmed stay, and so
    does the evidence of current knowledge.
    """
    options = {"propose": propose, "apply": apply, "limit": limit, "keep_passages": keep_passages, "keep_mb": keep_mb}
    verbs.lint("consolidate", "", [], access, Calling(scope=scope), options, writing, strict=False)


# Feedback: what was right, wrong or used of an answer.


ScopeOfFeedback = Annotated[
    str, Option("--scope", metavar="PATH", help="The scope of the query; for off and erase, / means all scopes.")
]


def give_feedback(
    asked: Annotated[str, Argument(metavar="QUESTION", help="The question, or the field `answer` of a query.")],
    writing: WriteFlags,
    access: Access,
    scope: ScopeOfFeedback = "/",
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
    given = {"right": right or [], "wrong": wrong or [], "used": used or [], "neither": neither or []}
    verbs.give_feedback(asked, scope, given, access, writing)


def feedback_status(access: Access, scope: ScopeOfFeedback = "/") -> None:
    """Show the stored feedback and whether it counts."""
    verbs.feedback("status", scope, access, WriteFlags())


def off(writing: WriteFlags, access: Access, scope: ScopeOfFeedback = "/") -> None:
    """Ignore feedback. It stays stored."""
    verbs.feedback("off", scope, access, writing)


def on(writing: WriteFlags, access: Access, scope: ScopeOfFeedback = "/") -> None:
    """Use feedback again."""
    verbs.feedback("on", scope, access, writing)


def erase_feedback(writing: WriteFlags, access: Access, scope: ScopeOfFeedback = "/") -> None:
    """Erase all feedback of a scope, or of all scopes with --scope /."""
    verbs.feedback("erase", scope, access, writing)
