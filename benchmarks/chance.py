"""Fit the rule that tells what answers a question from what chance brings (`treering.retrieval.search.relevance`).

`python -m benchmarks.chance` prints what the rule does to each set when it is fitted without it, and then the weights
fitted on all, as they stand in the code; both for questions that are asked with vectors. It reads the half of the
questions that is for tuning (`benchmarks.precision`); what it tells of a set that was left out is of the other half.
Spaces are whole sets, parts of them of 300 and 1,000 passages, and the conversations of LoCoMo in one.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

import numpy as np
import numpy.typing as npt

from benchmarks.cached_embedder import CachedEmbedder
from benchmarks.data import Collection, Labelled, load
from benchmarks.labelled_space import LabelledSpace
from benchmarks.packs import SETS, Form
from benchmarks.plan import Plan
from benchmarks.precision import Nature, about_code, digest_of, is_held_out
from treering.ports.models import Embedder
from treering.ports.passages import Reach
from treering.retrieval.index.rounds import run_together
from treering.retrieval.search.question import Question
from treering.retrieval.search.relevance import MOST_CHECKED, RelevanceEvidence, any_relevant, known_words
from treering.retrieval.search.retrieval import retrieval

_SIZES = (300, 1_000)
_KNOWN, _STRANGE = 120, 24
"""Questions of its own, and of every other set, that a space is asked."""
_REFUSED = 2.0
"""Percent of the known questions of the hardest set that the rule may refuse."""
_FLATTENING = 1e-3
_NOW: Final = datetime(2026, 11, 1, tzinfo=UTC)
_HITS = 20

Numbers = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Weighed:
    """What a question brought in a space: its signals, and whether the rule decides (an earlier one may refuse)."""

    set: str
    space: str
    whole: bool
    nature: Nature
    held_out: bool
    relevant: bool
    signals: tuple[float, ...]


def main() -> None:
    """Print the leave-one-out figures, with the length of what covers most and without, and the weights."""
    rows = list(_all_weighed(CachedEmbedder(Plan.read(quick=False).cache / "vectors.db")))
    print("Refused of known, answered of akin and of foreign, in %: the held-out half of a set that was left out")
    for name, some in (("with length", rows), ("without", list(map(_without_length, rows)))):
        for left_out in dict.fromkeys(one.set for one in some):
            weights = fit([one for one in some if one.set != left_out and not one.held_out])
            told = _told(weights, [one for one in some if one.set == left_out and one.held_out])
            print(f"  {name:11}  {left_out:11}  {told}")
    weights = fit([one for one in rows if not one.held_out])
    print("Fitted on all sets, their held-out halves")
    for name in dict.fromkeys(one.set for one in rows):
        print(f"  {'':11}  {name:11}  {_told(weights, [one for one in rows if one.set == name and one.held_out])}")
    print(f"_WITH_VECTORS = {weights}")


def _without_length(one: Weighed) -> Weighed:
    *signals, _, always = one.signals
    return replace(one, signals=(*signals, always))


def fit(rows: Sequence[Weighed]) -> tuple[float, ...]:
    """Fit a logistic rule, every set and every nature of question counting alike; round its weights.

    The last weight is such that of the known questions of the hardest set `_REFUSED` percent are refused.
    """
    signals = np.array([one.signals[:-1] for one in rows])
    known = np.array([one.nature == "known" for one in rows], np.float64)
    centre, spread = signals.mean(axis=0), signals.std(axis=0)
    slopes = _logistic((signals - centre) / spread, known, _shares(rows)) / spread
    rounded = np.round(slopes * 4) / 4
    scores = {
        name: [float(rounded @ one.signals[:-1]) for one in rows if (one.set, one.nature) == (name, "known")]
        for name in dict.fromkeys(one.set for one in rows)
    }
    least = min(float(np.percentile(some, _REFUSED)) for some in scores.values())
    return (*map(float, rounded), round(-least, 1))


def _logistic(signals: Numbers, known: Numbers, shares: Numbers) -> Numbers:
    """Return the slopes of a logistic regression, by Newton's method."""
    columns = np.c_[signals, np.ones(len(signals))]
    penalty = _FLATTENING * np.r_[np.ones(signals.shape[1]), 0]
    slopes = np.zeros(columns.shape[1])
    for _ in range(50):
        chance = 1 / (1 + np.exp(-columns @ slopes))
        gradient = columns.T @ (shares * (chance - known)) + penalty * slopes
        curvature = (columns.T * (shares * chance * (1 - chance))) @ columns + np.diag(penalty)
        slopes -= np.linalg.solve(curvature, gradient)
    return np.array(slopes[:-1])


