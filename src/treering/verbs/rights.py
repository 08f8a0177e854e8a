"""What operations do beyond reading a space, and what surfaces let their callers do. One value says both."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace

from treering.core.errors import Denied


@dataclass(frozen=True, slots=True, kw_only=True)
class Rights:
    """What an operation needs, or what a surface grants. No field has a default: each is said."""

    writes: bool
    """Changes the space."""
    reads_files: bool
    """Reads files or folders that the caller names."""
    writes_files: bool
    """Writes files or folders that the caller names."""
    fetches: bool
    """Reads from a network."""
    destroys: bool
    """Removes content for good. It cannot be taken back."""
    needs_person: bool
    """Is a decision for a person."""

    def __or__(self, other: "Rights") -> "Rights":
        """Return what either of two says."""
        return Rights(**{name: value or getattr(other, name) for name, value in asdict(self).items()})

    def __and__(self, other: "Rights") -> "Rights":
        """Return what both of two say."""
        return Rights(**{name: value and getattr(other, name) for name, value in asdict(self).items()})

    @property
    def names(self) -> tuple[str, ...]:
        """The names of what it says, in the order of the fields."""
        return tuple(name for name, value in asdict(self).items() if value)

    def beyond(self, granted: "Rights") -> tuple[str, ...]:
        """Name what is needed here and not granted there."""
        return tuple(name for name in self.names if not getattr(granted, name))


READS = Rights(writes=False, reads_files=False, writes_files=False, fetches=False, destroys=False, needs_person=False)
"""Reads the space, and does nothing else."""
WRITES = replace(READS, writes=True)
"""Writes what can be taken back."""
DECIDES = replace(WRITES, needs_person=True)
"""Writes what a person has to decide."""
EVERYTHING = Rights(writes=True, reads_files=True, writes_files=True, fetches=True, destroys=True, needs_person=True)
"""What a person's own program may do."""


def require(what: str, needed: Rights, *, granted: Rights) -> None:
    """Raise `Denied` where an operation, called `what`, needs more than is granted."""
    missing = needed.beyond(granted)
    if missing:
        does = " and ".join(_DOES[name] for name in missing)
        raise Denied(
            f"{what} {does}, which is not allowed here.",
            hint=" ".join(_HINTS[name] for name in missing),
            details={"operation": what, "not_granted": list(missing)},
        )


_DOES: Mapping[str, str] = {
    "writes": "changes the space",
    "reads_files": "reads files",
    "writes_files": "writes files",
    "fetches": "reads from the network",
    "destroys": "removes content for good",
    "needs_person": "is for a person to decide",
}
_HINTS: Mapping[str, str] = {
    "writes": "Ask where the space is not only read.",
    "reads_files": "Start the server with --files FOLDER, or give the text itself with mode 'source'.",
    "writes_files": "Use the command line on the machine that holds the space.",
    "fetches": "Start the server with --allow-urls, or fetch it yourself and give the text with mode 'source'.",
    "destroys": "Use the command line, or start `treering serve` with --allow erase.",
    "needs_person": "Use the command line at a terminal, or start `treering serve` with --allow review.",
}
