"""Objects live as the substrate's document says: made, changed, contested, withdrawn, through the four tools alone."""

import pytest

from space_parts import decide, note, put, state_fact
from treering.core.errors import InvalidInput
from treering.core.evidence import EvidenceRef
from treering.testing.builders import Builder


@pytest.fixture
def space(open_space):
    """A space written by a person."""
    return open_space(channel="user", actor="ada")


def page(space, identity):
    """Show one object whole, as `wiki.query` does."""
    return space.query("page", input={"id": identity}).object


def status(space, identity):
    return page(space, identity)["status"]


def correct(space, identity, **changes):
    return space.crystallize("knowledge", input={"id": identity, **changes})


class TestDisputes:
    def test_what_a_person_contests_stays_contested_until_it_is_settled(self, space):
        fact = state_fact(space, "acme-web", "port", 8080, note(space, "The port is 8080.", origin="port.md"))
        report = correct(space, fact, status="contested")
        assert report.status == "ok"
        correct(space, fact, summary="As the readme says.")
        assert status(space, fact) == "contested"
        pack = space.query("context", input={"task": "which port has acme-web"}).pack
        assert [conflict.ids for conflict in pack.conflicts] == [(fact,)]
        (finding,) = space.lint("semantic", input={"rules": ["contradiction"]}).findings
        assert finding.ids == (fact,)
        correct(space, fact, status="active")
        assert status(space, fact) == "active"
        assert space.lint("semantic", input={"rules": ["contradiction"]}).findings == ()

    def test_evidence_that_contradicts_contests_until_it_is_settled(self, space):
        told = note(space, "The port is 8080.", origin="port.md")
        fact = state_fact(space, "acme-web", "port", 8080, told)
        against = {**note(space, "Nothing listens at 8080.", origin="log.md"), "role": "contradicts"}
        report = correct(space, fact, evidence_refs=[told, against])
        assert fact in report.contested
        assert status(space, fact) == "contested"
        (finding,) = space.lint("semantic", input={"rules": ["contradiction"]}).findings
        assert set(finding.ids) == {fact, against["source_id"]}
        correct(space, fact, status="active")
        correct(space, fact, summary="The log was of another day.")
        assert status(space, fact) == "active"

    def test_knowledge_that_comes_with_evidence_against_it_is_contested_from_the_start(self, space):
        told = note(space, "The port is 8080.", origin="port.md")
        against = {**note(space, "Nothing listens at 8080.", origin="log.md"), "role": "contradicts"}
        fact = state_fact(space, "acme-web", "port", 8080, told, against)
        assert status(space, fact) == "contested"

    def test_two_decisions_on_one_question_are_contested_until_one_is_superseded(self, space):
        first = decide(space, "SQLite", payload={"question": "Which store?", "outcome": "SQLite"})
        second = decide(space, "Postgres", payload={"question": "which store", "outcome": "Postgres"})
        assert {status(space, first), status(space, second)} == {"contested"}
        pack = space.query("context", input={"task": "which store do we take"}).pack
        assert [set(conflict.ids) for conflict in pack.conflicts] == [{first, second}]
        (finding,) = space.lint("semantic", input={"rules": ["contradiction"]}).findings
        assert set(finding.ids) == {first, second}
        space.crystallize("supersede", input={"id": first, "by": second})
        assert [status(space, first), status(space, second)] == ["superseded", "active"]


class TestAudit:
    def test_an_audit_gives_before_and_after(self, space):
        fact = state_fact(space, "acme-web", "port", 8080)
        correct(space, fact, payload={"value": 9090})
        made, changed = space.lint("audit", input={"id": fact}).changes
        assert (made.before, made.after["revision"]) == (None, 1)
        assert (changed.before["revision"], changed.after["revision"]) == (1, 2)
        assert changed.before["hash"] == made.after["hash"] != changed.after["hash"]
        assert [(one.field, one.before["value"], one.after["value"]) for one in changed.fields] == [
            ("payload", 8080, 9090)
        ]
        newest = space.lint("audit").changes[-1]
        assert (newest.target, newest.after, newest.fields) == (fact, changed.after, ())

    def test_an_applied_patch_keeps_its_operations(self, space):
        told = note(space, "The port is 8080.", origin="port.md")
        fact = state_fact(space, "acme-web", "port", 8080, told)
        report = correct(space, fact, summary="As the readme says.", status="contested")
        patch = space.lint("audit", input={"id": report.patch_id}).patch
        assert (patch.id, patch.status, patch.source.actor) == (report.patch_id, "applied", "ada")
        assert patch.operations == (
            {"op": "update", "id": fact, "expected_revision": 1, "changes": {"summary": "As the readme says."}},
            {"op": "transition", "id": fact, "expected_revision": 1, "to": "contested", "resolution": ""},
        )

    def test_a_patch_tells_nothing_of_what_was_erased(self, space):
        told = note(space, "The word is xyzzy.", origin="word.md", title="xyzzy")
        (created,) = space.lint("audit", input={"id": told["source_id"]}).changes
        (operation,) = space.lint("audit", input={"id": created.patch_id}).patch.operations
        assert operation["object"]["title"] == "xyzzy"
        space.erase([told["source_id"]])
        report = space.lint("audit", input={"id": created.patch_id})
        assert report.patch.operations == ({"op": "create", "id": told["source_id"], "revision": 1, "merged": ""},)
        assert "xyzzy" not in report.model_dump_json()
        assert report.verified


class TestKinds:
    def test_the_kinds_of_knowledge_that_can_be_written_are_those_of_the_document(self, space):
        payload = {"form": "digest", "key": "all"}
        given = {"kind": "summary", "title": "All is well", "summary": "Nothing to see.", "payload": payload}
        with pytest.raises(InvalidInput, match="fact") as refused:
            space.crystallize("knowledge", input={**given, "status": "active"})
        assert "summary" not in refused.value.message
        with pytest.raises(InvalidInput):
            space.crystallize("activity", input={"title": "x", "knowledge": [given]})
        with pytest.raises(InvalidInput):
            space.crystallize("supersede", input={"id": state_fact(space, "a", "b", 1), "knowledge": given})
        with pytest.raises(InvalidInput):
            correct(space, state_fact(space, "a", "b", 1), kind="summary", payload=payload)

    def test_the_words_of_a_summary_are_not_corrected_by_hand(self, space):
        told = note(space, "The port is 8080.", origin="port.md")
        summary = Builder(space.engine.clock).knowledge(
            "summary", {"form": "memory", "key": "m"}, EvidenceRef(**told), title="The port", summary="It is 8080."
        )
        put(space, summary)
        with pytest.raises(InvalidInput, match="summar"):
            correct(space, summary.id, summary="It is 9090.")
        correct(space, summary.id, status="archived")
        assert page(space, summary.id)["summary"] == "It is 8080."
