"""Telling what was drawn at random from names, words and placeholders."""

import math
import re
from collections import Counter


def is_random(value: str) -> bool:
    """Tell whether a literal looks drawn at random, rather than a name, a word, a number or a placeholder."""
    if not _DIGIT.search(value) or not _LETTER.search(value) or is_placeholder(value) or _is_named(value):
        return False
    most = 3.0 if _HEX.fullmatch(value) else 3.5
    return entropy(value) >= min(most, 0.85 * math.log2(len(value)))


def is_drawn(token: str) -> bool:
    """Tell whether what has the shape of a token looks drawn at random. It may hold letters alone, in both cases."""
    if _FILLED.search(token):
        return False
    if _DIGIT.search(token):
        return not _is_named(token) and entropy(token) >= min(3.5, 0.85 * math.log2(len(token)))
    return token.lower() != token and token.upper() != token and entropy(token) >= _MIXED


def is_placeholder(value: str) -> bool:
    """Tell whether a literal says that something else belongs in its place."""
    return bool(_PLACEHOLDER.search(value))


def is_filler(token: str) -> bool:
    """Tell whether a token is a few characters over and over, such as `xxxx`, behind what it begins with.

    A key to whose end such characters are joined is none.
    """
    return len(set(token[min(_TAIL, max(0, len(token) - _TAIL)) :])) < _DIFFERENT


def entropy(value: str) -> float:
    """Return Shannon's entropy of the characters of `value`, in bits per character."""
    shares = [count / len(value) for count in Counter(value).values()]
    return -sum(share * math.log2(share) for share in shares)


def _is_named(value: str) -> bool:
    """Tell whether a literal is made of words: a name, a path, an address, a call."""
    if _ADDRESS.match(value) or _NAME.fullmatch(value):
        return True
    parts = _PARTS.findall(value)
    letters = sum(map(str.isalpha, value))
    least = _LONG_WORDS if value.lower() != value else _LONGER_WORDS
    return 2 * letters >= len(value) and len(value) >= least * len(parts)


_TAIL = 16
_DIFFERENT = 4
_MIXED = 4.0
"""Bits per character: names in camel case have less, letters drawn at random more."""

_LONG_WORDS = 3.4
_LONGER_WORDS = 4.0
"""Mean length of the runs of letters or digits in a name; what was drawn at random has shorter ones."""

_DIGIT = re.compile(r"[0-9]")
_LETTER = re.compile(r"[A-Za-z]")
_HEX = re.compile(r"[0-9a-fA-F\-]{20,}+")
_PARTS = re.compile(r"[A-Z]?[a-z]++|[A-Z]++|[0-9]++|[^A-Za-z0-9]")
_NAME = re.compile(r"[$@#./~_\-]{0,3}[A-Za-z]+\d{0,4}(?:[_\-./: ]{1,2}(?:[A-Za-z]+\d{0,4}|\d{1,4}))*+[_\-./:]?")
_ADDRESS = re.compile(
    r"[A-Za-z][A-Za-z0-9+.\-]{1,20}://|(?:\.{0,2}|~)/[\w.]|data:|sha\d{1,3}[\-:]|urn:|arn:|[\w.+\-]{1,64}@[\w\-]{1,64}\."
)
_PLACEHOLDER = re.compile(
    r"x{3,}|\*{3,}|\.{3,}|0{6,}|1234567|abcdef|example|placeholder|change|dummy|sample|fake|redact|replace|insert"
    r"|your|test|todo|none|null|undefined|environ|getenv|process\.env|secrets\.|vault|\$\{|\$\(|\{\{|%\(|<|>|\{",
    re.IGNORECASE,
)
# Short words occur in what was drawn at random, too.
_FILLED = re.compile(
    r"[xX]{4,}|\*{3,}|\.{3,}|0{6,}|1234567|abcdef|[<>{}]|(?i:example|placeholder|changeme|dummy|sample|redact|replace|your[_\-])"
)
