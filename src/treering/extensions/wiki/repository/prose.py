"""Prose from documents and docstrings without markup: Markdown, reStructuredText and doc comments."""

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Words:
    """A piece of text. `code`: whether it was marked as code."""

    text: str
    code: bool = False


_MOST_CHARS = 4_000
"""The part of a paragraph that is read; more is never shown."""
_INLINE = re.compile(
    r"""
      (?P<comment><!--.*?(?:-->|\Z))
    | (?P<badge>\[!\[[^\]\n]{0,300}+\](?:\([^()\s]{0,300}+\)|\[[^\]\n]{0,100}+\])?\]
        (?:\([^()\s]{0,300}+\)|\[[^\]\n]{0,100}+\])?)
    | (?P<image>!\[[^\]\n]{0,300}+\](?:\([^()]{0,300}+\)|\[[^\]\n]{0,100}+\])?)
    | (?P<role>:(?P<rolename>[\w+:-]{1,30}):`(?P<roletext>[^`]{1,300})`)
    | (?P<role_behind>`(?P<texted>[^`\n]{1,300})`:(?P<behind>[\w+:-]{1,30}):(?!`))
    | (?P<footnote>(?<=\s)\[(?:\#\w*|\*|\d{1,3})\]_(?!\w))
    | (?P<literal>(?P<ticks>`{1,3})(?P<code>[^`\n]{1,300}?)(?P=ticks)(?!`)_{0,2})
    | (?P<jslink>\{@(?:link|linkcode|linkplain|code|see)\s+(?P<jstarget>[^}\n]{1,300})\})
    | (?P<mdlink>\[(?P<label>[^\[\]\n]{1,300}+)\]
        (?:\((?:[^()\n]|\([^()\n]{0,100}+\)){0,500}+\)|\[[^\]\n]{0,100}+\])?)
    | (?P<tag></?[A-Za-z][^<>\n]{0,300}>)
    | (?P<auto><(?P<address>https?://[^<>\s]{1,300})>)
    | (?P<replaced>(?<!\w)\|[\w .-]{1,60}\|_{0,2}(?!\w))
    | (?P<escape>\\{1,2}(?=s\b|[^\w\s])|\\[ ](?=:\w))
    | (?P<emphasis>(?<!\w)_(?P<stressed>[^\s_](?:[^_\n]{0,200}[^\s_])?)_(?!\w))
    | (?P<strong>\*{1,3}(?=\S)|(?<=\S)\*{1,3})
    """,
    re.VERBOSE | re.DOTALL,
)
_DOTTED = re.compile(r"[\w.]+(?:\(\))?")
_UNDERLINE = re.compile(r"([=~\-^*+#'\"])\1{2,}")
_TARGET = re.compile(r"\s*<[^<>]*>$")
_WORD_END = re.compile(r"[\w)\]]")
_SPACES = re.compile(r"\s+")
_SENTENCE_END = re.compile(r"[.!?:](?=[\s\"')\]]|$)[\"')\]]?")
_NO_END = re.compile(r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|resp|[A-Z])|^\W*\d{1,3})\.$")
_STOP = re.compile(
    r"^(?:\.\. |:\w[\w ]*:(?!`|[\w+.:-]+:`)|@\w"
    r"|(?:Args|Arguments|Parameters|Returns?|Raises|Yields|Examples?|Notes?|Attributes"
    r"|Params?|Usage|See also)\s*:{0,2}\s*$|-{3,}|={3,}|>>>|[\w.]+ = \S|```|~~~|\*{3,}|#{1,6}\s)"
)
_SKIPPED = re.compile(r"^@(?:module|file|fileoverview|packageDocumentation|description|summary|brief)\b\s*")
_NUMBERED = frozenset({"issue", "pr", "pull", "gh", "ghsa", "cve", "pep", "rfc", "user"})
_CODE_ROLES = frozenset(
    "class func meth mod attr data exc obj func any const type py c js command option envvar".split()
)


def words_of(text: str) -> list[Words]:
    """Remove the markup of a text. Images, comments and tags are dropped; links are replaced by their labels."""
    text = text[:_MOST_CHARS]
    words: list[Words] = []
    at = 0
    for match in _INLINE.finditer(text):
        words.append(Words(html.unescape(text[at : match.start()])))
        words += _read(match)
        at = match.end()
    words.append(Words(html.unescape(text[at:])))
    return _joined(words)


