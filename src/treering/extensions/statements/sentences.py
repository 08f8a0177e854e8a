"""Splitting a message into clauses, each with its speaker."""

import re
from collections.abc import Iterator
from dataclasses import replace

from treering.extensions.statements.extractive import split_sentences
from treering.extensions.statements.quotes import MIN_CLAUSE_WORDS, QUOTE, Clause, attributed
from treering.extensions.statements.statement import SaidMessage
from treering.extensions.statements.words import LanguageWords

_CODE = re.compile(r"```.*?(?:```|\Z)|\[(?:image|audio|file|video)\b[^\]\n]*\]", re.DOTALL)
_PRONOUN = r"(?:i|we|he|she|they|i['’]m|i['’]ll|we['’]re)\b"
_BREAK = re.compile(
    r"\s*;\s+|,? but (?!also\b|still (?:no|not)\b)|\s+[–—]\s+|,? aber |,? pero |"
    rf",? and (?=(?:my|our|the|{_PRONOUN})\b)|, (?={_PRONOUN})"
    rf"|,? (?<!just )so (?=(?:you|it|the|that|there|{_PRONOUN})\b)"
    r"|, (?=(?:any|can you|could you|do you|is there|are there|got)\b|(?:what|how|which|who|when|where)\b[^,]*\?)",
    re.IGNORECASE,
)
_SUBORDINATE = re.compile(
    r"(?:(?:and|but|so|well|yeah)[, ]+)*(?:instead|after|before|when|while|since|as|because|although|though|without|"
    r"with|by|speaking|despite|during|until|once|in|on|at|for)\b",
    re.IGNORECASE,
)
"""The beginning of a phrase that belongs to the clause after it: `after losing my job, I moved`."""
_ASKED_LAST = re.compile(
    r"(?P<told>.{8,}), (?P<asked>(?!right|no|yes|ok|okay|correct|huh|eh|isn|aren|doesn|don|wasn|won|though|or)"
    r"(?:[\w'’]+ ?){1,5}\?+)"
)
"""`The flight lands at 6, pick me up?` states something, and asks for something else."""
_LIST = re.compile(r"^(?P<intro>[^:]{2,40}): (?P<items>[^,]+(?:,[^,]+)+)$")
PLANNED_LIST = re.compile(r"to-?do|need|must|plan|steps|tasks|errands|today|this week|tomorrow|list|remind")
"""The beginning of a to-do list."""


def clauses_of(said: SaidMessage, words: LanguageWords) -> list[Clause]:
    """Return the clauses of a message, in order."""
    return [clause for part in attributed(_CODE.sub("\n", said.text), words) for clause in _parts(part, words)]


def _parts(part: Clause, words: LanguageWords) -> Iterator[Clause]:
    quotes = [quote[0] for quote in QUOTE.finditer(part.text)]
    text = part.text
    for number, quote in enumerate(quotes):
        text = text.replace(quote, _mask(number))
    for clause in _cut(replace(part, text=text), words):
        shown = clause.text
        for number, quote in enumerate(quotes):
            shown = shown.replace(_mask(number), quote)
        yield replace(clause, text=shown)


def _mask(number: int) -> str:
    """Return a placeholder for a quote while a text is cut."""
    return f"\ue000{number}\ue001"


def _cut(part: Clause, words: LanguageWords) -> Iterator[Clause]:
    for sentence in split_sentences(part.text):
        items = _LIST.match(sentence)
        if items and PLANNED_LIST.search(items["intro"].casefold()):
            for item in re.split(r",(?: and)? | and ", items["items"]):
                yield replace(part, text=item.strip(), intro=items["intro"])
            continue
        for clause in _clauses(sentence, words):
            yield replace(part, text=clause)


def _clauses(sentence: str, words: LanguageWords) -> Iterator[str]:
    """Split a text at sentences. `If …`, `oh sure, …` and a short opening belong to the following words."""
    if sentence.endswith("?") and (asking := _ASKED_LAST.fullmatch(sentence)):
        yield from _clauses(asking["told"], words)
        yield asking["asked"]
        return
    start = 0
    for joint in _BREAK.finditer(sentence):
        head = sentence[start : joint.start()]
        is_opening = joint[0] == ", " and _SUBORDINATE.match(head.strip())
        is_short = len(head.split()) < MIN_CLAUSE_WORDS
        if not (is_opening or is_short or words.begins_with("suppose", head.casefold().strip())):
            yield head.strip()
            start = joint.end()
    if sentence[start:].strip(" .!?,-"):
        yield sentence[start:].strip()
