"""Reports of `query` as lines for people. Pure: a report in, lines out."""

import json
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from treering.core.audit import LINK_EVENTS
from treering.core.characters import label, one_line, short_id
from treering.core.evidence import lines_in, short_place
from treering.core.fencing import fence
from treering.core.objects import kind_in_words
from treering.retrieval import limits
from treering.retrieval.search.lines import ShownLine
from treering.retrieval.search.packing import HEADINGS, RULES_HEADING, SECTIONS, ContextPack, PackItem, titled
from treering.surfaces.cli.printing import IndentedLine, line
from treering.surfaces.search_text import fenced_hits
from treering.verbs.envelope import Report
from treering.verbs.read_reports import Empty, ReadReport
from treering.verbs.shown_hits import USUAL, ShownHit, ShownPassage, flag_in_words, lines_shown_of, shown_status

if TYPE_CHECKING:
    # Not imported at run time: each report would import its verb, and a command shows only one.
    from treering.verbs.query.brief import BriefReport
    from treering.verbs.query.browsing import ExpandReport, HistoryEntry, PageReport, Referrer
    from treering.verbs.query.context import ContextReport
    from treering.verbs.query.recent import RecentReport
    from treering.verbs.query.related import Neighbour, RelatedReport
    from treering.verbs.query.search import SearchReport

_SNIPPET_LINES = 6
_SNIPPET_CHARS = 400
_NUMBER_WIDTH = 8
_FILES = ("file", "repo")
"""Schemes of origins with the path of a file."""
_OFFSET = re.compile(r" \(offset \d+\)$")
_VALUE_CHARS = 300
_NOTHING_TO_SHOW = (
    "Nothing to show yet: no rule, decision or work item is recorded, and no repository with a manifest was read. "
    "Read a folder with: treering add PATH"
)
_LEFT_OUT = 10
_TASK_CHARS = 300
_SHOWN_APART = {"id", "type", "kind", "status", "scope", "revision", "title", "segments"}
_INTERNAL = {
    *("created_at", "updated_at", "origin_channel", "evidence_refs", "payload", "confidence", "last_verified_at"),
    *("memory_source", "slug", "fingerprint", "subject_refs", "source_refs", "lifecycle_state", "name"),
}
"""Fields that are shown with `-v`."""
_ARROWS = {"out": "→", "in": "←", "any": "↔"}
_REASONS = {
    ("unknown_entity", False): ("no indexed text mentions it", "{}: treering add PATH"),
    ("filtered_out", True): ("the filter excludes {} matches", ""),
    ("out_of_scope", True): ("{} matches are in scopes below this one", "Name one with --scope, or add --descend."),
    ("known_but_empty", True): ("only {} stale or replaced statements match", "See: treering lint"),
    ("recorded_later", True): ("{} matches were recorded later", ""),
    ("not_indexed_yet", True): ("{} passages are not indexed yet", ""),
}
"""By the reason of an empty answer and whether it counts matches: a message, and a hint for the command line."""
_WITH_DETAILS = frozenset({"context", "brief", "page"})
"""Modes whose reports show more with `-v`."""


def render_query(report: Report, *, fenced: bool, verbose: bool) -> Iterator[IndentedLine] | None:
    """Return the lines of a report of `query`, or `None` for a mode without lines for people."""
    given = {"verbose": verbose} if report.mode in _WITH_DETAILS else {}
    return _BY_MODE[report.mode](report, fenced=fenced, **given) if report.mode in _BY_MODE else None


def render_context(report: "ContextReport", *, fenced: bool, verbose: bool = False) -> Iterator[IndentedLine]:
    """Show a context pack: items by section with their places, then rules, conflicts, gaps and further places.

    `verbose`: also ids and the trust of each item.
    """
    if fenced:
        yield line(report.text.rstrip("\n"))
    else:
        yield from _pack(report.pack, verbose=verbose)
    yield from _ending(report, fenced=fenced, has_closest=bool(report.pack.recommended_next_reads))


