import pytest

from space_parts import all_of, decide, note, read, records, state_fact, status, task
from treering.core.errors import Conflict, Denied, IllegalTransition, InvalidInput, InvalidPatch, NotFound

POLICY = 'direct_channels = ["user", "adapter", "import", "system"]\n'
PREFERENCE = {"kind": "preference", "title": "Short answers", "payload": {"statement": "Answers are short"}}


@pytest.fixture
def by_ada(open_space):
    return open_space(actor="ada", channel="user")


@pytest.fixture
def reviewed(open_space, tmp_path):
    """A space whose agents propose, and whose people decide."""
    (tmp_path / "policy.toml").write_text(POLICY)
    return open_space(policy=tmp_path / "policy.toml", actor="bot")


def unchanged_by(space, error, mode, given, options=None, scope="/"):
    before = records(space)
    with pytest.raises(error) as caught:
        space.crystallize(mode, scope=scope, input=given, options=options or {})
    assert records(space) == before
    assert caught.value.hint
    return caught.value


class TestKnowledge:
    def test_what_an_agent_says_without_evidence_is_a_candidate_it_inferred(self, space):
        found = read(space, decide(space, "Use SQLite"))
        assert (found.status, found.memory_source, found.origin_channel) == ("candidate", "agent_inferred", "agent")
        assert found.confidence == 0.6

    def test_what_an_agent_says_with_evidence_is_still_a_candidate_unless_it_asks_for_more(self, space):
        quote = note(space, "We use SQLite.")
        assert status(space, decide(space, "SQLite", quote, status=None)) == "candidate"

    def test_what_a_person_declares_is_active_and_held_by_a_note_with_their_words(self, by_ada):
        report = by_ada.crystallize("knowledge", input=PREFERENCE)
        (found,) = all_of(by_ada, "knowledge")
        assert (found.status, found.memory_source) == ("active", "user_declared")
        held = read(by_ada, found.evidence_refs[0].source_id)
        assert (held.kind, held.segments[0].excerpt) == ("note", "Answers are short")
        assert "ada" in held.title
        assert {found.id, held.id} == set(report.ids)

    def test_what_a_person_says_with_evidence_is_curated(self, by_ada):
        found = read(by_ada, decide(by_ada, "SQLite", note(by_ada, "We use SQLite."), status=None))
        assert (found.memory_source, found.status) == ("human_curated", "candidate")

    def test_a_declaration_can_be_found_by_its_words(self, by_ada):
        by_ada.crystallize("knowledge", input=PREFERENCE)
        assert by_ada.query("search", input={"text": "short answers"}).hits

    def test_an_agent_cannot_speak_for_a_person(self, space):
        unchanged_by(space, Denied, "knowledge", {**PREFERENCE, "memory_source": "user_declared"})
        unchanged_by(space, Denied, "knowledge", {**PREFERENCE, "memory_source": "human_curated"})

    def test_active_knowledge_of_an_agent_needs_evidence(self, space):
        error = unchanged_by(space, InvalidPatch, "knowledge", {**PREFERENCE, "status": "active"})
        assert "evidence" in error.message

    def test_evidence_has_to_be_there(self, space):
        quote = note(space, "We use SQLite.")
        for wrong in ({**quote, "segment_id": "seg_0000000000000"}, {**quote, "source_id": "src:" + "0" * 26}):
            unchanged_by(space, InvalidPatch, "knowledge", {**PREFERENCE, "evidence_refs": [wrong]})
        unchanged_by(space, InvalidPatch, "knowledge", {**PREFERENCE, "evidence_refs": [{**quote, "quote_hash": "x"}]})

    def test_the_evidence_of_what_is_believed_is_dated_and_hashed(self, space):
        found = read(space, decide(space, "SQLite", note(space, "We use SQLite.")))
        assert found.evidence_refs[0].quote_hash
        assert found.evidence_refs[0].verified_at
        assert found.last_verified_at

    @pytest.mark.parametrize(
        ("kind", "payload"),
        [
            ("fact", {"subject": "a", "predicate": "b"}),
            ("fact", {"subject": "a", "predicate": "b", "value": 1, "object": "c"}),
            ("procedure", {"steps": []}),
            ("decision", {"outcome": "x"}),
            ("constraint", {"rule": "x", "weight": 3}),
            ("preference", {}),
        ],
    )
    def test_a_payload_has_to_fit_its_kind(self, space, kind, payload):
        error = unchanged_by(space, InvalidInput, "knowledge", {"kind": kind, "title": "x", "payload": payload})
        assert error.message.startswith("payload.")

    def test_an_unknown_field_is_refused_with_the_nearest_name(self, space):
        error = unchanged_by(space, InvalidInput, "knowledge", {**PREFERENCE, "evidense_refs": []})
        assert "evidence_refs" in error.hint

    def test_an_unknown_field_of_a_payload_is_refused_with_the_nearest_name(self, space):
        given = {**PREFERENCE, "payload": {"statment": "x"}}
        assert "statement" in unchanged_by(space, InvalidInput, "knowledge", given).hint

    def test_validity_runs_forward(self, space):
        window = {"valid_from": "2026-02-01T00:00:00Z", "valid_until": "2026-01-01T00:00:00Z"}
        unchanged_by(space, InvalidInput, "knowledge", {**PREFERENCE, **window})

    def test_an_exact_duplicate_is_merged_and_its_evidence_added(self, space):
        first = decide(space, "SQLite", note(space, "We use SQLite.", origin="a"))
        again = decide(space, "SQLite", note(space, "It is SQLite.", origin="b"))
        assert again == first
        assert len(read(space, first).evidence_refs) == 2
        assert len(all_of(space, "knowledge")) == 1

    def test_the_same_again_changes_nothing_and_says_so(self, space):
        quote = note(space, "We use SQLite.")
        first = decide(space, "SQLite", quote)
        given = {**_decision("SQLite"), "status": "active", "evidence_refs": [quote]}
        report = space.crystallize("knowledge", input=given)
        assert report.receipt.results[0].outcome == "duplicate"
        assert read(space, first).revision == 1

    def test_evidence_makes_a_candidate_of_the_same_words_active(self, space):
        first = decide(space, "SQLite")
        assert decide(space, "SQLite", note(space, "We use SQLite.")) == first
        assert status(space, first) == "active"

    def test_near_duplicates_are_reported_and_both_kept(self, space):
        rule = {"kind": "constraint", "title": "Locks"}
        one = space.crystallize("knowledge", input={**rule, "payload": {"rule": "never wait for a lock in a handler"}})
        two = space.crystallize("knowledge", input={**rule, "payload": {"rule": "never wait for a lock in handlers"}})
        assert one.possible_duplicates == ()
        assert two.possible_duplicates == one.ids
        assert len(all_of(space, "knowledge")) == 2

    def test_statement_recorded_again_with_a_reason_is_one_entry(self, space):
        payload = {"rule": "Never use eval()", "scope": "src"}
        given = {"kind": "constraint", "title": "Never use eval()", "payload": payload, "status": "active"}
        given["evidence_refs"] = [note(space, "Never use eval().")]
        (first,) = space.crystallize("knowledge", input=given).ids[:1]
        reason = {**payload, "rule": "never use  eval()", "violation_impact": "Code of users runs"}
        report = space.crystallize("knowledge", input={**given, "payload": reason})
        assert (report.ids[:1], report.possible_duplicates) == ((first,), ())
        assert space.crystallize("knowledge", input=given).ids[:1] == (first,)
        assert read(space, first).payload.violation_impact == "Code of users runs"
        elsewhere = {**given, "payload": {**payload, "scope": "docs"}}
        assert space.crystallize("knowledge", input=elsewhere).ids[:1] != (first,)

    def test_candidate_does_not_change_the_reason_of_a_confirmed_rule(self, space):
        given = {"kind": "constraint", "title": "No eval", "evidence_refs": [note(space, "No eval.")]}
        payload = {"rule": "No eval", "violation_impact": "Code of users runs"}
        confirmed = space.crystallize("knowledge", input={**given, "payload": payload, "status": "active"})
        agents = {**given, "payload": {**payload, "violation_impact": "It is slow"}, "status": "candidate"}
        assert space.crystallize("knowledge", input=agents).ids[:1] != confirmed.ids[:1]
        assert read(space, confirmed.ids[0]).payload.violation_impact == "Code of users runs"

    def test_the_same_title_and_outcome_is_the_first_possible_duplicate(self, space):
        outcome = {"question": "How long may one request take?", "outcome": "Five seconds"}
        again = {**outcome, "question": "What is the limit of one request, in words of somebody else?"}
        like = {**again, "outcome": "Ten seconds"}
        given = {"kind": "decision", "title": "Timeout"}
        (near, same, report) = (
            space.crystallize("knowledge", input={**given, "payload": payload}) for payload in (like, outcome, again)
        )
        assert report.possible_duplicates == (*same.ids, *near.ids)

    @pytest.mark.parametrize(
        ("one", "other"),
        [
            ("Session data is signed with itsdangerous", "Session data is not signed with itsdangerous"),
            ("Always use mocks in tests", "Don't use mocks in tests"),
        ],
    )
    def test_opposite_of_a_recorded_statement_is_a_warning(self, space, one, other):
        first = space.crystallize("knowledge", input={**_decision(one), "title": one})
        report = space.crystallize("knowledge", input={**_decision(other), "title": other})
        assert report.warnings == (
            f"This may be the opposite of '{one}' ({first.ids[0]}). Archive the wrong one, or replace it.",
        )

    def test_other_statements_with_the_same_words_are_no_opposites(self, space):
        for title in ("Session data is signed with itsdangerous", "Session data is signed with PyJWT", "No sessions"):
            assert space.crystallize("knowledge", input={**_decision(title), "title": title}).warnings == ()

    def test_near_duplicates_of_another_scope_stay_unseen(self, space):
        rule = {"kind": "constraint", "title": "Locks"}
        for scope, words in (("/a", "never wait for a lock in a handler"), ("/b", "never wait for a lock in handlers")):
            report = space.crystallize("knowledge", scope=scope, input={**rule, "payload": {"rule": words}})
        assert report.possible_duplicates == ()

    def test_facts_that_contradict_each_other_are_both_contested(self, space):
        one = state_fact(space, "api", "port", 80, note(space, "The port is 80.", origin="a"))
        given = {
            "kind": "fact",
            "title": "port 81",
            "payload": {"subject": "api", "predicate": "port", "value": 81},
            "status": "active",
            "evidence_refs": [note(space, "The port is 81.", origin="b")],
        }
        report = space.crystallize("knowledge", input=given)
        assert set(report.contested) == {one, *(i for i in report.ids if i.startswith("know:"))}

    def test_likeness_alone_invalidates_nothing(self, space):
        one = decide(space, "Use tabs", note(space, "Use tabs.", origin="a"))
        decide(space, "Use no tabs", note(space, "Use no tabs.", origin="b"))
        assert status(space, one) == "active"


