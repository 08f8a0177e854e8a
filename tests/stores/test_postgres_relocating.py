"""Moving a space to another server of its directory: while it is written, and whatever ends on the way."""

import signal
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from postgres_spaces import new_space

import treering
from treering.core.errors import Conflict, NotFound, Unavailable
from treering.core.patch import Erase
from treering.ports.stores import Relocation, StayedThere
from treering.stores.postgres import relocating
from treering.stores.postgres.connection import schema
from treering.stores.postgres.connection.schema import INDEX_TABLES
from treering.stores.postgres.placing import moving_alone, unfinished
from treering.stores.postgres.relocating import relocate
from treering.system.machine import SystemClock
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock

_PROCESS = Path(__file__).with_name("relocating_process.py")
MODEL = (HashingEmbedder().model_id, HashingEmbedder().dimension)


def move(team, space, server, told=lambda *_: None):
    return relocate(team.directory, space, server, clock=SystemClock(), model=MODEL, told=told)


def other_than(team, space):
    return {"a": "b", "b": "a"}[team.directory.find(space).server]


def content(address):
    with closing(treering.open_ledger(address, create=False)) as ledger:
        return list(ledger.records()), ledger.verify()


def rows_on(team, server, space):
    """Count the rows that a server keeps of a space, in all tables."""
    with psycopg.connect(team.own_address(server, space).partition("&space")[0]) as connection:
        connection.execute("SET search_path = treering")
        connection.execute("SELECT set_config('treering.space_name', %s, false)", (space,))
        [number] = connection.execute("SELECT space FROM space_names WHERE name = %s", (space,)).fetchone()
        connection.execute("SELECT set_config('treering.space', %s, false)", (str(number),))
        tables = [table for table in schema.TABLES if table != "spaces"]
        return sum(
            connection.execute(f"SELECT count(*) FROM {table} WHERE space = {number}").fetchone()[0] for table in tables
        )


@pytest.fixture
def used(team):
    """A space with sources, vectors, an erasure, idempotency keys, a proposal and a job."""
    space = new_space()
    with treering.open(team.address(space), background=False, embedder=HashingEmbedder()) as opened:
        for number in range(3):
            opened.ingest("source", input={"text": f"Bees hum {number}.", "origin": f"{number}.md"})
        opened.embed_pending()
        opened.engine.jobs.save("job", {"state": "running"})
        opened.engine.leases.take("upkeep", "me", seconds=60)
        make, ledger = Builder(SteppingClock(seed=space)), opened.engine.ledger
        node = make.node("Hive")
        ledger.commit(make.patch(node, make.node("Comb")), idempotency_key="first")
        ledger.commit(make.patch(Erase(id=node.id, expected_revision=1)), idempotency_key="second")
        ledger.propose(make.patch(make.node("Wax")))
    return space


def test_a_moved_space_is_the_same_on_the_other_server_and_nothing_is_left_on_the_old_one(team, used):
    old, new = team.directory.find(used).server, other_than(team, used)
    before, counts = content(team.address(used)), team.counts()
    told = move(team, used, new)
    assert isinstance(told, Relocation)
    assert (told.server, told.old_server, told.head) == (new, old, before[1])
    assert sum(told.counts.values()) == len(before[0])
    assert told.vectors == 3
    assert 0 < told.paused < told.seconds
    assert content(team.address(used)) == before
    assert rows_on(team, old, used) == 0
    assert team.counts() == {old: counts[old] - 1, new: counts[new] + 1}
    with treering.open(team.address(used), background=False, embedder=HashingEmbedder()) as opened:
        assert opened.query("search", input={"text": "bees"}).hits
        assert opened.lint("reindex").differences == ()
        assert opened.engine.index.vectors.lag().pending == 1  # as before
        assert opened.engine.jobs.find("job") == {"state": "running"}
        assert opened.engine.leases.holder("upkeep") == "me"


def test_an_open_space_goes_on_on_the_other_server_and_finds_what_it_found(team, used):
    with treering.open(team.address(used), background=False, embedder=HashingEmbedder()) as opened:

        def found():
            report = opened.query("search", input={"text": "bees hum"})
            return sorted((hit.title, hit.text) for hit in report.hits)

        before = found()
        first = other_than(team, used)
        move(team, used, first)
        assert found() == before
        opened.ingest("source", input={"text": "Bees rest.", "origin": "rest.md"})
        opened.embed_pending()
        assert len(found()) == len(before) + 1
        move(team, used, other_than(team, used))
        opened.ingest("source", input={"text": "Bees wake.", "origin": "wake.md"})
        assert len(found()) == len(before) + 2
        assert opened.lint("reindex").differences == ()
        assert opened.lint("audit").verified


