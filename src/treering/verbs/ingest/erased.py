"""What was erased, remembered by keyed hashes, so that reading it again does not bring it back unasked.

The key is a file of the machine and not in the space: whoever has the space alone, or a backup of it, can guess no
short text from the hashes. A space that was erased from on another machine is not protected here, which is reported.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from itertools import groupby
from typing import Any, TypeVar

from treering.core.canonical import normalise_text
from treering.core.errors import TreeringError
from treering.core.evidence import Segment, Turn
from treering.core.objects import Source
from treering.ports.adapter import Role, SegmentDraft, SourceDraft
from treering.ports.ledger import Ledger
from treering.ports.runtime import JobLog, JobRow, JobsInCommits, fresh_id
from treering.verbs.engine import Engine
from treering.verbs.ingest.segments import with_texts
from treering.verbs.leases import held

MIN_CHARS = 24
"""A shorter passage is recognised in its own origin alone: it may stand anywhere for another reason."""
MAX_MARKS = 1_000_000
"""Hashes of passages and lines that a space keeps; the oldest go first."""
ErasureKey = Callable[[], bytes]
"""Returns the key of the hashes, which is made when it is first asked for. Raises `OSError`."""

_Done = TypeVar("_Done")
_ROW = "erased"
_BLOCK = re.compile(r"#\d{9}\Z")
_GAP = re.compile(r"(\n(?:[ \t]*\n)+)")
_MARK_BYTES = 10
_LEASE_SECONDS, _WAIT_SECONDS = 10.0, 5.0


@dataclass(frozen=True, slots=True)
class ErasedPart:
    """What of a draft was erased before: passages or stretches of them, when, and whether nothing else is in it."""

    passages: int = 0
    date: str = ""
    whole: bool = False

    def reason(self) -> str:
        """Say why it is left out, and how to read it all the same."""
        what = "its content was" if self.whole else f"{self.passages} passage(s) of it were"
        return f"{what} erased on {self.date}, so it is skipped; the option `again` (--again) reads it"


@dataclass(slots=True)
class ErasedTexts:
    """The marks that a space keeps of erased texts, as far as the key of this machine can tell them."""

    key: bytes = b""
    marks: Mapping[str, str] = field(default_factory=dict)
    """By mark, the day of the erasure."""
    elsewhere: int = 0
    """Marks that were made with another key."""
    seen: set[str] = field(default_factory=set)
    """Marks of texts that were read again."""

    @classmethod
    def of(cls, engine: Engine) -> "ErasedTexts":
        """Read the marks of a space; nothing is read from the machine where there are none."""
        row = engine.erasures.find(_ROW) if engine.erasures and engine.erasure_key else None
        if not row or not engine.erasure_key:
            return cls()
        try:
            key = engine.erasure_key()
        except OSError:
            return cls(elsewhere=sum(map(len, row["keys"].values())))
        own = row["keys"].get(_name(key), {})
        return cls(key, own, sum(map(len, row["keys"].values())) - len(own))

    def without(self, draft: SourceDraft) -> tuple[SourceDraft, ErasedPart]:
        """Return a draft without erased passages and lines, and what was left out.

        A passage is recognised wherever it is read, a line where it was erased. What is left has no hash of the whole,
        no words of its neighbours and no name that could repeat what was erased.
        """
        if not self.marks:
            return draft, ErasedPart()
        texts = [self.left_of(segment.text, draft.origin, role=segment.role) for segment in draft.segments]
        cut = [segment.text for segment, text in zip(draft.segments, texts, strict=True) if text != segment.text]
        if not cut:
            return draft, ErasedPart()
        date = self.last_day()
        if not any(text.strip() for text in texts):
            return draft, ErasedPart(len(cut), date, whole=True)
        erased = normalise_text("\n".join(cut))
        left = with_texts(draft, texts)
        return replace(
            left,
            title=draft.title if normalise_text(draft.title) not in erased else draft.origin.rpartition("/")[2],
            fingerprint=f"without erased {_mark(self.key, draft.fingerprint)}",
            segments=[_alone(segment) for segment in left.segments],
            metadata={name: value for name, value in draft.metadata.items() if name != "summary"},
            nodes=[node for node in draft.nodes if normalise_text(node.name) not in erased],
        ), ErasedPart(len(cut), date)

    def left_of(self, text: str, origin: str, *, role: Role = "prose", at: datetime | None = None) -> str:
        """Return a text without erased passages, and without lines erased from the same origin.

        `at`: when it was said. Lines said later than the day of the erasure are new statements.
        """
        if self._knows(_mark(self.key, normalise_text(text))):
            return ""
        if role == "prose":
            parts = _GAP.split(text)  # paragraphs, each but the first behind the gap before it
            gone = [self._knows(_mark(self.key, normalise_text(part))) for part in parts[::2]]
            left_parts = (parts[max(2 * place - 1, 0) : 2 * place + 1] for place, one in enumerate(gone) if not one)
            text = "".join("".join(part) for part in left_parts)
        lines, day = text.split("\n"), _day(at) if at else ""
        left = [line for line in lines if not line.strip() or not self._knows(_line_mark(self.key, origin, line), day)]
        return text if len(left) == len(lines) else "\n".join(left)

    def last_day(self) -> str:
        """Return the day on which the newest of the texts that were seen was erased; empty if none was seen."""
        return max((self.marks[mark] for mark in self.seen), default="")

    def _knows(self, mark: str, day: str = "") -> bool:
        known = mark in self.marks and day <= self.marks[mark]
        if known:
            self.seen.add(mark)
        return known


def marks_of(sources: Iterable[Source], key: bytes, *, repeated: frozenset[str]) -> Iterator[str]:
    """Return the marks of the texts of sources; those `repeated` in other sources are marked for their origin alone."""
    for source in sources:
        for text, role in _texts(source):
            for passage in _passages(text, role):
                normal = normalise_text(passage)
                if len(normal) >= MIN_CHARS and passage not in repeated:
                    yield _mark(key, normal)
            yield from (_line_mark(key, source.origin, line) for line in text.split("\n") if line.strip())


def erase_and_remember(
    engine: Engine, sources: Sequence[Source], erase: Callable[[], _Done], *, repeated: frozenset[str]
) -> tuple[_Done, str]:
    """Erase sources by `erase` and store their marks in its transaction.

    So a process that is killed leaves both or neither. If the job log has no such transactions, the marks are stored
    first, and restored if `erase` fails. Return also why the marks were not stored, empty if they were. `repeated`: the
    passages that other sources still hold (`passages_elsewhere`). Raises what `erase` raises.
    """
    rows = engine.erasures
    if not sources:
        return erase(), ""
    if rows is None or engine.erasure_key is None:
        return erase(), f"{_UNKNOWN}: this space stores no marks"
    try:
        key = engine.erasure_key()
    except OSError as error:
        return erase(), f"{_UNKNOWN}: no key ({error.strerror or error})"
    new = dict.fromkeys(marks_of(sources, key, repeated=repeated), _day(engine.clock.now()))
    with _row_of(engine, rows) as row:
        changed = _with_marks(row, _name(key), {**row["keys"].get(_name(key), {}), **new})
        if isinstance(rows, JobsInCommits):
            with rows.kept_in_commit(_ROW, changed) as is_kept:
                done = erase()
                return done, "" if is_kept() else f"{_UNKNOWN}: the erasure changed nothing"
        rows.save(_ROW, changed)
        try:
            return erase(), ""
        except TreeringError:
            rows.save(_ROW, row)
            raise


_UNKNOWN = "the next reading, which cannot recognise it"


def passages_elsewhere(ledger: Ledger, sources: Sequence[Source]) -> frozenset[str]:
    """Return the passages of sources that others hold too; looks through all segments, one at a time."""
    wanted, own = passages_in(sources), {source.id for source in sources}
    if not wanted:
        return frozenset()
    rows = (record.row for record in ledger.records(only={"segment"}))
    texts = (row["text"] for row in rows if row["source_id"] not in own)
    return frozenset(passage for text in texts for passage in _passages(text, "prose") if passage in wanted)


def passages_in(sources: Iterable[Source]) -> frozenset[str]:
    """Return all that is recognised of sources wherever it is read."""
    return frozenset(
        passage for source in sources for text, role in _texts(source) for passage in _passages(text, role)
    )


def forget(engine: Engine, texts: ErasedTexts) -> None:
    """Drop the marks of texts that were asked for again."""
    if texts.seen and engine.erasures is not None:
        with _row_of(engine, engine.erasures) as row:
            marks = row["keys"].get(_name(texts.key), {})
            left = {mark: day for mark, day in marks.items() if mark not in texts.seen}
            engine.erasures.save(_ROW, _with_marks(row, _name(texts.key), left))


@contextmanager
def _row_of(engine: Engine, rows: JobLog) -> Iterator[JobRow]:
    """Read the row of the marks; others change it only afterwards, or each would store its own marks alone."""
    owner = fresh_id("patch", engine.clock)
    with held(engine.leases, _ROW, owner, _LEASE_SECONDS, wait_seconds=_WAIT_SECONDS):
        row: dict[str, Any] = {"scope": None, "keys": {}, **(rows.find(_ROW) or {})}
        yield row


def _turn_of(segment: Segment) -> int | None:
    return segment.locator.turn if isinstance(segment.locator, Turn) else None


def _with_marks(row: JobRow, name: str, marks: Mapping[str, str]) -> dict[str, Any]:
    return {**row, "keys": {**row["keys"], name: dict([*marks.items()][-MAX_MARKS:])}}


def _texts(source: Source) -> Iterator[tuple[str, Role]]:
    """Return the texts of a source's segments, and of a long turn also the whole."""
    for turn, group in groupby(
        source.segments, key=lambda one: one.locator.turn if isinstance(one.locator, Turn) else None
    ):
        segments = [*group]
        yield from ((segment.excerpt, segment.role) for segment in segments)
        if turn is not None and len(segments) > 1:
            yield "".join(segment.excerpt for segment in segments), "prose"


def _passages(text: str, role: Role) -> list[str]:
    """Return what is recognised of a text wherever it is read: the whole, and of prose each paragraph."""
    paragraphs = _GAP.split(text)[::2] if role == "prose" else []
    return [text, *(paragraphs if len(paragraphs) > 1 else ())]


def _alone(segment: SegmentDraft) -> SegmentDraft:
    """Return a segment without what it says of its neighbours."""
    place = segment.locator
    return replace(
        segment, gist=None, locator=place.model_copy(update={"chain": ""}) if isinstance(place, Turn) else place
    )


def _mark(key: bytes, text: str) -> str:
    return blake2b(text.encode(errors="replace"), key=key, digest_size=_MARK_BYTES).hexdigest()


def _line_mark(key: bytes, origin: str, line: str) -> str:
    # The blocks of a discussion are one place: a message may be recorded into another block.
    return _mark(key, f"{_BLOCK.sub('', origin)}\n{normalise_text(line)}")


def _name(key: bytes) -> str:
    return blake2b(key, digest_size=_MARK_BYTES, person=b"treering-key").hexdigest()


def _day(now: datetime) -> str:
    return now.date().isoformat()
