"""Reading the files in which WilmerAI keeps the memory of a discussion.

They are `memories.json`, `chat_summary.json`, `vector_memory.db` and `state_document.md`, also under the names of
older versions (`<id>_memories.jsonl` and the like). A file is read as what it is and nothing else: one that is
encrypted, cut or of another kind is refused as a whole, and never taken for text. A single damaged item is reported,
and the rest is kept.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Literal

import apsw

from treering.core.canonical import render_time
from treering.core.errors import InvalidInput
from treering.extensions.discussions.files import message_hash
from treering.extensions.discussions.generators.generator import GeneratedMemory
from treering.extensions.discussions.generators.parsing import first_words
from treering.extensions.discussions.log.blocks import StoredMessage
from treering.extensions.discussions.memory import Discussion
from treering.extensions.discussions.summaries.memories import Memory

FileKind = Literal["memories", "summary", "state", "tracker"]


@dataclass(frozen=True, slots=True)
class WilmerMemory:
    """One memory of a file. `text` is what the file says word for word, `pointer` tells where (RFC 6901)."""

    pointer: str
    text: str
    item: GeneratedMemory
    hash: str = ""
    """SHA-256 of the last message it tells of, where the file names it."""
    added: str = ""
    """When it was written, as the file says it."""


@dataclass(frozen=True, slots=True)
class WilmerFile:
    """What a file holds. A `tracker` of condensations holds nothing to keep."""

    kind: FileKind
    memories: tuple[WilmerMemory, ...] = ()
    rejected: tuple[str, ...] = ()
    """What could not be used, and why."""
    processed: str = ""
    """SHA-256 of the last message of which memories were made, or nothing worth one, where the file says it."""


def read_file(name: str, content: bytes) -> WilmerFile:
    """Read a file by its name. Raises `InvalidInput` for one that is not what its name says."""
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
        raise _refused(name, f"it contains a JSON {_called(data)} instead of a list")
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
    """Return the JSON value of a file, or the list of those of its lines (older versions wrote `.jsonl`)."""
    try:
        text = content.decode("utf-8-sig")
        if name.lower().endswith(".jsonl") and not text.lstrip().startswith("["):
            return _lines(text)
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _refused(name, "it is not valid JSON; it may be encrypted or truncated") from error


def _lines(text: str) -> list[object]:
    """Return the value of each line, `None` for a damaged one. Raises `ValueError` where none is an object."""
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
    report = _Rows()
    try:
        with closing(apsw.Connection(":memory:")) as rows:
            rows.deserialize("main", content)
            # Foreign data: nothing in its schema may run functions of ours.
            rows.execute("PRAGMA trusted_schema=OFF")
            for number, *texts in rows.execute(_MEMORIES):
                report.take(number, *map(_decoded, texts))
            processed = _tracked(rows)
    except apsw.Error as error:
        raise _refused(name, f"its table 'memories' cannot be read ({error})") from error
    return WilmerFile("memories", tuple(report.memories), tuple(report.rejected), processed)


def _tracked(rows: apsw.Connection) -> str:
    """Return the hash that the tracker of a database holds, whatever its column is called; empty without one."""
    if not rows.execute("SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = ?", (_TRACKER,)).fetchone():
        return ""
    values = (str(value) for row in rows.execute(_TRACKED) for value in row)
    return next(filter(_HASH.fullmatch, values), "")


@dataclass(slots=True)
class _Rows:
    """The rows of a database, as far as they are read."""

    memories: list[WilmerMemory] = field(default_factory=list)
    rejected: list[str] = field(default_factory=list)

    def take(self, number: object, text: str, added: str, metadata: str) -> None:
        if not text.strip():
            self.rejected.append(f"row {number}: it has no memory_text")
            return
        item = _plain(text)
        try:
            item = _described(text, json.loads(metadata or "{}"))
        except (ValueError, TypeError, RecursionError):
            self.rejected.append(f"row {number}: its metadata_json is invalid; the text was stored without it")
        self.memories.append(WilmerMemory(f"/memories/{number}", text, item, added=added))


def _decoded(stored: object) -> str:
    """Return a stored text, or an empty one if it is not text."""
    try:
        return stored.decode() if isinstance(stored, bytes) else ""
    except UnicodeDecodeError:
        return ""


def _plain(text: str) -> GeneratedMemory:
    return GeneratedMemory(title=first_words(text), summary=text)


def _described(text: str, metadata: object) -> GeneratedMemory:
    """Make an item of a text and its metadata. Raises `TypeError` where that is not a JSON object."""
    if not isinstance(metadata, Mapping):
        raise TypeError("it is not an object")
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
    return tuple(_each(value if isinstance(value, list) else [value]))


def _each(values: Iterable[object]) -> Iterator[str]:
    yield from (text for value in values if (text := _text(value)))


def _is_unicode(text: str) -> bool:
    """Tell whether a text can be written: JSON escapes can name half a character."""
    return not any("\ud800" <= char <= "\udfff" for char in text)


def _called(value: object) -> str:
    return "object" if isinstance(value, dict) else type(value).__name__


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
# As bytes, so that one text that is not UTF-8 does not hide the others.
_MEMORIES = (
    "SELECT id, CAST(memory_text AS BLOB), CAST(date_added AS BLOB), CAST(metadata_json AS BLOB) "
    "FROM memories ORDER BY id"
)
# What Fernet (of the package cryptography) makes of a text: base 64 that begins with its version and the time.
_TOKEN = re.compile(r"gAAAA[\w-]+=*")
_SQLITE = b"SQLite format 3\0"
_TRACKER = "vector_memory_tracker"
_TRACKED = "SELECT * FROM vector_memory_tracker LIMIT 1"
_HASH = re.compile(r"[0-9a-f]{64}")
_MOST_BYTES = 200_000_000
_MOST_TITLE = 300


# A discussion as the files in which WilmerAI keeps one.


MEMORIES, SUMMARY, DATABASE, STATE = "memories.jsonl", "summary.jsonl", "vector_memory.db", "state_document.md"


def wilmer_files(discussion: Discussion) -> dict[str, bytes]:
    """Return the files of a discussion by name, those that would be empty left out.

    The database holds every memory with what it can be found by.
    """
    told = [_Told(memory, _hash(memory, discussion.messages())) for memory in discussion.all_memories()]
    state = discussion.state()
    files = {
        MEMORIES: _as_lines(_block(one.memory.item.summary, one.hash) for one in told),
        SUMMARY: _as_lines(_summary(discussion, told)),
        DATABASE: _as_database(discussion, told),
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


def _as_lines(lines: Iterator[Mapping[str, str]]) -> bytes:
    return "".join(f"{json.dumps(line, ensure_ascii=False)}\n" for line in lines).encode()


def _as_database(discussion: Discussion, told: Sequence[_Told]) -> bytes:
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
