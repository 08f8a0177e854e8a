"""The associative arm: from what the other arms found, along the entity graph, to what a question never names.

In the manner of HippoRAG 2 (arXiv 2502.14802): the statements nearest to the question name entities, a walk from
these and from the passages found so far spreads over the graph, and passages rank by where it comes to rest. How
statements are scored, and what else is read off the graph, was measured here (`docs/decisions`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np
import numpy.typing as npt

from treering.ports.search import Edges, EdgeType, GraphView, Nodes, Statements, TextQuery
from treering.retrieval.extraction.names import entity_key, plain_form
from treering.retrieval.graph.pagerank import Walk, walk
from treering.retrieval.index.tables import distinct
from treering.retrieval.index.ties import word_code
from treering.retrieval.text.analysis import index_text
from treering.retrieval.tuning import TUNING

Found = Sequence[tuple[int, float]]
"""Passages by key with their score between 0 and 1, best first."""

Scores = dict[int, float]

TIE_WEIGHTS = np.array([TUNING.graph.tie_weights[one.name.lower()] for one in EdgeType])
"""What an edge weighs in the walk, by `EdgeType`."""


_NAMING_WORDS = 64
_CODES = 1 << 16  # of words


@dataclass(frozen=True, slots=True)
class NearStatement:
    """A statement near the question: the passage that makes it, its two ends (node numbers), its score."""

    passage: int
    subject: int
    object: int
    score: float


@dataclass(frozen=True, slots=True)
class Association:
    """What the graph says of a question, by passage key. Every score is between 0 and 1.

    `walked` falls with the rank by the walk's mass: 1/log2(1 + rank). `bridged` is the best way from a passage found
    so far over a shared entity, `title_match` the same over an entity that is the title of the passage, `named` is 1
    where the question names the title. The walk began at `seeds` (entities, by node number) and `begun` (nodes of
    passages found so far); `facts` are the statements that gave most of the seeds.
    """

    walked: Scores
    bridged: Scores
    title_match: Scores
    named: Scores
    facts: tuple[NearStatement, ...]
    seeds: Mapping[int, float]
    begun: frozenset[int]
    walk: Walk
    view: GraphView
    """The graph that was walked, which the node numbers are those of."""


def associate(text: str, terms: TextQuery, found: Found, view: GraphView) -> Association:
    """Walk the graph from a question and from what was found for it."""
    read = [key for key, _ in found[: TUNING.graph.passages]]
    stated = view.statements(read)
    strengths = np.array([score for _, score in found[: TUNING.graph.passages]])
    asked, named = _codes(terms.words), view.named(names_in(text))
    coverage = _hits(stated, asked) / max(1, len(asked))
    ties = _Ties.around(read, stated, named, view)
    share = TUNING.graph.passage_share
    facts = _nearest_facts(read, stated, share * strengths[stated.passage] + (1 - share) * coverage)
    seeds = {**_named_seeds(ties), **_fact_seeds(facts, ties)}
    begun = view.of_passages(np.array([key for key, _ in found], np.int64))
    walked = _walk(seeds, begun, [score for _, score in found], view)
    titled = ties.titled()
    beyond = np.setdiff1d(asked, _codes(_name_words(named, ties)), assume_unique=True)
    begins = np.array([1.0 if key in titled else TUNING.graph.unnamed_share for key in read])
    bridged, title_match = _bridges(read, strengths * begins, stated, _hits(stated, beyond) > 0, ties)
    return Association(
        walked=_by_rank(walked, view),
        bridged=bridged,
        title_match=title_match,
        named=titled,
        facts=tuple(facts),
        seeds=seeds,
        begun=frozenset(begun.tolist()),
        walk=walked,
        view=view,
    )


def names_in(text: str) -> list[str]:
    """Return the entity keys that a text might name: all runs of up to seven of its first words."""
    words = entity_key(text).split()[:_NAMING_WORDS]
    lengths = range(TUNING.graph.max_name_words, 0, -1)
    runs = (words[at : at + length] for length in lengths for at in range(len(words) - length + 1))
    return list(dict.fromkeys(filter(None, (entity_key(" ".join(run)) for run in runs))))


@dataclass(frozen=True, slots=True)
class _Ties:
    """Entities near what was found, and where else they occur. Entities are sorted; arrays name them by place."""

    entities: Nodes
    spread: npt.NDArray[np.int64]
    """Passages in reach that hold each entity; of hubs, about how many there are."""
    named: npt.NDArray[np.int64]
    """Places of the entities that the question names."""
    reader: npt.NDArray[np.int64]
    """With `held`: which passage (by its place among those read) holds which entity."""
    held: npt.NDArray[np.int64]
    occurrence: Edges
    """Edges from entities to the passages that hold them, ordered by entity."""
    holders: npt.NDArray[np.int64]
    """With `occurrence`: the key of the passage at the end of each edge."""
    called: npt.NDArray[np.bool_]
    """With `reader` and `held`: whether the entity is what the passage is called."""

    @classmethod
    def around(cls, read: Sequence[int], stated: Statements, named: Mapping[str, int], view: GraphView) -> "_Ties":
        own = _occurrences(view.edges(view.of_passages(np.array(read, np.int64))))
        known = np.array(list(named.values()), np.int64)
        entities = distinct(np.concatenate([own.target, stated.subject, stated.object, known]))
        degrees = view.degrees(entities)
        rare = np.flatnonzero(degrees <= TUNING.graph.max_hub_edges)
        found = _occurrences(view.edges(entities[rare]))
        occurrence = _by_source(Edges(rare[found.source], found.target, found.tie))
        spread = np.bincount(occurrence.source, minlength=len(entities))
        return cls(
            entities,
            np.where(degrees <= TUNING.graph.max_hub_edges, spread, degrees),
            np.searchsorted(entities, known),
            own.source,
            np.searchsorted(entities, own.target),
            occurrence,
            view.passages_of(occurrence.target),
            own.tie == EdgeType.TITLE,
        )

    def rarity(self, entity: int) -> float:
        """Return what remains of a seed's weight once it is shared among the passages that hold the entity."""
        return 1.0 / max(1, int(self.spread[entity]))

    def titled(self) -> Scores:
        """Return the passages whose title the question names."""
        return dict.fromkeys(self.holders[self._calling()].tolist(), 1.0)

    def titles_named(self) -> npt.NDArray[np.int64]:
        """Return the places of the titles that the question names."""
        return self.occurrence.source[self._calling()]

    def _calling(self) -> npt.NDArray[np.bool_]:
        """Tell which occurrences are titles that the question names."""
        is_named = np.zeros(len(self.entities), np.bool_)
        is_named[self.named] = True
        calling: npt.NDArray[np.bool_] = (self.occurrence.tie == EdgeType.TITLE) & is_named[self.occurrence.source]
        return calling


