"""Meetings as subtitles: WebVTT and SubRip (SRT)."""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from treering.edges.sources.conversations.conversation import Conversation, ConversationDraft
from treering.edges.sources.conversations.dated import begun_at
from treering.tools.turns import Message


def are_vtt(text: str) -> bool:
    """Tell whether a text is WebVTT."""
    return _HEADER.match(text) is not None


def are_srt(text: str) -> bool:
    """Tell whether a text is SubRip: a number, a line of times, words."""
    return _FIRST_CUE.match(text) is not None


def read(text: str, name: str, form: str) -> Conversation:
    """Read cues as turns: those that follow each other of one speaker are one turn.

    A turn's id is where it begins, from the start of the recording. It has a time where the file or its name
    tells when that was.
    """
    blocks = _BLANK.split(text.replace("\r\n", "\n").replace("\r", "\n"))
    heads = "\n".join(block for block in blocks[:_HEADS] if not _TIMES.search(block))
    draft = ConversationDraft(form, kind="meeting_record", title=_title(heads), created=begun_at(name, heads))
    for turn in _joined(cue for block in blocks if (cue := _cue(block))):
        draft.messages.append(turn.message(draft.created))
    return draft.finished()


_HEADER = re.compile(r"\ufeff?WEBVTT(?:[ \t][^\n]*)?(?:\r?\n|\r|$)")
_STAMP = r"(?:\d{1,4}:)?[0-5]?\d:[0-5]\d[.,]\d{1,3}"
_TIMES = re.compile(rf"^[ \t]*(?P<start>{_STAMP})[ \t]*-->[ \t]*(?P<end>{_STAMP})[^\n]*$", re.MULTILINE)
_FIRST_CUE = re.compile(rf"\ufeff?\s*(?:\d+[ \t]*\r?\n)[ \t]*{_STAMP}[ \t]*-->[ \t]*{_STAMP}")
_BLANK = re.compile(r"\n[ \t]*\n")
_VOICE = re.compile(r"<v(?:\.[^\s<>]*)?[ \t]+(?P<name>[^>\n]{1,200})>")
_TAG = re.compile(r"</?(?:[a-zA-Z][^<>\n]{0,200}|[\d:.]{5,16})?>")
_NAMED = re.compile(r"(?P<name>[^\W\d_][\w.'’ -]{0,39}):[ \t]+(?=\S)")
_MOST_NAME_WORDS = 4
_HEADS = 3
_SILENCE = timedelta(seconds=30)
_PAUSE = timedelta(seconds=4)
_TURN_CHARS, _NAMELESS_CHARS = 1_500, 500


@dataclass(frozen=True, slots=True)
class _Cue:
    start: timedelta
    end: timedelta
    speaker: str
    lines: tuple[str, ...]


@dataclass(slots=True)
class _Turn:
    start: timedelta
    end: timedelta
    speaker: str
    lines: list[str] = field(default_factory=list)
    chars: int = 0

    def takes(self, cue: _Cue) -> bool:
        """Tell whether a cue goes on with this turn. Without a name, a pause or many words end a turn."""
        most, pause = (_TURN_CHARS, _SILENCE) if self.speaker else (_NAMELESS_CHARS, _PAUSE)
        return cue.speaker == self.speaker and self.chars < most and cue.start - self.end < pause

    def add(self, cue: _Cue) -> None:
        """Add the words of a cue; rolling subtitles show each line twice."""
        fresh = [line for line in cue.lines if line not in self.lines[-2:]]
        self.lines += fresh
        self.chars += sum(map(len, fresh))
        self.end = cue.end

    def message(self, begun: datetime | None) -> Message:
        at = begun + self.start if begun else None
        return Message(content=" ".join(self.lines), name=self.speaker, id=_shown(self.start), at=at)


def _title(heads: str) -> str:
    head = heads.partition("\n")[0].removeprefix("\ufeff")
    return head.removeprefix("WEBVTT").strip(" \t-") if head.startswith("WEBVTT") else ""


def _cue(block: str) -> _Cue | None:
    times = _TIMES.search(block)
    if times is None:  # a note, a style, the header
        return None
    said = block[times.end() :].strip()
    voice = _VOICE.search(said)
    lines = [html.unescape(_TAG.sub("", line)).strip() for line in said.split("\n")]
    lines = [line for line in lines if line]
    speaker = html.unescape(voice["name"]).strip() if voice else ""
    named = _NAMED.match(lines[0]) if lines and not speaker else None
    if named and len(named["name"].split()) <= _MOST_NAME_WORDS:
        speaker, lines[0] = named["name"].strip(), lines[0][named.end() :]
    return _Cue(_offset(times["start"]), _offset(times["end"]), speaker, tuple(lines)) if lines else None


def _joined(cues: Iterator[_Cue]) -> Iterator[_Turn]:
    turn: _Turn | None = None
    for cue in cues:
        if turn is None or not turn.takes(cue):
            if turn:
                yield turn
            turn = _Turn(cue.start, cue.end, cue.speaker)
        turn.add(cue)
    if turn:
        yield turn


def _offset(stamp: str) -> timedelta:
    *hours, minutes, seconds = stamp.replace(",", ".").split(":")
    return timedelta(hours=int(hours[0]) if hours else 0, minutes=int(minutes), seconds=float(seconds))


def _shown(offset: timedelta) -> str:
    seconds, rest = divmod(offset // timedelta(milliseconds=1), 1_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"
