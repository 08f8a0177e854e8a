"""Marks around recalled text: a model reads it as data, and it is never ingested again as new memory.

The closing marker carries a hash of what stands between the markers. Text inside cannot close the fence early:
whatever could be read as a marker in it is rewritten, and its own hash is nothing a text can contain.
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache

from treering.core.characters import digest, normalise_text, unmarked, visible, without_invisible

_START = "<<treering:"
_OPENING = re.compile(r'<<treering:recalled origin="([^"\n]{0,600})" ([0-9a-f]{16})>>')
_MARK = re.compile(rf"{_OPENING.pattern}|<<treering:(?:end ([0-9a-f]{{16}})>>|(cited ))?")
_SURROUNDINGS = re.compile(r"<(hook_context|session_context)>.*?</\1>", re.DOTALL)
_ORIGIN_CHARS = 200
_NESTED = 4


def fence(text: str, *, origin: str) -> str:
    """Wrap recalled text as data for a model, naming where it comes from.

    A reader may change the white space inside without breaking the fence, and a terminal shows it as it is: controls
    inside are written out. Marker-like text inside is kept readable but rewritten, so fencing a fenced text again
    leaves one complete fence: the outer one.
    """
    return _fenced(_inner(text), origin)


def fence_items(items: Iterable[tuple[str, str]], *, origin: str) -> str:
    """Wrap several recalled texts in one fence, each below a marker that cites it.

    `items`: what the marker says, on one line without stored text that is not `unmarked`, and the text. No text can
    end the fence or begin another item: what reads as one of these markers in it is rewritten.
    """
    return _fenced("\n".join(f"{_START}cited {cited}>>\n{_inner(text)}" for cited, text in items), origin)


def _inner(text: str) -> str:
    return visible(without_markers(text))


def _fenced(inner: str, origin: str) -> str:
    key = _key(inner)
    name = unmarked(origin, most=_ORIGIN_CHARS)
    return f'{_START}recalled origin="{name}" {key}>>\n{inner}\n{_START}end {key}>>'


def without_surroundings(text: str) -> str:
    """Return what a person said, without what Gemini CLI and its hooks put around it."""
    return _SURROUNDINGS.sub("", text).strip()


def is_fenced(text: str) -> bool:
    """Tell whether `text` may hold a fence at all; cheap."""
    return _START in text


def without_recalled(text: str) -> tuple[str, int]:
    """Return `text` without its complete fences, and how many were taken out.

    A fence whose content was changed, or whose end is missing, is left alone: it holds something new. What is left
    holds no complete fence, not even one that the parts around another one would make. `fence` nests no fence in
    another: where somebody did, many times over, the markers that are left are rewritten instead of taking the square
    of the length.
    """
    taken = 0
    for _ in range(_NESTED):
        spans = recalled_spans(text)
        if not spans:
            return text, taken
        text = cut(text, spans)
        taken += len(spans)
    return (without_markers(text) if recalled_spans(text) else text), taken


def recalled_spans(text: str) -> list[tuple[int, int]]:
    """Return start and end of each complete fence in `text`, in order.

    No fence holds a marker but those that cite its items: the next other one after an opening is its end, or the fence
    is not complete. So each stretch of a text is hashed once, whatever markers somebody has written into it.
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
    """Return `text` without the stretches `spans`, which are in order and do not overlap."""
    parts, at = [], 0
    for start, end in spans:
        parts.append(text[at:start])
        at = end
    return "".join([*parts, text[at:]])


def _key(inner: str) -> str:
    return digest(normalise_text(inner))[:16]


# Text that a program or a model could take for a fence marker, in whatever letters it is written.


QUOTED = "(quoted marker) "
"""What stands in place of the brackets of a marker."""


def without_markers(text: str) -> str:
    """Return `text` with the brackets before everything that reads as a fence marker replaced by `QUOTED`."""
    if not _may_hold_one(text):
        return text
    parts, at = [], 0
    for start, end in _markers(text):
        parts += [text[at:start], QUOTED]
        at = end
    return "".join([*parts, text[at:]])


def _may_hold_one(text: str) -> bool:
    """Tell, quickly, whether the letters of the marker stand in a text one after the other."""
    folded = text if text.isascii() else unicodedata.normalize("NFKD", without_invisible(text)).translate(_ALIKE)
    return bool(_LETTERS.search(folded.casefold().translate(_ALIKE)))


def _markers(text: str) -> Iterator[tuple[int, int]]:
    """Yield start and end of the brackets of each marker."""
    folded, places = _folded(text)
    for found in _MARKER.finditer(folded):
        kind = found.lastgroup or ""
        yield places[found.start(kind)], places[found.end(kind)]


def _folded(text: str) -> tuple[str, list[int]]:
    """Fold a text, and say for each character of the result, and for its end, where in the text it stands."""
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
    """Fold one character of any script; to nothing where it is not a sign of its own."""
    signs = without_invisible(unicodedata.normalize("NFKD", character))
    kept = "".join(sign for sign in signs if sign.isspace() or unicodedata.category(sign) not in _NO_SIGN)
    return kept.translate(_ALIKE).casefold().translate(_ALIKE)


_RUNS = re.compile(r"(?P<plain>[\t-\r -~]+)|.", re.DOTALL)
"""Characters of ASCII that are no controls, together; every other one by itself."""

_NO_SIGN = frozenset({"Cc", "Cf", "Mn", "Me"})
"""Controls, formats and marks above a letter: no letter of a marker."""

# Letters of other scripts that look like those of `treering`, `recalled`, `cited` and `end`, and brackets like `<`;
# after NFKD and casefolding, which already fold width, mathematical styles, circled letters and accents. `l` and `1`
# read as `i`.
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
_SAID = rf"{_GAP}(?:{_GAP.join('end')}\b|{_GAP.join('recaiied')}|{_GAP.join('cited')}\b)"
_LETTERS = re.compile(r"[\W_]*".join("treering"))
# Angle brackets and the name are enough; other brackets, or none, are a marker only with what a marker says.
_MARKER = re.compile(
    rf"(?P<angles>(?=[\[({{\s/\\]{{0,20}}<)[<\[({{][<\[({{\s/\\]{{0,20}}){_WORD}(?={_GAP}:|{_SAID})"
    rf"|(?P<brackets>[\[({{][\[({{\s/\\]{{0,20}}){_WORD}(?={_SAID})"
    rf"|(?P<none>(?<!quoted marker\) )(?<![^\W_])){_WORD}(?=\s{{0,3}}:{_SAID})"
)
