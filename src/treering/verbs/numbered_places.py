"""The numbered places of answers: `3` is the third place of the last answer, `ans:…#3` of one by its id."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from treering.core.errors import InvalidInput

_NUMBER = re.compile(r"(?:(?P<answer>ans:[\w=-]{1,200})#)?\[?(?P<number>[0-9]{1,4})\]?")

Places = Mapping[int, str]
"""By number, the id of an object and, if the place has one, of its segment."""
PlacesOf = Callable[[str], Places]
"""Returns the places of the answer with an id, for an empty id of the last answer; none for an unknown one."""


MAX_PLACES = 1_000
"""Places of one answer that are remembered."""


@dataclass(frozen=True, slots=True)
class NumberOf:
    """A place of an answer by its number, from 1; `answer` is the answer's id, empty for the last one."""

    number: int
    answer: str = ""


def number_in(text: str) -> NumberOf | None:
    """Return the numbered place that a text such as `3`, `[3]` or `ans:…#3` names; `None` for any other text."""
    match = _NUMBER.fullmatch(text.strip())
    return NumberOf(int(match["number"]), match["answer"] or "") if match else None


def numbered_in(answer: str, text: str) -> str:
    """Return a bare number as one of an answer; any other text as it is."""
    number = number_in(text)
    return f"{answer}#{number.number}" if number and not number.answer else text


def no_places(_answer: str) -> Places:
    """Remember no answers."""
    return {}


def place_numbered(text: str, places_of: PlacesOf) -> str:
    """Return the ids at a numbered place; any other text as it is. Raises `InvalidInput` for an unknown number."""
    number = number_in(text)
    if number is None:
        return text
    places = places_of(number.answer)
    if number.number not in places:
        which = f"The answer {number.answer}" if number.answer else "The last answer"
        shown = f"Its places are numbered up to {max(places)}." if places else "No such answer is known here."
        raise InvalidInput(f"{which} has no place {number.number}.", hint=f"{shown} {_INSTEAD}")
    return places[number.number]


_INSTEAD = "Search first, or give a path such as src/retry.py:10-14, or ans:…#3 with the field `answer` of a query."
