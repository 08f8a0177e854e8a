"""The answer to a client: a report as text for its model and as data for its program, both bounded."""

import json
from collections.abc import Iterable, Sequence
from typing import Any

from treering.core.characters import label
from treering.core.fencing import fence
from treering.core.writing.draft import ObjectChange
from treering.extensions.mcp.fitting import AnswerEntry, fit_entries, fit_items, fit_json, left_out
from treering.extensions.mcp.minimum import minimum_of
from treering.retrieval.search.packing import quoted, shortened
from treering.retrieval.text.analysis import cut_to_tokens, estimate_tokens
from treering.surfaces.ingest_words import ingest_in_words, is_map, path_of_item, searchable_now
from treering.surfaces.search_text import cited_hits
from treering.verbs.crystallize.submission import WriteReport
from treering.verbs.envelope import Report
from treering.verbs.evidence.resolving import ResolvedEvidence
from treering.verbs.feedback import FeedbackReport
from treering.verbs.ingest.report import IngestReport, ItemResult, JobReport
from treering.verbs.lint.audit import AuditReport
from treering.verbs.lint.lint import LintReport, ReindexReport, RepairReport
from treering.verbs.query.brief import BriefReport
from treering.verbs.query.browsing import Expanded, ExpandReport, HistoryEntry, PageReport
from treering.verbs.query.context import ContextReport
from treering.verbs.query.recent import RecentReport, erasure_in_words, merge_in_words, told_changes
from treering.verbs.query.related import Neighbour, RelatedReport
from treering.verbs.query.search import SearchReport
from treering.verbs.read_reports import ReadReport
from treering.verbs.shown_hits import shown_status

_SAID = 600  # characters of a sentence that may hold stored words
_LINE_CHARS = 600  # of a line of a hit: what people say in one turn is often one line
_EMPTY: tuple[Any, ...] = ("", None, [], {})
_TAIL = 80  # tokens for naming what a pack leaves out
_MAX_TITLES = 5
_MAX_ITEMS = 10
"""Items that are all listed; of more, only those about which something has to be done."""
_USUAL = frozenset({"created", "updated", "unchanged"})
_OUTCOMES = {"created": "recorded", "updated": "changed", "duplicate": "known already:"}
_QUOTED_CHARS = 400


def text_of(report: Report, *, max_tokens: int) -> str:
    """Render a report for a model: recalled text is fenced as data, and omitted entries are named."""
    if isinstance(report, ContextReport):
        return _context(report, max_tokens)
    if isinstance(report, BriefReport):
        return cut_to_tokens(report.text or "This space is empty.", max_tokens)
    if isinstance(report, SearchReport):
        title = _counted_results(len(report.hits))
        hits = list(cited_hits(report.hits, report.terms, max_line_chars=_LINE_CHARS))
        return fit_items(title, hits, _notes(report), origin="search", max_tokens=max_tokens)
    title, entries = _outline(report)
    return fit_entries(title, entries, _notes(report), max_tokens=max_tokens)


def data_of(report: Report, *, max_tokens: int, explain: bool = False) -> dict[str, Any]:
    """Return a report as JSON data without empty fields, except those guaranteed to programs (`minimum`).

    The explanation of the result is included only if it was requested.
    """
    data = report.model_dump(mode="json")
    if isinstance(report, ContextReport | BriefReport):
        del data["text"]  # it is the text of the answer
    if not explain:
        data.pop("trace", None)
        data.get("pack", {}).pop("trace", None)
    return fit_json(_without_empty(data), max_tokens=max_tokens)


def _counted_results(count: int) -> str:
    return {0: "0 results.", 1: "1 result."}.get(count, f"{count} results, best first.")


def _counted_changes(count: int) -> str:
    return {0: "No changes.", 1: "1 change."}.get(count, f"{count} changes, newest first.")


def _context(report: ContextReport, max_tokens: int) -> str:
    notes = [f"- {note}" for note in _notes(report)]
    room = max_tokens - sum(map(estimate_tokens, notes))
    _, text, dropped = shortened(report.pack, room - _TAIL)
    tail = [left_out(dropped, max_tokens=max_tokens)] if dropped else []
    return cut_to_tokens("\n".join([text.rstrip(), "", *tail, *notes]).rstrip(), max_tokens)


