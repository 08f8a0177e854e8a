"""Find and remove sentences of a text in objects derived from it, such as the description in a repository map.

Such objects copy sentences: without markup, with other line breaks, or cut. So sentences are compared by their words.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from treering.core.characters import normalise_text
from treering.core.evidence import Segment, segment_hash
from treering.core.objects import Node, Source
from treering.ports.adapter import NodeDraft, SourceDraft
from treering.ports.runtime import Clock, fresh_id, fresh_salt, fresh_segment_id
from treering.verbs.ingest.segments import with_texts

MIN_WORDS = 3
"""Shorter sentences are names and labels, which occur elsewhere for other reasons."""
IsCopied = Callable[[str], bool]
_MIN_SHARE = 0.5
"""The share of a sentence's runs of words that must be in the text; a cut or simplified sentence lacks some."""
_PARAGRAPHS = re.compile(r"\n(?:[ \t]*\n)+")
_SENTENCES = re.compile(r"(?<=[.!?])\s+|\s+(?=\()")
_PUNCTUATION = ".,;:!?…*_`\"'()[]{}<>#"


def sentences_of(texts: Iterable[str]) -> Iterator[str]:
    """Yield the sentences of texts, whose lines may be wrapped, with at least `MIN_WORDS` words."""
    parts = (" ".join(part.split()) for text in texts for part in (*_PARAGRAPHS.split(text), *text.split("\n")))
    sentences = (one for part in dict.fromkeys(parts) for one in _SENTENCES.split(part))
    yield from dict.fromkeys(one for one in sentences if len(_words(one)) >= MIN_WORDS)


def plain(sentence: str) -> str:
    """Return the words of a sentence without case and punctuation, to compare it."""
    return " ".join(_words(sentence))


def copies_from(texts: Iterable[str]) -> IsCopied:
    """Return a function that decides whether a sentence is copied from one of these texts."""
    runs = {run for text in texts for run in _runs(_words(text))}

    def is_copied(sentence: str) -> bool:
        own = [*_runs(_words(sentence))]
        return bool(own) and sum(run in runs for run in own) >= _MIN_SHARE * len(own)

    return is_copied


def without_copies(value: Any, is_copied: IsCopied) -> Any:
    """Return JSON without copied sentences; an object in a list that loses a text is left out."""
    match value:
        case str():
            return _text_without(value, is_copied)
        case Mapping():
            return {name: without_copies(one, is_copied) for name, one in value.items()}
        case list() | tuple():
            pairs = [(one, without_copies(one, is_copied)) for one in value]
            return [new for old, new in pairs if new == old or not isinstance(old, Mapping)]
        case _:
            return value


def derived_without(item: Source | Node, is_copied: IsCopied, clock: Clock) -> Source | Node:
    """Return a new object with the content of one, except copied sentences."""
    salt = fresh_salt(clock)
    match item:
        case Node():
            left: dict[str, Any] = {"summary": _text_without(item.summary, is_copied)}
        case Source():
            left = {
                "payload": without_copies(item.payload, is_copied),
                "segments": tuple(_segment(one, is_copied, salt, clock) for one in item.segments),
                "fingerprint": "",  # so that the next reading draws it again
            }
    return item.model_copy(update={**left, "salt": salt, "id": fresh_id(item.type, clock), "revision": 1})


def draft_without(draft: SourceDraft, is_copied: IsCopied) -> SourceDraft:
    """Return a derived draft without copied sentences."""
    left = with_texts(draft, [_text_without(one.text, is_copied) for one in draft.segments])
    return replace(left, payload=without_copies(draft.payload, is_copied), nodes=nodes_without(draft.nodes, is_copied))


def nodes_without(nodes: Iterable[NodeDraft], is_copied: IsCopied) -> list[NodeDraft]:
    """Return nodes whose summaries lack copied sentences."""
    return [replace(node, summary=_text_without(node.summary, is_copied)) for node in nodes]


def _segment(segment: Segment, is_copied: IsCopied, salt: str, clock: Clock) -> Segment:
    text = _text_without(segment.excerpt, is_copied)
    changes = {"segment_id": fresh_segment_id(clock), "excerpt": text, "hash": segment_hash(text, salt=salt)}
    return segment.model_copy(update={**changes, "gist": None, "triples": ()})


def _text_without(text: str, is_copied: IsCopied) -> str:
    """Return a text without copied sentences; lines that become empty are left out."""
    lines = [(line, _line_without(line, is_copied)) for line in text.split("\n")]
    return "\n".join(new for old, new in lines if new or not old)


def _line_without(line: str, is_copied: IsCopied) -> str:
    if is_copied(line):
        return ""
    sentences = _SENTENCES.split(line)
    left = [one for one in sentences if not is_copied(one)]
    return line if len(left) == len(sentences) else " ".join(left)


def _words(text: str) -> list[str]:
    return [word for one in normalise_text(text).split() if (word := one.strip(_PUNCTUATION))]


def _runs(words: list[str]) -> Iterator[tuple[str, ...]]:
    yield from zip(*(words[start:] for start in range(MIN_WORDS)), strict=False)
