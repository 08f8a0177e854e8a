"""Passages made by hand, and the graph of them."""

from collections.abc import Mapping
from datetime import UTC, datetime

from treering.core.evidence import Triple
from treering.core.scope import ROOT
from treering.ports.passages import Passage, Reach
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.retrieval.graph.association import Association, Found, associate
from treering.retrieval.index.ties import excerpt_of, ties_of
from treering.retrieval.text.analysis import query_terms
from treering.testing.index_contract.graph import MemoryGraph

_THEN = datetime(2026, 1, 1, tzinfo=UTC)


def passage(text: str = "", *facts: tuple[str, str, str], **fields: object) -> Passage:
    """Make a passage that states facts; its text is read by rules where none are given."""
    given: dict[str, object] = {
        "object_id": "src:one",
        "part": "seg_1",
        "type": "source",
        "kind": "note",
        "status": "active",
        "scope": ROOT,
        "role": "prose",
        "title": "",
        "heading": "",
        "text": text,
        "gist": text,
        "origin": "",
        "channel": "user",
        "created_at": _THEN,
        "updated_at": _THEN,
        "live": True,
        "triples": tuple(Triple(subject=one, relation=relation, object=other) for one, relation, other in facts),
        **fields,
    }
    return Passage(**given)  # type: ignore[arg-type]


def graph_of(passages: Mapping[int, Passage]) -> MemoryGraph:
    """Make the graph of passages, put in the order given. Each is an object of its own unless it says else."""
    graph = MemoryGraph()
    for key, told in passages.items():
        [extraction] = BuiltInExtractor().extract([excerpt_of(told)])
        graph.put(key, ties_of(told, extraction), told.scope)
    return graph


def associated(question: str, passages: Mapping[int, Passage], found: Found = (), scope: str = ROOT) -> Association:
    """Associate in the graph of passages."""
    return associate(question, query_terms(question), found, graph_of(passages).view(Reach(scope)))


def own(key: int, *facts: tuple[str, str, str], text: str = "", **fields: object) -> Passage:
    """Make a passage of an object of its own."""
    return passage(text, *facts, object_id=f"src:{key}", **fields)
