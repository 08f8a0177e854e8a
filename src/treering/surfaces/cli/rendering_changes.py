"""Reports of `ingest`, `crystallize`, `lint` and reviews as lines for people."""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile, zip_longest
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from treering.core.canonical import PREFIXES, canonical_json
from treering.core.characters import label, one_line
from treering.core.counting import counted_things, listed_up_to
from treering.core.evidence import places_as_typed
from treering.core.fencing import fence
from treering.core.filters import Compare
from treering.core.objects import Knowledge, title_of
from treering.core.patch import PatchRecord
from treering.core.scope import ROOT
from treering.core.writing.draft import ObjectChange
from treering.ports.ledger import Ledger, Selection
from treering.surfaces.cli import receipts
from treering.surfaces.cli.printing import IndentedLine, line, local_time
from treering.surfaces.cli.receipts import render_drift
from treering.surfaces.ingest_words import ingest_in_words, searchable_now
from treering.system.settings import Settings
from treering.verbs.crystallize.submission import WriteReport
from treering.verbs.envelope import Report
from treering.verbs.ingest.report import OUTCOMES, IngestReport, ItemResult, JobReport, Outcome, is_routine
from treering.verbs.query.unconfirmed import by_author, is_unconfirmed
from treering.verbs.short_ids import short_id

if TYPE_CHECKING:
    # Not imported at run time: an ingest needs none of these verbs.
    from treering.verbs.feedback import FeedbackReport, FeedbackStatus
    from treering.verbs.lint.audit import AuditReport
    from treering.verbs.lint.erasure import ErasureReceipt
    from treering.verbs.lint.lint import LintReport, ReindexReport, RepairReport
    from treering.verbs.lint.survey import Finding, Severity

_STYLES: Mapping[str, str] = {"failed": "red", "skipped": "yellow", "removed": "magenta", "warning": "yellow"}
WATCHED_OUTCOMES: frozenset[Outcome] = frozenset({"failed", "skipped", "proposed", "removed", "moved"})
"""Outcomes whose items the watcher shows."""
_INTERNAL_FIELDS = {"id", "type", "title", "fingerprint", "content_type", "captured_at", "last_verified_at"}
"""Fields that are not useful to a reviewer who sees title and id."""
_MAX_PER_OUTCOME = 10
_SHOWN: tuple[Outcome, ...] = ("failed", "skipped", "proposed")
"""Outcomes whose items are shown without -v."""
_COUNTED: tuple[Outcome, ...] = ("created", "updated", "unchanged")
"""Outcomes whose items are never shown, only counted."""
_OF_ORIGIN = re.compile(r"(?P<origin>[a-z]+:\S[^\n]*?): (?P<message>.+)", re.DOTALL)
_MAX_NAMES = 3
_MAX_REASONS = 8
_NAME_CHARS = 400
_PROMOTE = "`treering crystallize --mode promote ID`"
_SEVERITIES: "Mapping[Severity, str]" = {"error": "bold red", "warning": "bold yellow", "info": "bold cyan"}
"""The style of each severity, the worst first."""
_VALUE_CHARS = 120
_MAX_IDS_OF_FINDING = 4
_MAX_ERASED_IDS = 4
_MAX_OUT_OF_REACH = 30
_MAX_REPEATING = 10
_SENTENCE_CHARS = 600
_DOUBTFUL = frozenset({"stale", "partly-changed", "expired"})
"""Rules about statements with outdated evidence or time."""


def render_change(
    report: Report, *, fenced: bool = False, verbose: bool = False, ledger: Ledger | None = None
) -> Iterator[IndentedLine]:
    """Show the report of a verb that changes or checks a space. `fenced`: mark recalled text as data."""
    match report:
        case IngestReport():
            yield from render_ingest(report, ledger, verbose=verbose)
        case JobReport():
            yield from render_job(report, ledger)
        case WriteReport():
            yield from render_write(report, ledger, actor=Settings.read().actor, fenced=fenced, verbose=verbose)
        case _:
            yield from _render_check(report, verbose=verbose)


def _render_check(report: Report, *, verbose: bool) -> Iterator[IndentedLine]:
    from treering.verbs.feedback import FeedbackReport
    from treering.verbs.lint.audit import AuditReport
    from treering.verbs.lint.lint import LintReport, ReindexReport, RepairReport

    match report:
        case RepairReport():
            yield from render_repairs(report)
        case LintReport():
            yield from render_findings([report], verbose=verbose)
        case ReindexReport():
            yield from render_reindex(report)
        case AuditReport():
            yield from render_audit(report)
        case FeedbackReport():
            yield from _given_feedback(report)
        case _:
            lines = tuple(report.text_lines())
            yield from (line(one.lstrip(), indent=len(one) - len(one.lstrip())) for one in lines)
            if not lines:
                yield line(report.model_dump_json(indent=2))


