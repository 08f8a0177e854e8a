"""What a task speaks of, in the words of the task: the base of saying what is not known."""

import re
from collections.abc import Iterable, Mapping

from treering.derived.analysis import query_terms

_WORD = re.compile(r"[^\s\"'“”‘’`()\[\]{}<>,;:!?…]+")
_QUOTED = re.compile(r"`([^`\n]{1,200})`")
_NAME_SIGN = re.compile(r"[_/:]|[^\W\d][.][^\W\d]|[a-z][A-Z]|[^\W\d]\d|\d[^\W\d]")
_SHORTEST = 4  # letters: shorter plain words are seldom what a task is about
# Words of requests and manners of doing: that a space never says them tells nobody anything.
_PLAIN = re.compile(r"(?:ly|able|ible|ful|less|ness|ing|ed|est)$")
_OF_REQUESTS = frozenset(
    """
    actually add allow also anything avoid bad best better big bit bug build bugs call care change check clean
    code correct create current currently default different document easy enough ensure error every everything
    example explain explicit extend fails fast feature file find first fix function good handle happen happens help
    implement improve instead issue keep kind large last list look make many message method module move multiple
    need nice number often option options part place possible prefer prevent problem problems project proper
    properly quick reason refactor remove rename replace report request review right safe same second show simple
    slow small something sometimes sure support test tests thing things think together update user users version
    want whether work works wrong write year years
    """.split()
)


def names_in(task: str) -> Mapping[str, tuple[str, ...]]:
    """Give what a task may be about, as typed, each with the index terms it is found by.

    Names (paths, identifiers, what stands in backquotes) always; plain words where they look like the matter
    and not like the manner of a request.
    """
    quoted = set(_QUOTED.findall(task))
    typed = [word.strip(".*-–—/") for word in _WORD.findall(task)]
    wanted = {word: query_terms(word).words for word in typed if word in quoted or _may_be_a_matter(word)}
    return {word: terms for word, terms in wanted.items() if terms}


def unknown_among(names: Mapping[str, tuple[str, ...]], known: Iterable[str]) -> list[str]:
    """Give, in order, the names not one of whose forms is known, and each only once.

    A written-out name (`foo_bar`) needs its whole to be known, a hyphenated or plain word only its parts.
    """
    there = frozenset(known)
    unknown: dict[str, str] = {}
    for name, terms in names.items():
        parts = terms if _NAME_SIGN.search(name) or len(terms) == 1 else terms[1:]
        if not all(term in there for term in parts):
            unknown.setdefault(name.casefold(), name)
    return list(unknown.values())


def _may_be_a_matter(word: str) -> bool:
    if _NAME_SIGN.search(word):
        return any(letter.isalpha() for letter in word)
    plain = word.casefold()
    if not word.isascii():
        return len(word) > 1
    if not plain.replace("-", "").isalpha() or len(plain) < _SHORTEST or plain in _OF_REQUESTS:
        return False
    named = word[:1].isupper() and not word.isupper()
    return named or not _PLAIN.search(plain)