class TestCorrection:
    def test_fields_of_knowledge_can_be_corrected(self, space):
        known = decide(space, "SQLite")
        space.crystallize("knowledge", input={"id": known, "payload": {"rationale": "one file"}, "confidence": 0.9})
        found = read(space, known)
        assert (found.payload.rationale, found.payload.outcome, found.confidence) == ("one file", "SQLite", 0.9)

    def test_a_stale_revision_is_a_conflict_that_carries_the_current_one(self, space):
        known = decide(space, "SQLite")
        space.crystallize("knowledge", input={"id": known, "summary": "in one file"})
        error = unchanged_by(space, Conflict, "knowledge", {"id": known, "revision": 1, "summary": "elsewhere"})
        assert error.details["current"] == 2

    def test_a_status_can_move_along_the_table_only(self, space):
        known = decide(space, "SQLite")
        error = unchanged_by(space, IllegalTransition, "knowledge", {"id": known, "status": "superseded"})
        assert "archived" in error.details["allowed"]
        space.crystallize("knowledge", input={"id": known, "status": "archived"})
        assert status(space, known) == "archived"

    @pytest.mark.parametrize(
        "change",
        [
            {"payload": "words"},
            {"payload": {"outcom": "x"}},
            {"status": 5},
            {"scope": "/elsewhere"},
            {"titel": "x"},
            {"confidence": 7},
            {},
        ],
    )
    def test_a_correction_that_does_not_fit_is_refused(self, space, change):
        unchanged_by(space, InvalidInput, "knowledge", {"id": decide(space, "SQLite"), **change})

    def test_what_is_corrected_has_to_be_knowledge(self, space):
        unchanged_by(space, InvalidInput, "knowledge", {"id": task(space, "Do it"), "summary": "x"})
        unchanged_by(space, NotFound, "knowledge", {"id": "know:" + "0" * 26, "summary": "x"})


