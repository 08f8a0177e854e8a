"""What the record of a job tells of objects, and the record without what it tells of erased ones."""

from collections.abc import Iterator, Set
from dataclasses import dataclass
from typing import Any

from treering.ports.jobs import JobRow

_ERASED = "(erased)"


@dataclass(frozen=True, slots=True)
class Named:
    """Erased objects, by their ids and by everything they were read from."""

    ids: Set[str]
    origins: Set[str] = frozenset()

    def is_in(self, value: Any) -> bool:
        """Tell whether a value, or anything in it, names one of them."""
        match value:
            case str():
                return value in self.origins or self._begins_with_origin(value) or self._has_id(value)
            case dict():
                return any(map(self.is_in, value.values()))
            case list():
                return any(map(self.is_in, value))
        return False

    def without(self, row: JobRow) -> dict[str, Any]:
        """Return a job without the lines that name one of them: results, warnings, what went stale."""
        kept: dict[str, Any] = {
            name: [line for line in value if not self.is_in(line)] if isinstance(value, list) else value
            for name, value in row.items()
        }
        return {**kept, "target": _ERASED} if self.is_in(row.get("target")) else kept

    def _begins_with_origin(self, text: str) -> bool:
        return any(text.startswith(f"{origin}: ") for origin in self.origins)

    def _has_id(self, text: str) -> bool:
        return any(identity in text for identity in self.ids)


def sources_in(row: JobRow) -> list[str]:
    """Return the ids of the sources that a job's results name."""
    return [item["source_id"] for item in row.get("items", ()) if item.get("source_id")]


def origins_in(row: JobRow, ids: Set[str]) -> Iterator[str]:
    """Return what a job says that some objects were read from, and from where they were moved."""
    for item in row.get("items", ()):
        if item.get("source_id") in ids:
            yield from filter(None, (item.get("origin"), item.get("moved_from")))
