"""Superseded knowledge: its latest replacement, and the passages that nothing else cites."""

from collections.abc import Iterable, Set

from treering.core.objects import Knowledge
from treering.ports.ledger import ObjectRequest, ObjectsFound
from treering.retrieval.index.rounds import Steps

SUPERSEDED = "superseded"
"""The flag of a passage that only superseded knowledge cites."""


def only_replaced(resting: Iterable[Knowledge]) -> dict[tuple[str, str], list[Knowledge]]:
    """Return by source and segment the knowledge that cites it, if all of it is superseded or archived.

    A place that only archived knowledge cites is not included.
    """
    citing: dict[tuple[str, str], list[Knowledge]] = {}
    for item in resting:
        for ref in item.evidence_refs:
            citing.setdefault((ref.source_id, ref.segment_id), []).append(item)
    return {
        place: items
        for place, items in citing.items()
        if {item.status for item in items} - {"archived"} == {"superseded"}
    }


def latest_successors(superseded: Set[str]) -> Steps[dict[str, str]]:
    """Return by id of superseded knowledge the id of its latest replacement, which may be many steps later."""
    later: dict[str, str] = {}
    pending = superseded
    while pending:
        found: ObjectsFound = yield ObjectRequest(links=tuple(sorted(pending)))
        links = (link for identity in pending for link in found.links.get(identity, ()) if link.type == "supersedes")
        new = {link.target: link.source for link in links if link.target in pending}
        later |= new
        pending = set(new.values()) - later.keys()
    latest = dict(later)
    for identity in superseded & later.keys():
        for _ in later:
            latest[identity] = later.get(latest[identity], latest[identity])
    return latest
