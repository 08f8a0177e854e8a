"""What the commands of the four verbs and of reviews do: a call, an answer, an exit code."""

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from treering.core.characters import label
from treering.core.counting import counted_things
from treering.core.errors import InvalidInput, NotFound, Unavailable
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
    asked,
)
from treering.surfaces.cli.help import command_for
from treering.surfaces.cli.last_answer import note_answer, note_places
from treering.surfaces.cli.printing import EXIT_CODES, IndentedLine, line, tell
from treering.surfaces.cli.rendering import render, render_warnings
from treering.surfaces.cli.request import (
    check_kind,
    envelope_of,
    mode_of,
    moment,
    naming_options,
    question_from,
    read_stdin,
    record_from,
)
from treering.surfaces.cli.session import (
    answer,
    confirm_destroying,
    embed_later,
    is_piped,
    may_work_later,
    opened,
    rights_of_verbs,
    watched,
)
from treering.surfaces.python.space import note_for_hooks
from treering.system.machine import write_new
from treering.system.settings import Settings
from treering.verbs import catalog
from treering.verbs.envelope import Envelope, Report, Verb
from treering.verbs.everyday import mode_of_path
from treering.verbs.naming import id_given, patch_named

if TYPE_CHECKING:
    from treering.spaces import proof as proving
    from treering.surfaces import ingest_words
    from treering.surfaces.cli import receipts, rendering_changes
    from treering.surfaces.python.space import Space
    from treering.verbs import feedback as giving
    from treering.verbs.crystallize import review, work_proposals
    from treering.verbs.ingest import report as ingest_report
    from treering.verbs.lint import audit, erasure
    from treering.verbs.lint import lint as lint_verb
    from treering.verbs.query import browsing, space_status
else:
    # A command needs its own verb, and not the others.
    proving = LazyModule("treering.spaces.proof")
    receipts = LazyModule("treering.surfaces.cli.receipts")
    rendering_changes = LazyModule("treering.surfaces.cli.rendering_changes")
    ingest_words = LazyModule("treering.surfaces.ingest_words")
    giving = LazyModule("treering.verbs.feedback")
    review = LazyModule("treering.verbs.crystallize.review")
    work_proposals = LazyModule("treering.verbs.crystallize.work_proposals")
    ingest_report = LazyModule("treering.verbs.ingest.report")
    audit = LazyModule("treering.verbs.lint.audit")
    erasure = LazyModule("treering.verbs.lint.erasure")
    lint_verb = LazyModule("treering.verbs.lint.lint")
    browsing = LazyModule("treering.verbs.query.browsing")
    space_status = LazyModule("treering.verbs.query.space_status")

_FAILED = 1
_STDIN = "-"
_STDIN_MODE = "source"
_ADDRESSES = ("http://", "https://")
_LINTED = ("structure", "semantic")
_LONGEST_LIST = 1_000_000


def ingest(
    what: str, mode: str, access: Access, calling: Calling, bringing: IngestFlags, note: Note, writing: WriteFlags
) -> None:
    """Bring in a path, a note from stdin, or what `--input` holds. Exits with 1 where an item failed."""
    if not (what or mode or calling.input):
        raise InvalidInput(
            "treering ingest needs a path, a mode or --input.", hint="Name a path, such as `treering ingest .`."
        )
    with opened(access, writing, create=catalog.find("ingest").find(mode).makes_space) as space:
        chosen = mode or (_STDIN_MODE if what == _STDIN or not what else mode_for(what, space))
        envelope = envelope_of("ingest", chosen, calling, given=_brought(what, chosen, note), options=asked(bringing))
        begun = time.monotonic()
        with watched(space) as busy:
            report = _called(busy, "ingest", envelope)
        _answer_ingest(space, report, time.monotonic() - begun, access, writing)
    if isinstance(report, ingest_report.IngestReport) and report.counts.get("failed"):
        raise typer.Exit(_FAILED)


def ingest_items(
    items: Sequence[Mapping[str, Any]], access: Access, calling: Calling, bringing: IngestFlags, writing: WriteFlags
) -> None:
    """Bring in texts given as data."""
    envelope = envelope_of("ingest", _STDIN_MODE, calling, given={"items": [*items]}, options=asked(bringing))
    with opened(access, writing, create=True) as space:
        begun = time.monotonic()
        report = _called(space, "ingest", envelope)
        _answer_ingest(space, report, time.monotonic() - begun, access, writing)


