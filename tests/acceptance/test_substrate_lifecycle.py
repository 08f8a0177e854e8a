"""Objects live as the substrate's document says: made, changed, contested, withdrawn, through the four tools alone."""

from datetime import timedelta

import pytest

from space_parts import decide, note, only_id, put, state_fact, task
from treering.core.errors import InvalidInput
from treering.core.evidence import EvidenceRef
from treering.testing.builders import Builder

RECORD = """# Store

## Status

Accepted

## Context

Which store?

## Decision

{}
"""
PAST = "2026-01-01T00:00:00Z"
INFERRED = {"kind": "constraint", "memory_source": "agent_inferred"}


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


class TestActivities:
    def test_a_draft_is_completed_finalized_and_archived(self, space):
        draft = {"kind": "debug", "title": "Upload hangs", "status": "draft"}
        activity = only_id(space.crystallize("activity", input=draft), "act:")
        learned = {"kind": "fact", "title": "t", "payload": {"subject": "upload", "predicate": "limit", "value": 5}}
        given = {"summary": "A lock was held.", "status": "finalized", "outcome": "success", "knowledge": [learned]}
        report = space.crystallize("activity", input={"id": activity, **given})
        told = page(space, activity)
        assert (told["status"], told["summary"], told["title"]) == ("finalized", "A lock was held.", "Upload hangs")
        assert told["produced_object_refs"] == [only_id(report, "know:")]
        space.crystallize("activity", input={"id": activity, "status": "archived"})
        assert status(space, activity) == "archived"

    def test_it_names_what_it_left_outside(self, space):
        left = ["https://github.com/acme/web/pull/7", "docs/report.md", "/srv/reports/2026.pdf"]
        activity = only_id(space.crystallize("activity", input={"title": "x", "artifact_refs": left}), "act:")
        assert page(space, activity)["artifact_refs"] == left

    def test_a_draft_that_comes_to_nothing_is_archived(self, space):
        activity = only_id(space.crystallize("activity", input={"title": "x", "status": "draft"}), "act:")
        space.crystallize("activity", input={"id": activity, "status": "archived"})
        assert status(space, activity) == "archived"
        assert space.query("search", input={"text": "x"}).hits == ()

    def test_a_change_of_an_activity_needs_something_to_change(self, space):
        activity = only_id(space.crystallize("activity", input={"title": "x"}), "act:")
        with pytest.raises(InvalidInput, match="changes nothing"):
            space.crystallize("activity", input={"id": activity, "status": "finalized"})
        with pytest.raises(InvalidInput, match="not an activity"):
            space.crystallize("activity", input={"id": state_fact(space, "a", "b", 1), "status": "archived"})


class TestSources:
    def test_a_text_is_kept_normalised_whatever_its_bytes(self, space, tmp_path):
        bytes_of = {
            "a.txt": "naïve café\r\nzwei\r\n".encode("utf-16"),
            "b.txt": "naïve café\nzwei\n".encode(),
            "c.txt": "naïve café\r\nzwei".encode("latin-1"),
        }
        for name, data in bytes_of.items():
            (tmp_path / name).write_bytes(data)
        kept = [page(space, result.source_id) for result in space.ingest("path", input={"path": str(tmp_path)}).items]
        assert [[one["excerpt"] for one in source["segments"]] for source in kept] == [["naïve café\nzwei"]] * 3

    def test_an_invalid_source_counts_for_nothing_until_it_is_valid_again(self, space):
        told = note(space, "The port is 8080.", origin="port.md")
        fact = state_fact(space, "acme-web", "port", 8080, told)
        report = space.crystallize("source", input={"id": told["source_id"], "status": "invalid"})
        assert report.staled == (fact,)
        assert space.query("search", input={"text": "which port"}).hits == ()
        note(space, "The port is 8081.", origin="port.md")
        assert status(space, told["source_id"]) == "invalid"
        space.crystallize("source", input={"id": told["source_id"], "status": "active"})
        assert [hit.text for hit in space.query("search", input={"text": "which port"}).hits] == ["The port is 8081."]

    def test_a_source_is_archived(self, space):
        told = note(space, "The port is 8080.", origin="port.md")
        space.crystallize("source", input={"id": told["source_id"], "status": "archived"})
        assert status(space, told["source_id"]) == "archived"
        with pytest.raises(InvalidInput, match="is already archived"):
            space.crystallize("source", input={"id": told["source_id"], "status": "archived"})

    def test_an_invalid_source_that_states_something_new_is_kept_up_to_date_and_states_nothing(self, space, tmp_path):
        file = tmp_path / "docs" / "decisions" / "0001-store.md"
        file.parent.mkdir(parents=True)
        file.write_text(RECORD.format("SQLite."))
        (result,) = space.ingest("path", input={"path": str(file)}).items
        space.crystallize("source", input={"id": result.source_id, "status": "invalid"})
        file.write_text(RECORD.format("Postgres."))
        (result,) = space.ingest("path", input={"path": str(file)}).items
        assert (result.outcome, status(space, result.source_id)) == ("updated", "invalid")
        assert space.query("search", input={"text": "Postgres"}).hits == ()