def _outline(report: Report) -> tuple[str, list[AnswerEntry]]:
    match report:
        case PageReport():
            status = shown_status(str(report.object.get("status", "")), current=report.current, note=report.note)
            status = report.object["kind"] if report.is_view else status
            return f"{quoted(report.title)}: {status}", list(_page(report))
        case RelatedReport():
            code = f" Places in code: {len(report.code)}; {report.code_left_out} more." if report.code else ""
            return f"Neighbours: {len(report.neighbours)}.{code}", [*_neighbours(report), *_linked_code(report)]
        case RecentReport():
            changes = list(_changes(report))
            more = f" {report.how_many_more} before them." if report.more else ""
            return f"{_counted_changes(len(changes))}{more}", changes
        case ExpandReport():
            return f"Opened: {len(report.items)}.", [_opened(item) for item in report.items]
        case _:
            return _outline_of_work(report)


def _outline_of_work(report: Report) -> tuple[str, list[AnswerEntry]]:
    match report:
        case IngestReport():
            return _ingested(report), [_item(item) for item in _shown_items(report)]
        case JobReport():
            return _job(report), [_item(item) for item in report.items]
        case WriteReport():
            return _written(report), [*_diff(report.diff), *_cited(report.evidence)]
        case LintReport():
            return _found(report.counts), list(_findings(report))
        case RepairReport():
            return f"Repairs: {len(report.repairs)} ({report.status}).", list(_repairs(report))
        case ReindexReport():
            title = f"Differences: {len(report.differences)}. Rebuilt: {report.rebuilt}."
            return title, [AnswerEntry(f"- {label(line, most=_SAID)}") for line in report.differences]
        case FeedbackReport():
            counts = "It counts" if report.counts else "Feedback is switched off here"
            return f"Noted: {report.noted}. Taken back: {report.taken_back}. {counts}.", []
        case AuditReport():
            title = (
                "The audit log verifies."
                if report.verified
                else f"The audit log does NOT verify: {label(report.problem, most=_SAID)}"
            )
            return title, [
                AnswerEntry(f"- {label(line, most=_SAID)}") for line in (*report.differences, *report.events)
            ]
        case _:
            return f"{report.verb} {report.mode}: {report.status}", [AnswerEntry(line) for line in report.text_lines()]


def _page(report: PageReport) -> Iterable[AnswerEntry]:
    identity = report.object["id"]
    if report.is_view:
        yield AnswerEntry("What conversations state of and about them:", report.text, origin=report.title)
        return
    yield AnswerEntry(f"`{identity}`", _fields(report.object), origin=report.title, ref=identity)
    for segment in report.object.get("segments", ()):
        ref = f"{identity} {segment['segment_id']}"
        yield AnswerEntry(f"`{ref}`", segment["excerpt"], origin=report.title, ref=ref)
    for link in sorted(report.links, key=lambda link: (link["type"], _linked(report, link))):
        yield AnswerEntry(f"- {link['type']} {_linked(report, link)}")
    if report.dependents:
        yield AnswerEntry(f"- depended on by: {', '.join(report.dependents)}")
    for relation, ones in (("named by", report.referrers), ("names", report.references)):
        for one in ones:
            state = f"{one.type}/{one.kind}, {one.status}; {', '.join(one.fields)}"
            yield AnswerEntry(f"- {relation} `{one.id}` {quoted(one.title)} ({state})", ref=one.id)
    for change in reversed(report.history):
        yield AnswerEntry(f"- {change.time} {change.event} {_by(change)}")


def _linked(report: PageReport, link: dict[str, str]) -> str:
    """Return the other end of a link: the path of a file, else its title and id."""
    is_start = link["source"] == report.object["id"]
    other = link["target" if is_start else "source"]
    arrow = "→" if is_start else "←"
    title = quoted(report.link_titles.get(other, ""))
    return (
        f"{arrow} {title}" if other.startswith("src:") and other in report.link_titles else f"{arrow} {title} `{other}`"
    )


def _neighbours(report: RelatedReport) -> Iterable[AnswerEntry]:
    for one in report.neighbours:
        arrow = "→" if one.direction == "out" else "←"
        state = f"{one.type}/{one.kind}, {shown_status(one.status, current=one.current, note=one.note)}"
        yield AnswerEntry(
            f"- {one.via} {arrow} {_relation(one)} {arrow} `{one.id}` {quoted(one.title)} ({state})", ref=one.id
        )


def _linked_code(report: RelatedReport) -> Iterable[AnswerEntry]:
    for one in report.code:
        of = f" ({label(one.of)})" if one.of else ""
        more = f", {one.more} more there" if one.more else ""
        what = f"{quoted(one.symbol or one.title)} at {label(one.place)}{more}"
        yield AnswerEntry(f"- {one.told}{of} `{one.id}` {one.segment_id} {what}", ref=one.id)


