"""Figures, the targets they are held against, and the table of both."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Target:
    """What a figure should be: at most `bound`, or at least."""

    bound: float
    at_least: bool = False

    def met_by(self, value: float) -> bool:
        """Tell whether a value is good enough."""
        return value >= self.bound if self.at_least else value <= self.bound

    def __str__(self) -> str:
        return f"{'≥' if self.at_least else '≤'} {number(self.bound)}"


@dataclass(frozen=True, slots=True)
class Figure:
    """Something measured. `note` says what else a reader should know: wall time, an interval, a baseline."""

    name: str
    value: float
    unit: str
    target: Target | None = None
    note: str = ""

    @property
    def met(self) -> bool | None:
        """Tell whether the target is met; `None` where there is none."""
        return None if self.target is None else self.target.met_by(self.value)


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that could not be measured here, and why."""

    name: str
    why: str


Row = Figure | Missing


def at_most(bound: float) -> Target:
    """Make a target for what should be small."""
    return Target(bound)


def at_least(bound: float) -> Target:
    """Make a target for what should be large."""
    return Target(bound, at_least=True)


def table(rows: Sequence[Row]) -> str:
    """Write figures beside their targets, as Markdown."""
    lines = ["| figure | measured | target | |", "|---|---|---|---|"]
    return "\n".join([*lines, *map(_line, rows)])


def as_data(row: Row) -> dict[str, Any]:
    """Return a row as plain data."""
    return {**asdict(row), "met": row.met} if isinstance(row, Figure) else asdict(row)


def number(value: float) -> str:
    """Write a number with three figures, or all of a whole part that has more."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _line(row: Row) -> str:
    if isinstance(row, Missing):
        return f"| {row.name} | not measured | | {row.why} |"
    measured = f"{number(row.value)} {row.unit}".strip()
    wanted = f"{row.target} {row.unit}".strip() if row.target else ""
    verdict = {True: "met", False: "**missed**", None: ""}[row.met]
    remarks = "; ".join(filter(None, (verdict, row.note)))
    return f"| {row.name} | {measured} | {wanted} | {remarks} |"
