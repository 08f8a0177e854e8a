"""Meetings as plain text: a line begins with who speaks."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import PurePosixPath

from treering.edges.sources.conversations.conversation import Conversation, ConversationDraft
from treering.edges.sources.conversations.dated import begun_at
from treering.edges.sources.loose_json import moment
from treering.tools.turns import Message


def is_speech(text: str, name: str) -> bool:
    """Tell whether a text is what several people said in turn.

    Most lines have to begin with a name, and two people have to speak. Where neither the file's name nor times
    beside the names say so, nearly all have to, everybody speaks twice, and in sentences.
    """
    lines = [line for line in text.splitlines()[:_LOOKED_AT] if line.strip()]
    found = [turn for line in lines if (turn := _begins(line))]
    speakers = Counter(map(_speaker, found))
    if len(speakers) < _FEWEST_SPEAKERS:
        return False
    share = len(found) / len(lines)
    if sum(_stamp(turn) != "" for turn in found) > len(found) / 2:
        return share > _SOME_LINES
    if _HINT.search(PurePosixPath(name).stem):
        return share > _MOST_LINES
    return share >= _NEARLY_ALL and _is_talk(speakers, found)


def read(text: str, name: str) -> Conversation:
    """Read its turns; lines without a name go on with the turn before them."""
    lines = text.splitlines()
    first = next((at for at, line in enumerate(lines) if _begins(line)), len(lines))
    head = "\n".join(lines[: min(first, _HEADS)])
    title = next((line.strip("#* \t") for line in lines[:first] if line.strip("#* \t")), "")
    draft = ConversationDraft("speaker-text", kind="meeting_record", title=title, created=begun_at(name, head))
    draft.messages = [turn.message(draft.created) for turn in _turns(lines[first:])]
    return draft.finished()


_CLOCK = r"\d{1,2}:[0-5]\d(?::[0-5]\d)?(?:[.,]\d{1,3})?"
_TIME = rf"(?:\d{{4}}-\d\d-\d\d[T ,]{{1,2}})?{_CLOCK}Z?"
_TURN = re.compile(
    rf"\s{{0,3}}(?:[\[(]?(?P<before>{_TIME})[\])]?[ \t]*(?:[-–][ \t]*)?)?"
    r"(?P<bold>\*\*)?(?P<name>[^\W\d_][\w.'’&/ -]{0,39}?)"
    rf"(?:[ \t]*[\[(](?P<after>{_TIME})[\])])?"
    r"(?(bold)(?::\*\*|\*\*:)|:)(?:[ \t]+(?P<words>\S.*)|[ \t]*$)"
)
_HINT = re.compile(
    r"transcript|meeting|conversation|interview|dialog|minutes|stand-?up|chat|(?:^|[-_ ])call", re.IGNORECASE
)
_HEADINGS = frozenset(
    "note notes todo fixme warning error info debug trace critical fatal hint tip example examples usage date time "
    "subject from to cc re name title author authors version license status summary description tags url http https "
    "file path type id key value fixed added changed removed deprecated security bug feature q a question answer "
    "attendees agenda action actions decision decisions where when who why what how step input output returns args "
    "parameters raises see warn feat fix docs chore refactor test tests build ci perf style revert".split()
)
_LOOKED_AT = 2_000
_HEADS = 8
_FEWEST_SPEAKERS, _MOST_SPEAKERS, _TWICE = 2, 12, 2
_MOST_NAME_WORDS = 4
_SENTENCE = 4
_SOME_LINES, _MOST_LINES, _NEARLY_ALL = 0.3, 0.5, 0.8


@dataclass(slots=True)
class _Turn:
    speaker: str
    stamp: str
    lines: list[str]

    def message(self, begun: datetime | None) -> Message:
        at = _moment(self.stamp, begun)
        return Message(content="\n".join(self.lines).strip(), name=self.speaker, id=self.stamp, at=at)


def _turns(lines: Sequence[str]) -> Iterator[_Turn]:
    turn: _Turn | None = None
    for line in lines:
        if found := _begins(line):
            if turn:
                yield turn
            turn = _Turn(_speaker(found), _stamp(found), [found["words"] or ""])
        elif turn:
            turn.lines.append(line.strip())
    if turn:
        yield turn


def _speaker(turn: re.Match[str]) -> str:
    return turn["name"].strip()


def _stamp(turn: re.Match[str]) -> str:
    return turn["before"] or turn["after"] or ""


def _begins(line: str) -> re.Match[str] | None:
    """Find a name at the beginning of a line. A word that heads a list is none."""
    found = _TURN.match(line)
    return found if found and _is_name(_speaker(found)) else None


def _is_name(name: str) -> bool:
    return len(name.split()) <= _MOST_NAME_WORDS and name.casefold() not in _HEADINGS


def _is_talk(speakers: Counter[str], found: Sequence[re.Match[str]]) -> bool:
    counts = speakers.values()
    words = sum(len((turn["words"] or "").split()) for turn in found)
    named = all(name[0] == name[0].upper() for name in speakers)
    return named and min(counts) >= _TWICE and len(counts) <= _MOST_SPEAKERS and words >= _SENTENCE * len(found)


def _moment(stamp: str, begun: datetime | None) -> datetime | None:
    """Return the time of a stamp: by itself where it has a day, else on the day the file tells."""
    if "-" in stamp:
        return moment(re.sub(r"[T ,]+", "T", stamp.replace(",", " "), count=1))
    if begun is None or not stamp:
        return None
    hours, minutes, *seconds = re.split(r"[:]", stamp.rstrip("Z").replace(",", "."))
    since = timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds[0]) if seconds else 0)
    return begun.replace(hour=0, minute=0, second=0, microsecond=0) + since
