"""What `ingest`, `crystallize`, `lint` and review did, as lines."""

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import zip_longest

from treering.core.canonical import canonical_json
from treering.core.characters import label, one_line
from treering.core.fencing import fence
from treering.core.patch import PatchRecord, Receipt
from treering.core.writing.draft import ObjectChange
from treering.surfaces.cli.printing import IndentedLine, line
from treering.verbs.crystallize.review import WorkProposals
from treering.verbs.crystallize.submission import WriteReport
from treering.verbs.envelope import Report
from treering.verbs.feedback import FeedbackReport, FeedbackStatus
from treering.verbs.ingest.report import OUTCOMES, IngestReport, ItemResult, JobReport, Outcome
from treering.verbs.lint.audit import AuditReport
from treering.verbs.lint.consolidation import Consolidated, ConsolidateReport
from treering.verbs.lint.erasure import ErasureReceipt
from treering.verbs.lint.lint import LintReport, ReindexReport, RepairReport
from treering.verbs.lint.survey import Finding, Severity

_STYLES: Mapping[str, str] = {"failed": "red", "skipped": "yellow", "removed": "magenta"}
TOLD: frozenset[Outcome] = frozenset({"failed", "skipped", "proposed", "removed", "moved"})
"""Outcomes of which a person wants to see the items."""
_MACHINERY = {"id", "type", "title", "fingerprint", "content_type", "captured_at", "last_verified_at"}
"""Fields of an object that tell a reviewer nothing beside its title and id."""
_MOST_PER_OUTCOME = 10
_MOST_IDS = 20
_NAME_CHARS = 400


def render_change(report: Report, *, fenced: bool = False) -> Iterator[IndentedLine]:
    """Show the report of a verb that changes or checks a space. `fenced`: mark recalled text as data."""
    match report:
        case IngestReport():
            yield from render_ingest(report)
        case JobReport():
            yield from render_job(report)
        case WriteReport():
            yield from render_write(report, fenced=fenced)
        case RepairReport():
            yield from render_repairs(report, fenced=fenced)
        case LintReport():
            yield from render_findings(report)
        case ReindexReport():
            yield from render_reindex(report)
        case AuditReport():
            yield from render_audit(report)
        case ConsolidateReport():
            yield from render_consolidation(report)
        case FeedbackReport():
            yield from _given_feedback(report)
        case _:
            yield line(report.model_dump_json(indent=2))


def render_ingest(report: IngestReport) -> Iterator[IndentedLine]:
    """Show counts, then the items a person may want to act on, with reasons."""
    yield line((f"{'Would ingest' if report.dry_run else 'Ingested'}: ", "bold"), counted(report.counts))
    yield from render_items([item for item in report.items if item.outcome in TOLD])
    yield from _drift(report.staled, report.contested)
    if report.pending_vectors and not report.dry_run:
        yield line(f"Found now; {report.pending_vectors} texts still wait for their vector of the encoder.")


def render_job(report: JobReport) -> Iterator[IndentedLine]:
    """Show how a job stands, with every result it holds."""
    if not report.job:
        yield line("Nothing was ingested here so far.")
    else:
        total = "" if report.total is None else f" of {report.total}"
        yield line((f"{report.target}: {report.state}", "bold"), f"  {report.done}{total} items  ({report.job})")
        for error in report.errors:
            yield line((f"{error.message} {error.hint}".strip(), "red"))
        yield line(counted(report.counts))
        yield from render_items(report.items, most=len(report.items))
        yield from _drift(report.staled, ())
    if report.items_left_out:
        yield line(f"{report.items_left_out} more; --option max_items=… or offset=… shows them")
    made = report.total_vectors - report.pending_vectors
    yield line(f"Vectors: {made} of {report.total_vectors} texts have one.")


def render_write(report: WriteReport, *, fenced: bool) -> Iterator[IndentedLine]:
    """Show what was written, waits for review, or would change."""
    if report.receipt:
        yield from render_receipt("Recorded in", report.receipt)
    elif report.status == "proposed":
        yield line(("Waits for review: ", "yellow"), report.patch_id)
        yield line(f"treering review show {report.patch_id}", indent=2)
    else:
        yield line(("Would change:", "bold"))
    yield from render_diff(report.diff, fenced=fenced)
    if report.possible_duplicates:
        yield line(("Says nearly the same: ", "yellow"), ", ".join(report.possible_duplicates))


