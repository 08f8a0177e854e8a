"""Spaces that grew apart become one, whatever the order of merging."""

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

import treering
from treering.core.audit import Anchor, AuditEvent
from treering.core.errors import Corrupt, InvalidInput, TreeringError
from treering.core.evidence import EvidenceRef, Lines
from treering.core.objects import Knowledge, Object, Source
from treering.core.patch import (
    AddLink,
    Author,
    Erase,
    Link,
    MoveScope,
    Operation,
    RemoveLink,
    Supersede,
    Transition,
    Update,
)
from treering.core.policy import Policy
from treering.core.versions import HeldContents, known_branches
from treering.core.writing.journal import MERGE
from treering.extensions.sharing.merge_rules.entries import MAP, same_words
from treering.extensions.sharing.merge_rules.merge import Merged
from treering.extensions.sharing.merge_rules.notices import is_notice
from treering.extensions.sharing.merging import difference, entries, log_name, merge_ledger, receive
from treering.extensions.sharing.withholding import Outgoing
from treering.ports.adapter import BranchRead, SegmentDraft, SourceDraft
from treering.ports.ledger import Ledger, Selection
from treering.surfaces.cli import run
from treering.testing.builders import ADA, Builder
from treering.testing.fakes import START, SteppingClock
from treering.testing.memory_ledger import MemoryLedger
from treering.verbs.ingest.changes import SourceChanges, SourceGone, SourceToWrite
from treering.verbs.ingest.known import KnownSources

PRIVATE = Policy(private_scopes=frozenset({"/me"}))
MERGER = Author(actor="ada", channel="user", tool="merge")


class Replica:
    """A space, whoever writes to it, and a clock that may be days wrong."""

    def __init__(self, name: str, days: int) -> None:
        clock = self.clock = SteppingClock(START, seed=name, ahead=timedelta(days=days))
        self.make = Builder(clock)
        self.name = name
        self.commits = 0
        self.ledger: Ledger = MemoryLedger(clock=clock, policy=PRIVATE)

    def read_branch(self, branch: str, words: str | None, path: str = "a.py") -> None:
        """Read a file of a branch, as ingest does; `None`: the branch has no such file. A word is a line."""
        here = {getattr(one, "origin", ""): one for one in self.current().values() if one.status != "archived"}
        known = here["repo"].payload if isinstance(here.get("repo"), Source) else {}
        self.commits += 1
        read = BranchRead(root="repo", branch=branch, commit=f"{self.name}-{self.commits}", known=known)
        file = SourceGone(f"repo#{path}")
        if words is not None:
            lines = [SegmentDraft(Lines(path=path, start=at, end=at), word) for at, word in enumerate(words.split(), 1)]
            draft = SourceDraft("file", f"repo#{path}", path, f"git-blob:{words}", "text", lines)
            file = SourceToWrite(draft)
        top = SourceToWrite(SourceDraft("repo", "repo", "repo", f"map:{read.commit}", "repo_map"))
        changes = SourceChanges(
            [top, file],
            known_sources=KnownSources(self.ledger, scope="/"),
            scope="/",
            clock=self.clock,
            branches=[read],
        )
        if operations := changes.operations():
            self.ledger.commit(self.make.patch(*operations))

    def held(self, path: str = "a.py") -> dict[str, str]:
        """Return the lines of a file by the branches that they stand on, by the segments that say so."""
        found = [one for one in self.current().values() if getattr(one, "origin", "") == f"repo#{path}"]
        (file,) = [one for one in found if isinstance(one, Source) and one.status == "active"] or [None]
        told: dict[str, str] = {}
        for one in HeldContents.parse(file.fingerprint).each if file else ():
            placed = [(part.place_in_contents(one.fingerprint), part.excerpt) for part in file.segments]
            lines = " ".join(word for _, word in sorted((at.start, word) for at, word in placed if at))
            assert one.fingerprint == f"git-blob:{lines}"
            told |= dict.fromkeys(one.branches or ("*",), lines)
        return told

    def current(self) -> dict[str, Object]:
        return {item.id: item for item in self.ledger.select(Selection(descend=True))}

    def take(self, other: "Replica") -> None:
        merge_ledger(self.ledger, other.ledger, by=MERGER, name="another")


def alike(one: Replica, other: Replica) -> bool:
    ours, theirs = one.current(), other.current()
    return ours.keys() == theirs.keys() and all(same_words(ours[key], theirs[key]) for key in ours)


def test_what_two_spaces_say_against_each_other_is_contested_in_both_and_nothing_is_lost() -> None:
    one, other = Replica("one", 0), Replica("other", 1)
    first, second = (replica.make.source(f"The port is {port}.") for replica, port in ((one, 1), (other, 2)))
    for replica, source, port in ((one, first, 1), (other, second, 2)):
        fact = replica.make.fact("web", "port", port, replica.make.evidence(source), status="active")
        replica.ledger.commit(replica.make.patch(source.model_copy(update={"origin": f"{port}.md"}), fact))
    one.take(other)
    other.take(one)
    facts = [item for item in one.current().values() if isinstance(item, Knowledge)]
    assert [fact.status for fact in facts] == ["contested", "contested"]
    assert alike(one, other)
    assert difference(one.ledger, other.ledger).differences == ()
    one.ledger.verify()
    other.ledger.verify()


def met(*replicas: Replica) -> None:
    """Have all know what each knows."""
    for _ in range(2):
        for one in replicas:
            for other in replicas:
                if one is not other:
                    one.take(other)


def met_in_turn(replicas: Sequence[Replica]) -> None:
    """Have all know what each knows, and each merge the last ones first."""
    for _ in range(2):
        for one in replicas:
            for other in reversed(replicas):
                if one is not other:
                    one.take(other)


def grown(first: Replica, *names: str) -> list[Replica]:
    """Return copies of a replica, each with a name and a clock of its own."""
    copies = [Replica(name, 0) for name in names]
    for copy in copies:
        copy.take(first)
    return copies


