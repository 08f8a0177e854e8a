"""The associative arm: find passages along the entity graph, starting from the hits of the other arms.

It follows HippoRAG 2 (arXiv 2502.14802): a random walk starts at the entities of the statements nearest to the question
and at the passages found so far, and ranks passages by the mass it leaves on them. The scores of statements, and the
other arms read from the graph, were measured here (`docs/decisions`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log2

import numpy as np
import numpy.typing as npt

from treering.ports.search import Edges, EdgeType, GraphView, Nodes, Statements, TextQuery
from treering.retrieval import limits
from treering.retrieval.extraction.names import entity_key, plain_form
from treering.retrieval.graph.pagerank import Walk, walk
from treering.retrieval.index.tables import distinct
from treering.retrieval.index.ties import word_code
from treering.retrieval.text.analysis import index_text
from treering.retrieval.tuning import TUNING

Found = Sequence[tuple[int, float]]
"""Passages by key with their score between 0 and 1, best first."""

Scores = dict[int, float]

TIE_WEIGHTS = np.array([TUNING.graph.title_weight if one == EdgeType.TITLE else 1 for one in EdgeType], np.float64)
"""The weight of an edge in the walk, by `EdgeType`."""


_NAMING_WORDS = 64
_ARTICLES = frozenset({"a", "an", "the"})
_CODES = 1 << 16  # of words


@dataclass(frozen=True, slots=True)
class NearStatement:
    """A statement near the question: its passage, its two ends (node numbers), and its score."""

    passage: int
    subject: int
    object: int
    score: float


@dataclass(frozen=True, slots=True)
class Association:
    """The arms of the graph for a question, by passage key. Every score is between 0 and 1.

    `walked` is 1/log2(1 + rank) by the mass of the walk. `bridged` is the best path from a passage found so far over a
    shared entity, `title_match` the same over an entity that is the title of the passage, and `named` is 1 if the
    question names the title. The walk started at `seeds` (entities, by node number) and `begun` (nodes of passages
    found so far); `facts` are the nearest statements, which give most of the seeds.
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
    """The walked graph, which defines the node numbers."""


def associate(text: str, terms: TextQuery, found: Found, view: GraphView) -> Association:
    """Walk the graph from a question and the passages found for it."""
    read = [key for key, _ in found[: limits.MAX_STATED_PASSAGES]]
    stated = view.statements(read)
    strengths = np.array([score for _, score in found[: limits.MAX_STATED_PASSAGES]])
    words, named = _codes(terms.words), view.named(names_in(text))
    ties = _Ties.around(read, stated, named, view)
    facts = _nearest_facts(read, stated, strengths[stated.passage])
    seeds = {**_named_seeds(ties), **_fact_seeds(facts, ties)}
    begun = view.of_passages(np.array([key for key, _ in found], np.int64))
    walked = _walk(seeds, begun, [score for _, score in found], view)
    titled = ties.titled()
    other_words = np.setdiff1d(words, _codes(_name_words(named, ties)), assume_unique=True)
    begins = np.array([1.0 if key in titled else TUNING.graph.unnamed_share for key in read])
    bridged, title_match = _bridges(read, strengths * begins, stated, _has_words(stated, other_words), ties)
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


def without_copies(found: Found, view: GraphView) -> Found:
    """Leave out, of the first passages, those with nearly the same entities as a better one.

    Otherwise the walk starts at the entities of each copy, and copies hand its mass to each other.
    """
    read = found[: limits.MAX_STATED_PASSAGES]
    own = _occurrences(view.edges(view.of_passages(np.array([key for key, _ in read], np.int64))))
    mentioned = own.tie == EdgeType.MENTION
    entities: list[set[int]] = [set() for _ in read]
    for at, entity in zip(own.source[mentioned].tolist(), own.target[mentioned].tolist(), strict=True):
        entities[at].add(entity)
    distinct_places: list[int] = []
    for at, one in enumerate(entities):
        if not any(_are_copies(one, entities[other]) for other in distinct_places):
            distinct_places.append(at)
    return [*(read[at] for at in distinct_places), *found[len(read) :]]


