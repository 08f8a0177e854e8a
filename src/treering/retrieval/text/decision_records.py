"""Decision records: their status, and which of them others replaced."""

import posixpath
import re
from collections.abc import Iterable
from dataclasses import dataclass

from treering.core.objects import Source
from treering.ports.format import is_prose_file

NOT_IN_FORCE = re.compile(
    r"\b(?:superseded|replaced by|rejected|deprecated|withdrawn|obsolete|declined|abandoned|draft|proposed|pending)\b",
    re.IGNORECASE,
)
_TO_FILE = r"[^\n]*?\]\((?P<file>[^)\s#]+)"
_WHOLE = r"(?<!partially )(?<!partly )\b"
_REPLACED = re.compile(rf"{_WHOLE}(?:superseded|replaced by|deprecated|obsolete)\b(?:{_TO_FILE})?", re.IGNORECASE)
_REPLACES = re.compile(rf"{_WHOLE}(?:supersedes|replaces|obsoletes)\b{_TO_FILE}", re.IGNORECASE)
_STATUS_LINE = re.compile(r"^[\s*_>+-]{0,8}status[*_]{0,3}\s{0,3}:[*_\s]{0,4}(.{1,200})$", re.IGNORECASE | re.MULTILINE)
_STATUS_SECTION = re.compile(
    r"^[^\w\n]*(?:\d+\W+)?status[^\w\n]*\n(?:[=-]+\n)?"
    r"(?P<text>(?:(?! {0,3}#{1,6}\s|[^\n]+\n(?:==+|--+)(?:\n|\Z))[^\n]*(?:\n|\Z))*)",
    re.IGNORECASE | re.MULTILINE,
)
_STATUS_HEADING = re.compile(r"\bstatus\b|…", re.IGNORECASE)
"""In the names of the sections that a segment contains, which end with `…` if there are many."""
_COMMENT = re.compile(r"<!--(?:.*?-->|.*)", re.DOTALL)  # an unclosed comment extends to the end
_HEAD_LINES = 30
_MAX_STATUS_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class ReplacedRecord:
    """A decision record that is no longer in force; the file and the id of its replacement may be unknown."""

    by: str = ""
    source_id: str = ""


def without_comments(text: str) -> str:
    """Return a text without the comments of HTML in it."""
    return _COMMENT.sub("", text)


def status_of_record(section: str, text: str) -> str:
    """Return the status of a record: its section, else its `Status:` line or the entry of its front matter."""
    if section:
        return without_comments(section).strip()[:_MAX_STATUS_CHARS]
    line = _STATUS_LINE.search("\n".join(without_comments(text).split("\n")[:_HEAD_LINES]))
    return line[1] if line else ""


def replaced_records(records: Iterable[Source]) -> dict[str, ReplacedRecord]:
    """Return, by id, the decision records that were replaced, by their own status or by another record's.

    A link counts only if it leads to the very file, in the same scope.
    """
    stored = [(record, _stored_status(record)) for record in records]
    ids = {(record.scope, record.origin): record.id for record, _ in stored}
    replaced: dict[str, ReplacedRecord] = {}
    for record, status in stored:
        for file in [] if NOT_IN_FORCE.search(status) else _REPLACES.findall(status):
            older = ids.get((record.scope, _origin_of(file, record)), record.id)
            if older != record.id:
                replaced[older] = ReplacedRecord(posixpath.basename(record.origin), record.id)
    for record, status in stored:
        files = [match["file"] or "" for match in _REPLACED.finditer(status)]
        file = next(filter(is_prose_file, files), "")
        later = ids.get((record.scope, _origin_of(file, record)), "") if file else ""
        if later != record.id and files and (later or record.id not in replaced):
            replaced[record.id] = ReplacedRecord(posixpath.basename(file), later)
    return replaced


def _stored_status(record: Source) -> str:
    sections = (
        match["text"]
        for segment in record.segments
        if _STATUS_HEADING.search(segment.heading) and (match := _STATUS_SECTION.search(segment.excerpt))
    )
    return status_of_record(next(sections, ""), "\n".join(segment.excerpt for segment in record.segments))


def _origin_of(link: str, record: Source) -> str:
    """Return the origin of the file that a record links to by a relative path."""
    root, mark, path = record.origin.rpartition("#")
    return f"{root}{mark}{posixpath.normpath(posixpath.join(posixpath.dirname(path), link))}"
