"""Names that only one object of a scope may bear: a source's origin, a node's slug."""

from treering.core.draft import Draft
from treering.core.errors import Conflict
from treering.core.objects import Node, Object, Source


def bearer_of(item: Source | Node, draft: Draft) -> Source | Node | None:
    """Return the other object that bears the name of `item` as the patch has left it so far, or `None`."""
    held = _bearer_before(item, draft)
    others = (draft.find(identity) for identity in ([held] if held else []))
    for other in (*others, *draft.objects.values()):
        if isinstance(other, Source | Node) and other.id != item.id and _name(other) == _name(item):
            return other
    return None


def check_name_is_free(item: Object, draft: Draft) -> None:
    """Raise `Conflict` where another source has this origin, or another active node this slug, in the scope."""
    if not isinstance(item, Source | Node) or _name(item) is None:
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


def _name(item: Source | Node) -> tuple[str, ...] | None:
    """Return what no other may be called, with the scope; `None` for what has given its name up."""
    if isinstance(item, Source):
        return (item.scope, item.origin) if item.status != "archived" else None
    return (item.scope, item.kind, item.slug) if item.status == "active" else None