class TestNodes:
    def test_a_node_is_made_changed_and_archived(self, space):
        node = only_id(space.crystallize("node", input={"kind": "service", "name": "Billing"}), "node:")
        space.crystallize("node", input={"id": node, "summary": "Sends invoices.", "aliases": ["Invoicing"]})
        told = page(space, node)
        assert (told["summary"], told["aliases"], told["revision"]) == ("Sends invoices.", ["Invoicing"], 2)
        space.crystallize("node", input={"id": node, "status": "archived"})
        assert status(space, node) == "archived"

    @pytest.mark.parametrize("mode", ["node", "activity"])
    def test_a_node_sent_again_takes_the_new_summary(self, space, mode):
        def send(summary):
            node = {"kind": "service", "name": "Billing", "summary": summary}
            return space.crystallize(mode, input=node if mode == "node" else {"title": "x", "nodes": [node]})

        node = only_id(send("Sends invoices."), "node:")
        report = send("Sends invoices and reminders.")
        assert "updated" in [result.outcome for result in report.receipt.results if result.id == node]
        assert page(space, node)["summary"] == "Sends invoices and reminders."
        assert "duplicate" in [result.outcome for result in send("").receipt.results]
        assert page(space, node)["summary"] == "Sends invoices and reminders."

    def test_nodes_are_merged(self, space):
        one, two = (
            only_id(space.crystallize("node", input={"kind": "service", "name": name}), "node:")
            for name in ("Billing", "Invoicing")
        )
        space.crystallize("node", input={"id": two, "into": one})
        assert page(space, two)["id"] == one
        assert page(space, one)["aliases"] == ["Invoicing"]
        with pytest.raises(InvalidInput, match="not both"):
            space.crystallize("node", input={"id": one, "into": two, "status": "archived"})


class TestWorkItems:
    def test_when_work_was_opened_can_be_said(self, space):
        opened = "2025-03-01T09:00:00.000000Z"
        work = task(space, "Fix the upload", opened_at=opened)
        assert page(space, work)["opened_at"] == opened
        space.crystallize("work_item", input={"id": work, "opened_at": "2025-03-02T09:00:00Z"})
        assert page(space, work)["opened_at"].startswith("2025-03-02")


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

    def test_a_patch_reveals_nothing_of_what_was_erased(self, space):
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

    def test_summary_text_cannot_be_corrected(self, space):
        told = note(space, "The port is 8080.", origin="port.md")
        summary = Builder(space.engine.clock).knowledge(
            "summary", {"form": "memory", "key": "m"}, EvidenceRef(**told), title="The port", summary="It is 8080."
        )
        put(space, summary)
        with pytest.raises(InvalidInput, match="summar"):
            correct(space, summary.id, summary="It is 9090.")
        correct(space, summary.id, status="archived")
        assert page(space, summary.id)["summary"] == "It is 8080."


