"""Nodes as centres, and what is tied to them, through the four tools."""

import pytest

from space_parts import all_of, decide, note, only_id, open_space, read, task
from treering.core.errors import InvalidPatch
from treering.core.patch import Merge, Patch
from treering.ports.runtime import fresh_id


@pytest.fixture
def space():
    with open_space(channel="user") as opened:
        yield opened


def node(space, name, kind="service", **fields):
    """Make a node by crystallizing an activity; return its id."""
    given = {"title": f"Met {name}", "nodes": [{"kind": kind, "name": name, **fields}]}
    return only_id(space.crystallize("activity", input=given), "node:")


def activity(space, title, **fields):
    """Crystallize an activity; return its id."""
    return only_id(space.crystallize("activity", input={"title": title, **fields}), "act:")


def neighbours(space, identity, **given):
    """Return what is related to an object, by id: relation, fields, direction and depth."""
    report = space.query("related", input={"id": identity, **given})
    return {one.id: (one.relation, one.fields, one.direction, one.depth) for one in report.neighbours}


@pytest.fixture
def billing(space):
    """A service that knowledge, work and activities name, each in a field of its own."""
    centre, ann = node(space, "Billing"), node(space, "Ann", "person")
    rule = decide(
        space,
        "Whole cents",
        kind="constraint",
        payload={"rule": "Amounts are whole cents"},
        subject_refs=[centre],
    )
    bug = task(space, "Rounding is off", kind="bug", related_node_refs=[centre], owner_refs=[ann])
    done = activity(space, "Looked into rounding", related_node_refs=[centre], related_work_item_refs=[bug])
    return {"centre": centre, "ann": ann, "rule": rule, "bug": bug, "done": done}


class TestANodeIsACentre:
    def test_related_lists_referring_objects(self, space, billing):
        found = neighbours(space, billing["centre"])
        assert found[billing["rule"]] == ("refers_to", ("subject_refs",), "in", 1)
        assert found[billing["bug"]] == ("refers_to", ("related_node_refs",), "in", 1)
        assert found[billing["done"]] == ("refers_to", ("related_node_refs",), "in", 1)

    def test_related_lists_the_work_that_a_person_owns(self, space, billing):
        assert neighbours(space, billing["ann"])[billing["bug"]] == ("refers_to", ("owner_refs",), "in", 1)

    def test_related_leads_from_what_names_a_node_to_the_node(self, space, billing):
        assert neighbours(space, billing["rule"])[billing["centre"]] == ("refers_to", ("subject_refs",), "out", 1)
        assert neighbours(space, billing["bug"])[billing["ann"]] == ("refers_to", ("owner_refs",), "out", 1)

    def test_related_lists_the_activities_that_name_a_work_item(self, space, billing):
        assert neighbours(space, billing["bug"])[billing["done"]] == (
            "refers_to",
            ("related_work_item_refs",),
            "in",
            1,
        )

    def test_related_goes_on_from_there_in_both_directions(self, space, billing):
        found = neighbours(space, billing["ann"], depth=3)
        assert {one: found[one][3] for one in billing.values() if one in found} == {
            billing["bug"]: 1,
            billing["centre"]: 2,
            billing["done"]: 2,
            billing["rule"]: 3,
        }

    def test_related_of_one_direction_follows_that_direction_only(self, space, billing):
        assert billing["rule"] not in neighbours(space, billing["centre"], direction="out")
        assert billing["centre"] not in neighbours(space, billing["rule"], direction="in")

    def test_page_lists_referrers_with_their_fields(self, space, billing):
        page = space.query("page", input={"name": "Billing"})
        assert [(one.id, one.type, one.fields) for one in page.referrers if one.id in billing.values()] == [
            (billing["rule"], "knowledge", ("subject_refs",)),
            (billing["bug"], "work_item", ("related_node_refs",)),
            (billing["done"], "activity", ("related_node_refs",)),
        ]
        owned = space.query("page", input={"id": billing["ann"]}).referrers
        assert [(one.id, one.fields) for one in owned if one.type == "work_item"] == [(billing["bug"], ("owner_refs",))]

    def test_a_page_lists_the_activities_that_name_a_work_item(self, space, billing):
        page = space.query("page", input={"id": billing["bug"]})
        assert [(one.id, one.fields) for one in page.referrers] == [(billing["done"], ("related_work_item_refs",))]

    def test_what_names_a_node_that_was_merged_belongs_to_the_node_it_was_merged_into(self, space, billing):
        into, clock = node(space, "Payments"), space.engine.clock
        folded = Merge(id=billing["centre"], expected_revision=read(space, billing["centre"]).revision, into=into)
        space.engine.ledger.commit(
            Patch(id=fresh_id("patch", clock), source=space.engine.author, operations=[folded], created_at=clock.now())
        )
        assert neighbours(space, into)[billing["rule"]] == ("refers_to", ("subject_refs",), "in", 1)
        assert billing["bug"] in {one.id for one in space.query("page", input={"id": billing["centre"]}).referrers}

    def test_a_point_in_history_shows_what_named_the_node_then(self, space, billing):
        then = space.engine.ledger.sequence()
        space.crystallize("knowledge", input={"id": billing["rule"], "revision": 1, "subject_refs": []})
        assert billing["rule"] not in neighbours(space, billing["centre"])
        past = space.query("related", input={"id": billing["centre"]}, options={"as_of": then})
        assert billing["rule"] in past.ids
        early = space.query("page", input={"id": billing["centre"]}, options={"as_of": 2})
        assert billing["rule"] not in {one.id for one in early.referrers}

    def test_objects_in_other_scopes_are_not_listed(self, space, billing):
        elsewhere = task(space, "Far away", scope="/other", related_node_refs=[billing["centre"]])
        assert elsewhere not in neighbours(space, billing["centre"])
        assert elsewhere not in {one.id for one in space.query("page", input={"id": billing["centre"]}).referrers}

    def test_references_are_ids_that_outlive_names_and_paths(self, space, billing, tmp_path):
        (tmp_path / "rates.md").write_text("Amounts are whole cents.\n")
        (result,) = space.ingest("path", input={"path": str(tmp_path)}).items
        segment = read(space, result.source_id).segments[0].segment_id
        evidence = {"source_id": result.source_id, "segment_id": segment}
        rule = decide(space, "Cents", evidence, subject_refs=[billing["centre"]])
        space.crystallize("node", input={"id": billing["centre"], "name": "Payments"})
        (tmp_path / "rates.md").rename(tmp_path / "amounts.md")
        space.ingest("path", input={"path": str(tmp_path)})
        kept = read(space, rule)
        assert read(space, result.source_id).origin.endswith("amounts.md")
        assert (kept.subject_refs, kept.status) == ((billing["centre"],), "active")
        assert [(one.source_id, one.segment_id) for one in kept.evidence_refs] == [(result.source_id, segment)]
        assert rule in neighbours(space, billing["centre"])
        for name in ("Payments", "payments", "Billing", str(tmp_path / "amounts.md")):
            with pytest.raises(InvalidPatch, match="does not exist"):
                decide(space, "By name", subject_refs=[name])

    def test_the_nouns_of_a_text_make_no_nodes(self, space):
        note(space, "# Harbour\n\nAda keeps her red boat in the harbour of Bergen.", kind="markdown")
        assert all_of(space, "node") == []

    def test_an_owner_may_be_a_name_but_an_id_has_to_lead_somewhere(self, space):
        assert read(space, task(space, "Mine", owner_refs=["ann"])).owner_refs == ("ann",)
        with pytest.raises(InvalidPatch, match="does not exist"):
            task(space, "Nobody's", owner_refs=["node:" + "0" * 26])


