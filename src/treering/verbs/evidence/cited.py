"""The places that knowledge is based on."""

from collections.abc import Mapping

from treering.core.errors import NotFound
from treering.core.evidence import place_in, short_place
from treering.core.objects import Knowledge, Object, Source
from treering.ports.ledger import Ledger


def cited_places(ledger: Ledger, item: Object) -> tuple[str, ...]:
    """Return the places an object is based on as people type them, such as `README.md:5-11`, each once.

    Evidence that was erased is left out.
    """
    return tuple(cited_words(ledger, item))


def cited_words(ledger: Ledger, item: Object) -> Mapping[str, str]:
    """Return the cited words by their place; see `cited_places`."""
    places: dict[str, str] = {}
    for ref in item.evidence_refs if isinstance(item, Knowledge) else ():
        try:
            source, segment = ledger.get(ref.source_id), ledger.segment(ref.source_id, ref.segment_id)
        except NotFound:
            continue
        # A declaration without a place is evidence of itself.
        if isinstance(source, Source) and not source.origin.startswith("declaration:"):
            places[short_place(place_in(ref.locator(segment), source.origin))] = ref.quote(segment)
    return places