def render_effects(report: WriteReport) -> Iterator[IndentedLine]:
    """Show what a write made stale or contested, and what says nearly the same."""
    if report.receipt:
        yield from _drift(report.receipt.staled, report.receipt.contested)
    if report.possible_duplicates:
        yield line(("Similar: ", "yellow"), ", ".join(report.possible_duplicates))


def render_receipt(what: str, receipt: Receipt) -> Iterator[IndentedLine]:
    """Show what a commit did, object by object."""
    again = " (again: this key was used before)" if receipt.replayed else ""
    yield line((f"{what} {receipt.patch_id}", "bold"), f"  audit {receipt.sequence}{again}")
    for result in receipt.results[:_MOST_IDS]:
        revision = f"  revision {result.revision}" if result.revision > 1 else ""
        yield line(f"{result.outcome} {result.id}{revision}", indent=2)
    if len(receipt.results) > _MOST_IDS:
        yield line(f"and {len(receipt.results) - _MOST_IDS} more", indent=2)
    yield from _drift(receipt.staled, receipt.contested)


def render_diff(diff: Sequence[ObjectChange], *, fenced: bool) -> Iterator[IndentedLine]:
    """Show changes field by field, as a diff; `fenced`: all that an object says marked as data."""
    for change in diff:
        if fenced:
            yield line(f"{change.event} {change.id}", indent=2)
            sides = "\n".join(row.text.plain for row in _fields(change))
            yield line(fence(f"{change.title}\n\n{sides}", origin=change.id), indent=4)
            continue
        yield line(f"{change.event} ", (one_line(change.title), "bold"), (f"  {change.id}", "dim"), indent=2)
        yield from _fields(change)


def render_proposals(records: Sequence[PatchRecord]) -> Iterator[IndentedLine]:
    """Show the patches that wait."""
    if not records:
        yield line("Nothing waits for review.")
    for record in records:
        count = len(record.operations)
        what = f"{count} change{'' if count == 1 else 's'} by {one_line(record.source.actor)} ({record.source.channel})"
        yield line((record.id, "bold"), f"  {record.created_at:%Y-%m-%d %H:%M}Z  {what}")
        if record.reason:
            yield line(one_line(record.reason, most=_NAME_CHARS), indent=2)


def render_work_proposals(found: WorkProposals, *, dry_run: bool) -> Iterator[IndentedLine]:
    """Show what waits now, and how to decide on it."""
    known = f"; {found.known} known already" if found.known else ""
    count = len(found.proposed)
    yield line((f"{'Asked for' if dry_run else 'Proposed'}: ", "bold"), f"{count}{known}")
    for one in found.proposed:
        yield line((one.patch_id or "-", "bold"), f"  {one.what}: {one_line(one.title, most=_NAME_CHARS)}", indent=2)
    if found.more:
        yield line("There is more: run it again, or with a larger --limit.", indent=2)
    if count and not dry_run:
        yield line("treering review show PATCH, then treering review apply PATCH... or reject PATCH", indent=2)


def render_erasure(receipt: ErasureReceipt) -> Iterator[IndentedLine]:
    """Show what was erased, what the probes found, and what is out of reach."""
    yield line((f"Erased {', '.join(receipt.ids)}", "bold"), f"  audit {receipt.sequence}")
    for probe in receipt.probes:
        found = "nothing left" if not probe.found else f"{probe.found} FOUND"
        yield line((f"{probe.name}: {found}", "red" if probe.found else ""), indent=2)
    yield from _drift(receipt.staled, ())
    if receipt.repeated_in:
        yield line(("The same words also stand in: ", "yellow"), ", ".join(receipt.repeated_in))
    if receipt.remaining:
        yield line(("Erased, and still to be overwritten:", "yellow"))
        yield from (line(f"- {what}", indent=2) for what in receipt.remaining)
        yield line("The next erasure, the next opening, or treering lint repair --apply does it.", indent=2)
    yield line("Out of reach, for you to see to:")
    yield from (line(f"- {place}", indent=2) for place in receipt.out_of_reach)


def counted(counts: Mapping[Outcome, int]) -> str:
    """Say how many items had which outcome."""
    return ", ".join(f"{counts[one]} {one}" for one in reversed(OUTCOMES) if counts.get(one)) or "nothing"


