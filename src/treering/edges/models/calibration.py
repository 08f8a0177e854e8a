"""Finding the cosine below which a text says nothing about a question, for an embedding model nobody measured here."""

from typing import Protocol

import numpy as np

from treering.ports.embedder import Vector

PAIRS = (
    ("When is the cache flushed?", "The cache is emptied before the writer process is forked."),
    ("Who leads the payments team?", "Ada Lovelace has been head of payments since March."),
    ("How do I run the tests?", "Type `make check`; it formats, lints and runs all tests."),
    ("What bread did we bake?", "On Sunday they made a sourdough loaf with rye and caraway."),
    ("Why was the release delayed?", "Shipping moved to June because the signing key had expired."),
    ("Which database do sessions use?", "Sessions are kept in one SQLite file beside the server."),
    ("Where did Maria go on holiday?", "Maria spent two weeks hiking in the Dolomites in August."),
    ("def parse_date(text): what does it return?", "Returns a datetime in UTC, or None where the text names no day."),
    ("Is the API rate limited?", "Each key may send 600 requests per minute; more are answered with 429."),
    ("What did the doctor recommend?", "He was told to sleep more, drink less coffee and walk every day."),
    ("How large may an upload be?", "Files above 25 MB are refused by the gateway."),
    ("What is the capital of Australia?", "Canberra, not Sydney, is where the Australian parliament sits."),
)
"""Questions, each with a text that answers it; with the texts of the other pairs it has nothing to do."""


class Embedding(Protocol):
    """Turns texts into vectors of unit length: `float32[n, dim]`."""

    def __call__(self, texts: list[str], *, query: bool) -> Vector:
        """Embed questions (`query`) or stored texts, in the order given."""
        ...


def unrelated_below(embed: Embedding) -> tuple[float, int]:
    """Return the cosine below which a text says nothing about a question, and the dimension of the vectors.

    It is 3.5 standard deviations above the mean of texts that have nothing to do with a question: one of some
    thousands reaches it by chance. For the built-in model, whose cut was measured on real collections (0.62), this
    gives 0.62.
    """
    questions = embed([question for question, _ in PAIRS], query=True)
    texts = embed([text for _, text in PAIRS], query=False)
    unrelated = (questions @ texts.T)[~np.eye(len(PAIRS), dtype=bool)]
    cut = float(unrelated.mean() + _DEVIATIONS * unrelated.std())
    return min(cut, _HIGHEST), int(questions.shape[1])


_DEVIATIONS = 3.5
_HIGHEST = 0.99
"""A model that puts all texts in one place still has texts that are the question itself."""
