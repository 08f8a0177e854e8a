import numpy as np
import pytest
from index_stage import EMBEDDER, open_space, seen

from treering.ports.search import Lag
from treering.testing.index_contract.stage import cosines, near


@pytest.fixture
def space():
    opened = open_space()
    yield opened
    opened.ledger.close()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "space.db")


def test_a_vector_outlives_one_of_two_passages_and_goes_with_the_last(space):
    one, two = space.make.source("Bees hum.", origin="1"), space.make.source("Bees hum.", origin="2")
    space.commit(one, two)
    space.embed()
    space.erase(one)
    assert space.near("bees hum") == [two.id]
    space.move(two, "archived")
    assert space.near("bees hum") == []
    space.erase(two)
    assert space.database.row("SELECT count(*) FROM passage_vectors") == (0,)
    assert space.database.row("SELECT count(*) FROM passage_texts") == (0,)


def test_a_vector_that_comes_after_its_text_was_erased_is_not_kept(space):
    source = space.make.source("Bees hum.")
    space.commit(source)
    [waiting] = space.index.vectors.pending(1)
    space.erase(source)
    space.index.vectors.add({waiting.text_hash: EMBEDDER.embed_query(waiting.text)})
    assert space.database.row("SELECT count(*) FROM passage_vectors") == (0,)


def test_vectors_of_different_models_never_mix(path):
    small = open_space(path)
    source = small.make.source("Bees hum.")
    small.commit(source)
    small.embed()
    large = open_space(path, dimension=128)
    assert large.index.vectors.lag() == Lag(1, 1)
    even = np.ones(128, np.float32) / np.float32(128**0.5)
    assert near(large.index, even, reach=seen(), limit=5) == {}
    assert cosines(large.index, even, [1]) == {}
    assert [item.text for item in large.index.vectors.pending(9)] == ["Bees hum."]
    small.commit(small.make.source("Ants dig.", origin="2"))
    assert large.index.vectors.lag() == Lag(2, 2)
    assert small.near("bees hum") == [source.id]
    for each in (small, large):
        each.ledger.close()


def test_a_reader_that_fell_far_behind_catches_up(path, monkeypatch):
    monkeypatch.setattr("treering.stores.sqlite.index.vector_queue.MAX_LOG_ENTRIES", 2)
    here, there = open_space(path), open_space(path)
    first = here.make.source("Bees hum.")
    here.commit(first)
    here.embed()
    assert there.near("bees hum") == [first.id]
    others = [here.make.source(f"Bees hum {n}.", origin=str(n)) for n in range(6)]
    for other in others:
        here.commit(other)
        here.embed()
    here.move(first, "archived")
    assert sorted(there.near("bees hum")) == sorted(other.id for other in others)
    for each in (here, there):
        each.ledger.close()


def test_a_rebuild_by_another_process_does_not_confuse_the_table_in_memory(path):
    here, there = open_space(path), open_space(path)
    gone, stays = here.make.source("Bees hum."), here.make.source("Ants dig.", origin="2")
    here.commit(gone, stays)
    here.embed()
    assert there.near("ants dig", limit=1) == [stays.id]
    here.erase(gone)
    here.index.upkeep.rebuild()
    assert there.near("ants dig") == [stays.id]
    for each in (here, there):
        each.ledger.close()


def test_an_empty_space_answers_with_nothing(path):
    space = open_space(path)
    assert space.near("bees") == space.find("bees") == []
    assert space.index.vectors.lag() == Lag(0, 0)
    space.ledger.close()
