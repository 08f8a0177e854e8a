"""Decoding of bytes: by the declared encoding, else as UTF-8, else by a guess."""

import codecs
import re
from collections.abc import Iterator
from dataclasses import dataclass

MAX_BYTES_TO_GUESS_FROM = 65_536
"""The number of bytes read to guess the encoding."""


@dataclass(frozen=True, slots=True)
class Decoded:
    """A decoded text: its encoding, and the number of invalid sequences that were replaced by U+FFFD."""

    text: str
    encoding: str = "utf-8"
    replaced: int = 0
    guessed: bool = False
    """Whether the encoding was guessed."""

    def warning(self) -> str:
        """Return a warning about a guessed encoding or replaced bytes, or an empty text."""
        if self.replaced:
            return f"not valid {self.encoding}: {self.replaced} invalid sequences were replaced"
        return f"not valid utf-8: read as {self.encoding}" if self.guessed else ""


def decode(data: bytes, *, declared: str = "") -> Decoded | None:
    """Decode bytes. `declared` is the encoding named by their source, such as a mail or a web server.

    A byte-order mark decides. Valid UTF-8 is decoded as UTF-8, whatever is declared, because other text is practically
    never valid UTF-8 by chance, and wrong declarations are common. Then follow the declared encoding, UTF-8 with a few
    damaged characters, and a guess.

    Returns `None` if the bytes are not text (NUL or too many control characters, mostly undecodable).
    """
    for mark, encoding in _MARKS:
        if data.startswith(mark):
            return _marked(data[len(mark) :], encoding)
    if b"\0" in data:
        return _wide(data)
    if b"\x1b" in data and (found := _in_any(data, _escaping(data, declared))):
        return found
    if len(data.translate(None, _PRINTING)) > _ODD_SHARE * len(data):
        return None
    try:
        return Decoded(data.decode())
    except UnicodeDecodeError:
        return _in_any(data, _declared(data, declared)) or _damaged(data) or _guessed(data)


def opening(head: bytes) -> str:
    """Decode the first bytes of a file, possibly ending within a character, to recognize the first line."""
    for mark, encoding in _MARKS:
        if head.startswith(mark):
            return head[len(mark) :].decode(encoding, "replace")
    return head.decode("utf-8", "replace")


# UTF-32 before UTF-16: its little-endian mark begins with the mark of UTF-16.
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_PRINTING = bytes({*range(0x20, 0x7F), *range(0x80, 0x100), *b"\t\n\v\f\r\b\x1b"})
_ODD_SHARE = 0.02
_HEAD_BYTES = 4_096
_NAME = rb"([A-Za-z][A-Za-z0-9_.:-]{1,39})"
_FIRST_LINES = re.compile(rb"\A(?:[^\n]*\n)?[^\n]*?coding[:=][ \t]*[\"']?" + _NAME)
"""PEP 263, which editors and other languages also use, and the declaration of XML."""
_MARKUP = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*" + _NAME + rb"|\A@charset \"" + _NAME, re.IGNORECASE)
"""HTML and CSS."""
_CANDIDATES = (
    *("cp1252", "cp1251", "cp932", "gb18030", "big5", "euc_jp", "cp949", "koi8_r", "iso8859_2", "cp1250", "cp1253"),
    *("cp1254", "cp1255", "cp1256", "koi8_u", "cp866", "iso8859_5", "iso8859_7"),
)
"""Candidates for guessing; if two fit equally well, the first one is used."""
_WIDER = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "shift_jis": "cp932",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso2022_jp": "iso2022_jp_ext",
}
"""Encodings that are often declared, and the supersets by Windows that browsers use instead."""
_ESCAPING = frozenset({"iso2022_jp", "iso2022_jp_1", "iso2022_jp_2", "iso2022_jp_3", "iso2022_jp_ext", "iso2022_kr"})
_DECLARABLE = ("ascii", "cp", "iso8859", "koi8", "mac", "shift_jis", "euc", "gb", "big5", "johab", "iso2022", "tis-620")
"""Prefixes of the names of encodings that may be declared: no other Python codecs, and none with a byte-order mark."""
_HIGH = re.compile(rb"[\x80-\xff]+")
_UP_TO_BREAK = re.compile(rb".*[\x00-\x2f]", re.DOTALL)
_HIGH_BYTES, _LATIN_LETTERS = bytes(range(0x80, 0x100)), bytes(range(0xA0, 0x100))
_HIGH_SHARE, _LETTER_SHARE = 0.3, 0.7
_JAPANESE = frozenset({"cp932", "euc_jp"})
_MANY_BYTES = frozenset({*_JAPANESE, "gb18030", "big5", "cp949"})
_KANA_SHARE, _UNLIKELY = 0.2, 0.1
_FEW_RUNS = 8
_MOSTLY = 0.8
_CHAOS_STEP, _COHERENCE_WEIGHT = 0.02, 0.1
_ODD_WIDE = re.compile(r"[\x00-\x08\x0e-\x1f\x7f-\x9f\ud800-\udfff\ue000-\uf8ff\ufff0-\uffff]")
_COMMON_WIDE = re.compile(r"[ \t\n\r,.;:!?、。，]")


def _marked(data: bytes, encoding: str) -> Decoded | None:
    try:
        decoded = Decoded(data.decode(encoding), encoding)
    except UnicodeDecodeError:
        text = data.decode(encoding, "replace")
        decoded = Decoded(text, encoding, text.count("\ufffd"))
    damaged = decoded.replaced > _ODD_SHARE * len(decoded.text)
    return None if "\0" in decoded.text or damaged else decoded