def render_items(items: Sequence[ItemResult], *, most: int = _MOST_PER_OUTCOME) -> Iterator[IndentedLine]:
    """Show items by outcome, at most so many of each, with reasons."""
    for outcome in OUTCOMES:
        these = [item for item in items if item.outcome == outcome]
        for item in these[:most]:
            origin, why, before = (one_line(one, most=_NAME_CHARS) for one in (item.origin, item.why, item.moved_from))
            more = f": {why}" if why else f" from {before}" if before else ""
            yield line((f"{outcome} ", _STYLES.get(outcome, "")), origin, more, indent=2)
        if len(these) > most:
            yield line(f"and {len(these) - most} more {outcome}; treering ingest --mode status", indent=2)


def _drift(staled: Sequence[str], contested: Sequence[str]) -> Iterator[IndentedLine]:
    for what, ids in (("Stale now", staled), ("Contested now", contested)):
        if ids:
            more = f" and {len(ids) - _MOST_IDS} more" if len(ids) > _MOST_IDS else ""
            yield line((f"{what}: ", "yellow"), ", ".join(ids[:_MOST_IDS]), more, "  (treering lint explains)")


def _fields(change: ObjectChange) -> Iterator[IndentedLine]:
    for field in change.fields:
        if field.field not in _MACHINERY:
            yield from _side("-", "red", field.field, field.before)
            yield from _side("+", "green", field.field, field.after)


def _side(sign: str, style: str, name: str, value: object) -> Iterator[IndentedLine]:
    """Show one side of a change; what holds fields of its own, such as a payload, field by field."""
    if isinstance(value, Mapping):
        for inner, part in value.items():
            yield from _side(sign, style, f"{name}.{inner}", part)
    elif value not in (None, "", [], ()):
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
        yield line((f"{sign} {name}: {text}", style), indent=4)


# What `lint` found, as lines.


_SEVERITIES: Mapping[Severity, tuple[str, str]] = {
    "error": ("Errors", "bold red"),
    "warning": ("Warnings", "bold yellow"),
    "info": ("For information", "bold cyan"),
}
_VALUE_CHARS = 120
_MOST_IDS_OF_A_FINDING = 4
_SAID_CHARS = 600


def render_findings(report: LintReport) -> Iterator[IndentedLine]:
    """Show findings by severity, each with its explanation and what would put it right."""
    total = sum(report.counts.values())
    if not total:
        yield line((f"{report.mode}: nothing to report.", "green"))
    for severity, (title, style) in _SEVERITIES.items():
        found = [one for one in report.findings if one.severity == severity]
        if found:
            yield line((f"{title} of {report.mode}", style))
            for one in found:
                yield from render_finding(one)
    if total > len(report.findings):
        yield line(f"{total} in all; --limit shows more")
    for rule, reason in report.silenced.items():
        yield line((f"{rule} is kept quiet: {reason}", "dim"))


def render_repairs(report: RepairReport, *, fenced: bool) -> Iterator[IndentedLine]:
    """Show each repair with its outcome and what it changes."""
    if not report.repairs:
        yield line(("Nothing that lint could repair.", "green"))
    for one in report.repairs:
        style = "red" if one.outcome == "failed" else "bold"
        yield line(
            (f"{one.outcome} ", style),
            one_line(one.summary, most=_SAID_CHARS),
            (f"  {one.rule} {one.patch_id}".rstrip(), "dim"),
        )
        if one.why:
            yield line(one_line(one.why, most=_SAID_CHARS), indent=2)
        yield from render_diff(one.diff, fenced=fenced)
    if any(one.outcome == "planned" for one in report.repairs):
        yield line("Nothing was changed; --apply carries these out.")


def render_reindex(report: ReindexReport) -> Iterator[IndentedLine]:
    """Show how the indexes compare with the ledger, and what was made anew."""
    yield from (line(("differs: ", "yellow"), one) for one in report.differences)
    if not report.differences:
        yield line(("The indexes agree with the ledger.", "green"))
    if report.rebuilt:
        yield line(f"{report.rebuilt} passages were made anew.")
    if report.pending_vectors:
        yield line(f"{report.pending_vectors} texts wait for their vector of the encoder.")


