"""What a question costs, as a whole and by stage."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from statistics import quantiles
from typing import TypeVar

from benchmarks.costs import Cost, cost_of, milliseconds, typical, wall_note
from benchmarks.figures import Figure, Target, at_most
from benchmarks.synthetic import questions
from treering import Space
from treering.extensions.encoder.onnx import BgeSmall
from treering.ports.passages import Reach
from treering.ports.search import NamePart, NearRequest, TextRequest, Vector
from treering.retrieval import limits
from treering.retrieval.index.rounds import run
from treering.retrieval.search.question import Question
from treering.retrieval.search.ranking import search_arms
from treering.retrieval.search.retrieval import retrieval

_QUESTIONS = 60
_FEW = 15
_EVERYWHERE = Reach("/", descend=True)
_DESCEND = {"descend": True}
_TENTH = {**_DESCEND, "filter": {"metadata.shelf": 3}}
_SCOPE = "/team/3"

Wishes = Mapping[str, object]
Asked = TypeVar("Asked")


def asking(space: Space, size: int, *, middle: int, held: bool) -> Iterator[Figure]:
    """Ask a space of `size` passages in every way. `middle` is a sequence number halfway through its history.

    `held` tells whether the figures are held against the targets.
    """
    texts = questions(_QUESTIONS)
    whole = _searched(space, texts, _DESCEND)
    yield _figure("query besides encoding", size, whole, at_most(10) if held else None)
    yield from _stages(space, texts, size)
    yield _figure("query with a filter that keeps a tenth", size, _searched(space, texts, _TENTH))
    yield _figure("query in one of ten scopes", size, _searched(space, texts, _DESCEND, scope=_SCOPE))
    yield _figure(
        "query as of the middle of its history", size, _searched(space, texts[:_FEW], {**_DESCEND, "as_of": middle})
    )
    yield _figure("context pack besides encoding", size, _timed(partial(_gather, space), texts))
    if held:
        yield _figure("query with its encoding", size, _sums(whole, _encoded(texts)), at_most(30))


def _searched(space: Space, texts: Sequence[str], options: Wishes, scope: str = "/") -> list[Cost]:
    """Ask each question, having asked a few: the table of vectors and SQLite's pages are in memory by then."""

    def search(text: str) -> None:
        space.query("search", scope=scope, input={"text": text}, options=options)

    for text in texts[:5]:
        search(text)
    return _timed(search, texts)


def _gather(space: Space, task: str) -> None:
    space.query("context", input={"task": task}, options=_DESCEND)


def _stages(space: Space, texts: Sequence[str], size: int) -> Iterator[Figure]:
    """Time each arm by itself, all of them together, and what the retrieval does after them."""
    index, ledger = space.engine.index, space.engine.ledger
    asked = [Question.of(text, embedder=space.engine.embedder) for text in texts]
    most = limits.MAX_CANDIDATES_PER_ARM
    text = partial(TextRequest, _EVERYWHERE, most)
    arms: Mapping[str, Callable[[Question], object]] = {
        "words": lambda one: index.text.search([text(words=(*one.terms.words, *one.terms.phrases))]),
        "names": lambda one: index.text.search([text(names=tuple(map(NamePart, one.terms.identifiers)))]),
        "places": lambda one: index.text.search([text(place=one.text)]),
        "vectors": lambda one: index.vectors.search(
            [NearRequest(_EVERYWHERE, (_vector(one),), (limits.MAX_CANDIDATES_PER_ARM,))]
        ),
    }
    for name, arm in arms.items():
        yield _figure(f"— arm of {name}", size, _timed(arm, asked))
    in_rounds = partial(run, index=index, ledger=ledger)
    together = _timed(lambda question: in_rounds(search_arms(question, _EVERYWHERE)), asked)
    whole = _timed(lambda question: in_rounds(retrieval(question, reach=_EVERYWHERE, limit=10)), asked)
    after = [Cost(one.wall - other.wall, one.cpu - other.cpu) for one, other in zip(whole, together, strict=True)]
    yield _figure("— all arms, and the cosines they lack", size, together)
    yield _figure("— fusion, neighbours, re-check, diversity", size, after)


def _vector(question: Question) -> Vector:
    assert question.meaning is not None
    return question.meaning.own


def _encoded(texts: Sequence[str]) -> list[Cost]:
    encoder = BgeSmall()
    encoder.embed_query(texts[0])
    return _timed(encoder.embed_query, texts)


def _timed(ask: Callable[[Asked], object], questions: Sequence[Asked]) -> list[Cost]:
    return [cost_of(partial(ask, question)) for question in questions]


def _sums(first: Sequence[Cost], second: Sequence[Cost]) -> list[Cost]:
    return [Cost(one.wall + other.wall, one.cpu + other.cpu) for one, other in zip(first, second, strict=True)]


def _figure(name: str, size: int, costs: Sequence[Cost], target: Target | None = None) -> Figure:
    cost = typical(costs)
    slow = milliseconds(quantiles([one.cpu for one in costs], n=20)[-1])
    return Figure(
        f"{size:,}: {name}", milliseconds(cost.cpu), "ms CPU", target, f"{wall_note(cost)}, p95 {slow:.3g} ms CPU"
    )
