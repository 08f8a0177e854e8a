import json
import os
import shutil
import signal
import subprocess
import sys
from hashlib import blake2b
from pathlib import Path

import pytest
from graph_stage import all_nodes, around, edges_of, known_graph, stated
from index_stage import open_space, seen

from treering.stores.rows.graph import FollowedGraph
from treering.stores.sqlite.index import kept_tables
from treering.stores.sqlite.ready import ready_folder
from treering.testing.fakes import HashingEmbedder, SteppingClock
from treering.testing.index_contract.stage import near

FRONT = kept_tables._FRONT
NAMES = ("Ada Lovelace", "Charles Babbage", "Grace Hopper", "Howard Aiken", "Luigi Menabrea")


@pytest.fixture(autouse=True)
def kept_from_the_first_passage(monkeypatch):
    monkeypatch.setattr("treering.stores.rows.followed_table.MIN_SAVED_PASSAGES", 1)


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "space.db")


@pytest.fixture
def opened(path):
    """Open the space as one process more would."""
    spaces, clock = [], SteppingClock()

    def another(**options):
        spaces.append(open_space(path, clock=clock, **options))
        return spaces[-1]

    yield another
    for space in spaces:
        space.ledger.close()


def kept(path: str) -> Path:
    return ready_folder(path) / "graph.table"


