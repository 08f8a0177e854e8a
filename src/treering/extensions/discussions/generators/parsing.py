"""Memories from whatever a language model or a workflow writes: found, checked one by one, the useless ones named."""

import json
import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pydantic import JsonValue, ValidationError

from treering.core.fencing import cut
from treering.extensions.discussions.generators.generator import GeneratedMemory
from treering.extensions.discussions.identity import is_placeholder
from treering.retrieval.extraction.asking import json_values
from treering.retrieval.extraction.extractive import entities_of, phrases_of, sentences_of


@dataclass(frozen=True, slots=True)
class ParsedMemories:
    """The memories of an answer, and of each item that could not be used, why. Neither: there was nothing to keep."""

    items: tuple[GeneratedMemory, ...] = ()
    rejected: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class UnreadableAnswer:
    """An answer that holds no memory and does not say that there is none."""

    why: str


@dataclass(frozen=True, slots=True)
class PlainAnswer:
    """An answer in plain text, and the memories it makes where no other form is asked for or given.

    They are one, or one for each block that `CHUNK_BREAK` parts from the next.
    """

    items: tuple[GeneratedMemory, ...]

    @property
    def why(self) -> str:
        """Say what is missing where a JSON list was asked for."""
        return "it is plain text without JSON"


def better_of(
    first: PlainAnswer | UnreadableAnswer, second: ParsedMemories | PlainAnswer | UnreadableAnswer
) -> ParsedMemories | PlainAnswer | UnreadableAnswer:
    """Return the answer to keep of a first one and of that which was asked for in its place."""
    return first if isinstance(first, PlainAnswer) and not isinstance(second, ParsedMemories) else second


def parse_items(answer: str) -> ParsedMemories | PlainAnswer | UnreadableAnswer:
    """Read the memories in an answer: a JSON list of them, several values, an object that holds some, or plain text.

    What is written around the JSON and what was only thought (`<think>…</think>`) does not count. An item that does
    not fit is rejected, the others are kept; where none is left the answer is unreadable. So is a refusal.
    """
    said = without_thoughts(answer)
    written = list(json_values(said, begins="{["))
    if not written and said.strip() and (_NOTHING.fullmatch(said.strip()) or is_placeholder(said)):
        return ParsedMemories()
    candidates = [found for value in written for found in _candidates(json.loads(value))]
    plain = _plain(said) if _is_prose(said, written, candidates) else None
    if plain:
        return plain
    return _parsed(candidates, cut=_is_cut(said, written)) if written else _after_all(answer)


def plain_item(text: str) -> GeneratedMemory:
    """Make a memory of a text: called by its first words, with the names and phrases that stand in it."""
    summary = text if len(text) <= _MOST_SUMMARY else f"{text[: _MOST_SUMMARY - 1].rstrip()}…"
    sentences = sentences_of(summary)
    return GeneratedMemory(
        title=first_words(text),
        summary=summary,
        entities=tuple(entities_of(sentences)[:_MOST_ENTITIES]),
        key_phrases=tuple(phrases_of(sentences)[:_MOST_PHRASES]),
    )


def first_words(text: str) -> str:
    """Return what a memory without a title is called: the beginning of its first line that has any words."""
    lines = (line.strip(_MARKUP) for line in text.splitlines())
    line = next((line for line in lines if line), text.strip())
    return line if len(line) <= _MOST_FIRST else f"{line[: _MOST_FIRST - 1].rsplit(' ', 1)[0]}…"


def plain_text(answer: str) -> str:
    """Return the text an answer consists of, without thoughts and without a code fence around all of it."""
    said = without_thoughts(answer).strip()
    fenced = _FENCED.fullmatch(said)
    return sound_text(fenced["inside"] if fenced else said).strip()


def written_text(answer: str) -> str:
    """Return the summary or document an answer consists of, empty where it only says that there is none yet."""
    text = plain_text(answer)
    return "" if is_placeholder(text) else text


def without_thoughts(answer: str) -> str:
    """Take out what a model only thought. A thought that never ends takes the rest of the answer with it."""
    spoken = _OPENING.split(cut(answer, list(_thoughts(answer))), maxsplit=1)[0]
    return _CLOSING.split(spoken)[-1]


def sound_text(text: str) -> str:
    """Return a text that every store can keep: without lone surrogates and control characters."""
    return _UNSOUND.sub("", text)