def sections(space, what, scope="/", **options):
    """Return the objects of a context by id, with their sections."""
    pack = space.query("context", scope=scope, input={"task": what}, options=options).pack
    return {item.object_id: item.section for item in pack.items}


class TestContextOnANode:
    def test_it_brings_the_constraint_the_bug_and_the_activity_that_share_no_word_with_the_task(self, space, billing):
        found = sections(space, "What do I have to know before I touch Billing?")
        assert found[billing["rule"]] == "constraints"
        assert found[billing["bug"]] == "work"
        assert found[billing["done"]] == "activities"

    @pytest.mark.parametrize("wording", ["{id}", "Change {id} now", "billing", "the BILLING code", "invoices, please"])
    def test_a_node_is_named_by_its_id_name_slug_or_alias(self, space, wording):
        centre = node(space, "Billing", aliases=["Invoices"])
        rule = decide(
            space, "Cents", kind="constraint", payload={"rule": "Amounts are whole cents"}, subject_refs=[centre]
        )
        assert rule in sections(space, wording.format(id=centre))

    def test_a_part_of_a_word_names_no_node(self, space, billing):
        assert billing["rule"] not in sections(space, "We are rebillings experts")

    def test_pack_contains_objects_linked_to_the_node(self, space, billing):
        linked = task(space, "Sum up the month", links=[{"type": "about", "target": billing["centre"]}])
        assert sections(space, "Work on Billing")[linked] == "work"

    def test_what_binds_comes_before_what_was_done_and_what_does_not_fit_is_counted(self, space, billing):
        for number in range(20):
            activity(space, f"Did part {number}", related_node_refs=[billing["centre"]])
        pack = space.query("context", input={"task": "Billing"}).pack
        assert {billing["rule"], billing["bug"]} <= {item.object_id for item in pack.items}
        assert any(billing["centre"] in read for read in pack.recommended_next_reads)

    def test_what_is_withdrawn_filtered_or_of_another_scope_stays_out(self, space, billing):
        space.crystallize("knowledge", input={"id": billing["rule"], "revision": 1, "status": "archived"})
        elsewhere = task(space, "Far away", scope="/other", related_node_refs=[billing["centre"]])
        found = sections(space, "Billing")
        assert billing["rule"] not in found
        assert elsewhere not in found
        assert billing["bug"] not in sections(space, "Billing", filter={"type": "activity"})
        assert billing["rule"] in sections(space, "Billing", withdrawn=True)

    def test_the_past_brings_what_was_attached_then(self, space, billing):
        then = space.engine.ledger.sequence()
        later = task(space, "Print it", related_node_refs=[billing["centre"]])
        assert later in sections(space, "Billing")
        past = sections(space, "Billing", as_of=then)
        assert later not in past
        assert billing["bug"] in past
