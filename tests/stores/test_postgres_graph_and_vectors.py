"""Graph, vectors and names of code of a space on a real server, used from several processes' places at once."""

from contextlib import ExitStack
from threading import Barrier, Thread

import numpy as np
import pytest
from postgres_spaces import new_space, open_target, sent_by

from postgres_server import needs_own_server
from treering.core.errors import Corrupt
from treering.extensions.postgres.index.graph_rows import graph_contents, graph_damage, settle_ties, ties_contents
from treering.extensions.postgres.index.index import PostgresIndex
from treering.extensions.postgres.index.vector_queue import queue_differences, settle_texts
from treering.extensions.postgres.index.vectors import count_damaged, drop_damaged
from treering.extensions.postgres.ledger.ledger import PostgresLedger
from treering.ports.ledger import Selection
from treering.ports.search import EdgeType, Lag
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.retrieval.extraction.names import entity_key
from treering.retrieval.index.projection import entries_of, ties_in
from treering.retrieval.index.ties import Ties
from treering.testing.fakes import HashingEmbedder, SteppingClock
from treering.testing.index_contract.graph import require_the_graph_of_the_ledger, with_triples
from treering.testing.index_contract.stage import EMBEDDER, IndexedSpace, LedgerWithIndex, cosines, near, seen

ADA, BABBAGE, HOPPER = "ada lovelace", "charles babbage", "grace hopper"
_MET = "Ada Lovelace met Charles Babbage."


class Opened(IndexedSpace):
    """A space as one process has it open: what it keeps in memory is its own."""

    def __init__(self, database, clock, embedder):
        self.database = database
        index = PostgresIndex(database, model_id=embedder.model_id, dimension=embedder.dimension)
        ledger = PostgresLedger(database, clock=clock, server_time=False, followers=[index])
        super().__init__(LedgerWithIndex(ledger, index), clock)

    def known(self, *names):
        return set(self.index.graph.view(seen()).named(names))

    def write(self, sql):
        with self.database.write() as transaction:
            transaction.later(sql)

    def row(self, sql):
        with self.database.read() as transaction:
            return transaction.rows(sql)[0]


@pytest.fixture
def opening(server):
    """Open spaces by name, each as often as wanted."""
    clock = SteppingClock()
    with ExitStack() as closing:

        def opening(name, embedder=EMBEDDER):
            database = open_target(server, name)
            closing.callback(database.close)
            return Opened(database, clock, embedder)

        yield opening


@pytest.fixture
def sent(monkeypatch):
    """What is sent to the server."""
    with sent_by(monkeypatch) as noted:
        yield noted


@pytest.fixture
def name():
    return new_space()


@pytest.fixture
def space(opening, name):
    return opening(name)


def test_other_process_sees_graph_and_vectors(opening, name):
    here, there = opening(name), opening(name)
    source = here.make.source(_MET)
    here.commit(source)
    here.embed()
    assert there.known(ADA, BABBAGE, HOPPER) == {ADA, BABBAGE}
    assert there.near("ada lovelace met charles babbage") == [source.id]
    here.reread(source, "Grace Hopper met Ada Lovelace.")
    here.embed()
    assert there.known(ADA, BABBAGE, HOPPER) == {ADA, HOPPER}
    assert there.near("grace hopper met ada lovelace", limit=1) == [source.id]
    require_the_graph_of_the_ledger(there)
    here.erase(source)
    assert there.known(ADA, BABBAGE, HOPPER) == set()
    assert there.near("grace hopper") == []


def test_a_process_that_fell_far_behind_catches_up(opening, name, monkeypatch):
    monkeypatch.setattr("treering.extensions.postgres.index.index_state.MAX_LOG_ENTRIES", 2)
    here, there = opening(name), opening(name)
    first = here.make.source(_MET)
    here.commit(first)
    here.embed()
    assert (there.known(ADA), there.near("ada lovelace")) == ({ADA}, [first.id])
    others = [here.make.source(f"Grace Hopper counted {n} bees.", origin=str(n)) for n in range(6)]
    here.move(first, "archived")
    for other in others:
        here.commit(other)
        here.embed()
    assert there.known(ADA, HOPPER) == {HOPPER}
    assert sorted(there.near("grace hopper counted bees")) == sorted(other.id for other in others)
    require_the_graph_of_the_ledger(there)


def test_rebuild_by_another_process_reloads_tables_in_memory(opening, name):
    here, there = opening(name), opening(name)
    gone, stays = here.make.source(_MET), here.make.source("Grace Hopper met Howard Aiken.", origin="2")
    here.commit(gone, stays)
    here.embed()
    assert there.known(ADA, HOPPER) == {ADA, HOPPER}
    assert there.near("grace hopper", limit=1) == [stays.id]
    here.erase(gone)
    assert here.index.upkeep.rebuild() == 1
    assert there.known(ADA, HOPPER) == {HOPPER}
    assert there.near("grace hopper") == [stays.id]
    assert there.index.vectors.lag() == Lag(0, 1)
    require_the_graph_of_the_ledger(there)