def _thoughts(answer: str) -> Iterator[tuple[int, int]]:
    """Find the thoughts that end, each by its own name. In time that grows with the length, however many begin."""
    ends: dict[str, list[int]] = defaultdict(list)
    for closing in _CLOSING.finditer(answer):
        ends[closing[1].lower()].append(closing.end())
    at = 0
    for opening in _OPENING.finditer(answer):
        known = ends[opening[1].lower()]
        place = bisect_right(known, opening.end())
        if opening.start() >= at and place < len(known):
            at = known[place]
            yield opening.start(), at


_THINK = r"think(?:ing)?|reason(?:ing)?|thought"
_OPENING = re.compile(rf"<({_THINK})>", re.IGNORECASE)
_CLOSING = re.compile(rf"</({_THINK})>", re.IGNORECASE)
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
"""What parts memories from each other in the texts of other programs."""
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


def _is_prose(said: str, written: Sequence[str], candidates: Sequence[JsonValue]) -> bool:
    """Tell whether an answer is plain text: `[1]` or `[Monday]` in a sentence is not a list of memories."""
    if (written and not candidates) or any(isinstance(candidate, dict) for candidate in candidates):
        return False
    return _WORD.search(_outside(said, written)) is not None


def _plain(said: str) -> PlainAnswer | None:
    """Read plain text: blocks of words that are neither a refusal nor broken JSON."""
    if _FIELD.search(said):
        return None
    blocks = [plain_text(block) for block in said.split(CHUNK_BREAK)]
    told = [block for block in blocks if not is_placeholder(block) and _WORDS.search(block)]
    if not told or any(_REFUSAL.match(block) for block in told):
        return None
    return PlainAnswer(tuple(map(plain_item, told[:_MOST_ITEMS])))


def _after_all(answer: str) -> ParsedMemories | UnreadableAnswer:
    """Read an answer of which everything seems to be a thought: perhaps one was never ended. The last value counts."""
    last = list(json_values(answer, begins="{["))[-1:]
    found = _parsed([one for value in last for one in _candidates(json.loads(value))], cut=_is_cut(answer, last))
    return found if isinstance(found, ParsedMemories) and found.items else UnreadableAnswer("it contains no JSON")


def _is_cut(said: str, written: Sequence[str]) -> bool:
    """Tell whether something of an item stands outside of the values: JSON that ends too early, or is not JSON."""
    return _FIELD.search(_outside(said, written)) is not None


def _outside(said: str, written: Sequence[str]) -> str:
    """Return what stands around the JSON values of an answer."""
    for value in written:
        said = said.replace(value, "", 1)
    return said


def _parsed(candidates: Sequence[JsonValue], *, cut: bool) -> ParsedMemories | UnreadableAnswer:
    items: dict[GeneratedMemory, None] = {}
    rejected = []
    for number, candidate in enumerate(candidates[:_MOST_ITEMS], start=1):
        made = _item(candidate)
        if isinstance(made, GeneratedMemory):
            items[made] = None
        else:
            rejected.append(f"item {number}: {made}")
    if len(candidates) > _MOST_ITEMS:
        rejected.append(f"{len(candidates) - _MOST_ITEMS} items were ignored: the maximum is {_MOST_ITEMS}")
    if cut:
        rejected.append("an item that is truncated or not valid JSON")
    if rejected and not items:
        return UnreadableAnswer(f"none of its items can be used: {'; '.join(rejected[-5:])}")
    return ParsedMemories(tuple(items), tuple(rejected))


def _candidates(value: JsonValue, depth: int = 0) -> list[JsonValue]:
    """Return what may be memories: the entries of a list, wherever it hangs, or a single object.

    An empty list or object holds none, which says that there is nothing to remember.
    """
    match value:
        case list() if depth < _DEEPEST:
            found: list[JsonValue] = []
            for each in value:
                found += _candidates(each, depth + 1) if isinstance(each, list) else [each]
            return found
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
    """Make a memory of a value, or say why there is none in it."""
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
    """Return a text of at most so many characters; what is not text is left for the check."""
    return _bounded(value, most) if isinstance(value, str) else value


def _bounded(text: str, most: int) -> str:
    plain = " ".join(sound_text(text).split())
    return plain if len(plain) <= most else f"{plain[: most - 1].rstrip()}…"


def _words(value: JsonValue) -> list[str]:
    """Return the entries of a list; a text stands for several: `a; b`, or `a, b`. What is not a word is left out."""
    given: Sequence[JsonValue] = value if isinstance(value, list) else ()
    if isinstance(value, str):
        given = _SEPARATOR.split(value) if _SEPARATOR.search(value) else value.split(",")
    texts = (str(each) for each in given if isinstance(each, str | int | float) and not isinstance(each, bool))
    words = (_bounded(text, _MOST_WORD) for text in texts)
    return [*dict.fromkeys(word for word in words if word)][:_MOST_WORDS]
