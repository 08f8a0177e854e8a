"""Reading the files in which WilmerAI stores the memory of a discussion.

They are `memories.json`, `chat_summary.json`, `vector_memory.db` and `state_document.md`, or have the names of older
versions (`<id>_memories.jsonl` and so on). A file that is encrypted, truncated or of another kind is rejected as a
whole, and never read as text. A single damaged item is reported, and the others are imported.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from typing import Literal

import apsw

from treering.core.canonical import render_time
from treering.core.errors import InvalidInput
from treering.extensions.conversations.loose_json import moment
from treering.extensions.discussions.files import message_hash
from treering.extensions.discussions.generators.generator import GeneratedMemory
from treering.extensions.discussions.generators.parsing import first_words
from treering.extensions.discussions.log.blocks import StoredMessage
from treering.extensions.discussions.memory import Discussion
from treering.extensions.discussions.summaries.memories import Memory

FileKind = Literal["memories", "summary", "state", "tracker"]


@dataclass(frozen=True, slots=True)
class WilmerMemory:
    """One memory of a file. `text` is its exact text, `pointer` its place in the file (RFC 6901)."""

    pointer: str
    text: str
    item: GeneratedMemory
    hash: str = ""
    """SHA-256 of the last message it covers, if the file contains it."""
    added: datetime | None = None
    """The time at which it was written, if the file contains it."""


@dataclass(frozen=True, slots=True)
class WilmerFile:
    """The content of a file. A `tracker` of condensations has no content to import."""

    kind: FileKind
    memories: tuple[WilmerMemory, ...] = ()
    rejected: tuple[str, ...] = ()
    """Unusable parts, with reasons."""
    processed: tuple[str, ...] = ()
    """SHA-256 of the last message of each processed chunk in the file, oldest first."""


def read_file(name: str, content: bytes) -> WilmerFile:
    """Read a file by its name. Raises `InvalidInput` if its content does not match its name."""
    kind = _kind_of(name)
    if len(content) > _MOST_BYTES:
        raise _refused(name, f"it has {len(content)} bytes; the maximum is {_MOST_BYTES}")
    if name.lower().endswith(".db"):
        return _database(name, content)
    if kind == "state":
        return _document(name, content)
    data = _json(name, content)
    if kind == "tracker":
        return WilmerFile(kind)
    if not isinstance(data, list):
        called = "object" if isinstance(data, dict) else type(data).__name__
        raise _refused(name, f"it contains a JSON {called} instead of a list")
    return _blocks(kind, data)


def _kind_of(name: str) -> FileKind:
    stem = name.lower()
    for ending, kind in _ENDINGS.items():
        if stem.endswith(ending):
            return kind
    raise InvalidInput(
        f"{name!r} is not a WilmerAI file that can be imported.",
        hint=f"Its name must end with one of: {', '.join(_ENDINGS)}.",
        details={"given": name, "known": list(_ENDINGS)},
    )


def _json(name: str, content: bytes) -> object:
    """Return the JSON value of a file, or the list of the values of its lines (older versions wrote `.jsonl`)."""
    try:
        text = content.decode("utf-8-sig")
        if name.lower().endswith(".jsonl") and not text.lstrip().startswith("["):
            return _lines(text)
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused(name, "it is not valid JSON; it may be encrypted or truncated") from error


def _lines(text: str) -> list[object]:
    """Return the value of each line, `None` for a damaged one. Raises `ValueError` if none is an object."""
    values = list[object]()
    for line in filter(str.strip, text.split("\n")):
        try:
            values.append(json.loads(line))
        except ValueError:
            values.append(None)
    if not any(isinstance(value, dict) for value in values):
        raise ValueError("no line is a JSON object")
    return values


def _document(name: str, content: bytes) -> WilmerFile:
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise _refused(name, "it is not a text file; it may be encrypted") from error
    if not text.strip() or "\0" in text or _TOKEN.fullmatch(text.strip()):
        raise _refused(name, "it is empty or encrypted")
    return WilmerFile("state", (WilmerMemory("", text, _plain(text)),))


def _blocks(kind: FileKind, data: Sequence[object]) -> WilmerFile:
    memories, rejected = list[WilmerMemory](), list[str]()
    for at, block in enumerate(data):
        text = block.get("text_block") if isinstance(block, Mapping) else None
        if not isinstance(text, str) or not text.strip() or not _is_unicode(text):
            rejected.append(f"item {at}: it has no text in 'text_block'")
            continue
        mark = block.get("hash") if isinstance(block, Mapping) else None
        memories.append(WilmerMemory(f"/{at}/text_block", text, _plain(text), mark if isinstance(mark, str) else ""))
    return WilmerFile(kind, tuple(memories), tuple(rejected))


def _database(name: str, content: bytes) -> WilmerFile:
    if not content.startswith(_SQLITE):
        raise _refused(name, "it is not a SQLite database; it may be encrypted or truncated")
    memories, rejected = list[WilmerMemory](), list[str]()
    try:
        with closing(apsw.Connection(":memory:")) as rows:
            rows.deserialize("main", content)
            # Untrusted data: its schema must not call our functions.
            rows.execute("PRAGMA trusted_schema=OFF")
            for number, *columns in rows.execute(_MEMORIES):
                text, added, metadata = map(_decoded, columns)
                if not text.strip():
                    rejected.append(f"row {number}: it has no memory_text")
                    continue
                item = _described(text, metadata)
                if item is None:
                    rejected.append(f"row {number}: its metadata_json is invalid; the text was stored without it")
                memories.append(WilmerMemory(f"/memories/{number}", text, item or _plain(text), added=moment(added)))
            processed = _tracked(rows)
    except apsw.Error as error:
        raise _refused(name, f"its table 'memories' cannot be read ({error})") from error
    return WilmerFile("memories", tuple(memories), tuple(rejected), processed)


def _tracked(rows: apsw.Connection) -> tuple[str, ...]:
    """Return the hashes in the trackers of a database, whatever their columns are called."""
    tables = {name for (name,) in rows.execute("SELECT name FROM sqlite_schema WHERE type = 'table'")}
    tracked = [row for table, query in _TRACKED.items() if table in tables for row in rows.execute(query)]
    return tuple(str(value) for row in tracked for value in row if _HASH.fullmatch(str(value)))


def _decoded(stored: object) -> str:
    """Return a stored text, or an empty one if it is not text."""
    try:
        return stored.decode() if isinstance(stored, bytes) else ""
    except UnicodeDecodeError:
        return ""


def _plain(text: str) -> GeneratedMemory:
    return GeneratedMemory(title=first_words(text), summary=text)


def _described(text: str, metadata_json: str) -> GeneratedMemory | None:
    """Return an item of a text and its metadata; `None` if the metadata is not a JSON object."""
    try:
        metadata = json.loads(metadata_json or "{}")
    except (ValueError, RecursionError):
        return None
    if not isinstance(metadata, Mapping):
        return None
    title, summary, mood = (_text(metadata.get(name)) for name in ("title", "summary", "sentiment"))
    entities, phrases, topics = (_texts(metadata.get(name)) for name in ("entities", "key_phrases", "topics"))
    return GeneratedMemory(
        title=title[:_MOST_TITLE] or first_words(text),
        summary=summary or text,
        entities=entities,
        key_phrases=phrases,
        topics=topics,
        sentiment=mood,
    )


def _text(value: object) -> str:
    return value.strip() if isinstance(value, str) and _is_unicode(value) else ""


def _texts(value: object) -> tuple[str, ...]:
    """Return the texts of a list; a single text is a list of one."""
    values = value if isinstance(value, list) else [value]
    return tuple(text for each in values if (text := _text(each)))


def _is_unicode(text: str) -> bool:
    """Return whether a text can be encoded: JSON escapes can contain lone surrogates."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _refused(name: str, why: str) -> InvalidInput:
    return InvalidInput(
        f"{name} was not imported: {why}.",
        hint="Give the file in WilmerAI's unencrypted format (decrypt it with the API key first).",
        details={"file": name},
    )


