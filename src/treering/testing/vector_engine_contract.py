"""Contract tests for engines that search vectors outside of a space.

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

from treering.core.errors import InvalidInput
from treering.core.filters import parse_filter
from treering.extensions.engines.engine_address import GIVEN, EngineBackend
from treering.extensions.engines.selection import EngineIndex, SelectedEngine
from treering.ports.index import Index
from treering.ports.ledger import Ledger
from treering.ports.passages import Reach
from treering.ports.runtime import Clock
from treering.ports.search import Near, NearRequest, Vector
from treering.ports.vector_engine import Describe, EngineState, Keys, VectorChanges, VectorEngine, VectorFeed
from treering.testing.fakes import MemoryLeases, SteppingClock
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

    def test_what_was_taken_over_is_found_nearest_first(self, engine: VectorEngine) -> None:
        vectors = some_vectors(_MANY)
        take_over(engine, vectors)
        query = vectors[7]
        require_nearest(engine, vectors, query, 10)
        assert not engine.searches or len(found(engine, query, 2 * _MANY)) <= _MANY

    def test_what_it_keeps_outlives_the_process(self, engine: VectorEngine, open_engine: OpenEngineAgain) -> None:
        vectors = some_vectors(_MANY)
        take_over(engine, vectors)
        again = open_engine()
        assert again.state() == EngineState(_MARK, "m1", count=_MANY)
        require_nearest(again, vectors, vectors[3], 5)
        again.close()

    def test_a_vector_that_came_later_is_found_and_one_that_went_is_not(
        self, engine: VectorEngine, open_engine: OpenEngineAgain
    ) -> None:
        vectors = some_vectors(_MANY)
        take_over(engine, vectors)
        new = some_vectors(_MANY + 1)[_MANY + 1]
        engine.apply(VectorChanges("m2", (7, 8, _MANY + 1), {_MANY + 1: new}), EngineState(_MARK, "m2"))
        left = {key: vector for key, vector in vectors.items() if key not in {7, 8}} | {_MANY + 1: new}
        for each in (engine, open_engine()):
            assert each.state() == EngineState(_MARK, "m2", count=_MANY - 1)
            require_nearest(each, left, vectors[7], 10)
            require_nearest(each, left, new, 1)

    def test_a_key_has_the_vector_it_was_given_last(self, engine: VectorEngine) -> None:
        vectors = some_vectors(_MANY)
        take_over(engine, vectors)
        engine.apply(VectorChanges("m2", (7,), {7: vectors[9]}), EngineState(_MARK, "m2"))
        assert engine.state() == EngineState(_MARK, "m2", count=_MANY)
        assert not engine.searches or set(found(engine, vectors[9], 2)) == {7, 9}

    def test_most_of_what_it_kept_may_go(self, engine: VectorEngine) -> None:
        vectors = some_vectors(_MANY)
        take_over(engine, vectors)
        left = {key: vector for key, vector in vectors.items() if key % 10 == 0}
        gone = tuple(key for key in vectors if key not in left)
        engine.apply(VectorChanges("m2", gone), EngineState(_MARK, "m2"))
        require_nearest(engine, left, vectors[11], 20)

    def test_a_state_says_how_far_vectors_were_loaded(self, engine: VectorEngine) -> None:
        vectors = some_vectors(20)
        engine.begin(EngineState(_MARK, "m1", loaded=-1))
        half = {key: vectors[key] for key in list(vectors)[:10]}
        engine.apply(VectorChanges("m1", tuple(half), half), EngineState(_MARK, "m1", loaded=max(half)))
        state = engine.state()
        assert state is not None
        assert (state.loaded, state.count) == (max(half), 10)

    def test_beginning_anew_forgets_everything(self, engine: VectorEngine, open_engine: OpenEngineAgain) -> None:
        take_over(engine, some_vectors(20))
        engine.begin(EngineState(_MARK, "m9", loaded=-1))
        engine.apply(VectorChanges("m9"), EngineState(_MARK, "m9"))
        again = open_engine()
        assert again.state() == EngineState(_MARK, "m9", count=0)
        require_nearest(again, {}, some_vectors(1)[1], 5)
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
        assert other.state() == EngineState(_MARK, "m1", count=20)
        engine.apply(VectorChanges("m2", (7,)), EngineState(_MARK, "m2"))
        assert other.state() == EngineState(_MARK, "m2", count=19)
        assert not other.searches or 7 not in found(other, vectors[7], 20)
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
        self,
        engine: VectorEngine,
        open_engine: OpenEngineAgain,
        open_fed: OpenFed,
        clock: SteppingClock,
        steps: Sequence[tuple[str, int, int]],
    ) -> None:
        fed = open_fed()
        engine.drop()
        selected = selected_for(open_engine, fed, clock)
        composed = EngineIndex.over(fed.index, selected).vectors
        space = IndexedSpace(LedgerWithIndex(fed.ledger, fed.index), clock)
        history = HistoryWriter(space)
        for step in (("source", 0, 3), ("embed", 0, 2), (_HELD, 0, 0), *steps):
            if step[0] == _HELD:
                follow_up(selected)
            else:
                history.take(step)
            own, answered = fed.index.vectors.search(_questions()), composed.search(_questions())
            assert [_rounded(near) for near in answered] == [_rounded(near) for near in own]
        follow_up(selected)
        report = selected.report()
        assert (report.state, report.vectors, report.problem) == ("ready", fed.feed.count(), "")
        selected.close()


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


def found(engine: VectorEngine, vector: Vector, limit: int) -> list[int]:
    """Return the results of an engine without a filter."""
    keys: Keys | None = engine.search(vector, limit, None)
    assert keys is not None
    listed: list[int] = keys.tolist()
    return listed


def require_nearest(engine: VectorEngine, vectors: dict[int, Vector], query: Vector, limit: int) -> None:
    """Assert that an engine with search finds the nearest vectors, and that others report that they cannot."""
    if engine.searches:
        assert found(engine, query, limit) == nearest_of(vectors, query, limit)
    else:
        assert engine.search(query, limit, None) is None


def nearest_of(vectors: dict[int, Vector], query: Vector, limit: int) -> list[int]:
    """Compare every vector with a query."""
    return sorted(vectors, key=lambda key: (-float(vectors[key] @ query), key))[:limit]


def selected_for(
    open_engine: OpenEngineAgain, fed: FedSpace, clock: Clock, *, describe: Describe | None = None
) -> SelectedEngine:
    """Connect an engine to a space; it follows on request, a few changes at a time."""
    backend = EngineBackend(lambda: lambda *_: open_engine(), extra="", shows_graph=describe is not None)
    selected = SelectedEngine(
        fed.feed,
        MemoryLeases(clock=clock),
        clock,
        {GIVEN: backend},
        model=EMBEDDER.model_id,
        dimension=EMBEDDER.dimension,
        describe=describe,
        page=3,
    )
    selected.use(f"{GIVEN}:contract")
    return selected


def follow_up(selected: SelectedEngine) -> None:
    """Bring an engine fully up to date."""
    while selected.advance():
        pass


def _questions() -> list[NearRequest]:
    bees, ants = (EMBEDDER.embed_query(text) for text in ("bees hum", "Ada met ants in May"))
    return [NearRequest(reach, (bees, ants), (2, 50), (1, 2)) for reach in _REACHES]


def _rounded(near: Near) -> tuple[list[int], list[dict[int, float]]]:
    return sorted(near.found), [{key: round(value, 3) for key, value in one.items()} for one in near.cosines]