def render_ingest(
    report: IngestReport,
    ledger: Ledger | None = None,
    *,
    seconds: float | None = None,
    embeddings: str = "",
    verbose: bool = False,
) -> Iterator[IndentedLine]:
    """Show a summary of the ingest, items that need attention, and knowledge that became stale.

    `seconds`: the duration. `embeddings`: a note on when pending embeddings will be ready.
    """
    yield line(ingest_in_words(report, seconds))
    shown = OUTCOMES if verbose else _SHOWN
    for outcome in shown:
        items = [
            (one.origin, one.why or f"from {one.moved_from}" * bool(one.moved_from))
            for one in report.items
            if one.outcome == outcome and outcome not in _COUNTED
        ]
        yield from _grouped(outcome, items)
    # Routine warnings come last, and then the number of warnings that are left out, which are routine too.
    warnings = report.warnings if verbose else [*takewhile(lambda one: not is_routine(one), report.warnings)]
    yield from _grouped("warning", [_origin_of(one) for one in warnings])
    yield from render_drift(ledger, report.staled, report.contested)
    if report.dry_run:
        yield line("Nothing was written: this was a dry run.")
    elif report.pending_vectors:
        yield line(f"Searchable now; {embeddings}" if embeddings else searchable_now(report.pending_vectors))


def _origin_of(warning: str) -> tuple[str, str]:
    match = _OF_ORIGIN.fullmatch(warning)
    return (match["origin"], match["message"]) if match else ("", warning)


def _grouped(what: str, items: Sequence[tuple[str, str]]) -> Iterator[IndentedLine]:
    """Show items by reason: each reason once, with its first files."""
    by_reason: dict[str, list[str]] = {}
    for origin, reason in items:
        root, _, part = origin.partition("#")
        file = PurePosixPath(root)
        # The part of a file, such as a line of an export, is named with it; a file of a folder without the folder.
        inside = f"{file.name}#{part}" if file.suffix and not root.startswith("repo:") else part
        name = inside if part else "" if root.startswith("repo:") else root
        by_reason.setdefault(reason, []).append(one_line(name, most=_NAME_CHARS))
    for reason, names in list(by_reason.items())[:_MAX_REASONS]:
        more = f" and {len(names) - _MAX_NAMES} more" if len(names) > _MAX_NAMES else ""
        shown = ", ".join(filter(None, names[:_MAX_NAMES])) + more
        why = one_line(reason, most=_SENTENCE_CHARS)
        yield line((f"{what}: ", _STYLES.get(what, "")), ": ".join(filter(None, (shown, why))))
    if len(by_reason) > _MAX_REASONS:
        yield line(f"{what}: {len(by_reason) - _MAX_REASONS} more. See: treering ingest --mode status")


def render_job(report: JobReport, ledger: Ledger | None = None) -> Iterator[IndentedLine]:
    """Show the state of a job, with all its items."""
    if not report.job:
        yield line("Nothing has been ingested here yet.")
    else:
        total = "" if report.total is None else f" of {report.total}"
        yield line((f"{report.target}: {report.state}", "bold"), f"  {report.done}{total} items  ({report.job})")
        for error in report.errors:
            yield line((f"{error.message} {error.hint}".strip(), "red"))
        yield line(counted(report.counts))
        yield from render_items(report.items, most=len(report.items))
        yield from render_drift(ledger, report.staled, ())
    if report.items_left_out:
        yield line(f"{report.items_left_out} more; --option max_items=… or offset=… shows them")
    made = report.total_vectors - report.pending_vectors
    yield line(f"Embedded: {made} of {report.total_vectors} texts.")


def render_write(
    report: WriteReport, ledger: Ledger | None, *, actor: str, fenced: bool, verbose: bool = False
) -> Iterator[IndentedLine]:
    """Show the result of a write: written, waiting for review, or only proposed changes."""
    if report.diff:
        yield line(("Would change:", "bold"))
        yield from render_diff(report.diff, fenced=fenced)
    elif not report.patch_id:
        yield line("Nothing changed.")
    if ledger:
        yield from receipts.render_write(ledger, report, actor=actor, verbose=verbose)


