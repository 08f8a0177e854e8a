"""The command `treering`: the four verbs, review and upkeep of a space, for people and for scripts.

What a command declares is in `*_commands`, which load nothing heavy, so that `--help` is quick; what it does is in
modules that are imported when it runs.
"""

import gc
import sys
from collections.abc import Sequence
from io import TextIOWrapper

import typer

from treering import __version__
from treering.core.errors import TreeringError
from treering.edges.surfaces.cli import failures
from treering.edges.surfaces.cli.app import app
from treering.edges.surfaces.cli.printing import clean_terminals, say, tell_crash

__all__ = ["main", "run"]

_INTERRUPTED = 130
_OBJECTS_PER_COLLECTION = 50_000  # Python's default looks for cycles a hundred times while the modules are loaded
_ASKS_VERSION = (["version"], ["--version"])


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and leave with its exit code: 0, or as `failures.EXIT_CODES` says."""
    gc.set_threshold(_OBJECTS_PER_COLLECTION)
    _accept_any_text()
    clean_terminals()
    sys.excepthook = tell_crash
    raise SystemExit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code. What went wrong is told on stderr, never as a traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in _ASKS_VERSION:
        say(f"treering {__version__}")  # at once: typer's parsing of values would take longer than the answer
        return 0
    _accept_any_text()
    try:
        outcome = app(args=given, prog_name="treering", standalone_mode=False)
    except TreeringError as error:
        return failures.tell(error, as_json="--json" in given)
    except failures.Misuse as error:
        return failures.tell(failures.misuse(error), as_json="--json" in given)
    except OSError as error:
        return failures.tell(failures.blocked(error), as_json="--json" in given)
    except typer.Abort:
        outcome = _INTERRUPTED
    if outcome == _INTERRUPTED:
        failures.tell_interrupted()
    return outcome if isinstance(outcome, int) else 0


def _accept_any_text() -> None:
    """Let stored text through that the terminal's encoding lacks, escaped, instead of failing on it."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
