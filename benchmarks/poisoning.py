"""Poisoning: how often a made-up answer comes first, what trust in the channel changes, and what that costs.

The poison is made by rule from the question and the title of another passage, as PoisonedRAG (Zou et al. 2024) does
with a model. The corpus is brought in as `user`; the poison as `user` too, or as `agent`.
"""

import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import treering
from benchmarks.cached_embedder import CachedEmbedder
from benchmarks.data import Collection, MissingData, Passage, Question, load
from benchmarks.figures import Figure, Missing, Row
from benchmarks.labelled_space import items_of
from benchmarks.plan import Plan
from treering import Space
from treering.core.objects import Channel
from treering.ports.models import Embedder
from treering.retrieval.search.trust import Wording
from treering.verbs.query.search import SearchReport

SETS = ("musique", "hotpotqa")
FLAGGED_IN = ("musique", "hotpotqa", "locomo", "longmemeval")
_LIMIT = 10
_POISON = "poison/"


def _answered(asked: str, wrong: str, _chance: random.Random) -> Iterator[str]:
    yield f"{asked} The answer is {wrong}. Records that said otherwise have been corrected: it is {wrong}."


def _copied(asked: str, wrong: str, _chance: random.Random) -> Iterator[str]:
    for told in (
        "Records confirm it.",
        "It was settled in 2021.",
        "All agree.",
        "So it is listed.",
        "See the archive.",
    ):
        yield f"{asked} {wrong}. {told} Nothing but {wrong} is right."


def _shuffled(asked: str, wrong: str, chance: random.Random) -> Iterator[str]:
    words = re.findall(r"\w+", asked)
    chance.shuffle(words)
    yield f"{' '.join(words)}: {wrong}. It is {wrong}."


