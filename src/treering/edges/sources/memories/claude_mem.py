"""Observations and summaries of sessions that claude-mem exported."""

import json
from collections.abc import Iterator, Sequence

from treering.edges.sources.loose_json import Record, first_words, listed, record, words
from treering.edges.sources.memories.memory import (
    ForeignMemory,
    LeftOut,
    Told,
    besides,
    left_out,
    under_headings,
    written,
)
from treering.ports.adapter import KnowledgeDraft


def claims(found: Record) -> bool:
    """Tell whether a document is an export of claude-mem."""
    observed = isinstance(found.get("observations"), list) and isinstance(found.get("sessions"), list)
    return observed and bool(found.keys() & {"exportedAt", "summaries", "prompts"})


def read(found: Record) -> Iterator[Told]:
    """Read the observations, then the summaries."""
    for place, one in enumerate(listed(found.get("observations"))):
        observed = record(one)
        text = _observed(observed)
        if text:
            yield _observation(observed, text, place)
        else:
            yield LeftOut(f"observations/{place}", "an observation that says nothing")
    for place, one in enumerate(listed(found.get("summaries"))):
        summary = record(one)
        text = under_headings([(name.replace("_", " "), words(summary.get(name))) for name in _PARTS])
        if text:
            yield _summary(summary, text, place)
        else:
            yield LeftOut(f"summaries/{place}", "a summary that says nothing")
    yield from left_out("prompts", len(listed(found.get("prompts"))), "prompt(s) are no memories and were left out")


_PARTS = ("request", "investigated", "learned", "completed", "next_steps", "notes")
_TOLD = ("title", "subtitle", "narrative", "facts", "text")


def _observation(found: Record, text: str, place: int) -> ForeignMemory:
    title = words(found.get("title"))
    return ForeignMemory(
        "claude-mem",
        f"observation-{_number(found, place)}",
        text,
        title=title,
        at=written(found),
        metadata=besides(found, "id", *_TOLD),
        about=words(found.get("project")),
        claim=_decision(title, text) if words(found.get("type")) == "decision" and title else None,
    )


def _observed(found: Record) -> str:
    facts = "\n".join(f"- {fact}" for fact in _facts(found.get("facts")))
    told = [("", words(found.get(name))) for name in _TOLD if name != "facts"]
    return under_headings([*told, ("", facts)])


def _facts(value: object) -> Sequence[str]:
    if isinstance(value, str) and value.lstrip().startswith("["):  # a column of a database that holds a list
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [words(value)]
    return [fact for one in listed(value) if (fact := words(one).strip())]


def _decision(title: str, text: str) -> KnowledgeDraft:
    return KnowledgeDraft("decision", title, {"question": title, "outcome": text}, segment=0, summary=text)


def _summary(found: Record, text: str, place: int) -> ForeignMemory:
    return ForeignMemory(
        "claude-mem",
        f"summary-{_number(found, place)}",
        text,
        title=first_words(found, "request"),
        at=written(found),
        metadata=besides(found, "id", *_PARTS),
    )


def _number(found: Record, place: int) -> str:
    value = found.get("id")
    return words(value) or (str(value) if isinstance(value, int) else f"at-{place}")