class TestOptions:
    def test_a_dry_run_shows_the_change_and_makes_none(self, space):
        known = decide(space, "SQLite")
        before = records(space)
        report = space.crystallize("knowledge", input={"id": known, "confidence": 0.9}, options={"dry_run": True})
        assert records(space) == before
        assert (report.status, report.ids, report.patch_id) == ("unchanged", (known,), "")
        assert [(f.field, f.before, f.after) for f in report.diff[0].fields] == [("confidence", 0.6, 0.9)]

    def test_a_dry_run_of_something_new_shows_what_it_would_hold(self, space):
        report = space.crystallize("knowledge", input=_decision("SQLite"), options={"dry_run": True})
        shown = {field.field: field.after for field in report.diff[0].fields}
        assert report.diff[0].event == "created"
        assert shown["payload"]["outcome"] == "SQLite"
        assert "salt" not in shown
        assert all_of(space, "knowledge") == []

    def test_a_dry_run_refuses_what_the_run_would_refuse(self, space):
        given = {**PREFERENCE, "status": "active"}
        unchanged_by(space, InvalidPatch, "knowledge", given, {"dry_run": True})

    def test_the_same_key_again_gives_the_first_receipt(self, space):
        once = space.crystallize("work_item", input={"title": "Do it"}, options={"idempotency_key": "k"})
        twice = space.crystallize("work_item", input={"title": "Do it"}, options={"idempotency_key": "k"})
        assert twice.receipt.replayed
        assert twice.ids == once.ids
        assert len(all_of(space, "work_item")) == 1

    def test_log_contains_the_reason(self, space):
        decide(space, "SQLite", options={"reason": "asked by Ada"})
        assert [event.reason for event in space.engine.ledger.events()] == ["asked by Ada"]

    def test_the_log_names_actor_channel_and_tool(self, open_space):
        space = open_space(actor="bot-7")
        decide(space, "SQLite")
        (patch,) = space.engine.ledger.patches()
        assert (patch.source.actor, patch.source.channel, patch.source.tool) == ("bot-7", "agent", "wiki.crystallize")


