import apsw
import pytest

from treering.core.errors import Corrupt
from treering.ports.passages import Reach
from treering.stores.rows.damage import REINDEX
from treering.stores.rows.reach import scope_terms
from treering.stores.sqlite.index.tables import create_tables
from treering.stores.sqlite.sight import sight
from treering.testing.index_contract.stage import read


@pytest.fixture
def connection():
    opened = apsw.Connection(":memory:")
    create_tables(opened)
    for scope in ("/", "/a", "/a/b"):
        opened.execute("INSERT INTO passage_scopes(scope) VALUES(?)", (scope,))
    yield opened
    opened.close()


def test_the_index_terms_of_a_scope_are_those_that_are_stored():
    assert " ".join(scope_terms("/a/b")) == "_7a20ec649f15 _d90f4d4ea679 _eecdb05ba2e1 _775fe19252e2"


def test_a_search_is_narrowed_to_scopes_only_where_some_are_not_seen(connection):
    everything = Reach("/", descend=True)
    assert sight(connection, everything).match("bees") == "bees"
    assert sight(connection, Reach("/a", descend=True)).match("bees") == "bees"
    narrowed = sight(connection, Reach("/a", descend=False)).match("bees")
    assert narrowed.startswith("scope : ")
    assert narrowed.endswith(" AND bees")


def test_a_stored_scope_that_is_no_text_is_damage_of_the_index(open_space):
    engine = open_space().engine
    below = Reach("/a", descend=True)
    with engine.leases._database.write() as connection:
        connection.execute("INSERT INTO passage_scopes(scope) VALUES(x'00')")
    for ask in (lambda: engine.index.passages.count(below), lambda: read(engine.index, [1], below)):
        with pytest.raises(Corrupt) as caught:
            ask()
        assert (caught.value.details, caught.value.hint) == ({"id": "the index"}, REINDEX)
