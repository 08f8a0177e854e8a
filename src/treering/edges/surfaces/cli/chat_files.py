"""Reading one conversation out of a file, or out of stdin."""

import sys
from collections.abc import Sequence
from pathlib import Path

from treering.core.characters import visible_line
from treering.core.errors import InvalidInput, NotFound
from treering.edges.sources.conversations.conversation import Conversation, Conversations
from treering.edges.sources.conversations.exports import read_conversations
from treering.edges.sources.conversations.recognise import may_be_read

STDIN = "-"


def read_conversation(file: Path, wanted: str) -> tuple[Conversation, tuple[str, ...]]:
    """Return the conversation of a file, the one `wanted` by id or title, and what a person should know of the reading.

    `-` is stdin. Raises `InvalidInput` where there is none, where there are several and none or more than one is
    meant, or where nothing is said in it; `NotFound` for one that the file does not hold; `OSError`.
    """
    piped = str(file) == STDIN
    name = "stdin" if piped else file.name
    found = _read(sys.stdin.buffer.read() if piped else file.read_bytes(), name)
    if not found.conversations:
        raise InvalidInput(f"No conversation was found: {'; '.join(found.problems[:_FEW])}.", hint=_FORMS)
    chosen = _chosen(found.conversations, name, wanted)
    if not chosen.messages:
        raise InvalidInput(f"The conversation in {name} has no messages.", hint="Name another one.")
    return chosen, (*chosen.notes, *found.problems)


def _read(data: bytes, name: str) -> Conversations:
    """Read by the ending of the name; where that says nothing, as all that it may be, in turn."""
    if may_be_read(name):
        return read_conversations(data, name)
    tried = (read_conversations(data, f"{_CALLED}{ending}") for ending in _ENDINGS)
    nothing = Conversations((), (f"{name} holds no conversations of a form known here",))
    return next((found for found in tried if found.conversations), nothing)


def _chosen(known: Sequence[Conversation], name: str, wanted: str) -> Conversation:
    named = [one for one in known if wanted and one.id == wanted]
    fitting = named or [one for one in known if not wanted or one.title.casefold() == wanted.casefold()]
    if len(fitting) == 1:
        return fitting[0]
    if not fitting:
        raise NotFound(f"{name} holds no conversation {wanted!r}.", hint=_listed("It holds", known))
    called = f" called {wanted!r}" if wanted else ""
    raise InvalidInput(
        f"{name} holds {len(fitting)} conversations{called}.",
        hint=_listed("Name one with --conversation", fitting),
        details={"conversations": [{"id": one.id, "title": one.title} for one in fitting[:_MOST]]},
    )


def _listed(what: str, conversations: Sequence[Conversation]) -> str:
    lines = [visible_line(f"  {one.id}  {one.title}").rstrip() for one in conversations[:_MOST]]
    more = [f"  and {len(conversations) - _MOST} more"] if len(conversations) > _MOST else []
    return "\n".join([f"{what}:", *lines, *more])


_CALLED = "conversation"
_ENDINGS = (".json", ".jsonl", ".zip", ".vtt", ".srt", ".txt")
_FORMS = "Give an export of a chat program, JSON or JSON lines of {role, content}, subtitles or a transcript."
_FEW = 3
_MOST = 20