def render_brief(report: "BriefReport", *, fenced: bool, verbose: bool = False) -> Iterator[IndentedLine]:
    """Show the brief; to people with short ids, unless `verbose`."""
    from treering.verbs.query.brief import LABEL_WIDTH  # the report comes from there

    if not report.text:
        if not report.warnings:
            yield line(_NOTHING_TO_SHOW)
    elif fenced:
        yield line(report.text)
    else:
        for text in report.lines:
            shown = text if verbose else _with_short_ids(text, report.ids)
            is_labeled = text[LABEL_WIDTH - 1 : LABEL_WIDTH] == " "
            yield line(shown, hang=LABEL_WIDTH if is_labeled else 0)


def render_search(report: "SearchReport", *, fenced: bool) -> Iterator[IndentedLine]:
    """Show hits, best first, each with its place, its symbol and the lines that answer."""
    if fenced and report.hits:
        yield line(fenced_hits(report.hits, report.terms))
        for rank, hit in enumerate(report.hits, start=1):
            yield from _explained(rank, hit)
    else:
        terms = frozenset(report.terms)
        for rank, hit in enumerate(report.hits, start=1):
            yield from _hit(rank, hit, terms)
    if report.left_out:
        yield line(f"{len(report.left_out)} more did not fit: ", ", ".join(report.left_out[:_LEFT_OUT]))
    yield from _ending(report, fenced=fenced)


def _ending(report: ReadReport, *, fenced: bool, has_closest: bool = False) -> Iterator[IndentedLine]:
    """Show why a ranked answer is empty, and the answer of the repository map.

    `has_closest`: the closest passages are listed, and nothing answers.
    """
    yield from _empty(report.empty, has_closest=has_closest)
    for name, lines in report.project_facts():
        yield line(f"The {name}:")
        yield line(_quoted("\n".join(lines), name, fenced=fenced), indent=2)


def render_expanded(report: "ExpandReport", *, fenced: bool) -> Iterator[IndentedLine]:
    """Show the full text of objects and passages."""
    for item in report.items:
        versions = "" if item.versions == 1 else f", {item.versions} versions"
        places = [_name(place, fenced=fenced) for place in item.places[:3]]
        called = "" if fenced else one_line(item.title or item.id)
        yield line((called, "bold"), f"  ({shown_status(item.status, current=item.current, note=item.note)}{versions})")
        yield line((", ".join((*places, item.id)), "dim"), indent=2)
        text = item.text if item.object is None else json.dumps(item.object, indent=2, ensure_ascii=False)
        text = titled(item.title, text) if fenced else text
        yield line(_quoted(text, item.places[0] if item.places else item.id, fenced=fenced), indent=2)
        if item.cut:
            yield line(("… cut; --max-tokens shows more", "dim"), indent=2)
        yield line("")
    for identity in report.missing:
        yield line(("not found: ", "red"), identity)


def _with_fate(place: str, lost: Sequence[str]) -> str:
    """Return a cited place, and whether it changed or was removed."""
    fate = next((one.removeprefix(f"{place} ") for one in lost if one.startswith(f"{place} ")), "")
    return f"{place} ({fate})" if fate else place