def _occurrences(edges: Edges) -> Edges:
    """Keep what says that a passage holds an entity."""
    kept = (edges.tie == EdgeType.MENTION) | (edges.tie == EdgeType.TITLE)
    return Edges(edges.source[kept], edges.target[kept], edges.tie[kept])


def _by_source(edges: Edges) -> Edges:
    order = np.argsort(edges.source, kind="stable")
    return Edges(edges.source[order], edges.target[order], edges.tie[order])


def _codes(words: Iterable[str]) -> npt.NDArray[np.uint16]:
    """Return the codes of words, each once."""
    return distinct(np.array([word_code(word) for word in words], np.uint16))


def _name_words(named: Mapping[str, int], ties: _Ties) -> list[str]:
    """Return the words of the names in a question that are titles or have several words.

    Every statement about what is named has them. Whether it says what is asked is told by the other words.
    """
    titles = set(ties.entities[ties.titles_named()].tolist())
    told = (word for name, node in named.items() if " " in name or node in titles for word in name.split())
    return index_text(" ".join(dict.fromkeys(told))).split()


def _hits(stated: Statements, asked: npt.NDArray[np.uint16]) -> npt.NDArray[np.int64]:
    """Count, for each statement, how many of its words are among those asked."""
    if not len(stated.passage):
        return np.zeros(0, np.int64)
    is_asked = np.zeros(_CODES, np.bool_)
    is_asked[asked] = True
    hits = np.concatenate([[0], np.cumsum(is_asked[stated.words])])
    counts: npt.NDArray[np.int64] = hits[stated.bounds[1:]] - hits[stated.bounds[:-1]]
    return counts


