"""What the everyday commands do, and their receipts."""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING

from treering.core.canonical import is_object
from treering.core.characters import one_line
from treering.core.errors import InvalidInput, TreeringError
from treering.core.objects import Source, title_of
from treering.facades import LazyModule
from treering.surfaces.cli import verbs
from treering.surfaces.cli.flags import Access, Calling, IngestFlags, Note, QueryFlags, WriteFlags
from treering.surfaces.cli.last_answer import place_of
from treering.surfaces.cli.printing import IndentedLine, line
from treering.surfaces.cli.rendering import render_warnings
from treering.surfaces.cli.session import answer, embed_later, opened, rights_of_verbs
from treering.surfaces.python.space import Space
from treering.verbs import catalog, everyday
from treering.verbs.crystallize.submission import WriteReport
from treering.verbs.envelope import Envelope
from treering.verbs.evidence.notation import SourceCalled, read_notation
from treering.verbs.short_ids import full_id, is_short_id

if TYPE_CHECKING:
    from treering.surfaces.cli import rendering_changes
    from treering.verbs.crystallize import review
else:
    rendering_changes = LazyModule("treering.surfaces.cli.rendering_changes")
    review = LazyModule("treering.verbs.crystallize.review")

_SHOWN_CHARS = 120

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
    if _is_place(place, access):
        verbs.query_with({"ids": [place], "around": 0}, "expand", access, Calling(scope=scope), descend=True)
    else:
        verbs.query([place], "page", access, Calling(scope=scope), QueryFlags(descend=True), proof=None, key=None)


def log(about: str, since: str, limit: int | None, access: Access, scope: str) -> None:
    """List changes."""
    with opened(access) as space:
        place = place_of(space.address, about) if about else ""
    given = {"about": place.partition(" ")[0], "since": since, "limit": limit}
    verbs.query_with(
        {name: value for name, value in given.items() if value}, "recent", access, Calling(scope=scope), descend=True
    )


def record(
    what: str,
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
        _write(what, words, statement(words, based), space, access, writing)


def done(item: str, resolution: str, access: Access, writing: WriteFlags, scope: str) -> None:
    """Resolve a task."""
    with opened(access, writing) as space:
        envelope = everyday.done(space.engine.ledger, place_of(space.address, item), resolution, scope=scope)
        given = envelope.input if isinstance(envelope.input, dict) else {}
        _write("Done", title_of(space.engine.ledger.get(given["id"])), envelope, space, access, writing)


def replace(item: str, text: str, because: Sequence[str], why: str, access: Access, writing: WriteFlags) -> None:
    """Replace knowledge."""
    with opened(access, writing) as space:
        based = everyday.Because(tuple(place_of(space.address, one) for one in because))
        old = place_of(space.address, item).partition(" ")[0]
        envelope = everyday.replacement(space.engine.ledger, old, text, based, why=why)
        _write("Replaced by", text, envelope, space, access, writing)


def undo(item: str, access: Access, writing: WriteFlags) -> None:
    """Revert a patch."""
    with opened(access, writing) as space:
        ledger = space.engine.ledger
        patch = full_id(ledger, item) if item else everyday.last_patch(ledger, space.engine.author.actor).id
        receipt = space.perform(review.REVERT, input={"patch_id": patch}, options={"reason": "undo"})
        changed = [ledger.get(one.id) for one in receipt.results if is_object(one.id)]
        # The note that holds a declaration is not what its author recorded.
        stated = [one for one in changed if not isinstance(one, Source)] or changed
        what = "; ".join(one_line(one, most=_SHOWN_CHARS) for one in dict.fromkeys(map(title_of, stated)))
        answer(access, receipt, [line(("Undone: ", "bold"), what or patch)])
        embed_later(space, writing)


def _write(what: str, text: str, envelope: Envelope, space: Space, access: Access, writing: WriteFlags) -> None:
    report = catalog.call(space.engine, "crystallize", envelope, granted=rights_of_verbs())
    if isinstance(report, WriteReport):
        answer(access, report, _receipt(what, text, report))
    embed_later(space, writing)


def _receipt(what: str, text: str, report: WriteReport) -> Iterator[IndentedLine]:
    """Say in one line what was recorded and on what it rests, then what it changes for other knowledge."""
    places = ", ".join(one.short_place for one in report.evidence)
    based = f" ({places})" if places else ""
    results = report.receipt.results if report.receipt else ()
    if report.status == "proposed":
        yield line((f"{what}, waiting for review: ", "bold"), text, based)
        yield line(f"treering review show {report.patch_id}", indent=2)
    elif results and all(one.outcome in {"duplicate", "unchanged"} for one in results):
        yield line(("Known already: ", "bold"), text, based)
    else:
        yield line((f"{what}: ", "bold"), text, based, ". Undo with: treering undo")
    yield from rendering_changes.render_effects(report)
    yield from render_warnings(report.warnings)


def _is_place(text: str, access: Access) -> bool:
    """Return whether a text names words of a source: lines, a symbol, a passage, a quote or a file."""
    if is_object(text) or is_short_id(text):
        return False
    if not isinstance(read_notation(text), SourceCalled):
        return True
    with opened(access) as space:
        try:
            return bool(space.read(text).items)
        except TreeringError:
            return False
