"""Changes of scores by feedback."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Adjustment:
    """The relative changes of a score by the feedback of persons and of others.

    `counts` are the numbers of each kind of feedback, such as `right by user`.
    """

    persons: float
    others: float
    counts: Mapping[str, int]


Adjusting = Callable[[str, str], Adjustment | None]
"""Return the adjustment for an object and a segment (empty for the object itself) by feedback on the question."""
