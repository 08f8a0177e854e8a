"""Rows of cells as units: each is a range that can be named, with the first row of its sheet above it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from treering.edges.sources.documents.contents import DocumentUnit, plain

MOST_CELLS = 1_000_000
_RANGE_CHARS = 1_000
_LONGEST_CELL = 2_000
_LONGEST_COLUMN_NAMES = 300


@dataclass(frozen=True, slots=True)
class CellRow:
    """A row (from 1) of a sheet: what its cells show, by column (from 1)."""

    number: int
    cells: Mapping[int, str]

    @property
    def text(self) -> str:
        """Return the cells that are not empty, in order."""
        return " | ".join(self.cells[at] for at in sorted(self.cells))


def shown(value: str, formula: str = "") -> str:
    """Return what stands in a cell: its value, and the formula that gives it."""
    value = " ".join(plain(value).split())[:_LONGEST_CELL]
    formula = " ".join(plain(formula).split())[:_LONGEST_CELL]
    return (f"{value} (={formula})" if value else f"={formula}") if formula else value


def ranges(sheet: str, rows: Iterable[CellRow]) -> Iterator[DocumentUnit]:
    """Cut the rows of a sheet into ranges of about a thousand characters."""
    held, size, columns = list[CellRow](), 0, ""
    for row in rows:
        if not row.cells:
            continue
        if held and size + len(row.text) > _RANGE_CHARS:
            yield _range(sheet, held, columns)
            columns = columns or held[0].text[:_LONGEST_COLUMN_NAMES]
            held, size = [], 0
        held.append(row)
        size += len(row.text) + 1
    if held:
        yield _range(sheet, held, columns)


def column_name(number: int) -> str:
    """Return the letters of a column (from 1)."""
    name = ""
    while number > 0:
        number, letter = divmod(number - 1, 26)
        name = chr(ord("A") + letter) + name
    return name


def _range(sheet: str, rows: list[CellRow], columns: str) -> DocumentUnit:
    first, last = (pick(at for row in rows for at in row.cells) for pick in (min, max))
    name = f"{sheet}!{column_name(first)}{rows[0].number}:{column_name(last)}{rows[-1].number}"
    lines = [*([f"Columns: {columns}"] if columns else []), *(row.text for row in rows)]
    return DocumentUnit("\n".join(lines), name, data=True)
