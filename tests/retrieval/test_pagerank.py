import tracemalloc

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.ports.search import Edges
from treering.retrieval import limits
from treering.retrieval.graph.pagerank import walk
from treering.retrieval.tuning import TUNING

_TIES = np.array([1.0, 2.0, 0.5])


class Drawn:
    """A small undirected graph given as a list of edges, and who asked for what."""

    def __init__(self, size: int, edges: list[tuple[int, int, int]]) -> None:
        self.size = size
        both = [(one, other, tie) for one, other, tie in edges] + [(other, one, tie) for one, other, tie in edges]
        self.rows = np.array(both, np.int64).reshape(-1, 3)
        self.asked: list[int] = []

    def edges(self, nodes: np.ndarray) -> Edges:
        self.asked += nodes.tolist()
        found = [(at, row[1], row[2]) for at, node in enumerate(nodes) for row in self.rows if row[0] == node]
        table = np.array(found, np.int64).reshape(-1, 3)
        return Edges(table[:, 0], table[:, 1], table[:, 2].astype(np.uint8))

    def degrees(self, nodes: np.ndarray) -> np.ndarray:
        return np.array([np.sum(self.rows[:, 0] == node) for node in nodes], np.int64)

    def exact(self, seeds: list[int], damping: float) -> np.ndarray:
        """Solve the equation of Personalized PageRank; nodes without edges keep what they get."""
        share = np.zeros((self.size, self.size))
        for one, other, tie in self.rows:
            share[other, one] += _TIES[tie]
        totals = share.sum(axis=0)
        share = np.divide(share, totals, out=np.zeros_like(share), where=totals > 0)
        start = np.bincount(seeds, minlength=self.size) / len(seeds)
        mass = np.linalg.solve(np.eye(self.size) - damping * share, start)
        return np.where(totals > 0, (1 - damping) * mass, mass)


@st.composite
def _drawn(draw: st.DrawFn) -> tuple[Drawn, list[int]]:
    size = draw(st.integers(2, 14))
    node = st.integers(0, size - 1)
    pairs = st.tuples(node, node, st.integers(0, 2)).filter(lambda edge: edge[0] != edge[1])
    edges = draw(st.lists(pairs, max_size=40))
    return Drawn(size, edges), draw(st.lists(node, min_size=1, max_size=4))


def _dense(drawn: Drawn, seeds: list[int], **options: float) -> np.ndarray:
    found = walk(np.array(seeds, np.int64), np.ones(len(seeds)), drawn, _TIES, **options)  # type: ignore[arg-type]
    return found.of(np.arange(drawn.size))


@settings(max_examples=80, deadline=None)
@given(_drawn(), st.sampled_from([0.3, 0.5, 0.85]))
def test_enough_rounds_give_what_an_exact_solver_gives(case: tuple[Drawn, list[int]], damping: float):
    drawn, seeds = case
    found = _dense(drawn, seeds, damping=damping, epsilon=0.0, rounds=200)
    np.testing.assert_allclose(found, drawn.exact(seeds, damping), atol=1e-9)


@settings(max_examples=80, deadline=None)
@given(_drawn())
def test_default_walk_is_within_its_error_bound(case: tuple[Drawn, list[int]]):
    drawn, seeds = case
    left = TUNING.graph.damping**limits.WALK_ROUNDS + limits.MIN_UNDECIDED_MASS * len(drawn.rows)
    assert np.abs(_dense(drawn, seeds) - drawn.exact(seeds, TUNING.graph.damping)).sum() <= 2 * left


@settings(max_examples=40, deadline=None)
@given(_drawn())
def test_no_mass_is_lost_and_no_node_is_looked_up_twice(case: tuple[Drawn, list[int]]):
    drawn, seeds = case
    assert _dense(drawn, seeds).sum() == pytest.approx(1.0)
    assert len(drawn.asked) == len(set(drawn.asked))