class TestActivity:
    def test_work_and_all_it_produced_are_one_patch(self, space):
        quote = note(space, "Retries are capped at 5.")
        given = {
            "kind": "implementation",
            "title": "Make retries configurable",
            "outcome": "success",
            "nodes": [{"kind": "component", "name": "Retry Policy"}],
            "knowledge": [{**_decision("cap at 5"), "status": "active", "evidence_refs": [quote]}],
            "work_items": [{"title": "Document the cap"}],
        }
        report = space.crystallize("activity", input=given)
        (done,) = all_of(space, "activity")
        assert done.status == "finalized"
        assert [read(space, one).type for one in done.produced_object_refs] == ["node", "knowledge", "work_item"]
        links = {(link.type, link.target) for link in space.engine.ledger.links(done.id)}
        assert links == {("produced", target) for target in done.produced_object_refs}
        assert len(space.engine.ledger.patches()) == 2
        assert done.id in report.ids

    def test_one_wrong_part_keeps_all_of_it_out(self, space):
        wrong = {"title": "x", "kind": "fact", "payload": {"subject": "a", "predicate": "b", "value": 1}}
        given = {"title": "Work", "nodes": [{"kind": "component", "name": "X"}]}
        unchanged_by(space, InvalidPatch, "activity", {**given, "knowledge": [{**wrong, "status": "active"}]})
        unchanged_by(space, InvalidInput, "activity", {**given, "work_items": [{"title": "x", "kind": "chore"}]})
        unchanged_by(space, InvalidInput, "activity", {**given, "nodes": [{"kind": "thing", "name": "X"}]})

    def test_an_activity_that_names_what_is_not_there_is_refused(self, space):
        unchanged_by(space, InvalidPatch, "activity", {"title": "Work", "source_refs": ["src:" + "0" * 26]})

    def test_knowledge_that_was_known_already_is_linked_where_it_is(self, space):
        known = decide(space, "SQLite")
        space.crystallize("activity", input={"title": "Look again", "knowledge": [_decision("SQLite")]})
        (done,) = all_of(space, "activity")
        assert done.produced_object_refs == (known,)
        assert [link.target for link in space.engine.ledger.links(done.id)] == [known]

    def test_near_duplicates_of_what_was_learned_are_reported(self, space):
        rule = {"kind": "constraint", "title": "Locks", "payload": {"rule": "never wait for a lock in a handler"}}
        known = space.crystallize("knowledge", input=rule).ids
        near = {**rule, "payload": {"rule": "never wait for a lock in handlers"}}
        report = space.crystallize("activity", input={"title": "Review", "knowledge": [near]})
        assert report.possible_duplicates == known

    def test_a_node_that_is_known_gains_an_alias_instead_of_a_twin(self, space):
        for name in ("Retry Policy", "retry policy"):
            space.crystallize("activity", input={"title": "x", "nodes": [{"kind": "component", "name": name}]})
        (node,) = all_of(space, "node")
        assert node.aliases == ("retry policy",)

    def test_a_misspelt_field_inside_is_named(self, space):
        error = unchanged_by(space, InvalidInput, "activity", {"title": "x", "knowledge": [{"titel": "y"}]})
        assert any("titel" in part["field"] for part in error.details["fields"])