def render_page(report: "PageReport", *, fenced: bool, verbose: bool = False) -> Iterator[IndentedLine]:
    """Show one object: the text of a source, or fields and evidence; then references to it, and its history.

    `verbose`: also the ids, stored fields and links.
    """
    shown = report.object
    if report.is_view:
        yield line((one_line(report.title), "bold"), f"  ({kind_in_words(str(shown['kind']))})")
        yield line(fence(report.text, origin=report.title) if fenced else report.text)
        return
    title = short_place(report.place) or report.title
    status = shown_status(str(shown.get("status")), current=report.current, note=report.note)
    yield line((_name(title, fenced=fenced), "bold"), f"  ({kind_in_words(str(shown.get('kind')))}, {status})")
    yield line((_id(str(shown.get("id")), fenced=fenced, verbose=verbose), "dim"), indent=2)
    if "segments" in shown and not verbose:
        yield from _words(report, fenced=fenced)
        return
    fields = shown if verbose else {**shown, **shown.get("payload", {})}
    hidden = _SHOWN_APART if verbose else _SHOWN_APART | _INTERNAL
    texts = {name: text for name, value in fields.items() if name not in hidden and (text := _value(value))}
    rows = [(name.replace("_", " "), text) for name, text in texts.items() if text != report.title or verbose]
    if one_line(report.title).endswith("…"):
        rows.insert(0, ("title", report.title))  # the heading is cut
    places = [_with_fate(place, report.lost) for place in report.evidence]
    if fenced or not report.quotes:
        rows += [("based on", ", ".join(places))] if places else []
    if fenced and rows:
        yield line(fence("\n".join(f"{name}: {value}" for name, value in rows), origin=report.title), indent=2)
    else:
        yield from (line((f"{name}: ", "cyan"), value, indent=2) for name, value in rows)
    yield from _evidence(places, report.quotes, fenced=fenced)
    for segment in shown.get("segments", ()):
        yield line(("segment ", "cyan"), segment["segment_id"], indent=2)
        yield line(_quoted(segment["excerpt"], report.title, fenced=fenced), indent=4)
    if verbose:
        yield from _listed("Links", [f"{link['source']} {link['type']} {link['target']}" for link in report.links])
        yield from _listed("Based on it", report.dependents)
    yield from _listed("Names it", _referrers(report, fenced=fenced, verbose=verbose))
    named = [_referrer_line(one, fenced=fenced, verbose=verbose) for one in _other_references(report, verbose)]
    yield from _listed("It names", named)
    history = [one for one in report.history if verbose or one.event not in LINK_EVENTS]
    yield from _listed("History", [_change(one, fenced=fenced, verbose=verbose) for one in history])


def _evidence(places: "Sequence[str]", quotes: "Sequence[str]", *, fenced: bool) -> Iterator[IndentedLine]:
    """Show the places of evidence, unless the fields of a fenced page contain them, and its words, unless withheld."""
    for place, words in zip(places, quotes, strict=False):
        if not fenced:
            yield line(("based on: ", "cyan"), (one_line(place), "green"), indent=2)
        if words:
            yield line(fence(words, origin=place) if fenced else _snippet(words), indent=2 if fenced else 4)


def _words(report: "PageReport", *, fenced: bool) -> Iterator[IndentedLine]:
    """Show the text of a source, on a terminal with the line numbers of its file."""
    segments = sorted(report.object["segments"], key=lambda one: int(one["position"]))
    is_of_lines = all(one["locator"]["type"] == "lines" for one in segments)
    if fenced or not is_of_lines:
        text = report.text or "\n\n".join(one["excerpt"] for one in segments)
        yield line(_quoted(text, short_place(report.place) or report.title, fenced=fenced), indent=2)
    else:
        first, last = lines_in(report.place) or (1, sys.maxsize)
        for segment in segments:
            for number, text in enumerate(segment["excerpt"].splitlines(), start=segment["locator"]["start"]):
                if first <= number <= last:
                    yield line((f"{number:>{_NUMBER_WIDTH}}  ", "dim"), text, hang=_NUMBER_WIDTH + 2)
    left = report.object.get("segments_left_out", 0)
    if left and not report.place:
        yield line((f"… {left} more passages. Show some lines with: treering show PATH:10-20", "dim"), indent=2)


def _other_references(report: "PageReport", verbose: bool) -> "Sequence[Referrer]":
    """Return the references of an object, except its evidence, whose places are shown."""
    return [one for one in report.references if verbose or one.fields != ("evidence_refs",)]