def test_a_coarse_walk_looks_only_at_what_is_near():
    chain = Drawn(200, [(at, at + 1, 0) for at in range(199)])
    _dense(chain, [0], epsilon=1e-2, rounds=100)
    assert max(chain.asked) < 10


def test_seeds_count_in_proportion_to_their_weight():
    apart = Drawn(4, [(0, 1, 0), (2, 3, 0)])
    found = walk(np.array([0, 2, 0]), np.array([1.0, 1.0, 2.0]), apart, _TIES)
    mass = found.of(np.arange(4))
    assert mass[:2].sum() == pytest.approx(3 * mass[2:].sum())


def test_heavier_ties_carry_more():
    star = Drawn(4, [(0, 1, 0), (0, 2, 1), (0, 3, 2)])
    mass = _dense(star, [0])
    assert mass[2] > mass[1] > mass[3]


def test_seeds_without_weight_give_no_mass():
    found = walk(np.array([0, 1]), np.zeros(2), Drawn(2, [(0, 1, 0)]), _TIES)
    assert found.of(np.array([0, 1])).tolist() == [0.0, 0.0]


def test_what_was_never_reached_has_no_mass():
    found = walk(np.zeros(0, np.int64), np.zeros(0), Drawn(2, [(0, 1, 0)]), _TIES)
    assert found.of(np.array([0, 7])).tolist() == [0.0, 0.0]


class Renumbered:
    """A drawn graph whose nodes have numbers of 64 bits, far apart and in another order."""

    def __init__(self, drawn: Drawn) -> None:
        self.drawn = drawn
        self.numbers = np.array([2**40 + (at * 7919 % drawn.size) * (2**40 + 1) for at in range(drawn.size)], np.int64)

    def edges(self, nodes: np.ndarray) -> Edges:
        found = self.drawn.edges(self.known(nodes))
        return Edges(found.source, self.numbers[found.target], found.tie)

    def degrees(self, nodes: np.ndarray) -> np.ndarray:
        return self.drawn.degrees(self.known(nodes))

    def known(self, nodes: np.ndarray) -> np.ndarray:
        return np.array([int(np.flatnonzero(self.numbers == node)[0]) for node in nodes], np.int64)


@settings(max_examples=80, deadline=None)
@given(_drawn())
def test_how_nodes_are_numbered_changes_no_bit_of_an_answer(case: tuple[Drawn, list[int]]):
    drawn, seeds = case
    other = Renumbered(drawn)
    found = walk(other.numbers[seeds], np.ones(len(seeds)), other, _TIES)
    assert found.of(other.numbers).tobytes() == _dense(drawn, seeds).tobytes()


def test_a_walk_needs_memory_for_the_nodes_it_meets_and_not_for_their_numbers():
    ring = Drawn(200, [(at, (at + 1) % 200, 0) for at in range(200)])
    other = Renumbered(ring)
    tracemalloc.start()
    try:
        found = walk(other.numbers[:3], np.ones(3), other, _TIES)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(found.nodes) > 10
    assert found.nodes.max() > 2**40
    assert most < 4_000_000


def test_a_walk_over_many_nodes_has_a_place_for_each():
    star = Drawn(20_001, [])
    leaves = np.arange(1, 20_001, dtype=np.int64) * 2**42
    star.edges = lambda nodes: Edges(  # type: ignore[method-assign]
        np.repeat(np.flatnonzero(nodes == 0), len(leaves)),
        np.tile(leaves, int(np.sum(nodes == 0))),
        np.zeros(len(leaves) * int(np.sum(nodes == 0)), np.uint8),
    )
    star.degrees = lambda nodes: np.where(nodes == 0, len(leaves), 0)  # type: ignore[method-assign]
    found = walk(np.array([0]), np.ones(1), star, _TIES, epsilon=0.0)
    assert found.nodes.tolist() == [0, *leaves.tolist()]
    assert found.of(leaves) == pytest.approx(np.full(len(leaves), TUNING.graph.damping / len(leaves)))
