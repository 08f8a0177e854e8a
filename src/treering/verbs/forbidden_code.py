"""The code that a rule forbids by name: `Never use eval()`, `Use httpx instead of requests in tests`.

Only rules with a name that a line of code can contain are read, and only without conditions other than a place. A name
that is a plain word counts as an import or a call, because code contains such words for other reasons; a capitalized
one, such as a class, also as the owner of a member and as a type.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import PurePosixPath

from treering.retrieval.index.code_names import file_at
from treering.retrieval.index.code_places import is_test_path
from treering.retrieval.text.analysis import telling_terms
from treering.verbs.query.branch_work import applies_to
from treering.verbs.rule_places import TESTS, is_in

_CODE = r"`(?P<code>[^`\n]{2,80})`"
_QUOTED = r"['\"‘“](?P<quoted>@?\w[\w./:-]{1,79})['\"’”]"
_BARE = r"(?P<bare>(?>@?[A-Za-z_][\w-]*(?:(?:\.|::?|/)\w[\w-]*)*(?:!|\(\))?))"
_FURTHER = (
    r"(?:`[^`\n]{2,80}`|['\"‘“]@?\w[\w./:-]{1,79}['\"’”]|(?>@?[A-Za-z_][\w-]*(?:(?:\.|::?|/)\w[\w-]*)*(?:!|\(\))?))"
)
"""Such a name without a group."""
_NAME = (
    rf"(?:(?:the|any|plain|raw|bare|[A-Z]\w+['’]s) )?(?:{_CODE}|{_QUOTED}|{_BARE})"
    rf"(?P<further>(?:, {_FURTHER})*,? (?:or|nor|and) {_FURTHER})?"
)
_PLACE = (
    r"(?:,? (?:in|inside|within|under) (?!an? )(?P<place>[^,;:]{1,80}?))?"
    r"(?: (?:outside(?: of)?|except(?: for)?(?: in)?) (?P<outside>[^,;:]{1,80}?))?"
)
"""The place in which a rule applies; "in a request" is a condition instead."""
_MIDDLE = r"(?: (?:in|inside|within|under) (?!an? )(?P<middle>[^,;:]{1,80}?))?"
"""The same place in front of the forbidden name."""
_END = (
    r"(?: (?:here|anywhere|directly|again|ever|at all|any ?more"
    r"|statements?|imports?|calls?|module|package|decorators?)\b)*"
    rf"{_PLACE}[.!)\s]*(?=$|[,;:–—(]|\. |\b(?:use|prefer|because|instead)\b)"
)
_FILES = r"(?i:(?:all |any |the |our )?(?:source |library )?(?:code|files?|modules?|sources?|library))"
_PATH = r"`?[\w@.*-]+(?:/[\w@.*-]+)+/?`?"
_BEGIN = (
    rf"(?:^|[,;:–—] |[.!] )(?:(?:{_FILES} )?(?i:in) (?P<before>[^,;:]{{1,80}}?),? "
    rf"|(?:{_FILES}|(?P<subject>{_PATH})) (?=(?i:must|should|may|can|does|do|never|only|always|imports?)\b))?"
    r"(?i:from now on,? )?"
)
_NEVER = r"(?i:never|(?:must|should|may|can) (?:never|not)|does not|do not|don['’]t|avoid|stop|no)"
_THINGS = r"(?P<things>[\w$`*]+(?:(?:, (?:and |or )?| and | or | )[\w$`*]+){0,9})"
"""Names of imports or words for them, such as `ref and computed`, `helpers`."""
_IMPORT = rf"import(?:ing|s)?(?: of| from| directly from| {_THINGS} from)?"
_VERB = rf"(?P<verb>(?i:use|using|call|calling|{_IMPORT}|(?:calls|uses) (?:of|to)|depend(?:ing)? on|add imports of))"
_FORBIDDEN = re.compile(rf"{_BEGIN}(?i:you |we |please )?{_NEVER}(?i: directly)? (?:(?:{_VERB}|leave) )?{_NAME}{_END}")
_BANNED = re.compile(
    rf"{_BEGIN}(?P<verb>(?i:(?:the )?use of|using|importing(?: from)?|imports (?:of|from)|calling|calls (?:of|to)) )?"
    rf"{_NAME}(?: calls?| imports?)?{_MIDDLE}"
    r" (?i:(?:is|are) (?:strictly )?(?:forbidden|prohibited|banned|disallowed|not (?:allowed|permitted))"
    rf"|(?:must|should|may) (?:not|never) be (?:used|(?P<passive>called|imported))){_END}"
)
_NOT_IMPORTED = re.compile(
    rf"{_BEGIN}{_THINGS}(?i: (?:must|should|may|can) (?:not|never) be (?P<verb>imported)(?: directly)? from )"
    rf"{_NAME}{_END}"
)
_OTHER = r"(?:`[^`\n]{1,80}`|[^\s,;:]{1,80})"
_REPLACED = re.compile(
    rf"{_BEGIN}(?i:please )?(?i:always )?(?P<verb>(?i:use|prefer|import(?: {_THINGS} from)?|call)) [^,;:]{{2,80}}? "
    rf"(?:instead of|in place of|rather than|over) {_NAME}{_END}"
)
_CONTRASTED = re.compile(
    rf"{_BEGIN}(?i:please )?(?i:always )?(?P<verb>(?i:use|prefer|call)) (?:the )?(?P<other>{_OTHER})"
    rf"(?: imports?)?{_MIDDLE}(?:, (?:and )?| and )(?i:not|never) {_NAME}{_END}(?!, (?:for|if|when|while|unless)\b)"
)
_IMPORTED = re.compile(
    rf"{_BEGIN}(?i:please )?(?:\w+ ){{0,8}}?(?P<verb>(?i:import(?:s|ed)?))(?: {_THINGS})?? from {_OTHER}{_MIDDLE}"
    rf"(?:, (?:and |but )?| and )(?i:not|never)(?i: directly)?(?: from)? {_NAME}{_END}"
)
_FORMS = (_FORBIDDEN, _BANNED, _NOT_IMPORTED, _REPLACED, _CONTRASTED, _IMPORTED)
_STATEMENT = re.compile(r"(?:import|export) .*from ['\"]([^'\"]+)['\"];?")
"""An import written out: `import { ref } from 'vue'`."""
_SEPARATOR = re.compile(r", (?:and |or )?| and | or ")
_VAGUE = re.compile(r"anything|everything|code|directly|[a-z]+s")
"""A word for imported things that is no name."""
_MODULE = re.compile(r"[a-z][a-z0-9_]{3,}")
_ABSTRACT = re.compile(r"\w*(?:s|ing|ion|ment|ness|ity|[ae]nce|ism)|this|that|else|both|which|what|code|everything")
"""Words that are rarely modules: `Avoid duplication`, `No tags`."""
_KEYWORDS = frozenset(
    {"assert", "debugger", "defer", "delete", "global", "goto", "lambda", "nonlocal", "unsafe", "var"}
)
"""Words of languages that stand without parentheses."""
_ONLY_CODE = re.compile(r"\w(?:\.|::?)\w|\(\)$|!$|^@")
"""What no plain word contains."""
_SHIPPED = re.compile(r"(?i:(?:the |our )?(?:library|production|shipped|non-test) code)")
"""Code that is not a test, whatever its path."""
_WITH_SCRIPTS = (".vue", ".svelte", ".astro")
_HASH_FAMILIES = frozenset({"py", "rb", "sh"})
_IS_MEMBER = re.compile(r"([a-z]+)\.\w+")
_WORD = re.compile(r"[A-Za-z][a-z]+|[A-Z]+")
_PART = re.compile(r"\w+")
_START = r"(?:(?<![\w.])|(?<=\bglobalThis\.)|(?<=\bwindow\.)|(?<=\bglobal\.)|(?<=\bbuiltins\.))"
"""The start of a name that is no member of something else than the global object."""
_COMMENT = re.compile(r"\s*(?:#(?!\[|\s*include)|//|/?\*|--|;|>>>|\.\.\. )")
_TEXT = r""""(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'"""
_LONG_TEXT = r'"""(?:\\.|[^\\])*?"""|\'\'\'(?:\\.|[^\\])*?\'\'\''
_HASHED = re.compile(rf"{_LONG_TEXT}|{_TEXT}|(?P<comment>(?<!\S)#[^\n]*)", re.DOTALL)
_SLASHED = re.compile(rf"{_TEXT}|`[^`]*`|(?P<comment>//[^\n]*|/\*.*?\*/)", re.DOTALL)
"""Comments at the end of a line or in the middle of it, and the strings that may contain their marks."""
_IDENTIFIER = re.compile(r"[\w.]+(?:\(\))?")
_PROSE = re.compile(r"[\s(]")
_IMPORT_LIST = re.compile(r"^[ \t]*(?:import|export)\b[^\"'`;=()]*\{[^\"'`;=()]*\}\s*from\b", re.MULTILINE)
_PYTHON_IMPORTS = re.compile(r"^[ \t]*from [\w.]+ import \([^()]*\)", re.MULTILINE)
_RELATIVE = re.compile(r"(?<=^from )(?P<dots>\.+)(?P<module>[\w.]*)(?= import\b)", re.MULTILINE)
_GO_IMPORTS = re.compile(r"^import \([^()]*\)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Forbidden:
    """A name that code must not contain, and the pattern that finds it in a line.

    `inside` and `outside` limit it to a place and exclude one: words of paths or a pattern, or "".
    """

    name: str
    pattern: re.Pattern[str]
    inside: str = ""
    outside: str = ""
    in_language: Mapping[str, re.Pattern[str]] = field(default_factory=dict)
    """Other patterns, by the suffix of files: Go names a package by the end of its path, Python by an alias."""

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
        """Return whether a text contains the last word of the name; quick."""
        return _PART.findall(self.name)[-1].lower() in text.lower()

    def applies_in(self, path: str) -> bool:
        """Return whether a file is in its place."""
        return (not self.inside or _is_in(self.inside, path)) and not (self.outside and _is_in(self.outside, path))

    def lines_in(self, path: str, text: str) -> list[int]:
        """Return the numbers of the lines of a file with the name, without comments."""
        file = file_at(path)
        if not self.may_be_in(text) or (file is None and not path.endswith(_WITH_SCRIPTS)):
            return []
        if not self.applies_in(path):
            return []
        is_mixed = file is None or path.endswith(_WITH_SCRIPTS) or not _IDENTIFIER.fullmatch(self.name)
        without = _without_comment if is_mixed else _without_prose
        text = (_HASHED if file and file.family in _HASH_FAMILIES else _SLASHED).sub(without, text)
        if path.endswith(".py"):
            text = _PYTHON_IMPORTS.sub(_on_last_line, _RELATIVE.sub(partial(_absolute, path, self.name), text))
        text = _GO_IMPORTS.sub(_each_with_keyword, _IMPORT_LIST.sub(_on_last_line, text.replace("?.", ".")))
        # In Rust, functions that rules are about, such as `unwrap()`, are methods.
        lines = (text.replace(".", " ") if path.endswith(".rs") and "." not in self.name else text).split("\n")
        pattern = self.in_language.get(PurePosixPath(path).suffix, self.pattern)
        return [at for at, line in enumerate(lines, 1) if pattern.search(line) and not _COMMENT.match(line)]


def forbidden_by(rule: str) -> Iterator[Forbidden]:
    """Yield the names that a rule forbids."""
    text, places = " ".join(rule.replace("**", "").split()), set[int]()
    for form in _FORMS:
        for match in form.finditer(text):
            parts = match.groupdict("")
            kind = next(one for one in ("code", "quoted", "bare") if parts[one])
            names = [one for one in _names_in(match, kind) if _is_named(*one, form, parts)]
            if not names or match.end(kind) in places:
                continue  # `Never delete files`
            places.add(match.end(kind))
            inside = " ".join(filter(None, map(parts.get, ("before", "subject", "middle", "place"))))
            outside = parts["outside"]
            if _SHIPPED.fullmatch(inside):
                inside, outside = "", outside or TESTS
            inside = inside if _is_of_tests(inside) else inside.removesuffix(" code")
            outside = TESTS if _is_of_tests(outside) else outside
            for name, _ in names:
                yield _forbidden(name, parts, inside, outside)


def _names_in(match: re.Match[str], kind: str) -> Iterator[tuple[str, bool]]:
    """Yield the names of a match, and whether each is marked as code."""
    yield match[kind], kind == "code"
    for one in re.findall(_FURTHER, match["further"] or ""):
        if one not in ("or", "nor", "and"):
            yield one.strip("`'\"‘’“”"), one.startswith("`")


def _is_named(name: str, is_code: bool, form: re.Pattern[str], parts: Mapping[str, str]) -> bool:
    """Return whether a word of a rule is the name of code."""
    if not _PART.search(name):
        return False
    if is_code or _ONLY_CODE.search(name):
        return True
    if form is _CONTRASTED:  # `Use tabs, not spaces`
        return bool(_ONLY_CODE.search(parts["other"]))
    is_module = bool(_MODULE.fullmatch(name)) and not (parts["place"] or parts["outside"] or _ABSTRACT.fullmatch(name))
    return bool(parts.get("verb") or parts.get("passive")) or (is_module and form in (_FORBIDDEN, _BANNED))


def _forbidden(name: str, parts: Mapping[str, str], inside: str, outside: str) -> Forbidden:
    written = _STATEMENT.fullmatch(name)
    name = written[1] if written else name
    if written or parts.get("verb", "").lower().startswith("import"):
        pattern, in_go = _imported(name, _members(parts.get("things", ""))), _go_import(name)
    else:
        pattern, in_go = _pattern(name), rf"{_go_import(name)}|{_START}{re.escape(name)}\.[A-Z]"
    others = {".go": rf"{pattern}|{in_go}"} if _is_word(name) else {}
    others |= {".py": rf"{pattern}|{_of_alias(name)}"} if _IS_MEMBER.fullmatch(name) else {}
    compiled = {suffix: re.compile(one) for suffix, one in others.items()}
    return Forbidden(name, re.compile(pattern), inside, outside, compiled)


def is_forbidden_elsewhere(rule: str, path: str, text: str, paths: Iterable[str]) -> bool:
    """Return whether a rule only forbids names, all of them in other places among `paths`, and a text has none."""
    names = list(forbidden_by(rule))
    places = [one.among(paths) for one in names if not one.may_be_in(text)]
    return len(places) == len(names) > 0 and not any(one is None or one.applies_in(path) for one in places)


def _members(things: str) -> list[str]:
    """Return the names that a rule forbids to import from a module; none if it is about all of them."""
    names = [one.strip("`") for one in _SEPARATOR.split(things)] if things else []
    is_vague = any(" " in one or _VAGUE.fullmatch(one) for one in names)
    return [] if is_vague else names


def _without_comment(match: re.Match[str]) -> str:
    """Return a string as it is, and of a comment only the ends of its lines."""
    return "\n" * match[0].count("\n") if match["comment"] else match[0]


def _without_prose(match: re.Match[str]) -> str:
    """Return a string without its text if that has a space or a call, unless it is a template with code; no comment."""
    text = match[0]
    if match["comment"] or text[0] == "`" or "{" in text or not _PROSE.search(text):
        return _without_comment(match)
    return '"' + "\n" * text.count("\n") + '"'


def _on_last_line(match: re.Match[str]) -> str:
    """Return an import on several lines on the line of its module."""
    return "\n" * match[0].count("\n") + " ".join(match[0].split())


def _absolute(path: str, name: str, match: re.Match[str]) -> str:
    """Return the module of a relative import, from the package that a forbidden name starts with."""
    folders = path.split("/")[: -len(match["dots"])]
    top = name.partition(".")[0]
    if top not in folders:
        return match[0]
    return ".".join(filter(None, [*folders[folders.index(top) :], match["module"]]))


def _each_with_keyword(match: re.Match[str]) -> str:
    """Return a block of imports in Go with `import` on each line."""
    return re.sub(r"^(?=\s*(?:[\w.]+ )?\")", "import ", match[0], flags=re.MULTILINE)


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


def _pattern(name: str) -> str:
    plain = name.removesuffix("()")
    escaped = re.escape(plain)
    if _is_word(plain):
        called = rf"(?<!def )(?<!fn )(?<!func )(?<!function ){_START}{escaped}!?[ \t]?\("
        others = [*_uses_of_class(plain), *([_keyword(plain)] if plain in _KEYWORDS else [])]
        return called if name.endswith("()") else "|".join((_imported(plain), called, *others))
    end = r"\(" if name.endswith("()") else rf"(?![\w{'-' * ('-' in plain)}])" if plain[-1].isalnum() else ""
    start = _START if plain[0].isalnum() or plain[0] == "_" else ""
    package, _, last = plain.rpartition(".")
    taken = rf"|^\s*from {re.escape(package)} import\b.*\b{re.escape(last)}\b" if package else ""
    return f"{start}{escaped}{end}{taken}"


def _of_alias(name: str) -> str:
    """Return the pattern of a member of a class whose module is named as well: `dt.datetime.utcnow`."""
    return rf"(?<![\w.])(?!self\.|cls\.)\w+\.{re.escape(name)}(?!\w)"


def _keyword(word: str) -> str:
    return rf"(?:^|[;{{}}:=(,])\s*{word}(?=[\s;{{]|$)"


def _go_import(name: str) -> str:
    return rf"^\s*import\s+(?:[\w.]+\s+)?\"(?:[\w.~-]+/)*{re.escape(name)}(?![\w-])"


def _imported(name: str, members: Sequence[str] = ()) -> str:
    """Return the pattern of an import of a module, or of a class; with `members`, of any of these from it."""
    if not _is_word(name):
        return _pattern(name)
    escaped = re.escape(name)
    quoted = r"^\s*(?:import|export|use|#include)\b[^=(]*?[\"'<]|\bfrom\s*[\"']|\b(?:require|import)\(\s*[\"']"
    plain = rf"^\s*(?:from|import|use)\b[^=(\"']*?\s{escaped}(?![\w-])(?!.*\bfrom\s*[\"'])"
    of_class = rf"|^\s*import\b[^=(\"']*?[\s{{]{escaped}(?![\w-])" if name[0].isupper() else ""
    of_members = rf"^(?=.*\b(?:{'|'.join(map(re.escape, members))})\b).*?" if members else ""
    return rf"{of_members}(?:(?i:(?:{quoted}){escaped}(?![\w-])|{plain}){of_class})"


def _is_word(name: str) -> bool:
    return bool(_WORD.fullmatch(name)) and name[1:].islower()


def _uses_of_class(name: str) -> Iterator[str]:
    """Yield patterns of the members, objects and types of a capitalized name; none for another one."""
    if name[0].isupper():
        yield rf"{_START}{name}(?:\.|::)\w"
        yield rf"\b(?:new|instanceof|extends|implements) {_START}?{name}\b"
        yield rf"(?:\w|[)\]])\??: {name}(?=\s*(?:[,)=;{{<|\[]|$))"
