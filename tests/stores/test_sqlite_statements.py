"""The statements of a read on SQLite: their number depends neither on the hits nor on the spellings of a word.

The rows of a write depend neither on the length of the conversation that it cites.
"""

import apsw
import pytest

from space_parts import decide, note, open_space
from treering.verbs.catalog import call
from treering.verbs.envelope import READS, Envelope

MAX_STATEMENTS = {"search": 43, "context": 78}


@pytest.fixture
def statements(monkeypatch):
    """The statements of all connections, in order."""
    run = []

    def trace(connection):
        connection.exec_trace = lambda _cursor, sql, _bindings: run.append(sql) or True

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, trace])
    return run


@pytest.fixture
def space(statements, tmp_path):
    with open_space(f"sqlite:{tmp_path / 'space.db'}") as space:
        for at in range(30):
            evidence = note(space, f"Bees of hive {at} swarm in month {at}.", origin=f"notes/{at}.md")
        decide(space, "Bees swarm in May", evidence)
        space.embed_pending()
        yield space


@pytest.mark.parametrize(("mode", "field"), [("search", "text"), ("context", "task")])
@pytest.mark.parametrize("question", ["When do bees swarm?", "When do beees swarmm?"])
def test_a_read_runs_few_statements(space, statements, mode, field, question):
    envelope = Envelope(mode=mode, input={field: question})
    call(space.engine, "query", envelope, granted=READS)
    statements.clear()
    report = call(space.engine, "query", envelope, granted=READS)
    assert report.ids
    assert len(statements) <= MAX_STATEMENTS[mode]


def test_a_missing_name_is_looked_up_once_until_a_write(space, statements):
    def looked_up():
        statements.clear()
        space.query("context", input={"task": "Why does the swarm of hive 3 call evaluate_queen_marks in May?"})
        return sum("passage_names MATCH" in sql for sql in statements)

    assert looked_up() == 1
    assert looked_up() == 0
    note(space, "Hive 3 calls re_evaluate_queen_marks_again.", origin="notes/marks.md")
    assert looked_up() > 1


def test_citing_a_turn_reads_as_many_rows_in_a_long_conversation(monkeypatch):
    rows = []

    def trace(connection):
        connection.row_trace = lambda _cursor, row: rows.append(row) or row

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, trace])

    def rows_read(turns):
        with open_space(channel="user") as space:
            messages = [{"role": "user", "content": f"Crate {at} weighs {at} grams"} for at in range(turns)]
            report = space.ingest("source", input={"items": [{"kind": "conversation", "messages": messages}]})
            source = space.engine.ledger.get(report.items[0].source_id)
            rows.clear()
            space.fact("weight = 3", of="crate 3", because=f"{source.id} {source.segments[3].segment_id}")
            return len(rows)

    assert rows_read(200) == rows_read(10)
