"""Statements in the Markdown notes of basic-memory."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from treering.ports.format import posix_path

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
    """The statement in one line of a note."""

    kind: str
    text: str
    line: int
    """From 0."""
    payload: dict[str, Any] = field(default_factory=dict)


def noted(path: str, text: str) -> Iterator[Noted]:
    """Yield the statements of a note of basic-memory, at most 200; nothing for other notes."""
    matter = _MATTER.match(text)
    if matter is None or not _PERMALINK.search(matter["matter"]):
        return
    heading = _TITLE.search(matter["matter"])
    title = heading["title"].strip("\"' ") if heading else posix_path(path).stem
    statements = (
        one
        for line, content in _lines_of_prose(text)
        if (one := _observation(title, content, line) or _relation(title, content, line))
    )
    yield from islice(statements, _MOST)


def _lines_of_prose(text: str) -> Iterator[tuple[int, str]]:
    fenced = False
    for line, content in enumerate(text.split("\n")):
        if _FENCE.match(content):
            fenced = not fenced
        elif not fenced:
            yield line, content.rstrip()


def _observation(title: str, line_text: str, line: int) -> Noted | None:
    match = _OBSERVATION.match(line_text)
    if match is None:
        return None
    statement = _TAG.sub("", match["said"]).strip()
    context = _CONTEXT.search(statement)
    statement = _CONTEXT.sub("", statement).strip() or statement
    category = match["category"].lower()
    payload = _payload(_KINDS.get(category, "fact"), title, category, statement, context["context"] if context else "")
    return Noted(_KINDS.get(category, "fact"), statement, line, payload)


def _payload(kind: str, title: str, category: str, statement: str, context: str) -> dict[str, Any]:
    match kind:
        case "decision":
            return {"question": f"{title}: {statement}", "outcome": statement, "rationale": context}
        case "constraint":
            return {"rule": statement, "scope": title}
        case "preference":
            return {"statement": statement, "scope": title}
        case _:
            return {"subject": title, "predicate": category, "object": statement}


def _relation(title: str, line_text: str, line: int) -> Noted | None:
    match = _RELATION.match(line_text)
    if match is None:
        return None
    relation, other = match["relation"].replace("_", " ").strip(), match["other"].strip()
    payload = {"subject": title, "predicate": relation, "object": other}
    return Noted("fact", f"{title} {relation} {other}", line, payload)