def first_paragraph(text: str) -> str:
    """Return the first paragraph of a docstring or doc comment, without sections such as parameters."""
    paragraph: list[str] = []
    lines = text.strip().splitlines()
    if len(lines) > 2 and lines[0].strip() and _UNDERLINE.fullmatch(lines[1].strip()):
        lines = lines[2:]  # the text below a title is more informative
    for line in lines:
        bare = _SKIPPED.sub("", line.strip())
        if _STOP.match(bare) or (not bare and paragraph):
            break
        if bare:
            paragraph.append(bare)
    return " ".join(paragraph)


def cut(words: Sequence[Words], most: int) -> list[Words]:
    """Return the first sentences of at most `most` characters; a longer sentence is cut between words, with `…`."""
    whole = "".join(one.text for one in words)
    if len(whole) <= most:
        return list(words)
    ends = [end for end in sentence_ends(whole) if end <= most]
    end = ends[-1] if ends else max(whole.rfind(" ", 0, most), 1)
    return [*_up_to(words, end), *([] if ends else [Words("…")])]


def first_sentence(text: str, most: int) -> list[Words]:
    """Return the first sentence of a docstring or doc comment, of at most `most` characters."""
    words = words_of(first_paragraph(text))
    whole = "".join(one.text for one in words)
    end = next(iter(sentence_ends(whole)), len(whole))
    return cut(_up_to(words, end), most)


def sentence_ends(text: str) -> Iterator[int]:
    """Yield the positions where sentences end."""
    for match in _SENTENCE_END.finditer(text):
        if match[0][0] == ":" and match.end() < len(text):
            continue
        if not _NO_END.search(text, max(0, match.start() - 8), match.start() + 1):
            yield match.end()


def _read(match: re.Match[str]) -> list[Words]:
    match match.lastgroup:
        case _ if match["role"]:
            return [_role(match["rolename"], match["roletext"])]
        case _ if match["role_behind"]:
            return [_role(match["behind"], match["texted"])]
        case _ if match["literal"]:
            return [_literal(match)]
        case _ if match["jslink"]:
            target, _, label = match["jstarget"].replace("|", " ").strip().partition(" ")
            return [Words(label.strip() or target, code=not label and "://" not in target)]
        case _ if match["mdlink"]:
            return [Words(match[0])] if _is_bracketed(match) else words_of(match["label"])
        case _ if match["emphasis"]:
            return words_of(match["stressed"])
        case _ if match["auto"]:
            return [Words(match["address"])]
        case _:
            return []


def _is_bracketed(match: re.Match[str]) -> bool:
    """Return whether brackets without a target are no link, such as `row[0]` and `"[", "]"`."""
    is_index = _WORD_END.search(match.string, max(0, match.start() - 1), match.start()) is not None
    has_no_words = not any(map(str.isalnum, match["label"]))
    return match[0] == f"[{match['label']}]" and (is_index or has_no_words)


def _role(name: str, text: str) -> Words:
    text = _SPACES.sub(" ", text)
    titled = _TARGET.search(text)
    if titled:
        return Words(text[: titled.start()])
    domain, _, last = name.rpartition(":")
    if last in _NUMBERED:
        return Words(f"{last} {text}")
    if not domain and last not in _CODE_ROLES:
        return Words(text.lstrip("/!~."))
    return Words(_last_name(text) if text.startswith("~") else text.lstrip("!."), code=True)


def _last_name(text: str) -> str:
    """Return the last part of a name: `Flask` for `~flask.Flask`."""
    return text.rpartition(".")[2].lstrip("~ ")


def _literal(match: re.Match[str]) -> Words:
    text = match["code"]
    if match[0].endswith("_"):
        return Words(_TARGET.sub("", text))
    is_short = text.startswith("~") and _DOTTED.fullmatch(text[1:]) is not None
    return Words(_last_name(text) if is_short else text.strip(), code=True)


def _joined(words: Sequence[Words]) -> list[Words]:
    joined: list[Words] = []
    for one in words:
        text = _SPACES.sub(" ", one.text)
        if not text:
            continue
        if joined and not joined[-1].code and not one.code:
            joined[-1] = Words(_SPACES.sub(" ", joined[-1].text + text))
        else:
            joined.append(Words(text, one.code))
    if joined:
        joined[0] = Words(joined[0].text.lstrip(), joined[0].code)
        joined[-1] = Words(joined[-1].text.rstrip(), joined[-1].code)
    return [one for one in joined if one.text]


def _up_to(words: Sequence[Words], end: int) -> list[Words]:
    result: list[Words] = []
    for one in words:
        if end <= 0:
            break
        result.append(Words(one.text[:end], one.code))
        end -= len(one.text)
    return result