def render_related(report: "RelatedReport", *, fenced: bool) -> Iterator[IndentedLine]:
    """Show current neighbours, nearest first, then linked places in code, then neighbours that are not current."""
    if not report.neighbours and not report.code:
        yield line("No related objects.")
    yield from (shown for one in report.neighbours if one.current for shown in _neighbour(one, fenced=fenced))
    for near in report.code:
        where = _name(near.symbol or near.title, fenced=fenced)
        of = f" ({_name(near.of, fenced=fenced)})" if near.of else ""
        more = f" and {near.more} more there" if near.more else ""
        place = f"  {one_line(near.place)}{more}" if near.place else more
        yield line(f"{_ARROWS[near.direction]} {near.told}{of}  ", (where, "bold"), place)
        yield line((f"{near.id} {near.segment_id}".rstrip(), "dim"), indent=2)
    if report.code_left_out:
        yield line(f"{report.code_left_out} more places in code")
    yield from (shown for one in report.neighbours if not one.current for shown in _neighbour(one, fenced=fenced))


def _neighbour(one: "Neighbour", *, fenced: bool) -> Iterator[IndentedLine]:
    title = _name(one.title, fenced=fenced)
    named = f" ({', '.join(one.fields)})" if one.fields else ""
    state = f"  ({kind_in_words(one.kind)}, {shown_status(one.status, current=one.current, note=one.note)})"
    yield line(f"{_ARROWS[one.direction]} {one.relation}{named}  ", (title, "bold"), state, indent=2 * one.depth - 2)
    yield line((one.id, "dim"), indent=2 * one.depth)


def render_recent(report: "RecentReport", *, fenced: bool) -> Iterator[IndentedLine]:
    """Show changes, newest first."""
    if not (report.changes or report.warnings):
        yield line("Nothing changed or happened in this window.")
    for one in report.changes:
        # An erased object has no title.
        title = _name(one.title, fenced=fenced) if one.title else one.type
        actor = _name(one.actor, fenced=fenced)
        status = shown_status(one.status, current=one.current, note=one.note)
        over = f" ({status})" if status != one.status else ""
        date = f" ({one.dated_by})" if one.dated_by else ""
        yield line((f"{one.time[:19]}Z ", "dim"), f"{one.event}{date} ", (title, "bold"), f"{over}  by {actor}")
        why = f": {_name(one.reason, fenced=fenced)}" if one.reason else ""
        yield line((f"{one.id}  {one.patch_id}", "dim"), why, indent=2)
    if report.more:
        yield line(f"{report.how_many_more}; --limit shows them")


def _pack(pack: ContextPack, *, verbose: bool) -> Iterator[IndentedLine]:
    yield line(("Context: ", "bold"), (one_line(pack.task, most=_TASK_CHARS), "bold"))
    yield line(pack.summary)
    yield from _listed(RULES_HEADING, pack.rules)
    yield from _listed("Commands", pack.commands)
    cited = {one.mark: f"{one.mark} {one_line(short_place(one.place or one.origin))}" for one in pack.citations}
    for section in SECTIONS:
        items = [item for item in pack.items if item.section == section]
        if items:
            yield from (line(""), line((HEADINGS[section].upper(), "bold cyan")))
            for item in items:
                places = [cited[mark] for mark in item.citations if mark in cited]
                yield from _pack_item(item, places, verbose=verbose)
    yield from _listed("Conflicts", [note.summary for note in pack.conflicts])
    yield from _listed("May break", pack.may_break)
    yield from _listed("Missing", pack.missing_context)
    yield from _listed("Read next", pack.recommended_next_reads)