def _answer_ingest(space: "Space", report: Report, seconds: float, access: Access, writing: WriteFlags) -> None:
    if not isinstance(report, ingest_report.IngestReport):
        answer(access, report, render(report, ledger=space.engine.ledger))
        return
    lines = rendering_changes.render_ingest(
        report,
        space.engine.ledger,
        seconds=seconds,
        embeddings=_when_embedded(space, report.pending_vectors, writing),
        verbose=access.verbose,
    )
    answer(access, report, lines)
    if not report.dry_run:
        embed_later(space, writing)


def _when_embedded(space: "Space", pending: int, writing: WriteFlags) -> str:
    if not may_work_later(writing):
        return f"embed {counted_things(pending, 'passage')} with: treering vectors"
    minutes = space_status.minutes_left(space.engine, pending)
    if minutes is None:
        return "embeddings are being made in the background."
    return f"embeddings will be ready in about {ingest_words.duration(max(60 * minutes, 1))}."


def query(
    words: Sequence[str],
    mode: str,
    access: Access,
    calling: Calling,
    reading: QueryFlags,
    *,
    proof: Path | None,
    key: Path | None,
) -> None:
    """Ask, and print what is known; write its proof to a new file, where one is asked for."""
    given = question_from(words, mode)
    if len(words) > 1 and not mode and words[0] in catalog.TOOLS["query"].modes:
        tell(f"note: `{words[0]}` is a word of the question here; as a command: {command_for('query', words[0])}")
    if not given and not calling.input and mode not in ("recent", "brief"):
        raise InvalidInput("treering query needs a question or --input.", hint='Write: treering query "…".')
    if access.verbose and "explain" in catalog.find("query").find(mode).options.model_fields:
        reading = replace(reading, explain=True)
    options = {**asked(reading), **({"as_of": moment(reading.as_of)} if reading.as_of else {})}
    envelope = envelope_of("query", mode, calling, given=given, options=options)
    if (key and not proof) or (proof and mode not in ("", "context")):
        raise InvalidInput(
            "--proof works only in the mode context, and --sign only with --proof.",
            hint="Give --proof FILE, without --mode.",
        )
    with opened(access) as space:
        report = _proven(space, envelope, proof, key) if proof else _called(space, "query", envelope)
        note_for_hooks(space.engine, report, envelope.input, in_shell=True)
        note_answer(space.address, report)
    # Hits are read at a glance, as those of grep; agents with a terminal of their own cannot leave a pager.
    lines = render(report, fenced=is_piped(), verbose=access.verbose)
    answer(access, report, lines, paged=report.mode != "search")
    if report.mode == "expand" and isinstance(report, browsing.ExpandReport) and report.missing:
        raise typer.Exit(EXIT_CODES[NotFound])


def _proven(space: "Space", envelope: Envelope, file: Path, key: Path | None) -> Report:
    given = envelope.input if not isinstance(envelope.input, str) else {"task": envelope.input}
    found = space.perform(proving.PROVE, envelope.scope, given, envelope.options)
    try:
        write_new(file, (proving.signed(found.proof, key) if key else found.proof).encode())
    except FileExistsError:
        raise InvalidInput(f"{file} already exists.", hint="Give the name of a new file.") from None
    except OSError as error:
        raise Unavailable(f"{file} cannot be written: {error.strerror}.", hint="Give another file name.") from error
    return found.context


def crystallize(
    ids: Sequence[str],
    mode: str,
    access: Access,
    calling: Calling,
    saying: RecordFlags,
    recording: Recording,
    writing: WriteFlags,
) -> None:
    """Record something."""
    if not mode:
        check_kind(saying.kind)
    chosen = mode or mode_of(ids, saying)
    given = record_from(ids, chosen, saying)
    if not given and not calling.input:
        raise InvalidInput(
            "treering crystallize needs flags or --input with something to record.", hint="See the examples of --help."
        )
    envelope = envelope_of("crystallize", chosen, calling, given=given, options=asked(recording))
    with opened(access, writing) as space:
        try:
            report = _called(space, "crystallize", envelope)
        except InvalidInput as error:
            raise naming_options(error) from error
        _answer(space, report, access)
        embed_later(space, writing)


def answer_with_receipt(space: "Space", verb: Verb, envelope: Envelope, access: Access) -> None:
    """Make a call, and print what it did."""
    _answer(space, _called(space, verb, envelope), access)