class TestPromotion:
    def test_a_candidate_with_evidence_becomes_active(self, space):
        known = decide(space, "SQLite", note(space, "We use SQLite."), status="candidate")
        space.crystallize("promote", input={"ids": [known]})
        assert status(space, known) == "active"

    def test_one_candidate_is_named_by_id(self, space):
        known = decide(space, "SQLite", note(space, "We use SQLite."), status="candidate")
        space.crystallize("promote", input={"id": known})
        assert status(space, known) == "active"

    def test_a_candidate_without_evidence_does_not(self, space):
        unchanged_by(space, InvalidPatch, "promote", {"ids": [decide(space, "SQLite")]})

    def test_all_are_promoted_or_none(self, space):
        good = decide(space, "SQLite", note(space, "We use SQLite."), status="candidate")
        unchanged_by(space, InvalidPatch, "promote", {"ids": [good, decide(space, "Tabs")]})

    def test_promoting_twice_changes_nothing_the_second_time(self, space):
        known = decide(space, "SQLite", note(space, "We use SQLite."), status="candidate")
        space.crystallize("promote", input={"ids": [known, known]})
        before = records(space)
        assert space.crystallize("promote", input={"ids": [known]}).status == "unchanged"
        assert records(space) == before

    def test_only_knowledge_is_promoted(self, space):
        unchanged_by(space, InvalidInput, "promote", {"ids": [task(space, "Do it")]})

    def test_promotion_takes_ids_or_a_scope(self, space):
        unchanged_by(space, InvalidInput, "promote", {})
        unchanged_by(space, InvalidInput, "promote", {"ids": ["know:x"], "from_scope": "/run/1"})

    def test_a_child_scope_moves_up_and_stays_recognisable(self, space):
        quote = note(space, "We use SQLite.", scope="/run/1")
        known = decide(space, "SQLite", quote, scope="/run/1")
        deeper = task(space, "Do it", scope="/run/1/loop")
        space.crystallize("promote", scope="/run", input={"from_scope": "/run/1"})
        assert {read(space, one).scope for one in (known, deeper, quote["source_id"])} == {"/run"}
        (group,) = all_of(space, "node")
        assert (group.name, group.scope) == ("/run/1", "/run")
        for one in (known, deeper):
            assert ("part_of", group.id) in {(link.type, link.target) for link in space.engine.ledger.links(one)}
        assert space.query("search", scope="/run", input={"text": "SQLite"}).hits

    def test_moving_a_scope_up_twice_changes_nothing_the_second_time(self, space):
        decide(space, "SQLite", note(space, "We use SQLite.", scope="/run/1"), scope="/run/1")
        decide(space, "SQLite", scope="/run")
        space.crystallize("promote", input={"from_scope": "/run/1"})
        before = records(space)
        report = space.crystallize("promote", input={"from_scope": "/run/1"})
        assert (report.status, len(report.warnings)) == ("unchanged", 1)
        assert records(space) == before

    def test_a_duplicate_in_the_parent_takes_over_the_evidence(self, space):
        quote = note(space, "We use SQLite.", scope="/run/1")
        child = decide(space, "SQLite", quote, scope="/run/1")
        parent = decide(space, "SQLite", scope="/run")
        space.crystallize("promote", input={"from_scope": "/run/1"})
        assert status(space, child, parent) == ["archived", "active"]
        assert read(space, parent).evidence_refs[0].segment_id == quote["segment_id"]

    def test_a_scope_can_move_elsewhere_but_not_into_itself(self, space):
        known = decide(space, "SQLite", scope="/run/1")
        unchanged_by(space, InvalidInput, "promote", {"from_scope": "/run/1", "to_scope": "/run/1/deeper"})
        unchanged_by(space, InvalidInput, "promote", {"from_scope": "/"})
        space.crystallize("promote", input={"from_scope": "/run/1", "to_scope": "/kept"})
        assert read(space, known).scope == "/kept"

    def test_what_is_next_to_the_child_stays(self, space):
        decide(space, "SQLite", scope="/run/1")
        beside = decide(space, "Tabs", scope="/run/11")
        space.crystallize("promote", input={"from_scope": "/run/1"})
        assert read(space, beside).scope == "/run/11"