def meeting(space, place: int):
    one, other = NAMES[place % 5], NAMES[(place // 5 + 1) % 5]
    return space.make.source(f"{one} met {other} in Town{place}.", origin=f"note:{place}", title=f"Meeting {place}")


def fill(space, count: int = 40) -> list:
    sources = [meeting(space, place) for place in range(count)]
    space.commit(*sources)
    return sources


def agrees(space) -> bool:
    """Tell whether the graph says of every node what the ledger does."""
    known = known_graph(space)
    wanted = edges_of(known, [*known.names, *(2 * key for key in known.ties)])
    return edges_of(space.index.graph, all_nodes(space)) == wanted


def content(space) -> object:
    keys = [key for (key,) in space.database.rows("SELECT key FROM passages")]
    return edges_of(space.index.graph, all_nodes(space)), stated(space.index.graph, keys)


def test_next_process_maps_the_saved_table(opened, path):
    fill(opened())
    first = opened()
    assert agrees(first)
    before = kept(path).stat()
    second = opened()
    assert content(second) == content(first)
    assert kept(path).stat().st_mtime_ns == before.st_mtime_ns
    assert before.st_mode & 0o077 == 0


def test_what_was_written_since_is_read_on_top_of_what_was_kept(opened, path):
    sources = fill(opened(), 80)
    assert agrees(opened())
    before = kept(path).stat().st_ino
    writer = opened()
    writer.commit(meeting(writer, 97))
    writer.reread(sources[3], "Grace Hopper met Nobody.")
    reader = opened()
    assert agrees(reader)
    assert kept(path).stat().st_ino == before


def test_table_is_saved_again_after_many_changes(opened, path):
    fill(opened())
    assert agrees(opened())
    before = kept(path).stat().st_ino
    writer = opened()
    writer.commit(*(meeting(writer, place) for place in range(100, 120)))
    assert agrees(opened())
    assert kept(path).stat().st_ino != before


def test_process_can_change_a_mapped_table(opened):
    fill(opened())
    assert agrees(opened())
    space = opened()
    assert agrees(space)
    more = [meeting(space, place) for place in range(200, 240)]
    space.commit(*more)
    assert agrees(space)
    space.erase(more[0])
    assert agrees(space)


def test_erasure_deletes_saved_tables(opened, path):
    space = opened()
    sources = fill(space)
    assert agrees(space)
    assert kept(path).exists()
    space.erase(sources[0])
    space.ledger.compact()
    assert not kept(path).exists()
    assert agrees(space)
    assert not kept(path).exists(), "what was in memory from before the erasure is not kept again"


def test_other_process_drops_erased_content(opened, path):
    sources = fill(opened())
    other = opened()
    assert agrees(other)
    assert str(kept(path)) in mapped_files()
    eraser = opened()
    eraser.erase(sources[0])
    eraser.ledger.compact()
    assert agrees(other)
    assert str(kept(path)) not in mapped_files()


def test_search_leaves_saving_to_background_work(opened, path):
    fill(opened())
    space = opened(saves_tables=False)
    assert agrees(space)
    assert not kept(path).exists()
    assert space.index.has_tables_to_prepare()
    space.index.prepare_tables()
    assert not space.index.has_tables_to_prepare()
    assert agrees(space)
    assert str(kept(path)) in mapped_files()


def test_tables_are_due_after_many_changes(opened, path):
    fill(opened(), 80)
    space = opened(saves_tables=False)
    space.index.prepare_tables()
    space.commit(meeting(space, 97))
    assert not space.index.has_tables_to_prepare()
    before = kept(path).stat().st_ino
    space.index.prepare_tables()
    assert kept(path).stat().st_ino == before
    space.commit(*(meeting(space, place) for place in range(100, 120)))
    assert space.index.has_tables_to_prepare()


def test_open_process_uses_tables_prepared_after_an_erasure(opened, path):
    space, other = opened(), opened()
    sources = with_vectors(space)
    assert agrees(space)
    other.erase(sources[0])
    other.ledger.compact()
    assert agrees(space)
    assert str(kept(path)) not in mapped_files()
    other.index.prepare_tables()
    assert agrees(space)
    assert str(kept(path)) in mapped_files()
    space.erase(sources[1])
    assert agrees(space)


def test_prepared_tables_contain_nothing_erased_meanwhile(opened, path, monkeypatch):
    space, eraser = opened(saves_tables=False), opened(saves_tables=False)
    sources = with_vectors(space)
    publish = kept_tables.SqliteSavedTable._publish

    def erase_first(*given):
        if not eraser.is_erased:
            eraser.is_erased = True
            eraser.erase(sources[0])
            eraser.ledger.compact()
        return publish(*given)

    eraser.is_erased = False
    monkeypatch.setattr(kept_tables.SqliteSavedTable, "_publish", erase_first)
    stored = space.database.row(
        "SELECT v.vector FROM passages p JOIN passage_vectors v USING (text_id) WHERE p.object_id = ?", (sources[0].id,)
    )[0]
    space.index.prepare_tables()
    assert space.index.has_tables_to_prepare()
    space.index.prepare_tables()
    assert vectors_kept(path)
    assert not any(stored in file.read_bytes() for file in ready_folder(path).iterdir())
    assert agrees(space)


def test_saved_table_is_used_after_an_eighth_of_the_space_changed(opened, path, monkeypatch):
    monkeypatch.setattr("treering.stores.sqlite.index.vector_queue.MAX_LOG_ENTRIES", 2)
    writer, reader = opened(saves_tables=False), opened(saves_tables=False)
    fill(writer, 160)
    writer.index.prepare_tables()
    writer.commit(*(meeting(writer, place) for place in range(200, 210)))
    monkeypatch.setattr(FollowedGraph, "_load", lambda *_: pytest.fail("the graph was loaded"))
    assert agrees(reader)


def test_nothing_is_due_if_it_cannot_be_saved(opened, path):
    space = opened(saves_tables=False)
    fill(space)
    assert space.index.has_tables_to_prepare()
    shutil.rmtree(ready_folder(path))
    ready_folder(path).write_text("a file where the folder should be")
    assert not space.index.has_tables_to_prepare()


def vectors_kept(path: str) -> list[Path]:
    return [*ready_folder(path).glob("vectors.*.table")]


def with_vectors(space, count: int = 40) -> list:
    sources = fill(space, count)
    space.embed()
    return sources


def test_vectors_are_mapped_by_the_next_process_and_followed_from_there(opened, path):
    sources = with_vectors(opened(), 80)
    asked = sources[7].segments[0].excerpt
    first = opened().near(asked)
    [before] = [one.stat().st_ino for one in vectors_kept(path)]
    writer = opened()
    assert writer.near(asked) == first
    late = meeting(writer, 99)
    writer.commit(late)
    writer.embed()
    writer.move(sources[7], "archived")
    reader = opened()
    found = reader.near(asked)
    assert late.id in reader.near(late.segments[0].excerpt)
    assert sources[7].id not in found
    assert [one.stat().st_ino for one in vectors_kept(path)] == [before]


def test_an_erased_text_has_no_vector_in_any_file(opened, path):
    space, other = opened(), opened()
    sources = with_vectors(space)
    asked = sources[0].segments[0].excerpt
    stored = space.database.row(
        "SELECT v.vector FROM passages p JOIN passage_vectors v USING (text_id) WHERE p.object_id = ?", (sources[0].id,)
    )[0]
    assert sources[0].id in other.near(asked)
    assert any(stored in file.read_bytes() for file in vectors_kept(path))
    space.erase(sources[0])
    space.ledger.compact()
    assert sources[0].id not in other.near(asked)
    assert sources[0].id not in opened().near(asked)
    assert vectors_kept(path)
    folders = Path(path).parent, ready_folder(path)
    everything = [file for folder in folders for file in folder.rglob("*") if file.is_file()]
    assert not any(stored in file.read_bytes() for file in everything)


def test_each_model_has_a_file_of_its_own(path):
    space = open_space(path)
    with_vectors(space)
    space.near("Ada")
    space.ledger.close()
    other = open_space(path, dimension=32)
    assert near(other.index, HashingEmbedder(32).embed_query("Ada Lovelace"), reach=seen(), limit=5) == {}
    other.ledger.close()
    assert len(vectors_kept(path)) == 1


def mapped_files() -> str:
    return Path("/proc/self/maps").read_text()


def test_what_was_read_before_an_erasure_is_not_kept_after_it(opened, path):
    space, eraser = opened(), opened()
    sources = fill(space)
    with space.database.read():  # the snapshot stays that of before
        space.database.row("SELECT 1 FROM audit")
        eraser.erase(sources[0])
        space.index.graph.view(seen())
    assert not kept(path).exists()
    assert agrees(space)


def test_interrupted_erasure_is_finished_on_opening(opened, path):
    sources = fill(opened())
    assert agrees(opened())
    copy = kept(path).read_bytes()
    eraser = opened()
    eraser.erase(sources[0])  # and no more: it is killed before it removes what is kept
    assert kept(path).exists()
    opened()
    assert not kept(path).exists()
    kept(path).write_bytes(copy)  # as one that a process wrote late
    assert agrees(opened())
    assert kept(path).read_bytes() != copy


@pytest.mark.parametrize("damage", ["cut", "empty", "front", "magic", "link"])
def test_damaged_file_is_replaced(opened, path, damage, tmp_path):
    fill(opened())
    assert agrees(opened())
    whole = kept(path).read_bytes()
    match damage:
        case "cut":
            kept(path).write_bytes(whole[:5_000])
        case "empty":
            kept(path).write_bytes(b"")
        case "front":
            kept(path).write_bytes(whole[:60] + bytes([whole[60] ^ 1]) + whole[61:])
        case "magic":
            kept(path).write_bytes(b"another program's" + whole[17:])
        case "link":
            shutil.copy(kept(path), tmp_path / "elsewhere")
            kept(path).unlink()
            kept(path).symlink_to(tmp_path / "elsewhere")
    assert agrees(opened())
    assert (kept(path).is_symlink(), kept(path).read_bytes()[:16]) == (False, whole[:16])
    assert agrees(opened())


@pytest.mark.parametrize("seed", range(3))
def test_flipped_bit_replaces_the_saved_table(opened, path, seed):
    with_vectors(opened())
    first = opened()
    good, asked = content(first), "Ada Lovelace met Grace Hopper in Town7."
    nearest = first.near(asked)
    for file in (kept(path), *vectors_kept(path)):
        whole = bytearray(file.read_bytes())
        places = range(FRONT, len(whole))
        for at in places[seed :: len(places) // 40]:
            whole[at] ^= 1 << at % 8
        file.write_bytes(whole)
    again = opened()
    assert (content(again), again.near(asked)) == (good, nearest)


def with_front(whole: bytes, change) -> bytes:
    """Return a table with what stands at its front changed, and a checksum that fits."""
    _, length, _ = kept_tables._START.unpack_from(whole)
    told = json.loads(whole[kept_tables._START.size :][:length])
    front = change(told)
    front = front if isinstance(front, bytes) else json.dumps(front).encode()
    start = kept_tables._START.pack(kept_tables._MAGIC, len(front), blake2b(front, digest_size=32).digest())
    return (start + front).ljust(FRONT, b"\0") + whole[FRONT:]


def of_nodes(place):
    return lambda told: {**told, "places": {**told["places"], "nodes": place}}


@pytest.mark.parametrize(
    "change",
    [
        of_nodes([-64, "<u4", [8]]),
        of_nodes([0, "<u4", [8]]),
        of_nodes([FRONT, "<u4", [10**30]]),
        of_nodes([FRONT, "<u4", [-1]]),
        of_nodes([FRONT, "<u4", [2**40, 0]]),
        of_nodes([FRONT, "|O", [2]]),
        of_nodes([FRONT, "<M8[s]", [2]]),
        of_nodes([FRONT + 1, "<u4", ["2"]]),
        of_nodes(["4096", "<u4", [2]]),
        of_nodes({"start": 1}),
        lambda told: {**told, "places": [1]},
        lambda told: {**told, "numbers": 7},
        lambda told: {**told, "numbers": {"count": "1", "live": -1, "used": 2**70}},
        lambda told: {**told, "moment": None},
        lambda told: {**told, "sum": told["sum"] + 1},
        lambda told: {},
        lambda told: [1],
        lambda told: b"[" * 4_000,
        lambda told: b"\xff",
    ],
)
def test_table_with_a_crafted_header_is_replaced(opened, path, change):
    fill(opened())
    assert agrees(opened())
    crafted = with_front(kept(path).read_bytes(), change)
    kept(path).write_bytes(crafted)
    assert agrees(opened())
    assert kept(path).read_bytes() != crafted


def test_restored_space_ignores_later_saved_tables(opened, path, tmp_path):
    space = opened()
    fill(space)
    space.ledger.back_up(tmp_path / "backup.db", replace=False, copied=lambda done, total: None)
    space.commit(*(meeting(space, place) for place in range(300, 320)))
    assert agrees(space)
    late = kept(path).read_bytes()
    space.ledger.close()
    for end in ("-wal", "-shm"):
        Path(path + end).unlink(missing_ok=True)
    shutil.copy(tmp_path / "backup.db", path)
    again = opened()
    again.commit(*(meeting(again, place) for place in range(400, 420)))
    assert agrees(opened())
    assert kept(path).read_bytes() != late


def test_a_space_in_memory_keeps_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    space = open_space()
    fill(space)
    assert agrees(space)
    space.ledger.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_no_obstacle(opened, path):
    fill(opened())
    ready_folder(path).write_text("a file where the folder should be")
    assert agrees(opened())


WRITING = """
import os, sys
sys.path[:0] = {paths!r}
import treering.stores.rows.followed_table as followed_table
import treering.stores.sqlite.index.kept_tables as kept_tables
from index_stage import open_space, seen

followed_table.MIN_SAVED_PASSAGES = 1
kept_tables._mapped = lambda _: os.kill(os.getpid(), {signal})
open_space(sys.argv[1]).index.graph.view(seen())
"""


@pytest.mark.skipif(os.name != "posix", reason="kill -9")
def test_a_process_that_is_killed_while_it_writes_leaves_nothing_for_long(opened, path):
    fill(opened())
    program = WRITING.format(paths=sys.path, signal=int(signal.SIGKILL))
    killed = subprocess.run([sys.executable, "-c", program, path], check=False)
    assert killed.returncode == -signal.SIGKILL
    assert [*ready_folder(path).glob("graph.table.*.new")]
    assert not kept(path).exists()
    assert agrees(opened())
    assert kept(path).exists()
    assert not [*ready_folder(path).glob("graph.table.*.new")]


def test_names_are_found_in_a_saved_table(opened):
    fill(opened())
    first = around(opened(), "ada lovelace")
    assert first == around(opened(), "ada lovelace")
    assert first
