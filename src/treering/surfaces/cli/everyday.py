"""What the everyday commands do, and their receipts."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from treering.core.canonical import is_object
from treering.core.errors import InvalidInput, TreeringError
from treering.facades import LazyModule
from treering.surfaces.cli import verbs
from treering.surfaces.cli.flags import Access, Calling, IngestFlags, Note, QueryFlags, WriteFlags
from treering.surfaces.cli.last_answer import note_places, place_of
from treering.surfaces.cli.session import answer, embed_later, is_piped, opened
from treering.surfaces.python.space import Space
from treering.verbs import everyday
from treering.verbs.envelope import Envelope
from treering.verbs.evidence.notation import SourceCalled, read_notation
from treering.verbs.short_ids import full_id, is_short_id

if TYPE_CHECKING:
    from treering.surfaces.cli import history
else:
    history = LazyModule("treering.surfaces.cli.history")

Statement = Callable[[str, everyday.Because], Envelope]
"""Makes the call for a text and what it is based on."""


def add(
    what: str, note: str, calling: Calling, access: Access, bringing: IngestFlags, named: Note, writing: WriteFlags
) -> None:
    """Ingest a place, or a text given with `--note`."""
    if bool(what) == bool(note):
        raise InvalidInput("treering add takes a path, an address or --note.", hint="Write: treering add .")
    if note:
        item = {"text": note, **({"title": named.title} if named.title else {})}
        item |= {"origin": named.origin} if named.origin else {}
        verbs.ingest_items([item], access, calling, bringing, writing)
    else:
        verbs.ingest(what, "", access, calling, bringing, named, writing)


def show(what: str, access: Access, scope: str) -> None:
    """Show an object or a place."""
    with opened(access) as space:
        place = place_of(space.address, what)
        mode, options = ("expand", ["around=0"]) if _is_place(space, place) else ("page", [])
    calling = Calling(scope=scope, option=options)
    verbs.query([place], mode, access, calling, QueryFlags(descend=True), proof=None, key=None)


def log(about: str, since: str, limit: int | None, access: Access, scope: str) -> None:
    """List changes."""
    with opened(access) as space:
        place = place_of(space.address, about).partition(" ")[0] if about else ""
        given = {name: value for name, value in {"about": place, "since": since}.items() if value}
        if access.as_json:
            bounds = {"limit": limit} if limit else {}
            answer(access, history.recent(space, given | bounds, scope), [])
            return
        events = history.events(space, given, scope, until_enough=limit or history.LINES)
        note_places(space.address, [one.place for one in events])
        answer(access, [], history.render_events(events, fenced=is_piped(), numbered=True, verbose=access.verbose))


def record(
    text: Sequence[str],
    statement: Statement,
    because: Sequence[str] | None,
    scope: str,
    access: Access,
    writing: WriteFlags,
) -> None:
    """Record a statement, and print its receipt."""
    words = " ".join(text).strip()
    with opened(access, writing, create=True) as space:
        based = everyday.Because(tuple(place_of(space.address, one) for one in because or ()), scope)
        _write(statement(words, based), space, access, writing)


def done(item: str, resolution: str, access: Access, writing: WriteFlags, scope: str) -> None:
    """Resolve a task."""
    with opened(access, writing) as space:
        envelope = everyday.done(space.engine.ledger, place_of(space.address, item), resolution, scope=scope)
        _write(envelope, space, access, writing)


def replace(item: str, text: str, because: Sequence[str], why: str, access: Access, writing: WriteFlags) -> None:
    """Replace knowledge."""
    with opened(access, writing) as space:
        based = everyday.Because(tuple(place_of(space.address, one) for one in because))
        old = place_of(space.address, item).partition(" ")[0]
        envelope = everyday.replacement(space.engine.ledger, old, text, based, why=why)
        _write(envelope, space, access, writing)


def undo(item: str, access: Access, writing: WriteFlags) -> None:
    """Revert a patch."""
    with opened(access, writing) as space:
        ledger = space.engine.ledger
        patch = full_id(ledger, item) if item else everyday.last_patch(ledger, space.engine.author.actor).id
        verbs.revert_in(space, patch, "undo", access, writing)


def _write(envelope: Envelope, space: Space, access: Access, writing: WriteFlags) -> None:
    verbs.answer_with_receipt(space, "crystallize", envelope, access)
    embed_later(space, writing)


def _is_place(space: Space, text: str) -> bool:
    """Return whether a text names words of a source: lines, a symbol, a passage, a quote or a file."""
    if is_object(text) or is_short_id(text):
        return False
    if not isinstance(read_notation(text), SourceCalled):
        return True
    try:
        return bool(space.read(text).items)
    except TreeringError:
        return False
