"""Redis, with vector sets and without: it passes the contracts against real servers."""

from itertools import count

import pytest

import redis_server
import space_parts
from treering.core.errors import Corrupt, InvalidInput, Unavailable
from treering.extensions.engines.engine_address import parse_engine_address
from treering.extensions.engines.redis import open_redis
from treering.ports.vector_engine import EngineState
from treering.testing.index_contract import EMBEDDER, LateIndexContract
from treering.testing.index_contract.histories import Histories
from treering.testing.index_contract.vectors import ByMeaning, Together, Upkeeping
from treering.testing.vector_engine_contract import VectorEngineContract, some_vectors, take_over

_marks = count()


@pytest.fixture(scope="module", params=[False, True], ids=["hashes", "vector sets"])
def server(request):
    try:
        started = redis_server.new_server(vector_sets=request.param)
    except redis_server.CannotStart as error:
        pytest.skip(f"no such Redis server can be started here: {error}")
    yield started
    redis_server.remove(started)


def engine_at(url, mark="a-mark"):
    return open_redis(parse_engine_address(url), mark, EMBEDDER.dimension)


@pytest.fixture
def open_new_engine(server):
    opened = []

    def open_new_engine():
        opened.append(engine_at(server.url, f"mark-{next(_marks)}"))
        return opened[-1]

    yield open_new_engine
    for engine in opened:
        engine.drop()
        engine.close()


class TestRedisEngine(VectorEngineContract):
    @pytest.fixture
    def open_engine(self, server):
        return lambda: engine_at(server.url)


class TestVectorsInRedis(ByMeaning, Upkeeping, Together, Histories):
    @pytest.fixture
    def open_index(self, open_composed):
        return open_composed


@pytest.mark.nightly
class TestLateIndexWithRedis(LateIndexContract):
    @pytest.fixture
    def open_index(self, open_late):
        return open_late


def test_a_server_reports_how_it_searches(server, open_new_engine):
    assert open_new_engine().kind in {"Redis vector set", "Redis hash, searched in the space"}


def test_spaces_share_a_server_and_see_nothing_of_each_other(open_new_engine):
    one, two = open_new_engine(), open_new_engine()
    take_over(one, some_vectors(20))
    assert two.state() is None
    take_over(two, some_vectors(5))
    two.drop()
    assert one.state() == EngineState("a-space", "m1", count=20)


def test_damaged_state_is_refused_with_a_hint(server):
    import redis

    engine = engine_at(server.url, "changed")
    take_over(engine, some_vectors(5))
    with redis.Redis.from_url(server.url) as client:
        client.set("treering:{changed}:state", "[")
    with pytest.raises(Corrupt) as refused:
        engine.state()
    assert "treering index rebuild" in refused.value.hint
    engine.drop()
    engine.close()


def test_space_answers_if_the_engine_server_is_down(tmp_path, caplog):
    server = redis_server.new_server(vector_sets=False)
    try:
        space = space_parts.open_space(str(tmp_path / "space.db"))
        for text in ("Bees hum in summer.", "Ants dig in sand."):
            space_parts.note(space, text, origin=text, title=text)
        space.perform("vectors")
        before = [hit.title for hit in space.query("search", input={"query": "bees"}).hits]
        used = space.perform("index use", input={"address": server.url})
        assert (used.state, used.vectors) == ("ready", 2)
        assert [hit.title for hit in space.query("search", input={"query": "bees"}).hits] == before
        server.stop()
        assert [hit.title for hit in space.query("search", input={"query": "bees"}).hits] == before
        failing = space.perform("index status")
        assert (failing.state, "Cannot reach" in failing.problem) == ("failing", True)
        dropped = space.perform("index drop")
        assert "Cannot reach" in dropped.problem
        assert space.perform("index status").state == "none"
        assert server.password not in repr(used) + repr(failing) + repr(dropped) + caplog.text
        with pytest.raises(Unavailable) as refused:
            space.perform("index use", input={"address": server.url})
        assert server.password not in str(refused.value) + refused.value.hint
        space.close()
    finally:
        redis_server.remove(server)


def test_options_that_there_are_not_are_refused():
    with pytest.raises(InvalidInput, match="options"):
        engine_at("redis://localhost:6379/0?kind=flat")