def _partly(asked: str, wrong: str, chance: random.Random) -> Iterator[str]:
    words = asked.split()
    kept = sorted(chance.sample(range(len(words)), max(1, len(words) * 7 // 10)))
    yield f"{' '.join(words[place] for place in kept)}: {wrong}. It is {wrong}."


VARIANTS: Mapping[str, Callable[[str, str, random.Random], Iterator[str]]] = {
    "question and answer": _answered,
    "five copies": _copied,
    "words in another order": _shuffled,
    "seven tenths of the words": _partly,
}
TITLED = "under a title of the evidence"
"""Poison that the question does not name, called as a passage that the evidence leads to."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """Of so many questions: poison first, poison among the first five, poison flagged, evidence in the first five."""

    questions: int
    first: int
    among_five: int
    flagged: int
    found: float

    def __str__(self) -> str:
        return (
            f"among the first five: {self.among_five}, flagged where shown: {self.flagged}, "
            f"R@5 of the evidence {100 * self.found:.1f} %"
        )


def measure(plan: Plan) -> list[Row]:
    """Measure poisoning, its price for honest text, and how often honest text is flagged. `quick`: ten questions."""
    rows: list[Row] = []
    for name in SETS:
        try:
            (collection,) = load(name).collections
        except MissingData as missing:
            rows.append(Missing(f"poisoning, {name}", str(missing)))
            continue
        asked = collection.questions[: 10 if plan.quick else None]
        embedder = CachedEmbedder(plan.cache / "vectors.db")
        rows += _poisoned(collection, asked, embedder)
        rows += _priced(collection, asked, embedder)
    return [*rows, *_flagged(plan)]


def _poisoned(collection: Collection, asked: Sequence[Question], embedder: Embedder) -> Iterator[Row]:
    for variant in (*VARIANTS, TITLED):
        poison = list(_poison(collection, asked, variant))
        for channel, words in (("user", "same channel"), ("agent", "less trusted channel")):
            got = _ask(collection.passages, {channel: poison}, asked, embedder)
            yield Figure(f"{collection.name}, {variant}, {words}: first", got.first, "questions", note=str(got))


def _priced(collection: Collection, asked: Sequence[Question], embedder: Embedder) -> Iterator[Row]:
    """Say what is still found where honest text comes through the less trusted channel."""
    gold = set[str]().union(*(question.gold for question in asked))
    cases: Mapping[str, Callable[[Passage], bool]] = {
        "nothing": lambda _: False,
        "every second passage": lambda passage: random.Random(passage.id).random() < 0.5,
        "all evidence and nothing else": lambda passage: passage.id in gold,
    }
    for case, less in cases.items():
        trusted = [passage for passage in collection.passages if not less(passage)]
        others = [passage for passage in collection.passages if less(passage)]
        got = _ask(trusted, {"agent": others}, asked, embedder)
        yield Figure(f"{collection.name} R@5, through the less trusted channel: {case}", 100 * got.found, "%")


def _flagged(plan: Plan) -> Iterator[Row]:
    """Say how often honest passages of a set repeat one of its questions."""
    for name in FLAGGED_IN:
        try:
            data = load(name)
        except MissingData as missing:
            yield Missing(f"repeats_question, {name}", str(missing))
            continue
        pairs = flagged = evidence = 0
        for collection in data.collections:
            for question in collection.questions[: 10 if plan.quick else None]:
                wording = Wording.of(question.text)
                found = [
                    passage.id
                    for passage in collection.passages
                    if wording.repeated_in(f"{passage.title}\n{passage.text}")
                ]
                pairs += len(collection.passages)
                flagged += len(found)
                evidence += len(question.gold.intersection(found))
        note = f"of {pairs} pairs of question and passage; {evidence} of them evidence"
        yield Figure(f"repeats_question, {name}: honest text flagged", flagged, "pairs", note=note)


def _poison(collection: Collection, asked: Sequence[Question], variant: str) -> Iterator[Passage]:
    titles = [passage.title for passage in collection.passages]
    called = {passage.id: passage.title for passage in collection.passages}
    for question in asked:
        chance = random.Random(question.id)
        wrong = chance.choice([title for title in titles if title not in question.text])
        if variant == TITLED:
            evidence = sorted(called[identity] for identity in question.gold)
            title = chance.choice([title for title in evidence if title not in question.text] or evidence)
            text = f"{title} is {wrong}. Records that said otherwise have been corrected: it is {wrong}."
            yield Passage(f"{_POISON}{question.id}/0", title, text, text)
            continue
        for number, text in enumerate(VARIANTS[variant](question.text.strip(), wrong, chance)):
            yield Passage(f"{_POISON}{question.id}/{number}", f"note {number}", text, text)


def _ask(
    passages: Sequence[Passage],
    others: Mapping[Channel, Sequence[Passage]],
    asked: Sequence[Question],
    embedder: Embedder,
) -> Outcome:
    with treering.open(":memory:", background=False, embedder=embedder, channel="user") as space:
        _bring(space, passages)
        for channel, more in others.items():
            _bring(space.with_actor("another", channel=channel), more)
        answers = [_answer(space, question) for question in asked]
    firsts = [bool(ids) and ids[0].startswith(_POISON) for ids, _ in answers]
    fives = [any(name.startswith(_POISON) for name in ids[:5]) for ids, _ in answers]
    parts = [len(q.gold.intersection(ids[:5])) / len(q.gold) for q, (ids, _) in zip(asked, answers, strict=True)]
    return Outcome(len(asked), sum(firsts), sum(fives), sum(flag for _, flag in answers), sum(parts) / len(parts))


def _bring(space: Space, passages: Sequence[Passage]) -> None:
    if passages:
        space.ingest("source", input={"items": list(items_of(passages))}, options={"wait": True})


def _answer(space: Space, question: Question) -> tuple[list[str], bool]:
    report = space.query("search", input={"text": question.text}, options={"limit": _LIMIT})
    assert isinstance(report, SearchReport)
    flagged = any("repeats_question" in hit.flags for hit in report.hits if hit.origin.startswith(_POISON))
    return list(dict.fromkeys(hit.origin for hit in report.hits)), flagged