def test_each_of_two_people_reads_a_branch_of_their_own_and_both_are_in_both_spaces() -> None:
    first = Replica("first", 0)
    first.read_branch("main", "one two")
    ada, bob = grown(first, "ada", "bob")
    ada.read_branch("feature/a", "one ada two")
    bob.read_branch("feature/b", "one two bob")
    met(ada, bob)
    assert ada.held() == {"main": "one two", "feature/a": "one ada two", "feature/b": "one two bob"}
    assert bob.held() == ada.held()
    assert alike(ada, bob)
    (top,) = [one for one in ada.current().values() if isinstance(one, Source) and one.origin == "repo"]
    assert set(known_branches(top.payload)) == {"main", "feature/a", "feature/b"}
    ada.ledger.verify()


def test_people_who_never_met_and_read_different_branches_of_one_repository_know_both() -> None:
    ada, bob = Replica("ada", 0), Replica("bob", 0)
    for who, branch in ((ada, "feature/a"), (bob, "feature/b")):
        who.read_branch("main", "one two")
        who.read_branch(branch, f"one {branch[-1]} two")
    (file,) = [one for one in bob.current().values() if getattr(one, "origin", "") == "repo#a.py"]
    words = next(number for number, part in enumerate(file.segments) if part.excerpt == "b")
    fact = bob.make.fact("b", "is", "there", bob.make.evidence(file, words), status="active")
    bob.ledger.commit(bob.make.patch(fact))
    met(bob, ada)
    assert ada.held() == {"main": "one two", "feature/a": "one a two", "feature/b": "one b two"}
    assert alike(ada, bob)
    assert ada.ledger.get(fact.id).status == "active", "its words stand on feature/b"


def test_a_file_that_one_reader_knew_on_every_branch_is_on_the_branches_which_that_reader_knew() -> None:
    ada, bob, eve = Replica("ada", 0), Replica("bob", 0), Replica("eve", 0)
    ada.read_branch("main", "one")
    ada.read_branch("main", "ours", "ada.py")
    bob.read_branch("feature", "one")
    bob.read_branch("feature", "clover", "bob.py")
    met(ada, bob)
    eve.take(bob)
    for who in (ada, bob, eve):
        assert who.held() == {"*": "one"}
        assert who.held("ada.py") == {"main": "ours"}
        assert who.held("bob.py") == {"feature": "clover"}
        who.ledger.verify()
    assert alike(ada, bob)
    ada.read_branch("main", "clover", "bob.py")
    eve.read_branch("later", "one")
    met(ada, bob, eve)
    assert ada.held() == {"*": "one"}
    assert ada.held("bob.py") == {"feature": "clover", "main": "clover"}, "eve did not know that it is on each"
    assert alike(ada, eve)


def test_who_changes_a_file_knowing_one_branch_does_not_change_the_branch_that_another_read_meanwhile() -> None:
    first = Replica("first", 0)
    first.read_branch("main", "one")
    first.read_branch("main", "both", "b.py")
    ada, bob = grown(first, "ada", "bob")
    bob.read_branch("dev", "one")
    ada.read_branch("main", "one two")
    ada.read_branch("main", None, "b.py")
    met(ada, bob)
    assert ada.held() == {"main": "one two", "dev": "one"} == bob.held()
    assert ada.held("b.py") == {"dev": "both"} == bob.held("b.py"), "whoever removed it knew main alone"
    assert alike(ada, bob)
    ada.read_branch("dev", None, "b.py")
    ada.read_branch("main", "anew", "b.py")
    met(ada, bob)
    assert bob.held("b.py") == {"main": "anew"}
    assert alike(ada, bob)


def test_a_branch_that_someone_reads_who_knew_a_file_everywhere_has_it_too() -> None:
    first = Replica("first", 0)
    first.read_branch("main", "one")
    ada, bob = grown(first, "ada", "bob")
    bob.read_branch("main", "zero", "b.py")
    ada.read_branch("dev", "one")
    met(ada, bob)
    assert ada.held() == {"*": "one"} == bob.held()
    assert ada.held("b.py") == {"main": "zero"} == bob.held("b.py")
    ada.read_branch("topic", "one")
    ada.read_branch("topic", "zero", "b.py")
    met(ada, bob)
    assert bob.held("b.py") == {"main": "zero", "topic": "zero"}
    assert alike(ada, bob)


def test_of_one_branch_what_was_read_last_stands_and_of_another_what_it_had() -> None:
    first = Replica("first", 0)
    first.read_branch("main", "one")
    first.read_branch("work", "one two")
    ada, bob = grown(first, "ada", "bob")
    ada.read_branch("work", "one ada")
    bob.read_branch("work", "one bob")
    bob.read_branch("main", "zero")
    met(ada, bob)
    assert ada.held()["main"] == "zero"
    assert ada.held()["work"] in ("one ada", "one bob")
    assert ada.held() == bob.held()
    ada.read_branch("work", None)
    met(bob, ada)
    assert bob.held() == {"main": "zero"}


def test_a_branch_that_took_up_another_holds_the_same_everywhere_again() -> None:
    first = Replica("first", 0)
    first.read_branch("main", "one")
    ada, bob = grown(first, "ada", "bob")
    ada.read_branch("feature/a", "one ada")
    bob.read_branch("main", "one")
    met(ada, bob)
    bob.read_branch("main", "one ada")
    met(ada, bob)
    assert ada.held() == {"*": "one ada"} == bob.held()


def told(replica: Replica, port: int, origin: str = "x.md") -> Knowledge:
    """Write down a port and the file that names it."""
    source = replica.make.source(f"web port {port}", origin=origin)
    fact = replica.make.fact("web", "port", port, replica.make.evidence(source), status="active")
    replica.ledger.commit(replica.make.patch(source, fact))
    return fact


def change(replica: Replica, operation: type[Operation], identity: str, **fields: Any) -> None:
    revision = replica.ledger.get(identity).revision
    replica.ledger.commit(replica.make.patch(operation(id=identity, expected_revision=revision, **fields), by=ADA))


