"""Fences around recalled text: a model reads it as data, and it is never ingested again as new memory.

The closing marker contains a hash of the text between the markers. Text inside cannot close the fence early:
anything that could be read as a marker is rewritten, and no text can contain its own hash.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from treering.core.characters import digest, normalise_text, one_line, unmarked, visible, without_invisible

_START = "<<treering:"
_OPENING = re.compile(r'<<treering:recalled origin="([^"\n]{0,600})" ([0-9a-f]{16})>>')
_MARK = re.compile(rf"{_OPENING.pattern}|<<treering:(?:end ([0-9a-f]{{16}})>>|(cited ))?")
_SURROUNDINGS = re.compile(r"<(hook_context|session_context)>.*?</\1>", re.DOTALL)
_ORIGIN_CHARS = 200
_MARKDOWN = re.compile(r'[\\`*\[\]"]')
_TICKS = re.compile("`+")
_MAX_NESTING = 4
QUOTED = "(quoted marker) "
"""The replacement for the brackets of a marker inside a fence."""


def fence(text: str, *, origin: str) -> str:
    """Wrap recalled text as data for a model, with its origin.

    The fence survives changes of white space inside. Controls inside are written out, so a terminal shows the text
    unchanged. Marker-like text inside is rewritten but readable, so fencing a fenced text again leaves one complete
    fence: the outer one.
    """
    return _fenced(_inner(text), origin)


def fence_items(items: Iterable[tuple[str, str]], *, origin: str) -> str:
    """Wrap several recalled texts in one fence, each below a marker that cites it.

    `items` are pairs of a citation and a text. Stored text in a citation must be one line and `unmarked`. No text can
    end the fence or begin another item: marker-like text in it is rewritten.
    """
    return _fenced("\n".join(f"{_START}cited {cited}>>\n{_inner(text)}" for cited, text in items), origin)


def _inner(text: str) -> str:
    return visible(without_markers(text))


def _fenced(inner: str, origin: str) -> str:
    key = _key(inner)
    name = unmarked(origin, most=_ORIGIN_CHARS)
    return f'{_START}recalled origin="{name}" {key}>>\n{inner}\n{_START}end {key}>>'


def without_surroundings(text: str) -> str:
    """Return a user's message without the wrappers that Gemini CLI and its hooks add."""
    return _SURROUNDINGS.sub("", text).strip()


def is_fenced(text: str) -> bool:
    """Return whether `text` may contain a fence; cheap."""
    return _START in text


def without_recalled(text: str) -> tuple[str, int]:
    """Return `text` without its complete fences, and their number.

    A fence with changed content or without an end is left alone, because it contains something new. The result
    contains no complete fence, not even one that the parts around another one would make. `fence` never nests fences;
    if the text nests them deeper than four times, the remaining markers are rewritten, which avoids quadratic time.
    """
    taken = 0
    for _ in range(_MAX_NESTING):
        spans = recalled_spans(text)
        if not spans:
            return text, taken
        text = cut(text, spans)
        taken += len(spans)
    return (without_markers(text) if recalled_spans(text) else text), taken


def recalled_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each complete fence in `text`, in order.

    Inside a fence there are only markers that cite its items: the next other marker after an opening is its end, or
    the fence is incomplete. So each part of a text is hashed only once, whatever markers it contains.
    """
    spans: list[tuple[int, int]] = []
    opening: re.Match[str] | None = None
    for mark in _MARK.finditer(text):
        if mark[4]:
            continue
        if opening and mark[3] == opening[2] and _key(text[opening.end() : mark.start()]) == opening[2]:
            spans.append((opening.start(), mark.end()))
        opening = mark if mark[2] else None
    return spans


def cut(text: str, spans: Sequence[tuple[int, int]]) -> str:
    """Return `text` without the ranges `spans`, which must be in order and not overlap."""
    parts, at = [], 0
    for start, end in spans:
        parts.append(text[at:start])
        at = end
    return "".join([*parts, text[at:]])


def code_label(text: str, *, most: int) -> str:
    """Quote a line of code that is displayed outside a fence.

    It is quoted as by `label`, or a code span if it has signs of Markdown. Only angle brackets that could be read as a
    part of a marker are rewritten.
    """
    line = without_markers(one_line(text, most=most)).replace(">>", "››")
    if not _MARKDOWN.search(line):
        return f'"{line}"'
    ticks = "`" * (max(map(len, _TICKS.findall(line)), default=0) + 1)
    space = " " if line.startswith("`") or line.endswith("`") else ""
    return f"{ticks}{space}{line}{space}{ticks}"


def _key(inner: str) -> str:
    return digest(normalise_text(inner))[:16]


def without_markers(text: str) -> str:
    """Return `text` with the brackets of everything that can be read as a fence marker replaced by `QUOTED`."""
    if not _may_hold_one(text):
        return text
    parts, at = [], 0
    for start, end in _markers(text):
        parts += [text[at:start], QUOTED]
        at = end
    return "".join([*parts, text[at:]])


def _may_hold_one(text: str) -> bool:
    """Return whether a text contains the letters of the marker in order; quick."""
    folded = text if text.isascii() else unicodedata.normalize("NFKD", without_invisible(text)).translate(_ALIKE)
    return bool(_LETTERS.search(folded.casefold().translate(_ALIKE)))


def _markers(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the brackets of each marker."""
    folded, places = _folded(text)
    for match in _MARKER.finditer(folded):
        kind = match.lastgroup or ""
        yield places[match.start(kind)], places[match.end(kind)]


