"""Texts made to take the square of their length, or worse, and what reads them.

Run as a program it reads all of them and prints the name of each that is done.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from treering.core.secrets.redaction import redact
from treering.extensions.code.parsing.languages import comment_text, language_of
from treering.extensions.code.parsing.outline import outline
from treering.extensions.code.repository.repo_selection import parse_attributes, parse_selection
from treering.extensions.wiki.repository.sections import blocks_of
from treering.retrieval.search.ranking import route
from treering.retrieval.text.analysis import query_terms
from treering.retrieval.text.dates import asked_ranges, date_ranges
from treering.sources.reading.folder import parse_patterns

NOW = datetime(2026, 5, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class HostileText:
    """A way to make hostile texts of a length, and what reads them."""

    name: str
    text: Callable[[int], str]
    read: Callable[[str], object]
    length: int
    """Characters that a linear reader takes in about a second, and one of the square in many minutes."""


def _repeated(part: str, *, end: str = "") -> Callable[[int], str]:
    return lambda length: part * (length // len(part)) + end


def _many_stars(path: str) -> object:
    globs = ["*a" * 30 + "b"]
    selected = parse_selection({"include": globs}, prefix="").takes(path)
    return selected, parse_attributes(f"{globs[0]} linguist-generated").sets_aside(path)


HOSTILE_TEXTS: Sequence[HostileText] = (
    HostileText("a question of days", _repeated("2024-01-01 "), lambda text: asked_ranges(text, NOW), 300_000),
    HostileText("a question of weeks", _repeated("last week "), lambda text: asked_ranges(text, NOW), 500_000),
    HostileText("a text of ranges", _repeated("from june to july "), lambda text: date_ranges(text, said=NOW), 200_000),
    HostileText("a document of rulers", _repeated("a\n===\n"), lambda text: blocks_of(text, fences=False), 500_000),
    HostileText("a question of opening quotes", _repeated("“"), query_terms, 1_000_000),
    HostileText("a question of comparisons", _repeated("more "), lambda text: route(text, {}), 500_000),
    HostileText("code of stray signs", _repeated("---\n"), lambda text: outline("a.py", text), 1_000_000),
    HostileText(
        "a comment of spaces", _repeated("a    "), lambda text: comment_text([text.replace("a", " ", 9)]), 10**6
    ),
    HostileText("a comment of stars", _repeated("*", end="a"), lambda text: comment_text([text]), 300_000),
    HostileText("a comment of inner spaces", _repeated(" ", end="a"), lambda text: comment_text([f"a{text}"]), 300_000),
    HostileText("a header of empty lines", _repeated("\n"), lambda text: language_of("a.h", text), 300_000),
    HostileText(
        "an interpreter of letters", _repeated("a", end="!"), lambda text: language_of("a", f"#!{text}"), 300_000
    ),
    HostileText("an ignore rule of brackets", _repeated("["), lambda text: list(parse_patterns([text])), 200_000),
    HostileText(
        "an ignore rule of inner spaces", _repeated(" ", end="a"), lambda text: list(parse_patterns([text])), 300_000
    ),
    HostileText("a name below a rule of many stars", _repeated("a"), _many_stars, 300),
    HostileText(
        "a key of signs",
        _repeated("+", end="!"),
        lambda text: redact(f"-----BEGIN PRIVATE KEY-----\n{text}"),
        300_000,
    ),
)


def main() -> None:
    """Read all of them."""
    for one in HOSTILE_TEXTS:
        one.read(one.text(one.length))
        print(one.name, flush=True)


if __name__ == "__main__":
    main()
