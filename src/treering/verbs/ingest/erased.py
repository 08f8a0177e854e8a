"""What was erased, remembered by keyed hashes, so that reading it again does not bring it back unasked.

The key is a file of the machine and not in the space: whoever has the space alone, or a backup of it, can guess no
short text from the hashes. A space that was erased from on another machine is not protected here, which is reported.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from typing import Any

from treering.core.canonical import normalise_text
from treering.core.errors import TreeringError
from treering.core.evidence import Turn
from treering.core.objects import Source
from treering.ports.adapter import Role, SegmentDraft, SourceDraft
from treering.ports.runtime import JobLog, fresh_id
from treering.verbs.engine import Engine, held
from treering.verbs.ingest.segments import with_texts

MIN_CHARS = 24
"""A shorter passage is recognised in its own origin alone: it may stand anywhere for another reason."""
MAX_MARKS = 1_000_000
"""Hashes of passages and lines that a space keeps; the oldest go first."""
ErasureKey = Callable[[], bytes]
"""Returns the key of the hashes, which is made when it is first asked for. Raises `OSError`."""

_ROW = "erased"
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
        return f"{what} erased on {self.date}, and left out; the option `again` (--again) reads it"


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
        texts = [self._left(segment, draft.origin) for segment in draft.segments]
        cut = [segment.text for segment, text in zip(draft.segments, texts, strict=True) if text != segment.text]
        if not cut:
            return draft, ErasedPart()
        date = max(self.marks[mark] for mark in self.seen)
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

    def _left(self, segment: SegmentDraft, origin: str) -> str:
        text = segment.text
        if self._knows(_mark(self.key, normalise_text(text))):
            return ""
        if segment.role == "prose":
            parts = _GAP.split(text)  # paragraphs, each but the first behind the gap before it
            gone = [self._knows(_mark(self.key, normalise_text(part))) for part in parts[::2]]
            text = "".join("".join(parts[max(2 * at - 1, 0) : 2 * at + 1]) for at, one in enumerate(gone) if not one)
        lines = text.split("\n")
        left = [line for line in lines if not line.strip() or not self._knows(_line_mark(self.key, origin, line))]
        return text if len(left) == len(lines) else "\n".join(left)

    def _knows(self, mark: str) -> bool:
        known = mark in self.marks
        if known:
            self.seen.add(mark)
        return known


def marks_of(sources: Iterable[Source], key: bytes, *, repeated: frozenset[str]) -> Iterator[str]:
    """Return the marks of the texts of sources; those `repeated` in other sources are marked for their origin alone."""
    for source in sources:
        for segment in source.segments:
            for passage in _passages(segment.excerpt, segment.role):
                text = normalise_text(passage)
                if len(text) >= MIN_CHARS and passage not in repeated:
                    yield _mark(key, text)
            yield from (_line_mark(key, source.origin, line) for line in segment.excerpt.split("\n") if line.strip())


def remember(engine: Engine, sources: Sequence[Source], *, repeated: frozenset[str]) -> str:
    """Keep the marks of sources that were erased; return why that failed, empty if it did not.

    `repeated`: those of their passages that other sources still hold (`passages_among`).
    """
    if not sources:
        return ""
    try:
        return _remember(engine, sources, repeated)
    except OSError as error:
        return f"the next reading, which cannot recognise it: no key ({error.strerror or error})"
    except TreeringError as error:
        return f"the next reading, which cannot recognise it: {error.message}"


def _remember(engine: Engine, sources: Sequence[Source], repeated: frozenset[str]) -> str:
    if engine.erasures is None or engine.erasure_key is None:
        return "the next reading, which cannot recognise it: this space keeps no marks"
    key = engine.erasure_key()
    day = _day(engine.clock.now())
    new = dict.fromkeys(marks_of(sources, key, repeated=repeated), day)
    _change(engine, engine.erasures, _name(key), lambda marks: {**marks, **new})
    return ""


def passages_in(sources: Iterable[Source]) -> frozenset[str]:
    """Return all that is recognised of sources wherever it is read."""
    return frozenset(
        passage
        for source in sources
        for segment in source.segments
        for passage in _passages(segment.excerpt, segment.role)
    )


def passages_among(wanted: frozenset[str], text: str) -> Iterator[str]:
    """Return which of the passages wanted the text of a segment holds."""
    return (passage for passage in _passages(text, "prose") if passage in wanted)


def forget(engine: Engine, texts: ErasedTexts) -> None:
    """Drop the marks of texts that were asked for again."""
    if texts.seen and engine.erasures is not None:
        _change(
            engine,
            engine.erasures,
            _name(texts.key),
            lambda marks: {mark: day for mark, day in marks.items() if mark not in texts.seen},
        )


def _change(engine: Engine, rows: JobLog, name: str, change: Callable[[Mapping[str, str]], Mapping[str, str]]) -> None:
    # Two erasures at once would each keep their own marks alone.
    owner = fresh_id("patch", engine.clock)
    with held(engine.leases, _ROW, owner, _LEASE_SECONDS, wait_seconds=_WAIT_SECONDS):
        row: dict[str, Any] = {"scope": None, "keys": {}, **(rows.find(_ROW) or {})}
        changed = list(change(row["keys"].get(name, {})).items())
        rows.save(_ROW, {**row, "keys": {**row["keys"], name: dict(changed[-MAX_MARKS:])}})


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
    return _mark(key, f"{origin}\n{normalise_text(line)}")


def _name(key: bytes) -> str:
    return blake2b(key, digest_size=_MARK_BYTES, person=b"treering-key").hexdigest()


def _day(now: datetime) -> str:
    return now.date().isoformat()
