"""What every engine that searches vectors beside a space must do, as tests.

An engine's own test class inherits `VectorEngineContract`:

class TestMyEngine(VectorEngineContract):
    @pytest.fixture
    def open_engine(self):
        # Every call opens the same engine again, as another process would.
        return lambda: MyEngine(place, dimension=EMBEDDER.dimension)

    @pytest.fixture
    def open_fed(self, clock):
        # A new, empty space whose store has a feed.
        ...
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from treering.core.errors import InvalidInput, TreeringError
from treering.core.filters import parse_filter
from treering.ports.index import Index
from treering.ports.ledger import Ledger
from treering.ports.passages import Reach
from treering.ports.search import Near, NearRequest, Vector
from treering.ports.vector_engine import EngineState, Keys, VectorChanges, VectorEngine, VectorFeed
from treering.retrieval.index.engine_following import EngineFollower, EngineInUse, EngineTail
from treering.stores.engines.selection import EngineVectors
from treering.testing.fakes import SteppingClock
from treering.testing.index_contract.histories import STEPS, HistoryWriter
from treering.testing.index_contract.stage import EMBEDDER, IndexedSpace, LedgerWithIndex

_MARK = "a-space"
_MANY = 300
_REACHES = (
    Reach("/", descend=True),
    Reach("/a"),
    Reach("/", descend=True, where=parse_filter({"role": "prose"})),
    Reach("/", descend=True, where=parse_filter({"title": "Notes"})),
    Reach("/", descend=True, withdrawn=True),
)
_HELD = "follow"
_steps = st.lists(
    st.tuples(st.sampled_from((*STEPS, "embed", _HELD, _HELD)), st.integers(0, 99), st.integers(0, 999)),
    min_size=5,
    max_size=25,
)


@dataclass(frozen=True, slots=True)
class FedSpace:
    """A new, empty ledger, its index, and the feed for engines."""

    ledger: Ledger
    index: Index
    feed: VectorFeed


OpenEngineAgain = Callable[[], VectorEngine]
OpenFed = Callable[[], FedSpace]


class VectorEngineContract:
    """Inherit this in a test class and return the fixtures `open_engine` and `open_fed`."""

    @pytest.fixture
    def clock(self) -> SteppingClock:
        return SteppingClock()

    @pytest.fixture
    def engine(self, open_engine: OpenEngineAgain) -> Iterator[VectorEngine]:
        engine = open_engine()
        yield engine
        engine.drop()
        engine.close()

    def test_an_engine_that_keeps_nothing_says_so(self, engine: VectorEngine) -> None:
        assert engine.state() is None
        assert engine.sight() is None

    def test_what_was_taken_over_is_found_nearest_first(self, engine: VectorEngine) -> None:
        vectors = some_vectors(_MANY)
        take_over(engine, vectors)
        assert engine.sight() == "m1"
        query = vectors[7]
        assert found(engine, query, 10) == nearest_of(vectors, query, 10)
        assert len(found(engine, query, 2 * _MANY)) <= _MANY

    def test_what_it_keeps_outlives_the_process(self, engine: VectorEngine, open_engine: OpenEngineAgain) -> None:
        vectors = some_vectors(_MANY)
        take_over(engine, vectors)
        again = open_engine()
        assert again.state() == EngineState(_MARK, "m1", count=_MANY)
        assert found(again, vectors[3], 5) == nearest_of(vectors, vectors[3], 5)
        again.close()

    def test_a_vector_that_came_later_is_found_and_one_that_went_is_not(
        self, engine: VectorEngine, open_engine: OpenEngineAgain
    ) -> None:
        vectors = some_vectors(_MANY)
        take_over(engine, vectors)
        new = some_vectors(_MANY + 1)[_MANY + 1]
        engine.apply(VectorChanges("m2", (7, 8, _MANY + 1), {_MANY + 1: new}), EngineState(_MARK, "m2"))
        engine.flush()
        left = {key: vector for key, vector in vectors.items() if key not in {7, 8}} | {_MANY + 1: new}
        for each in (engine, open_engine()):
            assert each.state() == EngineState(_MARK, "m2", count=_MANY - 1)
            assert each.sight() == "m2"
            assert found(each, vectors[7], 10) == nearest_of(left, vectors[7], 10)
            assert found(each, new, 1) == [_MANY + 1]

    def test_a_key_has_the_vector_it_was_given_last(self, engine: VectorEngine) -> None:
        vectors = some_vectors(_MANY)
        take_over(engine, vectors)
        engine.apply(VectorChanges("m2", (7,), {7: vectors[9]}), EngineState(_MARK, "m2"))
        engine.flush()
        assert engine.state() == EngineState(_MARK, "m2", count=_MANY)
        assert set(found(engine, vectors[9], 2)) == {7, 9}

    def test_most_of_what_it_kept_may_go(self, engine: VectorEngine) -> None:
        vectors = some_vectors(_MANY)
        take_over(engine, vectors)
        left = {key: vector for key, vector in vectors.items() if key % 10 == 0}
        gone = tuple(key for key in vectors if key not in left)
        engine.apply(VectorChanges("m2", gone), EngineState(_MARK, "m2"))
        engine.flush()
        assert found(engine, vectors[11], 20) == nearest_of(left, vectors[11], 20)

    def test_as_long_as_it_takes_vectors_over_it_answers_for_no_moment(self, engine: VectorEngine) -> None:
        vectors = some_vectors(20)
        engine.begin(EngineState(_MARK, "m1", loaded=-1))
        assert engine.sight() is None
        half = {key: vectors[key] for key in list(vectors)[:10]}
        engine.apply(VectorChanges("m1", tuple(half), half), EngineState(_MARK, "m1", loaded=max(half)))
        assert engine.sight() is None
        state = engine.state()
        assert state is not None
        assert (state.loaded, state.count) == (max(half), 10)

    def test_beginning_anew_forgets_everything(self, engine: VectorEngine, open_engine: OpenEngineAgain) -> None:
        take_over(engine, some_vectors(20))
        engine.begin(EngineState(_MARK, "m9", loaded=-1))
        engine.apply(VectorChanges("m9"), EngineState(_MARK, "m9"))
        engine.flush()
        again = open_engine()
        assert again.state() == EngineState(_MARK, "m9", count=0)
        assert found(again, some_vectors(1)[1], 5) == []
        again.close()

    def test_only_what_is_allowed_is_found_and_all_of_the_nearest_or_it_says_that_it_cannot(
        self, engine: VectorEngine
    ) -> None:
        vectors = some_vectors(_MANY)
        take_over(engine, vectors)
        for allowed in ([1, 2, 3], [key for key in vectors if key % 2], [], [5, 10**6]):
            keys = engine.search(vectors[7], 10, np.array(allowed, np.int64))
            wanted = {key: vectors[key] for key in allowed if key in vectors}
            assert keys is None or keys.tolist() == nearest_of(wanted, vectors[7], 10)

    def test_a_vector_of_another_dimension_is_refused(self, engine: VectorEngine) -> None:
        vectors = some_vectors(20)
        take_over(engine, vectors)
        short = np.ones(3, np.float32)
        with pytest.raises(InvalidInput, match="shape"):
            engine.search(short, 5, None)
        with pytest.raises(InvalidInput, match="shape"):
            engine.apply(VectorChanges("m2", (50,), {50: short}), EngineState(_MARK, "m2"))
        assert engine.state() == EngineState(_MARK, "m1", count=20)

    def test_a_process_that_is_asked_again_sees_what_another_wrote(
        self, engine: VectorEngine, open_engine: OpenEngineAgain
    ) -> None:
        vectors = some_vectors(20)
        take_over(engine, vectors)
        other = open_engine()
        assert other.sight() == "m1"
        engine.apply(VectorChanges("m2", (7,)), EngineState(_MARK, "m2"))
        engine.flush()
        other.refresh()
        assert other.sight() == "m2"
        assert 7 not in found(other, vectors[7], 20)
        other.close()

    def test_what_is_dropped_is_gone(self, engine: VectorEngine, open_engine: OpenEngineAgain) -> None:
        take_over(engine, some_vectors(20))
        engine.drop()
        again = open_engine()
        assert again.state() is None
        again.close()

    @settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
    @given(steps=_steps)
    def test_however_late_it_is_its_answers_are_those_of_the_space(
        self, engine: VectorEngine, open_fed: OpenFed, clock: SteppingClock, steps: Sequence[tuple[str, int, int]]
    ) -> None:
        fed = open_fed()
        problems: list[TreeringError] = []
        used = EngineInUse(engine, EngineTail(fed.feed, EMBEDDER.dimension))
        composed = EngineVectors(fed.index.vectors, fed.feed, lambda: used, problems.append)
        follower = EngineFollower(engine, fed.feed, _MARK, page=3)
        follower.begin()
        space = IndexedSpace(LedgerWithIndex(fed.ledger, fed.index), clock)
        history = HistoryWriter(space)
        for step in (("source", 0, 3), ("embed", 0, 2), (_HELD, 0, 0), *steps):
            if step[0] == _HELD:
                follow_up(follower)
            else:
                history.take(step)
            own, answered = fed.index.vectors.search(_questions()), composed.search(_questions())
            assert [_rounded(near) for near in answered] == [_rounded(near) for near in own]
        follow_up(follower)
        state = engine.state()
        assert state is not None
        assert state.count == fed.feed.count()
        assert problems == []


def some_vectors(count: int) -> dict[int, Vector]:
    """Return vectors of unit length by key from 1; the same for the same key."""
    made = np.random.default_rng(1).normal(size=(2 * _MANY, EMBEDDER.dimension)).astype(np.float32)[:count]
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    return dict(enumerate(made, start=1))


def take_over(engine: VectorEngine, vectors: dict[int, Vector]) -> None:
    """Let an engine take vectors over, as a follower does."""
    engine.begin(EngineState(_MARK, "m1", loaded=-1))
    engine.apply(VectorChanges("m1", tuple(vectors), vectors), EngineState(_MARK, "m1", loaded=max(vectors)))
    engine.apply(VectorChanges("m1"), EngineState(_MARK, "m1"))
    engine.flush()


def found(engine: VectorEngine, vector: Vector, limit: int) -> list[int]:
    """Return the results of an engine without a filter."""
    assert engine.sight() is not None
    keys: Keys | None = engine.search(vector, limit, None)
    assert keys is not None
    listed: list[int] = keys.tolist()
    return listed


def nearest_of(vectors: dict[int, Vector], query: Vector, limit: int) -> list[int]:
    """Compare every vector with a query."""
    return sorted(vectors, key=lambda key: (-float(vectors[key] @ query), key))[:limit]


def follow_up(follower: EngineFollower) -> None:
    """Bring an engine wholly up to date."""
    while follower.advance():
        pass


def _questions() -> list[NearRequest]:
    bees, ants = (EMBEDDER.embed_query(text) for text in ("bees hum", "Ada met ants in May"))
    return [NearRequest(reach, (bees, ants), (2, 50), (1, 2)) for reach in _REACHES]


def _rounded(near: Near) -> tuple[list[int], list[dict[int, float]]]:
    return sorted(near.found), [{key: round(value, 3) for key, value in one.items()} for one in near.cosines]
