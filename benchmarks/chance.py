"""Fit the rule that tells what answers a question from what chance brings (`treering.retrieval.search.chance`).

`python -m benchmarks.chance` fits it for talk and for prose, with vectors and by words alone. It prints the weights as
tables of `tuning.toml`, their errors on the questions they were fitted on and on those held out, and the errors of
weights that were fitted on the other sets of the same form. It is fitted on the half of the questions that is for
tuning (`benchmarks.precision`). Spaces are whole sets, parts of them of 300 and 1,000 passages, and the conversations
of LoCoMo in one.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import product
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
from treering.retrieval.search.chance import SIGNALS, RelevanceEvidence
from treering.retrieval.search.hit_signals import HitSignals, is_talk
from treering.retrieval.search.known_words import known_words
from treering.retrieval.search.question import Question
from treering.retrieval.search.relevance import any_relevant
from treering.retrieval.search.retrieval import retrieval
from treering.retrieval.tuning import TUNING

_SIZES = (300, 1_000)
_KNOWN, _STRANGE = 200, 60
"""Questions of its own, and of every other set, that a space is asked."""
_REFUSED = 1.5
"""Percent of the known questions of the hardest set that the rule may refuse."""
_FLATTENING = 3e-3
_NOW: Final = datetime(2026, 11, 1, tzinfo=UTC)
_HITS = 20
_NOT_WEIGHED: Mapping[tuple[str, str], frozenset[str]] = {
    ("words", "talk"): frozenset({"near"}),
    ("words", "prose"): frozenset({"near", "missing"}),
}
"""Signals that are missing or gained nothing on the tuning halves."""

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
    evidence: RelevanceEvidence

    @property
    def kind(self) -> tuple[str, str]:
        """Name the weights it is told by."""
        return "words" if self.evidence.near is None else "near", "talk" if self.evidence.talk else "prose"


def main() -> None:
    """Fit the weights of each kind; print them and their errors."""
    rows = list(_all_weighed(CachedEmbedder(Plan.read(quick=False).cache / "vectors.db")))
    print("Refused of known, answered of akin and of foreign, in %")
    for kind in sorted({one.kind for one in rows}):
        some = [one for one in rows if one.kind == kind]
        columns = [name not in _NOT_WEIGHED.get(kind, ()) for name in SIGNALS]
        weights = fit([one for one in some if not one.held_out], columns)
        print(_as_table(kind, weights))
        for name in dict.fromkeys(one.set for one in some):
            of_set = [one for one in some if one.set == name]
            others = fit([one for one in some if one.set != name and not one.held_out], columns)
            print(f"  {name:11}  fitted on   {_told(weights, [one for one in of_set if not one.held_out])}")
            print(f"  {'':11}  held out    {_told(weights, [one for one in of_set if one.held_out])}")
            print(f"  {'':11}  left out    {_told(others, of_set)}")


def _as_table(kind: tuple[str, str], weights: tuple[float, ...]) -> str:
    """Write weights as a table of `tuning.toml`, without comments."""
    signals, form = kind
    values = {name: weight for name, weight in zip((*SIGNALS, "constant"), weights, strict=True) if weight}
    head = f"[chance.{form}]" if signals == "near" else f"[chance.{form}_by_words]"
    return "\n".join((head, *(f"{name} = {value}" for name, value in values.items())))


def fit(rows: Sequence[Weighed], columns: Sequence[bool]) -> tuple[float, ...]:
    """Fit a logistic rule, every set and every nature of question counting alike; round its weights.

    The last weight is such that of the known questions of the hardest set, in all its spaces and in the whole ones,
    `_REFUSED` percent are refused. The weights of names, which few questions have, are chosen afterwards: fitting them
    would move the threshold.
    """
    signals = np.array([one.evidence.signals for one in rows])
    known = np.array([one.nature == "known" for one in rows], np.float64)
    centre, spread = signals.mean(axis=0), np.where(columns, signals.std(axis=0), np.inf)
    slopes = _logistic((signals - centre) / spread, known, _shares(rows)) / spread
    rounded = np.round(slopes * 4) / 4
    scores: dict[tuple[str, bool], list[float]] = {}
    for one in rows:
        if one.nature == "known":
            for whole in {False, one.whole}:
                scores.setdefault((one.set, whole), []).append(float(rounded @ one.evidence.signals))
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
            evidence = one.evidence
            score = float(np.dot(weights, (*evidence.signals, 1.0))) + TUNING.chance.broken * evidence.broken
            score += TUNING.chance.nameless * evidence.nameless if evidence.talk else 0.0
            answered = one.relevant and score >= 0
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
            for (nature, text), asker in product(_asked(name, collection, data, others), (embedder, None)):
                if weighed := _weigh(held, text, asker):
                    yield Weighed(name, space, whole, nature, is_held_out(text), *weighed)
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


def _weigh(held: LabelledSpace, text: str, embedder: Embedder | None) -> tuple[bool, RelevanceEvidence] | None:
    engine = held.space.engine
    question = Question.of(text, embedder=embedder, now=_NOW, lag=engine.index.vectors.lag())
    reach = Reach("/")
    steps = [retrieval(question, reach=reach, limit=_HITS), known_words(question, reach)]
    found, known = run_together(steps, index=engine.index, ledger=engine.ledger)
    checked = found.hits[: TUNING.question.first_hits]
    idf, hits = known.idf, [HitSignals.of(known.idf, question.meaning, hit) for hit in checked]
    if not idf.weights or any(hit.is_named for hit in hits):
        return None
    if is_talk(hits):
        idf = idf.undated()
        hits = [HitSignals.of(idf, question.meaning, one.hit) for one in hits]
    evidence = RelevanceEvidence.of(idf, question, hits)
    return (any_relevant(idf, question, hits), evidence) if evidence else None


if __name__ == "__main__":
    main()
