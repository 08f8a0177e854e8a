"""The conversation of a supervisor with a worker: every turn of it, of which the oldest are told shorter."""

from collections.abc import Sequence
from itertools import accumulate

from treering.derived.extractive import best, sentences_of, told
from treering.tools.envelope import Value

WHOLE_CHARS = 48_000
"""How much of the newest turns is kept as it was said."""

SHORT_CHARS = 16_000
"""How much all older turns may take together."""

_LEAST_CHARS = 120  # of one older turn, however many there are
_PROMPT_SHARE = 3  # of a short turn the prompt takes a third
_SENTENCES = 12
_CHARS_PER_WORD = 7


class Exchange(Value):
    """One turn: what the worker was told, and what it answered. `shortened`: these are summaries."""

    prompt: str
    response: str
    shortened: bool = False


def remembered(turns: Sequence[Exchange]) -> tuple[Exchange, ...]:
    """Return all turns, oldest first: the newest as they were, the older ones summarised, none left out.

    The newest is always kept as it was, however long it is.
    """
    sizes = accumulate(len(turn.prompt) + len(turn.response) for turn in reversed(turns))
    whole = max(sum(size <= WHOLE_CHARS for size in sizes), 1)
    older, newer = turns[:-whole], turns[-whole:]
    each = max(SHORT_CHARS // len(older), _LEAST_CHARS) if older else 0
    return (*(_short(turn, each) for turn in older), *newer)


def _short(turn: Exchange, most: int) -> Exchange:
    for_prompt = most // _PROMPT_SHARE
    return Exchange(
        prompt=_summary(turn.prompt, for_prompt),
        response=_summary(turn.response, most - min(len(turn.prompt), for_prompt)),
        shortened=True,
    )


def _summary(text: str, most: int) -> str:
    """Return the sentences that tell the most; where none tells anything, the beginning and the end."""
    if len(text) <= most:
        return text
    chosen = told(best(sentences_of(text), most=_SENTENCES, words=most // _CHARS_PER_WORD))
    if chosen and len(chosen) <= most:
        return chosen
    half = max((most - len(_GAP)) // 2, 1)
    return f"{text[:half]}{_GAP}{text[-half:]}"


_GAP = " … "
