"""Merging and discarding nested contexts: their memories move to the parent, or are archived."""

from typing import TypeGuard

from treering.core.filters import Compare
from treering.core.objects import Activity, Object, Source
from treering.core.patch import TITLE, AddLink, Create, Link, MoveScope, Operation, Transition, Update, shortened
from treering.extensions.client.items.documents import CONTEXT, PART_OF, PREFIX, NestedContext, is_nested, scope_of
from treering.extensions.client.items.recalling import Who
from treering.ports.ledger import ObjectRequest, Selection
from treering.verbs.crystallize.drafting import draft_activity
from treering.verbs.crystallize.submission import apply_directly
from treering.verbs.engine import Engine
from treering.verbs.envelope import Call


def merge(engine: Engine, context: NestedContext, who: Who) -> int:
    """Move the memories of a nested context that `who` sees to its parent; return their number.

    Each gets `part_of`: the context in its metadata, and a link to the activity of the context. Contexts nested in it
    stay as they are. Without memories to move, nothing is written.
    """
    held = _held(engine, context, who)
    if not held:
        return 0
    parent = scope_of(context.parent_session_id)
    activity = _activity(engine, context, parent)
    operations: list[Operation] = [Create(object=activity)]
    for item in held:
        if _is_memory(item):
            changes = {"metadata": _merged(item, context)}
            operations.append(Update(id=item.id, expected_revision=item.revision, changes=changes))
            operations.append(AddLink(link=Link(type="part_of", source=item.id, target=activity.id)))
        operations.append(MoveScope(id=item.id, expected_revision=item.revision, to=parent))
    apply_directly(engine, "/", operations, what="The memory client", reason=f"Merged nested context {context.loop_id}")
    return sum(map(_is_memory, held))


def discard(engine: Engine, context: NestedContext, who: Who) -> int:
    """Archive the memories that `who` sees in a nested context and those nested in it; return their number."""
    held = [item for item in _held(engine, context, who, below=True) if _is_memory(item)]
    operations = [Transition(id=item.id, expected_revision=item.revision, to="archived") for item in held]
    if operations:
        apply_directly(
            engine, "/", operations, what="The memory client", reason=f"Discarded nested context {context.loop_id}"
        )
    return len(held)


def _held(engine: Engine, context: NestedContext, who: Who, *, below: bool = False) -> list[Object]:
    """Return the objects in a context that `who` sees and that are not archived, oldest first.

    Of the activities of contexts that were merged into it, only those with a memory that `who` sees.
    """
    where = Compare("scope", "prefix" if below else "eq", context.scope)
    selected = [
        item
        for item in engine.ledger.select(Selection(context.scope, descend=below, where=where))
        if item.status != "archived" and _is_in(item.scope, context, below)
    ]
    sources = {item.id for item in selected if isinstance(item, Source) and who.sees(item)}
    others = tuple(item.id for item in selected if not isinstance(item, Source))
    (read,) = engine.ledger.read([ObjectRequest(links=others)])
    merged = {one for one in others if any(link.source in sources for link in read.links.get(one, ()))}
    return [item for item in selected if item.id in sources | merged]


def _is_memory(item: Object) -> TypeGuard[Source]:
    return isinstance(item, Source) and item.origin.startswith(PREFIX)


def _is_in(scope: str, context: NestedContext, below: bool) -> bool:
    return scope == context.scope or (below and scope.startswith(f"{context.scope}/"))


def _merged(item: Source, context: NestedContext) -> dict[str, object]:
    metadata = {name: value for name, value in item.metadata.items() if name != CONTEXT}
    if is_nested(context.parent_session_id):
        metadata[CONTEXT] = context.parent_session_id
    return {**metadata, PART_OF: context.session_id}


def _activity(engine: Engine, context: NestedContext, scope: str) -> Activity:
    title = shortened(f"Nested context {context.loop_id}", TITLE)
    fields = {"kind": "episode", "status": "finalized", "title": title, "ended_at": engine.clock.now()}
    return draft_activity(Call(engine, scope), fields)
