"""Read from the ledger what a context pack contains besides search results: related knowledge, citations, rules."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

from treering.core.filters import And, Compare, Filter
from treering.core.objects import Knowledge, Object
from treering.ports.ledger import Altered, Selection, head_of
from treering.ports.passages import Reach
from treering.retrieval.packing.citing import Citing, citing_request
from treering.verbs.envelope import Call
from treering.verbs.scoped_ledger import on_all_branches
from treering.verbs.trees import notes_of_objects


def read_citing(call: Call, items: Sequence[Object], reach: Reach, altered: Altered) -> Citing:
    """Read the sources and segments that some objects cite. Damaged ones are noted in `altered`."""
    if not items:
        return Citing()
    (cited,) = on_all_branches(call.engine.ledger).read([citing_request(items, as_of=reach.at)])
    altered |= cited.altered
    return Citing.of(cited)


def notes_on(call: Call, items: Iterable[Object]) -> Mapping[str, str]:
    """Return by id why objects are not current in the caller's work tree."""
    unique = {item.id: item for item in items}.values()
    return notes_of_objects(call.tree, call.engine.ledger, map(head_of, unique), read=unique)


def active_constraints(call: Call, reach: Reach, altered: Altered) -> list[Knowledge]:
    """Read the active constraints of the scope that are current in the caller's work tree."""
    where = And((Compare("kind", "eq", "constraint"), Compare("status", "eq", "active")))
    items = list(_knowledge(call, Reach(reach.scope, at=reach.at), where, altered))
    notes = notes_on(call, items)
    return [item for item in items if item.id not in notes]


def contested_knowledge(call: Call, reach: Reach, altered: Altered) -> Iterator[Knowledge]:
    """Read all contested knowledge in reach."""
    return _knowledge(call, reach, Compare("status", "eq", "contested"), altered)


def _knowledge(call: Call, reach: Reach, where: Filter, altered: Altered) -> Iterator[Knowledge]:
    selection = Selection(reach.scope, descend=reach.descend, types=("knowledge",), where=where, as_of=reach.at)
    selected = call.engine.ledger.select(selection, altered=altered)
    return (item for item in selected if isinstance(item, Knowledge))