def _answer(space: "Space", report: Report, access: Access) -> None:
    lines = render(report, fenced=is_piped(), verbose=access.verbose, ledger=space.engine.ledger)
    answer(access, report, lines)


def lint(
    mode: str,
    about: str,
    rules: Sequence[str],
    access: Access,
    calling: Calling,
    options: Mapping[str, Any],
    writing: WriteFlags,
    *,
    strict: bool,
) -> None:
    """Look for drift; without a mode for broken form and drifted meaning. Exits with 1 only where asked to."""
    wanted = {name: value for name, value in options.items() if value is not None}
    envelopes = [
        envelope_of("lint", one, calling, given={**({"id": about} if about else {}), **named}, options=wanted)
        for one, named in _modes_of_lint(mode, rules)
    ]
    with opened(access, writing) as space:
        with watched(space) as busy:
            reports = [_called(busy, "lint", envelope) for envelope in envelopes]
        answer(access, reports[0] if mode else reports, _lines_of_lint(space, reports, access))
        embed_later(space, writing)
    if strict and any(map(_has_errors, reports)):
        raise typer.Exit(_FAILED)


def _lines_of_lint(space: "Space", reports: Sequence[Report], access: Access) -> Iterator[IndentedLine]:
    found = [one for one in reports if isinstance(one, lint_verb.LintReport)]
    if found:
        findings = rendering_changes.findings_in_order(found)
        note_places(space.address, [next(iter(one.ids), "") for one in findings])
        yield from rendering_changes.render_findings(found, verbose=access.verbose)
        yield from render_warnings([warning for one in found for warning in one.warnings])
    for report in reports:
        if report not in found:
            yield from render(report, fenced=is_piped(), verbose=access.verbose, ledger=space.engine.ledger)


def _modes_of_lint(mode: str, rules: Sequence[str]) -> list[tuple[str, dict[str, list[str]]]]:
    """Return the modes that are run, each with its rules: without a mode, those that the rules named belong to."""
    if mode or not rules:
        return [(one, {"rules": [*rules]} if rules else {}) for one in ([mode] if mode else _LINTED)]
    by_mode = {one: [rule for rule in rules if lint_verb.rule_mode(rule) == one] for one in _LINTED}
    return [(one, {"rules": named}) for one, named in by_mode.items() if named]


def _called(space: "Space", verb: Verb, envelope: Envelope) -> Report:
    return catalog.call(space.engine, verb, envelope, granted=rights_of_verbs())


def mode_for(path: str, space: "Space") -> str:
    """Choose the mode for what is to be read: an address, a repository where git knows it, else files.

    `board:hive` is for the adapter `board`, where a package with it is installed and no file is called that.
    """
    if path.lower().startswith(_ADDRESSES):
        return "url"
    name, colon, _ = path.partition(":")
    if colon and name in space.engine.adapters and not Path(path).exists():
        return "adapter"
    return mode_of_path(space.engine, path)


def _brought(what: str, mode: str, note: Note) -> dict[str, Any]:
    if what and mode == "url":
        return _addresses(what)
    if what == _STDIN:
        named = {"title": note.title, "origin": note.origin}
        return {"items": [{"kind": "note", "text": read_stdin(), **{k: v for k, v in named.items() if v}}]}
    if not what:
        return {}
    match mode:
        case "status":
            return {"job": what}
        case "adapter":
            return {"target": what}
        case "source":
            raise InvalidInput(
                "The mode source takes texts, not a path.", hint="Use - to read stdin, or --input with items."
            )
        case _:
            return {"path": what}


def _addresses(what: str) -> dict[str, Any]:
    """Read the addresses of a file or of stdin, one per line; what is neither is an address itself."""
    if what == _STDIN:
        return {"addresses": read_stdin()}
    if what.lower().startswith(_ADDRESSES) or not Path(what).is_file():
        return {"url": what}
    with Path(what).open("rb") as file:
        data = file.read(_LONGEST_LIST + 1)
    if len(data) > _LONGEST_LIST:
        raise InvalidInput(f"The list {what} is over {_LONGEST_LIST:,} bytes.", hint="Split it into several files.")
    return {"addresses": data.decode("utf-8", "replace")}


