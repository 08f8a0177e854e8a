"""Notebooks of Jupyter: their cells, with the beginning of what they printed."""

import json
import re
from collections.abc import Iterator
from typing import Any

from treering.edges.sources.structured_pieces import PieceWriter, pointer_to
from treering.ports.format import DocumentDraft, FileToRead, FormatLimits

_OUTPUT_LINES, _OUTPUT_CHARS = 20, 1_000
_HEADING = re.compile(r"^#{1,6}[ \t]+(?P<name>.+?)[ \t#]*$", re.MULTILINE)
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class NotebookFormat:
    """Files `*.ipynb` of the fourth format: text cells as prose, code cells with a few lines of their output."""

    name = "notebook"
    limits = FormatLimits(max_segments=20_000)

    def claims(self, path: str, head: bytes, /) -> bool:
        """Go by the ending of the name."""
        del head
        return path.lower().endswith(".ipynb")

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | None:
        """Read a notebook; bytes that are none are left to other formats. Pictures and other data are left out."""
        try:
            told = json.loads(data)
        except (ValueError, RecursionError):
            return None
        cells = told.get("cells") if isinstance(told, dict) else None
        if not isinstance(cells, list):
            return None
        pieces = PieceWriter(file)
        title = heading = ""
        for number, cell in enumerate(one for one in cells if isinstance(one, dict)):
            pointer, text = pointer_to("cells", number), _text(cell.get("source"))
            if cell.get("cell_type") == "markdown":
                names = [pieces.clean(found["name"], pointer) for found in _HEADING.finditer(text)]
                title = title or next(iter(names), "")
                heading = names[0] if names else heading
                pieces.add(pointer, text, heading=heading)
            elif cell.get("cell_type") == "code":
                pieces.add(pointer, text, heading=heading, role="code")
                for at, printed in _outputs(cell.get("outputs")):
                    pieces.add(pointer_to("cells", number, "outputs", at), printed, heading=heading, role="data")
        language = _mapping(_mapping(told.get("metadata")).get("kernelspec")).get("language")
        named = {"language": language} if isinstance(language, str) and language else {}
        return DocumentDraft(
            "structured",
            pieces.segments,
            title=title,
            metadata={**pieces.metadata, **named},
            warnings=pieces.warnings,
        )


def _outputs(outputs: Any) -> Iterator[tuple[int, str]]:
    """Return what a cell printed, shortened: its streams, results in plain text, and errors."""
    for at, one in enumerate(outputs if isinstance(outputs, list) else []):
        told = _mapping(one)
        match told.get("output_type"):
            case "stream":
                text = _text(told.get("text"))
            case "error":
                text = f"{told.get('ename')}: {told.get('evalue')}"
            case _:
                text = _text(_mapping(told.get("data")).get("text/plain"))
        lines = _ESCAPES.sub("", text).strip().splitlines()
        shown = "\n".join(lines[:_OUTPUT_LINES])[:_OUTPUT_CHARS]
        if shown:
            yield at, shown if len(lines) <= _OUTPUT_LINES else f"{shown}\n…"


def _text(source: Any) -> str:
    """Return a text that may be kept as a list of lines."""
    if isinstance(source, list):
        return "".join(one for one in source if isinstance(one, str))
    return source if isinstance(source, str) else ""


def _mapping(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
