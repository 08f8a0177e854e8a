"""Warnings about stored texts that an answer shows: those shaped like instructions to a model."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from treering.core.injection import instruction_flags
from treering.tools.ingest_report import bounded

_MOST = 20


def flagged(shown: Iterable[tuple[str, Any]]) -> tuple[str, ...]:
    """Return a warning for each id whose texts, however deep they stand in what is shown of it, are flagged.

    Search and context, which have a field for it, name the flags beside each hit.
    """
    found = ((identity, instruction_flags("\n".join(_texts(data)))) for identity, data in shown)
    told = [f"{identity}: text shaped like instructions: {', '.join(flags)}" for identity, flags in found if flags]
    return bounded(told, _MOST)


def _texts(data: Any) -> Iterator[str]:
    match data:
        case str():
            yield data
        case Mapping():
            for value in data.values():
                yield from _texts(value)
        case list() | tuple():
            for value in data:
                yield from _texts(value)
        case _:
            return
