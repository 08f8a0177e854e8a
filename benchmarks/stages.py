"""What each stage of a question costs, the graph's in particular."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from benchmarks.costs import Cost, cost_of, milliseconds, typical, wall_note
from benchmarks.figures import Figure, at_most
from benchmarks.whole_graph import Start
from treering import Space
from treering.derived.arms import Heads, related, search_arms, widen
from treering.derived.association import PASSAGE_WEIGHT, TIE_WEIGHTS, Association, associate
from treering.derived.fusion import POOL, Fused, fuse
from treering.derived.pagerank import walk
from treering.derived.question import Arms, Question
from treering.derived.retrieval import retrieve
from treering.ports.graph import Edges, Graph, Nodes
from treering.ports.reach import Reach

EVERYWHERE = Reach("/", descend=True)

_WARM = 5
_HITS = 10

Result = TypeVar("Result")


@dataclass(frozen=True, slots=True)
class Everywhere:
    """The graph as a walk sees it that may go everywhere."""

    graph: Graph

    def edges(self, nodes: Nodes) -> Edges:
        """Return all edges out of nodes."""
        return self.graph.edges(nodes, reach=EVERYWHERE)

    def degrees(self, nodes: Nodes) -> npt.NDArray[np.int64]:
        """Return how many edges nodes have at most."""
        return self.graph.degrees(nodes, reach=EVERYWHERE)


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
        """Do the steps of `derived.ranking.rank` one by one, and then the whole."""
        index, ledger = space.engine.index, space.engine.ledger
        arms = self._timed("— arms", partial(search_arms, question, index=index, reach=EVERYWHERE))
        kept, ranked = self._timed("— first fusion", partial(_fused, question, arms, space))
        found = [(hit.key, hit.score) for hit in ranked]
        near = partial(associate, question.text, question.terms, found, graph=index.graph, reach=EVERYWHERE)
        association = self._timed("— association: seeds, walk, bridges", near)
        self.starts.append(_start(association, found))
        self._timed("— — the walk alone", partial(walk_from, self.starts[-1], space))
        self._timed("— widening", partial(widen, question, kept, association, index=index, reach=EVERYWHERE))
        whole = partial(retrieve, question, index=index, ledger=ledger, reach=EVERYWHERE, limit=_HITS)
        self._timed(_RETRIEVAL, whole)
        steps = (self.costs[name][-1] for name in _STEPS)
        rest = self.costs[_RETRIEVAL][-1]
        for step in steps:
            rest = Cost(rest.wall - step.wall, rest.cpu - step.cpu)
        self.costs.setdefault("— second fusion, neighbours, clues, re-check", []).append(rest)

    def ask(self, space: Space, text: str) -> None:
        """Ask the verb `query`."""
        self._timed(WHOLE, partial(_ask, space, text))

    def _timed(self, name: str, work: "partial[Result]") -> Result:
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
    walk(start.seeds, start.weights, Everywhere(space.engine.index.graph), TIE_WEIGHTS)


def _ask(space: Space, text: str) -> None:
    space.query("search", input={"text": text}, options={"descend": True})


def _fused(question: Question, arms: Arms, space: Space) -> tuple[Arms, list[Fused]]:
    kept = related(question, arms, Heads(space.engine.index))
    return kept, fuse(kept, limit=POOL)


def _start(association: Association, found: Sequence[tuple[int, float]]) -> Start:
    """Return the seeds of a walk: entities, and the passages found before it."""
    seeds: Mapping[int, float] = association.seeds
    nodes = [*seeds, *(2 * key for key, _ in found)]
    weights = [*seeds.values(), *(PASSAGE_WEIGHT * score for _, score in found)]
    return Start(np.array(nodes, np.int64), np.array(weights))
