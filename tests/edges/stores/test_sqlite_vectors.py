import numpy as np
import pytest
from index_stage import EMBEDDER, open_space, seen

from treering.core.errors import InvalidInput
from treering.edges.stores.sqlite.leases import SqliteLeases
from treering.ports.lease import VECTORS
from treering.ports.vectors import Lag
from treering.testing.clocks import SteppingClock
from treering.testing.index_questions import cosines, near


@pytest.fixture
def space():
    opened = open_space()
    yield opened
    opened.ledger.close()


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "space.db")


def test_vectors_lag_behind_the_text_and_the_lag_is_told(space):
    space.commit(space.make.source("Bees hum.", "Ants dig.", "Bees hum.\n"))
    assert space.index.vectors.lag() == Lag(3, 3)
    assert space.near("bees") == []
    space.embed()
    assert space.index.vectors.lag() == Lag(0, 3)


def test_prose_and_symbols_wait_in_front_of_code_and_code_in_front_of_data(space):
    source = space.make.source("{}", "def f(): ...", "f gives nothing", "Words.")
    roles = ("data", "code", "symbol", "prose")
    parts = [part.model_copy(update={"role": role}) for part, role in zip(source.segments, roles, strict=True)]
    space.commit(source.model_copy(update={"segments": tuple(parts)}))
    assert [item.text for item in space.index.vectors.pending(9)] == ["f gives nothing", "Words.", "def f(): ...", "{}"]
    assert len(space.index.vectors.pending(2)) == 2


def test_a_text_is_embedded_once_however_many_passages_have_it(space):
    one, two = space.make.source("Bees hum.", origin="1"), space.make.source("Bees hum.", "Ants dig.", origin="2")
    space.commit(one)
    space.embed()
    space.commit(two)
    assert [item.text for item in space.index.vectors.pending(9)] == ["Ants dig."]
    assert sorted(space.near("bees hum")) == sorted([one.id, two.id])
    space.embed()
    space.reread(two, "Ants dig.", "Moths fly.", "Bees hum.")
    assert [item.text for item in space.index.vectors.pending(9)] == ["Moths fly."]


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


def test_what_is_withdrawn_before_it_was_embedded_waits_no_more(space):
    source = space.make.source("Bees hum.")
    space.commit(source)
    space.move(source, "archived")
    assert space.index.vectors.pending(9) == []
    assert space.index.vectors.lag() == Lag(0, 0)


def test_a_vector_that_comes_after_its_text_was_erased_is_not_kept(space):
    source = space.make.source("Bees hum.")
    space.commit(source)
    [waiting] = space.index.vectors.pending(1)
    space.erase(source)
    space.index.vectors.add({waiting.text_hash: EMBEDDER.embed_query(waiting.text)})
    assert space.database.row("SELECT count(*) FROM passage_vectors") == (0,)


def test_cosines_are_given_for_what_has_a_vector_current_or_not(space):
    source = space.make.source("Bees hum.", "Ants dig.")
    space.commit(source)
    space.embed()
    space.reread(source, "Ants dig.", "Moths fly.")
    query = EMBEDDER.embed_query("bees hum")
    found = cosines(space.index, query, [1, 2, 3, 9])
    hums, digs = EMBEDDER.embed_documents(["Bees hum.", "Ants dig."])
    assert found == {
        1: pytest.approx(float(hums @ query), abs=1e-3),
        2: pytest.approx(float(digs @ query), abs=1e-3),
    }


def test_the_nearest_come_first_and_no_more_than_were_asked_for(space):
    texts = ("Bees hum loudly in summer.", "Bees hum.", "Ants dig.")
    space.commit(*(space.make.source(text, origin=text) for text in texts))
    space.embed()
    first, second = near(space.index, EMBEDDER.embed_query("bees hum"), reach=seen(), limit=2).values()
    assert first > second
    assert np.isclose(first, 1, atol=1e-3)


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


def test_a_vector_of_another_dimension_is_refused(space):
    space.commit(space.make.source("Bees hum."))
    [waiting] = space.index.vectors.pending(1)
    with pytest.raises(InvalidInput, match="shape"):
        space.index.vectors.add({waiting.text_hash: np.ones(8, np.float32)})
    assert space.index.vectors.lag() == Lag(1, 1)


def test_a_reader_that_fell_far_behind_catches_up(path, monkeypatch):
    monkeypatch.setattr("treering.edges.stores.sqlite.vector_queue._LOG_KEPT", 2)
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


def test_one_owner_holds_the_lease_until_it_ends_or_is_given_back(path):
    clock = SteppingClock()
    space = open_space(path, clock=clock)
    leases = SqliteLeases(space.database, clock)
    assert leases.take(VECTORS, "one", seconds=60)
    assert not leases.take(VECTORS, "two", seconds=60)
    assert leases.take(VECTORS, "one", seconds=60)
    assert leases.take(VECTORS, "one", seconds=0)
    assert leases.take(VECTORS, "two", seconds=60)
    clock.set(clock.now().replace(year=2027))
    assert leases.take(VECTORS, "one", seconds=60)
    space.ledger.close()


def test_an_empty_space_answers_with_nothing(path):
    space = open_space(path)
    assert space.near("bees") == space.find("bees") == []
    assert space.index.vectors.lag() == Lag(0, 0)
    space.ledger.close()
