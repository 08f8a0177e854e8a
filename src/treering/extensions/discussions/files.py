"""A discussion as plain files: its messages and memories, all versions of its summary, and its state document.

`messages.jsonl`, `chunks.jsonl`, `memories.jsonl` and `summary.jsonl` contain one JSON object per line. Positions are
accompanied by the SHA-256 of a message: of the message itself, or of the last message that a memory or summary covers.
`state.md` is the state document; a comment names the version, so that an edit can be merged.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import ClassVar, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from treering.core.canonical import canonical_json
from treering.extensions.discussions.generators.generator import GeneratedMemory
from treering.extensions.discussions.identity import DiscussionRef
from treering.extensions.discussions.log.blocks import ChunkStatus
from treering.extensions.discussions.log.message_log import MessageLog
from treering.extensions.discussions.summaries.state import state_text
from treering.extensions.discussions.summaries.versions import Memories, Versions
from treering.verbs.engine import Engine

MESSAGES = "messages.jsonl"
CHUNKS = "chunks.jsonl"
MEMORIES = "memories.jsonl"
SUMMARY = "summary.jsonl"
STATE = "state.md"
NAMES = (MESSAGES, CHUNKS, MEMORIES, SUMMARY, STATE)

Files = Mapping[str, str]
"""The text of each file, by file name."""


class _FileLine(BaseModel):
    """One line of a file. Unknown fields are ignored."""

    model_config: ClassVar[ConfigDict] = ConfigDict(frozen=True, extra="ignore")


class MessageLine(_FileLine):
    """A message and its position; a deleted message has no text.

    `after`: the message starts a part that continues the message before this position; 0 continues none.
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
    """A range of messages that was processed: memories were made, or nothing was worth one."""

    first: int = Field(ge=0)
    last: int = Field(ge=0)
    key: str = Field(min_length=1)
    status: ChunkStatus


class MemoryLine(_FileLine):
    """A memory, the messages it covers, and whether it replaces the older memories of these messages."""

    first: int
    last: int
    hash: str = ""
    at: AwareDatetime | None = None
    condensed: bool = False
    made_by: str = ""
    memory: GeneratedMemory


class VersionLine(_FileLine):
    """A version of the summary, and the position of the last message it covers."""

    number: int
    text: str = Field(min_length=1)
    position: int = Field(ge=-1)
    hash: str = ""
    made_by: str = ""
    at: AwareDatetime | None = None


class StateMark(_FileLine):
    """The version of the state document in a file, and the lines that people added or removed."""

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


def message_hash(text: str) -> str:
    """Return the SHA-256 of the text of a message, in hexadecimal digits."""
    return sha256(text.encode()).hexdigest()


def exported(engine: Engine, ref: DiscussionRef) -> dict[str, str]:
    """Return the texts of the files of a discussion, without withdrawn content."""
    messages = list(_messages(engine, ref))
    hashes = [line.hash for line in messages]
    return {
        MESSAGES: _lines(messages),
        CHUNKS: _lines(_chunks(engine, ref)),
        MEMORIES: _lines(_memories(engine, ref, hashes)),
        SUMMARY: _lines(_summary(engine, ref, hashes)),
        STATE: _state(engine, ref),
    }


def read_lines(files: Files, name: str, kind: type[AnyLine], rejected: list[str]) -> list[AnyLine]:
    """Return the valid lines of a file; add the reason for each invalid one to `rejected`."""
    lines: list[AnyLine] = []
    for number, line in enumerate(files.get(name, "").split("\n"), start=1):
        if line.strip():
            try:
                lines.append(kind.model_validate_json(line))
            except ValidationError as error:
                rejected.append(f"{name} line {number}: {_problem(error)}")
    return lines


def read_state(files: Files) -> tuple[str, StateMark | None]:
    """Return the state document without its marks, and the last mark if it is present and valid.

    A line appended to the file follows the mark.
    """
    text = files.get(STATE, "").strip()
    marks = _MARK.findall(text)
    try:
        mark = StateMark.model_validate_json(marks[-1]) if marks else None
    except ValidationError:
        mark = None
    return _MARK.sub("", text).strip(), mark


def _lines(lines: Iterable[_FileLine]) -> str:
    return "".join(f"{line.model_dump_json(exclude_defaults=True)}\n" for line in lines)


def _last_hash(hashes: Sequence[str], last: int) -> str:
    """Return the hash of the last undeleted message up to a position, or an empty string."""
    return next(filter(None, reversed(hashes[: last + 1])), "") if last >= 0 else ""


def _messages(engine: Engine, ref: DiscussionRef) -> Iterator[MessageLine]:
    for message in MessageLog(engine, ref).read():
        yield MessageLine(
            position=message.position,
            role=message.role,
            speaker=message.speaker if message.speaker != message.role else "",
            text=message.text,
            hash="" if message.deleted else message_hash(message.text),
            at=message.at,
            deleted=message.deleted,
            after=message.after,
        )


def _chunks(engine: Engine, ref: DiscussionRef) -> Iterator[ChunkLine]:
    for state in MessageLog(engine, ref).chunks():
        yield ChunkLine(first=state.first, last=state.last, key=state.key, status=state.status)


def _memories(engine: Engine, ref: DiscussionRef, hashes: Sequence[str]) -> Iterator[MemoryLine]:
    """Yield all memories in order, condensations last."""
    memories = Memories(engine, ref)
    shown = memories.all()
    single = [*(memory for memory in shown if memory.last < 0), *memories.after(-1)]
    for memory in [*single, *(memory for memory in shown if memory.condensed)]:
        yield MemoryLine(
            first=memory.first,
            last=memory.last,
            hash=_last_hash(hashes, memory.last),
            at=memory.at,
            condensed=memory.condensed,
            memory=memory.item,
        )


def _summary(engine: Engine, ref: DiscussionRef, hashes: Sequence[str]) -> Iterator[VersionLine]:
    for version in Versions(engine, ref, "rolling_summary").surviving():
        yield VersionLine(
            number=version.number,
            text=version.text,
            position=version.last,
            hash=_last_hash(hashes, version.last),
            made_by=version.made_by,
            at=version.at,
        )


def _state(engine: Engine, ref: DiscussionRef) -> str:
    state = Versions(engine, ref, "state_document").state()
    current = state.current
    mark = {
        "version": current.id if current else "",
        "position": current.last if current else -1,
        "messages": MessageLog(engine, ref).count(),
        "made_by": current.made_by if current else "",
        "by_hand": state.by_hand,
        "struck_by_hand": state.struck_by_hand,
    }
    # A comment ends at the first `-->`, so it must not contain one.
    data = canonical_json(mark).replace(">", "\\u003e")
    return f"{state_text(engine, ref)}\n\n<!-- treering: {data} -->\n".lstrip()


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}"


_MARK = re.compile(r"^[ \t]*<!-- treering: (\{.*?\}) -->[ \t]*\n?", re.MULTILINE)
