"""The lines of code that use a name, without its comments, strings and imports."""

import re
from collections.abc import Sequence
from functools import lru_cache

_DOUBLE = r'"(?:\\.|[^"\\\n])*+"'
_SINGLE = r"'(?:\\.|[^'\\\n])*+'"
_BLOCKS = r"/\*[\s\S]*?(?:\*/|\Z)|//[^\n]*"
_PYTHON = rf"(?<![fF])(?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|{_DOUBLE}|{_SINGLE})"
_IMPORTS = (
    r"^[ \t]*(?:(?:pub(?:\([^)\n]*\))?[ \t]+)?(?:import|from|use|using)\b|export(?=[ \t]*(?:type[ \t]*)?[{*]))"
    r"(?![ \t]*[(.=])[^\n;{(]*(?:[{(][^})]*[)}][^\n;]*)?"
    r"|^[ \t]*(?:const|let|var)[ \t]*(?:\{[^}]*\}|\w+)[ \t]*=[ \t]*require\([^)]*\)"
)
_TEXTS = {
    "py": rf"#[^\n]*|{_PYTHON}",
    "rb": rf"#[^\n]*|{_SINGLE}",
    "sh": r"^[ \t]*#[^\n]*",
    "php": rf"#[^\n\[][^\n]*|{_BLOCKS}|{_SINGLE}",
    "rs": rf"{_BLOCKS}|{_DOUBLE}",
}
"""The comments and strings by language family; strings that may contain code are left in."""


def lines_using(code: str, name: str, family: str, *, member: bool = False) -> Sequence[int]:
    """Return the lines of a code, from 1, that use a name; of a `member`, those that use it with its object."""
    if name not in code:
        return ()
    text = _texts(family).sub(_blank, code)
    end = rf"{re.escape(name)}(?![\w$])"
    # A name after a dot is another object's; before `:` or `=` it is a key, a parameter or a keyword.
    own = rf"(?<![\w$])(?:(?<![.])|(?<=[.]{{3}}))(?<!::)(?<!->){end}(?!\s*(?::(?!:)|=(?![=>])))"
    for pattern in (rf"(?<=[.>:]){end}" if member else own, rf"(?<![\w$]){end}"):
        if starts := [match.start() for match in re.finditer(pattern, text)]:
            return tuple(dict.fromkeys(text.count("\n", 0, start) + 1 for start in starts))
    return ()


@lru_cache
def _texts(family: str) -> re.Pattern[str]:
    return re.compile(f"{_IMPORTS}|{_TEXTS.get(family, f'{_BLOCKS}|{_DOUBLE}|{_SINGLE}')}", re.MULTILINE)


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")
