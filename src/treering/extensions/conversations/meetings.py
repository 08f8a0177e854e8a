"""Meetings as plain text, whose lines begin with the speaker, and as subtitles."""

import html
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from treering.extensions.conversations.conversation import Conversation, ConversationDraft, begun_at
from treering.extensions.conversations.loose_json import moment
from treering.ports.format import posix_path
from treering.verbs.ingest.turns import Message


def _is_speech(text: str, name: str) -> bool:
    """Return whether a text is a transcript of several speakers.

    Most lines must begin with a name, and there must be two speakers. If neither the file's name nor times next to the
    names indicate a transcript, nearly all lines must, and every speaker must speak twice, in sentences.
    """
    lines = [line for line in text.splitlines()[:_LOOKED_AT] if line.strip()]
    turns = [turn for line in lines if (turn := _begins(line))]
    speakers = Counter(map(_speaker, turns))
    if len(speakers) < _FEWEST_SPEAKERS:
        return False
    share = len(turns) / len(lines)
    if sum(_stamp(turn) != "" for turn in turns) > len(turns) / 2:
        return share > _SOME_LINES
    if _HINT.search(posix_path(name).stem):
        return share > _MOST_LINES
    return share >= _NEARLY_ALL and _is_talk(speakers, turns)


def read_speaker_text(text: str, name: str) -> Conversation | None:
    """Read the turns of a transcript; lines without a name continue the previous turn. `None`: it is another text."""
    if not _is_speech(text, name):
        return None
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
        if match := _begins(line):
            if turn:
                yield turn
            turn = _Turn(_speaker(match), _stamp(match), [match["words"] or ""])
        elif turn:
            turn.lines.append(line.strip())
    if turn:
        yield turn


def _speaker(turn: re.Match[str]) -> str:
    return turn["name"].strip()


def _stamp(turn: re.Match[str]) -> str:
    return turn["before"] or turn["after"] or ""


def _begins(line: str) -> re.Match[str] | None:
    """Return the match of a speaker at the beginning of a line. Words that head a list are no names."""
    match = _TURN.match(line)
    return match if match and _is_name(_speaker(match)) else None


def _is_name(name: str) -> bool:
    return len(name.split()) <= _MOST_NAME_WORDS and name.casefold() not in _HEADINGS


def _is_talk(speakers: Counter[str], turns: Sequence[re.Match[str]]) -> bool:
    counts = speakers.values()
    words = sum(len((turn["words"] or "").split()) for turn in turns)
    named = all(name[0] == name[0].upper() for name in speakers)
    return named and min(counts) >= _TWICE and len(counts) <= _MOST_SPEAKERS and words >= _SENTENCE * len(turns)


def _moment(stamp: str, begun: datetime | None) -> datetime | None:
    """Return the time of a stamp; without a day, on the day of the file."""
    if "-" in stamp:
        return moment(re.sub(r"[T ,]+", "T", stamp.replace(",", " "), count=1))
    if begun is None or not stamp:
        return None
    hours, minutes, *seconds = re.split(r"[:]", stamp.rstrip("Z").replace(",", "."))
    since = timedelta(hours=int(hours), minutes=int(minutes), seconds=float(seconds[0]) if seconds else 0)
    return begun.replace(hour=0, minute=0, second=0, microsecond=0) + since


def read_vtt(text: str, name: str) -> Conversation | None:
    """Read WebVTT; `None` if it is another text."""
    return _subtitles(text, name, "vtt") if _HEADER.match(text) else None


def read_srt(text: str, name: str) -> Conversation | None:
    """Read SubRip: a number, a line of times, text. `None` if it is another text."""
    return _subtitles(text, name, "srt") if _FIRST_CUE.match(text) else None


def _subtitles(text: str, name: str, form: str) -> Conversation:
    """Read cues as turns: consecutive cues of one speaker are one turn.

    The id of a turn is its offset in the recording. Its time is known if the file or its name contains the start.
    """
    blocks = _BLANK.split(text.replace("\r\n", "\n").replace("\r", "\n"))
    heads = "\n".join(block for block in blocks[:_HEAD_LINES] if not _TIMES.search(block))
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
_HEAD_LINES = 3
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
class _SubtitlesTurn:
    start: timedelta
    end: timedelta
    speaker: str
    lines: list[str] = field(default_factory=list)
    chars: int = 0

    def takes(self, cue: _Cue) -> bool:
        """Return whether a cue continues this turn. Without a name, a pause or many words end a turn."""
        most, pause = (_TURN_CHARS, _SILENCE) if self.speaker else (_NAMELESS_CHARS, _PAUSE)
        return cue.speaker == self.speaker and self.chars < most and cue.start - self.end < pause

    def add(self, cue: _Cue) -> None:
        """Add the text of a cue; rolling subtitles show each line twice."""
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
    text = block[times.end() :].strip()
    voice = _VOICE.search(text)
    lines = [html.unescape(_TAG.sub("", line)).strip() for line in text.split("\n")]
    lines = [line for line in lines if line]
    speaker = html.unescape(voice["name"]).strip() if voice else ""
    named = _NAMED.match(lines[0]) if lines and not speaker else None
    if named and len(named["name"].split()) <= _MOST_NAME_WORDS:
        speaker, lines[0] = named["name"].strip(), lines[0][named.end() :]
    return _Cue(_offset(times["start"]), _offset(times["end"]), speaker, tuple(lines)) if lines else None


def _joined(cues: Iterator[_Cue]) -> Iterator[_SubtitlesTurn]:
    turn: _SubtitlesTurn | None = None
    for cue in cues:
        if turn is None or not turn.takes(cue):
            if turn:
                yield turn
            turn = _SubtitlesTurn(cue.start, cue.end, cue.speaker)
        turn.add(cue)
    if turn:
        yield turn


def _offset(stamp: str) -> timedelta:
    *hours, minutes, seconds = stamp.replace(",", ".").split(":")
    return timedelta(hours=int(hours[0]) if hours else 0, minutes=int(minutes), seconds=float(seconds))


def _shown(offset: timedelta) -> str:
    seconds, rest = divmod(offset // timedelta(milliseconds=1), 1_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{rest:03}"