def test_a_walk_asks_the_server_nothing_and_names_are_one_question(space, sent):
    source = space.make.source(_MET, title="Engines")
    space.commit(source)
    key = space.key(source)
    view = space.index.graph.view(seen())
    sent.clear()
    ada = view.named([ADA, "nobody", "no one"])[ADA]
    assert view.names([ada, 2 * key]) == {ada: ADA}
    assert len(sent.trips) == 4
    assert len(view.statements([key]).subject) > 0
    space.database.close()
    assert view.degrees(np.array([ada], np.int64)).tolist() == [len(view.edges(np.array([ada], np.int64)).source)]


def test_view_and_search_take_few_statements(opening, name, sent):
    here, there = opening(name), opening(name)
    for n in range(3):
        here.commit(*(here.make.source(_MET, origin=f"{n}/{m}", scope=f"/{m}") for m in range(20)))
        here.embed()
        sent.clear()
        there.index.graph.view(seen("/3"))
        near(there.index, EMBEDDER.embed_query("ada"), reach=seen("/3"), limit=5)
        # Of each: the beginning with states and scopes in one round trip, what has changed, the end.
        assert len(sent.statements) <= 20
        assert len(sent.trips) <= 9
        sent.clear()
        there.index.graph.view(seen("/3"))
        assert len(sent.trips) == 2


@needs_own_server
def test_passage_changes_use_indexes_in_a_large_space(space):
    """A planner that has no statistics yet of tables that grow must not read all of a space for a few rows."""
    texts = [f"Ada{n} Lovelace{n} met Charles{n} Babbage{n}." for n in range(600)]
    space.commit(*(space.make.source(*texts[at : at + 100], origin=str(at)) for at in range(0, 600, 100)))
    space.embed(600)
    ties = {601: Ties((("ada1 lovelace1", EdgeType.MENTION), ("source:x", EdgeType.PART)), ())}
    sql = (
        "SELECT coalesce(sum(coalesce(idx_tup_fetch, 0) + seq_tup_read), 0)::bigint FROM pg_stat_xact_user_tables "
        "WHERE relname ~ '^(graph_|passage_texts|passage_vectors|passages_|vector_queue)'"
    )
    with space.database.write() as transaction:
        before = transaction.first(sql)
        settle_ties(transaction, ties)
        settle_texts(transaction, [7], lost=[7])
        transaction.flush()
        assert transaction.first(sql) - before < 50


def test_names_are_counted_as_they_are_held_through_a_history(space):
    sources = [space.make.source(_MET, "Grace Hopper met Ada Lovelace.", origin=str(n)) for n in range(3)]
    space.commit(*sources)
    work = space.make.work("Ask Ada Lovelace", source_refs=[sources[0].id])
    space.commit(work)
    require_what_a_rebuild_would_make(space)
    with_triples(space, sources[0], ("Grace Hopper", "wrote", "COBOL"))
    space.reread(sources[1], "Howard Aiken built the Mark I.")
    space.update(work, source_refs=[sources[2].id])
    require_what_a_rebuild_would_make(space)
    space.move(sources[2], "archived")
    space.erase(sources[0])
    require_what_a_rebuild_would_make(space)
    for item in (sources[1], sources[2], work):
        space.erase(item)
    require_what_a_rebuild_would_make(space)
    for table in ("graph_nodes", "graph_passages", "passage_texts", "vector_queue", "code_names"):
        assert space.row(f"SELECT count(*) FROM {table}") == (0,), table


def test_the_number_of_a_name_that_is_gone_is_given_to_no_other(space):
    source = space.make.source(_MET, title="")
    space.commit(source)
    view = space.index.graph.view(seen())
    before = set(view.named([ADA, BABBAGE]).values())
    space.reread(source, "Grace Hopper met Howard Aiken.")
    assert before.isdisjoint(space.index.graph.view(seen()).named([HOPPER, "howard aiken"]).values())


@pytest.mark.parametrize("odd", ["東京タワー" * 300, "x" * 4_000, "a\0b"])
def test_a_name_may_be_long_or_odd(space, odd):
    source = space.make.source("Bees hum.", title="")
    space.commit(source)
    with_triples(space, source, (odd, "is", "a name"))
    assert space.known(entity_key(odd)) == {entity_key(odd)}
    require_what_a_rebuild_would_make(space)


