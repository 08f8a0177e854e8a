"""Decision records that another record replaced, by their status or by the links between them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from treering.core.objects import Source
from treering.ports.ledger import ObjectRequest, ObjectsFound
from treering.ports.passages import PassageRequest, PassagesFound, Reach
from treering.ports.search import TextFound, TextRequest
from treering.retrieval.index.rounds import Steps
from treering.retrieval.search.replaced import SUPERSEDED
from treering.retrieval.text.analysis import index_text
from treering.retrieval.text.decision_records import (
    NOT_IN_FORCE,
    files_linked,
    is_record_path,
    is_superseded,
    removes,
    replaces,
    status_of_record,
)

_MAX_MENTIONS = 20
"""Passages read that contain the name of one record."""


@dataclass(frozen=True, slots=True)
class ReplacedRecord:
    """A decision record that is no longer in force; the file and the id of its replacement may be unknown."""

    by: str = ""
    source_id: str = ""
    in_part: bool = False
    """Whether the replacement only removes something that the record is about."""

    def is_in(self, origin: str) -> bool:
        """Return whether the replacement is the file at an origin."""
        return bool(self.by) and self.by == _file(origin)

    @property
    def note(self) -> str:
        """The note of its passages."""
        degree = f"{SUPERSEDED} in part" if self.in_part else SUPERSEDED
        return f"{degree} by {self.by}" if self.by else degree


def replaced_records(origins: Mapping[str, str], reach: Reach) -> Steps[dict[str, ReplacedRecord]]:
    """Return by id which of some sources are replaced records; `origins` are their origins by id."""
    files = {identity: _file(origin) for identity, origin in origins.items() if is_record_path(_path(origin))}
    if not files:
        return {}
    texts: dict[str, Source] = yield from _sources(files, reach)
    replaced: dict[str, ReplacedRecord] = {}
    for identity, file in files.items():
        naming = yield from _naming(file, reach)
        status = status_of_record(_text(texts[identity])) if identity in texts else ""
        linked = files_linked(status) if is_superseded(status) else []
        later = [
            ReplacedRecord(_file(one.origin), one.id, in_part=degree == "part")
            for one in naming
            if one.id != identity and (degree := _degree(one, file, linked))
        ]
        if later:
            replaced[identity] = min(later, key=lambda one: one.in_part)
        elif is_superseded(status):
            replaced[identity] = ReplacedRecord(linked[0] if linked else "")
    return replaced


def _degree(record: Source, file: str, linked: Iterable[str]) -> Literal["", "part", "whole"]:
    """Return how much of the record in `file`, whose status links to the files `linked`, a record in force replaces."""
    text = _text(record)
    if NOT_IN_FORCE.search(status_of_record(text)):
        return ""
    if _file(record.origin) in linked or replaces(text, file):
        return "whole"
    return "part" if removes(record.title, text, file) else ""


def _naming(file: str, reach: Reach) -> Steps[list[Source]]:
    """Return the records that contain the name of a file."""
    found: TextFound = yield TextRequest(reach, _MAX_MENTIONS, words=(index_text(file),))
    passages: PassagesFound = yield PassageRequest(tuple(hit.key for hit in found.words))
    ids = dict.fromkeys(head.object_id for head in passages.heads.values() if is_record_path(_path(head.origin)))
    sources: dict[str, Source] = yield from _sources(ids, reach)
    return list(sources.values())


def _sources(ids: Iterable[str], reach: Reach) -> Steps[dict[str, Source]]:
    read: ObjectsFound = yield ObjectRequest(objects=tuple(ids), as_of=reach.at)
    return {one.id: one for one in read.objects.values() if isinstance(one, Source)}


def _text(source: Source) -> str:
    return "\n".join(segment.excerpt for segment in source.segments)


def _path(origin: str) -> str:
    return origin.partition("#")[2] or origin


def _file(origin: str) -> str:
    return _path(origin).rpartition("/")[2]