def _nearest_facts(read: Sequence[int], stated: Statements, scores: npt.NDArray[np.float64]) -> list[NearStatement]:
    # Where scores are equal the order of passages and of what they state counts, and not how nodes are numbered.
    order = np.argsort(-scores, kind="stable")[: TUNING.graph.facts]
    return [
        NearStatement(read[int(stated.passage[at])], int(stated.subject[at]), int(stated.object[at]), float(scores[at]))
        for at in order
    ]


def _named_seeds(ties: _Ties) -> dict[int, float]:
    # What nothing in reach holds is not told of, though the question names it.
    weight = TUNING.graph.named_weight
    return {int(ties.entities[at]): weight * ties.rarity(int(at)) for at in ties.named if ties.spread[at]}


def _fact_seeds(facts: Sequence[NearStatement], ties: _Ties) -> dict[int, float]:
    """Seed the entities of the nearest statements: each with the mean of their scores, less the commoner it is."""
    scores: dict[int, list[float]] = {}
    for fact in facts:
        for end in (fact.subject, fact.object):
            scores.setdefault(end, []).append(fact.score)
    weights = {
        end: sum(of) / len(of) * ties.rarity(int(np.searchsorted(ties.entities, end))) for end, of in scores.items()
    }
    best = sorted(weights, key=lambda end: -weights[end])[: TUNING.graph.seeds]
    return {end: weights[end] for end in best}


def _walk(seeds: Mapping[int, float], begun: Nodes, scores: Sequence[float], view: GraphView) -> Walk:
    nodes = np.concatenate([np.array(list(seeds), np.int64), begun])
    weights = [*seeds.values(), *(TUNING.graph.passage_weight * score for score in scores)]
    return walk(nodes, np.array(weights), view, TIE_WEIGHTS)


def _by_rank(walked: Walk, view: GraphView) -> Scores:
    keys = view.passages_of(walked.nodes)
    passages = keys >= 0
    keys, mass = keys[passages], walked.mass[passages]
    best = np.lexsort((keys, -mass))[: TUNING.graph.reached]
    return {int(keys[at]): 1 / log2(1 + rank) for rank, at in enumerate(best, start=1)}


def _bridges(
    read: Sequence[int],
    strengths: npt.NDArray[np.float64],
    stated: Statements,
    telling: npt.NDArray[np.bool_],
    ties: _Ties,
) -> tuple[Scores, Scores]:
    """Return the best way from a read passage over an entity it holds: to others that hold it, to those called so.

    `telling`: which statements say something that the question asks of what it names.
    """
    told = _told_of(stated, telling, ties, len(read))
    ways = _Ways.of(ties, read)
    scores = strengths[ways.reader] * np.where(told[ways.reader, ways.entity], 1.0, TUNING.graph.unstated_share)
    mentioned = scores / np.log2(1 + ties.spread[ways.entity])
    title_match = (ways.tie == EdgeType.TITLE) & ~ways.by_own_title
    return _best(ways.passage, mentioned), _best(ways.passage[title_match], scores[title_match])


def _told_of(stated: Statements, telling: npt.NDArray[np.bool_], ties: _Ties, readers: int) -> npt.NDArray[np.bool_]:
    """Tell, by read passage and entity, whether a telling statement of the passage is about the entity."""
    table = np.zeros((readers, len(ties.entities)), np.bool_)
    for ends in (stated.subject[telling], stated.object[telling]):
        table[stated.passage[telling], np.searchsorted(ties.entities, ends)] = True
    return table


@dataclass(frozen=True, slots=True)
class _Ways:
    """Every way from a read passage over an entity it holds, if that is not too common, to another that holds it."""

    reader: npt.NDArray[np.int64]
    entity: npt.NDArray[np.int64]
    passage: npt.NDArray[np.int64]
    tie: npt.NDArray[np.uint8]
    by_own_title: npt.NDArray[np.bool_]
    """Whether the entity is what the read passage is called: that another is called so too says nothing."""

    @classmethod
    def of(cls, ties: _Ties, read: Sequence[int]) -> "_Ways":
        near = ties.spread[ties.held] <= TUNING.graph.max_common
        reader, held = ties.reader[near], ties.held[near]
        starts = np.searchsorted(ties.occurrence.source, held)
        counts = ties.spread[held]
        steps = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)
        at = np.repeat(starts, counts) + steps
        readers, entities = np.repeat(reader, counts), np.repeat(held, counts)
        passages = ties.holders[at]
        away = passages != np.array(read, np.int64)[readers]
        own = np.repeat(ties.called[near], counts)
        return cls(readers[away], entities[away], passages[away], ties.occurrence.tie[at][away], own[away])