def statuses(replica: Replica) -> dict[str, str]:
    return {identity: item.status for identity, item in replica.current().items()}


def cited(replica: Replica, identity: str) -> tuple[EvidenceRef, ...]:
    item = replica.ledger.get(identity)
    assert isinstance(item, Knowledge)
    return item.evidence_refs


@pytest.mark.parametrize("title", ["red", "web port 2", "Порт"])
def test_erased_knowledge_takes_its_archived_copy_with_it(title: str) -> None:
    one, other = Replica("one", 0), Replica("other", 1)
    copy, fact = told(other, 2), told(one, 2)
    if title != fact.title:
        change(one, Update, fact.id, changes={"title": title})
    one.take(other)
    assert statuses(one)[copy.id] == "archived"
    change(one, Erase, fact.id)
    assert not {fact.id, copy.id} & one.current().keys()
    met(one, other)
    assert not any(isinstance(item, Knowledge) for item in other.current().values())
    assert alike(one, other)


@pytest.mark.parametrize(("ours", "theirs"), [(1, 2), (2, 2), (0, 1)])
def test_erased_source_takes_the_sources_that_gave_way_to_it(ours: int, theirs: int) -> None:
    one, other, third = Replica("one", 0), Replica("other", 1), Replica("third", 0)
    (older,), (newer,) = told(one, ours).evidence_refs, told(other, theirs).evidence_refs
    third.take(one)
    one.take(other)
    assert statuses(one)[older.source_id] == "archived"
    change(one, Erase, newer.source_id)
    met(third, one, other)
    for replica in (one, other, third):
        assert not {older.source_id, newer.source_id} & replica.current().keys()
        assert alike(one, replica)


def test_erased_node_takes_the_nodes_merged_into_it() -> None:
    one, other = Replica("one", 0), Replica("other", 1)
    first, second = one.make.node("Ada"), other.make.node("Ada")
    one.ledger.commit(one.make.patch(first))
    other.ledger.commit(other.make.patch(second))
    one.take(other)
    assert statuses(one) == {first.id: "active", second.id: "merged"}
    change(one, Erase, first.id)
    met(one, other)
    assert statuses(one) == {} == statuses(other)


def test_erasing_an_archived_copy_takes_its_evidence_away_everywhere() -> None:
    one, other, third = Replica("one", 0), Replica("other", 1), Replica("third", 0)
    fact, copy = told(one, 2, "x.md"), told(other, 2, "y.md")
    third.take(other)
    evidence = cited(one, fact.id)
    one.take(other)
    assert len(cited(one, fact.id)) == 2
    change(one, Erase, copy.id)
    assert one.ledger.get(fact.id).status == "active", "only the copy was erased"
    met(third, one, other)
    assert cited(one, fact.id) == evidence == cited(third, fact.id)
    assert alike(one, other)
    assert alike(one, third)


def test_erasing_one_of_two_facts_of_different_times_leaves_the_other() -> None:
    one = Replica("one", 0)
    now = told(one, 2)
    source = one.ledger.get(now.evidence_refs[0].source_id)
    assert isinstance(source, Source)
    evidence = one.make.evidence(source)
    then = one.make.fact("web", "port", 2, evidence, status="active", valid_until=START - timedelta(days=9))
    one.ledger.commit(one.make.patch(then))
    change(one, Transition, then.id, to="archived")
    change(one, Erase, now.id)
    assert statuses(one)[then.id] == "archived"


@pytest.mark.parametrize(
    ("operation", "fields"),
    [
        (Update, {"changes": {"payload": {"subject": "web", "predicate": "port", "value": 3}}}),
        (Update, {"changes": {"payload": {"subject": "db", "predicate": "port", "value": 2}}}),
        (MoveScope, {"to": "/team"}),
    ],
)
def test_copy_of_what_was_changed_after_a_merge_is_active_again(
    operation: type[Operation], fields: dict[str, Any]
) -> None:
    one, other = Replica("one", 0), Replica("other", 1)
    copy, fact = told(other, 2, "y.md"), told(one, 2, "x.md")
    one.take(other)
    change(one, operation, fact.id, **fields)
    met(one, other)
    assert statuses(one)[copy.id] in ("active", "contested")
    assert alike(one, other)


def test_files_of_an_erased_map_are_alike_whoever_read_them() -> None:
    ada, bob, eve = Replica("ada", 1), Replica("bob", -1), Replica("eve", 0)
    ada.read_branch("main", None)
    bob.take(ada)
    (top,) = bob.current()
    change(bob, Erase, top)
    ada.read_branch("f/a", "one")
    eve.take(ada)
    met(bob, ada, eve)
    for replica in (bob, eve):
        assert replica.held() == {"f/a": "one"} == ada.held()
        assert alike(ada, replica)


@pytest.mark.parametrize("is_copied", [True, False])
@pytest.mark.parametrize("is_read_again", [True, False])
def test_files_of_a_map_erased_in_one_copy_are_alike(*, is_copied: bool, is_read_again: bool) -> None:
    ada, bob = Replica("ada", 0), Replica("bob", 1)
    ada.read_branch("main", "one")
    ada.read_branch("f/a", None)
    if is_copied:
        bob.ledger.load(ada.ledger.records())
    else:
        bob.take(ada)
    if is_read_again:
        bob.read_branch("f/b", None)
    (top,) = [one.id for one in bob.current().values() if getattr(one, "origin", "") == "repo"]
    change(bob, Erase, top)
    ada.read_branch("f/c", "two")
    met(bob, ada)
    assert alike(ada, bob)
    assert ada.held() == bob.held()


def test_files_of_a_merged_map_are_settled_after_its_erasure() -> None:
    ada, bob, eve = Replica("ada", -1), Replica("bob", 0), Replica("eve", 1)
    ada.read_branch("main", "one")
    bob.take(ada)
    eve.take(ada)
    bob.read_branch("f/b", None)
    ada.read_branch("main", "one two", "b.py")
    ada.take(bob)
    ada.read_branch("main", None, "b.py")
    (top,) = [one.id for one in ada.current().values() if getattr(one, "origin", "") == "repo"]
    change(ada, Erase, top)
    met(ada, bob, eve)
    assert alike(ada, bob)
    assert alike(ada, eve)