def render_diff(diff: Sequence[ObjectChange], *, fenced: bool) -> Iterator[IndentedLine]:
    """Show changes field by field, as a diff. `fenced`: mark the contents of objects as data."""
    for change in diff:
        if fenced:
            yield line(f"{change.event} {change.id}", indent=2)
            sides = "\n".join(row.text.plain for row in _fields(change))
            yield line(fence(f"{change.title}\n\n{sides}", origin=change.id), indent=4)
            continue
        yield line(f"{change.event} ", (one_line(change.title), "bold"), (f"  {change.id}", "dim"), indent=2)
        yield from _fields(change)


@dataclass(frozen=True, slots=True)
class UnconfirmedKnowledge:
    """Candidates to confirm."""

    stated: Sequence[tuple[Knowledge, str]]
    """Statements of people and agents, each with its author and day in words."""
    read: Sequence[Knowledge]
    """Statements of files."""


def render_proposals(
    records: Sequence[PatchRecord], candidates: UnconfirmedKnowledge, ledger: Ledger, *, verbose: bool = False
) -> Iterator[IndentedLine]:
    """Show the patches that wait for review and statements to confirm, numbered, and the commands for them."""
    if not records:
        if not candidates.stated:
            yield line("Nothing is waiting for review.")
        yield from _render_candidates(candidates, 1)
        return
    for number, record in enumerate(records, start=1):
        what = receipts.titles_of_patch(ledger, record)
        by = f"  {local_time(record.created_at)}  {one_line(record.source.actor)} ({record.source.channel})"
        yield line(f"{number}  ", (what, "bold"), (by, "dim"))
        if record.reason:
            yield line(one_line(record.reason, most=_NAME_CHARS), indent=3)
        if verbose:
            yield line((record.id, "dim"), indent=3)
    yield line("Decide with: treering review show 1, treering review apply 1, treering review reject 1")
    yield from _render_candidates(replace(candidates, read=()), len(records) + 1)


def candidates_in(ledger: Ledger) -> UnconfirmedKnowledge:
    """Return the candidates to confirm; facts from files need no confirmation."""
    where = Compare("status", "eq", "candidate")
    items = ledger.select(Selection(descend=True, types=("knowledge",), where=where), altered={})
    candidates = [one for one in items if isinstance(one, Knowledge) and not (one.kind == "fact" and one.is_only_read)]
    stated = by_author(ledger, filter(is_unconfirmed, candidates))
    return UnconfirmedKnowledge(stated, [one for one in candidates if not is_unconfirmed(one)])


def _render_candidates(candidates: UnconfirmedKnowledge, first: int) -> Iterator[IndentedLine]:
    stated, read = candidates.stated, candidates.read
    if stated:
        yield line(f"{counted_things(len(stated), 'statement')} to confirm with {_PROMOTE}:")
    for number, (item, author) in enumerate(stated[:_MAX_PER_OUTCOME], start=first):
        text = f"{one_line(title_of(item), most=_NAME_CHARS)} ({author})"
        yield line(f"{number}  ", text, (f"  {short_id(item.id)}", "dim"))
    if len(stated) > _MAX_PER_OUTCOME:
        yield line(f"and {len(stated) - _MAX_PER_OUTCOME} more", indent=2)
    if stated:
        yield line(
            f"Show all of a statement with: treering show {first}. Dismiss it with: treering review reject {first}"
        )
    if read:
        names = [f"{label(title_of(one))} {short_id(one.id)}" for one in read[: -_MAX_NAMES - 1 : -1]]
        more = f"; and {len(read) - _MAX_NAMES} more" if len(read) > _MAX_NAMES else ""
        count = counted_things(len(read), "other candidate" if stated else "candidate")
        yield line(f"{count} to confirm with {_PROMOTE}: {'; '.join(names)}{more}.")


