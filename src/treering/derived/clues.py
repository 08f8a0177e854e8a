"""What a question says of who said something and when: clues to the turns of a conversation.

Measured on LoCoMo and LongMemEval (`docs/decisions`); a passage that is no turn has no clues.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from treering.derived.fusion import Fused
from treering.derived.ties import is_turn
from treering.ports.index import PassageHead

SPEAKER = "speaker"
DATE = "date"
ROLE = "role"
THREAD = "thread"

WEIGHTS: Mapping[str, float] = {SPEAKER: 0.2, DATE: 0.4, ROLE: 0.2, THREAD: 0.1}
"""What a clue adds to the score of a turn, which is between 0 and 1 without it."""

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTH = "|".join(_MONTHS)
_NAMED_DATE = re.compile(
    rf"\b(?P<before>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?(?P<month>{_MONTH})\b(?:(?:,|\s+of)?\s+(?P<year>\d{{4}})\b)?"
    rf"|\b(?P<month2>{_MONTH})\s+(?P<after>\d{{1,2}})(?:st|nd|rd|th)?\b(?:,?\s+(?P<year2>\d{{4}})\b)?"
    rf"|\b(?P<month3>{_MONTH})(?:,|\s+of)?\s+(?P<year3>\d{{4}})\b"
    # A month alone may be a verb or somebody's name, but not after these.
    rf"|\b(?:in|of|since|until|till|by|during|last|next|this|early|late|mid|around|from|to|before|after|every|between|and)[\s-]+"
    rf"(?P<month4>{_MONTH})\b(?!(?:,|\s+of)?\s+\d)",
    re.IGNORECASE,
)
_ISO_DATE = re.compile(r"\b(\d{4})-(\d{2})(?:-(\d{2}))?\b")
_OF_THE_ASSISTANT = re.compile(
    r"\byou (?:told|mention|suggest|recommend|provid|gave|said|list|describ|explain|creat|wrote|shar)\w*"
    r"|\bremind me\b|\b(?:our|the) (?:previous|last|earlier|past) (?:conversation|chat|discussion)"
    r"|\bprevious (?:conversation|chat)|\bwe (?:talked|discussed)",
    re.IGNORECASE,
)
_OF_THE_USER = re.compile(r"\b(?:i|my|me|mine|i'm|i've|we|our|us)\b", re.IGNORECASE)
_TURN = re.compile(r"(?P<speaker>.*?)(?: \((?P<date>\d{4}-\d{2}-\d{2})\))?")
_ROLES = frozenset({"user", "assistant", "system", "tool"})


@dataclass(frozen=True, slots=True)
class AskedDate:
    """A month that a question names, with its year and day where it names them."""

    month: int
    year: int | None = None
    day: int | None = None

    def match(self, said: date) -> float:
        """Give 1 for that month or day (or the day beside it), 0.5 for another day of that month, else 0."""
        if self.year and said.year != self.year:
            return 0.0
        named = _date(said.year, self.month, self.day or 1)
        if self.day and named and abs((said - named).days) <= 1:
            return 1.0
        if said.month != self.month:
            return 0.0
        return 0.5 if self.day else 1.0


def clues_of(question: str, heads: Mapping[int, PassageHead]) -> dict[str, dict[int, float]]:
    """Give, by clue, the turns among some passages that a question points at, each with a score from 0 to 1.

    `speaker`: who spoke is named in the question, and not everybody who speaks there is. `date`: it was said in the
    month or on the day that is named. `role`: the question asks what an assistant said ("you told me"), or else what
    a user said of themselves ("my").
    """
    turns = {key: _turn(head) for key, head in heads.items() if is_turn(head)}
    clues = {
        SPEAKER: _spoken_by(question, turns, heads),
        DATE: _said_at(dates_in(question), turns),
        ROLE: _in_role(question, turns),
    }
    return {name: scores for name, scores in clues.items() if scores}


def thread_clue(ranked: Sequence[Fused], heads: Mapping[int, PassageHead]) -> dict[str, dict[int, float]]:
    """Give each turn the score of the best turn of its conversation: where one was found there may be more."""
    best: dict[str, float] = {}
    turns = [(hit, heads[hit.key].object_id) for hit in ranked if hit.key in heads and is_turn(heads[hit.key])]
    for hit, thread in turns:
        best[thread] = max(best.get(thread, 0.0), hit.score)
    return {THREAD: {hit.key: best[thread] for hit, thread in turns}} if turns else {}


def dates_in(question: str) -> list[AskedDate]:
    """Give the months and days that a question names; "May I", "June said" and "march on" name none."""
    return [*_named_dates(question), *_iso_dates(question)]


@dataclass(frozen=True, slots=True)
class _Turn:
    speaker: str
    said: date | None


def _turn(head: PassageHead) -> _Turn:
    found = _TURN.fullmatch(head.heading)
    if not found:
        return _Turn(head.heading, None)
    said = found["date"]
    return _Turn(found["speaker"], _date(*map(int, said.split("-"))) if said else None)


def _date(year: int, month: int, day: int) -> date | None:
    """Give a date, or nothing for numbers that are none: what looks like one may be part of a name."""
    try:
        return date(year, month, day)
    except ValueError:
        return None


def _spoken_by(question: str, turns: Mapping[int, _Turn], heads: Mapping[int, PassageHead]) -> dict[int, float]:
    speakers: dict[str, set[str]] = {}
    for key, turn in turns.items():
        speakers.setdefault(heads[key].object_id, set()).add(turn.speaker)
    everybody = set().union(*speakers.values()) - _ROLES
    named = {name for name in everybody if name.strip() and _says(question, name)}
    telling = {identity: those & named for identity, those in speakers.items() if not those <= named}
    return {key: 1.0 for key, turn in turns.items() if turn.speaker in telling.get(heads[key].object_id, ())}


def _says(question: str, name: str) -> bool:
    first = name.split()[0]
    return any(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", question, re.IGNORECASE) for part in {name, first})


def _said_at(asked: Sequence[AskedDate], turns: Mapping[int, _Turn]) -> dict[int, float]:
    dated = ((key, turn.said) for key, turn in turns.items() if turn.said)
    scores = {key: max((day.match(said) for day in asked), default=0.0) for key, said in dated}
    return {key: score for key, score in scores.items() if score}


def _in_role(question: str, turns: Mapping[int, _Turn]) -> dict[int, float]:
    if _OF_THE_ASSISTANT.search(question):
        wanted = "assistant"
    elif _OF_THE_USER.search(question):
        wanted = "user"
    else:
        return {}
    return {key: 1.0 for key, turn in turns.items() if turn.speaker == wanted}


def _named_dates(question: str) -> Iterator[AskedDate]:
    for found in _NAMED_DATE.finditer(question):
        month = found["month"] or found["month2"] or found["month3"] or found["month4"]
        day, year = found["before"] or found["after"], found["year"] or found["year2"] or found["year3"]
        yield AskedDate(_MONTHS.index(month.lower()) + 1, int(year) if year else None, int(day) if day else None)


def _iso_dates(question: str) -> Iterator[AskedDate]:
    for year, month, day in _ISO_DATE.findall(question):
        yield AskedDate(int(month), int(year), int(day) if day else None)