def test_files_of_a_map_erased_before_its_first_merge_are_alike() -> None:
    ada, bob = Replica("ada", 0), Replica("bob", 1)
    ada.read_branch("main", "one")
    bob.read_branch("f/a", "two")
    bob.read_branch("f/b", "two")
    (top,) = [one.id for one in bob.current().values() if getattr(one, "origin", "") == "repo"]
    change(bob, Erase, top)
    met(ada, bob)
    assert alike(ada, bob)
    assert ada.held() == bob.held()


Steps = list[tuple[Any, ...]]
LOST_MAPS: dict[str, Steps] = {
    "before another space read the repository": [
        ("read", "a", "main", "one", "a.py"),
        ("read", "a", "f/b", "one", "b.py"),
        ("note", "c"),
        ("erase", "a"),
        ("read", "b", "f/b", "one", "a.py"),
    ],
    "in a copy whose files a third space received": [
        ("read", "a", "main", "one", "a.py"),
        ("copy", "b", "a"),
        ("read", "b", "f/b", "one", "b.py"),
        ("erase", "b"),
        ("take", "c", "b"),
        ("read", "b", "f/b", "two", "a.py"),
    ],
    "while its files were read on another branch": [
        ("read", "a", "main", "one", "a.py"),
        ("take", "b", "a"),
        ("read", "c", "f/b", "two", "b.py"),
        ("read", "a", "f/b", "one two", "a.py"),
        ("erase", "b"),
        ("take", "b", "a"),
    ],
    "of two spaces that had merged": [
        ("read", "a", "main", "one", "a.py"),
        ("read", "c", "f/a", "one", "b.py"),
        ("take", "a", "c"),
        ("read", "a", "f/b", "one", "b.py"),
        ("erase", "a"),
        ("take", "c", "a"),
        ("read", "c", "main", None, "b.py"),
    ],
    "before the file was removed from its last branch": [
        ("read", "a", "main", "one", "a.py"),
        ("read", "b", "f/b", "one", "a.py"),
        ("erase", "b"),
        ("read", "b", "f/a", None, "a.py"),
        ("take", "c", "b"),
    ],
    "in the space that another had merged before": [
        ("read", "a", "main", "one", "a.py"),
        ("read", "c", "f/b", "one two", "a.py"),
        ("take", "a", "c"),
        ("read", "a", "f/a", "one two", "b.py"),
        ("read", "b", "f/a", None, "a.py"),
        ("erase", "c"),
    ],
    "in two spaces that had merged a third": [
        ("read", "a", "main", "one", "a.py"),
        ("take", "b", "a"),
        ("take", "c", "b"),
        ("read", "c", "f/a", "two", "b.py"),
        ("erase", "a"),
        ("erase", "b"),
        ("read", "a", "f/a", "two", "a.py"),
    ],
    "before the repository was read again": [
        ("read", "b", "main", "one two", "a.py"),
        ("read", "b", "f/a", "one", "b.py"),
        ("erase", "b"),
        ("take", "a", "b"),
        ("read", "b", "f/a", "one two", "a.py"),
    ],
    "by a move to another scope in a copy": [
        ("read", "a", "f/b", "one two", "b.py"),
        ("copy", "c", "a"),
        ("copy", "b", "a"),
        ("move", "b", "repo"),
        ("read", "a", "f/a", "one two", "a.py"),
    ],
    "by a move in a space that read two maps": [
        ("read", "c", "main", "two one", "a.py"),
        ("read", "a", "main", "two one", "b.py"),
        ("take", "a", "c"),
        ("read", "a", "f/b", "one", "b.py"),
        ("move", "a", "repo"),
    ],
}
"""Histories in which the files of a repository lose the map that listed its branches."""


def played(steps: Steps) -> list[Replica]:
    """Return three replicas after the steps, and after all know what each knows."""
    replicas = {name: Replica(name, place - 1) for place, name in enumerate("abc")}
    for step, who, *rest in steps:
        replica = replicas[who]
        maps = [one for one in replica.current().values() if getattr(one, "origin", "") == "repo"]
        match step:
            case "read":
                replica.read_branch(*rest)
            case "take":
                replica.take(replicas[rest[0]])
            case "note":
                replica.ledger.commit(replica.make.patch(replica.make.source("Monday.", origin="note.md")))
            case "copy":
                replica.ledger.load(replicas[rest[0]].ledger.records())
            case "erase":
                change(replica, Erase, max(maps, key=lambda one: one.status == "active").id)
            case _:
                change(replica, MoveScope, max(maps, key=lambda one: one.status == "active").id, to="/team")
    met_in_turn(list(replicas.values()))
    return list(replicas.values())


@pytest.mark.parametrize("steps", LOST_MAPS.values(), ids=LOST_MAPS)
def test_files_are_alike_after_their_map_was_lost(steps: Steps) -> None:
    first, *others = played(steps)
    for other in others:
        assert alike(first, other)
        assert first.held() == other.held()


@pytest.mark.parametrize(("days", "is_merged"), [(29, True), (31, False), (400, False)])
def test_merge_names_the_clock_of_a_copy_far_ahead(days: int, is_merged: bool) -> None:
    one, other = Replica("one", 0), Replica("other", days)
    fact = told(other, 2)
    if is_merged:
        one.take(other)
    else:
        with pytest.raises(InvalidInput, match=r"is dated .* Its author's clock is ahead, or the clock here is"):
            one.take(other)
    assert (fact.id in one.current()) == is_merged


def test_file_archived_by_one_reader_stays_on_the_branch_of_the_other() -> None:
    ada, bob = Replica("ada", -1), Replica("bob", 0)
    ada.read_branch("main", "two one")
    bob.read_branch("f/a", "two one")
    bob.take(ada)
    (file,) = [one for one in ada.current().values() if isinstance(one, Source) and one.origin == "repo#a.py"]
    change(ada, Transition, file.id, to="archived")
    met(ada, bob)
    assert ada.held() == {"f/a": "two one"} == bob.held()
    assert alike(ada, bob)


