"""Timeline: what came, what changed, and the decisions with what became of them."""

from itertools import groupby

from treering.core.scope import ROOT
from treering.edges.surfaces.web.timeline_drawing import class_of, draw_timeline
from treering.edges.surfaces.web.view import PageView, Rendered
from treering.tools.overview import OBJECTS, OVERVIEW
from treering.tools.recent import RecentChange, RecentReport

_EVENTS = 200
_ENOUGH = 20
_MOST_EVENTS = 20_000
_DECISIONS = 50


def timeline(view: PageView) -> Rendered:
    """Show the last changes up to the moment of the page, as bars and as a list by day, and the decisions."""
    overview = view.overview()
    last = min(view.as_of or overview.sequence, overview.sequence)
    changes, first = _changes(view, last) if last else ((), 1)
    by_day = [(day, list(told)) for day, told in groupby(changes, key=lambda change: change.time[:10])]
    moment = {"as_of": view.as_of} if view.as_of else {}
    return Rendered(
        "timeline.html",
        {
            "overview": overview,
            "drawing": draw_timeline(changes),
            "days": by_day,
            "class_of": class_of,
            "earlier": first - 1,
            "decisions": view.perform(
                OBJECTS, {"type": "knowledge", "kinds": ["decision"]}, descend=True, limit=_DECISIONS, **moment
            ),
            "command": ("treering", "query", "--mode", "recent"),
        },
    )


def _changes(view: PageView, last: int) -> tuple[tuple[RecentChange, ...], int]:
    """Return the changes up to the event `last`, and the first event that was looked at.

    Of a scope more events are looked at: most of them may be about other scopes.
    """
    looked = _EVENTS
    changes = recent_changes(view, last, most=_EVENTS)
    while view.scope != ROOT and len(changes) < _ENOUGH and looked < min(last, _MOST_EVENTS):
        looked *= 10
        changes = recent_changes(view, last, most=_EVENTS, events=looked)
    # Where more was found than is shown, what comes before is what is not shown.
    return changes, changes[-1].seq if len(changes) == _EVENTS else max(last - looked + 1, 1)


def recent_changes(view: PageView, last: int, *, most: int, events: int = 0) -> tuple[RecentChange, ...]:
    """Return the changes up to the event `last`, newest first: at most so many, of the newest `events` of the log."""
    first = view.perform(OVERVIEW, {}, as_of=max(last - (events or most) + 1, 1)).at
    since = {"since": first.isoformat()} if first else {}
    # Objects as they are now are read much faster than as they were at an event, also at the newest one.
    moment = last if view.as_of else None
    changes = view.query(RecentReport, "recent", {"limit": most, **since}, as_of=moment).changes
    return tuple(change for change in changes if change.seq <= last)
