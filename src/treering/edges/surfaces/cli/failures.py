"""How the command line tells what went wrong: one shape on stderr, and an exit code that scripts can rely on."""

import json
import re
from collections.abc import Mapping, Sequence

import typer

from treering.core.errors import (
    Conflict,
    Corrupt,
    Denied,
    InvalidInput,
    NotFound,
    TreeringError,
    Unavailable,
)
from treering.edges.surfaces.cli import printing

EXIT_CODES: Mapping[type[TreeringError], int] = {
    InvalidInput: 2,
    NotFound: 3,
    Conflict: 4,
    Denied: 5,
    Unavailable: 6,
    Corrupt: 7,
}
OTHER = 1

_PLAINLY = (
    (re.compile(r"Input should be greater than or equal to "), "it must be at least "),
    (re.compile(r"Input should be less than or equal to "), "it must be at most "),
    (re.compile(r"Input should be a valid integer.*"), "it must be a whole number"),
    (re.compile(r"Input should be a valid number.*"), "it must be a number"),
)
"""What the checks of typer say of a value, and how people say it."""

# The error for a wrong command line lies in another module from one release of typer to the next; its child does not.
Misuse: type[Exception] = typer.BadParameter.__mro__[1]


def exit_code(error: TreeringError) -> int:
    """Return the exit code of an error: that of the nearest class in the tree."""
    return next((EXIT_CODES[cls] for cls in type(error).__mro__ if cls in EXIT_CODES), OTHER)


def tell(error: TreeringError, *, as_json: bool) -> int:
    """Write an error to stderr, for people or as JSON; return its exit code."""
    if as_json:
        printing.tell_json(json.dumps({"error": error.as_dict()}, default=str))
    else:
        printing.tell("\n".join(_lines(error)))
    return exit_code(error)


def tell_interrupted() -> None:
    """Say that somebody pressed Ctrl-C, and that this does no harm."""
    printing.tell("error: interrupted\nhint: What was written stays; the same command again goes on from there.")


def misuse(error: Exception) -> InvalidInput:
    """Turn a wrong command line into our error."""
    said = getattr(error, "format_message", lambda: str(error))().rstrip(".")
    for theirs, ours in _PLAINLY:
        said = theirs.sub(ours, said)
    end = "" if said.endswith("?") else "."  # a question: which command was meant
    command = getattr(getattr(error, "ctx", None), "command_path", "treering")
    return InvalidInput(f"{said}{end}", hint=f"See `{command} --help`.")


def blocked(error: OSError) -> TreeringError:
    """Turn an error of the operating system into ours."""
    place = f"{error.filename}: " if error.filename else ""
    return TreeringError(
        f"{place}{error.strerror or error}.", hint="Check the path, its permissions and the free space."
    )


def _lines(error: TreeringError) -> Sequence[str]:
    fields = error.details.get("fields", ())
    several = [f"  {one['field'] or 'input'}: {one['problem']}" for one in fields] if len(fields) > 1 else []
    # A person sees the fields here; the details are for programs.
    hint = "Correct it; nothing was changed." if "details.fields" in error.hint else error.hint
    return [f"error: {error.message}", *several, *([f"hint: {hint}"] if hint else [])]
