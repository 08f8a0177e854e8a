"""What the everyday commands do, and their receipts."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from treering.core.errors import InvalidInput
from treering.facades import LazyModule
from treering.surfaces.cli import verbs
from treering.surfaces.cli.flags import Access, Calling, IngestFlags, Note, QueryFlags, WriteFlags
from treering.surfaces.cli.last_answer import note_places
from treering.surfaces.cli.session import answer, embed_later, is_piped, opened
from treering.surfaces.python.space import Space
from treering.verbs import everyday
from treering.verbs.envelope import Envelope
from treering.verbs.naming import patch_named

if TYPE_CHECKING:
    from treering.surfaces.cli import history
else:
    history = LazyModule("treering.surfaces.cli.history")

_WHOLE_TOKENS = 10_000_000
"""Tokens of an object that a terminal shows, with a pager."""
Statement = Callable[[str, everyday.Because], Envelope]
"""Makes the call for a text and what it is based on."""


def add(
    what: str,
    note: str | None,
    calling: Calling,
    access: Access,
    bringing: IngestFlags,
    named: Note,
    writing: WriteFlags,
) -> None:
    """Ingest a place, or a text given with `--note`."""
    if bool(what) == (note is not None):
        raise InvalidInput("treering add takes a path, an address or --note.", hint="Write: treering add .")
    if note is not None:
        item = {"text": everyday.a_note(note), **({"title": named.title} if named.title else {})}
        item |= {"origin": named.origin} if named.origin else {}
        verbs.ingest_items([item], access, calling, bringing, writing)
    else:
        verbs.ingest(what, "", access, calling, bringing, named, writing)


def show(what: str, access: Access, scope: str) -> None:
    """Show an object or a place: on a terminal whole, for a program within the usual bounds."""
    bounds = QueryFlags(descend=True, max_tokens=None if is_piped() else _WHOLE_TOKENS)
    verbs.query([what], "page", access, Calling(scope=scope), bounds, proof=None, key=None)


def log(about: str, since: str, limit: int | None, access: Access, scope: str) -> None:
    """List changes."""
    with opened(access) as space:
        given = {name: value for name, value in {"about": about, "since": since}.items() if value}
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
        based = everyday.Because(tuple(because or ()), scope)
        _write(statement(words, based), space, access, writing)


def done(item: str, resolution: str, access: Access, writing: WriteFlags, scope: str) -> None:
    """Resolve a task."""
    with opened(access, writing) as space:
        envelope = everyday.done(space.engine, item, resolution, scope=scope)
        _write(envelope, space, access, writing)


def replace(item: str, text: str, because: Sequence[str], why: str, access: Access, writing: WriteFlags) -> None:
    """Replace knowledge."""
    with opened(access, writing) as space:
        based = everyday.Because(tuple(because))
        envelope = everyday.replacement(space.engine, item, text, based, why=why)
        _write(envelope, space, access, writing)


def undo(item: str, access: Access, writing: WriteFlags) -> None:
    """Revert a patch."""
    with opened(access, writing) as space:
        last = "" if item else everyday.last_patch(space.engine.ledger, space.engine.author.actor).id
        patch = last or patch_named(space.engine, item)
        verbs.revert_in(space, patch, "undo", access, writing)


def _write(envelope: Envelope, space: Space, access: Access, writing: WriteFlags) -> None:
    verbs.answer_with_receipt(space, "crystallize", envelope, access)
    embed_later(space, writing)
