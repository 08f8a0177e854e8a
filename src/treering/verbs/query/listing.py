"""Objects that pass a filter, newest first: a search without words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from treering.core.errors import InvalidInput
from treering.core.filters import METADATA, And, Compare, Filter, Or, comparisons
from treering.core.objects import Object, Source, WorkItem, title_of
from treering.core.policy import CURRENT
from treering.ports.ledger import Altered, Selection, head_of
from treering.ports.passages import PassageHead, Reach
from treering.retrieval.index.passages import is_withheld, passages_of
from treering.retrieval.search.fusion import Fused
from treering.retrieval.search.retrieval import Hit
from treering.retrieval.search.trust import Trusted, trust_in
from treering.verbs.envelope import Call
from treering.verbs.scoped_ledger import whole
from treering.verbs.trees import REPLACED, notes_of_objects
from treering.verbs.work_order import named_work, unfinished_before

_NO_KEY = -1
"""The key of a passage that was not looked up in the index."""


@dataclass(frozen=True, slots=True)
class Listing:
    """Objects as hits, newest first."""

    hits: tuple[Hit, ...]
    notes: Mapping[str, str]
    """By id, why an object is not current in the requested tree."""
    has_more: bool
    scopes: frozenset[str]
    """The scopes of the newest objects that pass the filter, those below the read one included."""
    altered: Altered


def listing(call: Call, reach: Reach, *, limit: int) -> Listing:
    """List the newest objects in reach. Raises `InvalidInput` for a filter by a field of passages."""
    _check_fields(reach.where)
    altered: Altered = {}
    items, notes = _newest(call, reach, limit + 1, altered)
    hits = hits_of(call, items[:limit], reach)
    return Listing(tuple(hits), notes, len(items) > limit, _scopes(call, reach, limit + 1), altered)


def hits_of(call: Call, items: Sequence[Object], reach: Reach) -> list[Hit]:
    """Return objects as hits that no search found, each with its first passage."""
    ledger = call.engine.ledger
    trusted = trust_in({item.id: (item.origin_channel, item.status) for item in items}, ledger.policy)
    waiting = unfinished_before(ledger, [item for item in items if isinstance(item, WorkItem)], as_of=reach.at)
    return [_hit(item, trusted[item.id], named_work(waiting.get(item.id, ()))) for item in items]


def _newest(call: Call, reach: Reach, most: int, altered: Altered) -> tuple[list[Object], Mapping[str, str]]:
    """Read at least `most` objects in reach, newest first, if there are as many, and their notes."""
    newest = most
    while True:
        selected = list(call.engine.ledger.select(replace(_selection(reach), newest=newest), altered=altered))
        items = [item for item in reversed(selected) if not is_withheld(item, reach)]
        notes = notes_of_objects(call.tree, call.engine.ledger, map(head_of, items), read=items)
        if not reach.withdrawn:
            items = [item for item in items if not notes.get(item.id, "").startswith(REPLACED)]
        if len(items) >= most or len(selected) + len(altered) < newest:
            return items, notes
        newest *= 2


def _scopes(call: Call, reach: Reach, most: int) -> frozenset[str]:
    # Not through the call's own view, which may not descend.
    ledger = whole(call.engine.ledger)
    if reach.descend or not ledger.scopes(reach.scope):
        return frozenset()
    below = ledger.select(replace(_selection(replace(reach, descend=True)), newest=most))
    return frozenset(item.scope for item in below)


def _selection(reach: Reach) -> Selection:
    where = reach.where if reach.withdrawn else And((reach.where, _CURRENT))
    return Selection(scope=reach.scope, descend=reach.descend, where=where, as_of=reach.at)


_CURRENT: Filter = Or(
    tuple(
        And((Compare("type", "eq", name), Compare("status", "in", tuple(sorted(statuses)))))
        for name, statuses in CURRENT.items()
    )
)


def _check_fields(where: Filter) -> None:
    if names := _fields_of_passages(where):
        raise InvalidInput(
            f"Without words to search for, {names[0]} cannot be in the filter.",
            hint="Give a text, or filter by type, kind, status, origin, title or time.",
        )


def _fields_of_passages(where: Filter) -> list[str]:
    return [one.field for one in comparisons(where) if one.field == "role" or one.field.startswith(METADATA)]


def _hit(item: Object, trusted: Trusted, waits_for: str) -> Hit:
    passage = passages_of(item)[0]
    segments = item.segments if isinstance(item, Source) else ()
    segment = next((one for one in segments if one.segment_id == passage.part), None)
    head = PassageHead(
        key=_NO_KEY,
        object_id=item.id,
        part=passage.part,
        type=item.type,
        kind=item.kind,
        scope=item.scope,
        role=passage.role,
        title=title_of(item) or passage.origin,
        heading=passage.heading,
        origin=passage.origin,
        place_role=passage.place_role,
    )
    return Hit(
        head=head,
        state=head_of(item),
        text="\n".join(filter(None, (passage.text, f"Waits for: {waits_for}" if waits_for else ""))),
        locator=segment.locator if segment else None,
        score=0.0,
        fused=Fused(_NO_KEY, 0.0, {}),
        trusted=trusted,
        item=None if isinstance(item, Source) else item,
        source_id=item.id if isinstance(item, Source) else "",
        segment=segment,
    )
