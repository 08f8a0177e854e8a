"""However much one read asks for, the ledger on Postgres needs few statements: each is a round trip to a server."""

from contextlib import closing, contextmanager

import psycopg
import pytest
from postgres_spaces import new_space, open_target
from postgres_trips import trips

from treering.core.patch import AddLink, Link
from treering.edges.stores.postgres.index import PostgresIndex
from treering.edges.stores.postgres.ledger import PostgresLedger
from treering.ports.ledger import ObjectRequest, Selection
from treering.ports.reach import Reach
from treering.ports.text import TextRequest
from treering.testing.builders import Builder
from treering.testing.clocks import SteppingClock
from treering.testing.index_contract import EMBEDDER

_MANY = 40


@pytest.fixture
def filled(server):
    """A ledger with many sources and facts, and their ids."""
    clock = SteppingClock()
    make = Builder(clock)
    with closing(open_target(server, new_space())) as space:
        ledger = PostgresLedger(space, clock=clock, server_time=False)
        sources = [make.source(f"Text {number}.", origin=f"{number}.md") for number in range(_MANY)]
        facts = [make.fact(f"thing {one.id}", "number", 1, make.evidence(one)) for one in sources]
        links = [
            AddLink(link=Link(type="about", source=fact.id, target=source.id))
            for fact, source in zip(facts, sources, strict=True)
        ]
        ledger.commit(make.patch(*sources, *facts, *links))
        yield ledger, sources, facts, make


@contextmanager
def counted(monkeypatch):
    """Count the statements that are sent."""
    sent, execute = [], psycopg.Connection.execute

    def counting(self, query, *arguments, **options):
        sent.append(query)
        return execute(self, query, *arguments, **options)

    with monkeypatch.context() as patched:
        patched.setattr(psycopg.Connection, "execute", counting)
        yield sent


def test_a_read_of_many_objects_segments_dependents_and_links_is_a_few_statements(filled, monkeypatch):
    ledger, sources, facts, _ = filled
    ids = tuple(one.id for one in sources)
    places = tuple((one.id, one.segments[0].segment_id) for one in sources)
    wanted = ObjectRequest(
        heads=ids, objects=ids, segments=places, dependents=ids, referrers=ids, links=tuple(one.id for one in facts)
    )
    with counted(monkeypatch) as sent:
        found, again = ledger.read([wanted, wanted])
    assert found == again
    assert found.objects.keys() >= {*ids, *(fact.id for fact in facts)}
    assert len(found.segments) == len(found.links) == _MANY
    assert len(sent) <= 16


def test_selecting_and_following_many_objects_is_a_few_statements(filled, monkeypatch):
    ledger, _, _, _ = filled
    with counted(monkeypatch) as sent:
        assert len(list(ledger.select(Selection()))) == 2 * _MANY
    assert len(sent) <= 6
    with counted(monkeypatch) as sent:
        assert len(ledger.changes(0, 1_000)) == 2 * _MANY
    assert len(sent) <= 6


def test_a_patch_of_many_objects_is_kept_in_as_many_statements_as_there_are_tables(filled, monkeypatch):
    ledger, _, _, make = filled
    many = [
        make.source(*(f"More {number} {part}." for part in range(5)), origin=f"more {number}") for number in range(20)
    ]
    with counted(monkeypatch) as sent:
        ledger.commit(make.patch(*many))
    assert sum(query.startswith("INSERT") for query in sent) <= 7


@pytest.fixture
def searched(server):
    """A ledger with an index of a few sources, and a builder."""
    clock = SteppingClock()
    with closing(open_target(server, new_space())) as space:
        index = PostgresIndex(space, model_id=EMBEDDER.model_id, dimension=EMBEDDER.dimension)
        ledger = PostgresLedger(space, clock=clock, server_time=False, followers=[index])
        make = Builder(clock)
        ledger.commit(make.patch(*(make.source(f"Bees hum in hive_{n}.", origin=f"{n}.md") for n in range(_MANY))))
        yield ledger, index, make


def test_the_index_of_a_patch_of_many_objects_is_a_few_statements_for_each_table(searched, monkeypatch):
    ledger, _, make = searched
    sent = {}
    for count in (1, 20):
        items = [make.source(f"Ants dig {count} {n}.", origin=f"{count} {n}.md") for n in range(count)]
        with counted(monkeypatch) as sent[count]:
            ledger.commit(make.patch(*items))
    # The ledger plans object by object, the index asks and writes for all together.
    assert count_of(sent[20], "passage") == count_of(sent[1], "passage") <= 20


def test_searches_by_text_are_a_few_statements_however_many_are_asked_together(searched, monkeypatch):
    _, index, _ = searched
    requests = [
        TextRequest(Reach("/"), 5, words=("bee", "hum", f"word{n}"), place=f"{n}.md", counted=("hive",))
        for n in range(3)
    ]
    index.text.search(requests)
    with counted(monkeypatch) as one:
        index.text.search(requests[:1])
    with counted(monkeypatch) as all_of_them:
        index.text.search(requests)
    assert len(one) <= 7
    assert len(all_of_them) <= len(one) + 2 * 2


def count_of(sent, name):
    return sum(name in query for query in sent)


def test_names_are_found_through_an_index(filled):
    ledger, sources, _, _ = filled
    space = ledger._space
    ways = {
        "origin": "SELECT id FROM objects WHERE space = %(space)s AND left(scope, 256) = '/' "
        "AND left(origin, 300) = %(name)s",
        "title": "SELECT id FROM objects WHERE space = %(space)s AND left(scope, 256) = '/' AND type = 'source' "
        "AND status = 'active' AND left(title, 200) = %(name)s",
    }
    for field, sql in ways.items():
        with space.read() as transaction:
            transaction.rows("SELECT set_config('enable_seqscan', 'off', true)")
            plan = "\n".join(transaction.column(f"EXPLAIN {sql}", name=getattr(sources[0], field)))
        assert "Index" in plan
        assert "left(" in plan.split("Index Cond")[1].splitlines()[0] or '"left"(' in plan


def test_a_commit_holds_the_lock_of_its_space_for_three_round_trips(filled, monkeypatch):
    ledger, sources, _, make = filled
    many = [make.source(f"New {number}.", origin=f"new {number}") for number in range(10)]
    facts = [make.fact(f"new {one.id}", "number", 1, make.evidence(one)) for one in sources[:5]]
    for patch in (make.patch(make.node("New")), make.patch(*many), make.patch(*facts)):
        with trips(monkeypatch) as made:
            ledger.commit(patch, idempotency_key=patch.id)
        assert len(made) == 3, made
    assert ledger.verify().seq == ledger.sequence()


def test_what_was_asked_ahead_is_asked_again_once_something_was_written(filled):
    ledger, sources, _, _ = filled
    with ledger._space.write() as transaction:
        count = "SELECT count(*) FROM objects WHERE space = %(space)s"
        with transaction.asking_ahead():
            assert transaction.first(count) is None
        before = transaction.first(count)
        transaction.later("DELETE FROM objects WHERE space = %(space)s AND id = %(id)s", id=sources[0].id)
        assert transaction.first(count) == before - 1
        transaction.later("ROLLBACK")
        transaction.flush()
