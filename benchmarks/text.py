"""How near made-up text comes to real text: words, names and lengths, and what a question reads of the index.

The real text is the paragraphs of HotpotQA, where they are on this machine.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import mean

from benchmarks.data import MissingData, load
from benchmarks.figures import Figure, Missing, Row
from benchmarks.plan import Plan
from benchmarks.synthetic import documents, questions
from treering.ports.models import Excerpt
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.retrieval.text.analysis import index_text, query_terms

_SIZES = (500, 1_000, 2_000, 4_900)
_LARGE_SIZES = (10_000, 100_000)
_QUESTIONS = 200
_READ = 1_000

Paragraph = tuple[str, str]
"""Title and text."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What tells texts apart for an index. `terms` counts the distinct ones after so many passages."""

    terms: dict[int, int]
    length: float
    entities: float
    triples: float
    postings: float
    """Postings that a question reads, as a share of the passages."""

    @classmethod
    def of(cls, paragraphs: Sequence[Paragraph], asked: Sequence[str], sizes: Sequence[int]) -> "Facts":
        """Count."""
        holders: dict[str, int] = {}
        terms: dict[int, int] = {}
        lengths: list[int] = []
        for place, (title, text) in enumerate(paragraphs, start=1):
            found = index_text(text).split()
            lengths.append(len(found))
            for term in {*found, *index_text(title).split()}:
                holders[term] = holders.get(term, 0) + 1
            if place in sizes:
                terms[place] = len(holders)
        extractor = BuiltInExtractor()
        read = extractor.extract([Excerpt(text, title) for title, text in paragraphs[:_READ]])
        postings = [sum(holders.get(word, 0) for word in query_terms(question).words) for question in asked]
        return cls(
            terms,
            mean(lengths),
            mean(len({entity.name for entity in one.entities}) for one in read),
            mean(len(one.triples) for one in read),
            mean(postings) / len(paragraphs),
        )

    def figures(self, name: str) -> list[Row]:
        """Return them as figures."""
        known = [
            *((f"distinct terms in {size:,} passages", float(count)) for size, count in self.terms.items()),
            ("terms of a passage", self.length),
            ("names in a passage", self.entities),
            ("statements in a passage", self.triples),
            ("postings of a question, for each passage", self.postings),
        ]
        return [Figure(f"{name}: {what}", value, "") for what, value in known]


def measure(plan: Plan) -> list[Row]:
    """Count in made-up text and in real text."""
    count = _SIZES[0] if plan.quick else _SIZES[-1]
    made = [(one.title, text) for one in documents(count // 10) for text in one.passages]
    rows = Facts.of(made, questions(_QUESTIONS), _SIZES).figures("made up")
    try:
        collection = load("hotpotqa").collections[0]
    except MissingData as missing:
        rows.append(Missing("real text", str(missing)))
    else:
        real = [(one.title, one.text) for one in collection.passages[:count]]
        asked = [question.text for question in collection.questions]
        rows += Facts.of(real, asked, _SIZES).figures("real")
    return rows if plan.quick else [*rows, *_growth()]


def _growth() -> list[Row]:
    """Go on counting terms where no real text is at hand."""
    seen: set[str] = set()
    rows: list[Row] = []
    place = 0
    for document in documents(_LARGE_SIZES[-1] // 10):
        for text in document.passages:
            seen.update(index_text(text).split())
            place += 1
            if place in _LARGE_SIZES:
                rows.append(Figure(f"made up: distinct terms in {place:,} passages", len(seen), ""))
    return rows
