"""Looking something up by its text alone, without ranking it against anything else."""

from collections.abc import Callable

from treering.ports.index import Behind, Index
from treering.ports.passages import PassageHead, PassageRequest
from treering.ports.text import TextRequest


def make_whole(index: Index, *, told: Callable[[Behind], None] = lambda _: None) -> None:
    """Finish an index that is being made anew, or is late, telling after each step how far it is.

    For whoever takes what is not found for absent. A search that says what it may lack need not wait. Raises
    `Unavailable` where the space cannot be written.
    """
    while index.upkeep.behind().total:
        told(index.upkeep.advance())


def look_up(index: Index, request: TextRequest) -> list[PassageHead]:
    """Return the heads of what a search by text finds, each once: by words, then by names, by place and by days."""
    (hits,) = index.text.search([request])
    keys = dict.fromkeys(hit.key for hit in (*hits.words, *hits.names, *hits.places, *hits.days))
    (found,) = index.passages.read([PassageRequest(tuple(keys))])
    return [found.heads[key] for key in keys if key in found.heads]