def render_erasure(receipt: "ErasureReceipt", ledger: Ledger) -> Iterator[IndentedLine]:
    """Show the erased objects, the results of the probes, and copies in and out of reach."""
    is_short = len(receipt.ids) <= _MAX_ERASED_IDS
    erased = ", ".join(receipt.ids) if is_short else f"{len(receipt.ids)} objects"
    yield line((f"Erased {erased}", "bold"), f"  audit {receipt.sequence}")
    for probe in receipt.probes:
        result = "nothing left" if not probe.found else f"{probe.found} FOUND"
        yield line((f"{probe.name}: {result}", "red" if probe.found else ""), indent=2)
    yield from render_drift(ledger, receipt.staled, ())
    for head in ledger.heads(receipt.edited).values():
        erase = f". To erase them, too: treering erase {head.id}"
        yield line(("Lines that a person added stay in: ", "yellow"), label(head.title), erase)
    if receipt.lost_edits:
        lost = counted_things(receipt.lost_edits, "line")
        yield line(("Lost", "bold"), f": {lost} that a person added to a state document, because of erased words.")
    repeating = [*ledger.heads([one for one in receipt.repeated_in if one not in receipt.edited]).values()]
    for head in repeating[:_MAX_REPEATING]:
        scope = "" if head.scope == ROOT else f" in {head.scope}"
        erase = f"{scope}. Erase it, too: treering erase {head.id}"
        yield line(("The same words are also in: ", "yellow"), label(head.title), erase)
    if (more := len(repeating) - _MAX_REPEATING) > 0:
        yield line((f"And in {counted_things(more, 'more text')}; --json lists the ids.", "yellow"))
    if receipt.remaining:
        yield line(("Erased, but not overwritten yet:", "yellow"))
        yield from (line(f"- {what}", indent=2) for what in receipt.remaining)
        yield line("The next erasure, the next opening, or treering lint repair --apply overwrites it.", indent=2)
    yield line("Out of reach; remove these yourself:")
    shown = receipt.out_of_reach[:_MAX_OUT_OF_REACH]
    yield from (line(f"- {place}", indent=2) for place in shown)
    if len(receipt.out_of_reach) > len(shown):
        yield line(f"- and {len(receipt.out_of_reach) - len(shown)} more, which --json lists", indent=2)


def counted(counts: Mapping[Outcome, int]) -> str:
    """Return the number of items per outcome."""
    return ", ".join(f"{counts[one]} {one}" for one in reversed(OUTCOMES) if counts.get(one)) or "nothing"


def render_items(items: Sequence[ItemResult], *, most: int = _MAX_PER_OUTCOME) -> Iterator[IndentedLine]:
    """Show items by outcome with reasons, at most `most` of each."""
    for outcome in OUTCOMES:
        these = [item for item in items if item.outcome == outcome]
        for item in these[:most]:
            origin, why, before = (one_line(one, most=_NAME_CHARS) for one in (item.origin, item.why, item.moved_from))
            more = f": {why}" if why else f" from {before}" if before else ""
            yield line((f"{outcome} ", _STYLES.get(outcome, "")), origin, more, indent=2)
        if len(these) > most:
            yield line(f"and {len(these) - most} more {outcome}; treering ingest --mode status", indent=2)


def _fields(change: ObjectChange) -> Iterator[IndentedLine]:
    for field in change.fields:
        if field.field not in _INTERNAL_FIELDS:
            yield from _side("-", "red", field.field, field.before)
            yield from _side("+", "green", field.field, field.after)


def _side(sign: str, style: str, name: str, value: object) -> Iterator[IndentedLine]:
    """Show one side of a change; nested fields, such as a payload, one by one."""
    if isinstance(value, Mapping):
        for inner, part in value.items():
            yield from _side(sign, style, f"{name}.{inner}", part)
    elif value not in (None, "", [], ()):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        yield line((f"{sign} {name}: {text}", style), indent=4)


def findings_in_order(reports: "Sequence[LintReport]") -> "list[Finding]":
    """Return the findings of several reports, the worst first."""
    order = list(_SEVERITIES)
    return sorted((one for report in reports for one in report.findings), key=lambda one: order.index(one.severity))


def render_findings(reports: "Sequence[LintReport]", *, verbose: bool = False) -> Iterator[IndentedLine]:
    """Show numbered findings, the worst first, each with its explanation and repair."""
    findings = findings_in_order(reports)
    total = sum(sum(report.counts.values()) for report in reports)
    if total:
        yield line(f"{counted_things(total, 'problem')} found.")
    elif any(report.warnings for report in reports):
        yield line("No problems found in the files as they were last read.")
    else:
        yield line(("No problems found.", "green"))
    for number, one in enumerate(findings, start=1):
        yield from render_finding(one, number=f"{number}  ", verbose=verbose)
    if total > len(findings):
        yield line(f"{total - len(findings)} more. Show them with --limit {total}.")
    if any(one.fix for one in findings):
        yield line("Repair the fixable ones with: treering lint repair --apply")
    if findings:
        yield line('Look at one with: treering show 1. Correct one with: treering replace 1 "…"')
    for report in reports:
        for rule, reason in report.silenced.items():
            yield line((f"The rule {rule} is silenced: {reason}", "dim"))


def render_repairs(report: "RepairReport") -> Iterator[IndentedLine]:
    """Show each repair with its outcome and what it changes."""
    if not report.repairs:
        yield line(("Nothing to repair.", "green"))
    for one in report.repairs:
        style = "red" if one.outcome == "failed" else "bold"
        yield line(
            (f"{one.outcome} ", style),
            one_line(one.summary, most=_SENTENCE_CHARS),
            (f"  {one.rule} {one.patch_id}".rstrip(), "dim"),
        )
        if one.why:
            yield line(one_line(one.why, most=_SENTENCE_CHARS), indent=2)
        yield from (line(_changed_in_words(change), indent=2) for change in one.diff)
    if any(one.outcome == "planned" for one in report.repairs):
        yield line("Nothing was changed; --apply makes these changes.")