def test_evidence_lost_differently_in_two_copies_stays_one() -> None:
    ada, bob = Replica("ada", 0), Replica("bob", 0)
    ada.read_branch("main", "one two")
    (file,) = (one for one in ada.current().values() if getattr(one, "origin", "") == "repo#a.py")
    assert isinstance(file, Source)
    fact = ada.make.fact("one", "is", "there", ada.make.evidence(file), status="active")
    ada.ledger.commit(ada.make.patch(fact))
    for name in ("f/a", "f/b"):
        ada.read_branch(name, "one two")
    bob.ledger.load(ada.ledger.records())

    def lost() -> list[tuple[str, ...]]:
        item = ada.ledger.get(fact.id)
        assert alike(ada, bob)
        assert isinstance(item, Knowledge)
        return [ref.lost_on for ref in item.evidence_refs]

    ada.read_branch("main", "two")
    bob.read_branch("f/a", "two")
    met(ada, bob)
    assert lost() == [("f/a", "main")]
    ada.read_branch("main", "one two")
    bob.read_branch("f/b", "two")
    met(ada, bob)
    assert lost() == [("f/a", "f/b")]
    ada.read_branch("f/a", "one two")
    bob.read_branch("f/b", "one two")
    met(ada, bob)
    assert lost() == [()]


def test_file_read_again_after_a_merge_archived_it_is_one_source_everywhere() -> None:
    ada, bob, eve = played(
        [
            ("read", "b", "main", "one", "a.py"),
            ("take", "c", "b"),
            ("read", "c", "f/a", "one", "b.py"),
            ("take", "a", "b"),
            ("take", "a", "c"),
            ("read", "c", "main", None, "a.py"),
            ("read", "a", "f/a", None, "a.py"),
            ("take", "a", "c"),
            ("take", "b", "a"),
            ("read", "a", "f/b", "two one", "a.py"),
        ]
    )
    assert ada.held() == {"f/b": "two one"} == eve.held()
    assert alike(ada, bob)
    assert alike(ada, eve)


def test_evidence_goes_back_to_a_source_that_was_moved() -> None:
    ada, bob, eve = Replica("ada", -1), Replica("bob", 0), Replica("eve", 1)
    source = bob.make.source("web port 1", origin="x.md")
    bob.ledger.commit(bob.make.patch(source))
    ada.take(bob)
    change(bob, MoveScope, source.id, to="/team")
    held = ada.ledger.get(source.id)
    assert isinstance(held, Source)
    fact = ada.make.fact("web", "port", 0, ada.make.evidence(held), status="active")
    ada.ledger.commit(ada.make.patch(fact))
    (other,) = told(eve, 1).evidence_refs
    ada.take(eve)
    assert cited(ada, fact.id)[0].source_id == other.source_id
    met(ada, bob, eve)
    assert cited(ada, fact.id)[0].source_id == source.id
    assert alike(ada, bob)
    assert alike(ada, eve)


