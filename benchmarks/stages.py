"""What each stage of a question costs, the graph's in particular."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np

from benchmarks.costs import Cost, cost_of, milliseconds, typical, wall_note
from benchmarks.figures import Figure, at_most
from benchmarks.whole_graph import Start
from treering import Space
from treering.ports.passages import Reach
from treering.ports.search import GraphView
from treering.retrieval import limits
from treering.retrieval.graph.association import TIE_WEIGHTS, Association, associate
from treering.retrieval.graph.pagerank import walk
from treering.retrieval.index.rounds import Steps, run
from treering.retrieval.search.fusion import Fused, fuse
from treering.retrieval.search.question import Arms, Question
from treering.retrieval.search.ranking import Candidates, related, search_arms, widen
from treering.retrieval.search.retrieval import retrieval
from treering.retrieval.tuning import TUNING

EVERYWHERE = Reach("/", descend=True)

_WARM = 5
_HITS = 10

Result = TypeVar("Result")


@dataclass(slots=True)
class Stages:
    """The costs of all questions so far, by stage, and where their walks began."""

    costs: dict[str, list[Cost]] = field(default_factory=dict)
    starts: list[Start] = field(default_factory=list)

    def figures(self, size: int, *, held: bool) -> Iterator[Figure]:
        """Return the median of each stage; the whole is held against its target or not."""
        for name, costs in self.costs.items():
            cost = typical(costs)
            target = at_most(10) if held and name == WHOLE else None
            yield Figure(f"{size:,}: {name}", milliseconds(cost.cpu), "ms CPU", target, wall_note(cost))

    def measure(self, space: Space, question: Question) -> None:
        """Do the steps of `retrieval.search.ranking.rank` one by one, and then the whole."""
        index, ledger = space.engine.index, space.engine.ledger
        in_rounds = partial(run, index=index, ledger=ledger)
        candidates = Candidates(question, EVERYWHERE)
        arms = self._timed("— arms", lambda: in_rounds(search_arms(question, EVERYWHERE)))
        kept, ranked = self._timed("— first fusion", lambda: in_rounds(_fused(question, arms, candidates)))
        found = [(hit.key, hit.score) for hit in ranked]
        view = index.graph.view(EVERYWHERE)
        near = partial(associate, question.text, question.terms, found, view)
        association = self._timed("— association: seeds, walk, bridges", near)
        self.starts.append(_start(association, found, view))
        self._timed("— — the walk alone", partial(walk_from, self.starts[-1], space))
        self._timed("— widening", lambda: in_rounds(widen(question, kept, association, candidates)))
        self._timed(_RETRIEVAL, lambda: in_rounds(retrieval(question, reach=EVERYWHERE, limit=_HITS)))
        steps = (self.costs[name][-1] for name in _STEPS)
        rest = self.costs[_RETRIEVAL][-1]
        for step in steps:
            rest = Cost(rest.wall - step.wall, rest.cpu - step.cpu)
        self.costs.setdefault("— second fusion, neighbours, clues, re-check", []).append(rest)

    def ask(self, space: Space, text: str) -> None:
        """Ask the verb `query`."""
        self._timed(WHOLE, partial(_ask, space, text))

    def _timed(self, name: str, work: Callable[[], Result]) -> Result:
        results: list[Result] = []
        cost = cost_of(lambda: results.append(work()))
        self.costs.setdefault(name, []).append(cost)
        return results[0]


WHOLE = "query besides encoding"
_RETRIEVAL = "— all of retrieval"
_STEPS = ("— arms", "— first fusion", "— association: seeds, walk, bridges", "— widening")


def staged(space: Space, texts: Sequence[str]) -> Stages:
    """Ask every question, as a whole and by stage, having asked a few: everything is in memory by then."""
    warm, stages = Stages(), Stages()
    for text in texts[:_WARM]:
        warm.ask(space, text)
    for text in texts:
        stages.ask(space, text)
    for text in texts:
        stages.measure(space, Question.of(text, embedder=space.engine.embedder))
    return stages


def walk_from(start: Start, space: Space) -> None:
    """Walk as a question does."""
    walk(start.seeds, start.weights, space.engine.index.graph.view(EVERYWHERE), TIE_WEIGHTS)


def _ask(space: Space, text: str) -> None:
    space.query("search", input={"text": text}, options={"descend": True})


def _fused(question: Question, arms: Arms, candidates: Candidates) -> Steps[tuple[Arms, list[Fused]]]:
    yield from candidates.read(set().union(*arms.values()), in_reach=True)
    kept = related(question, arms, candidates)
    return kept, fuse(kept, limit=limits.MAX_CANDIDATES_PER_ARM)


def _start(association: Association, found: Sequence[tuple[int, float]], view: GraphView) -> Start:
    """Return the seeds of a walk: entities, and the passages found before it."""
    seeds: Mapping[int, float] = association.seeds
    begun = view.of_passages(np.array([key for key, _ in found], np.int64))
    weights = [*seeds.values(), *(TUNING.graph.passage_weight * score for _, score in found)]
    return Start(np.concatenate([np.array(list(seeds), np.int64), begun]), np.array(weights))
