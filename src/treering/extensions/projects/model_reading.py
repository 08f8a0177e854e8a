"""Statements that a language model extracts from documents."""

from collections.abc import Mapping
from decimal import Decimal

from pydantic import Field

from treering.core.evidence import Triple
from treering.extensions.encoder.asking import Budget
from treering.extensions.encoder.language_model import LanguageModel
from treering.extensions.projects.extraction_by_model import ModelExtractor
from treering.ports.format import Segmenter
from treering.ports.models import Excerpt
from treering.verbs.envelope import Value

REQUESTS_PER_DOCUMENT = 2
"""The default limit of requests per document: one, and one to repair an invalid answer."""


class NotRead(Value):
    """A document, or a part of one, that the model could not read, with the reason."""

    position: int = Field(description="Index of the given document, from 0.")
    why: str


class ReadByModel(Value):
    """The documents read by a model, and the cost. A document that could not be read completely has no result."""

    model: str
    documents: int
    requests: int
    tokens: int
    cost: Decimal | None = Field(description="In US dollars; null if the price of the model is unknown.")
    failures: tuple[NotRead, ...] = ()
    triples: dict[int, tuple[Triple, ...]] = Field(default={}, exclude=True)
    """By the index of the document."""


def read_by_model(
    model: LanguageModel, texts: Mapping[int, str], *, budget: Budget, segmenter: Segmenter, max_chars: int
) -> ReadByModel:
    """Extract the statements of texts, given by their index among the documents, within a budget.

    Raises no errors of the model: unread documents, and those over budget, are in `failures`.
    """
    parts = [(place, part.text) for place, text in texts.items() for part in segmenter(text, max_chars=max_chars)]
    before = budget.used
    report = ModelExtractor(model, budget).extract_reporting([Excerpt(text) for _, text in parts])
    used = budget.used
    triples: dict[int, tuple[Triple, ...]] = {}
    for (place, _), extraction in zip(parts, report.extractions, strict=True):
        if extraction.triples:
            triples[place] = (*triples.get(place, ()), *extraction.triples)
    return ReadByModel(
        model=model.model_id,
        documents=len(texts),
        requests=used.requests - before.requests,
        tokens=used.input_tokens + used.output_tokens - before.input_tokens - before.output_tokens,
        cost=None if used.cost is None or before.cost is None else used.cost - before.cost,
        failures=tuple(NotRead(position=parts[each.index][0], why=str(each.error)) for each in report.failures),
        triples=triples,
    )
