"""Parsing memories from the output of a language model or a workflow: each item is validated, with reasons."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from treering.core.errors import TreeringError, Unavailable
from treering.extensions.discussions.generators.generator import Generated, GeneratedMemory
from treering.extensions.discussions.identity import is_placeholder
from treering.extensions.encoder.asking import json_values
from treering.extensions.encoder.language_model import Usage
from treering.extensions.statements.extractive import entities_of, phrases_of, sentences_of


@dataclass(frozen=True, slots=True)
class ParsedMemories:
    """The memories of an answer, and the reason for each unusable item. Both are empty if nothing was worth storing."""

    items: tuple[GeneratedMemory, ...] = ()
    rejected: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadableAnswer:
    """An answer that neither contains a memory nor states that there is none."""

    why: str


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """An answer in plain text, and its memories if no other format is requested or returned.

    There is one, or one for each block between occurrences of `CHUNK_BREAK`.
    """

    items: tuple[GeneratedMemory, ...]

    @property
    def why(self) -> str:
        """The problem if a JSON list was requested."""
        return "it is plain text without JSON"


def made_memories(
    parsed: ParsedMemories | PlainAnswer | UnreadableAnswer,
    usage: Usage,
    ask_again: Callable[[str], tuple[str, Usage]] | None,
    failed: Callable[[str, Usage], Unavailable],
) -> Generated:
    """Return the memories of an answer, which is requested once more in the right format if necessary.

    `ask_again` gets the problem of the answer; `None`: it is used as it is. If the second one is no better, plain text
    is used. Raises the error that `failed` returns for a problem if there is no text either.
    """
    if ask_again and not isinstance(parsed, ParsedMemories):
        parsed, more = _repaired(parsed, ask_again)
        usage += more
    if isinstance(parsed, UnreadableAnswer):
        raise failed(parsed.why, usage)
    return Generated(parsed.items, parsed.rejected if isinstance(parsed, ParsedMemories) else (), usage)


def _repaired(
    first: PlainAnswer | UnreadableAnswer, ask_again: Callable[[str], tuple[str, Usage]]
) -> tuple[ParsedMemories | PlainAnswer | UnreadableAnswer, Usage]:
    try:
        answer, usage = ask_again(first.why)
    except TreeringError:
        if isinstance(first, PlainAnswer):
            return first, Usage()
        raise
    second = parse_items(answer)
    is_better = isinstance(second, ParsedMemories) or isinstance(first, UnreadableAnswer)
    return second if is_better else first, usage


def parse_items(answer: str) -> ParsedMemories | PlainAnswer | UnreadableAnswer:
    """Parse the memories in an answer: a JSON list, several values, an object that contains some, or plain text.

    Text around the JSON and thoughts (`<think>…</think>`) are ignored. Invalid items are rejected, the others used;
    if none is valid, the answer is unreadable. So is a refusal.
    """
    spoken = without_thoughts(answer)
    values = list(json_values(spoken, begins="{["))
    if not values and spoken.strip() and (_NOTHING.fullmatch(spoken.strip()) or is_placeholder(spoken)):
        return ParsedMemories()
    candidates = [each for value in values for each in _candidates(json.loads(value))]
    plain = _plain(spoken) if _is_prose(spoken, values, candidates) else None
    if plain:
        return plain
    return _parsed(candidates, cut=_is_cut(spoken, values)) if values else _in_thoughts(answer)


def plain_item(text: str) -> GeneratedMemory:
    """Return a memory of a text, with its first words as title and the names and phrases in it."""
    summary = text if len(text) <= _MOST_SUMMARY else f"{text[: _MOST_SUMMARY - 1].rstrip()}…"
    sentences = sentences_of(summary)
    return GeneratedMemory(
        title=first_words(text),
        summary=summary,
        entities=tuple(entities_of(sentences)[:_MOST_ENTITIES]),
        key_phrases=tuple(phrases_of(sentences)[:_MOST_PHRASES]),
    )


def first_words(text: str) -> str:
    """Return a title for a text without one: the beginning of its first line with words."""
    lines = (line.strip(_MARKUP) for line in text.splitlines())
    line = next((line for line in lines if line), text.strip())
    return line if len(line) <= _MOST_FIRST else f"{line[: _MOST_FIRST - 1].rsplit(' ', 1)[0]}…"


def plain_text(answer: str) -> str:
    """Return the text of an answer, without thoughts and without an enclosing code fence."""
    spoken = without_thoughts(answer).strip()
    fenced = _FENCED.fullmatch(spoken)
    return sound_text(fenced["inside"] if fenced else spoken).strip()


def written_text(answer: str) -> str:
    """Return the summary or document in an answer; empty if it only states that there is none yet."""
    text = plain_text(answer)
    return "" if is_placeholder(text) else text


def without_thoughts(answer: str) -> str:
    """Remove the thoughts of a model. A thought without an end extends to the end of the answer."""
    return _CLOSING.split(_THOUGHT.sub("", answer))[-1]


def sound_text(text: str) -> str:
    """Return a text without lone surrogates and control characters, which some stores reject."""
    return _UNSOUND.sub("", text)


_THINK = r"think(?:ing)?|reason(?:ing)?|thought"
_THOUGHT = re.compile(rf"<({_THINK})>.*?(?:</\1>|\Z)", re.IGNORECASE | re.DOTALL)
_CLOSING = re.compile(rf"</(?:{_THINK})>", re.IGNORECASE)
_FENCED = re.compile(r"```\w*[^\S\n]*\n(?P<inside>.*?)\n?```", re.DOTALL)
_NOTHING = re.compile(
    r"[\W_]*(?:null|none|nothing|n/a|no|empty)(?:[ _]+(?:new|memory|memories|items?|at|all|to|worth|remember|"
    r"remembering|keep|keeping|noteworthy|relevant|found|here|was|is|said|in|this|chunk|facts?))*[\W_]*",
    re.IGNORECASE,
)
_UNSOUND = re.compile("[\ud800-\udfff\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_FIELD = re.compile(r'"(?:title|summary)"\s*:')
_SEPARATOR = re.compile(r"[;\n]")

CHUNK_BREAK = "--ChunkBreak--"
"""The separator of memories in the texts of other programs."""
_WORD = re.compile(r"[^\W\d_]{2}|[\u2e80-\u9fff\uac00-\ud7af]")
_WORDS = re.compile(r"\w\W+\w|[\u2e80-\u9fff\uac00-\ud7af]{4}")
_REFUSAL = re.compile(
    r"\W*(?:i['’]?m (?:(?:very |really )?sorry|unable|not able)|sorry\b|unfortunately,? i\b|as an ai\b|"
    r"i (?:cannot|can['’]t|can not|won['’]t|am (?:un|not )able|would (?:rather|prefer) not|refuse))",
    re.IGNORECASE,
)
_MARKUP = " \t#*_-•>`"

_MOST_ITEMS = 50
_MOST_ENTITIES = 12
_MOST_PHRASES = 8
_MOST_FIRST = 80
_MOST_TITLE = 200  # characters
_MOST_SUMMARY = 6_000
_MOST_WORDS = 40  # entries of a list
_MOST_WORD = 200
_MOST_MOOD = 100
_LISTS = ("entities", "key_phrases", "topics")
_DEEPEST = 3


def _is_prose(answer: str, values: Sequence[str], candidates: Sequence[JsonValue]) -> bool:
    """Return whether an answer is plain text: `[1]` or `[Monday]` in a sentence is not a list of memories."""
    if (values and not candidates) or any(isinstance(candidate, dict) for candidate in candidates):
        return False
    return _WORD.search(_outside(answer, values)) is not None


def _plain(answer: str) -> PlainAnswer | None:
    """Parse plain text: blocks of words that are neither a refusal nor invalid JSON."""
    if _FIELD.search(answer):
        return None
    blocks = [plain_text(block) for block in answer.split(CHUNK_BREAK)]
    blocks = [block for block in blocks if not is_placeholder(block) and _WORDS.search(block)]
    if not blocks or any(_REFUSAL.match(block) for block in blocks):
        return None
    return PlainAnswer(tuple(map(plain_item, blocks[:_MOST_ITEMS])))


def _in_thoughts(answer: str) -> ParsedMemories | UnreadableAnswer:
    """Parse the last value of an answer that consists of thoughts: perhaps one has no end."""
    last = list(json_values(answer, begins="{["))[-1:]
    parsed = _parsed([one for value in last for one in _candidates(json.loads(value))], cut=_is_cut(answer, last))
    return parsed if isinstance(parsed, ParsedMemories) and parsed.items else UnreadableAnswer("it contains no JSON")


def _is_cut(answer: str, values: Sequence[str]) -> bool:
    """Return whether part of an item is outside the values: truncated or invalid JSON."""
    return _FIELD.search(_outside(answer, values)) is not None


def _outside(answer: str, values: Sequence[str]) -> str:
    """Return the text around the JSON values of an answer."""
    for value in values:
        answer = answer.replace(value, "", 1)
    return answer


def _parsed(candidates: Sequence[JsonValue], *, cut: bool) -> ParsedMemories | UnreadableAnswer:
    items: dict[GeneratedMemory, None] = {}
    rejected = []
    for number, candidate in enumerate(candidates[:_MOST_ITEMS], start=1):
        item = _item(candidate)
        if isinstance(item, GeneratedMemory):
            items[item] = None
        else:
            rejected.append(f"item {number}: {item}")
    if len(candidates) > _MOST_ITEMS:
        rejected.append(f"{len(candidates) - _MOST_ITEMS} items were ignored: the maximum is {_MOST_ITEMS}")
    if cut:
        rejected.append("an item that is truncated or not valid JSON")
    if rejected and not items:
        return UnreadableAnswer(f"none of its items can be used: {'; '.join(rejected[-5:])}")
    return ParsedMemories(tuple(items), tuple(rejected))


def _candidates(value: JsonValue, depth: int = 0) -> list[JsonValue]:
    """Return the candidates in a value: the entries of lists at any depth, or a single object.

    An empty list or object has none, which means that there is nothing to remember.
    """
    match value:
        case list() if depth < _DEEPEST:
            entries: list[JsonValue] = []
            for each in value:
                entries += _candidates(each, depth + 1) if isinstance(each, list) else [each]
            return entries
        case dict() if depth < _DEEPEST and not _looks_like_item(value):
            inside = [each for each in value.values() if isinstance(each, list | dict)]
            if not inside:
                return [value] if value else []
            return [one for each in inside for one in _candidates(each, depth + 1)]
        case _:
            return [value]


def _looks_like_item(value: dict[str, JsonValue]) -> bool:
    return any(isinstance(value.get(name), str) for name in ("title", "summary"))


def _item(value: JsonValue) -> GeneratedMemory | str:
    """Return the memory in a value, or the reason why it is invalid."""
    if not isinstance(value, dict):
        return "it is not a JSON object"
    fields: dict[str, object] = {
        "title": _short(value.get("title"), _MOST_TITLE),
        "summary": _short(value.get("summary"), _MOST_SUMMARY),
        "sentiment": _short(value.get("sentiment"), _MOST_MOOD) or "",
        **{name: _words(value.get(name)) for name in _LISTS},
    }
    try:
        return GeneratedMemory.model_validate(fields)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_input=False, include_context=False)
        return "; ".join(f"{problem['loc'][0]}: {problem['msg']}" for problem in problems)


def _short(value: JsonValue, most: int) -> JsonValue:
    """Return a text of at most `most` characters; other values are left for validation."""
    return _bounded(value, most) if isinstance(value, str) else value


def _bounded(text: str, most: int) -> str:
    plain = " ".join(sound_text(text).split())
    return plain if len(plain) <= most else f"{plain[: most - 1].rstrip()}…"


def _words(value: JsonValue) -> list[str]:
    """Return the distinct entries of a list or of a text such as `a; b` or `a, b`; skip entries that are not text."""
    entries: Sequence[JsonValue] = value if isinstance(value, list) else ()
    if isinstance(value, str):
        entries = _SEPARATOR.split(value) if _SEPARATOR.search(value) else value.split(",")
    texts = (str(each) for each in entries if isinstance(each, str | int | float) and not isinstance(each, bool))
    words = (_bounded(text, _MOST_WORD) for text in texts)
    return [*dict.fromkeys(word for word in words if word)][:_MOST_WORDS]
