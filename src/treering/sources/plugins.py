"""Formats and adapters of other packages: found by their entry points, and kept from doing harm."""

import logging
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Any, TypeVar, get_args

from treering.core.errors import InvalidInput, TreeringError
from treering.ports.adapter import Adapter, AlreadyRead, Failed, Reading, ReadLimits, Renamed, Vanished
from treering.ports.format import DocumentDraft, FileToRead, Format, FormatLimits, Unreadable

FORMATS = "treering.formats"
"""The group of entry points of formats; each names a format, or a class that makes one without arguments."""
ADAPTERS = "treering.adapters"
"""The group of entry points of adapters; what is written before the `:` of a target is the name of the entry point."""

_LOG = logging.getLogger(__name__)
_FORMAT_PARTS = ("name", "limits", "claims", "read")
_ADAPTER_PARTS = ("origin", "count", "read")
_ADAPTER_NAME = re.compile(r"[a-z][a-z0-9_-]{1,40}")
_OWN_NAMES = frozenset(
    "path repo url source status file files git git-blob repo-map upload http https text declaration discussion slack"
    " chatgpt claude codex cursor wilmer node module api page wiki memory project ticket trace failures".split()
)
"""Origins of Treering's own begin with these, and a colon: no adapter of another package may write there."""
_READINGS = get_args(Reading)

_Plugin = TypeVar("_Plugin", "ForeignFormat", "ForeignAdapter")


@dataclass(frozen=True, slots=True)
class ForeignFormat:
    """A format of another package. What it raises becomes the result of the one file that it was given."""

    name: str
    limits: FormatLimits
    _inner: Any
    _told: set[str] = field(default_factory=set, compare=False)

    def claims(self, path: str, head: bytes, /) -> bool:
        """Ask it; where it fails, it claims nothing."""
        try:
            return bool(self._inner.claims(path, head))
        except Exception as error:  # noqa: BLE001 - code of others may raise anything
            _tell_once(self._told, "asked about", f"The format {self.name}", path, error)
            return False

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | Unreadable | None:
        """Have it read a file; where it fails, that is said of the file."""
        try:
            found = self._inner.read(data, file)
        except Exception as error:  # noqa: BLE001 - code of others may raise anything
            _tell_once(self._told, "reading", f"The format {self.name}", file.path, error)
            return Unreadable(f"the format {self.name} failed on it: {type(error).__name__}")
        if found is None or isinstance(found, DocumentDraft | Unreadable):
            return found
        return Unreadable(f"the format {self.name} returned {type(found).__name__}, which is not a document")


@dataclass(frozen=True, slots=True)
class ForeignAdapter:
    """An adapter of another package. It tells of origins under its own name alone; what it raises is a failed item."""

    name: str
    _inner: Any

    def origin(self, target: str) -> str:
        """Return the root of a target. Raises `InvalidInput` where the adapter fails, or its root is not its own."""
        try:
            origin = self._inner.origin(target)
        except TreeringError:
            raise
        except Exception as error:
            raise InvalidInput(
                f"The adapter {self.name} failed on {target!r}: {type(error).__name__}.",
                hint="Report this to the maintainers of its package.",
            ) from error
        if not self._is_own(origin):
            raise InvalidInput(
                f"The adapter {self.name} returned the origin {origin!r}.",
                hint=f"Its origins must start with {self.name}: - report this to the maintainers of its package.",
            )
        return str(origin)

    def count(self, target: str, options: Mapping[str, Any]) -> int | None:
        """Ask how many items there are; `None` where the adapter fails or does not know."""
        try:
            found = self._inner.count(target, options)
        except Exception:  # noqa: BLE001 - code of others may raise anything
            return None
        return found if isinstance(found, int) else None

    def read(
        self, target: str, *, known: AlreadyRead, limits: ReadLimits, options: Mapping[str, Any]
    ) -> Iterator[Reading]:
        """Yield what it yields. Raises what Treering's own errors it raises; another one ends as a failed item."""
        root = self.origin(target)
        try:
            for one in self._inner.read(target, known=known, limits=limits, options=options):
                yield one if self._may_tell(one) else Failed(root, self._refused(one))
        except TreeringError:
            raise
        except Exception as error:  # noqa: BLE001 - code of others may raise anything
            _tell_once(set(), "reading", f"The adapter {self.name}", target, error)
            yield Failed(
                root, f"the adapter {self.name} failed, and the remaining items were not read: {type(error).__name__}"
            )

    def _may_tell(self, one: object) -> bool:
        if not isinstance(one, _READINGS):
            return False
        elsewhere = one.moved_to if isinstance(one, Vanished) else one.before if isinstance(one, Renamed) else None
        return self._is_own(one.origin) and (elsewhere is None or self._is_own(elsewhere))

    def _refused(self, one: object) -> str:
        if not isinstance(one, _READINGS):
            return f"the adapter {self.name} returned {type(one).__name__}, which is not a result"
        return f"the adapter {self.name} returned {one.origin!r}: its origins must start with {self.name}:"

    def _is_own(self, origin: object) -> bool:
        return isinstance(origin, str) and origin.startswith(f"{self.name}:")


