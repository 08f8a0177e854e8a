"""MongoDB: it passes the contracts against a server that speaks its protocol."""

from itertools import count

import pymongo
import pytest

import mongo_server
from treering.core.errors import Corrupt, InvalidInput, Unavailable
from treering.extensions.engines.engine_address import parse_engine_address
from treering.extensions.engines.mongo import engine_over_mongodb, open_mongodb
from treering.ports.vector_engine import EngineState, VectorChanges
from treering.testing.index_contract import EMBEDDER, LateIndexContract
from treering.testing.index_contract.vectors import ByMeaning
from treering.testing.vector_engine_contract import VectorEngineContract, some_vectors, take_over

_marks = count()


@pytest.fixture(scope="module")
def server():
    with mongo_server.running() as started:
        yield started


def engine_at(url, mark="a-mark"):
    return open_mongodb(parse_engine_address(url), mark, EMBEDDER.dimension)


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


class TestMongoEngine(VectorEngineContract):
    @pytest.fixture
    def open_engine(self, server):
        opened = []

        def open_engine():
            opened.append(engine_at(server.url))
            return opened[-1]

        yield open_engine
        for engine in opened:
            engine.close()


class TestVectorsInMongo(ByMeaning):
    @pytest.fixture
    def open_index(self, open_composed):
        return open_composed


@pytest.mark.nightly
class TestLateIndexWithMongo(LateIndexContract):
    @pytest.fixture
    def open_index(self, open_late):
        return open_late


def test_spaces_share_a_server_and_see_nothing_of_each_other(open_new_engine):
    one, two = open_new_engine(), open_new_engine()
    take_over(one, some_vectors(20))
    assert two.state() is None
    take_over(two, some_vectors(5))
    two.drop()
    assert one.state() == EngineState("a-space", "m1", count=20)


def test_a_change_that_was_taken_over_by_half_is_taken_over_again(server, open_new_engine):
    engine = open_new_engine()
    vectors = some_vectors(20)
    take_over(engine, vectors)
    more = some_vectors(25)
    # As if the process had ended before it wrote the state.
    state = engine.state()
    engine.apply(VectorChanges("m2", (3, 25), {25: more[25]}), EngineState("a-space", "m2"))
    engine.apply(VectorChanges("m1"), state)
    engine.apply(VectorChanges("m2", (3, 25), {25: more[25]}), EngineState("a-space", "m2"))
    assert engine.state() == EngineState("a-space", "m2", count=20)


def test_damaged_state_is_refused_with_a_hint(server):
    engine = engine_at(server.url, "changed")
    with pymongo.MongoClient(server.url) as client:
        kept = client.get_default_database()
        take_over(engine, some_vectors(5))
        kept["treering_states"].update_one({"_id": "changed"}, {"$set": {"moment": 7}})
        with pytest.raises(Corrupt) as refused:
            engine.state()
    assert "treering index rebuild" in refused.value.hint
    engine.drop()
    engine.close()


def test_unreachable_server_is_reported_without_its_password():
    engine = engine_at("mongodb://me:hunter2@127.0.0.1:1/tests?serverSelectionTimeoutMS=50")
    with pytest.raises(Unavailable, match="Cannot reach") as refused:
        engine.state()
    assert "hunter2" not in f"{refused.value}{refused.value.hint}"
    engine.close()


def test_an_address_and_a_client_that_are_none_are_refused():
    with pytest.raises(InvalidInput, match="not a MongoDB address"):
        engine_at("mongodb://localhost:70000/tests")
    with pytest.raises(InvalidInput, match="not a thread-safe MongoDB client"):
        engine_over_mongodb(object(), None)