def test_concurrent_workers_store_each_vector_once(opening, name):
    workers = [opening(name) for _ in range(3)]
    first = workers[0]
    first.commit(*(first.make.source(f"Bees hum {n} songs.", origin=str(n)) for n in range(12)))
    together, errors = Barrier(len(workers)), []

    def embed(worker):
        try:
            waiting = worker.index.vectors.pending(100)
            together.wait(10)
            vectors = EMBEDDER.embed_documents([item.text for item in waiting])
            worker.index.vectors.add({item.text_hash: made for item, made in zip(waiting, vectors, strict=True)})
        except Exception as error:  # noqa: BLE001 - told to the test
            errors.append(error)

    threads = [Thread(target=embed, args=(worker,)) for worker in workers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert first.row("SELECT count(*) FROM passage_vectors") == (12,)
    for worker in workers:
        assert worker.index.vectors.lag() == Lag(0, 12)
        assert len(worker.near("bees hum songs", limit=50)) == 12


def test_vectors_of_different_models_never_mix(opening, name):
    small, large = opening(name), opening(name, HashingEmbedder(dimension=128))
    source = small.make.source("Bees hum.")
    small.commit(source)
    small.embed()
    assert large.index.vectors.lag() == Lag(1, 1)
    even = np.ones(128, np.float32) / np.float32(128**0.5)
    assert near(large.index, even, reach=seen(), limit=5) == {}
    assert cosines(large.index, even, [1]) == {}
    assert [item.text for item in large.index.vectors.pending(9)] == ["Bees hum."]
    later = opening(name, HashingEmbedder(dimension=32))
    assert later.index.vectors.lag() == Lag(1, 1)
    assert small.near("bees hum") == [source.id]
    require_what_a_rebuild_would_make(small)


def test_spaces_of_one_database_share_neither_names_nor_vectors(opening):
    one, other = opening(new_space()), opening(new_space())
    one.commit(one.make.source(_MET))
    one.embed()
    other.commit(other.make.source(_MET))
    assert other.index.vectors.lag() == Lag(1, 1)
    assert other.near("ada") == []
    other.embed()
    [mine] = one.near("ada lovelace met charles babbage")
    [theirs] = other.near("ada lovelace met charles babbage")
    assert mine != theirs
    other.erase(other.ledger.get(theirs))
    assert (one.known(ADA), other.known(ADA)) == ({ADA}, set())


@pytest.mark.parametrize(
    "damage",
    [
        "UPDATE graph_passages SET body = substring(body FOR length(body) - 4) WHERE key = 1",
        r"UPDATE graph_passages SET body = '\x00' WHERE key = 1",
        "DELETE FROM graph_passages WHERE key = 1",
        "UPDATE graph_nodes SET passages = passages + 1 WHERE id = 2",
        "DELETE FROM graph_nodes WHERE id = 3",
    ],
)
def test_damage_of_the_graph_is_found_and_repaired_by_a_rebuild(space, damage):
    space.commit(space.make.source(_MET, "Grace Hopper met Ada Lovelace."))
    require_what_a_rebuild_would_make(space)
    space.write(damage)
    with space.database.read() as transaction:
        assert list(graph_damage(transaction))
    space.index.upkeep.rebuild()
    require_what_a_rebuild_would_make(space)


def test_damaged_record_is_corrupt_when_read(space):
    space.commit(space.make.source(_MET))
    space.write(r"UPDATE graph_passages SET body = '\x000102'")
    with pytest.raises(Corrupt) as error:
        space.index.graph.view(seen())
    assert "reindex" in error.value.hint


def test_a_damaged_vector_is_found_by_its_digest_and_can_be_forgotten(space):
    space.commit(space.make.source("Bees hum.", "Ants dig."))
    space.embed()
    with space.database.read() as transaction:
        assert count_damaged(transaction) == 0
    space.write("UPDATE passage_vectors SET vector = set_byte(vector, 3, 255 - get_byte(vector, 3)) WHERE text_id = 1")
    with space.database.write() as transaction:
        assert count_damaged(transaction) == 1
        drop_damaged(transaction)
        assert count_damaged(transaction) == 0
    assert space.row("SELECT array_agg(text_id) FROM passage_vectors") == ([2],)


def test_wrong_queue_entries_are_counted(space):
    space.commit(space.make.source("Bees hum.", "Ants dig."))
    space.write("DELETE FROM vector_queue WHERE text_id = 1")
    with space.database.read() as transaction:
        assert queue_differences(transaction) == {EMBEDDER.model_id: 1}


def require_what_a_rebuild_would_make(space):
    """Hold graph and queue against what the ledger's current passages say."""
    extractor, wanted = BuiltInExtractor(), {}
    for item in space.ledger.select(Selection(descend=True)):
        entries = [entry for entry in entries_of(item) if entry.passage.live]
        keys = space.keys(item) if entries else {}
        ties = ties_in(entries, extractor)
        wanted |= {keys[entry.passage.part]: each for entry, each in zip(entries, ties, strict=True)}
    with space.database.read() as transaction:
        assert graph_contents(transaction) == ties_contents(wanted)
        assert list(graph_damage(transaction)) == []
        assert queue_differences(transaction) == {}
