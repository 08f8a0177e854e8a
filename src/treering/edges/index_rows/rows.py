"""What rows say of a passage, whatever the database is."""

from treering.core.times import render_time
from treering.derived.passages import days_of
from treering.ports.passages import Passage

PASSAGE_COLUMNS = (
    *("object_id", "part", "position", "type", "kind", "status", "role", "title", "heading", "origin", "channel"),
    *("created_at", "updated_at", "live", "place_role"),
)
"""Columns of a passage that hold what it says of itself. Besides, a row has its key, scope, text and times."""

Value = str | int | bool | None


def passage_values(passage: Passage, position: int) -> tuple[Value, ...]:
    """Return what a passage's row says, in the order of the columns."""
    return (
        *(passage.object_id, passage.part, position, passage.type, passage.kind, passage.status, passage.role),
        *(passage.title, passage.heading, passage.origin or None, passage.channel),
        *(render_time(passage.created_at), render_time(passage.updated_at), passage.live, passage.place_role),
    )


def day_values(passage: Passage) -> list[tuple[int, int]]:
    """Return the days a turn was said on or speaks of, first and last of each period, as ordinals."""
    return [(first.toordinal(), last.toordinal()) for first, last in days_of(passage)]
