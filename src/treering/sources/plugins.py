"""Formats and adapters of other packages, found by entry points and isolated from the rest."""

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
"""The group of entry points of formats: each is a format, or a class that creates one without arguments."""
ADAPTERS = "treering.adapters"
"""The group of entry points of adapters; the name of an entry point precedes the `:` of a target."""

_LOG = logging.getLogger(__name__)
_FORMAT_PARTS = ("name", "limits", "claims", "read")
_ADAPTER_PARTS = ("origin", "count", "read")
_ADAPTER_NAME = re.compile(r"[a-z][a-z0-9_-]{1,40}")
_OWN_NAMES = frozenset(
    "path repo url source status file files git git-blob repo-map upload http https text declaration discussion slack"
    " chatgpt claude codex cursor wilmer node module api page wiki memory project ticket trace failures".split()
)
"""Prefixes, before a colon, of Treering's own origins; no adapter of another package may use them."""
_READINGS = get_args(Reading)

_Plugin = TypeVar("_Plugin", "ForeignFormat", "ForeignAdapter")


@dataclass(frozen=True, slots=True)
class ForeignFormat:
    """A format of another package. Its exceptions become the result of the file it was reading."""

    name: str
    limits: FormatLimits
    _inner: Any
    _logged: set[str] = field(default_factory=set, compare=False)

    def claims(self, path: str, head: bytes, /) -> bool:
        """Return whether it claims a file; `False` if it fails."""
        try:
            return bool(self._inner.claims(path, head))
        except Exception as error:  # noqa: BLE001 - code of others may raise anything
            _log_once(self._logged, "asked about", f"The format {self.name}", path, error)
            return False

    def read(self, data: bytes, file: FileToRead, /) -> DocumentDraft | Unreadable | None:
        """Read a file; if the format fails, the file is unreadable."""
        try:
            document = self._inner.read(data, file)
        except Exception as error:  # noqa: BLE001 - code of others may raise anything
            _log_once(self._logged, "reading", f"The format {self.name}", file.path, error)
            return Unreadable(f"the format {self.name} failed on it: {type(error).__name__}")
        if document is None or isinstance(document, DocumentDraft | Unreadable):
            return document
        return Unreadable(f"the format {self.name} returned {type(document).__name__}, which is not a document")


@dataclass(frozen=True, slots=True)
class ForeignAdapter:
    """An adapter of another package. It may only return origins under its own name; its exceptions fail an item."""

    name: str
    _inner: Any

    def origin(self, target: str) -> str:
        """Return the root of a target. Raises `InvalidInput` if the adapter fails, or the root is not its own."""
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
        """Return the number of items; `None` if the adapter fails or does not know."""
        try:
            number = self._inner.count(target, options)
        except Exception:  # noqa: BLE001 - code of others may raise anything
            return None
        return number if isinstance(number, int) else None

    def read(
        self, target: str, *, known: AlreadyRead, limits: ReadLimits, options: Mapping[str, Any]
    ) -> Iterator[Reading]:
        """Yield its results. Raises only Treering's own errors; any other exception becomes a failed item."""
        root = self.origin(target)
        try:
            for one in self._inner.read(target, known=known, limits=limits, options=options):
                yield one if self._is_valid(one) else Failed(root, self._refused(one))
        except TreeringError:
            raise
        except Exception as error:  # noqa: BLE001 - code of others may raise anything
            _log_once(set(), "reading", f"The adapter {self.name}", target, error)
            yield Failed(
                root, f"the adapter {self.name} failed, and the remaining items were not read: {type(error).__name__}"
            )

    def _is_valid(self, one: object) -> bool:
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
    """Yield the formats of other packages, in the order of their names, except those with a name in `taken`.

    Unusable ones are logged, with package and reason, and skipped.
    """
    yield from _installed(FORMATS, _format, taken, "format")


@cache
def installed_adapters() -> Mapping[str, Adapter]:
    """Return the adapters of other packages by name. Unusable ones are logged and skipped."""
    return {one.name: one for one in _installed(ADAPTERS, _adapter, _OWN_NAMES, "adapter")}


def _installed(
    group: str, load: Callable[[EntryPoint], _Plugin], taken: Collection[str], kind: str
) -> Iterator[_Plugin]:
    names = set(taken)
    for point in sorted(entry_points(group=group), key=lambda one: (one.name, one.value)):
        package = point.dist.name if point.dist else "a package without a name"
        try:
            one = load(point)
        except Exception as error:  # noqa: BLE001 - importing a package may raise anything
            _LOG.warning("The %s %s of %s cannot be used: %s", kind, point.name, package, error)
            continue
        if one.name in names:
            _LOG.warning("The %s %s of %s is ignored: that name is already taken.", kind, one.name, package)
            continue
        names.add(one.name)
        yield one


def _format(point: EntryPoint) -> ForeignFormat:
    inner = _loaded(point, _FORMAT_PARTS)
    if not isinstance(inner.name, str) or not isinstance(inner.limits, FormatLimits):
        raise TypeError("its name is not text, or its limits are not FormatLimits")
    return ForeignFormat(inner.name, inner.limits, inner)


def _adapter(point: EntryPoint) -> ForeignAdapter:
    if not _ADAPTER_NAME.fullmatch(point.name):
        raise ValueError("its name is not two or more lowercase letters, digits, hyphens or underscores")
    return ForeignAdapter(point.name, _loaded(point, _ADAPTER_PARTS))


def _loaded(point: EntryPoint, parts: Collection[str]) -> Any:
    plugin = point.load()
    inner = plugin() if isinstance(plugin, type) else plugin
    missing = [part for part in parts if not hasattr(inner, part)]
    if missing:
        raise TypeError(f"it has no {', '.join(missing)}")
    return inner


def _log_once(logged: set[str], doing: str, who: str, target: str, error: Exception) -> None:
    """Log the first failure of a kind as a warning, and the traceback of each for debugging."""
    if doing not in logged:
        logged.add(doing)
        message = f"{type(error).__name__}: {str(error)[:200]}" if str(error) else type(error).__name__
        _LOG.warning("%s failed %s %s: %s. Further failures are not logged.", who, doing, target, message)
    _LOG.debug("%s failed %s %s", who, doing, target, exc_info=error)