def _are_copies(one: set[int], other: set[int]) -> bool:
    common = len(one & other)
    return common >= TUNING.graph.copied_entities and common >= TUNING.graph.copied_share * (
        len(one) + len(other) - common
    )


def names_in(text: str) -> list[str]:
    """Return the entity keys that a text may name: all runs of up to `MAX_ENTITY_WORDS` of its first words."""
    words = entity_key(text).split()[:_NAMING_WORDS]
    lengths = range(limits.MAX_ENTITY_WORDS, 0, -1)
    runs = (words[at : at + length] for length in lengths for at in range(len(words) - length + 1))
    # A key has no leading article, and the run without it is in the list as well.
    return list(dict.fromkeys(" ".join(run) for run in runs if len(run) == 1 or run[0] not in _ARTICLES))


@dataclass(frozen=True, slots=True)
class _Ties:
    """The entities of the passages found, and their other passages. Arrays refer to the sorted entities by position."""

    entities: Nodes
    spread: npt.NDArray[np.int64]
    """The number of passages in reach with each entity; for hubs the number of edges."""
    named: npt.NDArray[np.int64]
    """Positions of the entities that the question names."""
    reader: npt.NDArray[np.int64]
    """Together with `held`: which read passage, by its position, has which entity."""
    held: npt.NDArray[np.int64]
    occurrence: Edges
    """Edges from entities to their passages, ordered by entity."""
    holders: npt.NDArray[np.int64]
    """The key of the passage at the end of each edge of `occurrence`."""
    is_title: npt.NDArray[np.bool_]
    """Together with `reader` and `held`: whether the entity is the title of the passage."""

    @classmethod
    def around(cls, read: Sequence[int], stated: Statements, named: Mapping[str, int], view: GraphView) -> "_Ties":
        own = _occurrences(view.edges(view.of_passages(np.array(read, np.int64))))
        known = np.array(list(named.values()), np.int64)
        entities = distinct(np.concatenate([own.target, stated.subject, stated.object, known]))
        degrees = view.degrees(entities)
        rare = np.flatnonzero(degrees <= limits.MAX_HUB_EDGES)
        found = _occurrences(view.edges(entities[rare]))
        occurrence = _by_source(Edges(rare[found.source], found.target, found.tie))
        spread = np.bincount(occurrence.source, minlength=len(entities))
        return cls(
            entities,
            np.where(degrees <= limits.MAX_HUB_EDGES, spread, degrees),
            np.searchsorted(entities, known),
            own.source,
            np.searchsorted(entities, own.target),
            occurrence,
            view.passages_of(occurrence.target),
            own.tie == EdgeType.TITLE,
        )

    def rarity(self, entity: int) -> float:
        """Return the share of each passage in the weight of an entity."""
        return 1.0 / max(1, int(self.spread[entity]))

    def titled(self) -> Scores:
        """Return the passages whose title the question names."""
        return dict.fromkeys(self.holders[self._named_titles()].tolist(), 1.0)

    def titles_named(self) -> npt.NDArray[np.int64]:
        """Return the positions of the titles that the question names."""
        return self.occurrence.source[self._named_titles()]

    def _named_titles(self) -> npt.NDArray[np.bool_]:
        """Return a mask of the occurrences as a title that the question names."""
        is_named = np.zeros(len(self.entities), np.bool_)
        is_named[self.named] = True
        mask: npt.NDArray[np.bool_] = (self.occurrence.tie == EdgeType.TITLE) & is_named[self.occurrence.source]
        return mask


def _occurrences(edges: Edges) -> Edges:
    """Return the edges of entities in passages."""
    mask = (edges.tie == EdgeType.MENTION) | (edges.tie == EdgeType.TITLE)
    return Edges(edges.source[mask], edges.target[mask], edges.tie[mask])


def _by_source(edges: Edges) -> Edges:
    order = np.argsort(edges.source, kind="stable")
    return Edges(edges.source[order], edges.target[order], edges.tie[order])


def _codes(words: Iterable[str]) -> npt.NDArray[np.uint16]:
    """Return the distinct codes of words."""
    return distinct(np.array([word_code(word) for word in words], np.uint16))


