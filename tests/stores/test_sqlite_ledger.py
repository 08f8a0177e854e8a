import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw
import pytest
from ledger_rules import LedgerRules

from treering.core.errors import Corrupt, Denied, InvalidInput, Unavailable
from treering.core.patch import AddLink, Erase, Link, Update
from treering.core.policy import Policy
from treering.ports.index import Change
from treering.ports.ledger import Ledger, Selection
from treering.spaces.policy_and_anchor import FileAnchor
from treering.stores.rows import ledger as rows_ledger
from treering.stores.rows.packing import pack, unpack
from treering.stores.sqlite.database import MEMORY, Database
from treering.stores.sqlite.ledger.ledger import SqliteLedger
from treering.testing.builders import ADA, Builder, author
from treering.testing.fakes import SteppingClock
from treering.testing.ledger_contract import LedgerContract

OpenLedger = Callable[..., Ledger]


class TestSqliteLedgerOnAFile(LedgerContract, LedgerRules):
    @pytest.fixture
    def open_ledger(self, clock: SteppingClock, tmp_path: Path) -> Iterator[OpenLedger]:
        opened: list[Ledger] = []

        def open_ledger(policy: Policy | None = None) -> Ledger:
            database = Database(str(tmp_path / f"space-{len(opened)}.db"))
            opened.append(SqliteLedger(database, clock=clock, policy=policy))
            return opened[-1]

        yield open_ledger
        for ledger in opened:
            ledger.close()


@pytest.mark.nightly
class TestSqliteLedgerInMemory(LedgerContract, LedgerRules):
    @pytest.fixture
    def open_ledger(self, clock: SteppingClock) -> Iterator[OpenLedger]:
        opened: list[Ledger] = []

        def open_ledger(policy: Policy | None = None) -> Ledger:
            opened.append(SqliteLedger(Database(MEMORY), clock=clock, policy=policy))
            return opened[-1]

        yield open_ledger
        for ledger in opened:
            ledger.close()


@pytest.fixture
def clock() -> SteppingClock:
    return SteppingClock()


@pytest.fixture
def make(clock: SteppingClock) -> Builder:
    return Builder(clock)


@pytest.fixture
def space(tmp_path: Path, clock: SteppingClock, make: Builder) -> Path:
    """The file of a space with some history, closed."""
    path = tmp_path / "space.db"
    with opened(path, clock) as ledger:
        source, node = make.source("Ada has 3 hives.", "x" * 600), make.node("Hive")
        fact = make.fact("Ada", "hives", 3, make.evidence(source))
        link = AddLink(link=Link(type="about", source=fact.id, target=node.id))
        ledger.commit(make.patch(source, node, fact, link))
        ledger.commit(make.patch(Update(id=node.id, expected_revision=1, changes={"summary": "Bees live there."})))
        ledger.propose(make.patch(make.node("Maybe")))
    return path


@contextmanager
def opened(path: Path, clock: SteppingClock) -> Iterator[SqliteLedger]:
    ledger = SqliteLedger(Database(str(path)), clock=clock)
    try:
        yield ledger
    finally:
        ledger.close()


def edited(*values: Any) -> str | bytes:
    body, old, new = values
    return pack(unpack(body).replace(old, new))


def tamper(path: Path, *statements: str) -> None:
    connection = apsw.Connection(str(path))
    connection.create_scalar_function("edited", edited, 3)
    for statement in statements:
        connection.execute(statement)
    connection.close()


