"""Decision records in files: their paths, their status, and the records that they replace."""

import re

from treering.retrieval.text.analysis import index_text

NOT_IN_FORCE = re.compile(
    r"\b(?:superseded|rejected|deprecated|withdrawn|obsolete|declined|abandoned|draft|proposed|pending)\b",
    re.IGNORECASE,
)
_SUPERSEDED = re.compile(r"(?<!partially )(?<!partly )\b(?:superseded|replaced|deprecated|obsolete)\b", re.IGNORECASE)
_PATH = re.compile(
    r"(?:^|/)(?:adrs?|decisions?|decision-records?|architecture[-_]decisions?|architecture-decision-records?)/[^/]+$"
    r"|(?:^|/)adr[-_]?\d[^/]*$",
    re.IGNORECASE,
)
_NO_RECORD = re.compile(r"(?:readme|index|template|adr-template|(?<!0)0+-template)[^/]*$", re.IGNORECASE)
_STATUS_SECTION = re.compile(
    r"^#{1,6}[ \t]+(?:\d+\W+)?status[ \t:]*#*\n(?P<text>(?:(?!#)[^\n]*(?:\n|\Z))*)", re.IGNORECASE | re.MULTILINE
)
_STATUS_LINE = re.compile(r"^[\s*_>+-]{0,8}status[*_]{0,3}\s{0,3}:[*_\s]{0,4}(.{1,200})$", re.IGNORECASE | re.MULTILINE)
_COMMENT = re.compile(r"<!--(?:.*?-->|.*)", re.DOTALL)  # an unclosed comment extends to the end
_LINKED_FILE = re.compile(r"\]\((?:[^)\s#]*/)?([^)\s/#]+)")
_REMOVES = re.compile(
    r"^(?:adr)?[\W\d]*(?:get rid of|removes?|drop|abandon|stop using|move away from|replace)\s+(?P<what>.+?)"
    r"(?:\s+(?:with|by|in favou?r|for|from)\b.*)?$",
    re.IGNORECASE,
)
_HEAD_LINES = 30
_MAX_STATUS_CHARS = 1_000


def is_record_path(path: str) -> bool:
    """Return whether a file is a decision record, by its path."""
    return bool(_PATH.search(path)) and not is_no_record(path)


def is_no_record(path: str) -> bool:
    """Return whether a file among decision records is none, such as a template or an index."""
    return bool(_NO_RECORD.search(path))


def status_of_record(text: str) -> str:
    """Return the status of a record: from its section, else from a `Status:` line or the front matter; else empty."""
    plain = _COMMENT.sub("", text)
    if section := _STATUS_SECTION.search(plain):
        return section["text"].strip()[:_MAX_STATUS_CHARS]
    line = _STATUS_LINE.search("\n".join(plain.split("\n")[:_HEAD_LINES]))
    return line[1] if line else ""


def is_superseded(status: str) -> bool:
    """Return whether a status states that the record was replaced as a whole."""
    return bool(_SUPERSEDED.search(status))


def files_linked(text: str) -> list[str]:
    """Return the names of the files that a text links to."""
    return _LINKED_FILE.findall(text)


def replaces(text: str, file: str) -> bool:
    """Return whether a record with this text states that it replaces the record in another file, with a link to it."""
    stated = rf"\b(?:supersedes|superseding|replaces|replacing|obsoletes)\b[^\n]*{re.escape(file)}"
    return file in files_linked(text) and bool(re.search(stated, text, re.IGNORECASE))


def removes(title: str, text: str, file: str) -> bool:
    """Return whether the title of a record removes what the record in another file, to which it links, is named after.

    "Get rid of Ionic" replaces a part of `0001-use-stencil-and-ionic.md`.
    """
    removed = _REMOVES.match(title)
    named = set(index_text(removed["what"]).split()) if removed else set()
    return bool(named) and file in files_linked(text) and named.issubset(index_text(file).split())
