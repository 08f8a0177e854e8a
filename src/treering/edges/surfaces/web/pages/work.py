"""Work: tasks, issues and questions by their status, and what was done."""

from treering.edges.surfaces.web.view import PageView, Rendered
from treering.tools.overview import OBJECTS

_LISTED = 200
_OPEN = ("open", "in_progress", "blocked")
_DONE = ("resolved", "closed", "cancelled")


def work(view: PageView) -> Rendered:
    """Show what is open, what is done, and the activities."""
    moment = {"as_of": view.as_of} if view.as_of else {}
    wishes = {"descend": True, "limit": _LISTED, **moment}
    return Rendered(
        "work.html",
        {
            "overview": view.overview(),
            "open": view.perform(OBJECTS, {"type": "work_item", "statuses": _OPEN}, **wishes),
            "done": view.perform(OBJECTS, {"type": "work_item", "statuses": _DONE}, **wishes),
            "activities": view.perform(OBJECTS, {"type": "activity"}, **wishes),
            "command": ("treering", "crystallize", "--kind", "task", "--title", "What is to be done"),
        },
    )
