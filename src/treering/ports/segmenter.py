"""The port for cutting an inline text into segments."""

from collections.abc import Sequence
from typing import Protocol

from treering.ports.adapter import SegmentDraft


class Segmenter(Protocol):
    """Cuts a text that is not a file, such as a note; every line that shows something is in some segment."""

    def __call__(self, text: str, *, max_chars: int) -> Sequence[SegmentDraft]:
        """Return the segments in order, none longer than `max_chars`, placed by heading path and offset."""
        ...