def _relation(one: Neighbour) -> str:
    return f"{one.relation} ({', '.join(one.fields)})" if one.fields else one.relation


def _changes(report: RecentReport) -> Iterable[AnswerEntry]:
    for number, one in enumerate(told_changes(report.changes), start=1):
        change = one.change
        if len(one.read) > 1:
            titles = ", ".join(map(quoted, one.read[:_MAX_TITLES]))
            more = f" and {len(one.read) - _MAX_TITLES} more" if len(one.read) > _MAX_TITLES else ""
            yield AnswerEntry(
                f"{number}. {change.time} read {len(one.read)} sources: {titles}{more} by {label(change.actor)}"
            )
            continue
        if one.joined:
            merged = label(merge_in_words(one.joined), most=_SAID)
            yield AnswerEntry(f"{number}. {change.time} {merged} by {label(change.actor)}", ref=change.id)
            continue
        if one.erased:
            yield AnswerEntry(f"{number}. {change.time} {erasure_in_words(one.erased)} {_by(change)}")
            continue
        date = f" ({change.dated_by})" if change.dated_by else ""
        what = f"{change.event}{date} `{change.id}` {quoted(change.title)}"
        status = shown_status(change.status, current=change.current, note=change.note)
        over = f" ({status})" if status != change.status else ""
        yield AnswerEntry(f"{number}. {change.time} {what}{over} {_by(change)}", ref=change.id)


def _by(change: HistoryEntry) -> str:
    why = f" because {label(change.reason, most=_SAID)}" if change.reason else ""
    return f"{change.status} by {label(change.actor)}{why}".strip()


def _opened(item: Expanded) -> AnswerEntry:
    cut = " (cut)" if item.cut else ""
    status = shown_status(item.status, current=item.current, note=item.note)
    head = f"`{item.id}` {quoted(item.title)} ({status}, {item.versions} versions){cut}"
    text = item.text if item.object is None else _fields(item.object)
    return AnswerEntry(head, text, origin=", ".join(item.places) or item.title, ref=item.id)


def _fields(data: dict[str, Any]) -> str:
    """Write an object's fields, one a line, without its segments and empty fields."""
    shown = {name: value for name, value in _without_empty(data).items() if name != "segments" and value not in _EMPTY}
    return "\n".join(
        f"{name}: {value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)}"
        for name, value in shown.items()
    )


def _shown_items(report: IngestReport) -> Sequence[ItemResult]:
    files = [one for one in report.items if not is_map(one)]
    return [one for one in files if one.outcome not in _USUAL] if len(files) > _MAX_ITEMS else files


def _ingested(report: IngestReport) -> str:
    parts = ["Nothing was written: this was a dry run."] if report.dry_run else []
    for status, ids in (("stale", report.staled), ("contested", report.contested)):
        named = (f"{quoted(report.titles[one])} `{one}`" if one in report.titles else one for one in ids)
        parts += [f"Now {status}: {', '.join(named)}."] if ids else []
    if report.items_left_out:
        parts.append(f"{report.items_left_out} more results: mode status.")
    if report.pending_vectors and not report.dry_run:
        parts.append(searchable_now(report.pending_vectors))
    return " ".join([ingest_in_words(report), *parts])


def _job(report: JobReport) -> str:
    if not report.job:
        return "Nothing has been ingested here yet."
    total = "" if report.total is None else f" of {report.total:,}"
    counts = ", ".join(f"{number:,} {outcome}" for outcome, number in report.counts.items() if number)
    parts = [f"{quoted(report.target)}: {report.state}, {report.done:,}{total} items{f': {counts}' if counts else ''}."]
    parts += [] if report.state == "done" else [f"Job {report.job}."]
    parts += [label(error.message, most=_SAID) for error in report.errors]
    parts += [f"Now stale: {', '.join(report.staled)}."] if report.staled else []
    parts += [f"{report.items_left_out} more results: raise max_items."] if report.items_left_out else []
    parts += [searchable_now(report.pending_vectors)] if report.pending_vectors else []
    return " ".join(parts)


def _item(item: ItemResult) -> AnswerEntry:
    why = f" ({label(item.why, most=_SAID)})" if item.why else ""
    name = label(path_of_item(item))
    return AnswerEntry(f"- {item.outcome} {name}{why}", ref=name)


