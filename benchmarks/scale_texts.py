"""Texts for `benchmarks.scale`: prose, conversations and code of public sets, recombined up to any size.

The first passages are whole texts as published. When these are used up, a passage gets a title, a speaker or a path of
a real text, and sentences or blocks of other real texts. One passage in five contains a sentence that many others
contain. Everything follows from the number of the passage, so that a larger space begins like a smaller one.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from benchmarks.code_data import clone_of, files_at, load_questions
from benchmarks.data import Passage, load

Item = dict[str, Any]
"""An item of `ingest`, which becomes one source."""

_SENTENCE_END = re.compile(r"(?<=[.!?]) +")
_BLOCK_END = re.compile(r"\n\n+(?=\S)")
_REPOSITORIES = (
    "celery/celery",
    "honojs/hono",
    "pallets/flask",
    "BurntSushi/ripgrep",
    "google/gson",
    "encode/httpx",
    "trpc/trpc",
    "spf13/cobra",
)
_CODE = frozenset({".py", ".ts", ".tsx", ".rs", ".go", ".java", ".js"})
_REPEATED_SHARE = 0.2
_REPEATED = 500
"""Sentences that occur in many passages."""
_SENTENCES = 3
_TURNS = 20
"""Turns of a recombined conversation."""
_BLOCKS = 4
"""Blocks of a recombined file, each at most a passage long."""
_MAX_BLOCK_CHARS = 1_200
_MAX_FILE_CHARS = 100_000


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of text: its items in order, about how many passages each has, and questions about it."""

    name: str
    items: Callable[[], Iterator[Item]]
    passages: Callable[[Item], int]
    questions: Callable[[], Sequence[str]]


def items_for(kind: Kind, passages: int, *, skip: int = 0) -> Iterator[Item]:
    """Yield the items with about this number of passages, after those with `skip` passages."""
    count = 0
    for item in kind.items():
        if count >= skip + passages:
            return
        if count >= skip:
            yield item
        count += kind.passages(item)


def _prose() -> Iterator[Item]:
    texts = _paragraphs()
    for number, one in enumerate(texts):
        yield _note(number, one.title, one.text)
    sentences = [_SENTENCE_END.split(one.text) for one in texts]
    for number in _from(len(texts)):
        chance = random.Random(number)
        title = texts[number % len(texts)].title
        yield _note(number, f"{title} {number // len(texts)}", " ".join(_drawn(chance, sentences)))


def _drawn(chance: random.Random, sentences: Sequence[Sequence[str]]) -> list[str]:
    """Draw sentences of texts; in some draws, the last one is a sentence that many passages contain."""
    drawn = [chance.choice(chance.choice(sentences)) for _ in range(_SENTENCES)]
    if chance.random() < _REPEATED_SHARE:
        drawn[-1] = sentences[chance.randrange(_REPEATED)][0]
    return drawn


def _note(number: int, title: str, text: str) -> Item:
    return {"kind": "note", "origin": f"note/{number}", "title": title, "text": text}


def _conversations() -> Iterator[Item]:
    turns = _all_turns()
    threads: dict[str, list[Passage]] = {}
    for one in turns:
        threads.setdefault(one.thread or one.id, []).append(one)
    for name, of_one in threads.items():
        yield _conversation(name, of_one)
    sentences = [_SENTENCE_END.split(one.text) for one in turns]
    for number in _from(0):
        chance = random.Random(number)
        first = chance.randrange(len(turns) - _TURNS)
        yield {
            **_conversation(f"talk/{number}", turns[first : first + _TURNS]),
            "messages": [
                {"id": f"{number}/{at}", "name": one.speaker, "at": one.said_at, "content": content}
                for at, one in enumerate(turns[first : first + _TURNS])
                if (content := " ".join(_drawn(chance, sentences)).strip())
            ],
        }


def _conversation(name: str, turns: Sequence[Passage]) -> Item:
    messages = [{"id": one.id, "name": one.speaker, "at": one.said_at, "content": one.text} for one in turns]
    return {"kind": "conversation", "origin": name, "title": name.rpartition("/")[2], "messages": messages}


def _code() -> Iterator[Item]:
    files = list(_all_files().items())
    for path, text in files:
        yield {"kind": "file", "origin": path, "title": path, "text": text}
    blocks: dict[str, list[str]] = {}
    for path, text in files:
        of_suffix = blocks.setdefault(PurePosixPath(path).suffix, [])
        of_suffix += [block for block in _BLOCK_END.split(text) if 80 < len(block) <= _MAX_BLOCK_CHARS]
    for number in _from(len(files)):
        chance = random.Random(number)
        place = PurePosixPath(files[number % len(files)][0])
        path = str(place.with_stem(f"{place.stem}_{number // len(files)}"))
        text = "\n\n".join(chance.choice(blocks[place.suffix]) for _ in range(_BLOCKS))
        yield {"kind": "file", "origin": path, "title": path, "text": text}


def _from(number: int) -> Iterator[int]:
    while True:
        yield number
        number += 1


@cache
def _paragraphs() -> Sequence[Passage]:
    """Return the paragraphs of HotpotQA and MuSiQue. Raises `MissingData`."""
    return [one for name in ("hotpotqa", "musique") for one in load(name).collections[0].passages]


@cache
def _all_turns() -> Sequence[Passage]:
    """Return the turns of LoCoMo and LongMemEval. Raises `MissingData`."""
    sets = (load(name) for name in ("locomo", "longmemeval"))
    return [one for labelled in sets for talk in labelled.collections for one in talk.passages if one.text.strip()]


@cache
def _all_files() -> Mapping[str, str]:
    """Return the code of repositories, by repository and path. Raises `MissingData`."""
    return {
        f"{repository}/{path}": text
        for repository in _REPOSITORIES
        for path, text in files_at(clone_of(repository), "HEAD").items()
        if PurePosixPath(path).suffix in _CODE and 0 < len(text.strip()) <= _MAX_FILE_CHARS
    }


def _asked_of(*names: str) -> Callable[[], Sequence[str]]:
    def asked() -> Sequence[str]:
        of_each = [[one.text for talk in load(name).collections for one in talk.questions] for name in names]
        return [text for pair in zip(*of_each, strict=False) for text in pair]

    return asked


def _asked_of_code() -> Sequence[str]:
    return [one.text for one in load_questions("questions")]


def _length_in_passages(item: Item) -> int:
    return max(1, round(len(item["text"]) / _MAX_BLOCK_CHARS))


KINDS: Mapping[str, Kind] = {
    one.name: one
    for one in (
        Kind("prose", _prose, lambda _: 1, _asked_of("hotpotqa", "musique")),
        Kind("conversations", _conversations, lambda item: len(item["messages"]), _asked_of("locomo", "longmemeval")),
        Kind("code", _code, _length_in_passages, _asked_of_code),
    )
}


def batches(items: Iterator[Item], size: int) -> Iterator[list[Item]]:
    """Yield items in lists of a size."""
    while batch := list(islice(items, size)):
        yield batch
