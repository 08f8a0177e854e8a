"""What a language model reads from documents before they are kept: the statements that tie them together."""

from collections.abc import Mapping
from decimal import Decimal

from pydantic import Field

from treering.core.evidence import Triple
from treering.derived.asking import Budget
from treering.derived.extraction_by_model import ModelExtractor
from treering.ports.extractor import Excerpt
from treering.ports.model import LanguageModel
from treering.ports.segmenter import Segmenter
from treering.tools.envelope import Value

REQUESTS_PER_DOCUMENT = 2
"""How often a model is asked at most for each document, where nobody gives a budget: once, and once to repair."""


class NotRead(Value):
    """A document, or a part of one, that the model could not read, and why."""

    position: int = Field(description="Which of the given documents it is, from 0.")
    why: str


class ReadByModel(Value):
    """What a model read, and what it took. A document of which something could not be read is kept without it."""

    model: str
    documents: int
    requests: int
    tokens: int
    cost: Decimal | None = Field(description="In US dollars; null where the model's price is not known.")
    failures: tuple[NotRead, ...] = ()
    triples: dict[int, tuple[Triple, ...]] = Field(default={}, exclude=True)
    """By the place of the document."""


def read_by_model(
    model: LanguageModel, texts: Mapping[int, str], *, budget: Budget, segmenter: Segmenter, max_chars: int
) -> ReadByModel:
    """Read what texts state, each by its place among the documents, segment by segment, inside a budget.

    Raises nothing of a model's: what it cannot read, and what the budget does not allow, is in `failures`.
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