class TestSupersession:
    def test_knowledge_is_replaced_by_other_knowledge_and_both_stay(self, space):
        old = decide(space, "Files", note(space, "We use files.", origin="a"))
        new = decide(space, "SQLite", note(space, "We use SQLite.", origin="b"))
        space.crystallize("supersede", input={"id": old, "by": new}, options={"reason": "locks"})
        assert status(space, old, new) == ["superseded", "active"]
        links = {(link.type, link.source, link.target) for link in space.engine.ledger.links(old)}
        assert ("supersedes", new, old) in links

    def test_the_new_knowledge_can_come_along(self, space):
        old = decide(space, "Files", note(space, "We use files.", origin="a"))
        new = {**_decision("SQLite"), "evidence_refs": [note(space, "We use SQLite.", origin="b")]}
        space.crystallize("supersede", input={"id": old, "knowledge": new})
        assert {item.title: item.status for item in all_of(space, "knowledge")} == {
            "Files": "superseded",
            "SQLite": "active",
        }

    def test_what_was_derived_from_the_old_becomes_stale_in_the_same_patch(self, space):
        old = decide(space, "Files", note(space, "We use files.", origin="a"))
        leaning = decide(space, "Lock files", status="active", derived_from=[old])
        new = {**_decision("SQLite"), "evidence_refs": [note(space, "We use SQLite.", origin="b")]}
        report = space.crystallize("supersede", input={"id": old, "knowledge": new})
        assert report.staled == (leaning,)

    def test_superseding_can_be_taken_back(self, space):
        old = decide(space, "Files", note(space, "We use files.", origin="a"))
        new = decide(space, "SQLite", note(space, "We use SQLite.", origin="b"))
        report = space.crystallize("supersede", input={"id": old, "by": new})
        space.revert(report.patch_id, reason="too early")
        assert status(space, old, new) == ["active", "active"]
        assert space.engine.ledger.links(old) == []

    def test_the_winner_of_a_conflict_is_believed_again(self, space):
        lost = state_fact(space, "api", "port", 80, note(space, "The port is 80.", origin="a"))
        won = state_fact(space, "api", "port", 81, note(space, "The port is 81.", origin="b"))
        assert status(space, lost, won) == ["contested", "contested"]
        space.crystallize("supersede", input={"id": lost, "by": won})
        assert status(space, lost, won) == ["superseded", "active"]

    def test_a_candidate_replaces_nothing(self, space):
        old = decide(space, "Files", note(space, "We use files."))
        unchanged_by(space, InvalidPatch, "supersede", {"id": old, "by": decide(space, "SQLite")})

    def test_one_successor_is_named(self, space):
        old = decide(space, "Files", note(space, "We use files."))
        unchanged_by(space, InvalidInput, "supersede", {"id": old})
        unchanged_by(space, InvalidInput, "supersede", {"id": old, "by": old, "knowledge": _decision("x")})
        unchanged_by(space, InvalidPatch, "supersede", {"id": old, "by": old})
        unchanged_by(space, InvalidInput, "supersede", {"id": task(space, "Do it"), "by": old})

    def test_a_stale_revision_is_a_conflict(self, space):
        old = decide(space, "Files", note(space, "We use files.", origin="a"))
        new = decide(space, "SQLite", note(space, "We use SQLite.", origin="b"))
        space.crystallize("knowledge", input={"id": old, "summary": "plain"})
        unchanged_by(space, Conflict, "supersede", {"id": old, "by": new, "revision": 1})


