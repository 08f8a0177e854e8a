"""What is selected by its name is found through an index of SQLite, however much else lies in its scope."""

import pytest

from treering.core.filters import parse_filter
from treering.ports.ledger import Selection
from treering.stores.sqlite.database import MEMORY, Database
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.fakes import SteppingClock

BY_NAME = "objects_by_name (scope=? AND type=? AND status=? AND title=?)"
BY_STATUS = "objects_by_name (scope=? AND type=? AND status=?)"
BY_ORIGIN = "objects_by_origin (scope=? AND origin=?)"


@pytest.fixture
def plan_of():
    """Return how SQLite looks for what a selection takes."""
    database = Database(MEMORY)
    ledger = SqliteLedger(database, clock=SteppingClock())

    def plan_of(selection):
        asked = []
        with database.read() as connection:
            connection.exec_trace = lambda _cursor, sql, bindings: asked.append((sql, bindings)) or True
            list(ledger.select(selection))
            connection.exec_trace = None
            (wanted,) = ((sql, bindings) for sql, bindings in asked if "FROM objects" in sql)
            return " ".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {wanted[0]}", wanted[1]))

    yield plan_of
    database.close()


@pytest.mark.parametrize(
    ("where", "types", "index"),
    [
        ({"title": "Notes", "status": "active"}, ("knowledge",), BY_NAME),
        ({"title": "Notes", "status": ["active", "stale"], "kind": "summary"}, ("knowledge",), BY_NAME),
        ({"status": "stale", "title": {"ne": "Notes"}}, ("knowledge",), BY_STATUS),
        ({"origin": "doc:1"}, ("source",), BY_ORIGIN),
        ({"origin": "doc:1"}, (), BY_ORIGIN),
    ],
)
def test_an_index_finds_what_is_named(plan_of, where, types, index):
    assert index in plan_of(Selection("/discussion/talk", types=types, where=parse_filter(where)))


def test_all_objects_of_a_type_in_a_scope_are_found_by_the_same_index(plan_of):
    assert "objects_by_name (scope=? AND type=?)" in plan_of(Selection(scope="/", types=("source",)))


def test_all_objects_of_a_type_in_a_whole_space_are_found_by_their_ids(plan_of):
    assert "PRIMARY KEY (id>? AND id<?)" in plan_of(Selection(scope="/", descend=True, types=("knowledge",)))


def test_index_finds_objects_of_a_kind_in_a_whole_space(plan_of):
    where = parse_filter({"kind": "repo_map", "status": "active"})
    found = plan_of(Selection(scope="/", descend=True, types=("source",), where=where))
    assert "objects_by_kind (kind=? AND status=?" in found
