"""A discussion as the files in which WilmerAI keeps one.

They are `<id>_memories.jsonl`, `<id>_summary.jsonl`, `<id>_vector_memory.db`, and the state document where there is
one. Every memory names the SHA-256 of the last message it tells of, the summary that of the newest memory it holds.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass

import apsw

from treering.core.times import render_time
from treering.memories.discussion.files import message_hash
from treering.memories.discussion.log.blocks import StoredMessage
from treering.memories.discussion.memory import Discussion
from treering.memories.discussion.summaries.memories import Memory

MEMORIES, SUMMARY, DATABASE, STATE = "memories.jsonl", "summary.jsonl", "vector_memory.db", "state_document.md"


def wilmer_files(discussion: Discussion) -> dict[str, bytes]:
    """Return the files of a discussion by name, those that would be empty left out.

    The database holds every memory with what it can be found by.
    """
    told = [_Told(memory, _hash(memory, discussion.messages())) for memory in discussion.all_memories()]
    state = discussion.state()
    files = {
        MEMORIES: _lines(_block(one.memory.item.summary, one.hash) for one in told),
        SUMMARY: _lines(_summary(discussion, told)),
        DATABASE: _database(discussion, told),
        STATE: f"{state}\n".encode() if state else b"",
    }
    return {f"{discussion.id}_{name}": content for name, content in files.items() if content}


@dataclass(frozen=True, slots=True)
class _Told:
    """A memory, and the hash of the last message it tells of; empty where that is not kept."""

    memory: Memory
    hash: str


def _hash(memory: Memory, messages: Sequence[StoredMessage]) -> str:
    inside = [kept for kept in messages if memory.first <= kept.position <= memory.last and not kept.deleted]
    return message_hash(inside[-1].text) if inside else ""


def _summary(discussion: Discussion, told: Sequence[_Told]) -> Iterator[Mapping[str, str]]:
    version = discussion.current_summary()
    if version:
        known = [one.hash for one in told if one.memory.last <= version.last]
        yield _block(version.text, known[-1] if known else "")


def _block(text: str, mark: str) -> Mapping[str, str]:
    return {"text_block": text, "hash": mark}


def _lines(lines: Iterator[Mapping[str, str]]) -> bytes:
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines).encode()


def _database(discussion: Discussion, told: Sequence[_Told]) -> bytes:
    with closing(apsw.Connection(":memory:")) as made:
        made.execute(_TABLES)
        for number, one in enumerate(told, start=1):
            item, at = one.memory.item, one.memory.at
            metadata = json.dumps(item.model_dump(mode="json"), ensure_ascii=False)
            added = render_time(at) if at else ""
            made.execute(_MEMORY, (number, discussion.id, item.summary, added, metadata))
            words = (item.title, item.summary, "; ".join(item.entities), "; ".join(item.key_phrases), item.summary)
            made.execute(_WORDS, (number, *words))
        made.execute("INSERT INTO vector_memory_tracker VALUES (?, ?)", (discussion.id, _processed(discussion)))
        return bytes(made.serialize("main"))


def _processed(discussion: Discussion) -> str:
    """Return the hash of the last message of which memories were made, or nothing worth one."""
    states = [state for head in discussion.log.blocks() for state in discussion.log.block(head).chunks]
    last = max((state.last for state in states if state.status in {"done", "empty"}), default=-1)
    found = [kept for kept in discussion.log.read(0, last) if not kept.deleted] if last >= 0 else []
    return message_hash(found[-1].text) if found else ""


_TABLES = """
CREATE TABLE memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    discussion_id TEXT NOT NULL,
    memory_text TEXT NOT NULL,
    date_added TEXT NOT NULL,
    metadata_json TEXT NOT NULL
);
CREATE VIRTUAL TABLE memories_fts USING fts5(title, summary, entities, key_phrases, memory_text);
CREATE TABLE vector_memory_tracker (discussion_id TEXT PRIMARY KEY, last_processed_hash TEXT NOT NULL);
"""
_MEMORY = "INSERT INTO memories VALUES (?, ?, ?, ?, ?)"
_WORDS = (
    "INSERT INTO memories_fts (rowid, title, summary, entities, key_phrases, memory_text) VALUES (?, ?, ?, ?, ?, ?)"
)