def _pack_item(item: PackItem, places: Sequence[str], *, verbose: bool) -> Iterator[IndentedLine]:
    state = "" if item.status in USUAL else f" ({item.status})"
    is_doubted = item.trust == "low"
    trust = f"  (trust: {item.trust}, {item.channel})" if item.trust and (verbose or is_doubted) else ""
    yield line((one_line(_without_repetition(item.title)), "bold"), state, (trust, "dim"))
    yield from (line((place, "green"), indent=2) for place in places)
    yield from _flags(item.flags)
    yield line(item.text, indent=2)
    if verbose or item.section != "sources":
        identity = f"{item.object_id} {item.segment_id}".rstrip() if verbose else short_id(item.object_id)
        yield line((identity, "dim"), indent=2)


def _without_repetition(title: str) -> str:
    """Return a title without the title of its document if its heading begins with that: `Acme > Retries`."""
    document, _, heading = title.partition(" — ")
    return heading if f"{heading} > ".startswith(f"{document} > ") else title


def _hit(rank: int, hit: ShownHit, terms: frozenset[str]) -> Iterator[IndentedLine]:
    name = _name_of(hit)
    called = f"  {one_line(name)}" if name else ""
    doubts = f"  ({hit.doubts})" if hit.doubts else ""
    number = f"{rank}  "
    place = one_line(_place(hit)), "green"
    cites = f"  {one_line(hit.cites)}" if hit.cites else ""
    yield line(number, place, (called, "bold"), (cites, "green"), (doubts, "yellow"), hang=len(number))
    yield from _answer(hit, terms)
    if hit.reply:
        yield line(f"{hit.reply.heading}: {_snippet(hit.reply.text)}", indent=3)
    for one in hit.more:
        yield line(
            "   ",
            (one_line(_place(one)), "green"),
            ("  " + one_line(one.symbol), "bold"),
            hang=3,
        )
        yield from _flags(one.flags)
        yield from _answer(one, terms)
    yield from _explained(rank, hit)


def _explained(rank: int, hit: ShownHit) -> Iterator[IndentedLine]:
    if hit.explain:
        yield line(
            (
                f"[{rank}] {kind_in_words(hit.kind)}, {hit.status}, trust {hit.trust}, {_name(hit.place, fenced=True)}",
                "dim",
            ),
            indent=3,
        )
        yield line(("because ", "dim"), f"score {hit.score:.3f}, {_value(hit.explain)}", indent=3)
        yield line((f"{hit.object_id} {hit.segment_id}".rstrip(), "dim"), indent=3)


def _name_of(hit: ShownHit) -> str:
    """Return the symbol or heading of a place in a file, else the title of the text and its kind."""
    if hit.first_line:
        return hit.symbol
    title = "" if hit.heading.startswith(hit.title) else hit.title
    names = filter(None, (title, hit.heading))
    shown = " — ".join(name for name in names if name != _place(hit))
    return f"{shown} ({kind_in_words(hit.kind)})".lstrip()


def _place(passage: ShownHit | ShownPassage) -> str:
    """Return the place of a passage in the form of editors: a path and a line if it is in a file.

    An id, or an offset in a text, is replaced by the file, such as a mail, or else by the title.
    """
    path, separator, _ = passage.place.rpartition("#L")
    if separator and passage.first_line:
        return f"{path}:{passage.first_line}"
    place = passage.place
    if isinstance(passage, ShownHit) and (place == passage.object_id or _OFFSET.search(place)):
        scheme, _, path = passage.origin.partition(":")
        return path.rpartition("#")[2] if scheme in _FILES else passage.title or place
    return place


def _flags(flags: Sequence[str]) -> Iterator[IndentedLine]:
    careful = [flag for flag in flags if flag != "cut"]  # visible in the text
    if careful:
        yield line((f"Warning: {', '.join(map(flag_in_words, careful))}", "yellow"), indent=2)


def _empty(empty: Empty | None, *, has_closest: bool) -> Iterator[IndentedLine]:
    if empty:
        reason, hint = _REASONS.get((empty.reason, bool(empty.count)), ("no passage answers this", empty.hint))
        if not has_closest:
            yield line((f"No results: {reason.format(empty.count)}.", "bold"))
        yield line(("hint: ", "yellow"), hint.format(empty.hint.rstrip(".")) or empty.hint)


