"""Configuration and data files of a repository, read and parsed with limits.

Such a file is not trusted: it may be a link to another file of this machine, an endless device, or a text that takes
hours to parse. Error messages name a place in the file, but quote none of it.
"""

import json
import re
import tomllib
from pathlib import Path
from typing import Any

from treering.core.characters import shown
from treering.core.errors import InvalidInput
from treering.sources.reading.encodings import decode
from treering.sources.reading.folder import open_regular, read_at_most

MAX_FILE_BYTES = 5_000_000
MAX_DEPTH = 64
"""The maximum nesting of lists and objects."""
OUT_OF_RANGE = "it has a number or date out of range"
TOO_DEEP = "it is nested more than {} levels deep"

_STRING = re.compile(r"\"[^\"\n]*\"|'[^'\n]*'")
_KEY = re.compile(r"[\w\-\"'. \t]+")


def read_text_file(file: Path, *, below: Path | None = None, max_bytes: int = MAX_FILE_BYTES) -> str:
    """Return the text of a regular file. With `below`, a link may not lead outside that folder.

    Raises `OSError`, and `InvalidInput` for a path outside, and for a file that is not regular, not text or too long.
    """
    stream = open_regular(_inside(file, below))
    if stream is None:
        raise InvalidInput(f"{shown(file)} is not a regular file.", hint="Give a regular file.")
    with stream:
        data = read_at_most(stream, max_bytes + 1)
    if len(data) > max_bytes:
        raise InvalidInput(f"{shown(file)} is larger than {max_bytes:,} bytes.", hint="Split it.")
    decoded = decode(data)
    if decoded is None:
        raise InvalidInput(f"{shown(file)} is not a text file.", hint="Save it as UTF-8.")
    return decoded.text


def check_inside(file: Path, below: Path) -> None:
    """Raise `InvalidInput` if a link leads from a file to a place outside a folder."""
    _inside(file, below)


class WrittenTwice(ValueError):
    """A key occurs twice in an object."""


class CommentInJson(ValueError):
    """A text would be valid JSON without its comments."""


class MalformedJson(ValueError):
    """A text is not valid JSON."""


def parse_json(text: str, *, unique_keys: bool = False) -> object:
    """Parse JSON. Raises `ValueError` with the place of an error, or the exceeded limit.

    With `unique_keys`, duplicate keys of an object are refused.
    """
    try:
        data: object = json.loads(text, object_pairs_hook=once if unique_keys else None)
    except json.JSONDecodeError as error:
        place = f"at line {error.lineno}, column {error.colno}"
        if text.startswith(("//", "/*"), error.pos):
            raise CommentInJson(f"there is a comment {place}, which JSON does not allow; remove it") from None
        raise MalformedJson(f"{error.msg} {place}") from None
    except RecursionError:
        raise ValueError(TOO_DEEP.format(MAX_DEPTH)) from None
    except WrittenTwice:
        raise
    except ValueError:  # Python's message may quote the value
        raise ValueError(OUT_OF_RANGE) from None
    _check_depth(data)
    return data


def parse_toml(text: str) -> dict[str, Any]:
    """Parse TOML. Raises `ValueError` with the place of an error, or the exceeded limit."""
    for number, line in enumerate(text.splitlines(), start=1):
        # Parsing a dotted key takes quadratic time in its parts.
        if any(key.count(".") > MAX_DEPTH for key in _KEY.findall(_STRING.sub('""', line))):
            raise ValueError(f"line {number} has a key of more than {MAX_DEPTH} parts")
    try:
        data = tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        raise
    except RecursionError:
        raise ValueError(TOO_DEEP.format(MAX_DEPTH)) from None
    except ValueError:  # Python's message may quote the value
        raise ValueError(OUT_OF_RANGE) from None
    _check_depth(data)
    return data


def once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return pairs as a mapping. Raises `WrittenTwice` for a duplicate key."""
    mapping = dict(pairs)
    if len(mapping) < len(pairs):
        names = [name for name, _ in pairs]
        duplicate = next(name for name in names if names.count(name) > 1)
        raise WrittenTwice(f"an object contains the key {duplicate!r} twice")
    return mapping


def _inside(file: Path, below: Path | None) -> Path:
    try:
        place = file.resolve()
        outside = below is not None and not place.is_relative_to(below.resolve())
    except (OSError, RuntimeError, ValueError) as error:  # a loop of links, a NUL
        raise InvalidInput(f"{shown(file)} is not a valid path.", hint="Give a regular file.") from error
    if outside:
        raise InvalidInput(
            f"{shown(file)} is a link to a place outside {shown(below)}.",
            hint="Replace the link with a file, or give the path of the file itself.",
        )
    return place


def _check_depth(data: object) -> None:
    level = [data]
    for _ in range(MAX_DEPTH + 1):
        level = [
            part
            for one in level
            if isinstance(one, dict | list)
            for part in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return
    raise ValueError(TOO_DEEP.format(MAX_DEPTH))