def _folded(text: str) -> tuple[str, list[int]]:
    """Fold a text; also return the offset in the text for each character of the result and for its end."""
    if text.isascii():
        return text.lower().translate(_ALIKE), list(range(len(text) + 1))
    folded: list[str] = []
    places: list[int] = []
    for run in _RUNS.finditer(text):
        if run["plain"]:
            folded.append(run[0].lower().translate(_ALIKE))
            places += range(run.start(), run.end())
        else:
            letters = _fold(run[0])
            folded.append(letters)
            places += [run.start()] * len(letters)
    return "".join(folded), [*places, len(text)]


@lru_cache(maxsize=4_096)
def _fold(character: str) -> str:
    """Fold one character of any script; to an empty text if it is a control or combining mark."""
    signs = without_invisible(unicodedata.normalize("NFKD", character))
    letters = "".join(sign for sign in signs if sign.isspace() or unicodedata.category(sign) not in _NO_SIGN)
    return letters.translate(_ALIKE).casefold().translate(_ALIKE)


_RUNS = re.compile(r"(?P<plain>[\t-\r -~]+)|.", re.DOTALL)
"""Printable ASCII characters together; every other character by itself."""

_NO_SIGN = frozenset({"Cc", "Cf", "Mn", "Me"})
"""Controls, formats and combining marks, which are no letters of a marker."""

# Letters of other scripts that look like those of `treering`, `recalled`, `cited` and `end`, and brackets like `<`,
# after NFKD and casefolding, which already fold width, mathematical styles, circled letters and accents. `l` and `1`
# are folded to `i`.
_ALIKE = str.maketrans(
    {
        **dict.fromkeys("а\u03b1ɑᴀꭺ\u237a", "a"),
        **dict.fromkeys("сϲᴄꮯ\u2ca5", "c"),
        **dict.fromkeys("ԁᴅꮷɗđ", "d"),
        **dict.fromkeys("е\u03b5ɛєҽᴇꭼ℮3\u04bd", "e"),
        **dict.fromkeys("ɡɢցգǥƍ9", "g"),
        **dict.fromkeys("іι\u0131ɩɪӏlⅼ1|ꭵꙇ\u2ca3ⵏ\u01c0", "i"),
        **dict.fromkeys("ոηռпɴnƞ\u0578\u043b", "n"),
        **dict.fromkeys("гꮁʀᴦꭇꭈɾɼꭱꮢ\u2c85", "r"),
        **dict.fromkeys("тτᴛꭲ7ŧ†\u2ca7", "t"),
        **dict.fromkeys("‹«《〈⟨⟪≪⋘˂ᐸ❮❰〈⧼ᚲ⪡\u276c\u2768\u02f1", "<"),
        **dict.fromkeys("∶꞉˸ː։܃܄︰﹕ꓽ׃᠄᛬=", ":"),
    }
)
_GAP = r"[\W_]{0,3}"
_WORD = _GAP.join("treering")
_KEYWORD = rf"{_GAP}(?:{_GAP.join('end')}\b|{_GAP.join('recaiied')}|{_GAP.join('cited')}\b)"
_LETTERS = re.compile(r"[\W_]*".join("treering"))
# Angle brackets and the name suffice; other brackets, or none, only make a marker together with a marker's keyword.
_MARKER = re.compile(
    rf"(?P<angles>(?=[\[({{\s/\\]{{0,20}}<)[<\[({{][<\[({{\s/\\]{{0,20}}){_WORD}(?={_GAP}:|{_KEYWORD})"
    rf"|(?P<brackets>[\[({{][\[({{\s/\\]{{0,20}}){_WORD}(?={_KEYWORD})"
    rf"|(?P<none>(?<!quoted marker\) )(?<![^\W_])){_WORD}(?=\s{{0,3}}:{_KEYWORD})"
)
