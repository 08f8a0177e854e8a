"""What a space costs on real paragraphs, encoding apart, beside full text and a matrix in one script.

The paragraphs of HotpotQA, varied up to size: a further copy takes its sentences from other paragraphs. Vectors are
random, for neither their making nor what they find is measured here. Made-up text runs the same way, for comparison.
"""

import random
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import treering
from benchmarks.costs import Cost, cost_of, milliseconds, typical, wall_note
from benchmarks.data import MissingData, load
from benchmarks.figures import Figure, Missing, Row, at_least, at_most
from benchmarks.plain_script import DIMENSION, Paragraph, Script
from benchmarks.plan import Plan, workplace
from benchmarks.processes import disk_used, probe
from benchmarks.synthetic import documents, questions
from treering import Space
from treering.extensions.encoder.onnx import BgeSmall
from treering.ports.models import Vector

_SIZES = (10_000, 50_000)
_QUICK_SIZES = (300,)
_CALL = 1_000  # items in one call
_ADDED = 24
_ASKED = 40
_SHORT_WORDS = 12
_STARTS = 3


class RandomVectors:
    """An embedder that costs next to nothing and knows nothing. `spent` is the CPU time it took, in seconds."""

    dimension = DIMENSION
    model_id = f"random/{DIMENSION}"
    unrelated_below = 0.5

    def __init__(self, *, encoding: bool = False) -> None:
        """Draw from the beginning. With `encoding` the built-in model embeds every question too, for its cost."""
        self._encoder = BgeSmall() if encoding else None
        self._rng = np.random.default_rng(0)
        self.spent = 0.0

    def embed_documents(self, texts: Sequence[str]) -> Vector:
        """Draw vectors: `float32[n, dim]`, unit length."""
        began = time.thread_time()
        vectors = self._rng.standard_normal((len(texts), DIMENSION), dtype=np.float32)
        vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
        self.spent += time.thread_time() - began
        return vectors

    def embed_query(self, text: str) -> Vector:
        """Draw a vector: `float32[dim]`, unit length."""
        if self._encoder:
            self._encoder.embed_query(text)
        vector: Vector = self.embed_documents([text])[0]
        return vector


def measure(plan: Plan) -> list[Row]:
    """Measure real paragraphs at each size, then made-up ones and short notes at the smallest."""
    sizes = _QUICK_SIZES if plan.quick else _SIZES
    rows: list[Row] = []
    try:
        collection = load("hotpotqa").collections[0]
    except MissingData as missing:
        rows.append(Missing("real paragraphs", str(missing)))
    else:
        real = [(one.title, one.text) for one in collection.passages]
        asked = [question.text for question in collection.questions[:_ASKED]]
        for size in sizes:
            rows += _compared("real", varied(real, size + _ADDED), asked)
    made = [(one.title, one.passages[0]) for one in documents(sizes[0] + _ADDED, passages=1)]
    rows += _compared("made up", made, questions(_ASKED))
    short = [(title, " ".join(text.split()[:_SHORT_WORDS])) for title, text in made]
    return [*rows, *_compared("short notes", short, questions(_ASKED))]


def varied(paragraphs: Sequence[Paragraph], count: int) -> list[Paragraph]:
    """Return paragraphs; those beyond what there is are made of sentences of others, under a title with a number."""
    chance = random.Random(0)
    sentences = [_SENTENCE_END.split(text) for _, text in paragraphs]
    made = list(paragraphs[:count])
    for place in range(len(made), count):
        title, _ = paragraphs[place % len(paragraphs)]
        first, *rest = sentences[place % len(paragraphs)]
        text = " ".join([first, *(chance.choice(chance.choice(sentences)) for _ in rest)])
        made.append((f"{title} {place // len(paragraphs)}", text))
    return made


def _compared(name: str, given: Sequence[Paragraph], asked: Sequence[str]) -> Iterator[Figure]:
    content, more = given[:-_ADDED], given[-_ADDED:]
    with workplace() as folder:
        yield from _space(f"{name}, {len(content):,}", folder / "space.db", content, more, asked)
    with workplace() as folder:
        yield from _script(f"{name}, {len(content):,}", folder / "script.db", content, more, asked)


