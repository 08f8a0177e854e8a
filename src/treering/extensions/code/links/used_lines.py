"""The lines of code that use a name, without its comments, strings and imports."""

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

_DOUBLE = r'"(?:\\.|[^"\\\n])*+"'
_SINGLE = r"'(?:\\.|[^'\\\n])*+'"
_BLOCKS = r"/\*[\s\S]*?(?:\*/|\Z)|//[^\n]*"
_PYTHON = rf"(?<![fF])(?:\"\"\"[\s\S]*?\"\"\"|'''[\s\S]*?'''|{_DOUBLE}|{_SINGLE})"
_IMPORTS = (
    r"(?:(?:pub(?:\([^)\n]*\))?[ \t]+)?(?:import|from|use|using)\b|export(?=[ \t]*(?:type[ \t]*)?[{*]))"
    r"(?![ \t]*[(.=])[^\n;{(]*(?:[{(][^})]*[)}][^\n;]*)?"
    r"|(?:const|let|var)[ \t]*(?:\{[^}]*\}|\w+)[ \t]*=[ \t]*require\([^)]*\)"
)
_TEXTS = {
    "py": rf"#[^\n]*|{_PYTHON}",
    "rb": rf"#(?!\{{)[^\n]*|{_SINGLE}|\"(?:\\.|[^\"\\\n#]|#(?!\{{))*+\"",
    "sh": r"(?<![^\s])#[^\n]*",
    "php": rf"#[^\n\[][^\n]*|{_BLOCKS}|{_SINGLE}",
    "rs": rf"{_BLOCKS}|{_DOUBLE}",
}
"""The comments and strings by language family; strings that may contain code are left in."""


# A name after a dot is another object's; before `:` or `=` it is a key, a parameter or a keyword.
_STARTS_OWN = re.compile(r"(?<![\w$])(?:(?<![.])|(?<=[.]{3}))(?<!::)(?<!->)")
_ENDS_OWN = re.compile(r"(?![\w$]|\s*(?::(?!:)|=(?![=>])))")
_IMPLICIT = frozenset({"java", "cs", "c"})
_STARTS_MEMBER = re.compile(r"(?<=[.>:])")
_ENDS_CALLED = re.compile(r"(?=\s*\()")
_STARTS, _ENDS = re.compile(r"(?<![\w$])"), re.compile(r"(?![\w$])")
# In Ruby, a symbol is no call, and `!`, `?` and `=` are parts of a name.
_STARTS_IN_RUBY = re.compile(r"(?<![\w$@])(?:(?<!:)|(?<=::))")
_ASSIGNED_IN_RUBY = r"[ \t]*(?:[-+*/|&]|\|\||&&)?=(?![=~>])"
_ENDS_IN_RUBY = re.compile(rf"(?![\w$]|[?!](?!=)|:(?!:)|{_ASSIGNED_IN_RUBY})")
_ENDS_OF_SETTER = re.compile(_ASSIGNED_IN_RUBY)


def lines_using(code: str, name: str, family: str, *, member: bool = False, own: bool = False) -> Sequence[int]:
    """Return the lines of a code, from 1, that use a name; of a `member`, lines that use it with its object.

    A member of the code's `own` class is also called without an object in languages that allow it.
    """
    word = name.removesuffix("=") if family == "rb" else name
    if not word or word not in code:
        return ()
    text = _texts(family).sub(_blank, code)
    places = [*_places(text, word)]
    marks = (_STARTS_MEMBER, _ENDS) if member else (_STARTS_OWN, _ENDS_OWN)
    if member and own and family in _IMPLICIT:
        marks = (_STARTS, _ENDS_CALLED)
    if family == "rb":  # a call of a method of the same object does not name it
        marks = (_STARTS_IN_RUBY, _ENDS_IN_RUBY if word == name else _ENDS_OF_SETTER)
    for starts, ends in (marks, (_STARTS, _ENDS)):
        if uses := [at for at in places if starts.match(text, at) and ends.match(text, at + len(word))]:
            return tuple(dict.fromkeys(text.count("\n", 0, at) + 1 for at in uses))
    return ()


def _places(text: str, name: str) -> Iterator[int]:
    at = text.find(name)
    while at >= 0:
        yield at
        at = text.find(name, at + 1)


@lru_cache
def _texts(family: str) -> re.Pattern[str]:
    texts = _TEXTS.get(family, f"{_BLOCKS}|{_DOUBLE}|{_SINGLE}")
    return re.compile(rf"""(?=["'/#])(?:{texts})|^[ \t]*+(?:{_IMPORTS})""", re.MULTILINE)


def _blank(match: re.Match[str]) -> str:
    return "\n" * match[0].count("\n")
