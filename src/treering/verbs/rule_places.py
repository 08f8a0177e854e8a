"""The places that the text of a rule limits it to: `Do not use time.sleep in redis/asyncio`, `Mock nothing in tests`.

Only places that exist in the repository count. "In a request" and "in production" are conditions, so a plain word is
a place only if it is a folder at the top, or is called a folder, or is quoted as code.
"""

import re
from collections.abc import Iterable, Iterator

from treering.core.objects import Constraint, Knowledge, Preference
from treering.retrieval.index.code_places import is_test_path
from treering.verbs.query.branch_work import applies_to, scope_of

TESTS = "tests"
"""The place of all tests, whatever their folder."""
_PLACE = r"(?:`[^`\s]+`|[\w@.+*-]*[\w@+*-](?:/[\w@.+*-]*[\w+*-])*/?)"
_PLACES = re.compile(
    rf"(?<!not )(?<![\w/])(?:in|inside|within|under|below) (?:all |any |the )?(?!an? )"
    rf"(?P<places>{_PLACE}(?:(?:,|,? and|,? or) (?!not\b){_PLACE})*)"
    r"(?P<noun> (?:folders?|director(?:y|ies)|packages?|modules?|files?|code)\b)?"
    r"(?P<end>(?=[.!]*$|[.!] | ?[,;:)(–—]| (?:use|because|instead|unless)\b))?",
    re.IGNORECASE,
)
_SEPARATOR = re.compile(r",? (?:and|or) |, ")
_IS_PATH = re.compile(r"[/*`]|\w\.\w+$")


def rule_of(item: Knowledge) -> str:
    """Return the text of a rule or preference; "" for other knowledge."""
    match item.payload:
        case Constraint(rule=text) | Preference(statement=text):
            return text
    return ""


def is_for_other_places(item: Knowledge, path: str, paths: Iterable[str]) -> bool:
    """Return whether the text of a rule names places among `paths`, and a path is in none of them.

    A rule that was recorded with a scope is limited by that scope instead.
    """
    places = [] if scope_of(item) else places_in(rule_of(item), paths)
    return bool(places) and not any(is_in(one, path) for one in places)


def places_in(text: str, paths: Iterable[str]) -> list[str]:
    """Return the places that the text of a rule limits it to and that exist among some paths."""
    named = list(dict.fromkeys(_named(" ".join(text.split()))))
    known = list(paths) if named else []
    return [
        place
        for place, is_at_top in named
        if place == TESTS or any((one.startswith(f"{place}/") if is_at_top else is_in(place, one)) for one in known)
    ]


def is_in(place: str, path: str) -> bool:
    """Return whether a path is a file or below a folder, named by its path or the end of it, or matches a pattern."""
    if "*" in place:
        return applies_to(place, path)
    return (place == TESTS and is_test_path(path)) or f"/{place}/" in f"/{path}/"


def _named(text: str) -> Iterator[tuple[str, bool]]:
    """Yield the places that a text may name, and whether each is a plain word, which only names a folder at the top."""
    for match in _PLACES.finditer(text):
        for token in _SEPARATOR.split(match["places"]):
            place = token.strip("`").removeprefix("./").strip("/")
            is_plain = not _IS_PATH.search(token) and not match["noun"]
            if place and (match["end"] is not None or not is_plain):  # not "in redis clients"
                yield place, is_plain