def _best(keys: npt.NDArray[np.int64], scores: npt.NDArray[np.float64]) -> Scores:
    each, which = np.unique(keys, return_inverse=True)
    best = np.zeros(len(each))
    np.maximum.at(best, which, scores)
    return dict(zip(each.tolist(), best.tolist(), strict=True))


# How the walk came to a passage: the way back along which most of its mass came.


class WaysBack:
    """Finds how one walk came to passages. Many ways lead through the same nodes: each is looked at once."""

    def __init__(self, association: Association) -> None:
        """Take what the walk found, and where it began."""
        self.view: GraphView = association.view
        self._association = association
        self._before: dict[int, list[int]] = {}

    def paths_to(self, keys: Sequence[int]) -> list[list[int]]:
        """Return for each passage the nodes from where the walk began to it, that passage last.

        From the passage backwards, each step goes to the neighbour that held most mass for it, until one the walk
        began from; a passage that was itself a beginning is reached from another all the same, where there is one.
        The steps of all paths are taken together, so that the graph is asked once for each length.
        """
        ends: list[int] = self.view.of_passages(np.array(keys, np.int64)).tolist()
        paths = [[end] for end in ends]
        unfinished = paths
        for _ in range(TUNING.graph.max_path_nodes - 1):
            self._look_before({path[-1] for path in unfinished})
            unfinished = [path for path in unfinished if self._extend(path)]
        return [path[::-1] for path in paths]

    def _extend(self, path: list[int]) -> bool:
        """Go one step back; tell whether the path goes on."""
        before = next((node for node in self._before[path[-1]] if node not in path), None)
        if before is None:
            return False
        path.append(before)
        return before not in self._association.seeds and before not in self._association.begun

    def _look_before(self, nodes: Iterable[int]) -> None:
        """Find the neighbours that held most mass for nodes, as many as a path may have passed already and one."""
        new = sorted(node for node in nodes if node not in self._before)
        if not new:
            return
        edges = self.view.edges(np.array(new, np.int64))
        mass = self._association.walk.of(edges.target)
        # A node that much is tied to has many neighbours, of which the walk came to few.
        told = np.flatnonzero((edges.tie != EdgeType.PART) & (mass > 0))
        told = told[np.lexsort((edges.target[told], edges.source[told]))]
        source, target = edges.source[told], edges.target[told]
        is_first = np.ones(len(told), np.bool_)
        is_first[1:] = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
        weights = np.bincount(np.cumsum(is_first) - 1, TIE_WEIGHTS[edges.tie[told]] * mass[told], int(is_first.sum()))
        source, target = source[is_first], target[is_first]
        heavy = np.flatnonzero(weights > 0)
        order = heavy[np.lexsort((target[heavy], -weights[heavy], source[heavy]))]
        bounds = np.searchsorted(source[order], np.arange(len(new) + 1))
        for node, start, end in zip(new, bounds[:-1], bounds[1:], strict=True):
            self._before[node] = target[order[start : min(end, start + TUNING.graph.max_path_nodes)]].tolist()


def passages_on(path: Iterable[int], view: GraphView) -> list[int]:
    """Return the keys of the passages among the nodes of a path, in its order."""
    keys = view.passages_of(np.array(list(path), np.int64))
    found: list[int] = keys[keys >= 0].tolist()
    return found


def tell_path(
    path: Sequence[int], view: GraphView, *, names: Mapping[int, str], titles: Mapping[int, str]
) -> list[str]:
    """Write a path in names: entities by those given for their nodes, passages by the titles given for their keys.

    The plain form of a name ("retri") stands between the names that share it; where one of them is beside it, it says
    nothing more and is left out.
    """
    keys: list[int] = view.passages_of(np.array(path, np.int64)).tolist()
    entities = [names.get(node, "") if key < 0 else "" for node, key in zip(path, keys, strict=True)]
    return [
        titles.get(key, "") if key >= 0 else name
        for at, (key, name) in enumerate(zip(keys, entities, strict=True))
        if key >= 0 or not _is_form_of(name, [*entities[max(at - 1, 0) : at], *entities[at + 1 : at + 2]])
    ]


def _is_form_of(name: str, beside: Sequence[str]) -> bool:
    return any(other and other != name and plain_form(other) == name for other in beside)
