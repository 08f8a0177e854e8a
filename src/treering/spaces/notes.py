"""The content of a space as Markdown notes with front matter, for Obsidian, basic-memory and OKF readers.

One note for each entry of knowledge, each work item, and each note or conversation. They repeat content of the other
files of an export, and an import ignores them.
"""

import json
import re
from collections.abc import Iterator
from pathlib import Path

from treering.core.canonical import render_time
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
from treering.ports.ledger import Head, Ledger, Selection
from treering.system.machine import make_folder, write_new

Noted = Knowledge | WorkItem | Source

_TYPES = ("knowledge", "work_item", "source")
_SLUG_CHARS = 60
_ID_CHARS = 10
_SOURCE_KINDS = ("note", "conversation")
"""Other sources are files and pages that exist elsewhere."""


def write_notes(ledger: Ledger, folder: Path) -> None:
    """Write the notes of a space into a folder, which is created. Raises `OSError`."""
    for item in ledger.select(Selection(descend=True, types=_TYPES)):
        if isinstance(item, Knowledge | WorkItem | Source) and _has_note(item.type, item.kind, item.status):
            path = folder / f"{_path(item.id, item.kind, title_of(item))}.md"
            make_folder(path.parent)
            write_new(path, _note(ledger, item).encode())


def _has_note(type_: str, kind: str, status: str) -> bool:
    return status != "archived" and (type_ != "source" or kind in _SOURCE_KINDS)


def _path(identity: str, kind: str, title: str) -> str:
    slug = re.sub(r"[\W_]+", "-", title.lower())[:_SLUG_CHARS].strip("-")
    return f"{kind}/{slug or 'untitled'}-{identity[-_ID_CHARS:]}"


def _note(ledger: Ledger, item: Noted) -> str:
    title = _in_line(title_of(item)) or item.kind
    matter = {
        "title": title,
        "type": item.kind,
        "permalink": _path(item.id, item.kind, title_of(item)),
        "aliases": [title],
        "status": item.status,
        "scope": item.scope,
        "created": render_time(item.created_at),
        "updated": render_time(item.updated_at),
        "id": item.id,
    }
    # JSON values are valid YAML.
    lines = [f"{key}: {json.dumps(value, ensure_ascii=False)}" for key, value in matter.items()]
    parts = ["\n".join(["---", *lines, "---"]), f"# {title}", *_text(item)]
    if relations := list(_relations(ledger, item)):
        parts += ["## Relations", "\n".join(relations)]
    if isinstance(item, Knowledge) and (quotes := list(_quotes(ledger, item))):
        parts += ["## Sources", *quotes]
    return "\n\n".join(parts) + "\n"


def _text(item: Noted) -> Iterator[str]:
    match item:
        case Source():
            for segment in item.segments:
                speaker = getattr(segment.locator, "speaker", "")
                yield f"**{_in_line(speaker)}**\n\n{_quoted(segment.excerpt)}" if speaker else _quoted(segment.excerpt)
        case WorkItem():
            yield from (_quoted(text) for text in (item.summary, item.resolution) if text)
        case Knowledge():
            if item.summary and item.summary != item.title:
                yield _quoted(item.summary)
            yield from ("## Observations", "\n".join(f"- [{kind}] {_in_line(text)}" for kind, text in _stated(item)))


def _stated(item: Knowledge) -> Iterator[tuple[str, str]]:
    """Return what the payload states, each part with its category."""
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
    for relation, identity in dict.fromkeys(targets):
        head = heads.get(identity)
        if head and head.type in _TYPES and _has_note(head.type, head.kind, head.status):
            yield f"- {relation} {_wiki_link(head)}"


def _wiki_link(head: Head) -> str:
    label = re.sub(r"[\[\]|]", " ", _in_line(head.title))
    return f"[[{_path(head.id, head.kind, head.title)}|{label}]]"


def _quotes(ledger: Ledger, item: Knowledge) -> Iterator[str]:
    refs = [(ref.source_id, ref.segment_id) for ref in item.evidence_refs]
    segments, heads = ledger.segments(refs), ledger.heads([source_id for source_id, _ in refs])
    for source_id, segment_id in refs:
        segment, head = segments.get((source_id, segment_id)), heads.get(source_id)
        if segment and head:
            yield f"{_in_line(head.origin)}, {_in_line(segment.locator.cite())}:\n\n{_quoted(segment.excerpt)}"


def _in_line(text: str) -> str:
    return " ".join("".join(char if char.isprintable() else " " for char in text).split())


def _quoted(text: str) -> str:
    """Return a text as a quotation, so that its lines are not read as statements of the note."""
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())
