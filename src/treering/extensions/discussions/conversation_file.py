"""Reading one conversation, or a text, from a file or from stdin."""

import sys
from collections.abc import Sequence
from pathlib import Path

from treering.core.characters import visible_line
from treering.core.errors import InvalidInput, NotFound
from treering.extensions.conversations.conversation import Conversation, Conversations
from treering.extensions.conversations.exports import may_be_read, read_conversations
from treering.surfaces.cli.request import read_stdin

_STDIN = "-"
_ENDINGS = (".json", ".jsonl", ".zip", ".vtt", ".srt", ".txt")
_FORMATS = "Give an export of a chat program, JSON or JSON lines of {role, content}, subtitles or a transcript."
_MAX_PROBLEMS = 3
_MAX_LISTED = 20


def read_text(file: Path) -> str:
    """Return the text of a file, `-` for stdin. Raises `InvalidInput` if it is not UTF-8."""
    if str(file) == _STDIN:
        return read_stdin()
    try:
        return file.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidInput(f"{file} is not UTF-8 text.", hint="Convert it, for instance with iconv.") from error


def read_conversation(file: Path, wanted: str) -> tuple[Conversation, tuple[str, ...]]:
    """Return the conversation in a file, selected by id or title if `wanted`, and notes on problems.

    `-` is stdin. Raises `InvalidInput` if there is none, if the selection is ambiguous or if the conversation is empty;
    `NotFound` if none has the id or title; `OSError`.
    """
    piped = str(file) == _STDIN
    name = "stdin" if piped else file.name
    content = _read(sys.stdin.buffer.read() if piped else file.read_bytes(), name)
    if not content.conversations:
        raise InvalidInput(f"No conversation was found: {'; '.join(content.problems[:_MAX_PROBLEMS])}.", hint=_FORMATS)
    conversation = _selected(content.conversations, name, wanted)
    if not conversation.messages:
        raise InvalidInput(f"The conversation in {name} has no messages.", hint="Choose another conversation.")
    return conversation, (*conversation.notes, *content.problems)


def _read(data: bytes, name: str) -> Conversations:
    """Read a file by the ending of its name, or else try all formats."""
    if may_be_read(name):
        return read_conversations(data, name)
    attempts = (read_conversations(data, f"conversation{ending}") for ending in _ENDINGS)
    nothing = Conversations((), (f"{name} contains no conversations in a known format",))
    return next((content for content in attempts if content.conversations), nothing)


def _selected(conversations: Sequence[Conversation], name: str, wanted: str) -> Conversation:
    by_id = [one for one in conversations if wanted and one.id == wanted]
    matches = by_id or [one for one in conversations if not wanted or one.title.casefold() == wanted.casefold()]
    if len(matches) == 1:
        return matches[0]
    if not matches:
        raise NotFound(f"{name} contains no conversation {wanted!r}.", hint=_listed("It holds", conversations))
    called = f" called {wanted!r}" if wanted else ""
    raise InvalidInput(
        f"{name} contains {len(matches)} conversations{called}.",
        hint=_listed("Choose one with --conversation", matches),
        details={"conversations": [{"id": one.id, "title": one.title} for one in matches[:_MAX_LISTED]]},
    )


def _listed(label: str, conversations: Sequence[Conversation]) -> str:
    lines = [visible_line(f"  {one.id}  {one.title}").rstrip() for one in conversations[:_MAX_LISTED]]
    more = [f"  and {len(conversations) - _MAX_LISTED} more"] if len(conversations) > _MAX_LISTED else []
    return "\n".join([f"{label}:", *lines, *more])
