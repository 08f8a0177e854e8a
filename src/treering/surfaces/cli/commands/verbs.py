"""The four verbs as commands."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from typer import Argument, Exit, Option, Typer

from treering.core.errors import InvalidInput, NotFound
from treering.registry import load
from treering.surfaces.cli.failures import EXIT_CODES
from treering.surfaces.cli.flags import (
    Access,
    Calling,
    IngestFlags,
    Note,
    QueryFlags,
    RecordFlags,
    Recording,
    WriteFlags,
    modes,
    spread,
    used_flags,
)
from treering.surfaces.cli.help import VerbCommand, command_for
from treering.surfaces.cli.printing import tell
from treering.surfaces.cli.session import answer, embed_later, is_piped, opened, watched

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
    from treering.surfaces.cli.ingesting import STDIN, ingest_and_answer, ingest_input, mode_for
    from treering.surfaces.cli.request import envelope_of
    from treering.verbs import catalog

    if not (what or mode or calling.input):
        raise InvalidInput(
            "treering ingest needs a path, a mode or --input.", hint="Name a path, such as `treering ingest .`."
        )
    with opened(access, writing, create=catalog.find("ingest").find(mode).makes_space) as space:
        mode = mode or ("source" if what in ("", STDIN) else mode_for(what, space))
        given = ingest_input(what, mode, note)
        envelope = envelope_of("ingest", mode, calling, given=given, options=used_flags(bringing))
        failed = ingest_and_answer(space, envelope, access, writing)
    if failed:
        raise Exit(1)


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
    from treering.surfaces.cli.calls import call
    from treering.surfaces.cli.last_answer import note_answer
    from treering.surfaces.cli.rendering import render
    from treering.surfaces.cli.request import envelope_of, question_from
    from treering.surfaces.python.space import note_for_hooks
    from treering.verbs import catalog

    words = words or []
    given = question_from(words, mode)
    if len(words) > 1 and not mode and words[0] in catalog.TOOLS["query"].modes:
        tell(f"note: `{words[0]}` is a word of the question here; as a command: {command_for('query', words[0])}")
    if not given and not calling.input and mode not in ("recent", "brief", "search"):
        raise InvalidInput("treering query needs a question or --input.", hint='Write: treering query "…".')
    if access.verbose and "explain" in catalog.find("query").find(mode).options.model_fields:
        reading = replace(reading, explain=True)
    envelope = envelope_of("query", mode, calling, given=given, options=used_flags(reading))
    if (sign and not proof) or (proof and mode not in ("", "context")):
        raise InvalidInput(
            "--proof works only in the mode context, and --sign only with --proof.",
            hint="Give --proof FILE, without --mode.",
        )
    with opened(access) as space:
        if proof:
            report = load("treering.extensions.sharing.proof_file:prove")(space, envelope, proof, sign)
        else:
            report = call(space, "query", envelope)
        note_for_hooks(space.engine, report, envelope.input, in_shell=True)
        note_answer(space.address, report)
    # Search results are short, like those of grep, and agents with a terminal cannot leave a pager.
    lines = render(report, fenced=is_piped(), verbose=access.verbose)
    answer(access, report, lines, paged=report.mode != "search")
    if getattr(report, "missing", ()) and report.mode == "expand":
        raise Exit(EXIT_CODES[NotFound])


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
    from treering.surfaces.cli.calls import write
    from treering.surfaces.cli.request import check_kind, envelope_of, mode_of, naming_options, record_from

    ids = ids or []
    if not mode:
        check_kind(saying.kind)
    mode = mode or mode_of(ids, saying)
    given = record_from(ids, mode, saying)
    if not given and not calling.input:
        raise InvalidInput(
            "treering crystallize needs flags or --input with something to record.", hint="See the examples of --help."
        )
    envelope = envelope_of("crystallize", mode, calling, given=given, options=used_flags(recording))
    with opened(access, writing) as space:
        try:
            write(space, envelope, access, writing)
        except InvalidInput as error:
            raise naming_options(error) from error


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
    strict: Annotated[bool, Option("--strict", help="Exit with 1 if there are errors or stale statements.")] = False,
) -> None:
    """Find and repair drift.

    Checks for broken references, contradictions and stale knowledge; verifies the audit log and the indexes.
    """
    options = {"limit": limit, "apply": apply or None, "wait": wait or None}
    run_lint(mode, options, calling, writing, access, about=about, rules=rule or (), strict=strict)


def run_lint(
    mode: str,
    options: Mapping[str, Any],
    calling: Calling,
    writing: WriteFlags,
    access: Access,
    *,
    about: str = "",
    rules: Sequence[str] = (),
    strict: bool = False,
) -> None:
    """Call the modes of `lint` that apply and print their reports. `options`: those that are not None."""
    from treering.surfaces.cli.calls import call
    from treering.surfaces.cli.linting import has_errors, render_lint, rules_by_mode
    from treering.surfaces.cli.request import envelope_of
    from treering.verbs.catalog import TOOLS

    options = {name: value for name, value in options.items() if value is not None}
    target = {"id": about} if about else {}
    by_mode = rules_by_mode(mode, rules)
    used = [TOOLS["lint"].find(one) for one in by_mode]
    envelopes = [
        envelope_of("lint", one, calling, given={**target, **({"rules": named} if named else {})}, options=options)
        for one, named in by_mode.items()
    ]
    with opened(access, writing) as space:
        with watched(space) as busy:
            reports = [call(busy, "lint", envelope) for envelope in envelopes]
        answer(access, reports[0] if mode else reports, render_lint(space, reports, access))
        if any(one.rights.writes for one in used):
            embed_later(space, writing)
    if strict and any(map(has_errors, reports)):
        raise Exit(1)
