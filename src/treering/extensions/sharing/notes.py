"""The content of a space as Markdown notes with front matter, for Obsidian, basic-memory and OKF readers.

One note for each current entry of knowledge, each work item, and each note or conversation. They repeat content of the
other files of an export, and an import ignores them.
"""

import json
import re
from collections.abc import Iterator, Sequence
from datetime import datetime
from pathlib import Path

from treering.core.canonical import digest, render_time
from treering.core.objects import (
    Constraint,
    Decision,
    Fact,
    Knowledge,
    Preference,
    Procedure,
    Source,
    WorkItem,
    title_of,
)
from treering.ports.ledger import Head, Ledger, Selection, head_of
from treering.system.machine import make_folder, write_new

Noted = Knowledge | WorkItem | Source

_TYPES = ("knowledge", "work_item", "source")
_SLUG_CHARS = 60
_ID_CHARS = 10
_SOURCE_KINDS = ("note", "conversation")
"""Other sources are files and pages that exist elsewhere."""
_PART = re.compile(r"(discussion:[^#]+)#(?P<first>\d+)")
"""The origin of a part of a discussion: it is stored in several sources, which end with their first message."""


def write_notes(ledger: Ledger, folder: Path) -> None:
    """Write the notes of a space into a folder, which is created. Raises `OSError`."""
    parts: dict[str, list[tuple[int, str]]] = {}
    for item in ledger.select(Selection(descend=True, types=_TYPES)):
        head = head_of(item)
        part = _PART.fullmatch(head.origin)
        if part and _has_note(head):
            parts.setdefault(_path(head), []).append((int(part["first"]), item.id))
        elif isinstance(item, Knowledge | WorkItem | Source) and _has_note(head):
            _write(ledger, folder, [item])
    for places in parts.values():
        items = (ledger.get(identity) for _, identity in sorted(places))
        _write(ledger, folder, [item for item in items if isinstance(item, Source)])


def _write(ledger: Ledger, folder: Path, items: Sequence[Noted]) -> None:
    path = folder / f"{_path(head_of(items[0]))}.md"
    make_folder(path.parent)
    write_new(path, _note(ledger, items).encode())


def _has_note(head: Head) -> bool:
    return head.status not in ("archived", "superseded") and (head.type != "source" or head.kind in _SOURCE_KINDS)


def _path(head: Head) -> str:
    slug = re.sub(r"[\W_]+", "-", head.title.lower())[:_SLUG_CHARS].strip("-")
    part = _PART.fullmatch(head.origin)
    name = digest(f"{head.scope} {part[1]}") if part else head.id
    return f"{head.kind}/{slug or 'untitled'}-{name[-_ID_CHARS:]}"


def _note(ledger: Ledger, items: Sequence[Noted]) -> str:
    """Return the note of an object, or of the sources that one discussion is stored in."""
    item, (created, updated) = items[0], _times(items)
    title = _in_line(title_of(item)) or item.kind
    matter = {
        "title": title,
        "type": item.kind,
        "permalink": _path(head_of(item)),
        "aliases": [title],
        "status": item.status,
        "scope": item.scope,
        "created": render_time(created),
        "updated": render_time(updated),
        "id": item.id,
    }
    # JSON values are valid YAML.
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in matter.items()]
    parts = ["\n".join(["---", *lines, "---"]), f"# {title}", *(text for one in items for text in _text(one))]
    if relations := list(_relations(ledger, item)):
        parts += ["## Relations", "\n".join(relations)]
    if isinstance(item, Knowledge) and (quotes := list(_quotes(ledger, item))):
        parts += ["## Sources", *quotes]
    return "\n\n".join(parts) + "\n"


def _times(items: Sequence[Noted]) -> tuple[datetime, datetime]:
    """Return the times of the first and the last message, or else of the records."""
    segments = (segment for item in items if isinstance(item, Source) for segment in item.segments)
    times = [at for segment in segments if (at := getattr(segment.locator, "at", None))]
    times = times or [time for item in items for time in (item.created_at, item.updated_at)]
    return min(times), max(times)


def _text(item: Noted) -> Iterator[str]:
    match item:
        case Source():
            for segment in item.segments:
                speaker, at = getattr(segment.locator, "speaker", ""), getattr(segment.locator, "at", None)
                author = f"**{_in_line(speaker)}**" if speaker else ""
                line = f"{author} {at:%Y-%m-%d %H:%M} UTC" if at else author
                yield "\n\n".join(filter(None, (line.strip(), _quoted(segment.excerpt))))
        case WorkItem():
            yield from (_quoted(text) for text in (item.summary, item.resolution) if text)
        case Knowledge():
            if item.summary and item.summary != item.title:
                yield _quoted(item.summary)
            yield from ("## Observations", "\n".join(f"- [{kind}] {_in_line(text)}" for kind, text in _stated(item)))


def _stated(item: Knowledge) -> Iterator[tuple[str, str]]:
    """Return the parts of the payload, each with its category."""
    match item.payload:
        case Decision() as decision:
            yield "question", decision.question
            if decision.outcome:
                yield "decision", decision.outcome
            yield from (("rationale", text) for text in (decision.rationale,) if text)
            yield from (("alternative", text) for text in decision.alternatives)
        case Constraint() as constraint:
            yield "constraint", constraint.rule
        case Preference() as preference:
            yield "preference", preference.statement
        case Fact() as fact:
            value = fact.object if fact.value is None else json.dumps(fact.value, ensure_ascii=False)
            yield "fact", f"{fact.subject} {fact.predicate} {value or ''}"
        case Procedure() as procedure:
            yield from (("step", step) for step in procedure.steps)
        case _:
            yield item.kind, item.title


def _relations(ledger: Ledger, item: Noted) -> Iterator[str]:
    """Return links to the objects that have a note of their own, in the syntax of basic-memory."""
    targets: list[tuple[str, str]] = [
        (link.type, link.target) for link in ledger.links(item.id) if link.source == item.id
    ]
    match item:
        case Knowledge():
            targets += [("derived_from", identity) for identity in item.derived_from]
            targets += [("supported_by", ref.source_id) for ref in item.evidence_refs if ref.role == "supports"]
        case WorkItem():
            targets += [("depends_on", identity) for identity in item.depends_on]
            targets += [("part_of", identity) for identity in (item.parent_ref,) if identity]
            targets += [("requested_by", identity) for identity in item.source_refs]
        case Source():
            pass
    heads = ledger.heads([identity for _, identity in targets])
    known = ((relation, heads[identity]) for relation, identity in targets if identity in heads)
    yield from dict.fromkeys(
        f"- {relation} {_wiki_link(head)}" for relation, head in known if head.type in _TYPES and _has_note(head)
    )


def _wiki_link(head: Head) -> str:
    label = re.sub(r"[\[\]|]", " ", _in_line(head.title))
    return f"[[{_path(head)}|{label}]]"


def _quotes(ledger: Ledger, item: Knowledge) -> Iterator[str]:
    refs = [(ref.source_id, ref.segment_id) for ref in item.evidence_refs]
    segments, heads = ledger.segments(refs), ledger.heads([source_id for source_id, _ in refs])
    for ref in item.evidence_refs:
        segment, head = segments.get((ref.source_id, ref.segment_id)), heads.get(ref.source_id)
        if segment and head:
            yield f"{_in_line(head.origin)}, {_in_line(ref.locator(segment).cite())}:\n\n{_quoted(ref.quote(segment))}"


def _in_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _quoted(text: str) -> str:
    """Return a text as a quotation, so that its lines are not read as statements of the note."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())