def _has_errors(report: Report) -> bool:
    match report:
        case lint_verb.LintReport(findings=findings):
            return any(finding.severity == "error" for finding in findings)
        case lint_verb.RepairReport(repairs=repairs):
            return any(repair.outcome == "failed" for repair in repairs)
        case lint_verb.ReindexReport(differences=differences, rebuilt=rebuilt):
            return bool(differences) and not rebuilt
        case audit.AuditReport(verified=verified, differences=differences):
            return not verified or bool(differences)
        case _:
            return False


# Reviews: what the commands do by which a person decides.


def show_waiting(access: Access) -> None:
    """List the patches that wait."""
    with opened(access) as space:
        found = space.proposals()
        note_places(space.address, [one.id for one in found])
        answer(access, found, rendering_changes.render_proposals(found, space.engine.ledger, verbose=access.verbose))


def show(patch: str, access: Access) -> None:
    """Show a patch as a diff."""
    with opened(access) as space:
        given = patch_named(space.engine, patch)
        diff = space.proposal_diff(given)
    answer(access, diff, [line((given, "bold")), *rendering_changes.render_diff(diff, fenced=is_piped())])


def apply(patches: Sequence[str], access: Access, writing: WriteFlags) -> None:
    """Apply patches, each by itself: those before one that fails stay applied."""
    with opened(access, writing) as space:
        for patch in patches:
            receipt = space.approve(patch_named(space.engine, patch))
            actor = Settings.read().actor
            shown = receipts.render_receipt(space.engine.ledger, receipt, actor=actor, verbose=access.verbose)
            answer(access, receipt, shown)
        embed_later(space, writing)


def propose(scope: str, options: Mapping[str, Any], access: Access, writing: WriteFlags) -> None:
    """Propose the work that sources ask for."""
    with opened(access, writing) as space:
        found = space.perform(work_proposals.PROPOSE, scope=scope, options=options)
    answer(access, found, rendering_changes.render_work_proposals(found, dry_run=bool(options["dry_run"])))


def reject(patch: str, reason: str, access: Access, writing: WriteFlags) -> None:
    """Turn a patch down."""
    with opened(access, writing) as space:
        given = patch_named(space.engine, patch)
        what = receipts.titles_of_patch(space.engine.ledger, space.engine.ledger.patch(given))
        record = space.reject(given, reason)
    answer(access, record, [line(("Rejected: ", "bold"), what)])


def revert(patch: str, reason: str, access: Access, writing: WriteFlags) -> None:
    """Take a patch back."""
    with opened(access, writing) as space:
        revert_in(space, patch_named(space.engine, patch), reason, access, writing)


def revert_in(space: "Space", patch: str, reason: str, access: Access, writing: WriteFlags) -> None:
    """Take a patch of an open space back."""
    receipt = space.revert(patch, reason)
    lines = receipts.render_reverted(space.engine.ledger, receipt, patch, verbose=access.verbose)
    answer(access, receipt, lines)
    embed_later(space, writing)


def erase(ids: Sequence[str], reason: str, access: Access, writing: WriteFlags, *, sure: bool) -> None:
    """Erase objects, after asking. Exits with 1 where a probe still finds something."""
    with opened(access, writing) as space:
        named = [id_given(space.engine, one) for one in ids]
        titles = [f"{label(head.title)} ({head.id})" for head in space.engine.ledger.heads(named).values()] or ids
        confirm_destroying(erasure.ERASE, titles[0] if len(ids) == 1 else f"{len(ids)} objects", sure=sure)
        receipt = space.erase(named, reason)
    answer(access, receipt, rendering_changes.render_erasure(receipt))
    if not receipt.clean:
        raise typer.Exit(1)


# Feedback on answers.


def give_feedback(
    asked: str, scope: str, told: Mapping[str, Sequence[str]], access: Access, writing: WriteFlags
) -> None:
    """Note which hits of an answer were right, wrong or used."""
    envelope = Envelope(mode="feedback", scope=scope, input={"question": asked, **told})
    with opened(access, writing) as space:
        report = _called(space, "crystallize", envelope)
    answer(access, report, render(report))


def feedback(what: str, scope: str, access: Access, writing: WriteFlags) -> None:
    """Tell what feedback is kept, after it was switched or erased where that was asked for."""
    with opened(access, writing) as space:
        told = space.perform(giving.ON_SCOPES[what], scope=scope)
    answer(access, told, rendering_changes.render_feedback(told))