def installed_formats(taken: Collection[str]) -> Iterator[Format]:
    """Return the formats of other packages, in the order of their names; `taken` are names that they cannot have.

    One that cannot be used is logged, with its package and the reason, and left out.
    """
    yield from _installed(FORMATS, _format, taken, "format")


@cache
def installed_adapters() -> Mapping[str, Adapter]:
    """Return the adapters of other packages by name. One that cannot be used is logged and left out."""
    return {one.name: one for one in _installed(ADAPTERS, _adapter, _OWN_NAMES, "adapter")}


def _installed(
    group: str, load: Callable[[EntryPoint], _Plugin], taken: Collection[str], what: str
) -> Iterator[_Plugin]:
    names = set(taken)
    for point in sorted(entry_points(group=group), key=lambda one: (one.name, one.value)):
        package = point.dist.name if point.dist else "a package without a name"
        try:
            one = load(point)
        except Exception as error:  # noqa: BLE001 - importing a package may raise anything
            _LOG.warning("The %s %s of %s cannot be used: %s", what, point.name, package, error)
            continue
        if one.name in names:
            _LOG.warning("The %s %s of %s is ignored: that name is already taken.", what, one.name, package)
            continue
        names.add(one.name)
        yield one


def _format(point: EntryPoint) -> ForeignFormat:
    inner = _made(point, _FORMAT_PARTS)
    if not isinstance(inner.name, str) or not isinstance(inner.limits, FormatLimits):
        raise TypeError("its name is not text, or its limits are not FormatLimits")
    return ForeignFormat(inner.name, inner.limits, inner)


def _adapter(point: EntryPoint) -> ForeignAdapter:
    if not _ADAPTER_NAME.fullmatch(point.name):
        raise ValueError("its name is not two or more lowercase letters, digits, hyphens or underscores")
    return ForeignAdapter(point.name, _made(point, _ADAPTER_PARTS))


def _made(point: EntryPoint, parts: Collection[str]) -> Any:
    found = point.load()
    inner = found() if isinstance(found, type) else found
    missing = [part for part in parts if not hasattr(inner, part)]
    if missing:
        raise TypeError(f"it has no {', '.join(missing)}")
    return inner


def _tell_once(told: set[str], doing: str, who: str, what: str, error: Exception) -> None:
    """Log the first failure of a kind as a warning; the traceback of each is for those who debug."""
    if doing not in told:
        told.add(doing)
        _LOG.warning("%s failed %s %s: %s. Further failures are not logged.", who, doing, what, _said(error))
    _LOG.debug("%s failed %s %s", who, doing, what, exc_info=error)


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error)[:200]}" if str(error) else type(error).__name__
