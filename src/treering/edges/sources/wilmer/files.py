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

from treering.core.errors import InvalidInput
from treering.memories.discussion.generators.generator import GeneratedMemory
from treering.memories.discussion.generators.parsing import first_words

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
        raise _refused(name, f"it has {len(content)} bytes, and {_MOST_BYTES} are the most")
    if name.lower().endswith(".db"):
        return _database(name, content)
    if kind == "state":
        return _document(name, content)
    data = _json(name, content)
    if kind == "tracker":
        return WilmerFile(kind)
    if not isinstance(data, list):
        raise _refused(name, f"it holds a JSON {_called(data)} where a list belongs")
    return _blocks(kind, data)


def _kind_of(name: str) -> FileKind:
    stem = name.lower()
    for ending, kind in _ENDINGS.items():
        if stem.endswith(ending):
            return kind
    raise InvalidInput(
        f"{name!r} is not a file of WilmerAI that can be imported.",
        hint=f"Its name has to end with one of: {', '.join(_ENDINGS)}.",
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
        raise _refused(name, "it is not JSON; it may be encrypted or cut off") from error


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
        raise _refused(name, "it is not text; it may be encrypted") from error
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
        raise _refused(name, "it is not a SQLite database; it may be encrypted or cut off")
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
            self.rejected.append(f"row {number}: its metadata_json cannot be read; the text was kept without it")
        self.memories.append(WilmerMemory(f"/memories/{number}", text, item, added=added))


def _decoded(stored: object) -> str:
    """Return a stored text, an empty one for what is none."""
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
        hint="Give the file as WilmerAI writes it without encryption (decrypt it with the API key first).",
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
