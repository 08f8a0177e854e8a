"""Moving a space between files and databases: the same at the end, whatever happens on the way."""

import json
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest
from postgres_spaces import new_space

import treering
from treering.core.errors import Conflict, InvalidInput, NotFound, Unavailable
from treering.core.patch import AddLink, Erase, Link, Update
from treering.retrieval.extraction.built_in import BuiltInExtractor
from treering.testing.builders import Builder
from treering.testing.fakes import HashingEmbedder, SteppingClock

_PROCESS = Path(__file__).with_name("moving_process.py")


@pytest.fixture
def address(server, tmp_path):
    """Give addresses of new spaces, in files or in the tests' database."""

    def new(kind):
        name = new_space()
        return f"sqlite:{tmp_path / name}.db" if kind == "file" else server.url(space=name)

    return new


def fill(address, *, patches=4, each=120):
    """Commit hundreds of events, with links, an erasure and idempotency keys."""
    make = Builder(SteppingClock(seed=str(each)))
    with closing(treering.open_ledger(address)) as ledger:
        for number in range(patches):
            sources = [
                make.source(f"Text {number} of {one}.", origin=f"{each}/{number}/{one}.md") for one in range(each // 2)
            ]
            nodes = [make.node(f"Node {each} {number} {one}") for one in range(each // 2)]
            link = AddLink(link=Link(type="about", source=nodes[0].id, target=nodes[1].id))
            ledger.commit(make.patch(*sources, *nodes, link), idempotency_key=f"key {each} {number}")
        ledger.commit(make.patch(Erase(id=sources[0].id, expected_revision=1)))
        ledger.commit(make.patch(Update(id=nodes[0].id, expected_revision=1, changes={"name": "Another"})))
        nothing = Update(id=nodes[0].id, expected_revision=2, changes={"name": "Another"})
        ledger.commit(make.patch(nothing), idempotency_key=f"nothing of {each}")


def content(address):
    with closing(treering.open_ledger(address, create=False)) as ledger:
        return list(ledger.records()), ledger.verify()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("old", "new"), [("file", "file"), ("file", "Postgres"), ("Postgres", "file"), ("Postgres", "Postgres")]
)
def test_a_move_that_was_killed_goes_on_and_ends_with_the_same_space(address, old, new):
    source, target = address(old), address(new)
    fill(source)
    before = content(source)
    command = [sys.executable, _PROCESS, source, target, "200"]
    killed = subprocess.run(command, check=False, timeout=120)
    assert killed.returncode == -signal.SIGKILL
    for create in (True, False):
        with pytest.raises(Unavailable, match="unfinished copy of a move"):
            treering.open_ledger(target, create=create)
        with pytest.raises(Unavailable, match="unfinished copy of a move"):
            treering.open(target, create=create, background=False, embedder=HashingEmbedder())
    with pytest.raises(Unavailable, match="unfinished copy of a move"):
        treering.move(target, address("file"))
    told = []
    report = treering.move(source, target, progress=lambda *said: told.append(said), embedder=HashingEmbedder())
    assert min(done for what, done, _ in told if what == "Copying events") > 200
    assert content(target) == content(source) == before
    assert report.head == before[1]
    assert sum(report.counts.values()) == len(before[0])


def test_a_file_that_was_moved_there_and_back_is_found_by_search_and_goes_on(address):
    first, between, last = address("file"), address("Postgres"), address("file")
    with treering.open(first, background=False, embedder=HashingEmbedder()) as space:
        space.ingest("source", input={"text": "Bees hum at noon.", "origin": "bees.md"})
    treering.move(first, between)
    treering.move(between, last, embedder=HashingEmbedder())
    with treering.open(last, background=False, embedder=HashingEmbedder()) as space:
        assert space.query("search", input={"text": "bees"}).hits
        assert space.lint("reindex").differences == ()
        assert space.lint("audit").verified
        space.ingest("source", input={"text": "Bees rest.", "origin": "rest.md"})
    with pytest.raises(Conflict, match="not empty"):
        treering.move(first, last)


@pytest.mark.parametrize(("old", "new"), [("file", "file"), ("file", "Postgres"), ("Postgres", "file")])
def test_vectors_that_the_source_has_are_not_made_again(address, old, new):
    first, last = address(old), address(new)
    with treering.open(first, background=False, embedder=HashingEmbedder()) as space:
        for number in range(3):
            space.ingest("source", input={"text": f"Bees hum {number}.", "origin": f"{number}.md"})
        space.embed_pending()
        space.ingest("source", input={"text": "Not embedded yet.", "origin": "late.md"})
    report = treering.move(first, last, embedder=HashingEmbedder())
    with treering.open(last, background=False, embedder=HashingEmbedder()) as space:
        lag = space.engine.index.vectors.lag()
    assert (report.vectors, lag.pending) == (3, 1)


_QUESTIONS = ("Who repairs the harbour of Olveston?", "bees at noon", "Mira Tal", "What did Anders find in the mill?")


def fill_with_prose(address):
    """Ingest texts that name people and places, embed most of them, and change and erase some."""
    with treering.open(address, background=False, embedder=HashingEmbedder()) as space:
        for number in range(12):
            text = (
                f"# Part {number}\n\nMira Tal repairs the harbour of Olveston with Anders Brandt.\n\n"
                f"Bees hum at noon in the mill of Ketterby {number}. Anders Brandt found the mill in 19{number + 10}.\n"
            )
            space.ingest("source", input={"text": text, "origin": f"{number}.md"})
        space.embed_pending()
        space.ingest("source", input={"text": "Anders Brandt left Olveston for Ketterby.", "origin": "3.md"})
        space.ingest("source", input={"text": "The harbour of Olveston is new.", "origin": "late.md"})
    fill(address, patches=1, each=6)


def first_answers(space):
    return [
        [
            (hit.object_id, hit.segment_id, round(hit.score, 6))
            for hit in space.query("search", input={"text": text}).hits[:10]
        ]
        for text in _QUESTIONS
    ]


def cannot_read(*_arguments):
    raise AssertionError("a text was read again")


@pytest.mark.parametrize(
    ("old", "new"), [("file", "file"), ("file", "Postgres"), ("Postgres", "file"), ("Postgres", "Postgres")]
)
def test_copy_takes_the_ties_of_its_source(address, monkeypatch, old, new):
    first, last = address(old), address(new)
    fill_with_prose(first)
    with monkeypatch.context() as patched:
        patched.setattr(BuiltInExtractor, "extract", cannot_read)
        patched.setattr(BuiltInExtractor, "extract_plainly", cannot_read)
        treering.move(first, last, embedder=HashingEmbedder())
    with (
        treering.open(first, background=False, embedder=HashingEmbedder()) as ours,
        treering.open(last, background=False, embedder=HashingEmbedder()) as theirs,
    ):
        assert theirs.lint("reindex").differences == ()
        assert theirs.engine.index.vectors.lag() == ours.engine.index.vectors.lag()
        assert any(first_answers(ours))
        assert first_answers(theirs) == first_answers(ours)


def test_damaged_graph_records_are_extracted_again(address):
    source, target = address("file"), address("Postgres")
    fill_with_prose(source)
    with closing(sqlite3.connect(source.removeprefix("sqlite:"))) as connection:
        connection.execute("UPDATE graph_passages SET body = x'00' WHERE key % 3 = 0")
        connection.execute("DELETE FROM graph_passages WHERE key % 3 = 1")
        connection.commit()
    treering.move(source, target, embedder=HashingEmbedder())
    with treering.open(target, background=False, embedder=HashingEmbedder()) as space:
        assert space.lint("reindex").differences == ()


@pytest.mark.nightly
def test_what_was_written_since_is_copied_by_moving_again(address):
    source, target = address("file"), address("Postgres")
    fill(source, patches=1)
    treering.move(source, target)
    fill(source, patches=1, each=20)
    told = []
    treering.move(source, target, progress=lambda *said: told.append(said))
    assert content(target) == content(source)
    assert len([one for one in told if one[0] == "Copying events"]) == 1


def test_places_that_cannot_be_moved_between_are_refused(address, tmp_path):
    here = address("file")
    with pytest.raises(NotFound):
        treering.move(here, f"sqlite:{tmp_path / 'new.db'}")
    assert not (tmp_path / "new.db").exists()
    fill(here, patches=1, each=4)
    (tmp_path / "same.db").symlink_to(here.removeprefix("sqlite:"))
    for other in (here, f"sqlite:{tmp_path / 'same.db'}", ":memory:"):
        with pytest.raises(InvalidInput):
            treering.move(here, other)
    with pytest.raises(Unavailable):
        treering.move(here, "postgresql://nobody@127.0.0.1:1/none?space=x&connect_timeout=2")


@pytest.mark.nightly
def test_move_command_reports_counts(address):
    source, target = address("file"), address("Postgres")
    fill(source, patches=1, each=4)
    done = subprocess.run(
        [sys.executable, "-m", "treering", "move", source, target, "--json"], capture_output=True, text=True, check=True
    )
    said = json.loads(done.stdout)
    records, head = content(target)
    assert said["head"] == head.model_dump()
    assert sum(said["counts"].values()) == len(records)
    again = subprocess.run(
        [sys.executable, "-m", "treering", "move", source, target], capture_output=True, text=True, check=True
    )
    assert f"up to event {head.seq}" in again.stdout


@pytest.mark.sampled(1)
@pytest.mark.parametrize("new", ["file", "Postgres"])
def test_a_move_that_is_killed_before_its_first_event_leaves_nothing_that_opens(address, new):
    source, target = address("file"), address(new)
    fill(source, patches=1, each=4)
    command = [sys.executable, _PROCESS, source, target, "0"]
    assert subprocess.run(command, check=False, timeout=120).returncode == -signal.SIGKILL
    with pytest.raises(Unavailable, match="unfinished copy of a move"):
        treering.open_ledger(target)
    treering.move(source, target)
    assert content(target) == content(source)


@pytest.mark.parametrize("new", ["file", "Postgres"])
def test_whoever_has_a_copy_open_writes_nothing_while_it_is_filled_again(address, new):
    source, target = address("file"), address(new)
    fill(source, patches=1, each=4)
    treering.move(source, target)
    fill(source, patches=1, each=20)
    make = Builder(SteppingClock(seed="in between"))
    refused = []

    with closing(treering.open_ledger(target)) as held:

        def write(what, _done, _total):
            if what == "Copying events" and not refused:
                with pytest.raises(Unavailable, match="unfinished copy of a move"):
                    held.commit(make.patch(make.node("Somebody else's")))
                refused.append(what)

        treering.move(source, target, progress=write)
        assert refused
        assert held.sequence() == content(source)[1].seq
        held.commit(make.patch(make.node("Mine")))
    with pytest.raises(Conflict, match="not empty"):
        treering.move(source, target)


@pytest.mark.parametrize("new", ["file", "Postgres"])
def test_a_space_that_is_no_copy_of_the_source_stays_as_usable_as_it_was(address, new):
    source, other = address("file"), address(new)
    fill(source, patches=1, each=4)
    fill(other, patches=1, each=6)
    before = content(other)
    with pytest.raises(Conflict, match="not empty"):
        treering.move(source, other)
    assert content(other) == before