def _space(
    name: str, path: Path, content: Sequence[Paragraph], more: Sequence[Paragraph], asked: Sequence[str]
) -> Iterator[Figure]:
    embedder = RandomVectors()
    with treering.open(f"sqlite:{path}", background=False, embedder=embedder) as space:
        text = cost_of(partial(_fill, space, content))
        vectors = cost_of(space.embed_pending)
        cpu = text.cpu + vectors.cpu - embedder.spent
        told = (
            f"{text.cpu / len(content) * 1e3:.2f} ms for text, {(cpu - text.cpu) / len(content) * 1e3:.2f} for vectors"
        )
        yield Figure(f"{name}: bulk ingest", len(content) / cpu, "items per CPU s", at_least(1_500), told)
    yield Figure(f"{name}: disk per item", disk_used(path) / len(content) / 1024, "KiB", at_most(4))
    with treering.open(f"sqlite:{path}", background=False, embedder=embedder) as space:
        yield _figure(f"{name}: add one, found at once", _each(partial(_add, space), more, embedder), at_most(8))
        space.query("search", input={"text": asked[0]})
        ask = partial(_each, lambda question: space.query("search", input={"text": question}))
        yield _figure(f"{name}: query", ask(asked, embedder), at_most(10))
    yield from _start(name, "start_on_paragraphs", path, asked[0], cpu=1.0, memory=300)


def _start(
    name: str, probed: str, path: Path, question: str, *, cpu: float | None = None, memory: float | None = None
) -> Iterator[Figure]:
    """Ask once in fresh processes, the built-in encoder at work."""
    starts = [probe(probed, path=str(path), question=question) for _ in range(_STARTS)]
    used, more = (median(start[what] for start in starts) for what in ("cpu", "memory"))
    yield Figure(f"{name}: cold start to the first answer", used, "s CPU", at_most(cpu) if cpu else None)
    yield Figure(f"{name}: memory above the start", more, "MiB", at_most(memory) if memory else None)


def _script(
    name: str, path: Path, content: Sequence[Paragraph], more: Sequence[Paragraph], asked: Sequence[str]
) -> Iterator[Figure]:
    embedder = RandomVectors()
    script = Script(path)
    cost = cost_of(lambda: script.add(content, embedder.embed_documents([text for _, text in content])))
    yield Figure(f"— {name}: bulk ingest, script", len(content) / (cost.cpu - embedder.spent), "items per CPU s")
    yield Figure(f"— {name}: disk per item, script", disk_used(path) / len(content) / 1024, "KiB")

    def add(paragraph: Paragraph) -> None:
        script.add([paragraph], embedder.embed_documents([paragraph[1]]))
        script.ask(paragraph[0], embedder.embed_query(paragraph[0]))

    yield _figure(f"— {name}: add one, found at once, script", _each(add, more, embedder))
    ask = partial(_each, lambda question: script.ask(question, embedder.embed_query(question)))
    yield _figure(f"— {name}: query, script", ask(asked, embedder))
    yield from _start(f"— {name}, script", "start_of_script", path, asked[0])


def _fill(space: Space, content: Sequence[Paragraph]) -> None:
    for start in range(0, len(content), _CALL):
        items = [_item(place, one) for place, one in enumerate(content[start : start + _CALL], start=start)]
        space.ingest("source", input={"items": items}, options={"max_items": 0})


def _add(space: Space, paragraph: Paragraph) -> None:
    space.ingest("source", input={"items": [_item("more", paragraph)]}, options={"wait": True})


def _item(place: int | str, paragraph: Paragraph) -> dict[str, Any]:
    title, text = paragraph
    return {"kind": "note", "origin": f"note/{place}/{title}", "title": title, "text": text}


def _each(work: Callable[[Any], object], given: Sequence[Any], embedder: RandomVectors) -> list[Cost]:
    costs = []
    for one in given:
        before = embedder.spent
        cost = cost_of(partial(work, one))
        costs.append(Cost(cost.wall, cost.cpu - (embedder.spent - before)))
    return costs


def _figure(name: str, costs: Sequence[Cost], target: Any = None) -> Figure:
    cost = typical(costs)
    return Figure(name, milliseconds(cost.cpu), "ms CPU", target, wall_note(cost))


_SENTENCE_END = re.compile(r"(?<=[.!?]) +")
