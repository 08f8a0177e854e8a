"""The turn after a question: in a conversation the answer stands there, and belongs to the question that was found."""

import re
from collections.abc import Iterable

from treering.core.evidence import Segment
from treering.core.locator import Locator, Turn

_ASIDE = re.compile(r"\s*\[[^\[\]]{0,400}\]\s*\Z")
_QUESTION_SIGNS = "?？؟"
_END_CHARS = 40
_LONGEST_ENDING = 500


def ends_in_question(text: str) -> bool:
    """Tell whether the last sentence of a text is a question.

    What stands behind its sign is not a sentence: quotes, brackets, emoji, and an aside such as `[image: a dog]`.
    """
    end = _ASIDE.sub("", text[-_LONGEST_ENDING:]).rstrip()[-_END_CHARS:]
    told = next((char for char in reversed(end) if char.isalnum() or char in _QUESTION_SIGNS), "")
    return bool(told) and told in _QUESTION_SIGNS


def reply_among(asked: Segment, others: Iterable[Segment]) -> Segment | None:
    """Return the first of other turns of the conversation that comes after a question and is somebody else's.

    Of a long turn it is the first piece.
    """
    if not ends_in_question(asked.excerpt):
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
