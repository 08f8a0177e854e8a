"""The force of a sentence: it states, plans, asks, supposes, suggests or ends something."""

import re

from treering.extensions.statements.sentences import PLANNED_LIST
from treering.extensions.statements.statement import Force

_ASKS = re.compile(r"[?？]\W*$")
_BELIEF = re.compile(r"(?:if|i thought|thought|maybe|oh sure|perhaps)\b")
_PROMISE = re.compile(r"(?:i'll|i will|need|we'll|we will|to be)\b")


def force_of(text: str, cues: frozenset[str], *, machine: bool, intro: str = "") -> Force:
    """Return the force of a clause with some cues. `intro`: the beginning of the list that it is an item of."""
    if machine:
        return "suggested"
    if _ASKS.search(text):
        return "asked"
    plain = text.casefold().replace("’", "'")
    return _unstated(plain, cues) or _stated(plain, cues, intro)


def _unstated(plain: str, cues: frozenset[str]) -> Force | None:
    if "suppose" in cues and (not cues & {"correct", "end"} or _BELIEF.match(plain)):
        return "hypothetical"
    if "past" in cues and not cues & {"end", "correct", "plan"}:
        return "past"
    return "suggested" if "suggest" in cues and "correct" not in cues else None


def _stated(plain: str, cues: frozenset[str], intro: str) -> Force:
    if "end" in cues:
        return "ended"
    if PLANNED_LIST.search(intro.casefold()):
        return "planned"
    if "done" in cues and not _PROMISE.match(plain):
        return "done"
    return "planned" if "plan" in cues else "asserted"
