"""Live: what is stored and recalled, as it happens."""

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from html import escape

from anyio import sleep

from treering.core.characters import visible_line
from treering.surfaces.python.logs import RecentCalls
from treering.surfaces.web.pages.timeline import recent_changes
from treering.surfaces.web.view import PageView, Rendered, told_event
from treering.verbs.query.overview import OVERVIEW

_SHOWN = 30
_SECONDS = 1.0
MOST_ROUNDS = 600
"""A stream ends after so many looks; a browser then asks again."""


@dataclass(frozen=True, slots=True)
class LiveLine:
    """Something that was stored or recalled."""

    time: str
    what: str
    title: str
    link: str = ""


@dataclass(frozen=True, slots=True)
class LivePlace:
    """Up to where somebody was told: the last event of the log, and the last call."""

    sequence: int
    call: int


def live(view: PageView, calls: RecentCalls) -> Rendered:
    """Show the newest changes of the space and the newest calls of this server."""
    overview = view.overview()
    stored = _stored(view, 0, overview.sequence)
    return Rendered(
        "live.html",
        {
            "stored": list(reversed(stored)),
            "recalled": list(reversed(_recalled(view, calls, 0))),
            "place": f"{overview.sequence}-{calls.last}",
            "command": ("treering", "query", "--mode", "recent", "--limit", str(_SHOWN)),
        },
    )


def parse_place(text: str) -> LivePlace | None:
    """Read the id of an event that was sent before; none for any other text."""
    sequence, _, call = text.partition("-")
    if sequence.isascii() and sequence.isdigit() and call.isascii() and call.isdigit() and len(text) < _LONGEST:
        return LivePlace(int(sequence), int(call))
    return None


_LONGEST = 40


def news(view: PageView, calls: RecentCalls, place: LivePlace | None) -> tuple[list[tuple[str, LiveLine]], LivePlace]:
    """Return what came after a place, oldest first, each with its list (`stored`, `recalled`), and the new place."""
    sequence = view.perform(OVERVIEW, {}).sequence
    after = place or LivePlace(sequence, calls.last)
    last = calls.last
    stored = _stored(view, after.sequence, sequence) if sequence > after.sequence else []
    told = [("stored", line) for line in stored]
    told += [("recalled", line) for line in _recalled(view, calls, after.call)]
    return told, LivePlace(sequence, last)


async def stream(
    look: Callable[[LivePlace | None], Awaitable[tuple[list[tuple[str, LiveLine]], LivePlace]]],
    place: LivePlace | None,
    *,
    ending: Callable[[], bool],
) -> AsyncIterator[bytes]:
    """Send what comes as server-sent events, each a line of HTML for one of the two lists."""
    yield b"retry: 2000\n\n"
    for _ in range(MOST_ROUNDS):
        if ending():
            return
        told, place = await look(place)
        for name, line in told:
            yield f"event: {name}\nid: {place.sequence}-{place.call}\ndata: {_html(line)}\n\n".encode()
        if not told:
            yield b": nothing new\n\n"
        await sleep(_SECONDS)


def _stored(view: PageView, after: int, last: int) -> list[LiveLine]:
    if not last:
        return []
    changes = recent_changes(view, last, most=_SHOWN)
    return [
        LiveLine(
            change.time, f"{told_event(change.event)} by {change.actor}", change.title, view.link(f"object/{change.id}")
        )
        for change in reversed(changes)
        if change.seq > after
    ]


def _recalled(view: PageView, calls: RecentCalls, after: int) -> list[LiveLine]:
    return [
        LiveLine(call.time, call.what, call.text, view.link("", q=call.text) if call.text else "")
        for call in calls.since(after)[-_SHOWN:]
    ]


def _html(line: LiveLine) -> str:
    title = escape(visible_line(line.title)) or "—"
    shown = f'<a href="{escape(line.link)}">{title}</a>' if line.link else title
    return f'<li><span class="when">{escape(line.time[11:19])}</span> {escape(visible_line(line.what))}: {shown}</li>'