_ENDINGS: Mapping[str, FileKind] = {
    "vector_memory.db": "memories",
    "state_document.md": "state",
    "condensation_tracker.json": "tracker",
    "chat_summary.json": "summary",
    "summary.jsonl": "summary",
    "memories.json": "memories",
    "memories.jsonl": "memories",
}
# As bytes, so that a text that is not UTF-8 does not prevent reading the others.
_MEMORIES = (
    "SELECT id, CAST(memory_text AS BLOB), CAST(date_added AS BLOB), CAST(metadata_json AS BLOB) "
    "FROM memories ORDER BY id"
)
# The format of Fernet (package cryptography): base64 that begins with its version and the time.
_TOKEN = re.compile(r"gAAAA[\w-]+=*")
_SQLITE = b"SQLite format 3\0"
_TRACKED = {
    "vector_memory_hash_log": "SELECT * FROM vector_memory_hash_log ORDER BY id",
    "vector_memory_tracker": "SELECT * FROM vector_memory_tracker",
}
"""The tables with hashes of processed messages: of the last of each chunk, or of the last one of all."""
_HASH = re.compile(r"[0-9a-f]{64}")
_MOST_BYTES = 200_000_000
_MOST_TITLE = 300


MEMORIES, SUMMARY, DATABASE, STATE = "memories.jsonl", "summary.jsonl", "vector_memory.db", "state_document.md"
FOLDER_MEMORIES, FOLDER_SUMMARY = "memories.json", "chat_summary.json"
WILMER_NAMES = (DATABASE, MEMORIES, FOLDER_MEMORIES, SUMMARY, FOLDER_SUMMARY, STATE)
"""The endings of the file names; the file with the most details per memory comes first."""


