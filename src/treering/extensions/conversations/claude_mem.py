"""Memories of claude-mem: the JSON of its export script, and its SQLite database."""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing

from treering.extensions.conversations.foreign_memories import (
    ForeignMemory,
    LeftOut,
    Told,
    besides,
    left_out,
    under_headings,
    written,
)
from treering.extensions.conversations.loose_json import Record, first_words, listed, record, words
from treering.ports.adapter import KnowledgeDraft

_QUERIES = {
    "observations": "SELECT * FROM observations ORDER BY id",
    "summaries": "SELECT * FROM session_summaries ORDER BY id",
    "prompts": "SELECT id FROM user_prompts",
}
"""The queries for the parts of the export."""
_MAGIC = b"SQLite format 3\0"
_JOURNAL_MODE = slice(18, 20)
"""The bytes of the header that state whether changes may be in a separate file, which a copy in memory lacks."""


def is_database(data: bytes) -> bool:
    """Return whether a file begins like a SQLite database."""
    return data.startswith(_MAGIC)


def read_database(data: bytes) -> Iterator[Told] | None:
    """Read the tables of a database like its export; `None` if it is not one of claude-mem.

    Changes that are only in the file `claude-mem.db-wal` are missing.
    """
    try:
        with closing(sqlite3.connect(":memory:")) as database:
            database.deserialize(data[: _JOURNAL_MODE.start] + b"\1\1" + data[_JOURNAL_MODE.stop :])
            database.execute("PRAGMA trusted_schema = OFF")
            database.row_factory = sqlite3.Row
            database.text_factory = lambda text: text.decode("utf-8", "replace")
            parts = {name: list(map(dict, database.execute(query))) for name, query in _QUERIES.items()}
    except sqlite3.DatabaseError:
        return None
    return read_claude_mem(parts)


def claims_claude_mem(found: Record) -> bool:
    """Return whether a document is an export of claude-mem."""
    observed = isinstance(found.get("observations"), list) and isinstance(found.get("sessions"), list)
    return observed and bool(found.keys() & {"exportedAt", "summaries", "prompts"})


def read_claude_mem(found: Record) -> Iterator[Told]:
    """Read the observations, then the summaries of sessions."""
    for place, one in enumerate(listed(found.get("observations"))):
        observed = record(one)
        text = _observed(observed)
        if text:
            yield _observation(observed, text, place)
        else:
            yield LeftOut(f"observations/{place}", "an observation without content")
    for place, one in enumerate(listed(found.get("summaries"))):
        summary = record(one)
        text = under_headings([(name.replace("_", " "), words(summary.get(name))) for name in _PARTS])
        if text:
            yield _summary(summary, text, place)
        else:
            yield LeftOut(f"summaries/{place}", "a summary without content")
    yield from left_out("prompts", len(listed(found.get("prompts"))), "prompt(s) are not memories and were skipped")


_PARTS = ("request", "investigated", "learned", "completed", "next_steps", "notes")
_TEXTS = ("title", "subtitle", "narrative", "facts", "text")


def _observation(observation: Record, text: str, place: int) -> ForeignMemory:
    title = words(observation.get("title"))
    return ForeignMemory(
        "claude-mem",
        f"observation-{_number(observation, place)}",
        text,
        title=title,
        at=written(observation),
        metadata=besides(observation, "id", *_TEXTS),
        about=words(observation.get("project")),
        claim=_decision(title, text) if words(observation.get("type")) == "decision" and title else None,
    )


def _observed(observation: Record) -> str:
    facts = "\n".join(f"- {fact}" for fact in _facts(observation.get("facts")))
    texts = [("", words(observation.get(name))) for name in _TEXTS if name != "facts"]
    return under_headings([*texts, ("", facts)])


def _facts(value: object) -> Sequence[str]:
    if isinstance(value, str) and value.lstrip().startswith("["):  # a database column with a list
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return [words(value)]
    return [fact for one in listed(value) if (fact := words(one).strip())]


def _decision(title: str, text: str) -> KnowledgeDraft:
    return KnowledgeDraft("decision", title, {"question": title, "outcome": text}, segment=0, summary=text)


def _summary(summary: Record, text: str, place: int) -> ForeignMemory:
    return ForeignMemory(
        "claude-mem",
        f"summary-{_number(summary, place)}",
        text,
        title=first_words(summary, "request"),
        at=written(summary),
        metadata=besides(summary, "id", *_PARTS),
    )


def _number(found: Record, place: int) -> str:
    value = found.get("id")
    return words(value) or (str(value) if isinstance(value, int) else f"at-{place}")
