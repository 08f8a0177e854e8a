"""A process that speaks in a discussion and updates its memory, until the talk is over.

`discussion_worker.py FOLDER NUMBER TURNS`: the space is FOLDER/space.db; process 0 says the even turns, process 1 the
odd ones. Whatever is killed is started again and goes on where the discussion stands.
"""

import os
import random
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import treering
from treering import Space
from treering.extensions.discussions.generators.generator import (
    Background,
    Chunk,
    DiscussionSettings,
    Generated,
    GeneratedMemory,
    GeneratedText,
)
from treering.extensions.discussions.memory import Discussion, DiscussionMemory
from treering.extensions.encoder.language_model import Usage
from treering.testing.fakes import HashingEmbedder
from treering.verbs.ingest.turns import Message

SETTINGS = DiscussionSettings(lease_seconds=1.0, retry_seconds=0.1)
_THINKING = 0.004  # seconds a model takes: long enough to be killed in the middle


class CountedModel:
    """Makes one memory of a chunk, and folds and merges by writing on. Every call is noted in a file before it.

    What it gives depends on nothing but what it is given, so that every run of the same talk ends alike.
    """

    name = "counted"

    def __init__(self, calls: Path, *, thinking: float = _THINKING) -> None:
        self._calls = os.open(calls, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._thinking = thinking

    def memories(self, chunk: Chunk, _background: Background) -> Generated:
        self._note("memories", chunk.lines[0].text)
        if all(line.text in _SHORT for line in chunk.lines):
            return Generated(())
        items = [GeneratedMemory(title=line.text[:20], summary=str(line)) for line in (chunk.lines[0], chunk.lines[-1])]
        return Generated(tuple(items), usage=Usage(requests=1))

    def condense(self, memories: Sequence[GeneratedMemory]) -> Generated:
        self._note("condense", memories[0].title)
        return Generated(tuple(memories[:1]))

    def fold(self, summary: str, memories: Sequence[GeneratedMemory]) -> GeneratedText:
        self._note("fold", memories[0].title)
        return GeneratedText("\n".join(filter(None, [summary, *(item.title for item in memories)])))

    def merge(self, facts: str, document: str) -> GeneratedText:
        self._note("merge", facts[:20])
        return GeneratedText(f"{document}\n{facts}".strip())

    def _note(self, kind: str, about: str) -> None:
        os.write(self._calls, f"{kind} {about!r}\n".encode())
        time.sleep(self._thinking)


def talk(turns: int) -> list[Message]:
    """Return what is said: each turn something of its own, but for the short answers; a pause now and then."""
    began = datetime(2025, 3, 1, 8, tzinfo=UTC)
    return [
        Message(
            content=_SHORT[turn % 2] if turn % 11 in (4, 5) else f"Turn {turn} is about {_THINGS[turn % 7]}.",
            role="user" if turn % 2 == 0 else "assistant",
            at=began + timedelta(minutes=turn, hours=6 * (turn // 75)),
        )
        for turn in range(turns)
    ]


def open_discussion(space: Space, calls: Path, *, thinking: float = _THINKING) -> Discussion:
    """Open the discussion that all processes speak in."""
    model = CountedModel(calls, thinking=thinking)
    return DiscussionMemory(space.engine, settings=SETTINGS, generator=model).open("soak")


def open_space(path: Path) -> Space:
    return treering.open(f"sqlite:{path}", background=False, embedder=HashingEmbedder())


def speak(discussion: Discussion, messages: Sequence[Message], number: int) -> None:
    """Say every second turn, and update the memory whoever spoke last."""
    chance = random.Random(number)
    while (count := discussion.log.count()) < len(messages):
        if count % 2 == number:
            discussion.append([messages[count]])
        else:
            time.sleep(_LISTENING)
        if chance.random() < _EAGER:
            discussion.update()


def main() -> None:
    folder, number, turns = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    with open_space(folder / "space.db") as space:
        discussion = open_discussion(space, folder / "calls")
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        speak(discussion, talk(turns), number)


_SHORT = ("ok", "thanks")
_THINGS = ("the harbour", "a boat", "東京タワー", "the wind", "Müller & Söhne", "an oar --ChunkBreak--", "[rain]")
_EAGER = 0.3
_LISTENING = 0.002

if __name__ == "__main__":
    main()
