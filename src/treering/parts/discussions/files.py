"""A discussion as plain files: its messages and memories, all versions of its summary, and its state document.

`messages.jsonl`, `chunks.jsonl`, `memories.jsonl` and `summary.jsonl` hold one JSON object per line. Beside positions
stand the SHA-256 of messages: its own, or that of the last message a memory or a summary tells of. `state.md` is the
state document; its last line, a comment, says which version it is, so that an edit of it can be merged.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import ClassVar, Generic, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from treering.core.canonical import canonical_json
from treering.core.errors import NotFound
from treering.parts.discussions.generators.generator import GeneratedMemory
from treering.parts.discussions.identity import DiscussionRef
from treering.parts.discussions.log.blocks import ChunkStatus
from treering.parts.discussions.log.message_log import MessageLog
from treering.parts.discussions.summaries.state import state_text
from treering.parts.discussions.summaries.versions import Memories, Versions
from treering.verbs.engine import Engine

MESSAGES = "messages.jsonl"
CHUNKS = "chunks.jsonl"
MEMORIES = "memories.jsonl"
SUMMARY = "summary.jsonl"
STATE = "state.md"
NAMES = (MESSAGES, CHUNKS, MEMORIES, SUMMARY, STATE)

Files = Mapping[str, str]
"""Files by name, each with its text."""


class _FileLine(BaseModel):
    """One line of a file. What it holds besides is left alone."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")


class MessageLine(_FileLine):
    """A message and its position; a deleted one has no text.

    `after`: it continues not the message before it, but the one before this position, or none (0).
    """

    position: int = Field(ge=0)
    role: str = ""
    speaker: str = ""
    text: str = ""
    hash: str = ""
    at: AwareDatetime | None = None
    deleted: bool = False
    after: int | None = Field(default=None, ge=0)


class ChunkLine(_FileLine):
    """Messages of which memories were made, or nothing worth one."""

    first: int = Field(ge=0)
    last: int = Field(ge=0)
    key: str = Field(min_length=1)
    status: ChunkStatus


class MemoryLine(_FileLine):
    """A memory, the messages it tells of, and whether it stands for the older memories of these messages."""

    first: int
    last: int
    hash: str = ""
    at: AwareDatetime | None = None
    condensed: bool = False
    made_by: str = ""
    memory: GeneratedMemory


class VersionLine(_FileLine):
    """A version of the summary, and the position of the last message it tells of."""

    number: int
    text: str = Field(min_length=1)
    position: int = Field(ge=-1)
    hash: str = ""
    made_by: str = ""
    at: AwareDatetime | None = None


class StateMark(_FileLine):
    """Which version of the state document a file holds, and what people wrote into it or struck out."""

    version: str = ""
    position: int = -1
    messages: int | None = None
    """The number of messages that the document knows."""
    by_hand: tuple[str, ...] = ()
    struck_by_hand: tuple[str, ...] = ()
    made_by: str = ""

    @property
    def last_message(self) -> int | None:
        """The position of the last message that the document knows, if the mark names it."""
        return None if self.messages is None else self.messages - 1


AnyLine = TypeVar("AnyLine", bound=_FileLine)


@dataclass(frozen=True, slots=True)
class LinesRead(Generic[AnyLine]):
    """The lines of a file that could be read, and for the others, which and why."""

    lines: tuple[AnyLine, ...]
    rejected: tuple[str, ...] = ()


def message_hash(text: str) -> str:
    """Return the SHA-256 of what a message says, in hexadecimal digits."""
    return sha256(text.encode()).hexdigest()


def exported(engine: Engine, ref: DiscussionRef) -> dict[str, str]:
    """Write a discussion as the texts of files. What was withdrawn is not in them."""
    messages = list(_messages(engine, ref))
    hashes = _LastHashes([line.hash for line in messages])
    return {
        MESSAGES: _lines(messages),
        CHUNKS: _lines(_chunks(engine, ref)),
        MEMORIES: _lines(_memories(engine, ref, hashes)),
        SUMMARY: _lines(_summary(engine, ref, hashes)),
        STATE: _state(engine, ref),
    }


