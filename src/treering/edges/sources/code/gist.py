"""What of a piece of code is embedded: where it is, what it is called, what it promises. Short, as tokens cost."""

import re
from collections.abc import Mapping, Sequence

from treering.edges.sources.code.outline import MEMBERED, ROOMS, Symbol

_DOC_CHARS = 600
_LEAST_DOC_CHARS = 120
_WORDS_CHARS = 200
_MEMBERS_CHARS = 200
_SCANNED_CHARS = 900

_WORD = re.compile(r"[A-Z]?[^\W\d_A-Z]{2,}|[A-Z]{3,}(?![a-z])")
"""A word of an identifier: `ServerError` and `server_error` are two each, `HTTPServer` is `HTTP` and `Server`."""
_NO_NEWS = frozenset(
    "and args assert async await bool break case catch char class const continue def default delete elif else elsif "
    "end enum except export extends final finally float for foreach from func function global if impl implements "
    "import include int interface let local long match module mut namespace new nil none not null object package pass "
    "private protected public raise require return self static str string struct super switch this throw true false "
    "try type typedef undefined unless use using var void when where while with yield".split()
)


def gist_of(path: str, symbols: Sequence[Symbol], members: Mapping[str, Sequence[str]], *, doc: str, text: str) -> str:
    """Sum up `text`: signatures and docs of `symbols`, or `doc`; where nothing is documented, its words.

    `members` gives the names inside each class by its qualified name.
    """
    chars = max(_DOC_CHARS // max(len(symbols), 1), _LEAST_DOC_CHARS)
    told = [path, *(_line(symbol, members, chars) for symbol in symbols)]
    documented = bool(doc) or any(symbol.doc for symbol in symbols)
    told.append(doc[:_DOC_CHARS] if documented else words(text, _WORDS_CHARS))
    return "\n".join(filter(None, told))


def gist_of_part(path: str, heading: str, text: str) -> str:
    """Sum up a later part of something long: its name and its own words."""
    return "\n".join(filter(None, (path, heading, words(text, _WORDS_CHARS))))


def words(text: str, limit: int) -> str:
    """List the words that the identifiers in `text` are made of, each once, up to `limit` characters."""
    found = dict.fromkeys(map(str.lower, _WORD.findall(text, 0, _SCANNED_CHARS)))
    listed = " ".join([word for word in found if len(word) > 2 and word not in _NO_NEWS])
    return listed if len(listed) <= limit else listed[: listed.rfind(" ", 0, limit + 1)]


def _line(symbol: Symbol, members: Mapping[str, Sequence[str]], chars: int) -> str:
    told = [symbol.qualified if symbol.parent else "", symbol.signature, symbol.doc[:chars]]
    if symbol.kind in MEMBERED | ROOMS:
        told.append(", ".join(members.get(symbol.qualified, ()))[:_MEMBERS_CHARS])
    return "\n".join(filter(None, told))
