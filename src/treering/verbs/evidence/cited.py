"""The places that knowledge is based on."""

from collections.abc import Iterator, Mapping

from treering.core.declarations import is_declaration
from treering.core.errors import NotFound
from treering.core.evidence import Segment, place_in, short_place
from treering.core.objects import Knowledge, Object, Source
from treering.core.versions import TreeView
from treering.ports.ledger import Ledger
from treering.verbs.scoped_ledger import item_in_tree


def cited_places(ledger: Ledger, item: Object) -> tuple[str, ...]:
    """Return the places an object is based on as people type them, such as `README.md:5-11`, each once.

    Evidence that was erased is left out.
    """
    return tuple(cited_words(ledger, item))


def cited_words(ledger: Ledger, item: Object) -> Mapping[str, str]:
    """Return the cited words by their place; see `cited_places`."""
    return {place: words for place, words, _, _ in _cited(ledger, item)}


def lost_places(ledger: Ledger, item: Object, tree: TreeView | None = None) -> tuple[str, ...]:
    """Return what became of places an object was based on, such as `README.md:5-11 changed`, each once.

    `tree`: the tree in which they are looked up; without one, all branches.
    """
    lost: dict[str, None] = {}
    for place, _, source, segment in _cited(ledger, item):
        here = item_in_tree(source, tree) if source.status == "active" else None
        if here is None and tree and tree.changed.get(tree.path(source.origin)):
            continue  # the file of a branch that was not read
        if not isinstance(here, Source):
            lost[f"{place} removed"] = None
        elif segment.segment_id not in {one.segment_id for one in here.segments}:
            lost[f"{place} changed"] = None
    return tuple(lost)


def _cited(ledger: Ledger, item: Object) -> Iterator[tuple[str, str, Source, Segment]]:
    for ref in item.evidence_refs if isinstance(item, Knowledge) else ():
        try:
            source, segment = ledger.get(ref.source_id), ledger.segment(ref.source_id, ref.segment_id)
        except NotFound:
            continue
        # A declaration without a place is evidence of itself.
        if isinstance(source, Source) and not is_declaration(source.origin):
            place = short_place(place_in(ref.locator(segment), source.origin))
            yield place, ref.quote(segment), source, segment
