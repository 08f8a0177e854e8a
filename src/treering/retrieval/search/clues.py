"""What a question says of who said something and when: clues to the turns of a conversation.

Measured on LoCoMo and LongMemEval (`docs/decisions`); a passage that is not a turn has no clues.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

from treering.core.evidence import Locator, Segment, Turn
from treering.ports.passages import PassageHead
from treering.retrieval.index.ties import is_turn
from treering.retrieval.search.fusion import Fused

SPEAKER = "speaker"
DATE = "date"
ROLE = "role"
THREAD = "thread"

WEIGHTS: Mapping[str, float] = {SPEAKER: 0.2, DATE: 0.4, ROLE: 0.2, THREAD: 0.1}
"""What a clue adds to the score of a turn, which is between 0 and 1 without it."""

_OF_THE_ASSISTANT = re.compile(
    r"\byou (?:told|mention|suggest|recommend|provid|gave|said|list|describ|explain|creat|wrote|shar)\w*"
    r"|\bremind me\b|\b(?:our|the) (?:previous|last|earlier|past) (?:conversation|chat|discussion)"
    r"|\bprevious (?:conversation|chat)|\bwe (?:talked|discussed)",
    re.IGNORECASE,
)
_OF_THE_USER = re.compile(r"\b(?:i|my|me|mine|i'm|i've|we|our|us)\b", re.IGNORECASE)
_TURN = re.compile(r"(?P<speaker>.*?)(?: \(\d{4}-\d{2}-\d{2}\))?")
_ROLES = frozenset({"user", "assistant", "system", "tool"})


def clues_of(
    question: str, heads: Mapping[int, PassageHead], dated: Mapping[int, float]
) -> dict[str, dict[int, float]]:
    """Give, by clue, the turns among some passages that a question points at, each with a score from 0 to 1.

    `speaker`: who spoke is named in the question, and not everybody who speaks there is. `date`: it was said at a time
    that is named, or speaks of that time (`dated`, as `Index.on_days` gives it). `role`: the question asks what an
    assistant said ("you told me"), or else what a user said of themselves ("my").
    """
    turns = {key: _speaker(head) for key, head in heads.items() if is_turn(head)}
    clues = {
        SPEAKER: _spoken_by(question, turns, heads),
        DATE: {key: score for key, score in dated.items() if key in turns},
        ROLE: _in_role(question, turns),
    }
    return {name: scores for name, scores in clues.items() if scores}


def thread_clue(ranked: Sequence[Fused], heads: Mapping[int, PassageHead]) -> dict[str, dict[int, float]]:
    """Return each turn the score of the best turn of its conversation: where one was found there may be more."""
    best: dict[str, float] = {}
    turns = [(hit, heads[hit.key].object_id) for hit in ranked if hit.key in heads and is_turn(heads[hit.key])]
    for hit, thread in turns:
        best[thread] = max(best.get(thread, 0.0), hit.score)
    return {THREAD: {hit.key: best[thread] for hit, thread in turns}} if turns else {}


def _speaker(head: PassageHead) -> str:
    """Return who spoke: a turn is headed "Ann (2023-05-08)", or "Ann" where nobody knows when."""
    found = _TURN.fullmatch(head.heading)
    return found["speaker"] if found else head.heading


def _spoken_by(question: str, turns: Mapping[int, str], heads: Mapping[int, PassageHead]) -> dict[int, float]:
    speakers: dict[str, set[str]] = {}
    for key, speaker in turns.items():
        speakers.setdefault(heads[key].object_id, set()).add(speaker)
    everybody = set().union(*speakers.values()) - _ROLES
    named = {name for name in everybody if name.strip() and _says(question, name)}
    telling = {identity: those & named for identity, those in speakers.items() if not those <= named}
    return {key: 1.0 for key, speaker in turns.items() if speaker in telling.get(heads[key].object_id, ())}


def _says(question: str, name: str) -> bool:
    first = name.split()[0]
    return any(re.search(rf"(?<!\w){re.escape(part)}(?!\w)", question, re.IGNORECASE) for part in {name, first})


def _in_role(question: str, turns: Mapping[int, str]) -> dict[int, float]:
    if _OF_THE_ASSISTANT.search(question):
        wanted = "assistant"
    elif _OF_THE_USER.search(question):
        wanted = "user"
    else:
        return {}
    return {key: 1.0 for key, speaker in turns.items() if speaker == wanted}


# The turn after a question: in a conversation the answer stands there, and belongs to the question that was found.


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
