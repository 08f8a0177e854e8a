"""What of a piece of code is embedded: where it is, what it is called, what it promises. Short, as tokens cost."""

import re
from collections.abc import Mapping, Sequence

from treering.edges.sources.code.outline import MEMBERED, ROOMS, Symbol

_DOC_CHARS = 600
_LEAST_DOC_CHARS = 120
_WORDS_CHARS = 240
_MEMBERS_CHARS = 200
_SCANNED_CHARS = 3_000

_IDENTIFIER = re.compile(r"[^\W\d]\w{2,}")
_HUMP = re.compile(r"_+|(?<=[a-z0-9])(?=[A-Z])")
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
    seen: dict[str, None] = {}
    length = 0
    for identifier in dict.fromkeys(_IDENTIFIER.findall(text[:_SCANNED_CHARS])):
        for word in _HUMP.sub(" ", identifier).lower().split():
            if len(word) < 3 or word in _NO_NEWS or word in seen:
                continue
            length += len(word) + 1
            if length > limit:
                return " ".join(seen)
            seen[word] = None
    return " ".join(seen)


def _line(symbol: Symbol, members: Mapping[str, Sequence[str]], chars: int) -> str:
    told = [symbol.qualified if symbol.parent else "", symbol.signature, symbol.doc[:chars]]
    if symbol.kind in MEMBERED | ROOMS:
        told.append(", ".join(members.get(symbol.qualified, ()))[:_MEMBERS_CHARS])
    return "\n".join(filter(None, told))
