"""Reads: visibility by scope, filters, segments, and the known part of an origin."""

import pytest

from treering.core.errors import Conflict, NotFound
from treering.core.filters import parse_filter
from treering.core.patch import MoveScope, Patch
from treering.ports.ledger import Ledger, Selection, SourceState, selects
from treering.testing.builders import ADA, Builder, author
from treering.testing.ledger_contract.stage import LedgerStage, contents, erasing, moving, selected, updating


class LedgerReads(LedgerStage):
    """Selections and look-ups."""

    @pytest.mark.parametrize(
        ("scope", "descend", "seen"),
        [
            ("/", False, "root"),
            ("/", True, "root repo team loop"),
            ("/run/7", False, "root"),
            ("/repo/a", False, "root repo"),
            ("/repo/a/loop", False, "root repo loop"),
            ("/repo", True, "root repo loop"),
            ("/repo/ab", True, "root"),
        ],
    )
    def test_a_read_sees_its_scope_and_the_ancestors_of_it(
        self, ledger: Ledger, make: Builder, scope: str, descend: bool, seen: str
    ) -> None:
        scopes = {"root": "/", "repo": "/repo/a", "team": "/team", "loop": "/repo/a/loop"}
        ledger.commit(make.patch(*(make.node(name, scope=place) for name, place in scopes.items())))
        found = ledger.select(Selection(scope=scope, descend=descend))
        assert {getattr(item, "name", "") for item in found} == set(seen.split())

    def test_a_selection_is_narrowed_by_type_and_filter_and_ordered_by_id(self, ledger: Ledger, make: Builder) -> None:
        nodes = [make.node("Ada", kind="person"), make.node("Bees"), make.node("Bob", kind="person")]
        ledger.commit(make.patch(*nodes, make.work("Buy smoke")))
        ledger.commit(make.patch(moving(nodes[2].id, 1, "archived")))
        assert selected(ledger, Selection(types=("node",))) == [node.id for node in nodes]
        assert selected(ledger, Selection(where=parse_filter({"kind": "person"}))) == [nodes[0].id, nodes[2].id]
        alive = parse_filter({"kind": ["person", "task"], "status": {"ne": "archived"}, "title": {"prefix": "A"}})
        assert selected(ledger, Selection(where=alive)) == [nodes[0].id]

    def test_the_newest_of_a_selection_are_those_with_the_greatest_ids(self, ledger: Ledger, make: Builder) -> None:
        nodes = [make.node(name, kind="person" if name < "d" else "team") for name in "abcdef"]
        first = ledger.commit(make.patch(*nodes[:4])).sequence
        ledger.commit(make.patch(*nodes[4:], make.work("Buy smoke")))
        people = parse_filter({"kind": "person"})
        for newest, wanted in ((0, nodes), (1, nodes[5:]), (4, nodes[2:]), (9, nodes)):
            asked = Selection(types=("node",), newest=newest)
            assert selected(ledger, asked) == [node.id for node in wanted]
        assert selected(ledger, Selection(where=people, newest=2)) == [node.id for node in nodes[1:3]]
        assert selected(ledger, Selection(types=("node",), newest=2, as_of=first)) == [node.id for node in nodes[2:4]]

    @pytest.mark.parametrize(
        "where",
        [
            {"title": "Ada"},
            {"title": "Ada", "status": "active", "scope": "/a"},
            {"status": ["archived", "stale"], "scope": "/a"},
            {"origin": "n.md"},
            {"title": {"ne": "Ada"}, "kind": "person"},
            {"or": [{"title": "Bob"}, {"origin": "m.md"}]},
            {"not": {"origin": "n.md"}},
            {"title": ["Ada", 7]},
            {"title": [7]},
            {"status": []},
            {"title": {"prefix": "A"}, "and": [{"status": "active"}, {"scope": ["/a", "/b"]}]},
        ],
    )
    def test_what_is_found_by_its_name_is_what_the_filter_means(
        self, ledger: Ledger, make: Builder, where: dict[str, object]
    ) -> None:
        people = [make.node(name, kind="person", scope=scope) for name in ("Ada", "Bob") for scope in ("/a", "/b")]
        sources = [make.source("Notes.", origin="n.md", scope="/a"), make.source("More.", origin="m.md", scope="/a")]
        before = ledger.commit(make.patch(*people, *sources)).sequence
        ledger.commit(make.patch(moving(people[0].id, 1, "archived")))
        for types in ((), ("node",), ("source", "node")):
            for scope, descend in (("/a", False), ("/", True)):
                for as_of in (None, before):
                    asked = Selection(scope, descend, types, parse_filter(where), as_of)
                    everything = ledger.select(Selection("/", descend=True, as_of=as_of))
                    assert selected(ledger, asked) == [item.id for item in everything if selects(asked, item)]

    def test_a_filter_sees_channel_origin_and_times(self, ledger: Ledger, make: Builder) -> None:
        source, node = make.source("Text.", origin="a/b.md"), make.node("Hive")
        ledger.commit(make.patch(source))
        second = ledger.commit(make.patch(node, by=author("agent")))
        when = second.committed_at.isoformat()
        assert selected(ledger, Selection(where=parse_filter({"channel": "agent"}))) == [node.id]
        assert selected(ledger, Selection(where=parse_filter({"origin": {"prefix": "a/"}}))) == [source.id]
        assert selected(ledger, Selection(where=parse_filter({"origin": {"exists": False}}))) == [node.id]
        assert selected(ledger, Selection(where=parse_filter({"created_at": {"gte": when}}))) == [node.id]
        assert selected(ledger, Selection(where=parse_filter({"updated_at": {"lt": when}}))) == [source.id]

    def test_heads_are_given_for_the_ids_that_exist(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive", scope="/garden")
        ledger.commit(make.patch(node))
        heads = ledger.heads([node.id, make.node("Nowhere").id])
        assert list(heads) == [node.id]
        head = heads[node.id]
        assert (head.type, head.kind, head.title, head.scope) == ("node", "concept", "Hive", "/garden")
        assert (head.status, head.revision, head.origin_channel) == ("active", 1, "user")
        assert head.updated_at == ledger.get(node.id).updated_at

    def test_heads_of_very_many_ids_are_given(self, ledger: Ledger, make: Builder) -> None:
        nodes = [make.node(f"Node {number}") for number in range(1200)]
        ledger.commit(make.patch(*nodes))
        assert len(ledger.heads(node.id for node in nodes)) == 1200

    def test_a_segment_is_found_also_after_it_vanished(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("One.", "Two.")
        ledger.commit(make.patch(source))
        ledger.commit(make.patch(updating(source.id, segments=[])))
        assert ledger.segment(source.id, source.segments[1].segment_id) == source.segments[1]
        with pytest.raises(NotFound):
            ledger.segment(source.id, "seg_0000000000000")

    def test_segments_of_many_sources_are_given_where_they_stand_now(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.source("One.", "Two."), make.source("Three.", origin="other.md")
        ledger.commit(make.patch(one, two))
        kept = make.segments(one, "Zero.", "Two.")
        ledger.commit(make.patch(updating(one.id, segments=kept)))
        places = [(source.id, part.segment_id) for source in (one, two) for part in source.segments]
        found = ledger.segments([*places, (two.id, "seg_0000000000000")])
        assert {place: segment.excerpt for place, segment in found.items()} == {
            places[1]: "Two.",
            places[2]: "Three.",
        }

    def test_sources_are_found_by_the_text_of_a_segment(self, ledger: Ledger, make: Builder) -> None:
        one, two = make.source("One.", "Two.", "Two."), make.source("Two.", origin="other.md")
        ledger.commit(make.patch(one, two))
        ledger.commit(make.patch(updating(one.id, segments=[])))
        found = ledger.sources_with({"One.", "Two.", "Two", "Three.", "\ud800"})
        assert list(found) == [("One.", one.id), *(("Two.", source.id) for source in (one, two))]
        ledger.commit(make.patch(erasing(two.id)))
        assert list(ledger.sources_with(["Two."])) == [("Two.", one.id)]
        assert list(ledger.sources_with([])) == []

    def test_a_segment_is_given_as_it_last_stood(self, ledger: Ledger, make: Builder) -> None:
        source = make.source("One.", "Two.")
        ledger.commit(make.patch(source))
        moved = make.segments(source, "Zero.", "Two.", "One.")
        ledger.commit(make.patch(updating(source.id, segments=moved)))
        assert ledger.segment(source.id, source.segments[0].segment_id).position == 2

    def test_texts_of_all_sizes_and_scripts_come_back_word_for_word(self, ledger: Ledger, make: Builder) -> None:
        texts = ["", "\x00\r\n\t", "蜂蜜 🐝 naïve", "long line " * 5000, "x" * 300, "\ufeffbom \u202e"]
        source = make.source(*texts)
        ledger.commit(make.patch(source))
        stored = ledger.get(source.id)
        assert [segment.excerpt for segment in getattr(stored, "segments", ())] == texts
        ledger.verify()

    def test_the_sources_of_an_origin_are_listed_with_its_parts(self, ledger: Ledger, make: Builder) -> None:
        whole = make.source("All.", origin="repo", fingerprint="f1")
        part = make.source("Part.", origin="repo#a.py", fingerprint="f2")
        below = make.source("Below.", origin="repo/b.py", fingerprint="f3")
        other = make.source("Other.", origin="repository")
        away = make.source("Away.", origin="repo#b.py", scope="/away")
        ledger.commit(make.patch(whole, part, below, other, away))
        states = ledger.sources(scope="/", root="repo")
        assert states == {
            "repo": SourceState(whole.id, "f1", "active", 1),
            "repo#a.py": SourceState(part.id, "f2", "active", 1),
            "repo/b.py": SourceState(below.id, "f3", "active", 1),
        }

    def test_sources_are_found_by_their_origins_alone(self, ledger: Ledger, make: Builder) -> None:
        one, part = make.source("One.", origin="repo", fingerprint="f1"), make.source("Part.", origin="repo#a.py")
        old, away = make.source("Old.", origin="old"), make.source("Away.", origin="away", scope="/away")
        ledger.commit(make.patch(one, part, old, away))
        ledger.commit(make.patch(moving(old.id, 1, "archived")))
        states = ledger.sources_at(scope="/", origins=["repo", "old", "away", "nowhere"])
        assert states == {
            "repo": SourceState(one.id, "f1", "active", 1),
            "old": SourceState(old.id, old.fingerprint, "archived", 2),
        }
        new = make.source("New.", origin="old")
        ledger.commit(make.patch(new))
        assert ledger.sources_at(scope="/", origins=["old"])["old"].id == new.id
        assert ledger.sources_at(scope="/", origins=[]) == {}

    def test_the_scopes_below_one_are_listed(self, ledger: Ledger, make: Builder) -> None:
        for scope in ("/", "/run", "/run/7", "/run/7/loop", "/run/8", "/runs", "/run 9/x"):
            ledger.commit(make.patch(make.source("One.", scope=scope), make.source("Two.", origin="2", scope=scope)))
        assert ledger.scopes("/run") == ["/run/7", "/run/7/loop", "/run/8"]
        assert ledger.scopes("/") == sorted(["/run", "/run/7", "/run/7/loop", "/run/8", "/runs", "/run 9/x"])
        assert ledger.scopes("/nowhere") == []

    def test_counts_are_of_current_states(self, ledger: Ledger, make: Builder) -> None:
        assert ledger.counts() == {}
        bees, wasps, erased = (make.node(name, scope="/garden") for name in ("Bees", "Wasps", "Erased"))
        ledger.commit(make.patch(bees, wasps, erased, make.source("One."), make.source("Two.", origin="2")))
        ledger.commit(make.patch(moving(bees.id, 1, "archived")))
        ledger.commit(make.patch(MoveScope(id=wasps.id, expected_revision=1, to="/hedge"), erasing(erased.id)))
        assert ledger.counts() == {
            ("/", "source", "active"): 2,
            ("/garden", "node", "archived"): 1,
            ("/hedge", "node", "active"): 1,
        }

    def test_an_archived_source_gives_way_to_a_later_one(self, ledger: Ledger, make: Builder) -> None:
        old, new = make.source("Old."), make.source("New.")
        ledger.commit(make.patch(old))
        ledger.commit(make.patch(moving(old.id, 1, "archived")))
        assert ledger.sources(scope="/", root="notes.md")["notes.md"].status == "archived"
        ledger.commit(make.patch(new))
        assert ledger.sources(scope="/", root="notes.md")["notes.md"].id == new.id

    def test_what_is_not_there_is_not_found(self, ledger: Ledger, make: Builder) -> None:
        nowhere = make.node("Nowhere").id
        for read in (ledger.get, ledger.history, ledger.patch):
            with pytest.raises(NotFound):
                read(nowhere)
        assert list(ledger.links(nowhere)) == []
        assert list(ledger.dependents(nowhere)) == []


# Patches made at a scope: what they may name and change, and which request a key stands for.


EVE = author("agent", "eve")


class Scopes(LedgerStage):
    """`Patch.scope` and `Patch.request`."""

    def test_a_proposal_keeps_to_its_scope_when_it_is_applied(self, ledger: Ledger, make: Builder) -> None:
        node = make.node("Hive", scope="/a")
        ledger.commit(make.patch(node))
        patch = _at("/a", make.patch(updating(node.id, summary="Taken over."), by=EVE))
        assert ledger.propose(patch).scope == "/a"
        ledger.commit(make.patch(MoveScope(id=node.id, expected_revision=1, to="/b")))
        with pytest.raises(NotFound):
            ledger.approve(patch.id, by=ADA)
        assert ledger.patch(patch.id).scope == "/a"

    def test_the_record_of_a_patch_keeps_the_scope_it_was_made_at(self, ledger: Ledger, make: Builder) -> None:
        kept = [_at("/a", make.patch(make.node("Hive", scope="/a"))), make.patch(make.node("Box"))]
        for patch in kept:
            ledger.commit(patch)
        assert [ledger.patch(patch.id).scope for patch in kept] == ["/a", None]

    def test_a_key_stands_for_one_request(self, ledger: Ledger, make: Builder) -> None:
        first = ledger.commit(_asking("one", make.patch(make.node("Hive"))), idempotency_key="k")
        again = ledger.commit(_asking("one", make.patch(make.node("Hive"))), idempotency_key="k")
        assert (again.patch_id, again.replayed) == (first.patch_id, True)
        before = contents(ledger)
        with pytest.raises(Conflict, match="key 'k'"):
            ledger.commit(_asking("two", make.patch(make.node("Box"))), idempotency_key="k")
        with pytest.raises(Conflict):
            ledger.propose(_asking("two", make.patch(make.node("Box"), by=EVE)), idempotency_key="k")
        assert contents(ledger) == before

    def test_a_key_stands_for_any_request_where_one_of_the_two_is_not_told(self, ledger: Ledger, make: Builder) -> None:
        ledger.commit(_asking("one", make.patch(make.node("Hive"))), idempotency_key="told")
        ledger.commit(make.patch(make.node("Box")), idempotency_key="untold")
        assert ledger.commit(make.patch(make.node("Tub")), idempotency_key="told").replayed
        assert ledger.commit(_asking("two", make.patch(make.node("Tub"))), idempotency_key="untold").replayed


def _at(scope: str, patch: Patch) -> Patch:
    return patch.model_copy(update={"scope": scope})


def _asking(request: str, patch: Patch) -> Patch:
    return patch.model_copy(update={"request": request})