def _name_words(named: Mapping[str, int], ties: _Ties) -> list[str]:
    """Return the words of the names in a question that are titles or have several words.

    All statements about a name have its words. Only the other words show whether a statement answers the question.
    """
    titles = set(ties.entities[ties.titles_named()].tolist())
    words = (word for name, node in named.items() if " " in name or node in titles for word in name.split())
    return index_text(" ".join(dict.fromkeys(words))).split()


def _has_words(stated: Statements, words: npt.NDArray[np.uint16]) -> npt.NDArray[np.bool_]:
    """Return for each statement whether it has any of some words."""
    if not len(stated.passage):
        return np.zeros(0, np.bool_)
    is_wanted = np.zeros(_CODES, np.bool_)
    is_wanted[words] = True
    counts = np.concatenate([[0], np.cumsum(is_wanted[stated.words])])
    has_any: npt.NDArray[np.bool_] = counts[stated.bounds[1:]] > counts[stated.bounds[:-1]]
    return has_any


def _nearest_facts(read: Sequence[int], stated: Statements, scores: npt.NDArray[np.float64]) -> list[NearStatement]:
    # A stable order, so that ties do not depend on the numbers of nodes.
    order = np.argsort(-scores, kind="stable")[: TUNING.graph.facts]
    return [
        NearStatement(read[int(stated.passage[at])], int(stated.subject[at]), int(stated.object[at]), float(scores[at]))
        for at in order
    ]


def _named_seeds(ties: _Ties) -> dict[int, float]:
    # Entities without a passage in reach are no seeds.
    weight = TUNING.graph.named_weight
    return {int(ties.entities[at]): weight * ties.rarity(int(at)) for at in ties.named if ties.spread[at]}


def _fact_seeds(facts: Sequence[NearStatement], ties: _Ties) -> dict[int, float]:
    """Return the weights of the entities in the nearest statements: the mean of their scores times their rarity."""
    scores: dict[int, list[float]] = {}
    for fact in facts:
        for end in (fact.subject, fact.object):
            scores.setdefault(end, []).append(fact.score)
    return {
        end: sum(of) / len(of) * ties.rarity(int(np.searchsorted(ties.entities, end))) for end, of in scores.items()
    }


def _walk(seeds: Mapping[int, float], begun: Nodes, scores: Sequence[float], view: GraphView) -> Walk:
    nodes = np.concatenate([np.array(list(seeds), np.int64), begun])
    weights = [*seeds.values(), *(TUNING.graph.passage_weight * score for score in scores)]
    return walk(nodes, np.array(weights), view, TIE_WEIGHTS)


def _by_rank(walked: Walk, view: GraphView) -> Scores:
    keys = view.passages_of(walked.nodes)
    passages = keys >= 0
    keys, mass = keys[passages], walked.mass[passages]
    best = np.lexsort((keys, -mass))[: limits.MAX_WALKED_PASSAGES]
    return {int(keys[at]): 1 / log2(1 + rank) for rank, at in enumerate(best, start=1)}


def _bridges(
    read: Sequence[int],
    strengths: npt.NDArray[np.float64],
    stated: Statements,
    is_relevant: npt.NDArray[np.bool_],
    ties: _Ties,
) -> tuple[Scores, Scores]:
    """Return the best path from a read passage over an entity to other passages with it, and to those titled so.

    `is_relevant` is a mask of the statements with other words of the question than names.
    """
    is_about = _relevant_entities(stated, is_relevant, ties, len(read))
    ways = _Ways.of(ties, read)
    scores = strengths[ways.reader] * np.where(is_about[ways.reader, ways.entity], 1.0, TUNING.graph.unstated_share)
    mentioned = scores / np.log2(1 + ties.spread[ways.entity])
    title_match = (ways.tie == EdgeType.TITLE) & ~ways.by_own_title
    return _best(ways.passage, mentioned), _best(ways.passage[title_match], scores[title_match])


def _relevant_entities(
    stated: Statements, is_relevant: npt.NDArray[np.bool_], ties: _Ties, readers: int
) -> npt.NDArray[np.bool_]:
    """Return by read passage and entity whether a relevant statement of the passage is about the entity."""
    table = np.zeros((readers, len(ties.entities)), np.bool_)
    for ends in (stated.subject[is_relevant], stated.object[is_relevant]):
        table[stated.passage[is_relevant], np.searchsorted(ties.entities, ends)] = True
    return table


