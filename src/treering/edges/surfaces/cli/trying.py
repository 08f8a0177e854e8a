"""`treering try`: the main job on the folder one is in, in a space that is gone afterwards."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

from treering.core.errors import InvalidInput, Unavailable
from treering.edges.address import file_address
from treering.edges.surfaces.cli.rendering import render
from treering.edges.surfaces.cli.rendering.lines import IndentedLine, line, show, terminal
from treering.edges.surfaces.cli.session import is_piped, opened, watched
from treering.edges.surfaces.space import Space
from treering.tools.envelope import Report

TASK = "change how content is hashed, so that erasure leaves no hash that can be guessed"
_TOKENS = 1_500
# The task stands word for word in this module; finding it there would answer nothing.
_EXCLUDED = ["**/surfaces/cli/trying.py"]


def try_here(task: str, *, wait: bool) -> None:
    """Ingest the folder one is in, print a context pack with citations, and lint."""
    console = terminal()
    with (
        TemporaryDirectory(prefix="treering-") as folder,
        opened(file_address(Path(folder) / "try.db"), create=True) as space,
    ):
        for lines in _steps(space, task or TASK, wait=wait):
            show(console, lines)


def _steps(space: Space, task: str, *, wait: bool) -> Iterator[list[IndentedLine]]:
    yield [line(("1. Ingest this folder", "bold"))]
    yield [*_indented(render(_ingest(space, wait=wait))), line("")]
    yield [line(("2. Ask for the context of a task", "bold"))]
    report = space.query("context", input={"task": task}, options={"max_tokens": _TOKENS})
    yield [*_indented(render(report, fenced=is_piped())), line("")]
    yield [line(("3. Lint", "bold"))]
    for mode in ("structure", "semantic"):
        yield list(_indented(render(space.lint(mode, options={"limit": 5}))))
    yield [line(""), line("That space is gone again. Keep one of your own: treering init && treering ingest .")]


def _ingest(space: Space, *, wait: bool) -> Report:
    here = {"path": str(Path.cwd())}
    with watched(space) as busy:
        try:
            return busy.ingest("repo", input=here, options={"wait": wait, "exclude": _EXCLUDED})
        except (InvalidInput, Unavailable):
            return busy.ingest("path", input=here, options={"wait": wait})  # no repository, or no git


def _indented(lines: Iterator[IndentedLine]) -> Iterator[IndentedLine]:
    return (IndentedLine(one.text, one.indent + 2) for one in lines)
