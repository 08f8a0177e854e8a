"""Classes of letters for patterns: capitals, and the scripts that have none."""

from collections.abc import Callable, Iterator
from itertools import groupby

_BICAMERAL = ((0xC0, 0x590), (0x10A0, 0x10C6), (0x13A0, 0x13F6), (0x1E00, 0x2000), (0x2C00, 0x2D00), (0xA640, 0xA7FF))
_MARKS = "\u0300-\u036f\u200c\u200d"


def _ranges(wanted: Callable[[str], bool]) -> Iterator[str]:
    chars = (char for start, end in _BICAMERAL for char in map(chr, range(start, end)))
    for match, run in groupby(chars, key=wanted):
        if match:
            first, *rest = run
            yield f"{first}-{rest[-1]}" if rest else first


def _capital(char: str) -> bool:
    return char.isupper() or char.istitle()


UPPER = "A-Z" + "".join(_ranges(_capital)) + "\uff21-\uff3a"
"""Capital letters of Latin, Greek, Cyrillic, Armenian, …: what stands between the brackets of a character class."""

HAN = "\u3005-\u3007\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff"
"""Chinese characters."""

KATAKANA = "\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"
"""The syllabary in which Japanese writes foreign names and many terms."""

HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7ff"
"""Korean syllables and their parts."""

THAI = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
"""Thai, Lao, Burmese and Khmer: scripts without case and mostly without spaces."""

SPACED = "\u0590-\u08ff\u0900-\u0dff\u0f00-\u0fff\u10d0-\u10ff\u1200-\u139f\u1800-\u18af"
"""Scripts without case whose words stand apart: Hebrew, Arabic, the Indic scripts, Georgian, Ethiopic, …"""

LETTER = (
    rf"[A-Za-z0-9_\u00aa\u00b5\u00ba\u00c0-\u00d6\u00d8-\u00f6\u00f8-\u02ff{_MARKS}\u0370-\u0373\u0376-\u037d"
    r"\u0386-\u0481\u048a-\u0556\u0560-\u0588\u10a0-\u10c5\u13a0-\u13fd\u1c80-\u1fbc\u1fc2-\u1fcc\u1fd0-\u1fdb"
    r"\u1fe0-\u1fec\u1ff2-\u1ffc\u2c00-\u2ce4\u2de0-\u2dff\ua640-\ua69d\ua722-\ua788\ua78b-\ua7ff\uab30-\uab5a"
    r"\uff10-\uff19\uff21-\uff3a\uff41-\uff5a]"
)
"""One letter, digit or mark of a word in a script with case, as a pattern."""

WORD_SIGN = rf"[\w{_MARKS}]"
"""One letter, digit or mark of a word in any script, as a pattern."""
