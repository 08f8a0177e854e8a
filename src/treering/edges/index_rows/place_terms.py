"""Index terms of where a passage stands: its scopes, and the role of its place.

An underscore in front keeps them apart from every word: no term of a text begins with one.
"""

from hashlib import blake2b

from treering.core.scope import lineage
from treering.derived.roles import NO_PLACE
from treering.ports.passages import Passage
from treering.ports.reach import Reach


def place_terms(passage: Passage) -> list[str]:
    """Return the terms of a passage: its scope itself, each scope that it lies within, the role of its place."""
    scopes = scope_terms(passage.scope)
    return scopes if passage.place_role == NO_PLACE else [*scopes, role_term(passage.place_role)]


def scope_terms(scope: str) -> list[str]:
    """Return the terms of a scope: one for itself, one for each scope that it lies within."""
    return [_exact(scope), *map(_within, lineage(scope))]


def seen_terms(reach: Reach) -> list[str]:
    """Return the terms of scopes of which a passage has to have one to be in reach."""
    terms = [_exact(scope) for scope in lineage(reach.scope)]
    return [*terms, _within(reach.scope)] if reach.descend else terms


def role_term(role: str) -> str:
    """Return the index term of a role of places, which equals no scope's."""
    return f"_{role}"


def _exact(scope: str) -> str:
    return "_" + _opaque("=" + scope)


def _within(scope: str) -> str:
    return "_" + _opaque("<" + scope)


def _opaque(text: str) -> str:
    return blake2b(text.encode(), digest_size=6).hexdigest()