class TestWork:
    def test_work_is_opened_moved_and_resolved(self, space):
        item = task(space, "Do it", kind="bug", priority="high")
        space.crystallize("work_item", input={"id": item, "status": "in_progress"})
        space.crystallize("work_item", input={"id": item, "status": "resolved", "resolution": "done in 3f2a"})
        found = read(space, item)
        assert (found.kind, found.status, found.resolution, found.revision) == ("bug", "resolved", "done in 3f2a", 3)

    def test_resolving_needs_a_resolution(self, space):
        unchanged_by(space, InvalidPatch, "work_item", {"id": task(space, "Do it"), "status": "resolved"})

    def test_work_moves_along_the_table_only(self, space):
        error = unchanged_by(space, IllegalTransition, "work_item", {"id": task(space, "Do it"), "status": "closed"})
        assert "resolved" in error.hint

    def test_work_that_would_wait_on_itself_is_refused_with_the_cycle(self, space):
        first = task(space, "One")
        second = task(space, "Two", depends_on=[first])
        third = task(space, "Three", depends_on=[second])
        error = unchanged_by(space, InvalidPatch, "work_item", {"id": first, "depends_on": [third]})
        assert error.details["cycle"] == [first, third, second, first]
        assert " -> ".join([first, third, second, first]) in error.message
        unchanged_by(space, InvalidPatch, "work_item", {"id": first, "parent_ref": first})

    def test_a_parent_knows_its_children(self, space):
        parent = task(space, "All")
        child = task(space, "Part", parent_ref=parent)
        assert read(space, parent).child_refs == (child,)

    def test_work_is_linked_to_what_it_is_about(self, space):
        known, item = decide(space, "SQLite"), task(space, "Do it")
        link = {"type": "about", "target": known}
        space.crystallize("work_item", input={"id": item, "links": [link]})
        assert [(at.type, at.target) for at in space.engine.ledger.links(item)] == [("about", known)]
        assert space.crystallize("work_item", input={"id": item, "links": [link]}).status == "unchanged"

    def test_a_link_has_to_lead_somewhere(self, space):
        nowhere = [{"type": "about", "target": "know:" + "0" * 26}]
        unchanged_by(space, NotFound, "work_item", {"id": task(space, "Do it"), "links": nowhere})
        unchanged_by(space, InvalidInput, "work_item", {"title": "x", "links": [{"type": "likes", "target": "y"}]})

    def test_a_change_of_nothing_is_refused(self, space):
        unchanged_by(space, InvalidInput, "work_item", {"id": task(space, "Do it")})
        unchanged_by(space, InvalidInput, "work_item", {"id": decide(space, "SQLite"), "status": "blocked"})

    @pytest.mark.parametrize(
        "wrong", [{"priority": "soon"}, {"titel": "x"}, {"due_at": "tomorrow"}, {"status": "done"}]
    )
    def test_a_wrong_field_is_refused(self, space, wrong):
        unchanged_by(space, InvalidInput, "work_item", {"title": "Do it", **wrong})


