"""How texts lie in columns: packed ones as bytes, names as texts that Postgres takes."""

from treering.edges.ledger_rows.packing import pack
from treering.edges.ledger_rows.read_checks import Body

_COMPRESSED = (0xFD2FB528).to_bytes(4, "little")
"""How a frame of zstandard begins. No text in UTF-8 does: its second byte cannot stand there."""
_ESCAPE = "\U000f0000"
"""A character for private use: behind it, `0` stands for a NUL, and `1` for the character itself."""

NAME_CHARS = 200
SCOPE_CHARS = 256
ORIGIN_CHARS = 300
"""Characters of long columns that indexes hold: an entry may have 2,704 bytes at most, and a character takes up to
four."""

AFTER_ALL = "\U0010ffff"
"""Behind a prefix, the end of the range of texts that begin with it."""


def packed(text: str) -> bytes:
    """Return a text as it is kept."""
    stored = pack(text)
    return stored.encode() if isinstance(stored, str) else stored


def body_of(stored: bytes) -> Body:
    """Return what `packed` made in the form that `ledger_rows.packing.unpack` reads.

    What is neither a text nor compressed stays bytes, so that unpacking it raises `Corrupt`.
    """
    if stored.startswith(_COMPRESSED):
        return stored
    try:
        return stored.decode()
    except UnicodeDecodeError:
        return stored


def to_column(text: str) -> str:
    """Return a text without NUL, which Postgres takes in no text. What begins alike still does."""
    if "\0" not in text and _ESCAPE not in text:
        return text
    return text.replace(_ESCAPE, f"{_ESCAPE}1").replace("\0", f"{_ESCAPE}0")


def from_column(text: str) -> str:
    """Return the text that `to_column` was given."""
    return text if _ESCAPE not in text else text.replace(f"{_ESCAPE}0", "\0").replace(f"{_ESCAPE}1", _ESCAPE)