def _listed(title: str, items: Sequence[str]) -> Iterator[IndentedLine]:
    if items:
        yield from (line(""), line((title.upper(), "bold cyan")))
        yield from (line(f"- {item}", hang=2) for item in items)


def _referrers(report: "PageReport", *, fenced: bool, verbose: bool) -> list[str]:
    named = [_referrer_line(one, fenced=fenced, verbose=verbose) for one in report.referrers]
    left = report.referrers_left_out
    return [*named, *([f"{left} more; --mode related lists them"] if left else [])]


def _referrer_line(one: "Referrer", *, fenced: bool, verbose: bool) -> str:
    state = shown_status(one.status, current=one.current, note=one.note)
    identity = _id(one.id, fenced=fenced, verbose=verbose)
    return (
        f"{_name(one.title, fenced=fenced)}  ({kind_in_words(one.kind)}, {state}; {', '.join(one.fields)})  {identity}"
    )


def _change(change: "HistoryEntry", *, fenced: bool, verbose: bool) -> str:
    why = f": {_name(change.reason, fenced=fenced)}" if change.reason else ""
    patch = f" ({change.patch_id})" if verbose else ""
    agent = " (agent)" if change.channel == "agent" else ""
    return f"{change.time[:19]}Z {change.event} by {_name(change.actor, fenced=fenced)}{agent}{patch}{why}"


def _name(text: str, *, fenced: bool) -> str:
    """Return a stored name on one line, quoted if a model may read the answer."""
    return label(text) if fenced else one_line(text)


def _id(identity: str, *, fenced: bool, verbose: bool) -> str:
    """Return a short id for people, and the whole id for a model or with `-v`."""
    return identity if fenced or verbose else short_id(identity)


def _with_short_ids(text: str, ids: Sequence[str]) -> str:
    for one in ids:
        text = text.replace(one, short_id(one))
    return text


def _quoted(text: str, origin: str, *, fenced: bool) -> str:
    return fence(text, origin=origin) if fenced else text


def _answer(passage: ShownHit | ShownPassage, terms: frozenset[str]) -> Iterator[IndentedLine]:
    """Show the lines of a passage that answer, with their numbers in a file; `…` replaces other lines."""
    for row in lines_shown_of(passage, terms, max_chars=limits.MAX_LINE_CHARS):
        if row.after_gap:
            yield line((f"{'…':>{_NUMBER_WIDTH if row.number else 4}}", "dim"))
        number = f"{row.number:>{_NUMBER_WIDTH}}  " if row.number else "   "
        yield line((number, "dim"), *_highlighted(row), hang=len(number))


def _highlighted(row: ShownLine) -> Iterator[tuple[str, str]]:
    done = 0
    for start, end in row.words:
        yield row.text[done:start], ""
        yield row.text[start:end], "bold red"
        done = end
    yield row.text[done:], ""


def _snippet(text: str) -> str:
    lines = [row for row in text.splitlines() if row.strip()]
    shown = "\n".join(lines[:_SNIPPET_LINES])[:_SNIPPET_CHARS]
    return shown if shown == "\n".join(lines) else f"{shown} …"


def _value(value: object) -> str:
    if not value:
        return ""
    is_list = isinstance(value, list) and all(isinstance(one, str) for one in value)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    text = "; ".join(value) if isinstance(value, list) and is_list else text
    return text if len(text) <= _VALUE_CHARS else f"{text[:_VALUE_CHARS]}…"


_BY_MODE: Mapping[str, Callable[..., Iterator[IndentedLine]]] = {
    "context": render_context,
    "brief": render_brief,
    "search": render_search,
    "expand": render_expanded,
    "page": render_page,
    "related": render_related,
    "recent": render_recent,
}
"""The renderers of the modes of `query`."""
