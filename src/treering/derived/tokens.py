"""Estimating how much of a model's context a text takes."""

import re

_WIDE = re.compile(r"[\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff\uff00-\uffef]")
_CHARACTERS_PER_TOKEN = 3.6


def estimate_tokens(text: str) -> int:
    """Estimate the tokens of a text: one per wide (CJK) character, else one per 3.6 characters.

    English prose has about 4.2 characters per token in common byte-pair vocabularies and code about 3.2; the
    estimate is meant to err on the high side, so that what is packed fits.
    """
    wide = len(_WIDE.findall(text))
    return wide + int((len(text) - wide) / _CHARACTERS_PER_TOKEN) + (1 if text else 0)


def cut_to_tokens(text: str, tokens: int) -> str:
    """Return the longest beginning of `text`, ending at a line or word, that fits `tokens`."""
    if estimate_tokens(text) <= tokens:
        return text
    low, high = 0, len(text)
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if estimate_tokens(text[:middle]) <= tokens else (low, middle - 1)
    end = max(text.rfind("\n", 0, low), text.rfind(" ", 0, low))
    return text[: end if end > low // 2 else low].rstrip()