class Merging(RuleBasedStateMachine):
    """Some replicas that write, and merge each other in any order."""

    names = ("a", "b", "c")

    def __init__(self) -> None:
        super().__init__()
        self.replicas = [Replica(name, place - 1) for place, name in enumerate(self.names)]
        self.erased: set[str] = set()
        self.facts = 0
        self.chats: dict[str, set[str]] = {name: set() for name in self.names}
        """By name, the conversations that a replica has the words of."""

    @rule(data=st.data())
    def tell(self, data: st.DataObject) -> None:
        replica = self._one(data)
        value = data.draw(st.integers(0, 2))
        subject = data.draw(st.sampled_from(["web", "db"]))
        source = replica.make.source(f"{subject} port {value}", origin=data.draw(st.sampled_from(["x.md", "y.md"])))
        held = [item for item in replica.current().values() if getattr(item, "origin", "") == source.origin]
        live = [item for item in held if item.status != "archived"]
        parts: list[object] = [] if live else [source]
        basis = live[0] if live else source
        fact = replica.make.fact(subject, "port", value, replica.make.evidence(basis), status="active")
        with suppress(TreeringError):  # nothing rests on a source that was called invalid
            replica.ledger.commit(replica.make.patch(*parts, fact))

    @rule(data=st.data())
    def change(self, data: st.DataObject) -> None:
        replica = self._one(data)
        item = self._object(data, replica)
        if item is None:
            return
        what = data.draw(st.sampled_from(["title", "summary", "status", "erase", "link", "unlink", "supersede"]))
        word = data.draw(st.sampled_from(["red", "green"]))
        other = self._object(data, replica)
        match what:
            case "title" | "summary" if isinstance(item, Knowledge):
                operation = Update(id=item.id, expected_revision=item.revision, changes={what: word})
            case "status":
                to = data.draw(st.sampled_from(["active", "archived", "contested", "invalid"]))
                operation = Transition(id=item.id, expected_revision=item.revision, to=to)
            case "erase" if data.draw(st.integers(0, 3)) == 0:
                operation = Erase(id=item.id, expected_revision=item.revision)
            case "link" | "unlink" if other:
                link = Link(type="references", source=item.id, target=other.id)
                operation = AddLink(link=link) if what == "link" else RemoveLink(link=link)
            case "supersede" if other:
                operation = Supersede(id=item.id, expected_revision=item.revision, by=other.id)
            case _:
                return
        try:
            replica.ledger.commit(replica.make.patch(operation, by=ADA))
        except TreeringError:
            return
        if what == "erase":
            self.erased.add(item.id)

    @rule(data=st.data())
    def read(self, data: st.DataObject) -> None:
        """Read a branch. A replica that was erased here reads what it finds."""
        replica = self._one(data)
        branch = data.draw(st.sampled_from(["main", "f/a", "f/b"]))
        words = data.draw(st.sampled_from(["one", "one two", "two one", None]))
        with suppress(TreeringError):
            replica.read_branch(branch, words, data.draw(st.sampled_from(["a.py", "b.py"])))

    @rule(data=st.data())
    def erase_map(self, data: st.DataObject) -> None:
        """Erase a map of the repository, so that its files lose the readings of their branches."""
        replica = self._one(data)
        maps = sorted(name for name, one in replica.current().items() if isinstance(one, Source) and one.kind == MAP)
        if maps:
            self.erased.add(name := data.draw(st.sampled_from(maps)))
            change(replica, Erase, name)

    @rule(data=st.data())
    def chat(self, data: st.DataObject) -> None:
        """Begin, continue or shorten a conversation that stays private, and state something from it."""
        replica = self._one(data)
        origin = f"chat of {replica.name}"
        held = [one for one in replica.current().values() if getattr(one, "origin", "") == origin]
        (chat,) = [one for one in held if isinstance(one, Source) and one.status == "active"] or [None]
        self.facts += 1
        if chat is None:
            chat = replica.make.source(f"word{self.facts}", origin=origin, scope="/me", kind="conversation")
            replica.ledger.commit(replica.make.patch(chat))
            self.chats[replica.name].add(chat.id)
        elif data.draw(st.booleans()):
            texts = [part.excerpt for part in chat.segments][data.draw(st.integers(0, 1)) :]
            segments = replica.make.segments(chat, *texts, f"word{self.facts}")
            update = Update(id=chat.id, expected_revision=chat.revision, changes={"segments": segments})
            replica.ledger.commit(replica.make.patch(update))
            chat = replica.ledger.get(chat.id)
        assert isinstance(chat, Source)
        evidence = replica.make.evidence(chat, data.draw(st.integers(0, len(chat.segments) - 1)))
        status = data.draw(st.sampled_from(["active", "candidate"]))
        fact = replica.make.fact(f"fact {self.facts}", "is", "there", evidence, status=status)
        replica.ledger.commit(replica.make.patch(fact))

    @rule(data=st.data())
    def merge(self, data: st.DataObject) -> None:
        one, other = self._one(data), self._one(data)
        if one is not other:
            one.take(other)
            before = one.ledger.sequence()
            one.take(other)
            assert one.ledger.sequence() == before

    @rule(data=st.data())
    def copy(self, data: st.DataObject) -> None:
        """Copy the log of a replica to one that has none, as when the file of a space is copied."""
        replica = self._one(data)
        empty = [one for one in self.replicas if not one.ledger.sequence()]
        if empty and replica.ledger.sequence():
            empty[0].ledger.load(replica.ledger.records())
            self.chats[empty[0].name] |= self.chats[replica.name]

    @invariant()
    def what_was_erased_does_not_come_back(self) -> None:
        for replica in self.replicas:
            here = set(replica.current())
            gone = {event.target for event in replica.ledger.events() if event.event_type == "erased"}
            assert not here & gone

    def teardown(self) -> None:
        met_in_turn(self.replicas)
        self._check_withheld()
        for replica in self.replicas:
            replica.ledger.change_policy(Policy(), by=ADA)
        met_in_turn(self.replicas)
        first, *others = self.replicas
        for replica in self.replicas:
            replica.ledger.verify()
            replica.held()
            replica.held("b.py")
            assert not self.erased & replica.current().keys()
        for other in others:
            told = [(a, other.current().get(a.id)) for a in first.current().values()]
            assert alike(first, other), [
                (a.id, name, getattr(a, name), getattr(b, name, None))
                for a, b in told
                for name in type(a).model_fields
                if getattr(a, name) != getattr(b, name, None) and name not in ("revision", "updated_at")
            ]

    def _check_withheld(self) -> None:
        """Check that all copies have the same state of what leaves its author, and no words of what does not."""
        known: dict[str, Object] = {}
        for replica in self.replicas:
            outgoing = Outgoing(replica.ledger)
            replica.ledger.verify()
            for item in replica.current().values():
                if isinstance(item, Source) and item.kind == "conversation":
                    assert item.id in self.chats[replica.name] or (is_notice(item) and not item.segments)
                if not outgoing.withholds(item):
                    assert same_words(known.setdefault(item.id, item), item)

    def _one(self, data: st.DataObject) -> Replica:
        return data.draw(st.sampled_from(self.replicas))

    def _object(self, data: st.DataObject, replica: Replica) -> Object | None:
        here = sorted(replica.current().items())
        return data.draw(st.sampled_from(here))[1] if here else None


class MergingFive(Merging):
    """The same with five."""

    names = ("a", "b", "c", "d", "e")


TestThreeReplicas = Merging.TestCase
TestThreeReplicas.settings = settings(max_examples=10, stateful_step_count=12, deadline=None)
TestFiveReplicas = MergingFive.TestCase
TestFiveReplicas.settings = settings(max_examples=6, stateful_step_count=15, deadline=None)


def note(place: Path, words: str, name: str) -> str:
    """Write down a source with these words in a space, and return its id."""
    make = Builder(SteppingClock(START, seed=name))
    with closing(treering.open_ledger(str(place))) as ledger:
        source = make.source(words, origin=f"{name}.md")
        ledger.commit(make.patch(source))
        return source.id


