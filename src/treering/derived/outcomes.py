"""What people and agents say was decided, and why something failed, found by cue phrases.

The cues are few and strict, and English: what is missed can still be found by search, what is found wrongly has to be
turned down by somebody.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from treering.derived.extractive import sentences_of

OutcomeKind = Literal["decision", "failure"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A sentence that tells of a decision or a failure, word for word, and the reason that it gives."""

    kind: OutcomeKind
    text: str
    reason: str = ""


def outcomes_of(text: str) -> Iterator[Outcome]:
    """Return what a message says was decided or failed. Questions and code say neither."""
    for sentence in sentences_of(text):
        said = sentence.text.strip()
        kind = _kind(said)
        if kind is not None and len(said) <= _LONGEST and not said.rstrip("\"'”’) ").endswith("?"):
            reason = _REASON.search(said)
            yield Outcome(kind, said, reason["reason"].rstrip(" .!") if reason else "")


_LONGEST = 400
_DECISION = re.compile(
    r"^\W*decision\s*:|"
    r"\b(?:we|i)(?:['’]ve| have| had)?(?: all| now| just)? (?:decided|agreed|opted|settled)\b(?! (?:if|whether)\b)|"
    r"\bit (?:was|is) (?:decided|agreed|settled)\b|\bthe decision (?:is|was) to\b|"
    r"\blet[’']?s (?:use|go with|switch to|stick (?:with|to))\b|"
    r"\bwe[’'](?:ll| will) (?:use|go with|stick with|switch to)\b|^(?:and |so )?from now on\b",
    re.IGNORECASE,
)
_FAILURE = re.compile(
    r"\b(?:fail(?:s|ed)|br(?:eaks|oke)|crash(?:es|ed)|hangs|hung)\b.{0,120}\b(?:because|since|as|due to)\b|"
    r"\b(?:did|does|do)(?:n[’']t| not) work\b.{0,80}\b(?:because|since|as|due to)\b|"
    r"\b(?:root cause|culprit)\b.{0,40}\b(?:is|was)\b|\b(?:the|this) (?:cause|bug) (?:is|was)\b",
    re.IGNORECASE,
)
_UNDECIDED = re.compile(r"\b(?:not|never|n[’']t)(?: yet| been)* (?:decided|agreed|settled)\b|\bif we\b", re.IGNORECASE)
_REASON = re.compile(r"\b(?:because(?: of)?|since|due to)\s+(?P<reason>.{3,300})", re.IGNORECASE)


def _kind(said: str) -> OutcomeKind | None:
    if _FAILURE.search(said):
        return "failure"
    return "decision" if _DECISION.search(said) and not _UNDECIDED.search(said) else None