def _wide(data: bytes) -> Decoded | None:
    """Decode UTF-16 without a byte-order mark, with the byte order that gives more spaces and punctuation."""
    if len(data) % 2:
        return None
    head = data[:MAX_BYTES_TO_GUESS_FROM]
    scores = dict[str, int]()
    for encoding in ("utf-16-le", "utf-16-be"):
        text = head.decode(encoding, "ignore")
        if len(text) >= len(head) // 4 and len(_ODD_WIDE.findall(text)) <= _ODD_SHARE * len(text):
            scores[encoding] = len(_COMMON_WIDE.findall(text))
    best = max(scores, key=lambda one: scores[one], default="")
    if not best or not scores[best]:
        return None
    decoded = _marked(data, best)
    return decoded and Decoded(decoded.text, best, decoded.replaced, guessed=True)


def _in_any(data: bytes, encodings: Iterator[str]) -> Decoded | None:
    for encoding in encodings:
        try:
            return Decoded(data.decode(encoding), encoding)
        except UnicodeDecodeError:
            continue
    return None


def _declared(data: bytes, declared: str) -> Iterator[str]:
    """Yield the declared encodings, first by the source of the bytes, then in the text itself."""
    head = data[:_HEAD_BYTES]
    matches = [pattern.search(head) for pattern in (_FIRST_LINES, _MARKUP)]
    inside = (name.decode() for one in matches if one for name in one.groups() if name)
    for name in (declared, *inside):
        try:
            known = codecs.lookup(name).name if name else "utf-8"
        except LookupError:
            continue
        if known.startswith(_DECLARABLE):
            wider = _WIDER.get(known)
            # Text declared as Latin-1 is Windows-1252; the characters that differ are controls in Latin-1.
            yield from filter(None, (wider, known) if wider == "cp1252" else (known, wider))


def _escaping(data: bytes, declared: str) -> Iterator[str]:
    """Yield declared encodings that are ASCII with escapes, and would be valid UTF-8."""
    yield from (one for one in _declared(data, declared) if one in _ESCAPING)
    if b"\x1b$" in data:
        yield "iso2022_jp_ext"


def _damaged(data: bytes) -> Decoded | None:
    """Decode damaged UTF-8, if more of the longer sequences are valid than broken."""
    text = data.decode("utf-8", "replace")
    replaced = text.count("\ufffd") - data.count("\ufffd".encode())
    whole = len(text) - len(text.encode("ascii", "ignore")) - replaced
    return Decoded(text, "utf-8", replaced) if whole > replaced else None


def _guessed(data: bytes) -> Decoded | None:
    """Decode text in a guessed encoding; `None` without a guess."""
    encoding = _guess(_telling(data))
    if not encoding:
        return None
    for one in (encoding, "latin-1") if encoding == "cp1252" else (encoding,):
        try:
            return Decoded(data.decode(one), one, guessed=True)
        except UnicodeDecodeError:
            continue
    text = data.decode(encoding, "replace")
    replaced = text.count("\ufffd")
    return Decoded(text, encoding, replaced) if replaced <= _ODD_SHARE * len(text) else None


def _telling(data: bytes) -> bytes:
    """Return the first lines that are not ASCII, because the others do not depend on the encoding."""
    lines, size, end = list[bytes](), 0, 0
    while size < MAX_BYTES_TO_GUESS_FROM and (high := _HIGH.search(data, end)):
        start = data.rfind(b"\n", end, high.start()) + 1 or end
        end = data.find(b"\n", high.end()) + 1 or len(data)
        line = data[start : min(end, start + MAX_BYTES_TO_GUESS_FROM)]
        # In every encoding, a byte below 0x30 ends a character, so a long line can be cut after it.
        cut = None if start + len(line) == end else _UP_TO_BREAK.match(line)
        lines.append(cut[0] if cut else line)
        size += len(lines[-1])
    return b"".join(lines)


def _guess(data: bytes) -> str:
    runs = _HIGH.findall(data)
    alone = sum(len(run) == 1 for run in runs)
    if alone >= _MOSTLY * len(runs) and len(runs) < _FEW_RUNS:
        return "cp1252"  # a few letters among ASCII are too little for statistics
    # Imported here: few files need it.
    from charset_normalizer import from_bytes

    fitting = from_bytes(data, cp_isolation=list(_CANDIDATES))
    best = min(
        fitting,
        key=lambda one: (
            round((one.chaos - _COHERENCE_WEIGHT * one.coherence + _unlikely(str(one), one.encoding)) / _CHAOS_STEP),
            _CANDIDATES.index(one.encoding),
        ),
        default=None,
    )
    if best is None:
        return "cp1252" if _is_western(data) else ""
    same = {best.encoding, *best.could_be_from_charset}  # encodings with the same result
    return next(one for one in _CANDIDATES if one in same)


def _unlikely(text: str, encoding: str) -> float:
    """Return a correction of the disorder of a text: most text is lower-case letters, and Japanese has kana."""
    foreign = [character for character in text if not character.isascii()]
    if encoding in _MANY_BYTES:
        if any("\uff61" <= character <= "\uff9f" for character in foreign):
            return _UNLIKELY  # half-width kana are rare, but typical of single bytes read as Shift JIS
        kana = sum("\u3041" <= character <= "\u30fe" for character in foreign)
        return -_UNLIKELY if encoding in _JAPANESE and kana >= _KANA_SHARE * len(foreign) else 0.0
    odd = sum(character.isupper() or not character.isalpha() for character in foreign)
    return _UNLIKELY * odd / len(foreign) if foreign else 0.0


def _is_western(data: bytes) -> bool:
    """Return whether there are few bytes outside of ASCII, nearly all of them letters in Windows-1252."""
    high, letters = (len(data) - len(data.translate(None, some)) for some in (_HIGH_BYTES, _LATIN_LETTERS))
    return high <= _HIGH_SHARE * len(data) and letters >= _LETTER_SHARE * high