def test_files_that_grew_apart_from_one_merge_and_their_logs_verify_with_an_anchor_over_both(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.db", tmp_path / "theirs.db"
    note(ours, "The port is 5432.", "first")
    shutil.copy(ours, theirs)
    note(ours, "We deploy on Mondays.", "ours")
    note(theirs, "Backups run at night.", "theirs")
    before = treering.diff(str(ours), str(theirs))
    assert (before.left_only, before.right_only, before.common) == (1, 1, 1)
    with closing(treering.open_ledger(str(theirs))) as other:
        head = other.verify()
    report = treering.merge(str(ours), str(theirs))
    assert len(report.created) == 1
    with closing(treering.open_ledger(str(ours))) as ledger:
        merged = ledger.events_of(MERGE)[-1]
        assert merged.after is not None
        parent = {"log": log_name(ledger), "seq": head.seq, "hash": head.hash, "whole": True}
        assert merged.after["parents"] == [parent]
        assert ledger.verify(anchor=report.head) == report.head
    assert treering.merge(str(ours), str(theirs)).entries == 0
    treering.merge(str(theirs), str(ours))
    assert treering.diff(str(ours), str(theirs)).differences == ()


class Watched:
    """A ledger, and how many events and objects were read of it."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self.read = 0
        self.selected = 0
        self.settled = 0
        self.verified = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ledger, name)

    def events(self, *, after: int = 0, limit: int | None = None) -> Iterator[AuditEvent]:
        for event in self._ledger.events(after=after, limit=limit):
            self.read += 1
            yield event

    def select(self, selection: Selection) -> Iterator[Object]:
        for item in self._ledger.select(selection):
            self.selected += 1
            yield item

    def transact(self, work: "partial[Merged]") -> Merged:
        self.settled += len(work.keywords["incoming"].touched)
        return self._ledger.transact(work)

    def verify(self, *, anchor: Anchor | None = None) -> Anchor:
        self.verified += 1
        return self._ledger.verify(anchor=anchor)


def merged(one: Replica, other: Replica) -> tuple[int, int, int]:
    """Merge, and return how many entries were new, how many events of the other were read, and whether all was."""
    watched = Watched(other.ledger)
    report = merge_ledger(one.ledger, cast("Ledger", watched), by=MERGER, name="another")
    return report.entries, watched.read, watched.verified


def test_of_a_space_that_was_merged_before_only_what_is_new_is_verified_and_read() -> None:
    one, other = Replica("one", 0), Replica("other", 0)
    for number in range(300):
        other.ledger.commit(other.make.patch(other.make.source(f"Line {number}.", origin=f"{number}.md")))
    one.ledger.commit(one.make.patch(one.make.source("Mine.", origin="mine.md")))
    assert merged(one, other)[::2] == (300, 1)
    new, read, verified = merged(one, other)
    assert (new, verified) == (0, 0)
    assert read < 10
    other.ledger.commit(other.make.patch(other.make.source("New.", origin="new.md")))
    new, read, verified = merged(one, other)
    assert (new, verified) == (1, 0)
    assert read < 10
    before = other.ledger.sequence()
    assert merged(other, one)[0] == 1, "what came from there does not come back"
    assert other.ledger.sequence() > before
    other.ledger.verify()


def test_first_merge_reads_no_unrelated_sources() -> None:
    one, other = Replica("one", 0), Replica("other", 0)
    sources = [one.make.source(f"Line {number}.", origin=f"{number}.md") for number in range(20)]
    one.ledger.commit(one.make.patch(*sources))
    change(one, Erase, sources[0].id)
    other.ledger.commit(other.make.patch(other.make.source("New.", origin="new.md")))
    watched = Watched(one.ledger)
    assert merge_ledger(cast("Ledger", watched), other.ledger, by=MERGER, name="another").entries == 1
    assert (watched.selected, watched.settled) == (0, 1), "only the erased source"


def test_merge_after_an_erasure_reads_only_new_events() -> None:
    one, copy = Replica("one", 0), Replica("copy", 0)
    one.read_branch("main", "one")
    sources = [one.make.source(f"Line {number}.", origin=f"{number}.md") for number in range(200)]
    one.ledger.commit(one.make.patch(*sources))
    copy.ledger.load(one.ledger.records())
    new = one.make.source("Only here.", origin="new.md")
    one.ledger.commit(one.make.patch(new))
    for identity in (sources[0].id, new.id):
        change(one, Erase, identity)
    watched = Watched(one.ledger)
    copy.ledger.commit(copy.make.patch(copy.make.source("Only there.", origin="there.md")))
    assert merge_ledger(cast("Ledger", watched), copy.ledger, by=MERGER, name="another").entries == 1
    assert watched.read < 20
    met(one, copy)
    assert alike(one, copy)


def test_sync_after_a_merge_and_an_erasure_reads_only_new_events() -> None:
    one, other = Replica("one", 0), Replica("other", 0)
    one.read_branch("main", "one")
    sources = [one.make.source(f"Line {number}.", origin=f"{number}.md") for number in range(200)]
    one.ledger.commit(one.make.patch(*sources))
    told(other, 1)
    met(one, other)
    change(one, Erase, sources[0].id)
    other.ledger.commit(other.make.patch(other.make.source("New.", origin="new.md")))
    watched = Watched(one.ledger)
    report = receive(cast("Ledger", watched), list(entries(other.ledger)), (), by=MERGER, reason="Synced")
    assert (report.entries, watched.selected) == (1, 1), "of the objects, only the map"
    assert watched.read < 20


def test_merge_of_copies_settles_only_what_changed_since() -> None:
    one, copy, third = Replica("one", 0), Replica("copy", 0), Replica("third", 0)
    for port in range(5):
        told(one, port, f"{port}.md")
    copy.ledger.load(one.ledger.records())
    for place, replica in enumerate((one, copy, third), start=5):
        told(replica, place, f"{place}.md")
    for other, facts in ((copy, 1), (third, 7)):
        watched = Watched(one.ledger)
        merge_ledger(cast("Ledger", watched), other.ledger, by=MERGER, name="another")
        assert watched.settled == facts
    met(one, copy, third)
    assert alike(one, copy)
    assert alike(one, third)


def test_what_a_policy_kept_private_comes_once_it_does_not_and_a_log_that_went_another_way_is_read_again() -> None:
    one, other = Replica("one", 0), Replica("other", 0)
    other.ledger.change_policy(Policy(private_scopes=frozenset({"/me"})), by=ADA)
    other.ledger.commit(other.make.patch(other.make.source("Mine.", origin="m.md", scope="/me")))
    other.ledger.commit(other.make.patch(other.make.source("Ours.", origin="o.md")))
    assert merged(one, other)[0] == 1
    other.ledger.change_policy(Policy(), by=ADA)
    assert merged(one, other)[0] == 1
    again = Replica("other", 0)
    again.ledger.commit(again.make.patch(again.make.source("Anew.", origin="o2.md")))
    assert merged(one, again)[::2] == (1, 1)
    assert {item.origin for item in one.current().values() if isinstance(item, Source)} >= {"m.md", "o.md"}


def test_a_damaged_event_behind_what_was_merged_is_found(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.db", tmp_path / "theirs.db"
    note(ours, "Ours.", "ours")
    note(theirs, "Theirs.", "theirs")
    treering.merge(str(ours), str(theirs))
    note(theirs, "Later.", "later")
    with closing(sqlite3.connect(theirs)) as database:
        database.execute("UPDATE audit SET body = (SELECT body FROM audit WHERE seq = 1) WHERE seq = 2")
        database.commit()
    with pytest.raises(Corrupt):
        treering.merge(str(ours), str(theirs))


def test_what_was_erased_in_one_is_erased_in_the_other_and_no_older_copy_brings_it_back(tmp_path: Path) -> None:
    ours, theirs, old, late = (tmp_path / f"{name}.db" for name in ("ours", "theirs", "old", "late"))
    identity = note(ours, "The word is quetzalcoatlus.", "first")
    shutil.copy(ours, theirs)
    shutil.copy(ours, old)
    note(late, "Something else.", "late")
    with closing(treering.open_ledger(str(ours))) as ledger:
        ledger.commit(Builder(SteppingClock(START, seed="e")).patch(Erase(id=identity, expected_revision=1)))
    assert treering.merge(str(theirs), str(ours)).erased == (identity,)
    treering.merge(str(late), str(theirs))
    for place in (ours, theirs, late):
        assert identity not in treering.merge(str(place), str(old)).created
        for file in tmp_path.glob(f"{place.name}*"):
            assert b"quetzalcoatlus" not in file.read_bytes()


def test_patches_that_wait_for_review_stay_where_they_are_and_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    ours, theirs, remote = (str(tmp_path / name) for name in ("ours.db", "theirs.db", "remote"))
    note(Path(ours), "Ours.", "ours")
    note(Path(theirs), "Theirs.", "theirs")
    Path(remote).mkdir()
    make = Builder(SteppingClock(START, seed="waiting"))
    with closing(treering.open_ledger(theirs)) as ledger:
        waiting = [ledger.propose(make.patch(make.source(f"Later {number}.", origin=f"{number}"))) for number in (1, 2)]
    assert set(treering.merge(ours, theirs).waiting) == {one.id for one in waiting}
    assert run(["merge", theirs, "--space", ours]) == 0
    assert "Patches waiting for review stay in the other space: 2" in capsys.readouterr().out
    assert run(["sync", remote, "--space", theirs]) == 0
    assert "Not sent: 2 waiting for review" in capsys.readouterr().out
    assert run(["merge", ours, "--space", theirs]) == 0
    assert "wait for review" not in capsys.readouterr().out, "none waits there"


def test_erasure_receipt_names_the_copy_that_a_merge_archived(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.db", tmp_path / "theirs.db"
    ids: list[str] = []
    for place in (ours, theirs):
        make = Builder(SteppingClock(START, seed=place.name, ahead=timedelta(days=len(ids))))
        with closing(treering.open_ledger(str(place))) as ledger:
            source = make.source("The word is quetzalcoatlus.", origin="a.md")
            ledger.commit(make.patch(source))
            ids.insert(0, source.id)
    treering.merge(str(ours), str(theirs))
    with treering.open(str(ours), channel="user") as space:
        receipt = space.erase(ids[:1], reason="Asked by Ada")
    assert receipt.ids == tuple(ids)
    assert receipt.clean
    for file in tmp_path.glob("ours.db*"):
        assert b"quetzalcoatlus" not in file.read_bytes()


def test_what_is_in_a_private_scope_does_not_come(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.db", tmp_path / "theirs.db"
    note(ours, "Something.", "first")
    make = Builder(SteppingClock(START, seed="p"))
    secret, plain = make.source("Mine.", origin="m.md", scope="/me/notes"), make.source("Ours.", origin="o.md")
    with closing(treering.open_ledger(str(theirs))) as ledger:
        ledger.change_policy(Policy(private_scopes=frozenset({"/me"})), by=ADA)
        ledger.commit(make.patch(secret, plain))
    assert treering.merge(str(ours), str(theirs)).created == (plain.id,)


def test_merge_stales_knowledge_with_the_reason_of_its_erasure(tmp_path: Path) -> None:
    make = Builder(SteppingClock(START, seed="e"))
    private, medical = make.source("A salary.", origin="private.txt"), make.source("A fever.", origin="medical.txt")
    sources = {"private, by mistake": private, "Asked by Cy": medical}
    other = make.source("A ward.", origin="ward.txt")
    evidence = (make.evidence(medical), make.evidence(other))
    fact = make.fact("cy", "has", "fever", *evidence, status="active")
    ours, theirs = tmp_path / "ours.db", tmp_path / "theirs.db"
    note(ours, "Something else.", "first")
    with closing(treering.open_ledger(str(theirs))) as ledger:
        ledger.commit(make.patch(private, medical, other))
        ledger.commit(make.patch(fact))
    treering.merge(str(ours), str(theirs))
    with closing(treering.open_ledger(str(theirs))) as ledger:
        for reason, source in sources.items():
            erase = Erase(id=source.id, expected_revision=ledger.get(source.id).revision)
            ledger.commit(make.patch(erase, reason=reason))
    assert treering.merge(str(ours), str(theirs)).erased == tuple(sorted((private.id, medical.id)))
    with closing(treering.open_ledger(str(ours))) as ledger:
        erased = {one.target: one.reason for one in ledger.events() if one.event_type == "erased"}
        assert erased == {source.id: reason for reason, source in sources.items()}
        assert "private, by mistake" not in {one.reason for one in ledger.events_of(fact.id)}
