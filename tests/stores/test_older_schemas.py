import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import treering
from treering.core.filters import parse_filter
from treering.core.policy import Policy
from treering.ports.ledger import Selection
from treering.stores.sqlite.ledger.schema import VERSION
from treering.testing.fakes import HashingEmbedder

FIXTURES = Path(__file__).parents[1] / "fixtures"
OLDER = sorted(FIXTURES.glob("ledger_v*.db"))


@pytest.fixture(params=OLDER, ids=lambda path: path.stem)
def space(request, tmp_path):
    copy = shutil.copy(request.param, tmp_path / "space.db")
    with treering.open(f"sqlite:{copy}", channel="user", background=False, embedder=HashingEmbedder()) as opened:
        yield opened


def test_there_is_a_fixture_of_every_schema_version():
    assert [path.stem for path in OLDER] == [f"ledger_v{number}" for number in range(1, VERSION + 1)]


def test_a_space_of_any_schema_version_opens_and_verifies(space):
    assert space.engine.ledger.verify().seq > 0
    assert space.lint(mode="audit").verified
    assert list(space.engine.index.upkeep.differences()) == []


def test_a_space_obeys_the_policy_it_holds_and_an_older_one_the_default(space, request):
    held = Policy(reviewed_operations=frozenset({"merge"}))
    older = request.node.callspec.id in {"ledger_v1", "ledger_v2"}
    assert space.engine.ledger.policy == (Policy() if older else held)


def test_older_space_is_searchable_with_its_history(space):
    decision = space.query(
        mode="search", input={"text": "Which store?"}, options={"filter": {"kind": "decision"}}
    ).hits[0]
    assert (decision.title, decision.status) == ("SQLite in WAL mode", "active")
    withdrawn = space.query(
        mode="search", input={"text": "Which store?"}, options={"filter": {"status": "superseded"}, "withdrawn": True}
    ).hits
    assert [hit.title for hit in withdrawn] == ["SQLite"]
    assert [hit.origin for hit in space.query(mode="search", input={"text": "データ"}).hits] == ["köln"]


def test_an_older_space_can_be_written(space):
    items = [{"kind": "note", "origin": "new", "title": "new", "text": "Written by a newer version."}]
    assert space.ingest(mode="source", input={"items": items}).counts == {"created": 1}
    assert space.engine.ledger.verify()


def test_a_decision_of_an_older_version_is_contested_by_another_on_the_same_question(space):
    (known,) = space.query("search", input={"text": "Which store?"}, options={"filter": {"kind": "decision"}}).hits
    other = {"kind": "decision", "title": "x", "payload": {"question": "Which store?", "outcome": "Postgres"}}
    assert known.object_id in space.crystallize("knowledge", input=other).contested
    assert space.engine.ledger.verify()


def test_referrers_of_an_older_version_are_found(space):
    (node,) = space.engine.ledger.select(Selection(types=("node",)))
    page = space.query(mode="page", input={"id": node.id})
    assert [(one.title, one.fields) for one in page.referrers] == [("Chose a store", ("produced_object_refs",))]
    past = space.query(mode="related", input={"id": node.id}, options={"as_of": space.engine.ledger.sequence()})
    assert [one.title for one in past.neighbours] == ["Chose a store"]


def test_an_older_space_gets_the_index_by_name_when_it_is_opened_to_write(space, tmp_path):
    with closing(sqlite3.connect(tmp_path / "space.db")) as connection:
        assert connection.execute("SELECT 1 FROM sqlite_schema WHERE name = 'objects_by_name'").fetchone()
    named = Selection(types=("source",), where=parse_filter({"title": "store", "status": "active"}))
    assert [item.title for item in space.engine.ledger.select(named)] == ["store"]
