"""Sessions and nested contexts, and the scopes they lie in.

A session is a scope below `/session`; a nested context is a scope below that of its parent, so that a read there sees
the parent, and a read in the parent does not see it. Its session id is the parent's, `>`, and the id of the loop.
"""

import re
from dataclasses import dataclass

from treering.core.canonical import digest
from treering.core.scope import ROOT, parse_scope

_HOME = "/session"
_NESTED = ">"
_PLAIN = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class NestedContext:
    """The memory of one nested loop: `session_id` is what its memories are stored and retrieved with."""

    session_id: str
    parent_session_id: str | None
    loop_id: str

    @property
    def scope(self) -> str:
        """The scope its memories lie in."""
        return scope_of(self.session_id)


def nested_context(parent_session_id: object | None, loop_id: object) -> NestedContext:
    """Return the nested context of a loop; the same parent and loop are the same context in every process.

    Raises `InvalidInput` where contexts are nested deeper than a scope may be.
    """
    parent = session_text(parent_session_id)
    loop = str(loop_id).replace("%", "%25").replace(_NESTED, "%3E")
    context = NestedContext(f"{parent or ''}{_NESTED}{loop}", parent, str(loop_id))
    parse_scope(context.scope)
    return context


def session_text(session_id: object | None) -> str | None:
    """Return a session id as text; `None` where there is none."""
    text = "" if session_id is None else str(session_id)
    return text or None


def is_nested(session_id: str | None) -> bool:
    """Tell whether a session id is that of a nested context."""
    return session_id is not None and _NESTED in session_id


def scope_of(session_id: str | None) -> str:
    """Return the scope of a session or nested context; the root for what belongs to none."""
    if session_id is None:
        return ROOT
    return "/".join([_HOME, *map(scope_part, session_id.split(_NESTED))])


def scope_part(text: str) -> str:
    """Return an id as one part of a scope. An id that cannot be one is replaced by a digest of it."""
    return text if _PLAIN.fullmatch(text) else f"~{digest(text)}"
