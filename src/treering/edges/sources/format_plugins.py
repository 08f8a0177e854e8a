"""Formats of other packages: found by their entry points, and kept from doing harm."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any

from treering.ports.format import DocumentDraft, FileToRead, Format, FormatLimits, Unreadable

GROUP = "treering.formats"
"""The group of entry points; each names a format, or a class that makes one without arguments."""

_LOG = logging.getLogger(__name__)
_PARTS = ("name", "limits", "claims", "read")


@dataclass(frozen=True, slots=True)
class ForeignFormat:
    """A format of another package. What it raises becomes the result of the one file that it was given."""

    name: str
    limits: FormatLimits
    _inner: Any

    def claims(self, path: str, head: bytes, /) -> bool:
        """Ask it; where it fails, it claims nothing."""
        try:
            return bool(self._inner.claims(path, head))
        except Exception:  # noqa: BLE001 - code of others may raise anything
            _LOG.exception("The format %s failed when it was asked about %s.", self.name, path)
            return False

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | Unreadable | None:
        """Have it read a file; where it fails, that is said of the file."""
        try:
            found = self._inner.read(data, file)
        except Exception as error:  # noqa: BLE001 - code of others may raise anything
            _LOG.exception("The format %s failed on %s.", self.name, file.path)
            return Unreadable(f"the format {self.name} failed on it: {type(error).__name__}")
        if found is None or isinstance(found, DocumentDraft | Unreadable):
            return found
        return Unreadable(f"the format {self.name} gave {type(found).__name__}, which is not a document")


def installed_formats(taken: Sequence[str]) -> Iterator[Format]:
    """Return the formats of other packages, in the order of their names; `taken` are names that they cannot have.

    One that cannot be used is logged, with its package and the reason, and left out.
    """
    names = set(taken)
    for point in sorted(entry_points(group=GROUP), key=lambda one: (one.name, one.value)):
        package = point.dist.name if point.dist else "a package without a name"
        try:
            one = _loaded(point)
        except Exception as error:  # noqa: BLE001 - importing a package may raise anything
            _LOG.warning("The format %s of %s cannot be used: %s", point.name, package, error)
            continue
        if one.name in names:
            _LOG.warning("The format %s of %s is left out: there is one of that name.", one.name, package)
            continue
        names.add(one.name)
        yield one


def _loaded(point: EntryPoint) -> ForeignFormat:
    made = point.load()
    inner = made() if isinstance(made, type) else made
    missing = [part for part in _PARTS if not hasattr(inner, part)]
    if missing:
        raise TypeError(f"it has no {', '.join(missing)}")
    if not isinstance(inner.name, str) or not isinstance(inner.limits, FormatLimits):
        raise TypeError("its name is not text, or its limits are not FormatLimits")
    return ForeignFormat(inner.name, inner.limits, inner)
