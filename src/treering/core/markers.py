"""Text that a program or a model could take for a fence marker, in whatever letters it is written.

Found in a copy of the text in which width, styles, accents, invisible characters and look-alike letters are folded
away; rewritten in the text itself.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

from treering.core.characters import without_invisible

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

# Letters of other scripts that look like those of `treering`, `recalled` and `end`, and brackets like `<`; after NFKD
# and casefolding, which already fold width, mathematical styles, circled letters and accents. `l` and `1` read as `i`.
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
_SAID = rf"{_GAP}(?:{_GAP.join('end')}\b|{_GAP.join('recaiied')})"
_LETTERS = re.compile(r"[\W_]*".join("treering"))
# Angle brackets and the name are enough; other brackets, or none, are a marker only with what a marker says.
_MARKER = re.compile(
    rf"(?P<angles>(?=[\[({{\s/\\]{{0,20}}<)[<\[({{][<\[({{\s/\\]{{0,20}}){_WORD}(?={_GAP}:|{_SAID})"
    rf"|(?P<brackets>[\[({{][\[({{\s/\\]{{0,20}}){_WORD}(?={_SAID})"
    rf"|(?P<none>(?<!quoted marker\) )(?<![^\W_])){_WORD}(?=\s{{0,3}}:{_SAID})"
)
