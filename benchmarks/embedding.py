"""The built-in embedder: loading it, a question, and texts per second."""

from collections.abc import Iterator
from functools import partial
from statistics import median

from benchmarks.costs import cost_of, milliseconds, repeated, wall_note
from benchmarks.figures import Figure, Row
from benchmarks.plan import Plan
from benchmarks.processes import probe
from treering.extensions.encoder.onnx import BgeSmall

_QUESTION = "why did we choose the second design for the retry queue"
_LOADS = 3
_ROUNDS = 30
_TEXTS = 64
_QUICK_TEXTS = 8
_LENGTHS = (30, 200)  # tokens: a sentence, and a paragraph
_FRAME = 2  # tokens that mark the beginning and the end
# Each of these is one token to the model.
_WORDS = "the house by a river was built in stone and its old walls keep out wind snow rain for many years".split()


def measure(plan: Plan) -> list[Row]:
    """Measure in a fresh process what loading costs, and here the rest."""
    texts = _QUICK_TEXTS if plan.quick else _TEXTS
    return [*_loading(), _asking(), *_embedding(texts)]


def _loading() -> Iterator[Figure]:
    loads = [probe("load_encoder", question=_QUESTION) for _ in range(_LOADS)]
    wall, cpu, memory = (median(load[name] for load in loads) for name in ("wall", "cpu", "memory"))
    yield Figure("encoder: import, load, first question", wall, "s", None, f"{cpu:.2f} s CPU")
    yield Figure("encoder: memory", memory, "MiB")


def _asking() -> Figure:
    embedder = BgeSmall()
    embedder.embed_query(_QUESTION)
    cost = repeated(partial(embedder.embed_query, _QUESTION), _ROUNDS)
    return Figure("encoder: a question", milliseconds(cost.cpu), "ms CPU", None, wall_note(cost))


def _embedding(count: int) -> Iterator[Figure]:
    for threads in (1, 2):
        embedder = BgeSmall(threads=threads)
        embedder.embed_query(_QUESTION)
        for length in _LENGTHS:
            cost = cost_of(partial(embedder.embed_documents, _texts(count, length)))
            name = f"encoder: texts of {length} tokens, {threads} thread{'s' if threads > 1 else ''}"
            yield Figure(name, count / cost.wall, "per s", None, f"{count / cost.cpu:.0f} per CPU second")


def _texts(count: int, tokens: int) -> list[str]:
    """Make texts of so many tokens, each beginning with another word."""
    return [
        " ".join(_WORDS[(start + place) % len(_WORDS)] for place in range(tokens - _FRAME)) for start in range(count)
    ]