EDITS = {
    "a word of a segment": "UPDATE texts SET body = 'Ada has 9 hives.' WHERE body = 'Ada has 3 hives.'",
    "a word of a long segment": "UPDATE texts SET body = 'y' WHERE length(body) <> 16",
    "a missing text": "PRAGMA foreign_keys = OFF; DELETE FROM texts",
    "a missing segment": "DELETE FROM segments",
    "an object's content": "UPDATE revisions SET body = edited(body, 'Hive', 'Nest') WHERE id LIKE 'node:%'",
    "a text that is not UTF-8": "UPDATE revisions SET body = replace(body, 'Hive', 'Nest') WHERE id LIKE 'node:%'",
    "an object's place in history": "UPDATE objects SET updated_at = created_at",
    "what knowledge rests on": "DELETE FROM dependencies",
    "what objects refer to": "DELETE FROM referrers",
    "the place of a segment": "UPDATE segments SET place = edited(place, '0', '7')",
    "a segment that seems to have vanished": "UPDATE segments SET vanished = 1",
    "an object's state": "UPDATE objects SET status = 'archived' WHERE type = 'node'",
    "an object's scope": "UPDATE objects SET scope = '/hidden' WHERE type = 'node'",
    "an object's title": "UPDATE objects SET title = 'Nest' WHERE type = 'node'",
    "a missing object": "DELETE FROM objects WHERE type = 'node'",
    "a missing revision": "DELETE FROM revisions WHERE id LIKE 'node:%' AND revision = 1",
    "a revision that is not JSON": "UPDATE revisions SET body = '{' WHERE id LIKE 'node:%' AND revision = 1",
    "a revision that is not an object": "UPDATE revisions SET body = '{}' WHERE id LIKE 'node:%' AND revision = 1",
    "a revision that does not decompress": "UPDATE revisions SET body = x'00' WHERE id LIKE 'node:%' AND revision = 2",
    "a revision given to another object": "UPDATE revisions SET id = 'node:x' WHERE id LIKE 'node:%' AND revision = 1",
    "a revision moved in time": "UPDATE revisions SET seq = 1 WHERE id LIKE 'node:%' AND revision = 2",
    "a missing link": "DELETE FROM links",
    "a link to something else": "UPDATE links SET target = source",
    "a link cut short": "UPDATE links SET removed = added",
    "a decision nobody made": """UPDATE patches SET status = 'applied', body = edited(body, '"proposed"', '"applied"')
                                 WHERE status = 'proposed'""",
    "who made a patch": "UPDATE patches SET body = edited(body, 'ada', 'eve') WHERE status = 'applied'",
    "why a patch was made": """UPDATE patches SET body = edited(body, '"reason":""', '"reason":"So."')""",
    "what a patch did": "UPDATE patches SET body = edited(body, 'Maybe', 'Nest') WHERE status = 'proposed'",
    "a missing patch": "DELETE FROM patches WHERE status = 'applied'",
    "a row of a patch": "UPDATE patches SET status = 'rejected' WHERE status = 'proposed'",
    "an event's author": "UPDATE audit SET body = edited(body, 'ada', 'eve') WHERE seq = 2",
    "an event's time": "UPDATE audit SET timestamp = '2020-01-01T00:00:00.000000Z' WHERE seq = 2",
    "an event that is not JSON": "UPDATE audit SET body = '{' WHERE seq = 2",
    "a missing event": "DELETE FROM audit WHERE seq = 2",
    "a missing first event": "DELETE FROM audit WHERE seq = 1",
    "two events in another order": "UPDATE audit SET seq = CASE seq WHEN 2 THEN -3 ELSE -2 END WHERE seq IN (2, 3);"
    "UPDATE audit SET seq = -seq WHERE seq < 0",
    "a cut tail": "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)",
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_behind_the_ledgers_back_does_not_verify(space: Path, clock: SteppingClock, edit: str) -> None:
    tamper(space, *EDITS[edit].split(";"))
    with opened(space, clock) as ledger, pytest.raises(Corrupt):
        ledger.verify()


def test_a_tail_cut_with_everything_in_it_shows_against_the_anchor(space: Path, clock: SteppingClock) -> None:
    with opened(space, clock) as ledger:
        anchor = ledger.verify()
    tamper(
        space,
        "DELETE FROM patches WHERE status = 'proposed'",
        "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)",
    )
    with opened(space, clock) as ledger:
        ledger.verify()
        with pytest.raises(Corrupt):
            ledger.verify(anchor=anchor)


def test_a_restored_older_copy_shows_against_the_anchor(
    space: Path, tmp_path: Path, clock: SteppingClock, make: Builder
) -> None:
    copy = shutil.copy(space, tmp_path / "backup.db")
    with opened(space, clock) as ledger:
        ledger.commit(make.patch(make.node("Later")))
        anchor = ledger.verify()
    shutil.copy(copy, space)
    with opened(space, clock) as ledger:
        ledger.verify()
        with pytest.raises(Corrupt):
            ledger.verify(anchor=anchor)


@pytest.mark.parametrize("body", ["'{'", "'{}'", "'[]'", "x'00'"])
def test_reading_a_damaged_row_says_that_the_space_is_corrupt(space: Path, clock: SteppingClock, body: str) -> None:
    with opened(space, clock) as ledger:
        identity = next(ledger.select(Selection(types=("node",)))).id
        patch_id = ledger.patches()[0].id
    tamper(space, *(f"UPDATE {table} SET body = {body}" for table in ("revisions", "audit", "patches")))
    with opened(space, clock) as ledger:
        for read in (
            lambda: ledger.get(identity),
            lambda: ledger.history(identity),
            lambda: list(ledger.events()),
            lambda: ledger.patch(patch_id),
            lambda: ledger.patches(),
        ):
            with pytest.raises(Corrupt):
                read()


def test_change_feed_reports_a_removed_revision(space: Path, clock: SteppingClock) -> None:
    tamper(space, "DELETE FROM revisions WHERE id LIKE 'node:%' AND revision = 1")
    with opened(space, clock) as ledger, pytest.raises(Corrupt, match=r"revision 1 of node:.* is missing"):
        ledger.changes(0, 100)


REVIEWED = Policy(direct_channels=frozenset({"user"}))


def test_commit_obeys_the_policy_in_force(space: Path, clock: SteppingClock, make: Builder) -> None:
    with opened(space, clock) as one, opened(space, clock) as other:
        one.commit(make.patch(make.node("Box"), by=author("agent")))
        other.change_policy(REVIEWED, by=ADA)
        assert one.policy == REVIEWED
        with pytest.raises(Denied):
            one.commit(make.patch(make.node("Tub"), by=author("agent")))


def test_policy_of_the_space_precedes_the_default(space: Path, clock: SteppingClock) -> None:
    with opened(space, clock) as ledger:
        ledger.change_policy(REVIEWED, by=ADA)
    given = SqliteLedger(Database(str(space)), clock=clock, policy=Policy(self_approval=True))
    assert given.policy == REVIEWED
    given.close()


@pytest.mark.parametrize(
    "edit",
    [
        """UPDATE audit SET body = edited(body, '["user"]', '["agent","user"]') WHERE target = 'policy'""",
        "UPDATE audit SET body = edited(body, 'direct_channels', 'direct') WHERE target = 'policy'",
        "UPDATE audit SET body = (SELECT body FROM audit WHERE seq = 1) WHERE target = 'policy'",
        "UPDATE audit SET body = '{' WHERE target = 'policy'",
    ],
)
def test_a_policy_that_was_changed_behind_the_ledgers_back_is_not_obeyed(
    space: Path, clock: SteppingClock, make: Builder, edit: str
) -> None:
    with opened(space, clock) as ledger:
        ledger.change_policy(REVIEWED, by=ADA)
    tamper(space, edit)
    with opened(space, clock) as ledger:
        for use in (
            lambda: ledger.policy,
            lambda: ledger.commit(make.patch(make.node("Tub"), by=author("agent"))),
            ledger.verify,
        ):
            with pytest.raises(Corrupt):
                use()


def test_a_policy_whose_event_was_removed_or_renamed_does_not_verify(space: Path, clock: SteppingClock) -> None:
    with opened(space, clock) as ledger:
        ledger.change_policy(REVIEWED, by=ADA)
        ledger.change_policy(Policy(), by=ADA)
    tamper(space, "UPDATE audit SET target = 'x' WHERE target = 'policy' AND seq = 7")
    with opened(space, clock) as ledger, pytest.raises(Corrupt):
        ledger.verify()


def test_an_anchor_follows_whatever_is_written(tmp_path: Path, clock: SteppingClock, make: Builder) -> None:
    kept = FileAnchor(tmp_path / "anchor.json")
    ledger = SqliteLedger(Database(MEMORY), clock=clock, anchor=kept)
    patches = [make.patch(make.node(name), by=author("agent")) for name in ("Hive", "Box", "Tub")]
    written: list[Callable[[], object]] = [
        lambda: ledger.commit(patches[0]),
        lambda: ledger.propose(patches[1]),
        lambda: ledger.propose(patches[2]),
        lambda: ledger.approve(patches[1].id, by=ADA),
        lambda: ledger.reject(patches[2].id, by=ADA, reason=""),
        lambda: ledger.revert(patches[0].id, by=ADA, reason=""),
    ]
    for write in written:
        before = ledger.verify()
        write()
        assert before != kept.read() == ledger.verify()
    ledger.close()


class Told:
    """A follower that remembers what it is told."""

    def __init__(self) -> None:
        self.told: list[list[Change]] = []

    def is_prepared(self, _connection: apsw.Connection) -> bool:
        return True

    def prepare(self, _connection: apsw.Connection) -> None:
        pass

    def follow(self, _connection: apsw.Connection, changes: Sequence[Change]) -> None:
        self.told.append(list(changes))


def test_follower_receives_changes_with_both_revisions(clock: SteppingClock, make: Builder) -> None:
    follower, one, two = Told(), make.node("Hive"), make.node("Box")
    ledger = SqliteLedger(Database(MEMORY), clock=clock, followers=[follower])
    ledger.commit(make.patch(one, two))
    first, second = ledger.get(one.id), ledger.get(two.id)
    ledger.commit(make.patch(AddLink(link=Link(type="about", source=one.id, target=two.id))))
    ledger.commit(make.patch(Update(id=two.id, expected_revision=1, changes={"name": "Tub"})))
    renamed = ledger.get(two.id)
    ledger.commit(make.patch(Erase(id=two.id, expected_revision=2)))
    assert follower.told == [
        [Change(1, one.id, None, first), Change(2, two.id, None, second)],
        [Change(4, two.id, second, renamed)],
        [Change(5, two.id, renamed, None)],
    ]
    ledger.close()


def test_an_anchor_follows_a_changed_policy_and_an_import(tmp_path: Path, clock: SteppingClock, make: Builder) -> None:
    old = SqliteLedger(Database(MEMORY), clock=clock)
    old.commit(make.patch(make.node("Hive")))
    path, kept = str(tmp_path / "new.db"), FileAnchor(tmp_path / "anchor.json")
    new = SqliteLedger(Database(path), clock=clock, anchor=kept)
    new.change_policy(Policy(self_approval=True), by=ADA)
    new.change_policy(REVIEWED, by=ADA)
    assert kept.read() == new.verify()
    new.load(old.records())
    assert kept.read() == new.verify()
    new.close()
    again = SqliteLedger(Database(path), clock=clock, anchor=kept)
    assert (again.policy, again.verify().seq) == (REVIEWED, 2)
    again.close()
    old.close()


def test_an_export_with_a_patch_twice_is_refused(clock: SteppingClock, make: Builder) -> None:
    old, new = (SqliteLedger(Database(MEMORY), clock=clock) for _ in range(2))
    old.commit(make.patch(make.node("Hive")))
    records = list(old.records())
    with pytest.raises(InvalidInput, match="a patch twice"):
        new.load([*records, *(record for record in records if record.table == "patch")])
    assert new.sequence() == 0
    old.close()
    new.close()


@pytest.mark.parametrize("ids_per_object", [1, 3])
def test_selection_is_the_same_in_small_batches(
    tmp_path: Path, clock: SteppingClock, make: Builder, monkeypatch: pytest.MonkeyPatch, ids_per_object: int
) -> None:
    monkeypatch.setattr(rows_ledger, "_BATCH", 2)
    monkeypatch.setattr(rows_ledger, "_IDS_PER_OBJECT", ids_per_object)
    with opened(tmp_path / "space.db", clock) as ledger:
        nodes = [make.node(f"Node {number}", scope="/a" if number % 2 else "/b") for number in range(9)]
        seq = ledger.commit(make.patch(*nodes[:7])).sequence
        ledger.commit(make.patch(*nodes[7:], make.work("Do it")))
        for wanted, selection in (
            (nodes, Selection(descend=True, types=("node",))),
            (nodes[:7], Selection(descend=True, types=("node",), as_of=seq)),
            (nodes[1::2], Selection("/a", types=("node",))),
            (nodes[6:], Selection(descend=True, types=("node",), newest=3)),
            (nodes[4::2], Selection("/b", types=("node",), newest=3)),
        ):
            assert [item.id for item in ledger.select(selection)] == [node.id for node in wanted]


def test_content_survives_reopening(space: Path, clock: SteppingClock, make: Builder) -> None:
    with opened(space, clock) as ledger:
        before = list(ledger.records())
    with opened(space, clock) as ledger:
        assert list(ledger.records()) == before
        ledger.commit(make.patch(make.node("Later")))
        assert ledger.verify().seq == 7


def test_erased_words_are_in_no_file_after_compaction(space: Path, clock: SteppingClock, make: Builder) -> None:
    with opened(space, clock) as ledger:
        source = make.source("plugh-xyzzy " * 3, "plover " * 200, origin="secret.md", title="plugh-xyzzy")
        ledger.commit(make.patch(source))
        ledger.commit(make.patch(Erase(id=source.id, expected_revision=1)))
        ledger.compact()
        files = [path.read_bytes() for path in space.parent.iterdir()]
        assert not any(word in content for content in files for word in (b"plugh-xyzzy", b"plover"))
        ledger.verify()


def test_only_an_erasure_leaves_something_to_overwrite(space: Path, clock: SteppingClock, make: Builder) -> None:
    node = make.node("Box")
    with opened(space, clock) as ledger:
        ledger.commit(make.patch(node))
        assert list(ledger._database.rows("SELECT * FROM overwriting")) == []
        erased = ledger.commit(make.patch(Erase(id=node.id, expected_revision=1)))
        assert list(ledger._database.rows("SELECT seq, vacuumed FROM overwriting")) == [(erased.sequence, 0)]
        assert ledger.compact() == ()
        assert list(ledger._database.rows("SELECT * FROM overwriting")) == []


def test_readers_do_not_wait_for_a_writer(space: Path, clock: SteppingClock) -> None:
    database = Database(str(space), wait_seconds=0.05)
    with opened(space, clock) as ledger, database.write():
        assert ledger.sequence() == 6
    database.close()


def test_writer_times_out(space: Path, clock: SteppingClock, make: Builder) -> None:
    stuck = Database(str(space))
    waiting = SqliteLedger(Database(str(space), wait_seconds=0.05), clock=clock)
    with stuck.write(), pytest.raises(Unavailable):
        waiting.commit(make.patch(make.node("Later")))
    waiting.commit(make.patch(make.node("Later")))
    waiting.close()
    stuck.close()


def test_a_closed_space_says_so(space: Path, clock: SteppingClock, make: Builder) -> None:
    with opened(space, clock) as ledger:
        pass
    for use in (ledger.sequence, lambda: ledger.commit(make.patch(make.node("Later")))):
        with pytest.raises(Unavailable):
            use()
    ledger.close()


def test_a_space_of_a_newer_treering_is_left_alone(space: Path, clock: SteppingClock) -> None:
    tamper(space, "PRAGMA user_version = 999")
    before = space.read_bytes()
    with pytest.raises(InvalidInput, match="newer"):
        SqliteLedger(Database(str(space)), clock=clock)
    assert space.read_bytes() == before


def test_a_database_of_another_program_is_left_alone(tmp_path: Path, clock: SteppingClock) -> None:
    path = tmp_path / "other.db"
    tamper(path, "CREATE TABLE recipes(name TEXT)")
    with pytest.raises(Corrupt, match="another program"):
        SqliteLedger(Database(str(path)), clock=clock)


def test_segments_of_many_sources_are_checked_in_a_few_statements(tmp_path: Path) -> None:
    clock = SteppingClock()
    make, database = Builder(clock), Database(str(tmp_path / "space.db"))
    ledger = SqliteLedger(database, clock=clock)
    sources = [make.source(f"Bees {n}.", f"Ants {n}.", origin=str(n)) for n in range(20)]
    ledger.commit(make.patch(*sources))
    places = [(source.id, segment.segment_id) for source in sources for segment in source.segments]
    statements: list[str] = []
    with database.read() as connection:

        def note(_cursor: apsw.Cursor, sql: str, _bindings: object) -> bool:
            statements.append(sql)
            return True

        connection.exec_trace = note
        assert list(ledger.segments(places)) == places
    assert sum("revisions" in sql or "audit" in sql for sql in statements) <= 4
    ledger.close()
