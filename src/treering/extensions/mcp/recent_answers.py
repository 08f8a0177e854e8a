"""The numbered places of the last answers of a process, so that a caller can name one by its number."""

from threading import Lock

from treering.verbs.envelope import Report
from treering.verbs.numbered_places import MAX_PLACES, Places

MAX_ANSWERS = 200
"""Answers that a process remembers; the oldest are forgotten first."""


class RecentAnswers:
    """The numbered places of the last answers of a process, by caller and by id.

    `has_last`: whether a single conversation is served, so that a bare number refers to its last answer.
    """

    def __init__(self, *, has_last: bool) -> None:
        self._has_last = has_last
        self._places: dict[tuple[str, str], Places] = {}
        self._lock = Lock()

    def note(self, report: Report, *, caller: str = "") -> None:
        """Remember the places of an answer. One without any changes nothing."""
        answer, places = getattr(report, "answer", ""), report.numbered_places()
        ids = [one for one in (answer, "") if places and (one or self._has_last)]
        with self._lock:
            for key in ((caller, one) for one in ids):
                self._places.pop(key, None)
                self._places[key] = {number: place for number, place in places.items() if number <= MAX_PLACES}
            for oldest in list(self._places)[:-MAX_ANSWERS]:
                del self._places[oldest]

    def places(self, answer: str, *, caller: str = "") -> Places:
        """Return the places of an answer, for an empty id of the last one; none for an unknown answer."""
        with self._lock:
            return self._places.get((caller, answer), {})
