"""Fit an answer into a number of tokens, and report the omissions."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from treering.core.fencing import fence, fence_items
from treering.extensions.mcp.minimum import minimum_of
from treering.retrieval.text.analysis import cut_to_tokens, estimate_tokens
from treering.surfaces.search_text import CitedText

_USEFUL = 40  # tokens: a shorter beginning of a text is useless
_RESERVE = 60  # tokens for the note on what was left out
_NAMED = 5
_COARSE = 16  # characters per token allowed: far more than what will fit
_SMALL = 4  # characters that an item takes at least
_AT_ONCE = 50
_PLACES_NAMED = 20
_LONG = 160  # characters: shorter texts are not worth cutting
_FEW_KEYS = 20
_SKELETON = {"verb", "mode", "scope", "status", "warnings"}


@dataclass(frozen=True, slots=True)
class AnswerEntry:
    """One item of an answer. `text` was recalled from the space: it is fenced as data, and may be cut."""

    head: str
    text: str = ""
    origin: str = ""
    ref: str = ""
    """The reference for requesting it if it does not fit."""

    def render(self, text: str) -> str:
        """Write it, with `text` in place of its own."""
        return f"{self.head}\n{fence(text, origin=self.origin)}" if text else self.head


def fit_entries(title: str, entries: Sequence[AnswerEntry], notes: Sequence[str], *, max_tokens: int) -> str:
    """Return a title, as many entries as fit, and notes, including the names of omitted entries."""
    foot = [f"- {note}" for note in notes]
    room = max_tokens - sum(map(estimate_tokens, (title, *foot))) - _RESERVE
    blocks: list[str] = []
    for number, entry in enumerate(entries):
        block = _fitted(entry, room)
        if block is None:
            blocks.append(left_out([entry.ref or entry.head for entry in entries[number:]], max_tokens=max_tokens))
            break
        blocks.append(block)
        room -= estimate_tokens(block) + 1
    return cut_to_tokens("\n".join([title, *blocks, *foot]), max_tokens)


def fit_items(title: str, items: Sequence[CitedText], notes: Sequence[str], *, origin: str, max_tokens: int) -> str:
    """Return a title, as many recalled texts as fit in one fence, and notes, including the names of omitted texts."""
    foot = [f"- {note}" for note in notes]
    frame = fence_items((), origin=origin)
    room = max_tokens - sum(map(estimate_tokens, (title, frame, *foot))) - _RESERVE
    shown: list[tuple[str, str]] = []
    for item in items:
        room -= estimate_tokens(f"<<treering:cited {item.marker}>>\n{item.text}\n")
        if room < 0:
            break
        shown.append((item.marker, item.text))
    if items and not shown:
        marker, text, _ = items[0]
        shown.append((marker, cut_to_tokens(text, max(room + estimate_tokens(text), _USEFUL)) + "\n…"))
    rest = [item.ref for item in items[len(shown) :]]
    blocks = [fence_items(shown, origin=origin)] if shown else []
    tail = [left_out(rest, max_tokens=max_tokens)] if rest else []
    return cut_to_tokens("\n".join([title, *blocks, *tail, *foot]), max_tokens)


def left_out(refs: Sequence[str], *, max_tokens: int) -> str:
    """Return a note on the omitted parts of an answer."""
    named = ", ".join(ref[:80] for ref in refs[: _NAMED if max_tokens >= _RESERVE * _NAMED else 1])
    more = f" and {len(refs) - _NAMED} more" if len(refs) > _NAMED else ""
    return f"Left out to fit {max_tokens} tokens: {named}{more}."


def fit_json(data: dict[str, Any], *, max_tokens: int) -> dict[str, Any]:
    """Shorten JSON data until it fits: the longest lists lose their ends, the longest texts too.

    `warnings` state what each list lost. The given data is not changed. Of data that is many times too long only the
    beginning is considered, so that the work is bounded by `max_tokens`.
    """
    whole: dict[str, Any] = json.loads(json.dumps(data))
    lost: dict[str, int] = {}
    shown = {
        key: value if key in _SKELETON else _beginning(value, [_COARSE * max_tokens], key, lost)
        for key, value in islice(whole.items(), max_tokens)
    }
    while estimate_tokens(_written(_with_losses(shown, lost, max_tokens))) > max_tokens:
        if not _shed(shown, lost):
            break
    return _with_losses(shown, lost, max_tokens)


def _fitted(entry: AnswerEntry, room: int) -> str | None:
    whole = entry.render(entry.text)
    if estimate_tokens(whole) <= room:
        return whole
    left = room - estimate_tokens(entry.render("…"))
    if not entry.text or left < _USEFUL:
        return None
    return entry.render(cut_to_tokens(entry.text, left) + "\n…")


def _beginning(value: Any, room: list[int], path: str, lost: dict[str, int]) -> Any:
    """Copy as much of some data as there is room for, in characters; a text is left to be shortened later."""
    if isinstance(value, str):
        beginning = value[: max(room[0], _LONG)]
        room[0] -= len(beginning)
        return beginning
    if not isinstance(value, list | dict):
        room[0] -= _SMALL
        return value
    taken: list[tuple[Any, Any]] = []
    always = minimum_of(value)
    for key, inner in value.items() if isinstance(value, dict) else enumerate(value):
        if room[0] <= 0 and key not in always:
            if always:
                continue
            lost[path] = lost.get(path, 0) + len(value) - len(taken)
            break
        room[0] -= _SMALL + (len(key) if isinstance(key, str) else 0)
        where = f"{path}.{key}" if isinstance(key, str) else path
        taken.append((key, _beginning(inner, room, where, lost)))
    return dict(taken) if isinstance(value, dict) else [inner for _, inner in taken]


def _with_losses(data: dict[str, Any], lost: Mapping[str, int], max_tokens: int) -> dict[str, Any]:
    if not lost:
        return data
    words = ", ".join(f"{count} of {path[:_LONG]}" for path, count in islice(lost.items(), _PLACES_NAMED))
    words += f" and of {len(lost) - _PLACES_NAMED} more" if len(lost) > _PLACES_NAMED else ""
    hint = (
        f"Left out to fit {max_tokens} tokens: {words}. Raise options.max_tokens, or fetch ids with query mode expand."
    )
    return {**data, "warnings": [*data.get("warnings", ()), hint]}


def _shed(data: dict[str, Any], lost: dict[str, int]) -> bool:
    """Shorten the largest value a little. Return whether anything could be cut."""
    places = sorted(_places(data), key=lambda place: -place.size)
    worth = [one for one in places if one.worth] or places
    if worth:
        # Of very many places several at once: one at a time would take the square of their number.
        for place in worth[: 1 + len(worth) // _AT_ONCE]:
            if place.is_there:
                place.shorten(lost)
        return True
    optional = [key for key in data if key not in _SKELETON]
    if not optional:
        return False
    sizes = {key: len(_written(data[key])) for key in optional}
    for biggest in sorted(optional, key=lambda key: -sizes[key])[: 1 + len(optional) // _AT_ONCE]:
        del data[biggest]
        lost[biggest] = lost.get(biggest, 0) + 1
    return True


@dataclass(frozen=True, slots=True)
class _Cuttable:
    """A list, text or flat mapping somewhere in the data that could be shorter. `size` in characters of JSON."""

    holder: Any
    key: str | int
    path: str
    size: int

    @property
    def is_there(self) -> bool:
        """Whether it is still part of the data: an enclosing value may have been shortened before."""
        return isinstance(self.key, str) or self.key < len(self.holder)

    @property
    def worth(self) -> bool:
        value = self.holder[self.key]
        return isinstance(value, str) or len(value) > (_FEW_KEYS if isinstance(value, dict) else 1)

    def shorten(self, lost: dict[str, int]) -> None:
        value = self.holder[self.key]
        if isinstance(value, str):
            self.holder[self.key] = value[: len(value) // 2].rstrip("…") + "…"
            return
        length = min(len(value) - 1, len(value) * 9 // 10)
        lost[self.path] = lost.get(self.path, 0) + len(value) - length
        for place in [*value][length:] if isinstance(value, dict) else [slice(length, None)]:
            del value[place]


def _places(value: Any, path: str = "") -> Iterator[_Cuttable]:
    items: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        items = value.items()
    elif isinstance(value, list):
        items = enumerate(value)
    for key, inner in items:
        where = f"{path}.{key}".lstrip(".") if isinstance(key, str) else path
        if _is_cuttable(inner):
            yield _Cuttable(value, key, where, len(_written(inner)))
        yield from _places(inner, where)


def _is_cuttable(value: Any) -> bool:
    match value:
        case str():
            return len(value) > _LONG
        case dict():
            flat = not any(isinstance(inner, dict | list) and inner for inner in value.values())
            return flat and len(value) > _FEW_KEYS and not minimum_of(value)
        case list():
            return bool(value)
        case _:
            return False


def _written(data: Any) -> str:
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
