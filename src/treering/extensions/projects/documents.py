"""Documents of a project: plain texts, each one Source, identified by content, and their extraction by a model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treering.core.canonical import digest
from treering.core.characters import well_formed
from treering.core.errors import InvalidInput
from treering.core.fencing import without_recalled
from treering.core.objects import Source
from treering.core.secrets.redaction import redact
from treering.ports.format import Segmenter
from treering.verbs.ingest.inline_items import recalled_warning

PREFIX = "doc:"
"""The prefix of the origin of every document."""

_GAPS = "gaps"
_NO_GAPS = ["", ""]


@dataclass(frozen=True, slots=True)
class Document:
    """A text as stored: without secrets and without text recalled from this memory.

    Its origin is computed from the stored text, never from the given text: a hash of a short secret can be guessed.
    """

    text: str
    changes: tuple[str, ...] = ()
    """The parts removed from the given text."""

    @classmethod
    def of(cls, text: str) -> "Document":
        """Return the document of a given text; a stored text returns the same document."""
        own, recalled = without_recalled(text)
        redacted = redact(own)
        secrets = [f"a secret was redacted: {found.kind}, line {found.line}" for found in redacted.findings]
        return cls(redacted.text, (*([recalled_warning(recalled)] if recalled else []), *secrets))

    @property
    def origin(self) -> str:
        """The origin of its Source."""
        return PREFIX + digest(self.text)

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to store."""
        return not self.text.strip()

    def item(self, segmenter: Segmenter, *, max_chars: int) -> dict[str, Any]:
        """Return its Source as an inline item of `ingest`. Text between segments is stored in the metadata."""
        gaps = _gaps([draft.text for draft in segmenter(self.text, max_chars=max_chars)], self.text)
        metadata = {} if gaps == _NO_GAPS else {_GAPS: gaps}
        return {"kind": "note", "origin": self.origin, "text": self.text, "metadata": metadata}


def text_of(source: Source) -> str:
    """Return the exact text of a document."""
    gaps = source.metadata.get(_GAPS)
    if not isinstance(gaps, list) or not all(isinstance(gap, str) for gap in gaps):
        gaps = _NO_GAPS
    # Old segments that are stored only as evidence come after the current ones.
    parts = [segment.excerpt for segment in sorted(source.segments, key=lambda part: part.position)][: len(gaps) - 1]
    return "".join(part for pair in zip(gaps, [*parts, ""], strict=False) for part in pair)


def checked_texts(texts: object, *, field: str, most: int | None = None) -> Sequence[str]:
    """Return a value as a list of texts. Raises `InvalidInput` naming the field if it is not one."""
    if isinstance(texts, str) or not isinstance(texts, Sequence):
        kind = type(texts).__name__
        raise field_error(field, f"it must be a list of texts, not {kind}", hint=f"Give {field} as a list.")
    if most is not None and len(texts) > most:
        raise field_error(field, f"{len(texts)} texts; the maximum is {most}", hint=f"Give at most {most} per call.")
    return [_checked_text(text, f"{field}.{place}") for place, text in enumerate(texts)]


def field_error(field: str, problem: str, *, hint: str) -> InvalidInput:
    """Return the error for an invalid field."""
    details: Mapping[str, Any] = {"fields": [{"field": field, "problem": problem}]}
    return InvalidInput(f"{field}: {problem}.", hint=hint, details=details)


def _checked_text(text: object, field: str) -> str:
    if not isinstance(text, str):
        raise field_error(field, f"it must be a text, not {type(text).__name__}", hint="Give plain texts.")
    if not text.strip():
        raise field_error(field, "the text is empty", hint="Omit it, or give a text.")
    return well_formed(text)


def _gaps(parts: Sequence[str], text: str) -> list[str]:
    """Return the text before, between and after the parts of a text.

    If the parts are not in the text in order (because of other line ends, for example), return the whole text.
    """
    gaps, at = list[str](), 0
    for part in parts:
        start = text.find(part, at)
        if start < 0:
            return [text]
        gaps.append(text[at:start])
        at = start + len(part)
    return [*gaps, text[at:]]
