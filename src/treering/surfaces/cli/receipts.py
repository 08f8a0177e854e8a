"""Receipts of writes in words, with the knowledge that became stale or contested."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from treering.core.audit import LINK_EVENTS
from treering.core.canonical import PREFIXES, is_object
from treering.core.characters import label, one_line
from treering.core.evidence import short_place
from treering.core.fencing import without_markers
from treering.core.objects import Source, kind_in_words, title_of
from treering.core.patch import TITLE, Create, PatchRecord, Receipt
from treering.ports.ledger import Head, Ledger
from treering.surfaces.cli.printing import IndentedLine, line
from treering.verbs.evidence.cited import cited_places
from treering.verbs.naming import is_recording
from treering.verbs.query.unconfirmed import KINDS
from treering.verbs.short_ids import short_id

if TYPE_CHECKING:
    from treering.verbs.crystallize.submission import WriteReport
    from treering.verbs.evidence.resolving import ResolvedEvidence

_MAX_OBJECTS = 20
"""Objects of one write that a receipt names."""
_MAX_DRIFTED = 5
"""Stale or contested titles on one line."""
_MAX_PLACES = 3
_TITLE_CHARS = 120
_LINE_CHARS = 60
_GONE = frozenset({"archived", "cancelled", "invalid"})
"""Statuses of objects that a revert ended."""
_CREATED = {"decision": "Decided", "source": "Read"}
_KNOWN = {
    "decision": "Already decided",
    "constraint": "Already a rule",
    "preference": "Already a preference",
    "fact": "Already a fact",
}
_EVENTS = {
    "staled": "Now stale",
    "contested": "Now contested",
    "reverted": "Undone",
    "superseded": "Replaced",
    "replaced_here": "Replaced on this branch until a merge",
    "evidence_lost": "Lost evidence on a branch",
}
_STATUSES = {"resolved": "Done", "closed": "Done", "active": "Confirmed", "archived": "Archived"}


def change_in_words(event: str, head: Head) -> str:
    """Return the event of an object as the first words of a line, such as `Decided` or `Now stale`."""
    if event == "created":
        decided = "" if head.status == "candidate" else _CREATED.get(head.kind)
        return decided or _CREATED.get(head.type) or kind_in_words(head.kind).capitalize()
    if event == "reverted" and head.status not in _GONE:
        return "Restored"
    if event == "transitioned":
        return _STATUSES.get(head.status, f"Now {head.status.replace('_', ' ')}")
    return _EVENTS.get(event, event.replace("_", " ").capitalize())


def render_receipt(
    ledger: Ledger,
    receipt: Receipt,
    *,
    actor: str,
    evidence: "Sequence[ResolvedEvidence]" = (),
    verbose: bool = False,
) -> Iterator[IndentedLine]:
    """Show each changed object with its evidence, then the knowledge that became stale or contested.

    `actor`: the user who would undo it.
    """
    changed = [one for one in receipt.results if one.outcome not in {"unchanged", "duplicate"}]
    known = [one.id for one in receipt.results if one.outcome == "duplicate"]
    known = known or [one.id for one in receipt.results if not changed][:1]
    for head in ledger.heads(known).values():
        is_new = evidence and any(one.patch_id == receipt.patch_id for one in ledger.events_of(head.id))
        added = f" (new evidence: {', '.join(map(_as_typed, evidence))})" if is_new else ""
        added += " (reason updated)" if any(one.id == head.id for one in changed) else ""
        undo = f". Undo with: {_undo(ledger, receipt, actor)}" if added else ""
        what = _KNOWN.get(head.kind, "Already known")
        yield line((f"{what}: ", "bold"), one_line(head.title, most=TITLE), added, undo)
    if known and all(one.outcome != "created" or _is_source(one.id) for one in changed):
        return
    objects = _objects(ledger, receipt)
    replaced = [head.title for event, head in objects if event == "superseded"]
    new = [one for one in objects if one[0] == "created"]
    if new and replaced:
        objects = new
    for number, (event, head) in enumerate(objects[:_MAX_OBJECTS], start=1):
        places = [_as_typed(one, head.title) for one in evidence] if len(new) == 1 else _places(ledger, head.id)
        based = f" ({', '.join(places)})" if places and event == "created" else ""
        instead = f", instead of: {'; '.join(map(one_line, replaced))}" if new and replaced else ""
        what = f"{one_line(head.title, most=TITLE)}{based}{instead}"
        end = "" if what.endswith((".", "!", "?")) else "."
        undo = f"{end} Undo with: {_undo(ledger, receipt, actor)}" if number == min(len(objects), _MAX_OBJECTS) else ""
        waits = ". It waits for confirmation: treering review list" if _waits(event, head) else ""
        yield line((f"{change_in_words(event, head)}: ", "bold"), what, undo, waits)
        if verbose:
            yield line((f"{head.id}, {head.status}, revision {head.revision}", "dim"), indent=2)
    if len(objects) > _MAX_OBJECTS:
        yield line(f"and {len(objects) - _MAX_OBJECTS} more", indent=2)
    if receipt.replayed:
        yield line("This idempotency key was used before, so nothing was written again.")
    if verbose:
        yield line((f"{receipt.patch_id}, audit {receipt.sequence}", "dim"), indent=2)
    yield from render_drift(ledger, receipt.staled, receipt.contested)


def render_write(ledger: Ledger, report: "WriteReport", *, actor: str, verbose: bool = False) -> Iterator[IndentedLine]:
    """Show the written objects, or those that wait for review."""
    if report.receipt:
        yield from render_receipt(ledger, report.receipt, actor=actor, evidence=report.evidence, verbose=verbose)
    elif report.status == "proposed":
        based = f" ({', '.join(map(_as_typed, report.evidence))})" if report.evidence else ""
        what = titles_of_patch(ledger, ledger.patch(report.patch_id))
        yield line(("Waiting for review: ", "bold"), what, based, ". See: treering review list")
        if verbose:
            yield line((report.patch_id, "dim"), indent=2)
    if report.possible_duplicates:
        yield line(("Similar: ", "yellow"), _quoted_titles(ledger, report.possible_duplicates))


def titles_of_patch(ledger: Ledger, record: PatchRecord) -> str:
    """Return the titles of the objects that a patch changes."""
    new = [one.object for one in record.operations if isinstance(one, Create)]
    stated = [one for one in new if not isinstance(one, Source)] or new
    known = [one.id for one in record.operations if hasattr(one, "id")]
    known += [one.target for one in record.effects if is_object(one.target)]
    titles = [title_of(one) for one in stated] or [one.title for one in _stated(ledger, known)]
    shown = "; ".join(one_line(one, most=_TITLE_CHARS) for one in list(dict.fromkeys(titles))[:_MAX_DRIFTED])
    return f"{shown} and {len(titles) - _MAX_DRIFTED} more" if len(titles) > _MAX_DRIFTED else shown


def render_reverted(ledger: Ledger, receipt: Receipt, patch: str, *, verbose: bool = False) -> Iterator[IndentedLine]:
    """Show the change that was reverted: its objects, or a repair of `lint`; then the restored objects."""
    record = ledger.patch(patch)
    heads = _stated(ledger, [one.id for one in receipt.results if is_object(one.id)])
    gone = _titles(one for one in heads if one.status in _GONE)
    restored = _titles(one for one in heads if one.status not in _GONE)
    if record.source.tool == "wiki.lint" and record.reason:
        gone = one_line(record.reason, most=_TITLE_CHARS)
    yield line(("Undone: ", "bold"), gone or restored or patch)
    if gone and restored:
        yield line(("Restored: ", "bold"), restored)
    if verbose:
        yield line((f"{patch}, reverted by {receipt.patch_id}, audit {receipt.sequence}", "dim"), indent=2)
    yield from render_drift(ledger, receipt.staled, receipt.contested)


def render_drift(ledger: Ledger | None, staled: Sequence[str], contested: Sequence[str]) -> Iterator[IndentedLine]:
    """Show the titles of knowledge that became stale or contested; its ids without a ledger."""
    for identity in staled[:_MAX_DRIFTED]:
        gone = _places(ledger, identity)
        why = f" ({', '.join(gone)} changed)" if gone else ""
        yield line(("Now stale: ", "yellow"), _title(ledger, identity), why, ". See: treering lint")
    if len(staled) > _MAX_DRIFTED:
        yield line(("Now stale: ", "yellow"), f"{len(staled) - _MAX_DRIFTED} more. See: treering lint")
    if contested:
        yield line(("Now contested: ", "yellow"), _quoted_titles(ledger, contested), ". See: treering lint")


def _undo(ledger: Ledger, receipt: Receipt, actor: str) -> str:
    """Return the command that reverts a patch: without an id for the last record of its user."""
    patch = ledger.patch(receipt.patch_id)
    is_last = patch.source.actor == actor and patch.source.channel != "adapter" and is_recording(patch)
    return "treering undo" if is_last else f"treering undo {short_id(receipt.patch_id)}"


def _objects(ledger: Ledger, receipt: Receipt) -> list[tuple[str, Head]]:
    """Return the objects of a patch with their events, new objects first.

    The note that stores a declaration is left out: its author recorded the declared object.
    """
    changed = [one.id for one in receipt.results if one.outcome not in {"unchanged", "duplicate"}]
    happened = {}
    for head in _stated(ledger, changed):
        events = [one.event_type for one in ledger.events_of(head.id) if one.patch_id == receipt.patch_id]
        event = next((one for one in events if one not in LINK_EVENTS), "updated" if events else "replaced_here")
        happened[head.id] = (event, head)
    return sorted(happened.values(), key=lambda one: one[0] != "created")


def _waits(event: str, head: Head) -> bool:
    return event == "created" and head.status == "candidate" and head.kind in KINDS


def _is_source(identity: str) -> bool:
    return identity.startswith(f"{PREFIXES['source']}:")


def _stated(ledger: Ledger, ids: Sequence[str]) -> list[Head]:
    heads = list(ledger.heads(dict.fromkeys(ids)).values())
    return [one for one in heads if one.type != "source"] or heads


def _titles(heads: Iterable[Head]) -> str:
    return "; ".join(one_line(one, most=_TITLE_CHARS) for one in dict.fromkeys(one.title for one in heads))


def _title(ledger: Ledger | None, identity: str) -> str:
    head = ledger.heads([identity]).get(identity) if ledger else None
    return label(head.title) if head else identity


def _quoted_titles(ledger: Ledger | None, ids: Sequence[str]) -> str:
    more = f" and {len(ids) - _MAX_DRIFTED} more" if len(ids) > _MAX_DRIFTED else ""
    return ", ".join(dict.fromkeys(_title(ledger, one) for one in ids[:_MAX_DRIFTED])) + more


def _places(ledger: Ledger | None, identity: str) -> Sequence[str]:
    """Return the first places in the evidence of knowledge."""
    if ledger is None or not identity.startswith(f"{PREFIXES['knowledge']}:"):
        return ()
    return cited_places(ledger, ledger.get(identity))[:_MAX_PLACES]


def _as_typed(one: "ResolvedEvidence", about: str = "") -> str:
    """Return a place with its line that shares most words with a statement, so that a wrong line number is noticed."""
    from treering.retrieval.text.analysis import telling_terms

    place = ", ".join(filter(None, (short_place(one.place), one.remark)))
    terms, lines = frozenset(telling_terms(about)), [line.strip().strip('"') for line in one.quote.splitlines()]
    line = max(
        filter(None, lines), key=lambda one: (len(terms.intersection(telling_terms(one))), _has_words(one)), default=""
    )
    return f'{place}: "{without_markers(one_line(line, most=_LINE_CHARS))}"' if line else place


def _has_words(line: str) -> bool:
    return bool(re.search(r"[^\W\d_]{2}", line)) and not re.match(r"(?:import|from|use|#include)\b", line)
