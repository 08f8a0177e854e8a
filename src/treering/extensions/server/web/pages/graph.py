"""The graph around an object or the answers of a question: a drawing, and the same as a list."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, get_args

from treering.core.patch import LinkType
from treering.extensions.server.web.overview import OBJECTS, ListedObject
from treering.extensions.server.web.view import PageView, Rendered
from treering.retrieval.search.relevance import WEAK
from treering.verbs.query.browsing import PageReport
from treering.verbs.query.related import Neighbour, RelatedReport
from treering.verbs.query.search import SearchReport

ROW, COLUMN, LABEL, MARGIN = 26, 300, 220, 16
"""Pixels: the height of a row, the width of a column, of a label, and the margin."""
_LABEL_CHARS = 28
MOST_NODES = 300
_ANSWERS = 8
_QUESTION = "question"
_TYPES = (*get_args(LinkType), "refers_to")
_IN_FORCE = ("active",)
_MATTERS: Sequence[tuple[str, dict[str, Any], int]] = (
    ("needs attention", {"type": "knowledge", "statuses": ("stale", "contested")}, 6),
    ("in force", {"type": "knowledge", "statuses": _IN_FORCE}, 8),
    ("open", {"type": "work_item", "statuses": ("open", "in_progress", "blocked")}, 4),
)
"""The start of a graph without a question: the name of each group, its objects, and their maximal number."""
_PARTS: tuple[str, dict[str, Any], int] = ("part", {"type": "node", "statuses": _IN_FORCE}, 12)
_ENOUGH = 6
"""With fewer nodes than this, the parts of the space are also shown."""
_LISTED = 200
_FIRST_OF_ALL = frozenset({"decision", "constraint", "project", "service", "component", "module"})


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of the graph. `via` is the node it was reached from, empty for the centre."""

    id: str
    title: str
    type: str
    kind: str = ""
    status: str = ""
    current: bool = True
    note: str = ""
    relation: str = ""
    via: str = ""
    inward: bool = False
    """Whether the relation leads from it to `via`."""


@dataclass(frozen=True, slots=True)
class DrawnNode:
    """A node with its place."""

    node: GraphNode
    x: int
    y: int
    label: str


@dataclass(frozen=True, slots=True)
class DrawnEdge:
    """A curve between two nodes, from left to right, with its relation."""

    path: str
    relation: str
    x: int
    y: int
    inward: bool
    """Whether its outer node leads inward; the label is then to the right of that node."""


@dataclass(frozen=True, slots=True)
class GraphDrawing:
    """A drawing of a graph."""

    width: int
    height: int
    nodes: Sequence[DrawnNode]
    edges: Sequence[DrawnEdge]


def draw_graph(centre: GraphNode, others: Sequence[GraphNode]) -> GraphDrawing:
    """Place a graph's nodes. `others` are in the order in which they were reached."""
    children: dict[str, list[GraphNode]] = {}
    for node in others:
        children.setdefault(node.via, []).append(node)
    first = children.get(centre.id, [])
    left = _side(children, [one for one in first if one.inward], -1)
    right = _side(children, [one for one in first if not one.inward], 1)
    rows = max(left[1], right[1], 1)
    placed: dict[str, tuple[int, float]] = {centre.id: (0, (rows - 1) / 2)}
    for places, count in (left, right):
        # The shorter side is centered on the longer one.
        placed |= {identity: (column, row + (rows - count) / 2) for identity, (column, row) in places.items()}
    return _drawn([centre, *others], placed, rows)


def _side(
    children: Mapping[str, Sequence[GraphNode]], roots: Sequence[GraphNode], sign: int
) -> tuple[dict[str, tuple[int, float]], int]:
    """Return by id the column and the row of each node of one side, and the number of rows."""
    placed: dict[str, tuple[int, float]] = {}
    row = 0

    def place(node: GraphNode, depth: int) -> float:
        nonlocal row
        below = [place(child, depth + 1) for child in children.get(node.id, ())]
        if below:
            middle = (below[0] + below[-1]) / 2
        else:
            middle, row = float(row), row + 1
        placed[node.id] = (sign * depth, middle)
        return middle

    for root in roots:
        place(root, 1)
    return placed, row


def _drawn(nodes: Sequence[GraphNode], placed: Mapping[str, tuple[int, float]], rows: int) -> GraphDrawing:
    left = min(column for column, _ in placed.values())
    right = max(column for column, _ in placed.values())

    def at(identity: str) -> tuple[int, int]:
        column, row = placed[identity]
        return MARGIN + (column - left) * COLUMN, int(MARGIN + ROW * (row + 0.5))

    drawn, edges = list[DrawnNode](), list[DrawnEdge]()
    for node in nodes:
        if node.id not in placed:
            continue
        x, y = at(node.id)
        drawn.append(DrawnNode(node, x, y, _label(node.title)))
        if node.via in placed:
            edges.append(_edge(at(node.via), (x, y), node.relation))
    width = 2 * MARGIN + (right - left) * COLUMN + LABEL
    return GraphDrawing(width, 2 * MARGIN + ROW * rows, drawn, edges)


