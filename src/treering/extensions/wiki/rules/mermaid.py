"""Flowcharts in Mermaid."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from treering.extensions.wiki.rules.markdown import fenced, one_line

MAX_LABEL_CHARS = 60
_UNSAFE = re.compile(r"[^\w ./:,()@+-]")


@dataclass(frozen=True, slots=True)
class Arrow:
    """An arrow between two boxes, given by their keys."""

    start: str
    end: str
    label: str = ""
    dotted: bool = False


def flowchart(boxes: Mapping[str, str], arrows: Sequence[Arrow], *, direction: str = "LR", marked: str = "") -> str:
    """Return a diagram of boxes (labels by key), or "" without arrows. `marked`: the key of a highlighted box."""
    drawn = [arrow for arrow in arrows if arrow.start in boxes and arrow.end in boxes]
    if not drawn:
        return ""
    names = {key: f"n{at}" for at, key in enumerate(boxes)}
    lines = [f"flowchart {direction}"]
    lines += [f'    {names[key]}["{_label(label)}"]' for key, label in boxes.items()]
    lines += [f"    {names[arrow.start]} {_stroke(arrow)} {names[arrow.end]}" for arrow in drawn]
    if marked in names:
        lines.append(f"    style {names[marked]} stroke-width:3px")
    return fenced("\n".join(lines), "mermaid")


def _stroke(arrow: Arrow) -> str:
    stroke = "-.->" if arrow.dotted else "-->"
    return f'{stroke}|"{_label(arrow.label)}"|' if arrow.label else stroke


def _label(label: str) -> str:
    """Write other characters than letters, digits and simple punctuation as character codes."""
    line = one_line(label)
    short = line if len(line) <= MAX_LABEL_CHARS else f"{line[: MAX_LABEL_CHARS - 1]}…"
    return _UNSAFE.sub(lambda found: f"#{ord(found[0])};", short) or "#45;"