def _written(report: WriteReport) -> str:
    results = report.receipt.results if report.receipt else ()
    done: dict[str, str] = {}
    for one in results:
        done.setdefault(one.id, _OUTCOMES.get(one.outcome, one.outcome))
    if report.mode == "supersede":
        done = {identity: "replaced" if what == "changed" else what for identity, what in done.items()}
    if report.mode == "promote":
        done = {identity: "confirmed" if what == "changed" else what for identity, what in done.items()}
    places = ", ".join(label(one.short_place) for one in report.evidence)
    if report.status == "proposed":
        parts = [f"Waiting for review: {report.patch_id}."]
    elif results:
        state = dict.fromkeys(report.candidates, " as a candidate")
        changes = "; ".join(f"{what} {identity}{state.get(identity, '')}" for identity, what in done.items())
        parts = [f"{changes[0].upper()}{changes[1:]} ({report.patch_id})."]
    else:
        parts = [f"{'Would change' if report.diff else 'Unchanged'}: {', '.join(report.ids) or 'nothing'}."]
    if places:
        parts.append(f"Based on {places}.")
    if report.candidates:
        parts.append("To confirm it with evidence: mode promote, if the user agrees; the user: treering review list.")
    for word in ("staled", "contested", "possible_duplicates"):
        ids = getattr(report, word)
        if ids:
            parts.append(f"{word.replace('_', ' ').capitalize()}: {', '.join(ids)}.")
    return " ".join(parts)


def _cited(evidence: Sequence[ResolvedEvidence]) -> Iterable[AnswerEntry]:
    """Quote the places that evidence was resolved to, so that a model can check its citations."""
    for one in evidence:
        words = one.quote if len(one.quote) <= _QUOTED_CHARS else f"{one.quote[:_QUOTED_CHARS]}…"
        yield AnswerEntry(f"- {label(one.short_place)}:", words, origin=one.place, ref=one.given)


def _diff(changes: Sequence[ObjectChange]) -> Iterable[AnswerEntry]:
    for change in changes:
        fields = change.model_dump(mode="json", exclude_defaults=True)
        yield AnswerEntry(f"- {change.event} `{change.id}`", json.dumps(fields, ensure_ascii=False), origin=change.id)


def _findings(report: LintReport) -> Iterable[AnswerEntry]:
    for one in report.findings:
        fix = f" Fix: {label(one.fix_summary, most=_SAID)}" if one.fix_summary else ""
        explanation = f"{label(one.explanation, most=_SAID)} ({', '.join(one.ids)})"
        yield AnswerEntry(f"- {one.severity} {one.rule}: {explanation}{fix}", ref=one.rule)


def _repairs(report: RepairReport) -> Iterable[AnswerEntry]:
    for one in report.repairs:
        why = f" {label(one.why, most=_SAID)}" if one.why else ""
        summary = f"{label(one.summary, most=_SAID)} ({', '.join(one.ids)}){why}"
        yield AnswerEntry(f"- {one.outcome} {one.rule}: {summary}", ref=one.rule)


def _found(counts: dict[Any, int]) -> str:
    total = sum(counts.values())
    each = ", ".join(f"{count} {name}" for name, count in counts.items() if count)
    return f"Findings: {total}{f' ({each})' if each else ''}."


def _notes(report: Report) -> list[str]:
    notes = [f"warning: {label(warning, most=_SAID)}" for warning in report.further_warnings]
    notes += [f"days: {one.sentence}" for one in report.understood]
    if isinstance(report, ReadReport) and report.empty:
        notes.append(f"empty ({report.empty.reason}): {report.empty.hint}")
    for name, lines in report.project_facts() if isinstance(report, ReadReport) else ():
        shown = fence("\n".join(lines), origin=name)
        notes.append(f"the {name}:\n{shown}")
    if isinstance(report, SearchReport) and report.left_out:
        notes.append(f"{len(report.left_out)} more results did not fit: raise options.max_tokens.")
    if isinstance(report, ExpandReport) and report.missing:
        notes.append(f"not found: {', '.join(map(label, report.missing))}")
    return notes


def _without_empty(data: Any) -> Any:
    match data:
        case dict():
            always = minimum_of(data)
            shown = {key: _without_empty(value) for key, value in data.items()}
            return {key: value for key, value in shown.items() if key in always or value not in _EMPTY}
        case list():
            return [_without_empty(item) for item in data]
        case _:
            return data
