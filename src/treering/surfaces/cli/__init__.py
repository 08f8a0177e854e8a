"""The command `treering`: the four verbs, reviews and maintenance of a space, for people and for scripts.

Each command is one function in `commands`, which imports slow modules when it runs, so that `--help` is fast.
"""

import os
import signal
import sys
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from io import TextIOWrapper
from types import FrameType
from typing import NoReturn

import typer

from treering.core.errors import InvalidInput, TreeringError
from treering.surfaces.cli import completing, failures, printing
from treering.surfaces.cli.printing import clean_terminals, say, tell_crash
from treering.version import __version__

__all__ = ["main", "run"]

_SETTINGS = {"--trust": "TREERING_TRUST", "--no-pager": printing.NO_PAGER}
"""Flags of every command, and the variables that they set while it runs."""
_INTERRUPTED = 130
_COMPLETES = ("--install-completion", "--show-completion")
_VERSION_REQUESTS = (["version"], ["--version"])
_interrupts: list[int] = []
"""Each Ctrl-C. A library that is being imported may turn its exception into another, such as `ImportError`."""


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run the command line and exit with its code: 0, or one of `failures.EXIT_CODES`."""
    _accept_any_text()
    clean_terminals()
    sys.excepthook = tell_crash
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _interrupt)
    raise SystemExit(run(arguments))


def run(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code. Errors are reported on stderr, without a traceback."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given in _VERSION_REQUESTS:
        say(f"treering {__version__}")  # loading the commands would take longer than the answer
        return 0
    _accept_any_text()
    if completing.is_asked():
        from treering.surfaces.cli.commands import command_line

        completing.print_rows(command_line(completing.first_word()))
        return 0
    if any(one.startswith(_COMPLETES) for one in given[:1]):
        completing.use_own_scripts()
    given, settings = _without_settings(given)
    try:
        from treering.surfaces.cli.commands import command_line

        commands = command_line(given[0] if given else "")
        with settings:
            outcome = commands(args=given, prog_name="treering", standalone_mode=False)
    except Exception as error:  # noqa: BLE001 - unknown errors are raised again
        outcome = _INTERRUPTED if _interrupts or isinstance(error, typer.Abort) else _report(error, given)
    if outcome == _INTERRUPTED:
        failures.tell_interrupted()
    return outcome if isinstance(outcome, int) else 0


def _without_settings(given: list[str]) -> tuple[list[str], AbstractContextManager[None]]:
    """Remove `--trust` and `--no-pager` from a command line; return the rest, and a context that applies them.

    They are applied as environment variables, so that other processes started by the command also get them.
    """
    end = given.index("--") if "--" in given else len(given)
    named = {_SETTINGS[one] for one in given[:end] if one in _SETTINGS}
    left = [*(one for one in given[:end] if one not in _SETTINGS), *given[end:]]
    return left, _set(named) if named else nullcontext()


@contextmanager
def _set(names: Collection[str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in names}
    os.environ.update(dict.fromkeys(names, "1"))
    try:
        yield
    finally:
        for name, value in before.items():
            os.environ.pop(name)
            if value is not None:
                os.environ[name] = value


def _interrupt(number: int, frame: FrameType | None) -> None:
    _interrupts.append(number)
    signal.default_int_handler(number, frame)


def _report(error: Exception, given: Sequence[str]) -> int:
    """Report an error on stderr and return its exit code. Raises it if it is a bug."""
    match error:
        case TreeringError():
            known = error
        case failures.Misuse():
            known = failures.misuse(error)
        case OSError():
            known = failures.blocked(error)
        case ModuleNotFoundError(name=str(name)) if extension := failures.missing_extension(name):
            known = InvalidInput(f"This needs the extension {extension!r}, which is missing.")
        case _:
            raise error
    return failures.tell_failure(known, given)


def _accept_any_text() -> None:
    """Escape characters that the terminal's encoding lacks, instead of failing."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
