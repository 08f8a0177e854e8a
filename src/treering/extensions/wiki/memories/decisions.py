"""Extract memories from an agent's structured result: stated decisions, and the structure of a wiki."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from treering.core.canonical import canonical_json, digest
from treering.extensions.client.items.documents import plain_value
from treering.extensions.wiki.memories.wiki_memory import (
    WikiMemoryDraft,
    WikiMemoryType,
)

MOST_DECISIONS = 50
"""The maximum number of memories from one result."""
_MOST_FILES = 200

_STATED = {
    "decisions": WikiMemoryType.STRUCTURAL_DECISION,
    "structural_decisions": WikiMemoryType.STRUCTURAL_DECISION,
    "patterns": WikiMemoryType.PATTERN_FOUND,
    "patterns_found": WikiMemoryType.PATTERN_FOUND,
    "cross_references": WikiMemoryType.CROSS_REFERENCE,
}
"""Fields of a result that state memories, and their type."""
_TEXT = ("content", "text", "decision", "pattern", "description", "summary")
_NAMES = ("title", "name", "id", "path")
_PURPOSE = ("purpose", "description", "summary")
_FILES = ("file_paths", "relevant_files", "files")
_PAGES = ("related_pages", "pages")


def decisions_of(result: object, source_agent: str) -> list[WikiMemoryDraft]:
    """Return the memories in a structured result: a model, a dataclass or a mapping.

    These are the entries of `decisions`, `patterns` and `cross_references`, each a text or an object with `content`,
    `file_paths` and `related_pages`, and the list of pages in a plan with `pages`. The text of pages is ignored.
    """
    fields = plain_value(result)
    if not isinstance(fields, Mapping):
        return []
    drafts = [*_stated(fields, source_agent), *_structures(fields, source_agent)]
    return [draft for draft in drafts if draft.content.strip()][:MOST_DECISIONS]


def decision_key(draft: WikiMemoryDraft) -> str:
    """Return the idempotency key of a decision; the same decision in another run has the same key."""
    parts = [draft.source_agent, draft.memory_type, draft.content, list(draft.file_paths), list(draft.related_pages)]
    return f"decision {digest(canonical_json(parts))}"


def _stated(fields: Mapping[str, Any], source_agent: str) -> Iterator[WikiMemoryDraft]:
    for field, kind in _STATED.items():
        for entry in _list(fields.get(field)):
            if isinstance(entry, str):
                yield WikiMemoryDraft(entry, kind, source_agent)
            elif isinstance(entry, Mapping):
                files, pages = _texts(entry, _FILES), _texts(entry, _PAGES)
                yield WikiMemoryDraft(_first(entry, _TEXT), kind, source_agent, files, pages)


def _structures(fields: Mapping[str, Any], source_agent: str) -> Iterator[WikiMemoryDraft]:
    for plan in (fields, fields.get("structure")):
        if isinstance(plan, Mapping) and (pages := _pages(plan)):
            yield WikiMemoryDraft(
                _outline(plan, pages),
                WikiMemoryType.STRUCTURAL_DECISION,
                source_agent,
                tuple(dict.fromkeys(path for page in pages for path in _texts(page, _FILES)))[:_MOST_FILES],
                tuple(_first(page, _NAMES) for page in pages),
            )


def _pages(plan: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the pages of a plan and its sections that have a name."""
    sections = [one for one in _list(plan.get("sections")) if isinstance(one, Mapping)]
    listed = [*_list(plan.get("pages")), *(page for one in sections for page in _list(one.get("pages")))]
    return [page for page in listed if isinstance(page, Mapping) and _first(page, _NAMES)]


def _outline(plan: Mapping[str, Any], pages: Sequence[Mapping[str, Any]]) -> str:
    """Describe a plan with one sentence per page, so that a long text is cut between pages."""
    named = f'"{title}" ' if (title := _first(plan, _NAMES)) else ""
    lines = [f"The wiki {named}has {len(pages)} pages."]
    for page in pages:
        name, purpose = _first(page, _NAMES), _first(page, _PURPOSE).rstrip(".")
        lines.append(f"{name}: {purpose}." if purpose else f"{name}.")
    return "\n".join(lines)


def _first(fields: Mapping[str, Any], names: Sequence[str]) -> str:
    return next((value.strip() for name in names if isinstance(value := fields.get(name), str) and value.strip()), "")


def _texts(fields: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    """Return the texts of the first field that is a list with texts; for objects, their paths or names."""
    for name in names:
        items = _list(fields.get(name))
        values = [_first(one, ("path", *_NAMES)) if isinstance(one, Mapping) else one for one in items]
        if texts := tuple(one for one in values if isinstance(one, str) and one.strip()):
            return texts
    return ()


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []
