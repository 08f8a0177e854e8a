"""The four verbs as commands."""

from typing import Annotated

from typer import Argument, Option, Typer

from treering.edges.surfaces.cli.completion import modes
from treering.edges.surfaces.cli.flags import (
    Access,
    Calling,
    IngestFlags,
    Note,
    QueryFlags,
    RecordFlags,
    Recording,
    WriteFlags,
    spread,
)
from treering.edges.surfaces.cli.help import VerbCommand


def add_to(app: Typer) -> None:
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
    from treering.edges.surfaces.cli import verbs

    verbs.ingest(what, mode, access, calling, bringing, note, writing)


def query(
    reading: QueryFlags,
    calling: Calling,
    access: Access,
    words: Annotated[list[str] | None, Argument(metavar="TEXT", help="The task, the words, or the ids.")] = None,
    mode: Annotated[
        str, Option("--mode", metavar="MODE", help="See below. Default: context.", autocompletion=modes)
    ] = "",
) -> None:
    """Ask what is known, for a task or in general.

    Text is a task to gather context for, unless --mode says otherwise.
    """
    from treering.edges.surfaces.cli import verbs

    verbs.query(words or [], mode, access, calling, reading)


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
    from treering.edges.surfaces.cli import verbs

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
    from treering.edges.surfaces.cli import verbs

    options = {"limit": limit, "apply": apply or None, "wait": wait or None}
    verbs.lint(mode, about, rule or [], access, calling, options, writing, strict=strict)
