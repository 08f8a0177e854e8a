"""A memory of another system, whichever that was."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from pathlib import PurePosixPath
from typing import Any

from pydantic import JsonValue

from treering.ports.adapter import KnowledgeDraft
from treering.sources.reading.loose_json import Record, first_moment


@dataclass(frozen=True, slots=True)
class ForeignMemory:
    """What another system remembered: word for word, with its dates and everything else that was told of it."""

    system: str
    id: str
    """Unique in its export. Empty: it is known by what it says."""
    text: str
    title: str = ""
    at: datetime | None = None
    """When the other system last wrote it."""
    metadata: Mapping[str, JsonValue] = field(default_factory=dict)
    about: str = ""
    """Whom or what the text describes; empty: it states nothing that could be held to be true."""
    claim: KnowledgeDraft | None = None
    """What it states, where that is told more closely than by `about`."""

    @property
    def name(self) -> str:
        """Return what it is known by in its export."""
        return self.id or sha256(self.text.encode("utf-8", "replace")).hexdigest()[:_DIGITS]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A part of an export that is not a memory, or cannot be read as one, and why."""

    name: str
    why: str


Told = ForeignMemory | LeftOut

WRITTEN = ("updated_at", "updatedAt", "created_at", "createdAt", "created_at_epoch", "filed_at")
"""The members that say when a memory was written, the latest first."""


def written(found: Record) -> datetime | None:
    """Return when a memory was last written, as far as it says."""
    return first_moment(found, *WRITTEN)


def besides(found: Record, *taken: str) -> dict[str, JsonValue]:
    """Return the members of a record besides those taken. Empty ones tell nothing; vectors are made anew."""
    left = {*taken, *_VECTORS}
    return {name: value for name, value in _json(found).items() if name not in left and value not in _EMPTY}


def under_headings(parts: Sequence[tuple[str, str]]) -> str:
    """Write texts below each other, each under what it is called."""
    return "\n\n".join(f"{name}: {text.strip()}" if name else text.strip() for name, text in parts if text.strip())


def left_out(name: str, count: int, why: str) -> Iterator[LeftOut]:
    """Say that parts are left out, if there are any."""
    if count:
        yield LeftOut(name, f"{count:,} {why}")


_DIGITS = 16
_VECTORS = ("embedding", "embeddings", "vector", "fact_embedding", "name_embedding")
_EMPTY: tuple[object, ...] = (None, "", [], {})


def _json(found: Record) -> Mapping[str, JsonValue]:
    return found  # type: ignore[return-value]  # what was read as JSON holds nothing else


# Notes of basic-memory: Markdown with a `permalink`, whose list items are observations and relations.


_MATTER = re.compile(r"\A---\n(?P<matter>(?:[^\n]*\n){1,200}?)---[ \t]*(?:\n|\Z)")
_PERMALINK = re.compile(r"^permalink:[ \t]*\S", re.MULTILINE)
_TITLE = re.compile(r"^title:[ \t]*(?P<title>\S[^\n]{0,300})$", re.MULTILINE)
_OBSERVATION = re.compile(r"^[-*] \[(?P<category>[A-Za-z][\w -]{1,40})\] (?P<said>\S.{0,1000})$")
_RELATION = re.compile(r"^[-*] (?P<relation>[\w][\w -]{0,60}?) \[\[(?P<other>[^\[\]|]{1,200})(?:\|[^\[\]]{0,200})?\]\]")
_TAG = re.compile(r"(?<!\S)#[\w/-]{1,60}")
_CONTEXT = re.compile(r"\s*\((?P<context>[^()]{1,300})\)\s*$")
_FENCE = re.compile(r"^[ \t]*(?:```|~~~)")
_MOST = 200
_KINDS = {
    **dict.fromkeys(("decision", "decisions"), "decision"),
    **dict.fromkeys(("constraint", "requirement", "rule"), "constraint"),
    **dict.fromkeys(("preference", "pref"), "preference"),
}


@dataclass(frozen=True, slots=True)
class Noted:
    """What one line of a note states."""

    kind: str
    text: str
    line: int
    """From 0."""
    payload: dict[str, Any] = field(default_factory=dict)


def noted(path: str, text: str) -> Iterator[Noted]:
    """Return what a note states, at most 200 statements; nothing where it is not a note of basic-memory."""
    matter = _MATTER.match(text)
    if matter is None or not _PERMALINK.search(matter["matter"]):
        return
    called = _TITLE.search(matter["matter"])
    title = called["title"].strip("\"' ") if called else PurePosixPath(path).stem
    found = 0
    for line, said in _lines_of_prose(text):
        one = _observation(title, said, line) or _relation(title, said, line)
        if one is not None:
            yield one
            found += 1
        if found >= _MOST:
            return


def _lines_of_prose(text: str) -> Iterator[tuple[int, str]]:
    fenced = False
    for line, said in enumerate(text.split("\n")):
        if _FENCE.match(said):
            fenced = not fenced
        elif not fenced:
            yield line, said.rstrip()


def _observation(title: str, line_text: str, line: int) -> Noted | None:
    found = _OBSERVATION.match(line_text)
    if found is None:
        return None
    said = _TAG.sub("", found["said"]).strip()
    context = _CONTEXT.search(said)
    said = _CONTEXT.sub("", said).strip() or said
    category = found["category"].lower()
    payload = _payload(_KINDS.get(category, "fact"), title, category, said, context["context"] if context else "")
    return Noted(_KINDS.get(category, "fact"), said, line, payload)


def _payload(kind: str, title: str, category: str, said: str, context: str) -> dict[str, Any]:
    match kind:
        case "decision":
            return {"question": f"{title}: {said}", "outcome": said, "rationale": context}
        case "constraint":
            return {"rule": said, "scope": title}
        case "preference":
            return {"statement": said, "scope": title}
        case _:
            return {"subject": title, "predicate": category, "object": said}


def _relation(title: str, line_text: str, line: int) -> Noted | None:
    found = _RELATION.match(line_text)
    if found is None:
        return None
    relation, other = found["relation"].replace("_", " ").strip(), found["other"].strip()
    payload = {"subject": title, "predicate": relation, "object": other}
    return Noted("fact", f"{title} {relation} {other}", line, payload)