class TestWhatIsOver:
    """Knowledge past `valid_until` and archived work items are never presented as current."""

    def test_knowledge_past_its_validity_is_not_presented_as_current(self, space):
        told = note(space, "Deploys were frozen in December.", origin="freeze.md")
        rule = {"kind": "constraint", "title": "Deploys are frozen", "payload": {"rule": "Do not deploy in December"}}
        given = {**rule, "evidence_refs": [told], "status": "active", "valid_until": PAST}
        frozen = only_id(space.crystallize("knowledge", input=given), "know:")

        hits = space.query("search", input={"text": "are deploys frozen in December"}).hits
        assert frozen not in [hit.object_id for hit in hits]
        pack = space.query("context", input={"task": "deploy in December although deploys are frozen"}).pack
        assert frozen not in [item.object_id for item in pack.items]
        assert any(frozen in gap for gap in pack.missing_context)
        report = space.query("page", input={"id": frozen})
        assert not report.current
        assert any("valid until 2026-01-01" in warning for warning in report.warnings)
        (neighbour,) = space.query("related", input={"id": told["source_id"]}).neighbours
        assert (neighbour.id, neighbour.current) == (frozen, False)
        changes = space.query("recent", input={"types": ["knowledge"]}).changes
        assert {change.id: change.current for change in changes} == {frozen: False}
        (item,) = space.query("expand", input={"ids": [frozen]}).items
        assert not item.current

    def test_knowledge_that_was_valid_at_a_time_is_current_then(self, space):
        rule = {**INFERRED, "title": "Deploys are frozen", "payload": {"rule": "Do not deploy"}}
        soon = space.engine.clock.now() + timedelta(hours=1)
        frozen = only_id(space.crystallize("knowledge", input={**rule, "valid_until": soon.isoformat()}), "know:")
        assert frozen in [hit.object_id for hit in space.query("search", input={"text": "deploys frozen"}).hits]
        assert space.query("page", input={"id": frozen}).current

    def test_what_is_over_is_shown_on_request_and_said_to_be(self, space):
        rule = {**INFERRED, "title": "Deploys are frozen", "payload": {"rule": "Do not deploy"}}
        frozen = only_id(space.crystallize("knowledge", input={**rule, "valid_until": PAST}), "know:")
        empty = space.query("search", input={"text": "deploys frozen"})
        assert (empty.hits, empty.empty.reason) == ((), "known_but_empty")
        shown = space.query("search", input={"text": "deploys frozen"}, options={"withdrawn": True}).hits
        assert {hit.object_id: hit.current for hit in shown}[frozen] is False
        pack = space.query("context", input={"task": "deploys frozen"}, options={"withdrawn": True}).pack
        assert ["over" in item.flags for item in pack.items if item.object_id == frozen] == [True]

    def test_archived_work_is_not_presented_as_current(self, space):
        told = note(space, "The upload hangs.", origin="upload.md")
        work = task(space, "Fix the upload that hangs", source_refs=[told["source_id"]])
        before = space.engine.ledger.sequence()
        space.crystallize("work_item", input={"id": work, "lifecycle_state": "archived"})

        assert work not in [hit.object_id for hit in space.query("search", input={"text": "fix upload hangs"}).hits]
        pack = space.query("context", input={"task": "fix the upload that hangs"}).pack
        assert work not in [item.object_id for item in pack.items]
        report = space.query("page", input={"id": work})
        assert (report.current, report.object["status"]) == (False, "open")
        assert any("archived" in warning for warning in report.warnings)
        assert {change.current for change in space.query("recent", input={"types": ["work_item"]}).changes} == {False}
        then = space.query("search", input={"text": "fix upload hangs"}, options={"as_of": before}).hits
        assert work in [hit.object_id for hit in then]


PORTS = '''"""Reading of settings."""


def parse_port(text):
    """Return the port that a text names, 8080 for none."""
    return int(text or 8080)


def parse_host(text):
    """Return the host in lower case."""
    return text.strip().lower()
'''


