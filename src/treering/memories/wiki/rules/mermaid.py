"""Diagrams in Mermaid whose labels may hold anything: what is not plain stands there as a number of its character."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treering.memories.wiki.rules.markup import fenced, one_line

_UNSAFE = re.compile(r"[^\w ./:,()@+-]")
_LABEL_CHARS = 60


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow from one box to another, by their keys; `label` may be empty."""

    start: str
    end: str
    label: str = ""
    dotted: bool = False


def flowchart(boxes: Mapping[str, str], arrows: Sequence[Arrow], *, direction: str = "LR", marked: str = "") -> str:
    """Return a diagram of boxes (labels by key), in their order; empty without an arrow. `marked`: the key of one."""
    drawn = [arrow for arrow in arrows if arrow.start in boxes and arrow.end in boxes]
    if not drawn:
        return ""
    names = {key: f"n{at}" for at, key in enumerate(boxes)}
    lines = [f"flowchart {direction}"]
    lines += [f'    {names[key]}["{label_text(label)}"]' for key, label in boxes.items()]
    lines += [f"    {names[arrow.start]} {_line(arrow)} {names[arrow.end]}" for arrow in drawn]
    if marked in names:
        lines.append(f"    style {names[marked]} stroke-width:3px")
    return fenced("\n".join(lines), "mermaid")


def label_text(label: str) -> str:
    """Return what a box says, between its quotes."""
    line = one_line(label)
    short = line if len(line) <= _LABEL_CHARS else f"{line[: _LABEL_CHARS - 1]}…"
    return _UNSAFE.sub(lambda found: f"#{ord(found[0])};", short) or "#45;"


def _line(arrow: Arrow) -> str:
    stroke = "-.->" if arrow.dotted else "-->"
    return f'{stroke}|"{label_text(arrow.label)}"|' if arrow.label else stroke
