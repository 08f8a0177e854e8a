"""Names that only one object of a scope may bear: a source's origin, a node's slug."""

from treering.core.draft import Draft
from treering.core.errors import Conflict
from treering.core.objects import Node, Object, Source


def check_name_is_free(item: Object, draft: Draft) -> None:
    """Raise `Conflict` where another source has this origin, or another active node this slug, in the scope."""
    match item:
        case Source(scope=scope, origin=name) if item.status != "archived":
            twin = draft.view.source_by_origin(scope, name)
        case Node(scope=scope, kind=kind, slug=name) if item.status == "active":
            twin = draft.view.node_by_slug(scope, kind, name)
        case _:
            return
    known = draft.find(twin) if twin and twin != item.id else None
    if known and known.scope == scope and known.status not in {"archived", "merged"}:
        raise Conflict(
            f"{name!r} in {scope} is already {known.id}.",
            hint="Archive or merge one of the two first.",
            details={"id": known.id, "current": known.revision},
        )