def _edge(inner: tuple[int, int], outer: tuple[int, int], relation: str) -> DrawnEdge:
    (x1, y1), (x2, y2) = sorted((inner, outer))
    start = x1 + LABEL
    middle = (start + x2) // 2
    leftward = outer[0] < inner[0]
    x = outer[0] + LABEL + 5 if leftward else outer[0] - 5
    path = f"M{start} {y1} C{middle} {y1} {middle} {y2} {x2} {y2}"
    return DrawnEdge(path, relation, x, outer[1] - 3, leftward)


def _label(title: str) -> str:
    return title if len(title) <= _LABEL_CHARS else f"{title[: _LABEL_CHARS - 1].rstrip()}…"


@dataclass(frozen=True, slots=True)
class Branch:
    """A node of the graph and the nodes reached from it."""

    node: GraphNode
    below: "list[Branch]"


def graph(view: PageView) -> Rendered:
    """Show the objects linked to an object or to the answers of a question, up to `MOST_NODES`."""
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
        "command": ("treering", "status"),
    }
    if identity:
        query_input = json.dumps({"id": identity, "depth": values["depth"]}, ensure_ascii=False)
        values["command"] = ("treering", "query", "--mode", "related", "--input", query_input)
        centre, nodes = _around_object(view, identity, values["depth"])
    elif question:
        values["command"] = ("treering", "search", question, "-n", str(_ANSWERS))
        centre, nodes = _around_question(view, question)
    else:
        centre, nodes = _around_what_matters(view)
    shown = _connected(centre, nodes)[:MOST_NODES]
    values |= {
        "centre": centre,
        "drawing": draw_graph(centre, shown) if shown or identity else None,
        "nodes": shown,
        "branches": _branches(centre, shown),
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
        note=page.note,
    )
    return centre, [_reached(one) for one in linked(view, item["id"], depth=depth)]


def linked(view: PageView, identity: str, *, depth: int = 1) -> Sequence[Neighbour]:
    """Return the objects that links and fields connect to an object, without links of code, which pages do not show."""
    related_input = {"id": identity, "depth": depth, "types": _TYPES}
    return view.query(RelatedReport, "related", related_input).neighbours


def _around_question(view: PageView, question: str) -> tuple[GraphNode, list[GraphNode]]:
    centre = GraphNode(id=_QUESTION, title=question, type=_QUESTION)
    report = view.query(SearchReport, "search", {"text": question}, limit=_ANSWERS, lines=0)
    answers = {
        hit.object_id: GraphNode(
            id=hit.object_id,
            title=hit.title or hit.origin,
            type=hit.type,
            kind=hit.kind,
            status=hit.status,
            current=hit.current,
            note=hit.note,
            relation="is near" if WEAK in hit.flags else "answers",
            via=_QUESTION,
        )
        for hit in reversed(report.hits)
    }
    return centre, _with_neighbours(view, list(reversed(answers.values())))


def _around_what_matters(view: PageView) -> tuple[GraphNode, list[GraphNode]]:
    """Return the start of a graph: problems, current decisions and open work; if these are few, also the parts."""
    centre = GraphNode(id=_QUESTION, title="What matters most here", type=_QUESTION)
    chosen = [node for name, given, most in _MATTERS for node in _begun(view, name, given, most)]
    parts = _begun(view, *_PARTS) if len(chosen) < _ENOUGH else []
    # A part may be linked to hundreds of files, which its own graph shows.
    return centre, [*_with_neighbours(view, chosen), *parts]


def _begun(view: PageView, relation: str, given: dict[str, Any], most: int) -> list[GraphNode]:
    listed = view.perform(OBJECTS, given, descend=True, limit=_LISTED, **view.moment).items
    # A summary is shown on the page of its conversation.
    standing = [one for one in listed if (one.current or one.status == "stale") and one.kind != "summary"]
    standing.sort(key=lambda one: one.kind not in _FIRST_OF_ALL)  # otherwise the newest first, as they come
    return [_node(one, relation, _QUESTION) for one in standing[:most]]


def _with_neighbours(view: PageView, begun: Sequence[GraphNode]) -> list[GraphNode]:
    """Return nodes, followed by the objects linked to each."""
    nodes = {one.id: one for one in begun}
    for one in begun:
        for near in linked(view, one.id):
            nodes.setdefault(near.id, _reached(near))
    return list(nodes.values())


def _node(one: ListedObject | Neighbour, relation: str, via: str, *, inward: bool = False) -> GraphNode:
    title = one.title or one.id
    return GraphNode(one.id, title, one.type, one.kind, one.status, one.current, one.note, relation, via, inward)


def _reached(one: Neighbour) -> GraphNode:
    return _node(one, _relation(one), one.via, inward=one.direction == "in")


def _relation(one: Neighbour) -> str:
    """Return a relation in words."""
    relation = one.relation.replace("_", " ")
    if one.fields == ("evidence_refs",):
        return "cites"
    return f"{relation} ({', '.join(one.fields).replace('_', ' ')})" if one.fields else relation


def _branches(centre: GraphNode, nodes: Sequence[GraphNode]) -> list[Branch]:
    """Return the nodes as a tree: below each the nodes reached from it."""
    branches = {one.id: Branch(one, []) for one in (centre, *nodes)}
    for one in nodes:
        branches[one.via].below.append(branches[one.id])
    return branches[centre.id].below


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
