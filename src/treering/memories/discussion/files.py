"""A discussion as plain files: its messages and memories, all versions of its summary, and its state document.

`messages.jsonl`, `chunks.jsonl`, `memories.jsonl` and `summary.jsonl` hold one JSON object per line. `state.md` is
the state document; its last line, a comment, says which version it is, so that an edit of it can be merged.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Generic, TypeVar

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, ValidationError

from treering.core.canonical import canonical_json
from treering.core.errors import NotFound, Unavailable
from treering.memories.discussion.generating import MemoryItem
from treering.memories.discussion.identity import Place
from treering.memories.discussion.kept import ChunkStatus
from treering.memories.discussion.log import MessageLog
from treering.memories.discussion.reading import Memories
from treering.memories.discussion.state import text_in
from treering.memories.discussion.versions import Versions
from treering.tools.engine import Engine

MESSAGES = "messages.jsonl"
CHUNKS = "chunks.jsonl"
MEMORIES = "memories.jsonl"
SUMMARY = "summary.jsonl"
STATE = "state.md"


class _Line(BaseModel):
    """One line of a file. What it holds besides is left alone."""

    model_config = ConfigDict(frozen=True, extra="ignore")


class MessageLine(_Line):
    """A message and its position; a deleted one has no text."""

    position: int = Field(ge=0)
    role: str = ""
    speaker: str = ""
    text: str = ""
    at: AwareDatetime | None = None
    deleted: bool = False


class ChunkLine(_Line):
    """Messages of which memories were made, or nothing worth one."""

    first: int = Field(ge=0)
    last: int = Field(ge=0)
    key: str = Field(min_length=1)
    status: ChunkStatus


class MemoryLine(_Line):
    """A memory, the messages it tells of, and whether it stands for the older memories of these messages."""

    first: int
    last: int
    at: AwareDatetime | None = None
    condensed: bool = False
    made_by: str = ""
    memory: MemoryItem


class VersionLine(_Line):
    """A version of the summary, and the position of the last message it tells of."""

    number: int
    text: str = Field(min_length=1)
    position: int = Field(ge=-1)
    made_by: str = ""
    at: AwareDatetime | None = None


class StateMark(_Line):
    """Which version of the state document a file holds, and what people wrote into it or struck out."""

    version: str = ""
    position: int = -1
    by_hand: tuple[str, ...] = ()
    struck_by_hand: tuple[str, ...] = ()
    made_by: str = ""


AnyLine = TypeVar("AnyLine", bound=_Line)


@dataclass(frozen=True, slots=True)
class Read(Generic[AnyLine]):
    """The lines of a file that could be read, and for the others, which and why."""

    lines: tuple[AnyLine, ...]
    rejected: tuple[str, ...] = ()


def export_discussion(engine: Engine, place: Place, folder: Path) -> dict[str, int]:
    """Write a discussion as files into a folder; give the number of lines of each.

    Each file is whole, or as it was before. What was withdrawn is not written. Raises `Unavailable` where the folder
    cannot be written.
    """
    tables: dict[str, list[_Line]] = {
        MESSAGES: list(_messages(engine, place)),
        CHUNKS: list(_chunks(engine, place)),
        MEMORIES: list(_memories(engine, place)),
        SUMMARY: list(_summary(engine, place)),
    }
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, lines in tables.items():
            _write(folder / name, "".join(f"{line.model_dump_json(exclude_defaults=True)}\n" for line in lines))
        _write(folder / STATE, _state(engine, place))
    except OSError as error:
        raise Unavailable(f"{folder} cannot be written: {error.strerror}.", hint="Choose another place.") from error
    return {name: len(lines) for name, lines in tables.items()}


def read_lines(folder: Path, name: str, kind: type[AnyLine]) -> Read[AnyLine]:
    """Read a file of lines; one that is not there has none."""
    lines, rejected = list[AnyLine](), list[str]()
    for number, line in enumerate(read_text(folder / name).split("\n"), start=1):
        if line.strip():
            try:
                lines.append(kind.model_validate_json(line))
            except ValidationError as error:
                rejected.append(f"{name} line {number}: {_problem(error)}")
    return Read(tuple(lines), tuple(rejected))


def read_state(folder: Path) -> tuple[str, StateMark | None]:
    """Read the state document, and what its last line says of it, where it is there and whole."""
    text = read_text(folder / STATE)
    found = _MARK.search(text)
    if found is None:
        return text.strip(), None
    try:
        mark = StateMark.model_validate_json(found[1])
    except ValidationError:
        mark = None
    return text[: found.start()].strip(), mark


def read_text(path: Path) -> str:
    """Read a file; one that is not there is empty. Raises `Unavailable` where it cannot be read."""
    try:
        return path.read_bytes().decode(errors="replace") if path.is_file() else ""
    except OSError as error:
        raise Unavailable(f"{path} cannot be read: {error.strerror}.", hint="Allow reading it.") from error


def check_folder(folder: Path) -> None:
    """Raise `NotFound` where a folder holds no file of a discussion."""
    if not any((folder / name).is_file() for name in (MESSAGES, MEMORIES, SUMMARY, STATE)):
        raise NotFound(f"{folder} holds no discussion.", hint=f"Name a folder with {MESSAGES} or {STATE}.")


def _messages(engine: Engine, place: Place) -> Iterator[MessageLine]:
    for kept in MessageLog(engine, place).read():
        yield MessageLine(
            position=kept.position,
            role=kept.role,
            speaker=kept.speaker if kept.speaker != kept.role else "",
            text=kept.text,
            at=kept.at,
            deleted=kept.deleted,
        )


def _chunks(engine: Engine, place: Place) -> Iterator[ChunkLine]:
    log = MessageLog(engine, place)
    for head in log.blocks():
        for state in log.block(head).chunks:
            yield ChunkLine(first=state.first, last=state.last, key=state.key, status=state.status)


def _memories(engine: Engine, place: Place) -> Iterator[MemoryLine]:
    """Give all memories in order, each condensation after what it stands for."""
    memories = Memories(engine, place)
    shown = memories.all()
    single = [*(memory for memory in shown if memory.last < 0), *memories.after(-1)]
    for memory in [*single, *(memory for memory in shown if memory.condensed)]:
        yield MemoryLine(
            first=memory.first, last=memory.last, at=memory.at, condensed=memory.condensed, memory=memory.item
        )


def _summary(engine: Engine, place: Place) -> Iterator[VersionLine]:
    for version in Versions(engine, place, "rolling_summary").standing():
        yield VersionLine(
            number=version.number, text=version.text, position=version.last, made_by=version.made_by, at=version.at
        )


def _state(engine: Engine, place: Place) -> str:
    stand = Versions(engine, place, "state_document").stand()
    current = stand.current
    mark = {
        "version": current.id if current else "",
        "position": current.last if current else -1,
        "made_by": current.made_by if current else "",
        "by_hand": stand.by_hand,
        "struck_by_hand": stand.struck_by_hand,
    }
    # A comment ends at the first `-->`, so none may stand inside.
    data = canonical_json(mark).replace(">", "\\u003e")
    return f"{text_in(stand)}\n\n<!-- treering: {data} -->\n".lstrip()


def _write(path: Path, text: str) -> None:
    """Write a file as a whole: under another name first, then in the place of the old one."""
    with NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name}.", delete=False, encoding="utf-8") as file:
        partial = Path(file.name)
        try:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
            partial.replace(path)
        except OSError:
            partial.unlink(missing_ok=True)
            raise


def _problem(error: ValidationError) -> str:
    first = error.errors(include_url=False, include_input=False, include_context=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the line'}: {first['msg']}"


_MARK = re.compile(r"<!-- treering: (\{.*\}) -->\s*\Z")