def _shares(rows: Sequence[Weighed]) -> Numbers:
    """Weigh questions so that all sets count alike, in a set all spaces, and in a space known ones and others."""
    spaces = {name: len({one.space for one in rows if one.set == name}) for name in {one.set for one in rows}}
    counts: dict[tuple[str, Nature], int] = {}
    for one in rows:
        counts[one.space, one.nature] = counts.get((one.space, one.nature), 0) + 1
    parts: Mapping[Nature, float] = {"known": 1.0, "akin": 0.5, "foreign": 0.5}
    shares = [parts[one.nature] / counts[one.space, one.nature] / spaces[one.set] for one in rows]
    return np.array(shares) / sum(shares)


def _told(weights: Sequence[float], rows: Sequence[Weighed]) -> str:
    errors: dict[Nature, list[bool]] = {"known": [], "akin": [], "foreign": []}
    for one in rows:
        if one.whole:
            answered = one.relevant and float(np.dot(weights, one.signals)) >= 0
            errors[one.nature].append(answered != (one.nature == "known"))
    return "  ".join(f"{nature} {100 * np.mean(some):.1f} of {len(some)}" for nature, some in errors.items())


def _all_weighed(embedder: Embedder) -> Iterator[Weighed]:
    sets = {name: load(name) for name in SETS}
    others: dict[str, tuple[Form, Sequence[str]]] = {
        name: (SETS[name], [one.text for all_ in data.collections for one in all_.questions])
        for name, data in sets.items()
    }
    others["code"] = ("code", about_code())
    for name, data in sets.items():
        for collection, whole in _spaces_of(data):
            held = LabelledSpace.of(collection, embedder)
            held.cover(100)
            space = f"{name}/{collection.name}"
            for nature, text in _asked(name, collection, data, others):
                if weighed := _weigh(held, text, embedder):
                    relevant, evidence = weighed
                    yield Weighed(name, space, whole, nature, is_held_out(text), relevant, evidence.signals)
            held.space.close()


def _spaces_of(data: Labelled) -> Iterator[tuple[Collection, bool]]:
    """Yield every collection, parts of a single one, and several together; and whether it is one as it stands."""
    for collection in data.collections:
        yield collection, True
    if len(data.collections) == 1:
        yield from ((_part(data.collections[0], size), False) for size in _SIZES)
    else:
        passages = tuple(passage for one in data.collections for passage in one.passages)
        yield Collection("together", passages, tuple(ask for one in data.collections for ask in one.questions)), False


def _part(collection: Collection, size: int) -> Collection:
    chance = random.Random(size)
    questions = chance.sample(collection.questions, min(size // 10, len(collection.questions)))
    gold = frozenset[str]().union(*(question.gold for question in questions))
    rest = [passage.id for passage in collection.passages if passage.id not in gold]
    kept = gold.union(chance.sample(rest, max(0, size - len(gold))))
    passages = tuple(passage for passage in collection.passages if passage.id in kept)
    return replace(collection, name=f"{collection.name}-{size}", passages=passages, questions=tuple(questions))


def _asked(
    name: str, collection: Collection, data: Labelled, others: Mapping[str, tuple[Form, Sequence[str]]]
) -> Iterator[tuple[Nature, str]]:
    own = {question.text for question in collection.questions}
    yield from (("known", text) for text in _some(own, _KNOWN))
    kin = {one.text for other in data.collections for one in other.questions if other.name != collection.name} - own
    if len(data.collections) > 1:
        yield from (("akin", text) for text in _some(kin, _STRANGE))
    for other, (form, texts) in others.items():
        if other != name:
            nature: Nature = "akin" if form == SETS[name] else "foreign"
            yield from ((nature, text) for text in _some(texts, _STRANGE))


def _some(texts: Sequence[str] | set[str], most: int) -> Sequence[str]:
    return sorted(texts, key=digest_of)[:most]


def _weigh(held: LabelledSpace, text: str, embedder: Embedder) -> tuple[bool, RelevanceEvidence] | None:
    engine = held.space.engine
    question = Question.of(text, embedder=embedder, now=_NOW, lag=engine.index.vectors.lag())
    reach = Reach("/")
    steps = [retrieval(question, reach=reach, limit=_HITS), known_words(question, reach)]
    found, known = run_together(steps, index=engine.index, ledger=engine.ledger)
    hits = found.hits[:MOST_CHECKED]
    if found.trace["route"] == "lookup" or not known.idf.weights:
        return None
    evidence = RelevanceEvidence.of(known.idf, question, hits)
    if evidence is None or evidence.near is None:
        return None
    return any_relevant(known.idf, question, hits), evidence


if __name__ == "__main__":
    main()
