"""Reads run no statement whose cost grows with the notes of a space that they are not about."""

import re
from collections import Counter
from uuid import uuid4

import apsw
import pytest

from space_parts import decide, note, open_space
from treering.surfaces.cli import history

_FEW, _MANY = 150, 450
"""Both more than the candidates of a search, so that a search reads equally many."""
_SQLITE_INTERNAL = ("REPLACE INTO 'main'", "PRAGMA 'main'", "SELECT pgno FROM", "SELECT t.'passage_words'")
"""Statements of FTS5 itself."""
_LIST = re.compile(r"\?(?:,\?)+")
_COUNTS = "SELECT scope, type, status, count(*) FROM objects"
"""Visits each entry of one index: a tenth of a microsecond for each object."""


@pytest.fixture(scope="module")
def steps():
    """Count the instructions that SQLite runs for each statement of a read, in a small and in a larger space."""
    current = Counter()

    def note_steps(event):
        current[_LIST.sub("?*", event["sql"])] += event["stmt_status"]["SQLITE_STMTSTATUS_VM_STEP"]

    def trace(connection):
        connection.trace_v2(apsw.SQLITE_TRACE_PROFILE, note_steps)

    def counted(read):
        read()
        current.clear()
        read()
        return {sql: count for sql, count in current.items() if not sql.startswith((*_SQLITE_INTERNAL, _COUNTS))}

    apsw.connection_hooks.append(trace)
    spaces = [_space(count) for count in (_FEW, _MANY)]
    yield lambda read: [counted(lambda space=space: read(space)) for space in spaces]
    apsw.connection_hooks.remove(trace)
    for space in spaces:
        space.close()


def _space(notes):
    space = open_space(":memory:")
    items = [{"origin": f"{number}", "text": f"Bees of hive {number} hum."} for number in range(notes)]
    talks = [
        {
            "kind": "conversation",
            "origin": f"talk/{number}",
            "messages": [{"name": "Ada", "content": f"Hive {number}?"}],
        }
        for number in range(notes)
    ]
    space.ingest("source", input={"items": [*items, *talks]})
    evidence = note(space, "Ants dig tunnels in spring.", origin="ants.md")
    decide(space, "Ants dig in spring", evidence)
    space.embed_pending()
    return space


def _search(space):
    assert space.query("search", input={"text": "antz dig tunels"}).hits


def _search_after_note(space):
    note(space, "Bees of a hive hum.", origin=f"{uuid4()}.md")
    assert space.query("search", input={"text": "bees hum"}).hits


def _brief(space):
    assert space.query("brief").sections


def _status(space):
    assert space.perform("status").objects


def _last_change(space):
    assert history.events(space, {}, "/", until_enough=1)


@pytest.mark.parametrize("read", [_search, _search_after_note, _brief, _status, _last_change])
def test_read_runs_no_statement_that_grows_with_the_space(steps, read):
    few, many = steps(read)
    growing = {sql: (few.get(sql, 0), count) for sql, count in many.items() if count > few.get(sql, 0) + _MANY - _FEW}
    assert growing == {}
