"""What a stretch of code uses of other code, as the code itself says it: the raw fact behind links between files."""

from dataclasses import dataclass
from typing import Literal

How = Literal["imports", "calls", "uses"]

OWN = ""
"""The module of a name that the file itself defines."""

ANYWHERE = "?"
"""The module of a name that the file does not say where it is from: a member of some object, or a global name."""

_LETTERS: dict[How, str] = {"imports": "i", "calls": "c", "uses": "u"}
_WORDS: dict[str, How] = {letter: how for how, letter in _LETTERS.items()}


@dataclass(frozen=True, slots=True)
class CodeUse:
    """One thing that code imports, calls or uses otherwise.

    `module` is what the code calls the place that the name is from, in the spelling of its language (`.util`,
    `./compose`, `crate::a::b`); see `OWN` and `ANYWHERE`. `name` is qualified with dots: empty for a module itself,
    `*` for all of its names. That of a member of an unknown object begins with a dot.
    """

    how: How
    module: str
    name: str = ""

    def written(self) -> str:
        """Write it as a segment keeps it, such as `c ./compose#compose`."""
        return f"{_LETTERS[self.how]} {self.module}#{self.name}"


def read_use(text: str) -> CodeUse | None:
    """Read what `CodeUse.written` wrote; `None` for anything else."""
    letter, space, rest = text.partition(" ")
    module, sign, name = rest.rpartition("#")
    how = _WORDS.get(letter)
    return CodeUse(how, module, name) if how and space and sign else None
