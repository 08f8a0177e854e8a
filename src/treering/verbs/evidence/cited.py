"""The places that knowledge is based on."""

from treering.core.errors import NotFound
from treering.core.evidence import place_in, short_place
from treering.core.objects import Knowledge, Object, Source
from treering.ports.ledger import Ledger

DECLARATION = "declaration:"
"""The start of the origin of a note that stores what a person declared without a place."""


def cited_places(ledger: Ledger, item: Object) -> tuple[str, ...]:
    """Return the places an object is based on as people type them, such as `README.md:5-11`, each once.

    Evidence that was erased is left out.
    """
    places: dict[str, None] = {}
    for ref in item.evidence_refs if isinstance(item, Knowledge) else ():
        try:
            source, segment = ledger.get(ref.source_id), ledger.segment(ref.source_id, ref.segment_id)
        except NotFound:
            continue
        # A declaration without a place is evidence of itself.
        if isinstance(source, Source) and not source.origin.startswith(DECLARATION):
            places[short_place(place_in(ref.locator(segment), source.origin))] = None
    return tuple(places)
