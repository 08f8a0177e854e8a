"""What changed between two texts, word by word, and between two versions of an object, field by field."""

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Literal

_WORDS = re.compile(r"\s+|\w+|[^\w\s]")
_MOST_WORDS = 3_000
_LINES_AROUND = 3
_LEAST_FOLDED = 3
_STAMPED = frozenset({"revision", "created_at", "updated_at", "segments", "segments_left_out", "origin_channel"})


@dataclass(frozen=True, slots=True)
class WordChange:
    """A stretch of text that stayed, came or went; `folded` says how much of what stayed is not shown."""

    text: str
    change: Literal["same", "added", "removed", "folded"]


@dataclass(frozen=True, slots=True)
class ChangedField:
    """A field of an object before and after. `words` tell them apart where both are texts."""

    name: str
    before: Any
    after: Any
    words: tuple[WordChange, ...] = ()


def word_changes(before: str, after: str) -> tuple[WordChange, ...]:
    """Compare two texts word by word; very long ones as a whole."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    if len(old) + len(new) > _MOST_WORDS:
        return (WordChange(before, "removed"), WordChange(after, "added"))
    return tuple(_pieces(old, new))


def _pieces(old: list[str], new: list[str]) -> Iterator[WordChange]:
    for tag, a, b, c, d in SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag == "equal":
            yield WordChange("".join(old[a:b]), "same")
        else:
            if a < b:
                yield WordChange("".join(old[a:b]), "removed")
            if c < d:
                yield WordChange("".join(new[c:d]), "added")


def folded(changes: Sequence[WordChange]) -> tuple[WordChange, ...]:
    """Leave out the lines that stayed, but for a few before and after each change."""
    shown = list[WordChange]()
    for at, one in enumerate(changes):
        lines = one.text.splitlines(keepends=True)
        before = _LINES_AROUND if at else 0
        after = _LINES_AROUND if at < len(changes) - 1 else 0
        left_out = len(lines) - before - after
        if one.change != "same" or len(changes) == 1 or left_out < _LEAST_FOLDED:
            shown.append(one)
            continue
        shown += [
            WordChange("".join(lines[:before]), "same"),
            WordChange(f"{left_out} lines are the same", "folded"),
            WordChange("".join(lines[len(lines) - after :]), "same"),
        ]
    return tuple(one for one in shown if one.text)


def likeness(one: str, other: str) -> float:
    """Return the part of their words that two texts share, from 0 to 1 (Dice's coefficient)."""
    first, second = Counter(_WORDS.findall(one)), Counter(_WORDS.findall(other))
    return 2 * (first & second).total() / max(first.total() + second.total(), 1)


def field_changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[ChangedField, ...]:
    """Compare two versions of an object as a page shows them, without what the ledger stamps."""
    return tuple(_changes(_flat(before), _flat(after)))


def _changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[ChangedField]:
    for name in dict.fromkeys((*before, *after)):
        old, new = before.get(name), after.get(name)
        if old == new or (not old and not new):
            continue
        both = isinstance(old, str) and isinstance(new, str)
        yield ChangedField(name, old, new, folded(word_changes(str(old), str(new))) if both else ())


def _flat(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Put the fields of a payload beside those of its object."""
    flat = {name: value for name, value in fields.items() if name not in _STAMPED}
    payload = flat.pop("payload", None)
    return {**flat, **{f"payload {name}": value for name, value in payload.items()}} if payload else flat
