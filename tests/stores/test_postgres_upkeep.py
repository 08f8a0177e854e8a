"""Making the index on Postgres anew: at once, beside reads, and where something damaged it."""

from contextlib import closing, contextmanager

import psycopg
import pytest
from postgres_spaces import new_space, open_target

from treering.core.errors import Corrupt
from treering.core.patch import Erase
from treering.extensions.postgres.connection.primary import number_of, see_name, see_number
from treering.extensions.postgres.index.index import PostgresIndex
from treering.extensions.postgres.index.words import _WAITING
from treering.extensions.postgres.ledger.ledger import PostgresLedger
from treering.retrieval.text.analysis import query_terms
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock
from treering.testing.index_contract import EMBEDDER
from treering.testing.index_contract.stage import by_words, heads, seen

TEXTS = ("Bees live in a hive_box.", "Ants dig hills.", "Moths fly at night.")


def word(number):
    """Return a word of letters alone: one with digits is several."""
    return "q" + "".join("abcdefghij"[int(digit)] for digit in f"{number:04}")


class Indexed:
    """A space of ledger and index on the tests' server."""

    def __init__(self, space, clock, **options):
        self.index = PostgresIndex(space, model_id=EMBEDDER.model_id, dimension=EMBEDDER.dimension, **options)
        self.ledger = PostgresLedger(space, clock=clock, server_time=False, followers=[self.index])
        self.make = Builder(clock)

    def commit(self, *parts):
        return self.ledger.commit(self.make.patch(*parts))

    def find(self, text):
        keys = [hit.key for hit in by_words(self.index, query_terms(text), reach=seen(), limit=50)]
        found = heads(self.index, keys)
        return [found[key].object_id for key in keys]


@contextmanager
def indexed(server, space, clock, **options):
    with closing(open_target(server, space)) as opened:
        yield Indexed(opened, clock, **options)


@contextmanager
def ledger_only(server, space, clock):
    """Open the ledger as a version did that knew no index."""
    with closing(open_target(server, space)) as opened:
        yield PostgresLedger(opened, clock=clock, server_time=False)


@pytest.fixture
def clock():
    return SteppingClock()


def test_a_ledger_that_had_no_index_is_found_once_it_is_opened_with_one(server, clock):
    space, make = new_space(), Builder(clock)
    source = make.source(*TEXTS)
    with ledger_only(server, space, clock) as ledger:
        ledger.commit(make.patch(source))
    with indexed(server, space, clock) as opened:
        assert opened.find("bees") == [source.id]
        assert list(opened.index.upkeep.differences()) == []


def test_large_index_is_rebuilt_while_reads_and_writes_continue(server, clock):
    space, make = new_space(), Builder(clock)
    sources = [make.source(text, origin=str(number)) for number, text in enumerate(TEXTS * 40)]
    with ledger_only(server, space, clock) as ledger:
        ledger.commit(make.patch(*sources))
    with indexed(server, space, clock, most_at_once=1, step_seconds=0) as opened:
        assert opened.index.upkeep.behind().waiting == len(sources)
        newer = opened.make.source("Bees hum.", origin="newer")
        opened.commit(newer)
        assert newer.id in opened.find("bees")
        before = opened.index.upkeep.behind().waiting
        assert 0 < opened.index.upkeep.advance().waiting < before
        assert list(opened.index.upkeep.differences()) == []
    with indexed(server, space, clock, step_seconds=0) as again:
        while again.index.upkeep.advance().waiting:
            pass
        assert len(again.find("bees")) == 41
        assert list(again.index.upkeep.differences()) == []


@pytest.mark.nightly
def test_many_passages_become_postings_without_erased_ones(server, clock):
    with indexed(server, new_space(), clock) as opened:
        secret = opened.make.source(*(f"Secret {word(n)} of hive_{n}." for n in range(10)), origin="secret")
        texts = [f"Bees {word(n)} hum in hive_{n % 7}." for n in range(_WAITING)]
        opened.commit(secret)
        opened.commit(opened.make.source(*texts, origin="many"))
        assert secret.id in opened.find(word(3))
        assert list(opened.index.upkeep.differences()) == []
        opened.commit(Erase(id=secret.id, expected_revision=1))
        assert opened.find("secret") == []
        assert len(opened.find(word(3))) == 1
        # The postings are those of what is left.
        assert list(opened.index.upkeep.differences()) == []


DAMAGE = {
    "words": "DELETE FROM passage_words WHERE key = 2",
    "endings": "DELETE FROM passage_endings",
    "titles": "UPDATE passages SET title = 'Other' WHERE key = 1",
    "metadata": "UPDATE passages SET metadata = '{\"a\": 1}' WHERE key = 1",
    "passages": "DELETE FROM passages WHERE key = 3",
    "counts": "UPDATE index_state SET value = value + 1 WHERE name = 'shown_passages'",
    "ties": "UPDATE graph_passages SET body = '\\x00' WHERE key = 1",
    "names of code": "INSERT INTO code_names(space, name, key) SELECT space, 7, key FROM passages",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_rebuild_repairs_reported_damage(server, clock, damage):
    space = new_space()
    with indexed(server, space, clock) as opened:
        opened.commit(opened.make.source(*TEXTS))
        change(server, space, damage)
        assert opened.index.upkeep.differences()
        opened.index.upkeep.rebuild()
        assert list(opened.index.upkeep.differences()) == []


def test_rebuild_repairs_damaged_postings(server, clock):
    space = new_space()
    with indexed(server, space, clock) as opened:
        opened.commit(opened.make.source(*(f"Bees {word(n)} hum." for n in range(_WAITING))))
        change(server, space, "UPDATE postings SET body = '\\x00' WHERE kind = 0")
        assert opened.index.upkeep.differences() == ["1 runs of postings do not match the passages"]
        with pytest.raises(Corrupt) as caught:
            opened.find(word(7))
        assert "reindex" in caught.value.hint
        opened.index.upkeep.rebuild()
        assert len(opened.find(word(7))) == 1


def change(server, name, sql):
    """Change rows of one space behind the back of Treering."""
    with psycopg.connect(server.url(), autocommit=False) as owner:
        see_name(owner, name)
        see_number(owner, number_of(owner, name))
        owner.execute(sql)
