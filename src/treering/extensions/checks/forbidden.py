"""The code that a rule forbids by name: `Never use eval()`, `Use httpx instead of requests in tests`.

Only rules with a name that a line of code can contain are read, and only without conditions other than a place. A name
that is a plain word counts as an import or a call, because code contains such words for other reasons.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from treering.retrieval.index.code_names import file_at
from treering.retrieval.text.analysis import telling_terms

_CODE = r"`(?P<code>[^`\n]{2,80})`"
_BARE = r"(?P<bare>(?>[A-Za-z_][\w-]*(?:(?:\.|::)\w+)*(?:!|\(\))?))"
_NAME = rf"(?:(?:the|any|plain|raw|bare|[A-Z]\w+['’]s) )?(?:{_CODE}|{_BARE})"
_PLACE = r"(?:in|inside|within|under) (?P<place>[^,;:]{1,80})"
_END = (
    r"(?: (?:here|anywhere|directly|again|ever|at all|any ?more"
    r"|statements?|imports?|calls?|module|package|decorators?)\b)*"
    rf"(?: {_PLACE})?[.!)\s]*(?=$|[,;:–—(]|\. |\b(?:use|prefer|because|instead)\b)"
)
_BEGIN = (
    r"(?:^|[,;:–—] |[.!] )(?:(?:(?i:code|files|modules) )?(?i:in) (?P<before>[^,;:]{1,80}?),? )?(?i:from now on,? )?"
)
_FORBIDDEN = re.compile(
    rf"{_BEGIN}(?i:you |we |please )?"
    rf"(?i:never|must (?:never|not)|should (?:never|not)|do not|don['’]t|avoid|stop)"
    rf"(?i: directly)? (?:(?P<verb>(?i:use|using|import|importing|call|calling|import from)) )?{_NAME}{_END}"
)
_REPLACED = re.compile(
    rf"{_BEGIN}(?i:please )?(?i:always )?(?P<verb>(?i:use|prefer|import|call)) [^,;:]{{2,80}}? "
    rf"(?:instead of|in place of|rather than|over) {_NAME}{_END}"
)
_WORD = re.compile(r"[A-Za-z][a-z]+|[A-Z]+")
_PART = re.compile(r"\w+")
_COMMENT = re.compile(r"\s*(?:#(?!\[|\s*include)|//|/?\*|--|;|>>>|\.\.\. )")


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A name that code must not contain, the pattern that finds it in a line, and the terms of its place."""

    name: str
    pattern: re.Pattern[str]
    place: frozenset[str]

    def lines_in(self, path: str, text: str) -> list[int]:
        """Return the numbers of the lines of a file with the name, without comments."""
        longest = max(_PART.findall(self.name), key=len)
        if longest.lower() not in text.lower() or file_at(path) is None or not self.place <= {*telling_terms(path)}:
            return []
        # In Rust, functions that rules are about, such as `unwrap()`, are methods.
        lines = (text.replace(".", " ") if path.endswith(".rs") and "." not in self.name else text).split("\n")
        return [at for at, line in enumerate(lines, 1) if self.pattern.search(line) and not _COMMENT.match(line)]


def forbidden_by(rule: str) -> Iterator[Forbidden]:
    """Yield the names that a rule forbids."""
    for form in (_FORBIDDEN, _REPLACED):
        for match in form.finditer(" ".join(rule.replace("**", "").split())):
            code, bare = match["code"], match["bare"]
            if not (code or match["verb"]) or not _PART.search(code or bare):
                continue  # `Never delete files`
            place = " ".join(filter(None, (match["before"], match["place"])))
            yield Forbidden(code or bare, _pattern(code or bare), frozenset(telling_terms(place)))


def _pattern(name: str) -> re.Pattern[str]:
    plain = name.removesuffix("()")
    escaped = re.escape(plain)
    if _WORD.fullmatch(plain) and plain[1:].islower():
        start = r"(?i:^\s*(?:from|import|use|#include)\b[^=(]*?[\s\"'<]|require\(['\"])"
        imported = rf"{start}(?i:{escaped})(?![\w-])"
        called = rf"(?<!def )(?<!fn )(?<!func )(?<!function )(?<![\w.]){escaped}!?\("
        return re.compile(called if name.endswith("()") else rf"{imported}|{called}")
    end = r"\(" if name.endswith("()") else r"(?!\w)" if plain[-1].isalnum() else ""
    start = r"(?<![\w.])" if plain[0].isalnum() or plain[0] == "_" else ""
    package, _, last = plain.rpartition(".")
    taken = rf"|^\s*from {re.escape(package)} import\b.*\b{re.escape(last)}\b" if package and end != r"\(" else ""
    return re.compile(f"{start}{escaped}{end}{taken}")
