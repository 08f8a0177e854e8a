"""Names that only one object of a scope may bear: a source's origin, a node's slug."""

from treering.core.draft import Draft
from treering.core.errors import Conflict
from treering.core.objects import Node, Object, Source, name_held


def bearer_of(item: Source | Node, draft: Draft) -> Source | Node | None:
    """Return the other object that bears the name of `item` as the patch has left it so far, or `None`."""
    name = name_held(item)
    if name is None:
        return None
    held = _bearer_before(item, draft)
    for identity in (*([held] if held else []), *draft.bearers.get(name, ())):
        other = draft.find(identity)
        if isinstance(other, Source | Node) and other.id != item.id and name_held(other) == name:
            return other
    return None


def check_name_is_free(item: Object, draft: Draft) -> None:
    """Raise `Conflict` where another source has this origin, or another active node this slug, in the scope."""
    if not isinstance(item, Source | Node) or name_held(item) is None:
        return
    if known := bearer_of(item, draft):
        raise Conflict(
            f"{known.origin if isinstance(known, Source) else known.slug!r} in {known.scope} is already {known.id}.",
            hint="Archive or merge one of the two first.",
            details={"id": known.id, "current": known.revision},
        )


def _bearer_before(item: Source | Node, draft: Draft) -> str | None:
    if isinstance(item, Source):
        return draft.view.source_by_origin(item.scope, item.origin)
    return draft.view.node_by_slug(item.scope, item.kind, item.slug)
