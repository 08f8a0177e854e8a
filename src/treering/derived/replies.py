"""The turn after a question: in a conversation the answer stands there, and belongs to the question that was found."""

import re
from collections.abc import Iterable

from treering.core.evidence import Segment
from treering.core.locator import Locator, Turn

_ASIDE = re.compile(r"\s*\[[^\[\]]{0,400}\]\s*\Z")
_QUESTION_SIGNS = "?？؟"
_END_CHARS = 40
_LONGEST_ENDING = 500
_SENTENCE_END = re.compile(r"[.!?:;]\s+|\n")
_AUXILIARY = r"(?:is|are|was|were|do|does|did|can|could|should|would|will|has|have|had|'s)"
_REQUEST = re.compile(
    r"(?:(?:please|ok(?:ay)?|so|now|and|then|hey|hi|can you|could you|would you),? +){0,3}"
    rf"(?:(?:tell|show|give|remind) (?:me|us)\b|(?:explain|describe|list|summari[sz]e)\b(?!,)"
    rf"|(?:what|which|who|whose|where|why|how)(?: \w+){{0,2}} ?{_AUXILIARY}\b(?!.*,))",
    re.IGNORECASE,
)
"""How a request begins, and a question whose mark was left out; a comma behind makes it a clause of something else."""


def asks(text: str) -> bool:
    """Tell whether the last sentence of a text is a question, or asks to be told something, as chats without signs do.

    Behind a question mark may stand what is not a sentence: quotes, brackets, emoji, an aside such as `[image: a dog]`.
    Questions without a mark and requests are known in English alone.
    """
    said = _ASIDE.sub("", text[-_LONGEST_ENDING:]).rstrip()
    told = next((char for char in reversed(said[-_END_CHARS:]) if char.isalnum() or char in _QUESTION_SIGNS), "")
    if told in _QUESTION_SIGNS:
        return bool(told)
    return _REQUEST.match(_SENTENCE_END.split(said.rstrip(".! "))[-1].strip()) is not None


def reply_among(asked: Segment, others: Iterable[Segment]) -> Segment | None:
    """Return the first of other turns of the conversation that comes after a question and is somebody else's.

    Of a long turn it is the first piece.
    """
    if not asks(asked.excerpt):
        return None
    later = [other for other in others if other.position > asked.position]
    reply = min(later, key=lambda other: other.position, default=None)
    return reply if reply and _is_answered(asked.locator, reply.locator) else None


def _is_answered(asked: Locator, reply: Locator) -> bool:
    """Tell whether two places are turns, one after the other, of two who speak."""
    match asked, reply:
        case Turn(), Turn():
            return reply.turn > asked.turn and reply.speaker != asked.speaker
        case _:
            return False
