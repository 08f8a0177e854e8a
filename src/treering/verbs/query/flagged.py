"""Warnings about stored texts in an answer that look like instructions to a model."""

from collections.abc import Iterable
from typing import Any

from treering.core.characters import texts_in
from treering.core.screening import instruction_flags
from treering.verbs.envelope import bounded

_MAX_WARNINGS = 20


def flagged(shown: Iterable[tuple[str, Any]]) -> tuple[str, ...]:
    """Return a warning for each id whose shown texts, at any depth, are flagged.

    Search and context have a field for the flags of each hit instead.
    """
    flags_of = ((identity, instruction_flags("\n".join(texts_in(data)))) for identity, data in shown)
    warnings = [
        f"{identity}: text that looks like instructions: {', '.join(flags)}" for identity, flags in flags_of if flags
    ]
    return bounded(warnings, _MAX_WARNINGS)