@pytest.mark.nightly
def test_what_is_written_while_a_space_moves_to_and_fro_is_all_there(team):
    space, acknowledged, failed, stop = new_space(), [], [], threading.Event()
    team.fill(space, 30)

    def write(seed):
        make = Builder(SteppingClock(seed=seed))
        with closing(treering.open_ledger(team.address(space))) as ledger:
            while not stop.is_set():
                node = make.node(f"{seed} {len(acknowledged)}")
                try:
                    ledger.commit(make.patch(node), idempotency_key=node.id)
                except treering.TreeringError as error:
                    failed.append(error)
                    return
                acknowledged.append(node.id)

    writers = [threading.Thread(target=write, args=(f"w{number}",)) for number in range(2)]
    for writer in writers:
        writer.start()
    moves = [move(team, space, other_than(team, space)) for _ in range(2)]
    stop.set()
    for writer in writers:
        writer.join()
    assert failed == []
    assert acknowledged
    assert all(isinstance(one, Relocation) for one in moves)
    with closing(treering.open_ledger(team.address(space))) as ledger:
        assert ledger.heads(acknowledged).keys() == set(acknowledged)
        assert ledger.verify().seq == 30 + len(acknowledged)


STEPS = {
    "the copy is begun": ("tell", "Copying events"),
    "the copy is compared": ("tell", "Comparing records"),
    "writers wait": ("carry_beside", "before"),
    "the switch is about to be committed": ("begin_epoch", "after"),
    "the switch is committed": ("finish", "before"),
    "the directory is told": ("finish", "after"),
    "the old copy is removed": ("note_removed", "before"),
}
SWITCHED = ("the switch is committed", "the directory is told", "the old copy is removed")


@pytest.mark.sampled(2)
@pytest.mark.parametrize("step", STEPS)
def test_a_move_that_is_killed_leaves_one_server_and_goes_on_when_it_is_called_again(team, used, step, server):
    old, new = team.directory.find(used).server, other_than(team, used)
    before, counts = content(team.address(used)), team.counts()
    command = [sys.executable, _PROCESS, server.url(team.name), used, new, *STEPS[step]]
    killed = subprocess.run(command, check=False, timeout=120, capture_output=True, text=True)
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    # The space is served, whatever became of the move, and written.
    make = Builder(SteppingClock(seed="after"))
    with closing(treering.open_ledger(team.address(used), create=False)) as ledger:
        ledger.commit(make.patch(make.node("After")))
        after = list(ledger.records())
    assert len(after) > len(before[0])
    done = move(team, used, new)
    assert isinstance(done, Relocation) == (step not in SWITCHED)
    assert content(team.address(used))[0] == after
    assert unfinished(team.directory) == []
    assert rows_on(team, old, used) == 0
    assert team.counts() == {old: counts[old] - 1, new: counts[new] + 1}


def test_a_move_that_was_begun_is_given_up_by_naming_the_server_that_has_the_space(team, used, server):
    old, new = team.directory.find(used).server, other_than(team, used)
    before = content(team.address(used))
    subprocess.run(
        [sys.executable, _PROCESS, server.url(team.name), used, new, "tell", "Comparing records"], timeout=120
    )
    assert [one.target for one in unfinished(team.directory)] == [new]
    assert move(team, used, old) == StayedThere(used, old, given_up=new)
    assert rows_on(team, new, used) == 0
    assert unfinished(team.directory) == []
    assert content(team.address(used)) == before
    assert isinstance(move(team, used, new), Relocation)


def test_one_process_at_a_time_moves_a_space(team, used):
    with moving_alone(team.directory, used), pytest.raises(Conflict, match="Another process is moving"):
        move(team, used, other_than(team, used))


def test_a_space_or_a_server_that_is_not_there_is_named(team, used):
    with pytest.raises(NotFound, match="'c'"):
        move(team, used, "c")
    with pytest.raises(NotFound, match="no space 'nowhere'"):
        move(team, "nowhere", "a")


def test_the_old_server_itself_says_where_the_space_went(team, used):
    old, new = team.directory.find(used).server, other_than(team, used)
    with closing(treering.open_ledger(team.own_address(old, used), create=False)) as ledger:
        move(team, used, new)
        make = Builder(SteppingClock())
        with pytest.raises(Unavailable, match=f"moved to the server '{new}'"):
            ledger.sequence()
        with pytest.raises(Unavailable, match=f"moved to the server '{new}'"):
            ledger.commit(make.patch(make.node("Late")))


def test_every_table_of_a_space_is_copied_carried_or_made_anew():
    kinds = (set(relocating.COPIED), set(relocating.CARRIED), set(INDEX_TABLES))
    assert set().union(*kinds) == set(schema.TABLES)
    assert sum(map(len, kinds)) == len(schema.TABLES)
