"""How long names may be: titles, headings, slugs, actors, reasons.

Checked where something is written, never where it is read: spaces of older versions hold longer ones, and open and
read as before. What adapters find in files is `shortened`.
"""

from collections.abc import Iterable, Mapping

from treering.core.errors import InvalidInput
from treering.core.objects import Object, Source
from treering.core.patch import Author, Patch

TITLE = 1_000
HEADING = 1_000
NAME = 500
ACTOR = 200
REASON = 4_000

FIELDS: Mapping[str, int] = {
    "title": TITLE,
    "name": NAME,
    "slug": 8_000,
    "aliases": NAME,
    "origin": 8_000,
    "summary": 1_000_000,
    "resolution": 1_000_000,
    "artifact_refs": 8_000,
}
"""The longest a field of an object may be, in characters; of a list, each text in it."""


def shortened(text: str, most: int) -> str:
    """Cut a text to `most` characters, the last of which is `…` then."""
    return text if len(text) <= most else text[: most - 1] + "…"


def check_length(field: str, text: str, most: int) -> None:
    """Raise `InvalidInput` naming the field, its limit and its length, where a text is longer than it may be."""
    if len(text) > most:
        problem = f"it has {len(text)} characters, and {most} is the most"
        raise InvalidInput(
            f"{field}: {problem}.",
            hint="Shorten it, or put the long part into the text.",
            details={"fields": [{"field": field, "problem": problem}], "limit": most, "length": len(text)},
        )


def check_object(item: Object, *, changed: Iterable[str] = FIELDS, earlier: Object | None = None) -> None:
    """Check the fields of an object that are `changed`, and the headings of segments that `earlier` does not have."""
    for field in FIELDS.keys() & changed:
        value = getattr(item, field, "")
        for text in (value,) if isinstance(value, str) else value:
            check_length(field, text, FIELDS[field])
    if isinstance(item, Source):
        known = {part.heading for part in earlier.segments} if isinstance(earlier, Source) else set()
        for part in item.segments:
            if part.heading not in known:
                check_length("heading", part.heading, HEADING)


def check_patch(patch: Patch) -> None:
    """Check who writes a patch, and why."""
    check_decision(patch.source, patch.reason)


def check_decision(by: Author, reason: str) -> None:
    """Check who decides, and why."""
    check_length("actor", by.actor, ACTOR)
    check_length("tool", by.tool, ACTOR)
    check_length("reason", reason, REASON)
