"""Numbers with their nouns."""

_PLURALS = {"knowledge": "statements"}
_SINGULARS = {"knowledge": "statement"}
_HISSING = ("ch", "sh", "s", "x")


def counted_things(number: int, thing: str, plural: str = "") -> str:
    """Return a number with its noun, such as `1 file`, `3 files` or `1,200 memories`."""
    return f"{number:,} {_SINGULARS.get(thing, thing) if number == 1 else plural or _plural(thing)}"


def _plural(thing: str) -> str:
    if thing in _PLURALS:
        return _PLURALS[thing]
    head, of, rest = thing.partition(" of ")
    if of:
        return f"{_plural(head)}{of}{rest}"
    if thing.endswith("y") and thing[-2:-1] not in "aeiou":
        return f"{thing[:-1]}ies"
    return f"{thing}es" if thing.endswith(_HISSING) else f"{thing}s"
