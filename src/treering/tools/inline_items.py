"""Texts and conversations given inline, as sources."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import Field, JsonValue

from treering.core.canonical import canonical_json, digest
from treering.core.errors import InvalidInput, nearest
from treering.core.evidence import Triple
from treering.core.fingerprint import without_recalled
from treering.core.injection import instruction_flags
from treering.core.locator import Turn
from treering.core.redaction import redact
from treering.core.times import Instant, render_time
from treering.ports.adapter import Failed, ReadLimits, SegmentDraft, Skipped, SourceDraft
from treering.ports.segmenter import Segmenter
from treering.tools.envelope import Value

InlineKind = Literal["note", "markdown", "conversation", "meeting_record", "web", "file", "pdf", "office", "openapi"]


class Message(Value):
    """One message of a conversation."""

    content: str = Field(description="What was said.")
    role: str = Field(default="", description="user, assistant, system, tool, or a part played in a meeting.")
    name: str = Field(default="", description="Who said it, where the role does not tell.")
    id: str = Field(default="", description="The message's id where it comes from.")
    at: Instant | None = Field(default=None, description="When it was said.")


class InlineItem(Value):
    """A text or a conversation to keep as one Source."""

    kind: InlineKind = Field(default="note", description="What it is.")
    origin: str = Field(
        default="", description="Where it comes from, stable over time; the same origin again is an update."
    )
    title: str = Field(default="", description="What people call it; by default its first line.")
    text: str = Field(default="", description="Its text. Give either text or messages.")
    messages: tuple[Message, ...] = Field(default=(), description="Its messages, oldest first.")
    triples: tuple[Triple, ...] = Field(
        default=(), description="What the text states, where that is known; the text is read for more."
    )
    content_type: Literal["text", "markdown"] | None = Field(
        default=None, description="How to cut the text; by default markdown for kind markdown, else text."
    )
    captured_at: Instant | None = Field(default=None, description="When it was captured; by default now.")
    metadata: dict[str, JsonValue] = Field(default={}, description="Facts about it, to filter by.")


@dataclass(frozen=True, slots=True)
class InlineReader:
    """Reads inline items: without recalled text, secrets redacted, cut into segments."""

    segmenters: Mapping[str, Segmenter]
    limits: ReadLimits
    redact_secrets: bool = True

    def read(self, item: InlineItem) -> SourceDraft | Skipped | Failed:
        """Give the item as a source. Raises `InvalidInput` where no segmenter knows its content type."""
        name = item.origin or item.title or f"a {item.kind}"
        size = len(item.text) + sum(len(message.content) for message in item.messages)
        if size > self.limits.max_file_bytes:
            return Failed(name, f"{size} characters are over the limit of {self.limits.max_file_bytes}")
        if bool(item.text.strip()) == bool(item.messages):
            return Failed(name, "it needs either text or messages, and not both")
        if not _is_writable(item):
            return Failed(_printable(name), "it holds a number JSON cannot write, or text that is no valid Unicode")
        return self._draft(_Cleaned.of(item, self.redact_secrets), name)

    def _draft(self, cleaned: "_Cleaned", name: str) -> SourceDraft | Skipped | Failed:
        item = cleaned.item
        segments = self._turns(item.messages) if item.messages else self._pieces(item.text, _content_type(item))
        segments = _with_triples(segments, item.triples)
        if not segments:
            why = "it holds only text recalled from this memory" if cleaned.recalled else "it holds no text"
            return Skipped(name, why)
        content = _digest_of(item)
        flags = instruction_flags("\n".join(segment.text for segment in segments))
        return SourceDraft(
            kind=item.kind,
            origin=item.origin or f"{item.kind}:{content}",
            title=item.title or _first_line(segments[0].text),
            fingerprint=f"text:{content}",
            content_type=_content_type(item),
            segments=segments,
            metadata={**item.metadata, **({"flags": list(flags)} if flags else {})},
            captured_at=item.captured_at,
            warnings=[*cleaned.warnings, *([f"text shaped like instructions: {', '.join(flags)}"] if flags else [])],
        )

    def _pieces(self, text: str, content_type: str) -> Sequence[SegmentDraft]:
        segmenter = self.segmenters.get(content_type)
        if segmenter is None:
            raise InvalidInput(
                f"There is no way to cut {content_type!r} here.",
                hint=nearest(content_type, self.segmenters),
                details={"known": sorted(self.segmenters)},
            )
        return segmenter(text, max_chars=self.limits.max_segment_chars)

    def _turns(self, messages: Sequence[Message]) -> list[SegmentDraft]:
        return [
            segment
            for turn, message in enumerate(messages)
            if message.content.strip()
            for segment in self._turn(turn, message, _said_before(messages[:turn]))
        ]

    def _turn(self, turn: int, message: Message, before: str) -> Iterator[SegmentDraft]:
        speaker = message.name or message.role
        place = Turn(turn=turn, message_id=message.id, speaker=speaker)
        said = f" ({render_time(message.at)[:10]})" if message.at else ""
        whole = len(message.content) <= self.limits.max_segment_chars
        pieces = [message.content] if whole else [piece.text for piece in self._pieces(message.content, "text")]
        for piece in pieces:
            gist = _speech(speaker, piece)
            # A long turn says by itself what it is about; a short one often answers what stands before it.
            gist = f"{before}\n{gist}" if before and len(piece) <= _SHORT_TURN else gist
            yield SegmentDraft(place, piece, heading=speaker + said, gist=gist)


@dataclass(frozen=True, slots=True)
class _Cleaned:
    """An item without recalled text and secrets, and what a person should know of that."""

    item: InlineItem
    recalled: int = 0
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, item: InlineItem, redact_secrets: bool) -> "_Cleaned":
        text, recalled = without_recalled(item.text)
        parts = [without_recalled(message.content) for message in item.messages]
        recalled += sum(count for _, count in parts)
        warnings = [recalled_warning(recalled)] if recalled else []
        texts = [text, *(content for content, _ in parts)]
        if redact_secrets:
            texts = [_redacted(text, turn, warnings) for turn, text in enumerate(texts)]
        messages = [
            message.model_copy(update={"content": content})
            for message, content in zip(item.messages, texts[1:], strict=True)
        ]
        title = redact(item.title).text if redact_secrets else item.title
        triples = tuple(filter(_is_harmless, item.triples)) if redact_secrets else item.triples
        changes = {"title": title, "text": texts[0], "messages": tuple(messages), "triples": triples}
        return cls(item.model_copy(update=changes), recalled, warnings)


def recalled_warning(count: int) -> str:
    """Say that text recalled from this memory was dropped."""
    return f"{count} passage(s) recalled from this memory were dropped: memory is not ingested again"


def _redacted(text: str, turn: int, warnings: list[str]) -> str:
    result = redact(text)
    where = f"message {turn}, " if turn else ""
    warnings += [f"a secret was redacted: {found.kind}, {where}line {found.line}" for found in result.findings]
    return result.text


def _said_before(earlier: Sequence[Message]) -> str:
    """Give the ends of the last two turns: read together with them, a turn is found by what it answers.

    Worth 2 to 4 points of recall on LoCoMo (docs/decisions).
    """
    turns = [message for message in earlier[-2 * _TURNS_BEFORE :] if message.content.strip()][-_TURNS_BEFORE:]
    return "\n".join(_speech(message.name or message.role, message.content.strip()[-_TAIL_CHARS:]) for message in turns)


def _speech(speaker: str, words: str) -> str:
    return f"{speaker}: {words}" if speaker else words


def _with_triples(segments: Sequence[SegmentDraft], triples: Sequence[Triple]) -> Sequence[SegmentDraft]:
    """Give each triple to the first segment that holds both its ends, or else one of them, or else to the first."""
    if not triples or not segments:
        return segments
    texts = [segment.text.casefold() for segment in segments]
    stated: list[list[Triple]] = [[] for _ in segments]
    for triple in dict.fromkeys(triples):
        ends = (triple.subject.casefold(), triple.object.casefold())
        held = [sum(end in text for end in ends) for text in texts]
        stated[held.index(max(held))].append(triple)
    return [replace(segment, triples=tuple(own)) for segment, own in zip(segments, stated, strict=True)]


def _is_harmless(triple: Triple) -> bool:
    """Tell whether a triple holds no secret: one that does says nothing worth keeping."""
    return not redact("\n".join((triple.subject, triple.relation, triple.object))).findings


def _content_type(item: InlineItem) -> Literal["text", "markdown"]:
    return item.content_type or ("markdown" if item.kind == "markdown" else "text")


def _is_writable(item: InlineItem) -> bool:
    texts = [item.kind, item.origin, item.title, item.text]
    stated = [triple.model_dump() for triple in item.triples]
    said = [part for message in item.messages for part in (message.role, message.name, message.id, message.content)]
    try:
        canonical_json([texts, said, stated, item.metadata]).encode()
    except (TypeError, ValueError):
        return False
    return True


def _printable(name: str) -> str:
    return name.encode(errors="replace").decode()


def _digest_of(item: InlineItem) -> str:
    return digest(canonical_json(item.model_dump(mode="json", exclude={"origin"})))


def _first_line(text: str) -> str:
    line = next((line.strip("# \t") for line in text.splitlines() if line.strip("# \t")), "")
    return line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1] + "…"


_TITLE_CHARS = 80
_TURNS_BEFORE = 2
_TAIL_CHARS = 200
_SHORT_TURN = 600