def wilmer_files(discussion: Discussion, *, as_folder: bool = False) -> dict[str, bytes]:
    """Return the files of a discussion by name, without empty ones.

    The database contains every memory with its search fields. `as_folder`: the files in WilmerAI's folder of a
    discussion, which current versions read; otherwise their names begin with the discussion's id.
    """
    messages = discussion.messages()
    pairs = [(memory, _last_hash(messages, memory.first, memory.last)) for memory in discussion.all_memories()]
    memories = [_block(memory.item.summary, mark) for memory, mark in pairs]
    summary = list(_summary(discussion, pairs))
    text_column = _FOLDER_TEXT_COLUMN if as_folder else _TEXT_COLUMN
    database = _as_database(discussion, [memory for memory, _ in pairs], text_column)
    state = discussion.state()
    files = {DATABASE: database, STATE: f"{state}\n".encode() if state else b""}
    names = (FOLDER_MEMORIES, FOLDER_SUMMARY) if as_folder else (MEMORIES, SUMMARY)
    files |= {
        name: _written(blocks, as_list=as_folder) for name, blocks in zip(names, (memories, summary), strict=True)
    }
    return {name if as_folder else f"{discussion.id}_{name}": content for name, content in files.items() if content}


def _last_hash(messages: Sequence[StoredMessage], first: int, last: int) -> str:
    """Return the hash of the last undeleted message from `first` to `last`; empty if there is none."""
    inside = [one for one in messages if first <= one.position <= last and not one.deleted]
    return message_hash(inside[-1].text) if inside else ""


def _summary(discussion: Discussion, pairs: Sequence[tuple[Memory, str]]) -> Iterator[Mapping[str, str]]:
    version = discussion.current_summary()
    if version:
        hashes = [mark for memory, mark in pairs if memory.last <= version.last]
        yield _block(version.text, hashes[-1] if hashes else "")


def _block(text: str, mark: str) -> Mapping[str, str]:
    return {"text_block": text, "hash": mark}


def _written(blocks: Sequence[Mapping[str, str]], *, as_list: bool) -> bytes:
    """Return blocks as a JSON list, or as JSON lines; empty if there are none."""
    if as_list and blocks:
        return json.dumps(blocks, ensure_ascii=False, indent=1).encode()
    return "".join(f"{json.dumps(block, ensure_ascii=False)}\n" for block in blocks).encode()


def _as_database(discussion: Discussion, memories: Sequence[Memory], text_column: str) -> bytes:
    with closing(apsw.Connection(":memory:")) as database:
        database.execute(_TABLES.format(text_column=text_column))
        for number, memory in enumerate(memories, start=1):
            item = memory.item
            metadata = json.dumps(item.model_dump(mode="json"), ensure_ascii=False)
            added = render_time(memory.at) if memory.at else ""
            database.execute(_MEMORY, (number, discussion.id, item.summary, added, metadata))
            words = (item.title, item.summary, "; ".join(item.entities), "; ".join(item.key_phrases), item.summary)
            database.execute(_WORDS, words)  # the row ids are 1, 2, …, as in the other table
        processed = _processed(discussion)
        database.execute("INSERT INTO vector_memory_tracker VALUES (?, ?)", (discussion.id, processed))
        if processed:
            exported_at = render_time(discussion.engine.clock.now())
            database.execute(_LOGGED, (discussion.id, processed, exported_at))
        return bytes(database.serialize("main"))


def _processed(discussion: Discussion) -> str:
    """Return the hash of the last processed message."""
    processed = [state.last for state in discussion.log.chunks() if state.status in {"done", "empty"}]
    return _last_hash(discussion.messages(), 0, max(processed, default=-1))


_TABLES = """
CREATE TABLE memories (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    discussion_id TEXT NOT NULL,
    memory_text TEXT NOT NULL,
    date_added TEXT NOT NULL,
    metadata_json TEXT NOT NULL
);
CREATE VIRTUAL TABLE memories_fts USING fts5(title, summary, entities, key_phrases, {text_column});
CREATE TABLE vector_memory_tracker (discussion_id TEXT PRIMARY KEY, last_processed_hash TEXT NOT NULL);
CREATE TABLE vector_memory_hash_log (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    discussion_id TEXT NOT NULL,
    message_hash TEXT NOT NULL,
    timestamp DATETIME NOT NULL
);
"""
_TEXT_COLUMN = "memory_text"
_FOLDER_TEXT_COLUMN = "memory_text_unweighted, tokenize='porter'"
_MEMORY = "INSERT INTO memories VALUES (?, ?, ?, ?, ?)"
_WORDS = "INSERT INTO memories_fts VALUES (?, ?, ?, ?, ?)"
_LOGGED = "INSERT INTO vector_memory_hash_log (discussion_id, message_hash, timestamp) VALUES (?, ?, ?)"
