"""What surfaces show as current of a conversation, line by line."""

import re
from collections.abc import Iterator, Sequence

from benchmarks.truth.conversations import Conversation
from benchmarks.truth.scoring import ShownLine
from treering.extensions.discussions.generators.built_in import BuiltInGenerator
from treering.extensions.discussions.generators.generator import Background, Chunk, SpokenLine
from treering.extensions.discussions.generators.utterances import lines_of
from treering.extensions.statements.document import NOT_CURRENT

_LINE = re.compile(
    r"- (?P<speaker>[^:]+): (?P<text>.*?)(?: \((?:was|until then): (?P<was>.*)\))? \[[^\]]*message \d+\]"
)
_CHUNK = 5
"""Messages of a chunk, as by default."""


def state_lines(document: str) -> Iterator[ShownLine]:
    """Return the lines of a state document that say what holds."""
    heading = ""
    for row in document.splitlines():
        if row.startswith("#"):
            heading = row.lstrip("# ")
        elif heading not in NOT_CURRENT and (line := _LINE.fullmatch(row)):
            yield ShownLine(
                f"{line['speaker']}: {line['text']}", line["speaker"].partition(" (")[0], was=line["was"] or ""
            )


def newest_first(conversation: Conversation, words: float) -> list[ShownLine]:
    """Return the last messages, newest first, as many as about so many words allow; one at least."""
    lines: list[ShownLine] = []
    for message in reversed(conversation.messages):
        line = ShownLine(f"{message.speaker} ({message.at:%Y-%m-%d}): {message.text}", message.speaker)
        words -= len(line.text.split())
        if lines and words < 0:
            break
        lines.append(line)
    return lines


def earlier_state(conversation: Conversation) -> list[ShownLine]:
    """Return the state document as it was written before the ledger: memories of all chunks, merged line by line."""
    generator, document = BuiltInGenerator(), ""
    spoken = [SpokenLine(one.speaker, one.text, one.at, at) for at, one in enumerate(conversation.messages)]
    nothing = Background(recent=lambda: (), everything=lambda: (), summary=lambda: "")
    for start in range(0, len(spoken), _CHUNK):
        chunk = Chunk(tuple(spoken[start : start + _CHUNK]))
        facts = [f"- {line}" for item in generator.memories(chunk, nothing).items for line in lines_of(item)]
        document = generator.merge("\n".join(facts), document).text if facts else document
    names = {one.speaker for one in conversation.messages}
    return [ShownLine(row, _speaker(row, names)) for row in document.splitlines() if row.startswith("- ")]


def word_count(lines: Sequence[ShownLine]) -> int:
    """Return how many words lines have."""
    return sum(len(f"{line.text} {line.was}".split()) for line in lines)


def _speaker(row: str, names: set[str]) -> str:
    bare = re.sub(r"^- (?:\[[\d-]+\] )?", "", row)
    return next((name for name in names if bare.startswith(f"{name}: ")), "")
