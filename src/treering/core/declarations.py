"""Notes that hold the declarations of people word for word, so that statements can cite them."""

from datetime import datetime

ORIGIN = "declaration:"
"""The beginning of the origin of such a note."""
_TITLE = "Declared by "


def declaration_title(actor: str, title: str) -> str:
    """Return the title of the note of a declaration."""
    return f"{_TITLE}{actor}: {title}"


def is_declaration(origin: str) -> bool:
    """Return whether a source holds a declaration, by its origin."""
    return origin.startswith(ORIGIN)


def declared_by(title: str, updated_at: datetime) -> str:
    """Return the author and day of a declaration, such as `declared by root, 2026-11-28`, by the title of its note."""
    actor = title.removeprefix(_TITLE).partition(": ")[0]
    return f"declared by {actor}, {updated_at.date().isoformat()}"
