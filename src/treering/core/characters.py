r"""Characters that a terminal or a reader would interpret instead of display, written out or escaped in JSON.

Controls move a cursor or retitle a window, direction marks reorder the displayed text, and line separators other than
a line feed start a new line. Also: hashing and folding of texts.
"""

import hashlib
import re
import unicodedata
from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import TypeVar, cast

from treering.core.errors import InvalidInput

_Value = TypeVar("_Value")

# Not the marks U+200E, U+200F and U+061C: text from right to left needs them, and they reorder no other words.
_DIRECTION = "\u202a-\u202e\u2066-\u2069"
_SEPARATORS = "\u2028\u2029"
_CONTROLS = re.compile(rf"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f{_SEPARATORS}{_DIRECTION}]|\r(?!\n)")
_CONTROLS_AND_BREAKS = re.compile(rf"[\x00-\x1f\x7f-\x9f{_SEPARATORS}{_DIRECTION}]")
_PRINTED = re.compile(r"\\(x(?:0[1-9a-f]|1[0-9a-f]|7f|[89a-f][0-9a-f])|u202[89a-e]|u206[6-9]|[tnr])")
_LETTERS = {"t": "\t", "n": "\n", "r": "\r"}
_ESCAPED_BYTE = 0xDC00  # offset of the surrogates that Python uses for bytes of a path that are not UTF-8
_INVISIBLE = re.compile(
    "[\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2060-\u206f\u2800\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_HALF_ESCAPES = re.compile(rb"\\u[dD][89a-fA-F]")
_ESCAPES = re.compile(rb"\\(?:u[dD][89abAB]..\\u[dD][c-fC-F]..|(u[dD][89a-fA-F]..)|.)", re.DOTALL)
_SPACES = re.compile(r"\s+")
_STRUCTURE = re.compile(r"[\\`*\[\]]")
_ANGLES = str.maketrans({"<": "‹", ">": "›"})
_QUOTES = {**_ANGLES, ord('"'): "'"}
_LABEL_CHARS = 120
_LATIN = 0xFF
SHORT_ID_CHARS = 7
"""Length of a short id that Treering prints, as in git."""


def visible(text: str) -> str:
    r"""Write out controls, direction marks and line separators (`\x1b`, `\u202e`), except line feeds and tabs."""
    return _CONTROLS.sub(_written_out, text)


def visible_line(text: str) -> str:
    """Write a text as one line: like `visible`, with line feeds and tabs written out, too."""
    return _CONTROLS_AND_BREAKS.sub(_written_out, text)


def visible_json(text: str) -> str:
    r"""Escape the characters of a JSON text that a terminal would interpret (`\u009b`). The value does not change."""
    return _CONTROLS.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


def printable(name: bytes) -> str:
    r"""Decode a file name to stable, printable text: bytes that are not UTF-8 and controls become `\x..`."""
    text = name.decode("utf-8", "backslashreplace")
    return _CONTROLS_AND_BREAKS.sub(lambda match: match[0].encode("unicode_escape").decode("ascii"), text)


def unprinted(path: str) -> str:
    """Reverse `printable`: return the file name, with bytes that are not UTF-8 as Python represents them in paths.

    A name that contains a backslash can look the same, so try the given name first.
    """
    return _PRINTED.sub(lambda match: _LETTERS.get(match[1]) or _of_code(int(match[1][1:], 16)), path)


def _of_code(code: int) -> str:
    return chr(code if code < 0x80 or code > 0xFF else _ESCAPED_BYTE + code)


def shown(path: object) -> str:
    """Return a path, or its text, as printable text for a message."""
    return printable(str(path).encode("utf-8", "surrogateescape"))


def without_invisible(text: str) -> str:
    """Drop characters without width: zero-width characters, tags, variation selectors, soft hyphens."""
    return text if text.isascii() else _INVISIBLE.sub("", text)


def well_formed(text: str) -> str:
    """Return a text that UTF-8 can encode: surrogate pairs are joined, and lone surrogates become U+FFFD."""
    if text.isascii() or not _SURROGATES.search(text):
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def well_formed_value(value: _Value) -> tuple[_Value, int]:
    """Return JSON data with all its texts well formed, and how many texts were not."""
    count = sum(_SURROGATES.search(text) is not None for text in _texts_and_keys(value))
    return (cast("_Value", _well_formed(value)), count) if count else (value, 0)


def texts_in(value: object) -> Iterator[str]:
    """Yield the texts in JSON data, except the keys."""
    match value:
        case str():
            yield value
        case Mapping():
            yield from (text for one in value.values() for text in texts_in(one))
        case list() | tuple():
            yield from (text for one in value for text in texts_in(one))


def _texts_and_keys(value: object) -> Iterator[str]:
    waiting = [value]
    while waiting:
        match waiting.pop():
            case str() as text:
                yield text
            case dict() as parts:
                waiting += [*parts, *parts.values()]
            case list() | tuple() as parts:
                waiting += parts
            case _:
                continue


def _well_formed(value: object) -> object:
    match value:
        case str():
            return well_formed(value)
        case dict():
            return {_well_formed(key): _well_formed(part) for key, part in value.items()}
        case list() | tuple():
            return type(value)(map(_well_formed, value))
        case _:
            return value


def well_formed_json(data: bytes) -> tuple[bytes, int]:
    r"""Replace every escape that is a lone surrogate (`\ud83d`) in JSON; return the JSON and their number."""
    if not _HALF_ESCAPES.search(data):
        return data, 0
    halves = [match.span(1) for match in _ESCAPES.finditer(data) if match[1]]
    parts = [data[end:start] for (_, end), (start, _) in pairwise([(0, 0), *halves, (len(data), len(data))])]
    return b"ufffd".join(parts), len(halves)


def replaced_halves(count: int) -> str:
    """Return a warning about replaced surrogates; empty if there were none."""
    return f"replaced invalid Unicode (a lone surrogate) in {count} text(s)" if count else ""


def one_line(text: str, *, most: int = _LABEL_CHARS) -> str:
    """Return a text as one line of at most `most` characters, without controls and invisible characters."""
    # The rest is never displayed, so it need not be searched.
    bare = _CONTROLS.sub(" ", without_invisible(text[: 4 * most + 256]))
    words = _SPACES.sub(" ", bare).strip()
    return words if len(words) <= most and len(text) <= 4 * most + 256 else words[: most - 1].rstrip() + "…"


def named(text: str) -> str:
    """Quote a name in a sentence for people: one line, with Python's quotes."""
    return repr(one_line(text))


def label(text: str, *, most: int = _LABEL_CHARS) -> str:
    r"""Quote stored text that is displayed outside a fence: one short line without Markdown or a marker.

    `` ` ``, `*`, `[` and `]` are escaped with a backslash; a quote becomes `'`, angle brackets become ‹ and ›.
    """
    return f'"{unmarked(text, most=most)}"'


def unmarked(text: str, *, most: int = _LABEL_CHARS) -> str:
    """Return a `label` without its quotes."""
    return _STRUCTURE.sub(lambda match: f"\\{match[0]}", one_line(text, most=most).translate(_QUOTES))


def _written_out(match: re.Match[str]) -> str:
    code = ord(match[0])
    return f"\\x{code:02x}" if code <= _LATIN else f"\\u{code:04x}"


def digest(text: str, *, salt: str = "") -> str:
    """Hash a text (BLAKE2b, 160 bits, hex), keyed with `salt` if one is given.

    A salted hash of a short text cannot be guessed after the salt is erased, so the audit log may retain hashes of
    erased content. Raises `InvalidInput` for text that is not valid Unicode, which no store could save.
    """
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"Invalid Unicode: a text contains a lone surrogate at character {error.start}.",
            hint="Decode it with errors='replace' before giving it to Treering.",
        ) from error
    return hashlib.blake2b(data, digest_size=20, key=salt.encode()).hexdigest()


def normalise_text(text: str) -> str:
    """Normalize Unicode form (NFKC), case and white space, which do not change the meaning."""
    return _SPACES.sub(" ", unicodedata.normalize("NFKC", text)).strip().casefold()


def short_id(identity: str) -> str:
    """Return the start and the end of an id, such as `patch:…3x8q6rv`."""
    return f"{identity.partition(':')[0]}:…{identity[-SHORT_ID_CHARS:]}"
