"""Errors of the command line: their form on stderr, and the exit codes for scripts."""

import json
import re
import shlex
from collections.abc import Mapping, Sequence

import typer

from treering.core.errors import Conflict, Corrupt, Denied, InvalidInput, NotFound, TreeringError, Unavailable
from treering.registry import built_in_extensions
from treering.surfaces.cli.printing import tell, tell_json

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
    (re.compile(r"Value error, "), ""),
)
"""Messages of typer, and plain ones that replace them."""

_NO_COMMAND = re.compile(r"No such command '(\w+)'")

# The module of this error changes between releases of typer, that of its subclass does not.
Misuse: type[Exception] = typer.BadParameter.__mro__[1]


def exit_code(error: TreeringError) -> int:
    """Return the exit code of the error's nearest class with one."""
    return next((EXIT_CODES[cls] for cls in type(error).__mro__ if cls in EXIT_CODES), OTHER)


def tell_failure(error: TreeringError, given: Sequence[str]) -> int:
    """Write an error to stderr, as JSON if the command line asks for that; return its exit code."""
    if "--json" in given:
        tell_json(json.dumps({"error": error.as_dict()}, default=str))
    else:
        tell("\n".join(_lines(error, shlex.join(["treering", *given]))))
    return exit_code(error)


def tell_interrupted() -> None:
    """Report on stderr that Ctrl-C was pressed."""
    tell("error: interrupted")


def misuse(error: Exception) -> InvalidInput:
    """Turn a wrong command line into our error."""
    message = getattr(error, "format_message", lambda: str(error))().rstrip(".")
    for theirs, ours in _PLAINLY:
        message = theirs.sub(ours, message)
    end = "" if message.endswith("?") else "."  # such as: did you mean …?
    command = getattr(getattr(error, "ctx", None), "command_path", "treering")
    return InvalidInput(f"{message}{end}", hint=_mode_hint(message) or f"See `{command} --help`.")


def _mode_hint(message: str) -> str:
    """Return a hint if the unknown command is a mode of a verb, such as `expand`; else an empty text."""
    from treering.surfaces.cli.help import command_for, shipped_modes

    unknown = _NO_COMMAND.match(message)
    verbs = [verb for verb, modes in shipped_modes().items() if unknown and unknown[1] in {mode[0] for mode in modes}]
    return f"Write: {command_for(verbs[0], unknown[1])}" if unknown and verbs else ""


def missing_extension(module: str) -> str:
    """Return the extension that a module belongs to if its folder was deleted; else an empty text."""
    name = module.removeprefix("treering.extensions.").partition(".")[0]
    return name if module.startswith("treering.extensions.") and name not in built_in_extensions() else ""


def blocked(error: OSError) -> TreeringError:
    """Turn an error of the operating system into ours."""
    place = f"{error.filename}: " if error.filename else ""
    return TreeringError(
        f"{place}{error.strerror or error}.", hint="Check the path, its permissions and the free space."
    )


def _lines(error: TreeringError, typed: str) -> Sequence[str]:
    fields = error.details.get("fields", ())
    several = [f"  {one['field'] or 'input'}: {one['problem']}" for one in fields] if len(fields) > 1 else []
    # A person sees the fields here; the details are for programs.
    hint = "Correct the input; nothing was changed." if "details.fields" in error.hint else error.hint
    # A hint never suggests the command that was just typed.
    is_typed = re.search(rf"{re.escape(typed)}`?\.?$", hint) is not None
    return [f"error: {error.message}", *several, *([f"hint: {hint}"] if hint and not is_typed else [])]
