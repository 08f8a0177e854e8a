"""Engines beside a space on Postgres: whatever becomes of them, its answers stay the same."""

import pytest
from postgres_spaces import new_space, open_target, sent_by

import space_parts
from treering.extensions.engines.faiss_engine import FaissEngine, VectorFile
from treering.extensions.postgres.index import index_state
from treering.extensions.postgres.index import vectors as vector_feed
from treering.extensions.postgres.index.index import PostgresIndex
from treering.extensions.postgres.index.vectors import PostgresVectorFeed
from treering.extensions.postgres.ledger.ledger import PostgresLedger
from treering.ports.passages import Reach
from treering.ports.search import NearRequest
from treering.ports.vector_engine import ChosenEngine, VectorChanges
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock
from treering.testing.index_contract import EMBEDDER
from treering.testing.vector_engine_contract import FedSpace, VectorEngineContract

TEXTS = ("Bees hum in summer.", "Ants dig in sand.", "Moths fly at night.", "Wasps sting in autumn.")


@pytest.fixture
def clock():
    return SteppingClock()


@pytest.fixture
def open_fed(server, clock):
    """Open new spaces with their feeds; close them after the test."""
    opened = []

    def open_fed():
        space = open_target(server, new_space())
        opened.append(space)
        index = PostgresIndex(space, model_id=EMBEDDER.model_id, dimension=EMBEDDER.dimension)
        ledger = PostgresLedger(space, clock=clock, server_time=False, followers=[index])
        return FedSpace(ledger, index, PostgresVectorFeed(space, EMBEDDER.model_id, EMBEDDER.dimension))

    yield open_fed
    for space in opened:
        space.close()


class TestEngineOnPostgres(VectorEngineContract):
    @pytest.fixture
    def open_engine(self, tmp_path):
        return lambda: FaissEngine(VectorFile(tmp_path / "vectors"), EMBEDDER.dimension, "flat")


@pytest.fixture
def url(server):
    return server.url(space=new_space())


@pytest.fixture
def told(open_space, url):
    """A space with a few texts and their vectors."""
    space = open_space(url, channel="user")
    for text in TEXTS:
        tell(space, text)
    space.perform("vectors")
    return space


@pytest.fixture
def faiss(tmp_path):
    return f"faiss:{tmp_path / 'vectors'}"


def tell(space, text):
    return space_parts.note(space, text, origin=text, title=text)["source_id"]


def nearest(space, question="what hums in summer"):
    report = space.query("search", input={"query": question})
    return [(hit.title, round(hit.score, 6)) for hit in report.hits]


def status(space):
    return space.perform("index status")


def test_an_engine_takes_over_follows_is_rebuilt_and_dropped(told, faiss, tmp_path, open_space, url):
    before = nearest(told)
    assert status(told).state == "none"
    used = told.perform("index use", input={"address": faiss})
    assert (used.state, used.vectors, used.total, used.kind) == ("ready", 4, 4, "FAISS flat")
    assert nearest(told) == before
    tell(told, "Crickets hum in summer evenings.")
    told.perform("vectors")
    late = status(told)
    assert (late.state, late.vectors, late.total) == ("following", 4, 5)
    assert nearest(told, "crickets")[0][0] == "Crickets hum in summer evenings."
    other = open_space(url)
    assert (status(other).state, status(other).address) == ("following", faiss)
    assert (other.perform("index rebuild").state, status(told).vectors) == ("ready", 5)
    other.perform("index drop")
    assert status(told).state == "none"
    assert not (tmp_path / "vectors").exists()
    assert nearest(told, "crickets")[0][0] == "Crickets hum in summer evenings."


def test_a_search_goes_to_the_engine_that_another_process_chose(told, faiss, open_space, url):
    before = nearest(told)
    assert told.engine.selection.in_use() is None
    open_space(url).perform("index use", input={"address": faiss})
    assert nearest(told) == before
    assert told.engine.selection.in_use() is not None


def test_erasure_reaches_the_engine(told, faiss):
    secret = tell(told, "The password of the hive is honey.")
    told.perform("vectors")
    told.perform("index use", input={"address": faiss})
    assert status(told).vectors == 5
    report = told.perform("erase", input={"ids": [secret]})
    assert [probe.found for probe in report.probes if probe.name == "index rows"] == [0]
    assert (status(told).state, status(told).vectors) == ("ready", 4)


def test_rebuilt_passages_refill_the_engine(told, faiss):
    told.perform("index use", input={"address": faiss})
    before = nearest(told)
    told.lint("reindex", options={"apply": True, "wait": True})
    assert (nearest(told), status(told).vectors) == (before, 4)
    assert list(told.lint("reindex").differences) == []


def test_the_vectors_of_one_space_of_a_database_are_left_alone_by_another(told, faiss, server, open_space):
    told.perform("index use", input={"address": faiss})
    other = open_space(server.url(space=new_space()))
    assert status(other).state == "none"
    tell(other, "Something else.")
    assert status(told).vectors == 4


def test_which_engine_is_used_is_read_without_asking_the_server_again(told, faiss, monkeypatch):
    feed = told.engine.selection.feed
    with sent_by(monkeypatch) as sent:
        assert feed.chosen(fresh=False) is None
    assert sent.trips == []
    told.perform("index use", input={"address": faiss})
    assert feed.chosen(fresh=False) == feed.chosen()
    feed.choose(ChosenEngine("redis://:pa ss@h/0", "a-mark"))
    assert feed.chosen() == ChosenEngine("redis://:pa ss@h/0", "a-mark")
    feed.choose(None)
    assert feed.chosen() is None


def test_a_search_with_an_engine_is_few_round_trips(told, faiss, monkeypatch):
    told.perform("index use", input={"address": faiss})
    vectors = told.engine.index.vectors
    bees, ants = (EMBEDDER.embed_query(text) for text in ("bees hum", "ants dig"))
    requests = [NearRequest(Reach("/", descend=True), (bees, ants), (2, 2)), NearRequest(Reach("/"), (bees,), (3,))]
    vectors.search(requests)
    with sent_by(monkeypatch) as sent:
        vectors.search(requests)
    assert len(sent.trips) <= 12, sent.trips


def test_a_moment_leads_on_in_its_own_space_only(open_fed, clock):
    one, other = open_fed(), open_fed()
    for fed in (one, other):
        make = Builder(clock)
        fed.ledger.commit(make.patch(make.source("Bees hum.")))
    moment = one.feed.moment()
    assert one.feed.since(moment, 5) == VectorChanges(moment)
    assert other.feed.since(moment, 5) is None
    assert one.feed.since("no moment", 5) is None
    one.index.upkeep.rebuild()
    assert one.feed.since(moment, 5) is None


def test_a_moment_that_the_log_no_longer_reaches_is_unknown(open_fed, clock, monkeypatch):
    fed = open_fed()
    make = Builder(clock)
    begin = fed.feed.moment()
    for module in (index_state, vector_feed):
        monkeypatch.setattr(module, "MAX_LOG_ENTRIES", 3)
    for number in range(4):
        assert fed.feed.since(begin, 5).left == 0
        fed.ledger.commit(make.patch(make.source(f"Bees hum {number}.", origin=str(number))))
    assert fed.feed.since(begin, 5) is None
    assert fed.feed.forgotten_since(begin) is None
