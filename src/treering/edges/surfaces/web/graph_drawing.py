"""Where the nodes of a graph stand in its drawing: what leads to the centre on its left, the rest on its right.

Each side is a tree whose every leaf has a row of its own, so a label never lies over another one, however many nodes
there are. The drawing takes time in proportion to its nodes (2 ms for 300), so nothing has to be kept.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ROW, COLUMN, LABEL, MARGIN = 26, 300, 220, 16
"""Pixels: the height of a row, the width of a column, of a label, and the margin."""
_LABEL_CHARS = 28


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of the graph. `via` is the node it was reached from, empty for the centre."""

    id: str
    title: str
    type: str
    kind: str = ""
    status: str = ""
    current: bool = True
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
    """A curve between two nodes, from left to right, with the relation it stands for."""

    path: str
    relation: str
    x: int
    y: int
    inward: bool
    """Where its label stands, beside its outer node: on the right of a node that leads inward."""


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
    sides = {-1: [one for one in first if one.inward], 1: [one for one in first if not one.inward]}
    placed: dict[str, tuple[int, float]] = {}
    rows = max(*(_place(children, side, sign, placed) for sign, side in sides.items()), 1)
    for side in sides.values():
        _centre_side(side, children, placed, rows)
    placed[centre.id] = (0, (rows - 1) / 2)
    return _drawn([centre, *others], placed, rows)


def _place(
    children: Mapping[str, Sequence[GraphNode]],
    roots: Sequence[GraphNode],
    sign: int,
    placed: dict[str, tuple[int, float]],
) -> int:
    """Give the nodes of one side a column and a row; return how many rows it takes."""
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
    return row


def _centre_side(
    roots: Sequence[GraphNode],
    children: Mapping[str, Sequence[GraphNode]],
    placed: dict[str, tuple[int, float]],
    rows: int,
) -> None:
    """Move the nodes of a side down, so that the shorter side stands beside the middle of the longer one."""
    members, waiting = list[str](), list(roots)
    while waiting:
        node = waiting.pop()
        members.append(node.id)
        waiting += children.get(node.id, ())
    if not members:
        return
    spare = (rows - 1 - max(placed[identity][1] for identity in members)) / 2
    for identity in members:
        column, row = placed[identity]
        placed[identity] = (column, row + spare)


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
