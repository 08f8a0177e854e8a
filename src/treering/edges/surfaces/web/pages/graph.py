"""The graph around an object, or around what answers a question: a drawing, and the same as a list."""

from typing import Any

from treering.edges.surfaces.web.graph_drawing import GraphNode, draw_graph
from treering.edges.surfaces.web.view import PageView, Rendered
from treering.tools.browsing import PageReport
from treering.tools.related import Neighbour, RelatedReport
from treering.tools.search import SearchReport

MOST_NODES = 300
_ANSWERS = 8
_QUESTION = "question"


def graph(view: PageView) -> Rendered:
    """Show what is linked to an object or to the answers of a question, up to `MOST_NODES`."""
    question, identity = view.text("q"), view.text("id")
    overview = view.overview()
    values: dict[str, Any] = {
        "overview": overview,
        "question": question,
        "identity": identity,
        "depth": max(1, view.number("depth", default=2, most=3)),
        "drawing": None,
        "nodes": [],
        "left_out": 0,
        "command": ("treering", "query", "--mode", "related", identity or "ID", "--depth", "2"),
    }
    if identity:
        centre, nodes = _around_object(view, identity, values["depth"])
    elif question:
        centre, nodes = _around_question(view, question)
    else:
        return Rendered("graph.html", values)
    shown = _connected(centre, nodes)[:MOST_NODES]
    titles = {one.id: one.title for one in (centre, *shown)}
    values |= {
        "centre": centre,
        "drawing": draw_graph(centre, shown),
        "nodes": shown,
        "titles": titles,
        "left_out": len(nodes) - len(shown),
    }
    return Rendered("graph.html", values)


def _around_object(view: PageView, identity: str, depth: int) -> tuple[GraphNode, list[GraphNode]]:
    page = view.query(PageReport, "page", {"id": identity}, max_tokens=50)
    item = page.object
    centre = GraphNode(
        id=item["id"],
        title=page.title or item["id"],
        type=item["type"],
        kind=item["kind"],
        status=item["status"],
        current=page.current,
    )
    found = view.query(RelatedReport, "related", {"id": item["id"], "depth": depth})
    return centre, [_node(one) for one in found.neighbours]


def _around_question(view: PageView, question: str) -> tuple[GraphNode, list[GraphNode]]:
    centre = GraphNode(id=_QUESTION, title=question, type=_QUESTION)
    found = view.query(SearchReport, "search", {"text": question}, limit=_ANSWERS)
    nodes = {
        hit.object_id: GraphNode(
            id=hit.object_id,
            title=hit.title or hit.origin,
            type=hit.type,
            kind=hit.kind,
            status=hit.status,
            current=hit.current,
            relation="answers",
            via=_QUESTION,
        )
        for hit in reversed(found.hits)
    }
    for identity in reversed(list(nodes)):
        for one in view.query(RelatedReport, "related", {"id": identity}).neighbours:
            nodes.setdefault(one.id, _node(one))
    return centre, list(nodes.values())


def _node(one: Neighbour) -> GraphNode:
    return GraphNode(
        id=one.id,
        title=one.title or one.id,
        type=one.type,
        kind=one.kind,
        status=one.status,
        current=one.current,
        relation=f"{one.relation} ({', '.join(one.fields)})" if one.fields else one.relation,
        via=one.via,
        inward=one.direction == "in",
    )


def _connected(centre: GraphNode, nodes: list[GraphNode]) -> list[GraphNode]:
    """Return the nodes that hang together with the centre, nearest first."""
    reached, frontier = list[GraphNode](), {centre.id}
    waiting = {one.id: one for one in nodes if one.id != centre.id}
    while frontier:
        fresh = [one for one in waiting.values() if one.via in frontier]
        reached += fresh
        frontier = {one.id for one in fresh}
        waiting = {identity: one for identity, one in waiting.items() if identity not in frontier}
    return reached
