"""The force of a sentence: it states, plans, asks, supposes, suggests or ends something."""

import re

from treering.extensions.statements.sentences import PLANNED_LIST
from treering.extensions.statements.statement import Force

_ASKS = re.compile(r"[?？]\W*$")
_OPENING = r"(?:(?:and|but|so|ok|okay|oh|ah|wait|also|hi|hey|hm+|btw|then|or|well|anyway|question)[,:]? )*"
_PERSON = r"(?:i|you|u|we|he|she|they|it|there|any\w*|someone|somebody|everyone|everybody)"
_BE = r"(?:is|are|am|was|were|do|does|did|can|could|would|will|shall|should|has|have|had|\w+n't)"
_THE = "(?:the|my|your|our|his|her|their|this|that|these)"
_INVERTED = re.compile(
    rf"{_OPENING}(?:{_BE} {_PERSON}\b|(?:is|are|does|can|will|wasn't|isn't|aren't|weren't) {_THE}\b|"
    rf"(?:who|what|where|why|how|when|whose)(?:'?s|'re| {_BE})\b|(?:what|which) (?!an?\b)\w+$|"
    rf"(?:what|which|how) \w+ (?:{_BE}|{_PERSON})\b|"
    r"(?:who|what) (?!was\b|is\b)\w+s\b(?!.*:)|how (?:many|much|long|old|far|often|come)\b|why not\b|"
    r"you\b.*\b(?:right|then|huh|eh)$|any(?:one|body)? (?:\w+)|(?:\w+,? )?(?:when|who|where|why|what|how)$)"
)
"""How a question begins, with its mark or without: `who has the key`, `does she still travel`, `ok when`."""
_BELIEF = re.compile(
    r"(?:if|unless|in case|(?:i )?thought(?! (?:about|of)\b)|maybe|oh sure|perhaps|tempted|imagine|i wish)\b"
)
_PROMISE = re.compile(
    r"\b(?:\w+'ll|will|needs?|wants?|must|should|going to|gonna|have to|has to|to be|gets?|until|when|once|by)\b[^,]*"
    r"\b(?:done|finished|completed|sent|submitted|fixed|sorted|handed in|delivered|paid|booked|picked up)\b|"
    r"(?:i'll|we'll|i will|we will|need)\b"
)
"""A plan, although it has a word such as `paid` or `booked`."""
_CONCLUDES = re.compile(r"(?:then|or)\b|.*\bthen$|[^,]* then,")


def force_of(
    text: str, cues: frozenset[str], *, is_value: bool = False, is_ahead: bool = False, intro: str = ""
) -> Force:
    """Return the force of a clause with some cues.

    `is_value`: it has a value and no verb, as `Friday?` and `pour at 8 then` do, which propose it. `is_ahead`: it
    names a day to come. `intro`: the beginning of the list that it is an item of.
    """
    plain = text.casefold().replace("’", "'").strip(" .!,;…:()*-")
    asks = _ASKS.search(text) is not None
    if is_value and (_CONCLUDES.match(plain) or (asks and not _INVERTED.match(plain))):
        return "suggested"
    if _INVERTED.match(plain) or (asks and "correct" not in cues):
        return "asked"
    return _unstated(plain, cues) or _stated(plain, cues, intro, is_ahead=is_ahead)


def _unstated(plain: str, cues: frozenset[str]) -> Force | None:
    if "suppose" in cues and (not cues & {"correct", "end"} or _BELIEF.match(plain)):
        return "hypothetical"
    if "past" in cues and not cues & {"end", "correct", "plan"}:
        return "past"
    return "suggested" if "suggest" in cues and "correct" not in cues else None


def _stated(plain: str, cues: frozenset[str], intro: str, *, is_ahead: bool) -> Force:
    if "end" in cues:
        return "ended"
    if PLANNED_LIST.search(intro.casefold()):
        return "planned"
    if "done" in cues and not _PROMISE.search(plain):
        return "planned" if is_ahead else "done"
    return "planned" if "plan" in cues else "asserted"
