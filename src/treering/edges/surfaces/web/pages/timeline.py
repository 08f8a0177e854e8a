"""Timeline: what came, what changed, and the decisions with what became of them."""

from itertools import groupby

from treering.edges.surfaces.web.timeline_drawing import class_of, draw_timeline
from treering.edges.surfaces.web.view import PageView, Rendered
from treering.tools.overview import OBJECTS, OVERVIEW
from treering.tools.recent import RecentChange, RecentReport

_EVENTS = 200
_DECISIONS = 50


def timeline(view: PageView) -> Rendered:
    """Show the last changes up to the moment of the page, as bars and as a list by day, and the decisions."""
    overview = view.overview()
    last = min(view.as_of or overview.sequence, overview.sequence)
    changes = recent_changes(view, last) if last else ()
    by_day = [(day, list(told)) for day, told in groupby(changes, key=lambda change: change.time[:10])]
    moment = {"as_of": view.as_of} if view.as_of else {}
    return Rendered(
        "timeline.html",
        {
            "overview": overview,
            "drawing": draw_timeline(changes),
            "days": by_day,
            "class_of": class_of,
            "earlier": last - _EVENTS if last > _EVENTS else 0,
            "decisions": view.perform(
                OBJECTS, {"type": "knowledge", "kinds": ["decision"]}, descend=True, limit=_DECISIONS, **moment
            ),
            "command": ("treering", "query", "--mode", "recent"),
        },
    )


def recent_changes(view: PageView, last: int, *, most: int = _EVENTS) -> tuple[RecentChange, ...]:
    """Return the changes up to the event `last`, newest first. Only the newest events of the log are read for it."""
    first = view.perform(OVERVIEW, {}, as_of=max(last - most + 1, 1)).at
    since = {"since": first.isoformat()} if first else {}
    return view.query(RecentReport, "recent", {"limit": most, **since}, as_of=last).changes
