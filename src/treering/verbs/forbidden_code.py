"""The code that a rule forbids by name: `Never use eval()`, `Use httpx instead of requests in tests`.

Only rules with a name that a line of code can contain are read, and only without conditions other than a place. A name
that is a plain word counts as an import or a call, because code contains such words for other reasons; a capitalized
one, such as a class, also as the owner of a member and as a type.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from treering.retrieval.index.code_names import file_at
from treering.retrieval.index.code_places import is_test_path
from treering.retrieval.text.analysis import telling_terms
from treering.verbs.query.branch_work import applies_to
from treering.verbs.rule_places import TESTS, is_in

_CODE = r"`(?P<code>[^`\n]{2,80})`"
_BARE = r"(?P<bare>(?>@?[A-Za-z_][\w-]*(?:(?:\.|::?|/)\w[\w-]*)*(?:!|\(\))?))"
_NAME = rf"(?:(?:the|any|plain|raw|bare|[A-Z]\w+['’]s) )?(?:{_CODE}|{_BARE})"
_PLACE = (
    r"(?: (?:in|inside|within|under) (?!an? )(?P<place>[^,;:]{1,80}?))?"
    r"(?: (?:outside(?: of)?|except(?: for)?(?: in)?) (?P<outside>[^,;:]{1,80}?))?"
)
"""The place in which a rule applies; "in a request" is a condition instead."""
_END = (
    r"(?: (?:here|anywhere|directly|again|ever|at all|any ?more"
    r"|statements?|imports?|calls?|module|package|decorators?)\b)*"
    rf"{_PLACE}[.!)\s]*(?=$|[,;:–—(]|\. |\b(?:use|prefer|because|instead)\b)"
)
_BEGIN = (
    r"(?:^|[,;:–—] |[.!] )(?:(?:(?i:code|files|modules) )?(?i:in) (?P<before>[^,;:]{1,80}?),? )?(?i:from now on,? )?"
)
_FORBIDDEN = re.compile(
    rf"{_BEGIN}(?i:you |we |please )?"
    rf"(?i:never|must (?:never|not)|should (?:never|not)|do not|don['’]t|avoid|stop|no)"
    rf"(?i: directly)? (?:(?P<verb>(?i:use|using|import|importing|call|calling|import from)) )?{_NAME}{_END}"
)
_BANNED = re.compile(
    rf"{_BEGIN}(?P<verb>(?i:(?:the )?use of|using|importing|calling|calls (?:of|to)) )?{_NAME}(?: calls?| imports?)?"
    r" (?i:(?:is|are) (?:strictly )?(?:forbidden|prohibited|banned|disallowed|not (?:allowed|permitted))"
    rf"|(?:must|should|may) (?:not|never) be (?:used|called|imported)){_END}"
)
_REPLACED = re.compile(
    rf"{_BEGIN}(?i:please )?(?i:always )?(?P<verb>(?i:use|prefer|import|call)) [^,;:]{{2,80}}? "
    rf"(?:instead of|in place of|rather than|over) {_NAME}{_END}"
)
_ONLY_CODE = re.compile(r"\w(?:\.|::?)\w|\(\)$|!$|^@")
"""What no plain word contains."""
_SHIPPED = re.compile(r"(?i:(?:the |our )?(?:library|production|shipped|non-test) code)")
"""Code that is not a test, whatever its path."""
_HASH_FAMILIES = frozenset({"py", "rb", "sh"})
_WORD = re.compile(r"[A-Za-z][a-z]+|[A-Z]+")
_PART = re.compile(r"\w+")
_START = r"(?:(?<![\w.])|(?<=\bglobalThis\.)|(?<=\bwindow\.)|(?<=\bglobal\.)|(?<=\bbuiltins\.))"
"""The start of a name that is no member of something else than the global object."""
_COMMENT = re.compile(r"\s*(?:#(?!\[|\s*include)|//|/?\*|--|;|>>>|\.\.\. )")
_TEXT = r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
_HASHED = re.compile(rf"{_TEXT}|(?P<comment>(?<!\S)#[^\n]*)")
_SLASHED = re.compile(rf"{_TEXT}|`[^`]*`|(?P<comment>//[^\n]*|/\*.*?\*/)", re.DOTALL)
"""Comments at the end of a line or in the middle of it, and the strings that may contain their marks."""


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A name that code must not contain, and the pattern that finds it in a line.

    `inside` and `outside` limit it to a place and exclude one: words of paths or a pattern, or "".
    """

    name: str
    pattern: re.Pattern[str]
    inside: str = ""
    outside: str = ""

    def among(self, paths: Iterable[str]) -> "Forbidden | None":
        """Adapt it to the files of a repository; `None` if it excludes a place that is not among them.

        A place that no path names, such as "the shop package", does not limit it: it is found more often, not less.
        """
        places = {one for one in (self.inside, self.outside) if one and one != TESTS}
        known = {TESTS, ""}
        for path in paths if places else ():
            known |= {one for one in places - known if _is_in(one, path)}
            if places <= known:
                break
        if self.outside not in known:
            return None
        return self if self.inside in known else replace(self, inside="")

    def may_be_in(self, text: str) -> bool:
        """Return whether a text contains the longest word of the name; quick."""
        return max(_PART.findall(self.name), key=len).lower() in text.lower()

    def lines_in(self, path: str, text: str) -> list[int]:
        """Return the numbers of the lines of a file with the name, without comments."""
        file = file_at(path)
        if not self.may_be_in(text) or file is None:
            return []
        if (self.inside and not _is_in(self.inside, path)) or (self.outside and _is_in(self.outside, path)):
            return []
        text = (_HASHED if file.family in _HASH_FAMILIES else _SLASHED).sub(_without_comment, text)
        text = text.replace("?.", ".")
        # In Rust, functions that rules are about, such as `unwrap()`, are methods.
        lines = (text.replace(".", " ") if path.endswith(".rs") and "." not in self.name else text).split("\n")
        return [at for at, line in enumerate(lines, 1) if self.pattern.search(line) and not _COMMENT.match(line)]


