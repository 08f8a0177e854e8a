"""Notes that hold the declarations of people word for word, so that statements can cite them."""

from treering.ports.ledger import Head

ORIGIN = "declaration:"
"""What the origin of such a note begins with."""
_TITLE = "Declared by "


def declaration_title(actor: str, title: str) -> str:
    """Return the title of the note of a declaration."""
    return f"{_TITLE}{actor}: {title}"


def is_declaration(origin: str) -> bool:
    """Return whether a source holds a declaration, by its origin."""
    return origin.startswith(ORIGIN)


def declared_by(head: Head) -> str:
    """Return who declared what a source holds, and when, such as `declared by root, 2026-11-28`; "" for others."""
    if not is_declaration(head.origin):
        return ""
    actor = head.title.removeprefix(_TITLE).partition(": ")[0]
    return f"declared by {actor}, {head.updated_at.date().isoformat()}"