class TestStaleness:
    @pytest.fixture
    def code(self, space, tmp_path):
        """A file of two small functions in one segment, which can be written anew, and evidence in it."""
        file = tmp_path / "settings.py"

        def write(text):
            file.write_text(text)
            return space.ingest("path", input={"path": str(file)})

        write(PORTS)
        (hit,) = space.query("search", input={"text": "parse_port"}).hits
        assert "parse_host" in hit.text
        return write, {"source_id": hit.source_id, "segment_id": hit.segment_id}

    def test_knowledge_about_a_function_outlives_a_change_of_its_neighbour(self, space, code):
        write, evidence = code
        named = state_fact(space, "parse_port", "default", 8080, evidence)
        told = decide(space, "Ports default to 8080", evidence)
        other = state_fact(space, "parse_host", "case", "lower", evidence)
        report = write(PORTS.replace("text.strip().lower()", "text.strip().upper()"))
        assert report.staled == (other,)
        assert [status(space, one) for one in (named, told, other)] == ["active", "active", "stale"]
        (ref,) = page(space, named)["evidence_refs"]
        (item,) = space.query("expand", input={"ids": [f"{ref['source_id']} {ref['segment_id']}"]}).items
        assert "int(text or 8080)" in item.text
        assert "upper" in item.text

    def test_knowledge_about_a_function_falls_with_the_function(self, space, code):
        write, evidence = code
        port = state_fact(space, "parse_port", "default", 8080, evidence)
        both = decide(space, "parse_port() and parse_host() read settings", evidence)
        unclear = decide(space, "Settings matter", evidence)
        report = write(PORTS.replace("text or 8080", "text or 9090"))
        assert set(report.staled) == {port, both, unclear}

    def test_what_a_file_states_and_a_person_believes_follows_the_file(self, space, tmp_path):
        file = tmp_path / "docs" / "decisions" / "0001-store.md"
        file.parent.mkdir(parents=True)
        file.write_text(RECORD.format("SQLite."))
        space.ingest("path", input={"path": str(file)})
        hits = space.query("search", input={"text": "which store"}, options={"filter": {"kind": "decision"}}).hits
        space.crystallize("promote", input={"ids": [hits[0].object_id]})
        file.write_text(RECORD.format("SQLite.\n\nWe looked at it for a week."))
        (result,) = space.ingest("path", input={"path": str(file)}).items
        assert (result.outcome, result.why) == ("updated", "")
        assert status(space, hits[0].object_id) == "active"

    def test_of_two_pieces_of_evidence_one_changed_is_a_finding(self, space):
        one = note(space, "The port is 8080.", origin="port.md")
        two = note(space, "Use 8080.", origin="readme.md")
        fact = state_fact(space, "acme-web", "port", 8080, one, two)
        assert space.lint("semantic", input={"rules": ["partly-changed"]}).findings == ()
        note(space, "The port can be set.", origin="port.md")
        assert status(space, fact) == "active"
        (finding,) = space.lint("semantic", input={"rules": ["partly-changed"]}).findings
        assert finding.ids == (fact, one["source_id"])
        assert "port.md" in finding.explanation
        assert "The port is 8080." in finding.explanation
        assert (finding.severity, finding.fix) == ("warning", ())

    def test_evidence_whose_words_are_elsewhere_in_the_source_is_pointed_there(self, space):
        one = note(space, "The port is 8080.", origin="port.md", kind="markdown")
        two = note(space, "Use 8080.", origin="readme.md")
        fact = state_fact(space, "acme-web", "port", 8080, one, two)
        note(space, "Listen: The port is 8080. Always.", origin="port.md", kind="markdown")
        (repair,) = space.lint("repair", input={"rules": ["partly-changed"]}, options={"apply": True}).repairs
        assert (repair.outcome, repair.ids[0]) == ("applied", fact)
        assert space.lint("semantic", input={"rules": ["partly-changed"]}).findings == ()
