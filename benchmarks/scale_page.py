"""The page of costs by size: `python -m benchmarks scale` measures, `python -m benchmarks.scale_page` writes tables."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path

from benchmarks.figures import number
from benchmarks.scale import FILE, MEASURES

PAGE = Path(__file__).parents[1] / "docs/benchmarks/scale.md"
BEGINS, ENDS = "<!-- measured: written by `python -m benchmarks.scale_page` -->", "<!-- end of the tables -->"

Figures = Mapping[str, float]


def page_with(text: str, spaces: Mapping[str, Mapping[str, Figures]]) -> str:
    """Return the page with new tables, one for each kind of text."""
    before, _, rest = text.partition(BEGINS)
    after = rest.partition(ENDS)[2]
    tables = "\n\n".join("\n".join(_table(kind, list(sizes.values()))) for kind, sizes in spaces.items())
    return f"{before}{BEGINS}\n\n{tables}\n\n{ENDS}{after}"


def _table(kind: str, spaces: list[Figures]) -> Iterator[str]:
    """Write a table with a column for each size, and in brackets the factor to the size before."""
    yield f"### {kind.capitalize()}"
    yield ""
    yield f"| passages | {' | '.join(f'{passages:,.0f}' for passages in (one['passages'] for one in spaces))} |"
    yield f"| --- |{' ---: |' * len(spaces)}"
    for name, measure in MEASURES.items():
        if name != "passages" and any(name in one for one in spaces):
            cells = [_cell(name, one, spaces[at - 1] if at else {}) for at, one in enumerate(spaces)]
            unit = f", {measure.unit}" if measure.unit else ""
            yield f"| {measure.name}{unit} | {' | '.join(cells)} |"
    yield ""
    for run in dict.fromkeys(str(one["run"]) for one in spaces):
        sizes = " and ".join(f"{one['passages']:,.0f}" for one in spaces if one["run"] == run)
        yield f"{sizes} passages: {run}."


def _cell(name: str, space: Figures, smaller: Figures) -> str:
    if name not in space:
        return ""
    factor = f" (× {space[name] / smaller[name]:.2g})" if smaller.get(name) else ""
    return f"{number(space[name])}{factor}"


if __name__ == "__main__":
    measured = json.loads(FILE.read_text(encoding="utf-8"))
    PAGE.write_text(page_with(PAGE.read_text(encoding="utf-8"), measured), encoding="utf-8", newline="\n")
