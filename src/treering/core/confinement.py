"""What a patch made at a scope may name and change.

It may name what a read at its scope sees: the scope, its ancestors, and what lies below. It may change what lies at
its scope or below. What lies elsewhere is not there for it: an id from elsewhere is answered as an id nobody has.
What a change brings with it (knowledge that loses its support, claims that contradict) is settled in all scopes.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from treering.core.draft import View
from treering.core.errors import Denied
from treering.core.objects import Object
from treering.core.patch import (
    AddLink,
    Create,
    Erase,
    Link,
    Merge,
    MoveScope,
    Operation,
    Patch,
    RemoveLink,
    Supersede,
    Transition,
    Update,
)
from treering.core.references import references_of
from treering.core.scope import is_within, sees


def confined(patch: Patch, view: View) -> View:
    """Return the view in which a patch is planned. Raises `Denied` where it would change what lies above its scope."""
    scope = patch.scope
    if scope is None:
        return view
    named = {identity for operation in patch.operations for identity in named_in(operation, view)}
    found = {identity: where for identity in named if (where := view.scope_of(identity)) is not None}
    hidden = frozenset(identity for identity, where in found.items() if not sees(scope, where, descend=True))
    for operation in patch.operations:
        _check_place(operation, scope, {identity: found[identity] for identity in found.keys() - hidden})
    return _Confined(view, hidden) if hidden else view


def _check_place(operation: Operation, scope: str, found: Mapping[str, str]) -> None:
    match operation:
        case Create(object=item):
            _require(item.id, item.scope, scope)
        case MoveScope(id=identity, to=to):
            _require(identity, found.get(identity, scope), scope)
            _require(identity, to, scope)
        case Merge(id=identity, into=into):
            _require(identity, found.get(identity, scope), scope)
            _require(into, found.get(into, scope), scope)
        case AddLink(link=link) | RemoveLink(link=link):
            # A link belongs to both of its ends: one of them has to be the call's to change.
            if not any(is_within(found.get(end, scope), scope) for end in (link.source, link.target)):
                _require(link.source, found.get(link.source, scope), scope)
        case Update(id=identity) | Transition(id=identity) | Supersede(id=identity) | Erase(id=identity):
            _require(identity, found.get(identity, scope), scope)


def _require(identity: str, where: str, scope: str) -> None:
    if not is_within(where, scope):
        raise Denied(
            f"A call at the scope {scope} may not change {identity}, which lies in {where}.",
            hint=f"Repeat the call at the scope {where}.",
            details={"id": identity, "scope": where},
        )


class Known(Protocol):
    """What knows the objects that there are."""

    def get(self, identity: str) -> Object | None:
        """Return the current revision, or `None`."""
        ...


def named_in(operation: Operation, view: Known) -> Iterable[str]:
    """Return the ids an operation names, but for those its object refers to already."""
    match operation:
        case Create(object=item):
            return references_of(item)
        case Update(id=identity, changes=changes):
            return (identity, *_fresh_references(identity, changes, view))
        case Merge(id=identity, into=into):
            return (identity, into)
        case Supersede(id=identity, by=by):
            return (identity, by)
        case AddLink(link=link) | RemoveLink(link=link):
            return (link.source, link.target)
        case Transition(id=identity) | MoveScope(id=identity) | Erase(id=identity):
            return (identity,)


def _fresh_references(identity: str, changes: Mapping[str, Any], view: Known) -> set[str]:
    given = set(_texts([value for name, value in changes.items() if name.endswith(_REFERRING)]))
    item = view.get(identity) if given else None
    return given - set(references_of(item)) if item else given


def _texts(value: object) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for part in value.values():
                yield from _texts(part)
        case list() | tuple():
            for part in value:
                yield from _texts(part)
        case _:
            yield from filter(None, [getattr(value, "source_id", "")])


_REFERRING = ("_refs", "_ref", "_from", "_on", "_by")
"""How the names of fields end that refer to objects (`core.references`)."""


class _Confined:
    """A view in which some objects are not there."""

    def __init__(self, view: View, hidden: frozenset[str]) -> None:
        self._view = view
        self._hidden = hidden

    def get(self, identity: str) -> Object | None:
        """Return the current revision, or `None`."""
        return None if identity in self._hidden else self._view.get(identity)

    def revision(self, identity: str, number: int) -> Object | None:
        """Return one revision, or `None`."""
        return None if identity in self._hidden else self._view.revision(identity, number)

    def exists(self, identity: str) -> bool:
        """Tell whether an object has this id."""
        return identity not in self._hidden and self._view.exists(identity)

    def scope_of(self, identity: str) -> str | None:
        """Return the scope of an object, or `None`."""
        return None if identity in self._hidden else self._view.scope_of(identity)

    def ever_existed(self, identity: str) -> bool:
        """Tell whether an object has or once had this id."""
        return self._view.ever_existed(identity)

    def source_by_origin(self, scope: str, origin: str) -> str | None:
        """Return the id of the source with this origin in this scope that is not archived."""
        return self._view.source_by_origin(scope, origin)

    def node_by_slug(self, scope: str, kind: str, slug: str) -> str | None:
        """Return the id of the active node with this slug."""
        return self._view.node_by_slug(scope, kind, slug)

    def knowledge_by_duplicate_key(self, key: str) -> Sequence[str]:
        """Return ids of knowledge with this key, oldest first."""
        return self._view.knowledge_by_duplicate_key(key)

    def knowledge_by_claim_key(self, key: str) -> Sequence[str]:
        """Return ids of facts with this key, oldest first."""
        return self._view.knowledge_by_claim_key(key)

    def dependents(self, identity: str) -> Sequence[str]:
        """Return ids of knowledge that names this id, in order."""
        return self._view.dependents(identity)

    def links_of(self, identity: str) -> Sequence[Link]:
        """Return the links that start or end here, but for those with an end that is not there."""
        return [link for link in self._view.links_of(identity) if self._hidden.isdisjoint((link.source, link.target))]

    def segment_text(self, source_id: str, segment_id: str) -> str | None:
        """Return the words a segment id has ever named, or `None`."""
        return None if source_id in self._hidden else self._view.segment_text(source_id, segment_id)