def read_lines(files: Files, name: str, kind: type[AnyLine]) -> LinesRead[AnyLine]:
    """Read a file of lines; one that is not there has none."""
    lines, rejected = list[AnyLine](), list[str]()
    for number, line in enumerate(files.get(name, "").split("\n"), start=1):
        if line.strip():
            try:
                lines.append(kind.model_validate_json(line))
            except ValidationError as error:
                rejected.append(f"{name} line {number}: {_problem(error)}")
    return LinesRead(tuple(lines), tuple(rejected))


def read_state(files: Files) -> tuple[str, StateMark | None]:
    """Read the state document, and what its last line says of it, where it is there and whole."""
    text = files.get(STATE, "").strip()
    begin = text.find("<!-- treering: {", text.rfind("\n") + 1)
    found = _MARK.match(text, begin) if begin >= 0 else None
    if found is None:
        return text, None
    try:
        mark = StateMark.model_validate_json(found[1])
    except ValidationError:
        mark = None
    return text[: found.start()].strip(), mark


def check_files(files: Files) -> None:
    """Raise `NotFound` where none of the files is of a discussion."""
    if not files.keys() & {MESSAGES, MEMORIES, SUMMARY, STATE}:
        raise NotFound("These files do not contain a discussion.", hint=f"Give {MESSAGES} or {STATE}.")


def _lines(lines: Iterable[_FileLine]) -> str:
    return "".join(f"{line.model_dump_json(exclude_defaults=True)}\n" for line in lines)


@dataclass(frozen=True, slots=True)
class _LastHashes:
    """The hashes of messages by position; empty for deleted ones."""

    by_position: list[str]

    def up_to(self, last: int) -> str:
        """Return the hash of the last message up to a position that is not deleted; empty where there is none."""
        return next(filter(None, reversed(self.by_position[: last + 1])), "") if last >= 0 else ""


def _messages(engine: Engine, ref: DiscussionRef) -> Iterator[MessageLine]:
    for kept in MessageLog(engine, ref).read():
        yield MessageLine(
            position=kept.position,
            role=kept.role,
            speaker=kept.speaker if kept.speaker != kept.role else "",
            text=kept.text,
            hash="" if kept.deleted else message_hash(kept.text),
            at=kept.at,
            deleted=kept.deleted,
            after=kept.after,
        )


def _chunks(engine: Engine, ref: DiscussionRef) -> Iterator[ChunkLine]:
    log = MessageLog(engine, ref)
    for head in log.blocks():
        for state in log.block(head).chunks:
            yield ChunkLine(first=state.first, last=state.last, key=state.key, status=state.status)


def _memories(engine: Engine, ref: DiscussionRef, hashes: _LastHashes) -> Iterator[MemoryLine]:
    """Return all memories in order, each condensation after what it stands for."""
    memories = Memories(engine, ref)
    shown = memories.all()
    single = [*(memory for memory in shown if memory.last < 0), *memories.after(-1)]
    for memory in [*single, *(memory for memory in shown if memory.condensed)]:
        yield MemoryLine(
            first=memory.first,
            last=memory.last,
            hash=hashes.up_to(memory.last),
            at=memory.at,
            condensed=memory.condensed,
            memory=memory.item,
        )


def _summary(engine: Engine, ref: DiscussionRef, hashes: _LastHashes) -> Iterator[VersionLine]:
    for version in Versions(engine, ref, "rolling_summary").standing():
        yield VersionLine(
            number=version.number,
            text=version.text,
            position=version.last,
            hash=hashes.up_to(version.last),
            made_by=version.made_by,
            at=version.at,
        )


def _state(engine: Engine, ref: DiscussionRef) -> str:
    stand = Versions(engine, ref, "state_document").stand()
    current = stand.current
    mark = {
        "version": current.id if current else "",
        "position": current.last if current else -1,
        "messages": MessageLog(engine, ref).count(),
        "made_by": current.made_by if current else "",
        "by_hand": stand.by_hand,
        "struck_by_hand": stand.struck_by_hand,
    }
    # A comment ends at the first `-->`, so none may stand inside.
    data = canonical_json(mark).replace(">", "\\u003e")
    return f"{state_text(engine, ref)}\n\n<!-- treering: {data} -->\n".lstrip()


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}"


_MARK = re.compile(r"<!-- treering: (\{.*\}) -->\Z")
