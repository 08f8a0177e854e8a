"""Numbers with their nouns, and lists with the number of the items left out."""

from collections.abc import Sequence

_PLURALS = {"knowledge": "statements"}
_SINGULARS = {"knowledge": "statement"}
_HISSING = ("ch", "sh", "s", "x")


def counted_things(number: int, thing: str, plural: str = "") -> str:
    """Return a number with its noun, such as `1 file`, `3 files` or `1,200 memories`."""
    return f"{number:,} {_SINGULARS.get(thing, thing) if number == 1 else plural or _plural(thing)}"


def listed_up_to(most: int, names: Sequence[str]) -> str:
    """Return the first names and the number of the others, such as `a.py, b.py and 3 more`."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def _plural(thing: str) -> str:
    if thing in _PLURALS:
        return _PLURALS[thing]
    head, of, rest = thing.partition(" of ")
    if of:
        return f"{_plural(head)}{of}{rest}"
    if thing.endswith("y") and thing[-2:-1] not in "aeiou":
        return f"{thing[:-1]}ies"
    return f"{thing}es" if thing.endswith(_HISSING) else f"{thing}s"
