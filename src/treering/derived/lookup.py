"""Looking something up by its text alone, without ranking it against anything else."""

from treering.ports.index import Index
from treering.ports.passages import PassageHead, PassageRequest
from treering.ports.text import TextRequest


def look_up(index: Index, request: TextRequest) -> list[PassageHead]:
    """Return the heads of what a search by text finds, each once: by words, then by names, by place and by days."""
    (hits,) = index.text.search([request])
    keys = dict.fromkeys(hit.key for hit in (*hits.words, *hits.names, *hits.places, *hits.days))
    (found,) = index.passages.read([PassageRequest(tuple(keys))])
    return [found.heads[key] for key in keys if key in found.heads]