def render_audit(report: AuditReport) -> Iterator[IndentedLine]:
    """Show whether the log verifies, and who changed what."""
    if report.verified and report.head:
        yield line(("The audit log verifies", "green"), f" up to event {report.head.seq} ({report.head.hash[:12]}).")
    else:
        yield line(("The audit log does not verify: ", "red"), report.problem)
    yield from (line(("index differs: ", "yellow"), one) for one in report.differences)
    for event, change in zip_longest(report.events, report.changes):
        yield line(one_line(event, most=_SAID_CHARS), indent=2)
        for one in change.fields if change else ():
            yield line((f"{one.field}: ", "dim"), f"{_value(one.before)} → {_value(one.after)}", indent=4)


def render_consolidation(report: ConsolidateReport) -> Iterator[IndentedLine]:
    """Show each group with both sides, then the budget, and what to do next."""
    if not report.groups:
        yield line(("Nothing to consolidate.", "green"))
    for one in report.groups:
        yield from _consolidated(one)
    if report.protected:
        yield line(f"{report.protected} repetitions stay: a person's, or what something current rests on.")
    if budget := report.budget:
        yield line(
            f"Passages: {budget.passages} → {budget.passages_after}; text: {budget.bytes / 1e6:.1f} → "
            f"{budget.bytes_after / 1e6:.1f} MB; {budget.protected} objects are never archived."
        )
    outcomes = {one.outcome for one in report.groups}
    if "planned" in outcomes:
        yield line("Nothing was changed; --propose lays it before reviewers, --apply carries it out.")
    if "applied" in outcomes:
        yield line("Take a group back with: treering revert PATCH")


def _given_feedback(report: FeedbackReport) -> Iterator[IndentedLine]:
    if report.noted:
        counts = "it counts in answers to questions like it." if report.counts else "feedback is off: none counts."
        yield line((f"Noted {report.noted}", "bold"), f" of this answer; {counts}")
    if report.taken_back or not report.noted:
        yield line((f"Took back {report.taken_back}", "bold"), " of this answer.")


def render_feedback(told: FeedbackStatus) -> Iterator[IndentedLine]:
    """Show what feedback a scope keeps, and whether it counts."""
    yield line((f"Feedback is {'on' if told.on else 'off'}", "bold"), f" in {told.scope}.")
    for what, count in sorted(told.verdicts.items()):
        yield line(f"{count} {what}", indent=2)


def _consolidated(one: Consolidated) -> Iterator[IndentedLine]:
    style = "red" if one.outcome == "failed" else "bold"
    yield line((f"{one.outcome} ", style), f"{one.kind}: {one.why}", (f"  {one.patch_id}".rstrip(), "dim"))
    for item in one.gone[:_MOST_GONE]:
        yield line(
            ("- ", "red"), one_line(item.text or item.title, most=_SAID_CHARS), (f"  {item.id}", "dim"), indent=2
        )
    if len(one.gone) > _MOST_GONE:
        yield line(f"and {len(one.gone) - _MOST_GONE} more", indent=2)
    if one.kept:
        kept = one_line(one.kept.text or one.kept.title, most=_SAID_CHARS)
        yield line(("= ", "green"), kept, (f"  {one.kept.id}", "dim"), indent=2)
    if one.problem:
        yield line(one_line(one.problem, most=_SAID_CHARS), indent=2)


_MOST_GONE = 10


def render_finding(one: Finding) -> Iterator[IndentedLine]:
    """Show a finding, with what it is about and what would put it right."""
    more = f" and {len(one.ids) - _MOST_IDS_OF_A_FINDING} more" if len(one.ids) > _MOST_IDS_OF_A_FINDING else ""
    yield line((f"{one.rule}: ", "bold"), one_line(one.explanation, most=_SAID_CHARS), indent=2)
    yield line((f"{', '.join(one.ids[:_MOST_IDS_OF_A_FINDING])}{more}", "dim"), indent=4)
    if one.fix_summary:
        yield line(
            ("fix: ", "green"),
            one_line(one.fix_summary, most=_SAID_CHARS),
            "  (treering lint repair)" if one.fix else "",
            indent=4,
        )


def _value(value: object) -> str:
    text = value if isinstance(value, str) else canonical_json(value)
    return label(text, most=_VALUE_CHARS) if value not in (None, "", [], {}) else "nothing"
