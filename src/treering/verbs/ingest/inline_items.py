"""Texts and conversations given inline, as sources."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from pydantic import Field, JsonValue

from treering.core.canonical import Instant, canonical_json, digest
from treering.core.characters import well_formed
from treering.core.errors import InvalidInput, nearest
from treering.core.evidence import Triple
from treering.core.patch import FIELDS, shortened
from treering.core.screening import instruction_flags, repeatable_secrets, screened
from treering.ports.adapter import Failed, ReadLimits, SegmentDraft, Skipped, SourceDraft
from treering.ports.format import Segmenter
from treering.verbs.envelope import Value
from treering.verbs.ingest.turns import Message, TurnWriter, cleaned, without_thoughts

InlineKind = Literal["note", "markdown", "conversation", "meeting_record", "web", "file", "pdf", "office", "openapi"]


class InlineItem(Value):
    """A text or a conversation to store as one Source."""

    kind: InlineKind = Field(default="note", description="Kind of the text.")
    origin: str = Field(default="", description="Stable name of its source; the same origin again is an update.")
    title: str = Field(default="", description="Title; default: the first line.")
    text: str = Field(default="", description="The text. Give either text or messages.")
    messages: tuple[Message, ...] = Field(default=(), description="The messages, oldest first.")
    triples: tuple[Triple, ...] = Field(
        default=(), description="Statements known to be in the text; more are extracted from it."
    )
    content_type: Literal["text", "markdown"] | None = Field(
        default=None, description="How to split the text; default: markdown for kind markdown, else text."
    )
    captured_at: Instant | None = Field(default=None, description="Time of capture; default: now.")
    metadata: dict[str, JsonValue] = Field(default={}, description="Metadata to filter by.")


@dataclass(frozen=True, slots=True)
class InlineReader:
    """Reads inline items: drops recalled text, redacts secrets, and splits the rest into segments."""

    segmenters: Mapping[str, Segmenter]
    limits: ReadLimits
    redact_secrets: bool = True

    def read(self, item: InlineItem) -> SourceDraft | Skipped | Failed:
        """Return the item as a source. Raises `InvalidInput` if no segmenter has its content type."""
        size = len(item.text) + sum(len(message.content) for message in item.messages)
        if size > self.limits.max_file_bytes:
            return Failed(
                self._name(item),
                f"{size:,} characters exceed the limit max_file_bytes of {self.limits.max_file_bytes:,}",
            )
        if item.text.strip() and item.messages:
            return Failed(self._name(item), "it needs either text or messages, not both")
        if not item.text.strip() and not item.messages:
            return Failed(self._name(item), "it has neither text nor messages")
        if too_long := _too_long(item):
            return Failed(self._name(item), too_long)
        if not _is_writable(item):
            return Failed(
                well_formed(self._name(item)), "it contains a number that JSON cannot represent, or invalid Unicode"
            )
        return self._draft(_Cleaned.of(item, self.redact_secrets), item)

    def _name(self, item: InlineItem) -> str:
        """Return the name of an item in the report, which is stored with the job."""
        name = item.origin[: 2 * _NAME_CHARS] or item.title[: 2 * _NAME_CHARS] or f"a {item.kind}"
        return shortened(screened(name).value if self.redact_secrets else name, _NAME_CHARS)

    def _draft(self, cleaned: "_Cleaned", given: InlineItem) -> SourceDraft | Skipped | Failed:
        item = cleaned.item
        segments = self._segments(item)
        segments = _with_triples(segments, item.triples)
        if not segments:
            why = "it contains only text recalled from this memory" if cleaned.recalled else "it contains no text"
            return Skipped(self._name(given), why)
        content = _digest_of(item)
        flags = instruction_flags("\n".join([item.title, *(segment.text for segment in segments)]))
        return SourceDraft(
            kind=item.kind,
            origin=item.origin or f"{item.kind}:{content}",
            title=item.title or _first_line(segments[0].text),
            fingerprint=f"text:{content}",
            content_type=_content_type(item),
            segments=segments,
            metadata={**item.metadata, **({"flags": list(flags)} if flags else {})},
            captured_at=item.captured_at,
            screened=self.redact_secrets,
            warnings=[
                *cleaned.warnings,
                *([f"text that looks like instructions: {', '.join(flags)}"] if flags else []),
            ],
        )

    def _segments(self, item: InlineItem) -> Sequence[SegmentDraft]:
        segmenter, most = self._segmenter(_content_type(item)), self.limits.max_segment_chars
        if item.messages:
            return TurnWriter(self._segmenter("text"), most).write(item.messages)
        return segmenter(item.text, max_chars=most)

    def _segmenter(self, content_type: str) -> Segmenter:
        segmenter = self.segmenters.get(content_type)
        if segmenter is None:
            raise InvalidInput(
                f"Unknown content type {content_type!r}.",
                hint=nearest(content_type, self.segmenters),
                details={"known": sorted(self.segmenters)},
            )
        return segmenter


@dataclass(frozen=True, slots=True)
class _Cleaned:
    """An item without recalled text and secrets, and warnings about them."""

    item: InlineItem
    recalled: int = 0
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, item: InlineItem, redact_secrets: bool) -> "_Cleaned":
        item = item.model_copy(update={"messages": tuple(map(without_thoughts, item.messages))})
        texts = _texts(item)
        repeated = repeatable_secrets([*texts, item.title]) if redact_secrets else {}
        parts = [cleaned(text, redact_secrets=redact_secrets, repeated=repeated) for text in texts]
        recalled = sum(part.recalled for part in parts)
        warnings = [recalled_warning(recalled)] if recalled else []
        warnings += [_redacted(secret, turn) for turn, part in enumerate(parts) for secret in part.secrets]
        messages = tuple(
            message.model_copy(update={"content": part.text})
            for message, part in zip(item.messages, parts[1:], strict=True)
        )
        item = item.model_copy(update={"text": parts[0].text, "messages": messages})
        if not redact_secrets:
            return cls(item, recalled, warnings)
        harmless = tuple(triple for triple in item.triples if not screened(triple, repeated=repeated).secrets)
        # The text was already screened; messages are screened together with their names.
        screened_item = screened(item.model_copy(update={"triples": harmless, "text": ""}), repeated=repeated)
        whole = screened_item.value.model_copy(update={"text": item.text})
        return cls(whole, recalled, [*warnings, *screened_item.warnings])


def _texts(item: InlineItem) -> list[str]:
    return [item.text, *(message.content for message in item.messages)]


def recalled_warning(count: int) -> str:
    """Return the warning about dropped text that was recalled from this memory."""
    return f"dropped {count} passage(s) recalled from this memory: memory is not ingested again"


def _redacted(secret: str, turn: int) -> str:
    kind, _, line = secret.partition(", ")
    return f"a secret was redacted: {kind}, {f'message {turn}, ' if turn else ''}{line}"


def _with_triples(segments: Sequence[SegmentDraft], triples: Sequence[Triple]) -> Sequence[SegmentDraft]:
    """Assign each triple to the first segment that contains both its ends, else one of them, else to the first."""
    if not triples or not segments:
        return segments
    texts = [segment.text.casefold() for segment in segments]
    stated: list[list[Triple]] = [[] for _ in segments]
    for triple in dict.fromkeys(triples):
        ends = (triple.subject.casefold(), triple.object.casefold())
        matching = [sum(end in text for end in ends) for text in texts]
        stated[matching.index(max(matching))].append(triple)
    return [replace(segment, triples=tuple(own)) for segment, own in zip(segments, stated, strict=True)]


def _content_type(item: InlineItem) -> Literal["text", "markdown"]:
    return item.content_type or ("markdown" if item.kind == "markdown" else "text")


def _is_writable(item: InlineItem) -> bool:
    texts = [item.kind, item.origin, item.title, item.text]
    triples = [triple.model_dump() for triple in item.triples]
    messages = [[one.role, one.name, one.id, one.content] for one in item.messages]
    try:
        canonical_json([texts, messages, triples, item.metadata]).encode()
    except (TypeError, ValueError):
        return False
    return True


def _digest_of(item: InlineItem) -> str:
    return digest(canonical_json(item.model_dump(mode="json", exclude={"origin"})))


def _too_long(item: InlineItem) -> str:
    for name, text in (("title", item.title), ("origin", item.origin)):
        if len(text) > FIELDS[name]:
            return f"its {name} has {len(text)} characters; the maximum is {FIELDS[name]}"
    return ""


def _first_line(text: str) -> str:
    line = next((line.strip("# \t") for line in text.splitlines() if line.strip("# \t")), "")
    return line if len(line) <= _TITLE_CHARS else line[: _TITLE_CHARS - 1] + "…"


_TITLE_CHARS = 80
_NAME_CHARS = 500
