"""Diagrams of a wiki as SVG, for the flowcharts that `rules.mermaid` writes.

Layered drawing (Sugiyama, Tagawa and Toda 1981): layers by longest path, long arrows with a bend in each layer
between, and the order within layers by barycenters.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from itertools import pairwise

from treering.extensions.wiki.rules.mermaid import Arrow

_MOST_BOXES, _MOST_ARROWS = 80, 200
_SWEEPS = 8
_HEAD = re.compile(r"flowchart (LR|TD)")
_BOX = re.compile(r'\s*(\w+)\["([^"]*)"\]')
_ARROW = re.compile(r'\s*(\w+) (-->|-\.->)(?:\|"([^"]*)"\|)? (\w+)')
_MARKED = re.compile(r"\s*style (\w+) stroke-width:\d+px")
_CODE = re.compile(r"#(\d{1,7});")
_CHAR, _PADDING, _HEIGHT = 7.2, 12.0, 30.0
"""For text of 13 pixels: the width of a character, the padding beside a label, and the height of a box."""
_BETWEEN_LAYERS, _BETWEEN_BOXES = {"LR": 90.0, "TD": 60.0}, 16.0
_TIP, _MARGIN = 7.0, 8.0


@dataclass(frozen=True, slots=True)
class Diagram:
    """Boxes with their labels, arrows between them, and highlighted boxes."""

    direction: str
    boxes: Mapping[str, str]
    arrows: Sequence[Arrow]
    marked: frozenset[str]


@dataclass(slots=True)
class _Place:
    """A box, or the bend of a long arrow: its layer, size, and position across and along the layers."""

    layer: int
    length: float
    breadth: float
    across: float = 0.0
    along: float = 0.0
    before: list[str] = field(default_factory=list)
    after: list[str] = field(default_factory=list)


def parse_diagram(text: str) -> Diagram | None:
    """Parse a diagram. Return `None` for other syntax than `rules.mermaid` writes, and for too large diagrams."""
    head, *lines = text.strip().split("\n")
    direction = _HEAD.fullmatch(head.strip())
    boxes, arrows, marked = dict[str, str](), list[Arrow](), set[str]()
    for line in lines:
        if box := _BOX.fullmatch(line):
            boxes[box[1]] = _shown(box[2])
        elif arrow := _ARROW.fullmatch(line):
            arrows.append(Arrow(arrow[1], arrow[4], _shown(arrow[3] or ""), dotted=arrow[2] == "-.->"))
        elif mark := _MARKED.fullmatch(line):
            marked.add(mark[1])
        else:
            return None
    ends = {name for arrow in arrows for name in (arrow.start, arrow.end)}
    fits = 0 < len(boxes) <= _MOST_BOXES and 0 < len(arrows) <= _MOST_ARROWS
    if direction is None or not fits or not ends <= boxes.keys():
        return None
    return Diagram(direction[1], boxes, arrows, frozenset(marked))


def draw_diagram(diagram: Diagram) -> str:
    """Return a diagram as SVG, without scripts, styles and addresses."""
    layout = _Layout(diagram)
    width, height = layout.size
    arrows = "; ".join(f"{diagram.boxes[one.start]} to {diagram.boxes[one.end]}" for one in diagram.arrows)
    return (
        f'<svg class="diagram" role="img" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{escape(f'Arrows lead from {arrows}.')}</title>"
        + "".join(layout.drawn_arrows())
        + "".join(layout.drawn_boxes())
        + "</svg>"
    )


def _shown(label: str) -> str:
    return _CODE.sub(lambda found: chr(int(found[1])) if int(found[1]) <= 0x10FFFF else "", label)


class _Layout:
    """The positions of the boxes and arrows of a diagram."""

    def __init__(self, diagram: Diagram) -> None:
        self._diagram = diagram
        self._is_down = diagram.direction == "TD"
        self._forward = _forward(diagram)
        layers = _layers(diagram.boxes, self._forward.values())
        self._places = {name: self._box(label, layers[name]) for name, label in diagram.boxes.items()}
        self._ways = {at: self._way(at, *pair) for at, pair in self._forward.items()}
        self._rows = self._ordered()
        self._put_along()
        self._put_across()

    @property
    def size(self) -> tuple[float, float]:
        """The width and height of the drawing."""
        along = max(one.along + one.length for one in self._places.values()) + _MARGIN
        across = max(one.across + one.breadth / 2 for one in self._places.values()) + _MARGIN
        return (across, along) if self._is_down else (along, across)

    def drawn_boxes(self) -> Iterable[str]:
        """Yield each box with its label."""
        for name, label in self._diagram.boxes.items():
            one = self._places[name]
            x, y = self._point(one.along, one.across - one.breadth / 2)
            width, height = (one.breadth, one.length) if self._is_down else (one.length, one.breadth)
            marked = ' class="marked"' if name in self._diagram.marked else ""
            yield f'<rect{marked} x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" rx="5"/>'
            yield f'<text x="{x + width / 2:.1f}" y="{y + height / 2 + 4.5:.1f}">{escape(label)}</text>'

    def drawn_arrows(self) -> Iterable[str]:
        """Yield each arrow as a curve with a tip, and its label."""
        ports = self._ports()
        for at, arrow in enumerate(self._diagram.arrows):
            if at not in self._ways:
                continue
            points = self._points(at, ports)
            if self._forward[at] != (arrow.start, arrow.end):
                points.reverse()
            dotted = ' class="dotted"' if arrow.dotted else ""
            yield f'<path{dotted} d="{self._curve(points)}"/>{self._tip(points)}'
            if arrow.label:
                middle = len(points) // 2
                (ax, ay), (bx, by) = points[middle - 1], points[middle]
                x, y = self._point((ax + bx) / 2, (ay + by) / 2)
                yield f'<text class="label" x="{x:.1f}" y="{y + 4:.1f}">{escape(arrow.label)}</text>'

    def _box(self, label: str, layer: int) -> _Place:
        width = len(label) * _CHAR + 2 * _PADDING
        length, breadth = (_HEIGHT, width) if self._is_down else (width, _HEIGHT)
        return _Place(layer, length, breadth)

    def _way(self, at: int, start: str, end: str) -> list[str]:
        """Return the names of the places on an arrow, with a new bend in each layer between its boxes."""
        way = [start]
        for layer in range(self._places[start].layer + 1, self._places[end].layer):
            name = f"{at} in {layer}"
            self._places[name] = _Place(layer, 0.0, 6.0)
            way.append(name)
        way.append(end)
        for one, following in pairwise(way):
            self._places[one].after.append(following)
            self._places[following].before.append(one)
        return way

    def _ordered(self) -> list[list[str]]:
        rows: dict[int, list[str]] = defaultdict(list)
        for name, one in self._places.items():
            rows[one.layer].append(name)
        ordered = [rows[layer] for layer in sorted(rows)]
        for sweep in range(_SWEEPS):
            for row in ordered if sweep % 2 == 0 else reversed(ordered):
                index = {name: at for other in ordered for at, name in enumerate(other)}
                own = {name: at for at, name in enumerate(row)}
                row.sort(key=lambda name: self._barycentre(name, index, own[name], forward=sweep % 2 == 0))
        return ordered

    def _barycentre(self, name: str, index: Mapping[str, int], own: int, *, forward: bool) -> float:
        near = self._places[name].before if forward else self._places[name].after
        return sum(index[one] for one in near) / len(near) if near else float(own)

    def _put_along(self) -> None:
        along = _MARGIN
        for row in self._rows:
            longest = max(self._places[name].length for name in row)
            for name in row:
                self._places[name].along = along + (longest - self._places[name].length) / 2
            along += longest + _BETWEEN_LAYERS[self._diagram.direction]

    def _put_across(self) -> None:
        """Place the boxes and bends of each layer side by side, and center the layers."""
        for row in self._rows:
            end = 0.0
            for name in row:
                self._places[name].across = end + self._places[name].breadth / 2
                end += self._places[name].breadth + _BETWEEN_BOXES
        widest = max(map(self._width, self._rows))
        for row in self._rows:
            start = _MARGIN + (widest - self._width(row)) / 2
            for name in row:
                self._places[name].across += start

    def _width(self, row: Sequence[str]) -> float:
        return sum(self._places[name].breadth + _BETWEEN_BOXES for name in row)

    def _ports(self) -> dict[tuple[int, str], float]:
        """Return where each arrow meets its boxes: side by side, in the order of their other ends."""
        met: dict[tuple[str, bool], list[tuple[float, int]]] = defaultdict(list)
        for at, way in self._ways.items():
            met[way[0], True].append((self._places[way[1]].across, at))
            met[way[-1], False].append((self._places[way[-2]].across, at))
        ports: dict[tuple[int, str], float] = {}
        for (name, _), arrows in met.items():
            one = self._places[name]
            step = one.breadth * 0.7 / (len(arrows) + 1)
            for number, (_, at) in enumerate(sorted(arrows), 1):
                ports[at, name] = one.across - one.breadth * 0.35 + number * step
        return ports

    def _points(self, at: int, ports: Mapping[tuple[int, str], float]) -> list[tuple[float, float]]:
        way = self._ways[at]
        first, last = self._places[way[0]], self._places[way[-1]]
        bends = [(self._places[name].along, self._places[name].across) for name in way[1:-1]]
        return [(first.along + first.length, ports[at, way[0]]), *bends, (last.along, ports[at, way[-1]])]

    def _curve(self, points: Sequence[tuple[float, float]]) -> str:
        x, y = self._point(*points[0])
        parts = [f"M{x:.1f} {y:.1f}"]
        for (along, across), (further, beside) in pairwise(points):
            middle = (along + further) / 2
            bends = (self._point(middle, across), self._point(middle, beside), self._point(further, beside))
            parts.append("C" + " ".join(f"{px:.1f} {py:.1f}" for px, py in bends))
        return "".join(parts)

    def _tip(self, points: Sequence[tuple[float, float]]) -> str:
        (before, _), (along, across) = points[-2], points[-1]
        back = along - _TIP if before < along else along + _TIP
        corners = (self._point(along, across), self._point(back, across - 4), self._point(back, across + 4))
        return f'<polygon points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in corners)}"/>'

    def _point(self, along: float, across: float) -> tuple[float, float]:
        return (across, along) if self._is_down else (along, across)


def _forward(diagram: Diagram) -> dict[int, tuple[str, str]]:
    """Return the ends of each arrow in the order of the boxes, so that there is no cycle.

    Boxes are listed with the layers of the code from top to bottom, so few arrows are reversed. Arrows from a box to
    itself are dropped.
    """
    order = {name: at for at, name in enumerate(diagram.boxes)}
    return {
        at: (arrow.start, arrow.end) if order[arrow.start] < order[arrow.end] else (arrow.end, arrow.start)
        for at, arrow in enumerate(diagram.arrows)
        if arrow.start != arrow.end
    }


def _layers(boxes: Iterable[str], pairs: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Return the layer of each box: one more than the highest layer of its predecessors, which are listed before."""
    before: dict[str, list[str]] = defaultdict(list)
    for start, end in pairs:
        before[end].append(start)
    layers: dict[str, int] = {}
    for name in boxes:
        layers[name] = max((layers[one] + 1 for one in before[name]), default=0)
    return layers
