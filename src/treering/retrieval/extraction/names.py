"""When two names are the same: the normal form of an entity's name."""

import re
import unicodedata
from functools import lru_cache

from treering.retrieval.text.analysis import stem


@lru_cache(maxsize=1 << 16)
def entity_key(name: str) -> str:
    """Return the normal form of `name`; names of one form are one entity.

    Compatibility forms, case, punctuation, initials' dots, digit grouping, possessive endings and a leading
    article do not tell names apart; letters, marks, digits and symbols of every script do. Only a blank name has
    an empty form. `entity_key(entity_key(name)) == entity_key(name)`.
    """
    folded = _folded(name)
    return _bare(folded) or folded


def bare_title(title: str) -> str:
    """Return `title` without what only tells it from others of the same name: `Ed Wood (film)` is `Ed Wood`."""
    return _ASIDE.sub("", title).strip() or title.strip()


_ASIDE = re.compile(r"(?<=\S) \([^()]*\)$")
_INITIALS = re.compile(r"\b(?:[^\W\d_]\.[ ]?){2,}")  # `U.S.` and `J. R. R.`: one word each
_OWNED = re.compile(r"['’]s\b")
_GROUPED = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_ARTICLES = re.compile(r"(?:(?:the|an?) )+(?=\S)")
_SIGN = re.compile(
    # Kept: dots, slashes and colons inside a path or an identifier, decimal points, `c++`, `c#`, `50%`.
    r"(?<=\d)[.:/](?=\d)|(?<=\w\w)(?:[./]|::)(?=\w\w)|(?<=\w)#(?!\w)|(?<=\d)%|(?P<joined>['’ʼ`´])|(?P<and>&)|[^\w\s]"
)
_STEADY = 4  # rounds; folding some rare letters opens the way for one more folding


def _folded(name: str) -> str:
    if name.isascii():
        return " ".join(name.lower().split())
    for _ in range(_STEADY):
        folded = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", name).casefold())
        if folded == name:
            break
        name = folded
    return " ".join(name.split())


def _bare(folded: str) -> str:
    text = folded
    if not folded.replace(" ", "").isalnum():  # words alone have no sign to look at
        text = _OWNED.sub("", _INITIALS.sub(_run_together, folded))
        text = " ".join(_SIGN.sub(_plain, _GROUPED.sub("", text)).split())
    return _ARTICLES.sub("", text, count=1) if _ARTICLES.match(text) else text


def _run_together(initials: re.Match[str]) -> str:
    return initials[0].replace(".", "").replace(" ", "") + " "


def _plain(sign: re.Match[str]) -> str:
    """Return what replaces a sign that is not a letter: itself where it tells names apart, else a space or nothing."""
    if sign["joined"]:
        return ""
    if sign["and"]:
        return " and "
    # Marks (`M`) belong to their letters, symbols (`S`: emoji, `+`, `$`) and surrogates (`Cs`) have a meaning.
    kept = len(sign[0]) > 1 or (sign[0] in "./:#%" and _inside(sign))
    return sign[0] if kept or unicodedata.category(sign[0])[0] in "MS" or "\ud800" <= sign[0] <= "\udfff" else " "


def _inside(sign: re.Match[str]) -> bool:
    before, after = sign.string[sign.start() - 1 : sign.start()], sign.string[sign.end() : sign.end() + 1]
    return before.isalnum() and (sign[0] in "#%" or after.isalnum() or after == "_")


# The plain form of a name, which near-equal names share: `Müllers` and `Muller`, `presidents` and `president`.


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
