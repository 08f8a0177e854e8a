"""A long question read for what it is: the text of an issue, with a title, prose, code, a traceback and a template.

What a template asks for and what a program printed about its environment say little about the matter. The title says
most of it.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from treering.derived.analysis import MAX_WORDS, query_terms, telling_terms
from treering.ports.text import TextQuery

MAX_LONG_WORDS = 48
"""Terms of a long question that are looked for: more of them found no more, and each costs a list of postings."""

OFTEN = 3
"""Mentions from which on a term of a long question counts twice."""

_SHORT = 400
"""Characters; what is longer, or has several lines, is read as a long question."""


def is_long(text: str) -> bool:
    """Tell whether a question has parts: several lines, or more than a few sentences."""
    return len(text) > _SHORT or "\n" in text.strip()


def title_of(text: str) -> str:
    """Return the first line of a question; of a short one all of it."""
    return text.strip().partition("\n")[0][:_SHORT]


def terms_of(text: str) -> TextQuery:
    """Return what to look for when somebody asks `text`, short or long.

    Of a long one the terms of the title and those that are said often count twice.
    """
    if not is_long(text):
        return query_terms(text)
    told = essence_of(text)
    query = query_terms(told, most=MAX_LONG_WORDS)
    said, title = Counter(telling_terms(told)), set(telling_terms(title_of(text)))
    emphasis = [term for term in query.words if term in title or said[term] >= OFTEN]
    # Paths are places (`derived.whole_files`), and their stretches and those of versions are long lists of postings.
    names = tuple(name for name in query.identifiers if "/" not in name and not name[0].isdigit())
    return replace(query, identifiers=names, emphasis=tuple(emphasis[: MAX_WORDS - len(query.words)]))


def essence_of(text: str) -> str:
    """Return a text without comments, check-lists and headings of a template, and without lists of versions.

    A text that is nothing else is returned as it is.
    """
    lines = [line for line in _without_comments(text).split("\n") if not _is_boilerplate(line.strip()[:_LONGEST_LINE])]
    told = "\n".join(lines)
    return told if told.strip() else text


_LONGEST_LINE = 300  # boilerplate is short

_CHECK_BOX = re.compile(r"[-*+]\s*\[[ xX]?\]")
_VERSION = re.compile(r"[\w.\-\[\]]+(?:\s*(?:==|[:|=])\s*|\s+)v?\d+[\w.+!-]*(?:\s+\S+)?\s*\|?")
_ENVIRONMENT = re.compile(
    r"(?:[-*]\s*)?(?:\*\*)?(?:os|operating system|platform|[\w.]+ version|python|extra tools|[\w.]+ extensions|browser"
    r"|cachedir|rootdir|plugins|collected|asyncio|hardware|architecture|node|npm)\b(?:\*\*)?\s*[:=]?(?=\s|$)",
    re.IGNORECASE,
)
_OF_TOOLS = re.compile(
    r"(?:\$\s*)?(?:(?:python\S*\s+-m\s+)?pip3?\s+(?:list|freeze)|conda\s+list|npm\s+ls)\b|[-=+_\s|:]{4,}"
)
_HEADING = re.compile(
    r"(?:#+\s*|\*\*)?(?:describe the (?:bug|issue|problem)|(?:steps )?(?:to|how to) reproduce(?: the \w+)?|reproduction"
    r"|(?:expected|actual|current|observed) (?:behaviou?rs?|results?|outcome|output)|your project|screenshots?"
    r"|environment(?: info(?:rmation)?)?|additional (?:context|information|info)|versions?|system info(?:rmation)?"
    r"|description|(?:bug )?report|bug summary|summary|problem|proposed (?:solution|fix)|code for reproduction"
    r"|minimal (?:complete verifiable )?example|what happened|what did you expect(?: to happen)?|checklist"
    r"|(?:relevant )?log output|anything else(?: we need to know)?)\s*[:?]?\s*(?:\*\*)?[:?]?",
    re.IGNORECASE,
)
_NOTHING = re.compile(r"(?:no|none|n/?a|_no response_|</?details>|</?summary>.*|```\w*)\.?", re.IGNORECASE)
_WHOLE_LINES = (_VERSION, _OF_TOOLS, _HEADING, _NOTHING)


def _is_boilerplate(line: str) -> bool:
    if _CHECK_BOX.match(line) or (_ENVIRONMENT.match(line) and _has_version(line)):
        return True
    return any(pattern.fullmatch(line) for pattern in _WHOLE_LINES)


def _has_version(line: str) -> bool:
    return any(char.isdigit() for char in line) or line.endswith(":")


def _without_comments(text: str) -> str:
    """Leave out HTML comments; what follows one that does not end is kept."""
    return "".join(_outside_comments(text))


def _outside_comments(text: str) -> Iterator[str]:
    at = 0
    while (begin := text.find("<!--", at)) >= 0 and (end := text.find("-->", begin)) >= 0:
        yield text[at:begin]
        at = end + len("-->")
    yield text[at:]
