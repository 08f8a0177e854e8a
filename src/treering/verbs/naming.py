"""Objects as people name them: an id or a short one, a title, its beginning, or words of it."""

from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches

from treering.core.canonical import is_object, is_patch
from treering.core.characters import label
from treering.core.errors import InvalidInput, NotFound
from treering.core.filters import EVERYTHING, Compare
from treering.core.objects import Object, title_of
from treering.core.patch import PatchRecord
from treering.ports.ledger import Ledger, Selection
from treering.verbs.engine import Engine
from treering.verbs.numbered_places import number_in, place_numbered
from treering.verbs.short_ids import full_id, is_id, is_short_id, may_be_part_of_id, short_id

MAX_CANDIDATES = 5
"""Objects with similar titles that an error lists."""
MIN_WORDS = 2
"""Words of a title that name its object for a change: one word is too often meant for another."""
_MAX_TITLE_CHARS = 200
_RECORDED = ("knowledge", "work_item", "activity")
_REPLACED = frozenset({"superseded", "archived"})


def id_named(
    engine: Engine,
    text: str,
    types: Sequence[str] = _RECORDED,
    *,
    statuses: Sequence[str] = (),
    what: str = "",
    strict: bool = False,
) -> str:
    """Return the id that a text is, shortens, or names by title or by its number in an answer.

    Raises `NotFound`, or `InvalidInput` if several match.

    A title is compared without case: the whole one first, then its beginning, a part of it, and all words in any order.
    `types` and `statuses` limit the titles, not the ids; `what` names them in errors. `strict`: for a change, one word
    of a longer title is not enough, unless it is in quotes.
    """
    given = place_numbered(text, engine.places_of).strip()
    if _begins_with_id(given):
        return id_given(engine, given)  # without the segment of a hit
    try:
        item = titled(engine.ledger, given, types, statuses=statuses, what=what)
    except NotFound:
        if not may_be_part_of_id(given):
            raise
        return full_id(engine.ledger, given)
    if strict:
        _require_clear(engine, given, item)
    return item.id


def _require_clear(engine: Engine, text: str, item: Object) -> None:
    """Raise `InvalidInput` if words are too small a part of the title of an object to change it without asking."""
    words, is_quoted = _unquoted(text)
    wanted, title = _plain(words), _plain(title_of(item))
    is_beginning = title.startswith(wanted) and len(wanted.split()) >= MIN_WORDS
    if is_quoted or wanted == title or is_beginning or len(engine.lookup.content_words(wanted)) >= MIN_WORDS:
        return
    raise InvalidInput(
        f"{words!r} is only a part of the title {label(title_of(item))}.",
        hint=f"Give its beginning, at least two of its words, or its id: {short_id(item.id)}.",
        details={"known": [item.id]},
    )


def place_named(engine: Engine, text: str) -> tuple[str, str]:
    """Return the ids of an object and, if the text names one, of its segment; of titles as `id_named` does."""
    given = place_numbered(text, engine.places_of).strip()
    return place_given(engine, given) if _begins_with_id(given) else (id_named(engine, given), "")


def place_given(engine: Engine, text: str) -> tuple[str, str]:
    """Return the ids of the object and, if any, of the segment that a text gives, shortens or numbers in an answer.

    Raises as `id_named`; titles are no ids.
    """
    given = place_numbered(text, engine.places_of).strip()
    first, _, segment = given.partition(" ")
    return (full_id(engine.ledger, first), segment) if is_id(first) else (full_id(engine.ledger, given), "")


def id_given(engine: Engine, text: str) -> str:
    """Return the id of the object that a text gives (`place_given`)."""
    return place_given(engine, text)[0]


def _begins_with_id(text: str) -> bool:
    return is_object(text.partition(" ")[0]) or is_short_id(text)


