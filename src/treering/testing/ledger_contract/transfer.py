"""Export and import: an identical ledger, or none."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from treering.core.audit import GENESIS, Anchor
from treering.core.errors import Conflict, Corrupt, InvalidInput, InvalidPatch
from treering.core.patch import AddLink, Link, RemoveLink
from treering.extensions.sharing.copying import copy_ledger, part_of
from treering.extensions.sharing.ledger_parts import append
from treering.ports.ledger import Ledger, Record, Selection
from treering.testing.builders import ADA, Builder, author
from treering.testing.ledger_contract.stage import (
    LedgerStage,
    OpenLedger,
    contents,
    erasing,
    moving,
    status_of,
    updating,
    work_of,
)

Rows = list[Record]


class Transfer(LedgerStage):
    """`records` and `load`."""

    def test_a_loaded_ledger_is_identical(self, open_ledger: OpenLedger, make: Builder) -> None:
        old, new = open_ledger(), open_ledger()
        _live(old, make)
        new.load(old.records())
        assert contents(new) == contents(old)
        assert new.verify() == old.verify()
        assert list(new.changes(0, 100)) == list(old.changes(0, 100))
        for item in old.select(Selection()):
            assert new.history(item.id) == old.history(item.id)
            assert list(new.links(item.id, as_of=6)) == list(old.links(item.id, as_of=6))

    def test_a_loaded_ledger_goes_on(self, open_ledger: OpenLedger, make: Builder) -> None:
        old, new = open_ledger(), open_ledger()
        source = make.source("3 hives.")
        fact = make.fact("Ada", "hives", 3, make.evidence(source))
        first = old.commit(make.patch(source, fact), idempotency_key="k")
        new.load(old.records())
        assert new.commit(make.patch(make.node("Other")), idempotency_key="k").patch_id == first.patch_id
        rival = make.fact("Ada", "hives", 4, make.evidence(source))
        assert set(new.commit(make.patch(rival)).contested) == {fact.id, rival.id}
        new.commit(make.patch(moving(source.id, 1, "archived")))
        assert status_of(new, fact.id) == ["stale"]
        assert new.verify(anchor=Anchor(seq=first.sequence, hash=first.head)).seq > first.sequence

    def test_a_ledger_that_is_not_empty_takes_no_import(self, open_ledger: OpenLedger, make: Builder) -> None:
        old, new = open_ledger(), open_ledger()
        old.commit(make.patch(make.node("One")))
        new.commit(make.patch(make.node("Two")))
        before = contents(new)
        with pytest.raises(Conflict):
            new.load(old.records())
        assert contents(new) == before

    @pytest.mark.parametrize(
        "forge",
        [
            *("word", "body", "status", "revision", "event", "order", "link", "patch"),
            *("a patch's author", "a patch's reason", "a patch's effects", "a proposal", "a missing patch"),
            *("a patch nobody made", "a patch's scope", "a patch's salt"),
        ],
    )
    def test_an_export_that_was_tampered_with_is_refused(
        self, open_ledger: OpenLedger, make: Builder, forge: str
    ) -> None:
        old, new = open_ledger(), open_ledger()
        _live(old, make)
        with pytest.raises((Corrupt, InvalidInput)):
            new.load(_FORGERIES[forge](list(old.records())))
        assert contents(new) == []

    def test_an_export_whose_end_was_cut_shows_against_the_anchor(self, open_ledger: OpenLedger, make: Builder) -> None:
        old, new = open_ledger(), open_ledger()
        old.commit(make.patch(make.node("One")))
        early = list(old.records())
        old.commit(make.patch(make.node("Two")))
        new.load(early)
        with pytest.raises(Corrupt):
            new.verify(anchor=old.verify())

    @pytest.mark.parametrize("size", [1, 3, 200])
    def test_a_ledger_that_is_copied_in_parts_is_identical(
        self, open_ledger: OpenLedger, make: Builder, size: int
    ) -> None:
        old, new = open_ledger(), open_ledger()
        _live(old, make)
        report = copy_ledger(old, new, told=_nobody, part=size)
        assert contents(new) == contents(old)
        assert new.verify() == old.verify() == report.head
        assert sum(report.counts.values()) == len(contents(old))
        for item in old.select(Selection()):
            assert new.history(item.id) == old.history(item.id)

    @pytest.mark.parametrize("broken_off", range(0, 12, 2))
    def test_a_copy_that_was_broken_off_goes_on_though_things_were_written_and_erased_since(
        self, open_ledger: OpenLedger, make: Builder, broken_off: int
    ) -> None:
        old, new = open_ledger(), open_ledger()
        _live(old, make)
        if broken_off:
            new.transact(partial(append, part=part_of(old, Anchor(seq=0, hash=GENESIS), broken_off)))
        source, node = next(old.select(Selection(types=("source",)))), next(old.select(Selection(types=("node",))))
        old.commit(make.patch(erasing(source.id, source.revision)))
        old.commit(make.patch(updating(node.id, node.revision, name="Later")))
        copy_ledger(old, new, told=_nobody, part=2)
        assert contents(new) == contents(old)
        old.commit(make.patch(make.node("More")), idempotency_key="more")
        copy_ledger(old, new, told=_nobody)
        assert contents(new) == contents(old)

    def test_a_ledger_that_holds_something_else_takes_no_copy(self, open_ledger: OpenLedger, make: Builder) -> None:
        old, new = open_ledger(), open_ledger()
        _live(old, make)
        new.commit(make.patch(make.node("Mine")))
        before = contents(new)
        with pytest.raises(Conflict, match="not empty"):
            copy_ledger(old, new, told=_nobody)
        with pytest.raises(Conflict, match="another process wrote"):
            new.transact(partial(append, part=part_of(old, Anchor(seq=0, hash=GENESIS), 5)))
        assert contents(new) == before

    def test_records_of_some_tables_are_those_of_all(self, open_ledger: OpenLedger, make: Builder) -> None:
        ledger = open_ledger()
        _live(ledger, make)
        some = [record for record in ledger.records() if record.table in {"patch", "link"}]
        assert list(ledger.records(only=("patch", "link"))) == some

    def test_what_is_no_export_is_refused(self, open_ledger: OpenLedger) -> None:
        new = open_ledger()
        for record in (Record("weather", {}), Record("event", {"seq": 1}), Record("revision", {})):
            with pytest.raises(InvalidInput):
                new.load([record])
            assert contents(new) == []


def _nobody(_what: str, _done: int, _total: int | None) -> None:
    """Ignore progress."""


def _live(ledger: Ledger, make: Builder) -> None:
    source, node = make.source("3 hives.", "Bees."), make.node("Hive")
    fact = make.fact("Ada", "hives", 3, make.evidence(source))
    link = Link(type="about", source=fact.id, target=node.id)
    other = Link(type="references", source=fact.id, target=source.id)
    gone = make.node("Gone")
    ledger.commit(make.patch(source, node, fact, gone, AddLink(link=link), AddLink(link=other)), idempotency_key="k")
    ledger.commit(make.patch(updating(source.id, segments=[])))
    ledger.commit(make.patch(RemoveLink(link=link)))
    ledger.commit(make.patch(erasing(gone.id)))
    ledger.propose(make.patch(make.node("Maybe"), by=author("agent")))
    done = ledger.commit(make.patch(updating(node.id, name="Box")))
    ledger.revert(done.patch_id, by=ADA, reason="Wrong.")


def _changed(table: str, **changes: object) -> Callable[[Rows], Rows]:
    """Change the last row of a table."""

    def forge(rows: Rows) -> Rows:
        place = max(index for index, record in enumerate(rows) if record.table == table)
        rows[place] = replace(rows[place], row={**rows[place].row, **changes})
        return rows

    return forge


def _with_another_status(rows: Rows) -> Rows:
    place = max(index for index, record in enumerate(rows) if record.table == "revision")
    row = rows[place].row
    rows[place] = replace(rows[place], row={**row, "body": {**row["body"], "status": "archived"}})
    return rows


def _without_last(table: str) -> Callable[[Rows], Rows]:
    def forge(rows: Rows) -> Rows:
        place = max(index for index, record in enumerate(rows) if record.table == table)
        return rows[:place] + rows[place + 1 :]

    return forge


def _with_another_proposal(rows: Rows) -> Rows:
    place = next(i for i, one in enumerate(rows) if one.table == "patch" and one.row["status"] == "proposed")
    (operation,) = rows[place].row["operations"]
    forged = {**operation, "object": {**operation["object"], "name": "Certainly"}}
    rows[place] = replace(rows[place], row={**rows[place].row, "operations": [forged]})
    return rows


def _with_a_forged_patch(rows: Rows) -> Rows:
    place = max(index for index, record in enumerate(rows) if record.table == "patch")
    forged = {**rows[place].row, "id": "patch:00000000000000000000000000"}
    return [*rows, Record("patch", forged)]


def _renumbered(rows: Rows) -> Rows:
    first, second = rows[0], rows[1]
    rows[0] = replace(first, row={**second.row, "seq": 1})
    rows[1] = replace(second, row={**first.row, "seq": 2})
    return rows


_FORGERIES: dict[str, Callable[[Rows], Rows]] = {
    "word": _changed("segment", text="4 hives."),
    "body": _changed("revision", seq=1),
    "status": _with_another_status,
    "revision": _without_last("revision"),
    "event": _without_last("event"),
    "order": _renumbered,
    "link": _changed("link", removed=None, target="node:00000000000000000000000000"),
    "patch": _changed("patch", status="proposed"),
    "a patch's author": _changed("patch", source={"actor": "eve", "channel": "user", "tool": ""}),
    "a patch's reason": _changed("patch", reason="Ada asked for it."),
    "a patch's effects": _changed("patch", effects=[]),
    "a patch's scope": _changed("patch", scope="/elsewhere"),
    "a patch's salt": _changed("patch", salt="0" * 32),
    "a proposal": _with_another_proposal,
    "a missing patch": _without_last("patch"),
    "a patch nobody made": _with_a_forged_patch,
}


# Work items: their order, their family, and how they end.


class Work(LedgerStage):
    """Rules of work items."""

    def test_work_that_waits_on_itself_is_refused_and_the_cycle_printed(self, ledger: Ledger, make: Builder) -> None:
        one = make.work("One")
        two = make.work("Two", depends_on=(one.id,))
        three = make.work("Three", depends_on=(two.id,))
        ledger.commit(make.patch(one, two, three))
        with pytest.raises(InvalidPatch) as refused:
            ledger.commit(make.patch(updating(one.id, 1, depends_on=[three.id])))
        assert f"{one.id} -> {three.id} -> {two.id} -> {one.id}" in refused.value.message

    def test_a_parent_knows_its_children(self, ledger: Ledger, make: Builder) -> None:
        old, new = make.work("Old parent"), make.work("New parent")
        child = make.work("Child", parent_ref=old.id)
        ledger.commit(make.patch(old, new, child))
        assert work_of(ledger, old.id).child_refs == (child.id,)
        ledger.commit(make.patch(updating(child.id, 1, parent_ref=new.id)))
        assert work_of(ledger, old.id).child_refs == ()
        assert work_of(ledger, new.id).child_refs == (child.id,)
