import json

import pytest

from treering.extensions.documents.structured import NotebookFormat
from treering.ports.adapter import ReadLimits
from treering.ports.format import FileToRead
from treering.testing.format_contract import FileSaying, FormatContract


def cell(kind, source, **more):
    return {"cell_type": kind, "source": source, "metadata": {}, **more}


def notebook(*cells):
    return json.dumps({"cells": cells, "metadata": {"kernelspec": {"language": "python"}}, "nbformat": 4}).encode()


def read(*cells):
    return NotebookFormat().read(notebook(*cells), FileToRead("a.ipynb", ReadLimits()))


class TestNotebook(FormatContract):
    @pytest.fixture
    def format_read(self):
        return NotebookFormat()

    @pytest.fixture
    def file_saying(self) -> FileSaying:
        return lambda text: ("a.ipynb", notebook(cell("markdown", text.splitlines(keepends=True))))


def test_text_and_code_are_segments_at_their_cells_under_the_last_heading():
    document = read(
        cell("markdown", ["# Yields\n", "\n", "Of 2026.\n"]),
        cell("code", "import pandas", outputs=[]),
        cell("markdown", "## Plots"),
        cell("raw", "left out"),
        cell("code", "plot()", outputs=[]),
    )
    assert (document.title, document.metadata["language"]) == ("Yields", "python")
    assert [(one.locator.pointer, one.heading, one.role) for one in document.segments] == [
        ("/cells/0", "Yields", "prose"),
        ("/cells/1", "Yields", "code"),
        ("/cells/2", "Plots", "prose"),
        ("/cells/4", "Plots", "code"),
    ]


def test_of_what_a_cell_printed_the_beginning_is_kept_and_pictures_are_not():
    outputs = [
        {"output_type": "stream", "name": "stdout", "text": [f"line {at}\n" for at in range(100)]},
        {"output_type": "display_data", "data": {"image/png": "iVBORw0KGgo=", "text/plain": ["<Figure size 640x480>"]}},
        {"output_type": "error", "ename": "ValueError", "evalue": "no \x1b[31mport\x1b[0m", "traceback": ["…"]},
    ]
    segments = read(cell("code", "run()", outputs=outputs)).segments
    printed = {one.locator.pointer: one.text for one in segments}
    assert len(printed["/cells/0/outputs/0"].splitlines()) == 21
    assert printed["/cells/0/outputs/1"] == "<Figure size 640x480>"
    assert printed["/cells/0/outputs/2"] == "ValueError: no port"
    assert "iVBOR" not in repr(segments)


@pytest.mark.parametrize("data", [b"{}", b"[]", b'{"cells": {}}', b"\xff", b"[" * 100_000])
def test_what_is_no_notebook_is_left_to_other_formats(data):
    assert NotebookFormat().read(data, FileToRead("a.ipynb", ReadLimits())) is None


def test_cells_of_a_wrong_form_are_passed_over():
    document = read(1, {"cell_type": "code"}, cell("code", 7, outputs=3), cell("code", ["x", 1], outputs=[None, {}]))
    assert [one.text for one in document.segments] == ["x"]