def forbidden_by(rule: str) -> Iterator[Forbidden]:
    """Yield the names that a rule forbids."""
    for form in (_FORBIDDEN, _BANNED, _REPLACED):
        for match in form.finditer(" ".join(rule.replace("**", "").split())):
            code, bare = match["code"], match["bare"]
            is_named = code or match["verb"] or _ONLY_CODE.search(bare)
            if not is_named or not _PART.search(code or bare):
                continue  # `Never delete files`
            inside, outside = " ".join(filter(None, (match["before"], match["place"]))), match["outside"] or ""
            if _SHIPPED.fullmatch(inside):
                inside, outside = "", outside or TESTS
            yield Forbidden(code or bare, _pattern(code or bare), inside, TESTS if _is_of_tests(outside) else outside)


def _without_comment(match: re.Match[str]) -> str:
    """Return a string as it is, and of a comment only the ends of its lines."""
    return "\n" * match[0].count("\n") if match["comment"] else match[0]


def _is_of_tests(place: str) -> bool:
    return bool(place) and {*telling_terms(place)} <= {"test", "code", "file"}


def _is_in(place: str, path: str) -> bool:
    """Return whether a path has the words of a place, or matches its patterns."""
    if patterns := [one.strip("`'\"") for one in place.split() if "*" in one]:
        return any(applies_to(one, path) for one in patterns)
    if " " not in place and ("/" in place or "." in place):
        return is_in(place.strip("`'\"/"), path)
    return (place == TESTS and is_test_path(path)) or _terms(place) <= _terms(path)


@lru_cache(maxsize=1 << 14)
def _terms(text: str) -> frozenset[str]:
    return frozenset(telling_terms(text))


def _pattern(name: str) -> re.Pattern[str]:
    plain = name.removesuffix("()")
    escaped = re.escape(plain)
    if _WORD.fullmatch(plain) and plain[1:].islower():
        start = r"(?i:^\s*(?:from|import|use|#include)\b[^=(]*?[\s\"'<]|require\(['\"])"
        imported = rf"{start}(?i:{escaped})(?![\w-])"
        called = rf"(?<!def )(?<!fn )(?<!func )(?<!function ){_START}{escaped}!?\("
        return re.compile(called if name.endswith("()") else "|".join((imported, called, *_uses_of_class(plain))))
    end = r"\(" if name.endswith("()") else r"(?!\w)" if plain[-1].isalnum() else ""
    start = _START if plain[0].isalnum() or plain[0] == "_" else ""
    package, _, last = plain.rpartition(".")
    taken = rf"|^\s*from {re.escape(package)} import\b.*\b{re.escape(last)}\b" if package and end != r"\(" else ""
    return re.compile(f"{start}{escaped}{end}{taken}")


def _uses_of_class(name: str) -> Iterator[str]:
    """Yield patterns of the members, objects and types of a capitalized name; none for another one."""
    if name[0].isupper():
        yield rf"{_START}{name}(?:\.|::)\w"
        yield rf"\b(?:new|instanceof|extends|implements) {_START}?{name}\b"
        yield rf"(?:\w|[)\]])\??: {name}(?=\s*(?:[,)=;{{<|\[]|$))"
