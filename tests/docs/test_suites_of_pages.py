"""The test classes that pages show, as tests: what the pages write passes its contract."""

import sys
from contextlib import chdir, redirect_stdout
from io import StringIO
from pathlib import Path
from tempfile import TemporaryDirectory

from blocks import blocks_of

PAGES = Path(__file__).parents[2] / "docs" / "extend"


def suites_of(page):
    """Return the test classes that the Python blocks of a page make, by name."""
    names = {"__name__": __name__}
    with TemporaryDirectory() as folder, chdir(folder), redirect_stdout(StringIO()):
        for block in blocks_of(page):
            if block.language == "python" and not block.name:
                exec(compile(block.text, f"{page.name}:{block.line}", "exec"), names)
    return {name: one for name, one in names.items() if name.startswith("Test")}


SUITES = {page: suites_of(PAGES / f"{page}.md") for page in ("write-a-format", "write-an-adapter", "write-an-index")}
for found in SUITES.values():
    vars(sys.modules[__name__]).update(found)


def test_each_of_these_pages_shows_a_suite():
    assert [list(found) for found in SUITES.values()] == [["TestLogbook"], ["TestBoards"], ["TestTitles"]]