def _changed_in_words(change: ObjectChange) -> str:
    """Return a change of an object in one line, such as `updated "Retries": status active → archived, evidence refs`.

    Only single values are shown with their contents; lists and objects would be pages of JSON.
    """
    fields = [one for one in change.fields if one.field not in _INTERNAL_FIELDS]
    shown = [
        one.field.replace("_", " ")
        + ("" if isinstance(one.after, list | tuple | dict) else f" {_value(one.before)} → {_value(one.after)}")
        for one in fields
    ]
    return f"{change.event} {label(change.title)}{': ' if shown else ''}{', '.join(shown)}"


def render_reindex(report: "ReindexReport") -> Iterator[IndentedLine]:
    """Show the differences between indexes and ledger, and the number of rebuilt passages."""
    yield from (line(("differs: ", "yellow"), one) for one in report.differences)
    if not report.differences:
        yield line(("The indexes agree with the ledger.", "green"))
    if report.rebuilt:
        yield line(f"{report.rebuilt} passages were rebuilt.")
    if report.pending_vectors:
        yield line(f"{report.pending_vectors} texts are not embedded yet.")


def render_audit(report: "AuditReport") -> Iterator[IndentedLine]:
    """Show whether the log verifies, and its changes with their authors."""
    if report.verified and report.head:
        yield line(("The audit log verifies", "green"), f" up to event {report.head.seq} ({report.head.hash[:12]}).")
    else:
        yield line(("The audit log does not verify: ", "red"), report.problem)
    yield from (line(("index differs: ", "yellow"), one) for one in report.differences)
    for event, change in zip_longest(report.events, report.changes):
        yield line(one_line(event, most=_SENTENCE_CHARS), indent=2)
        for one in change.fields if change else ():
            yield line((f"{one.field}: ", "dim"), f"{_value(one.before)} → {_value(one.after)}", indent=4)


def _given_feedback(report: "FeedbackReport") -> Iterator[IndentedLine]:
    if report.noted:
        counts = "it affects answers to similar questions." if report.counts else "feedback is off and does not count."
        yield line((f"Noted {report.noted}", "bold"), f" of this answer; {counts}")
    if report.taken_back or not report.noted:
        yield line((f"Took back {report.taken_back}", "bold"), " of this answer.")


def render_feedback(status: "FeedbackStatus") -> Iterator[IndentedLine]:
    """Show the stored feedback of a scope, and whether it counts."""
    yield line((f"Feedback is {'on' if status.on else 'off'}", "bold"), f" in {status.scope}.")
    for what, count in sorted(status.verdicts.items()):
        yield line(f"{count} {what}", indent=2)


def render_finding(one: "Finding", *, number: str = "", verbose: bool = False) -> Iterator[IndentedLine]:
    """Show a finding and its repair."""
    explanation = places_as_typed(one_line(one.explanation, most=_SENTENCE_CHARS))
    yield line(number, (f"{one.severity}: ", _SEVERITIES[one.severity]), explanation, (f"  ({one.rule})", "dim"))
    if one.fix_summary:
        yield line(("fix: ", "green"), one_line(one.fix_summary, most=_SENTENCE_CHARS), indent=len(number))
    if commands := _resolving_commands(one, number.strip()):
        yield line(("settle: ", "green"), commands, indent=len(number))
    if verbose:
        yield line((listed_up_to(_MAX_IDS_OF_FINDING, one.ids), "dim"), indent=len(number))


def _resolving_commands(one: "Finding", number: str) -> str:
    """Return the commands that resolve stale or contradicting statements."""
    knowledge = [short_id(identity) for identity in one.ids if identity.startswith(f"{PREFIXES['knowledge']}:")]
    if one.rule in _DOUBTFUL and knowledge:
        archive = (
            ""
            if one.after_merge or one.rule == "partly-changed"
            else f", or treering crystallize {knowledge[0]} --status archived"
        )
        return f'treering replace {number or knowledge[0]} "…"{archive}'
    if one.rule == "contradiction" and len(knowledge) > 1:
        first, second, *_ = knowledge
        return f"treering crystallize {first} --by {second}, or treering crystallize {second} --by {first}"
    return ""


def _value(value: object) -> str:
    text = value if isinstance(value, str) else canonical_json(value)
    return label(text, most=_VALUE_CHARS) if value not in (None, "", [], {}) else "nothing"