@dataclass(frozen=True, slots=True)
class _Ways:
    """All paths from a read passage over an entity that is not too common to another passage with it."""

    reader: npt.NDArray[np.int64]
    entity: npt.NDArray[np.int64]
    passage: npt.NDArray[np.int64]
    tie: npt.NDArray[np.uint8]
    by_own_title: npt.NDArray[np.bool_]
    """Whether the entity is the title of the read passage; another passage with this title is no step further."""

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
        own = np.repeat(ties.is_title[near], counts)
        return cls(readers[away], entities[away], passages[away], ties.occurrence.tie[at][away], own[away])


def _best(keys: npt.NDArray[np.int64], scores: npt.NDArray[np.float64]) -> Scores:
    each, which = np.unique(keys, return_inverse=True)
    best = np.zeros(len(each))
    np.maximum.at(best, which, scores)
    return dict(zip(each.tolist(), best.tolist(), strict=True))


class WaysBack:
    """Find the paths by which a walk reached passages. Each node is read once."""

    def __init__(self, association: Association) -> None:
        """Take the association with the walk and its beginning."""
        self.view: GraphView = association.view
        self._association = association
        self._before: dict[int, list[int]] = {}

    def paths_to(self, keys: Sequence[int]) -> list[list[int]]:
        """Return for each passage the nodes from the beginning of the walk to the passage.

        Backwards from the passage, each step goes to the neighbor with most mass, until a node where the walk began. A
        passage where the walk began also gets a path from another one, if there is any. The steps of all paths are
        taken together, so that the graph is read once per step.
        """
        ends: list[int] = self.view.of_passages(np.array(keys, np.int64)).tolist()
        paths = [[end] for end in ends]
        unfinished = paths
        for _ in range(limits.MAX_PATH_NODES - 1):
            self._look_before({path[-1] for path in unfinished})
            unfinished = [path for path in unfinished if self._extend(path)]
        return [path[::-1] for path in paths]

    def _extend(self, path: list[int]) -> bool:
        """Go one step back; return whether the path continues."""
        before = next((node for node in self._before[path[-1]] if node not in path), None)
        if before is None:
            return False
        path.append(before)
        return before not in self._association.seeds and before not in self._association.begun

    def _look_before(self, nodes: Iterable[int]) -> None:
        """Find the neighbors with most mass: one more than a path may already contain."""
        new = sorted(node for node in nodes if node not in self._before)
        if not new:
            return
        edges = self.view.edges(np.array(new, np.int64))
        mass = self._association.walk.of(edges.target)
        # The walk reached few of the many neighbors of a hub.
        used = np.flatnonzero((edges.tie != EdgeType.PART) & (mass > 0))
        used = used[np.lexsort((edges.target[used], edges.source[used]))]
        source, target = edges.source[used], edges.target[used]
        is_first = np.ones(len(used), np.bool_)
        is_first[1:] = (source[1:] != source[:-1]) | (target[1:] != target[:-1])
        weights = np.bincount(np.cumsum(is_first) - 1, TIE_WEIGHTS[edges.tie[used]] * mass[used], int(is_first.sum()))
        source, target = source[is_first], target[is_first]
        heavy = np.flatnonzero(weights > 0)
        order = heavy[np.lexsort((target[heavy], -weights[heavy], source[heavy]))]
        bounds = np.searchsorted(source[order], np.arange(len(new) + 1))
        for node, start, end in zip(new, bounds[:-1], bounds[1:], strict=True):
            self._before[node] = target[order[start : min(end, start + limits.MAX_PATH_NODES)]].tolist()


def passages_on(path: Iterable[int], view: GraphView) -> list[int]:
    """Return the keys of the passages among the nodes of a path, in order."""
    keys = view.passages_of(np.array(list(path), np.int64))
    passages: list[int] = keys[keys >= 0].tolist()
    return passages


def tell_path(
    path: Sequence[int], view: GraphView, *, names: Mapping[int, str], titles: Mapping[int, str]
) -> list[str]:
    """Write a path with the names of entities (by node) and the titles of passages (by key).

    The plain form of a name ("retri") links the names that share it, and is left out next to one of them.
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