def titled(
    ledger: Ledger,
    words: str,
    types: Sequence[str] = _RECORDED,
    *,
    statuses: Sequence[str] = (),
    what: str = "",
) -> Object:
    """Return the object with a title. Raises `NotFound` with similar titles, `InvalidInput` with those that match."""
    words, _ = _unquoted(words)
    called = what or " or ".join(_CALLED[one] for one in types)
    where = Compare("status", "in", tuple(statuses)) if statuses else EVERYTHING
    known = list(ledger.select(Selection(descend=True, types=tuple(types), where=where)))
    found = _best(words, known)
    if not found:
        alike = get_close_matches(words[:_MAX_TITLE_CHARS], [title_of(one) for one in known], MAX_CANDIDATES)
        listed = ", ".join(map(label, dict.fromkeys(alike)))
        hint = f"Titles like it: {listed}." if listed else "Search for it, or give its id."
        raise NotFound(f"No {called} is called {words[:_MAX_TITLE_CHARS]!r}.", hint=hint)
    if len(found) > 1:
        shown = "; ".join(f"{label(title_of(one))} {short_id(one.id)}" for one in found[:MAX_CANDIDATES])
        more = f"; and {len(found) - MAX_CANDIDATES} more" if len(found) > MAX_CANDIDATES else ""
        raise InvalidInput(
            f"{words[:_MAX_TITLE_CHARS]!r} is in {len(found)} titles.",
            hint=f"Give the whole title or the id of one: {shown}{more}.",
            details={"known": [one.id for one in found]},
        )
    return found[0]


def patch_named(engine: Engine, text: str) -> str:
    """Return the id of a patch: given, shortened, or the last one that recorded what a text names (`id_named`).

    Raises `NotFound`, or `InvalidInput` if several match.
    """
    given = place_numbered(text, engine.places_of).strip()
    ledger = engine.ledger
    identity = full_id(ledger, given) if is_patch(given) else id_named(engine, given, strict=True)
    if is_patch(identity):
        return identity
    patches = [ledger.patch(event.patch_id) for event in reversed(ledger.events_of(identity)) if event.patch_id]
    if recording := next(filter(is_recording, patches), None):
        return recording.id
    if any(one.status == "reverted" and not is_reading(one) for one in patches):
        raise NotFound(f"Already undone: {_named_object(ledger, identity)}.", hint="See: treering log")
    number = number_in(text)
    if number is None or number.answer:
        raise NotFound(f"{identity} was not recorded by a patch that could be undone.", hint="See: treering log")
    raise NotFound(
        f"{number.number} is {_named_object(ledger, identity)} in the last answer, and no patch.",
        hint="Numbers refer to the last answer. List patches first: treering review list, or treering log -v.",
    )


def _named_object(ledger: Ledger, identity: str) -> str:
    head = ledger.heads([identity]).get(identity)
    return label(head.title) if head else identity


def is_recording(patch: PatchRecord) -> bool:
    """Return whether an applied patch contains what an author wrote, and not files that were read."""
    return patch.status == "applied" and bool(patch.operations) and not is_reading(patch)


def is_reading(patch: PatchRecord) -> bool:
    """Return whether a patch is part of an ingest of files or pages. A note has the channel of its author."""
    return patch.source.tool == "ingest" and patch.source.channel == "adapter"


_CALLED = {"knowledge": "statement", "work_item": "task", "activity": "activity", "node": "node", "source": "source"}


def _best(words: str, known: Iterable[Object]) -> list[Object]:
    """Return the objects whose titles match best; of these the current ones, if there are any."""
    wanted = _plain(words)
    if not wanted:
        return []
    titles = [(item, _plain(title_of(item))) for item in known]
    for matches in _WAYS:
        if found := [item for item, title in titles if matches(wanted, title)]:
            return [one for one in found if one.status not in _REPLACED] or found
    return []


def _unquoted(words: str) -> tuple[str, bool]:
    """Return words without surrounding quotes, and whether there were quotes."""
    if len(words) > 2 and words[0] == words[-1] and words[0] in "\"'":
        return words[1:-1], True
    return words, False


def _has_words(wanted: str, title: str) -> bool:
    return set(wanted.split()) <= set(title.split())


_WAYS: Sequence[Callable[[str, str], bool]] = (
    str.__eq__,
    lambda wanted, title: title.startswith(wanted),
    lambda wanted, title: wanted in title,
    _has_words,
)
"""How a title may be named, the strictest way first."""


def _plain(text: str) -> str:
    return " ".join(text.split()).casefold().rstrip(".!?") or text.strip()