class TestReview:
    def test_what_needs_review_is_proposed_and_changes_nothing_yet(self, reviewed):
        report = reviewed.crystallize("knowledge", input=_decision("SQLite"))
        assert report.status == "proposed"
        assert all_of(reviewed, "knowledge") == []
        (waiting,) = reviewed.proposals()
        assert waiting.id == report.patch_id
        assert reviewed.proposal_diff(waiting.id)[0].title == "SQLite"

    def test_another_person_applies_it(self, reviewed):
        patch = reviewed.crystallize("knowledge", input=_decision("SQLite")).patch_id
        reviewed.with_actor("ada", channel="user").approve(patch)
        assert [item.title for item in all_of(reviewed, "knowledge")] == ["SQLite"]
        assert reviewed.proposals() == ()
        assert reviewed.query("search", input={"text": "SQLite"}).hits

    def test_authors_cannot_approve_their_own(self, reviewed):
        patch = reviewed.crystallize("knowledge", input=_decision("SQLite")).patch_id
        with pytest.raises(Denied):
            reviewed.approve(patch)
        with pytest.raises(Denied):
            reviewed.with_actor("other-bot").approve(patch)
        assert all_of(reviewed, "knowledge") == []

    def test_a_rejected_proposal_is_over(self, reviewed):
        patch = reviewed.crystallize("knowledge", input=_decision("SQLite")).patch_id
        ada = reviewed.with_actor("ada", channel="user")
        assert ada.reject(patch, reason="no").status == "rejected"
        with pytest.raises(Conflict):
            ada.approve(patch)
        assert reviewed.proposals() == ()

    def test_a_proposal_that_others_overtook_is_a_conflict(self, reviewed):
        ada = reviewed.with_actor("ada", channel="user")
        known = decide(ada, "SQLite", note(ada, "We use SQLite."))
        patch = reviewed.crystallize("knowledge", input={"id": known, "summary": "mine"}).patch_id
        ada.crystallize("knowledge", input={"id": known, "summary": "hers"})
        with pytest.raises(Conflict):
            ada.approve(patch)

    def test_a_wrong_patch_is_refused_before_it_waits(self, reviewed):
        unchanged_by(reviewed, InvalidPatch, "knowledge", {**PREFERENCE, "status": "active"})

    def test_a_dry_run_proposes_nothing(self, reviewed):
        reviewed.crystallize("knowledge", input=_decision("SQLite"), options={"dry_run": True})
        assert reviewed.proposals() == ()


def test_an_unknown_mode_is_refused_with_the_nearest_name(space):
    error = unchanged_by(space, InvalidInput, "knowlege", {})
    assert "knowledge" in error.hint


def test_an_unknown_option_is_refused_with_the_nearest_name(space):
    error = unchanged_by(space, InvalidInput, "knowledge", _decision("x"), {"dryrun": True})
    assert "dry_run" in error.hint


def _decision(title):
    payload = {"question": f"Which way for {title}?", "outcome": title}
    return {"kind": "decision", "title": title, "payload": payload}
