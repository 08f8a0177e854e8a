"""The error tree.

    TreeringError
    ├── InvalidInput        bad arguments, patches, payloads
    │   ├── InvalidPatch
    │   ├── IllegalTransition
    │   ├── UnknownBackend
    │   └── MissingExtra
    ├── NotFound
    │   └── UnknownProject  nothing was ever stored for it
    ├── Conflict            a concurrent write; carries the current revision
    ├── Denied
    ├── Unavailable         try again later: locked, full, read-only
    ├── Corrupt             stored data does not verify
    └── Defect              Treering contradicts itself

An error carries a message, a hint that a person can act on, and details for a program. The hint is also a note of the
exception, so that a traceback shows it.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class TreeringError(Exception):
    """The root of all errors that Treering raises on purpose."""

    code = "error"
    public_message: str = ""
    """The message for callers on other machines, if `message` contains the location of a database."""

    def __init__(self, message: str, *, hint: str = "", details: Mapping[str, Any] | None = None) -> None:
        # The message may quote input of any length.
        shown = message if len(message) <= _LONGEST_MESSAGE else f"{message[:_LONGEST_MESSAGE]}…"
        # A quoted message of another error may already end with a full stop.
        shown = _TWO_STOPS.sub(r"\1", shown)
        super().__init__(shown)
        self.message = shown
        self.hint = hint
        self.details: dict[str, Any] = dict(details or {})
        if hint:
            # Tracebacks show notes. `str` remains the message; surfaces show the hint separately.
            self.add_note(f"Hint: {hint}")

    def as_dict(self) -> dict[str, Any]:
        """Return the common form of an error on all surfaces."""
        return {"code": self.code, "message": self.message, "hint": self.hint, "details": self.details}


class InvalidInput(TreeringError):
    """The caller's input cannot be accepted; nothing was changed."""

    code = "invalid_input"


class InvalidPatch(InvalidInput):
    """A patch breaks a rule of the objects; nothing of it was applied."""

    code = "invalid_patch"


class IllegalTransition(InvalidInput):
    """A status change outside the transition table."""

    code = "illegal_transition"


class UnknownBackend(InvalidInput):
    """An address names a store that does not exist."""

    code = "unknown_backend"

    def __init__(self, name: str, *, known: Iterable[str]) -> None:
        names = sorted(known)
        super().__init__(
            f"Unknown backend {name!r}.", hint=nearest(name, names), details={"given": name, "known": names}
        )


class MissingExtra(InvalidInput):
    """An optional dependency is not installed."""

    code = "missing_extra"

    def __init__(self, extra: str, *, needed_for: str) -> None:
        super().__init__(
            f"{needed_for} needs the extra {extra!r}.",
            hint=f"Install it: pip install 'treering[{extra}]'.",
            details={"extra": extra},
        )


@contextmanager
def needing(extra: str, needed_for: str) -> Iterator[None]:
    """Raise `MissingExtra` if an import fails because the extra is not installed. Empty `extra`: it needs none."""
    try:
        yield
    except ModuleNotFoundError as error:
        ours = (error.name or "").partition(".")[0] == __name__.partition(".")[0]
        if ours or not extra:
            raise  # it is not the extra that is missing
        raise MissingExtra(extra, needed_for=needed_for) from error


class NotFound(TreeringError):
    """No such object, patch, file or space."""

    code = "not_found"


class UnknownProject(NotFound):
    """Nothing was ever stored for this project; reading does not create it."""

    def __init__(self, project_id: str) -> None:
        super().__init__(
            f"Unknown project {project_id!r}.",
            hint="Check the id, or index something first; indexing creates the project.",
            details={"project_id": project_id},
        )


class Conflict(TreeringError):
    """The object changed since it was read, or the change would undo another write."""

    code = "conflict"


class Denied(TreeringError):
    """The channel or person may not do this."""

    code = "denied"


class Unavailable(TreeringError):
    """The store cannot answer now: locked too long, disk full, read-only."""

    code = "unavailable"


class TimedOut(Unavailable):
    """The call exceeded its time limit."""

    code = "timed_out"


class Corrupt(TreeringError):
    """Stored data does not verify."""

    code = "corrupt"


class Defect(TreeringError):
    """Treering is inconsistent: a bug in the program, not in the call; nothing was changed."""

    code = "defect"


def as_sentence(text: str) -> str:
    """Return a text that ends with a full stop or its own final mark."""
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."


def nearest(given: str, known: Iterable[str], *, similarity: float = 0.5, otherwise: str = "") -> str:
    """Return a hint with the most similar name in `known`, never the given text; else `otherwise`, or all of them.

    `similarity`: the least that counts, from 0 to 1.
    """
    # Imported here: it is rarely needed, and hooks of coding agents must start fast.
    from difflib import get_close_matches

    names = [name for name in known if name != given]
    # Comparing takes time in proportion to the product of the lengths.
    close = get_close_matches(given[:_LONGEST_NAME], names, n=1, cutoff=similarity)
    return f"Did you mean {close[0]!r}?" if close else otherwise or f"Known: {', '.join(names)}."


_TWO_STOPS = re.compile(r"(?<![.…])([.!?…])\.$")
_LONGEST_NAME = 200
_LONGEST_MESSAGE = 4_000
