"""Ids as people shorten them: a unique start or end, as git shortens commits."""

import re

from treering.core.canonical import is_object, is_patch
from treering.core.characters import short_id as short_id  # a shell that completes has no time to load this module
from treering.core.errors import InvalidInput, NotFound
from treering.ports.ledger import Ledger

_FULL_CHARS = 26
_SHORT = re.compile(r"(?:(?P<prefix>src|node|know|act|work|patch):)?…?(?P<part>[0-9a-z]{4,26})…?")
_MAX_EVENTS = 20_000
"""Changes, newest first, among whose objects a short id is looked for."""
_MAX_SHOWN = 5


def is_short_id(text: str) -> bool:
    """Return whether a text may be a shortened id: with its prefix, such as `know:…7jc4`, or an ellipsis."""
    return bool(_SHORT.fullmatch(text)) and (":" in text or "…" in text) and not is_object(text)


def is_id(text: str) -> bool:
    """Return whether a text is an id, also a shortened one."""
    return is_object(text) or is_short_id(text)


def may_be_part_of_id(text: str) -> bool:
    """Return whether a text may be a part of an id without its prefix, as `full_id` takes it."""
    return bool(_SHORT.fullmatch(text))


def full_id(ledger: Ledger, text: str) -> str:
    """Return the id that a text is or shortens. Raises `NotFound`, and `InvalidInput` if several match.

    Looked for among the objects of the newest 20,000 changes.
    """
    given = text.strip()
    match = _SHORT.fullmatch(given)
    if is_object(given) or match is None or len(match["part"]) == _FULL_CHARS:
        return given
    part, prefix = match["part"], f"{match['prefix']}:" if match["prefix"] else ""
    last = ledger.sequence()
    after = max(0, last - _MAX_EVENTS)
    targets = dict.fromkeys(
        name
        for event in ledger.events(after=after, limit=last - after)
        for name in (event.target, event.patch_id)
        if name.startswith(prefix) and (is_object(name) or is_patch(name))
    )
    found = [name for name in targets if (body := name.partition(":")[2]).startswith(part) or body.endswith(part)]
    if not found:
        raise NotFound(f"No id starts or ends with {given!r}.", hint="Copy more of it, or search for the object.")
    if len(found) > 1:
        raise InvalidInput(
            f"{len(found)} ids start or end with {given!r}.", hint=f"Give more of one: {', '.join(found[:_MAX_SHOWN])}."
        )
    return found[0]
