"""The plain form of a name, which near-equal names share: `Müllers` and `Muller`, `presidents` and `president`."""

import unicodedata
from functools import lru_cache

from treering.derived.analysis import stem


@lru_cache(maxsize=1 << 16)
def plain_form(key: str) -> str:
    """Return an entity key without accents on Latin letters and without English endings.

    Marks of other scripts stay, for there they tell words apart. A form of a form is itself wherever stemming is
    steady; names that are all digits and signs are their own form.
    """
    bare = key if key.isascii() else _without_accents(key)
    return " ".join(stem(word) if word.isascii() and word.isalpha() else word for word in bare.split())


def _without_accents(key: str) -> str:
    kept: list[str] = []
    latin = False
    for sign in unicodedata.normalize("NFD", key):
        if unicodedata.combining(sign) and latin:
            continue
        latin = "LATIN" in unicodedata.name(sign, "") if not unicodedata.combining(sign) else latin
        kept.append(sign)
    return unicodedata.normalize("NFC", "".join(kept))
