import pytest

import treering
from treering.core.characters import named
from treering.testing import HashingEmbedder

LIMIT = {
    "kind": "fact",
    "title": "The retry limit is 3.",
    "payload": {"subject": "triton", "predicate": "retry limit", "value": 3},
}
DECISION = {"kind": "decision", "title": "Use uv", "payload": {"question": "Which installer?", "outcome": "uv"}}
RULE = {"kind": "constraint", "title": "No network", "payload": {"rule": "Tests reach no network."}}


@pytest.fixture
def space():
    with treering.open(":memory:", background=False, embedder=HashingEmbedder(), channel="user") as opened:
        yield opened


def recorded(space, fields):
    return space.engine.ledger.get(space.crystallize("knowledge", input=fields).ids[-1])


@pytest.mark.parametrize("fields", [LIMIT, DECISION, RULE])
@pytest.mark.parametrize("change", [{"summary": "Decided by Ada."}, {"title": "Other words"}, {"confidence": 0.5}])
def test_superseding_by_the_same_payload_changes_the_words(space, fields, change):
    old = recorded(space, fields)
    report = space.crystallize("supersede", input={"id": old.id, "knowledge": {**fields, **change}})
    changed = space.engine.ledger.get(old.id)
    assert report.ids == (old.id,)
    assert {name: getattr(changed, name) for name in change} == change
    assert (changed.status, changed.revision) == ("active", old.revision + 1)
    assert report.warnings == (
        f"{named(old.title)} already states the same, so only its {next(iter(change))} changed.",
    )


def test_superseding_by_the_same_payload_adds_its_evidence(space):
    old = recorded(space, LIMIT)
    source = space.ingest("source", input={"origin": "log.md", "text": "The retry limit of triton is 3."}).ids[-1]
    segment = space.engine.ledger.get(source).segments[0].segment_id
    more = {"evidence_refs": [{"source_id": source, "segment_id": segment}]}
    space.crystallize("supersede", input={"id": old.id, "knowledge": {**LIMIT, **more}})
    changed = space.engine.ledger.get(old.id)
    assert [ref.source_id for ref in changed.evidence_refs] == [old.evidence_refs[0].source_id, source]


def test_superseding_by_the_very_same_says_what_would_replace_it(space):
    old = recorded(space, LIMIT)
    with pytest.raises(treering.InvalidInput, match="already states the same") as refused:
        space.crystallize("supersede", input={"id": old.id, "knowledge": LIMIT})
    assert "a later valid_from" in refused.value.hint
    assert space.engine.ledger.get(old.id) == old


def test_superseding_at_an_old_revision_is_a_conflict(space):
    old = recorded(space, LIMIT)
    space.crystallize("knowledge", input={"id": old.id, "summary": "Measured."})
    given = {"id": old.id, "revision": 1, "knowledge": {**LIMIT, "summary": "Decided."}}
    with pytest.raises(treering.Conflict):
        space.crystallize("supersede", input=given)


def test_superseding_by_itself_names_the_call_that_works(space):
    old = recorded(space, LIMIT)
    with pytest.raises(treering.InvalidInput, match="cannot supersede itself") as refused:
        space.crystallize("supersede", input={"id": old.id, "by": old.id})
    assert "mode `knowledge` with its id" in refused.value.hint


@pytest.mark.parametrize(
    "change", [{"payload": {**LIMIT["payload"], "value": 5}}, {"valid_from": "2026-06-01T00:00:00Z"}]
)
def test_superseding_by_another_value_or_time_replaces(space, change):
    old = recorded(space, LIMIT)
    report = space.crystallize("supersede", input={"id": old.id, "knowledge": {**LIMIT, **change}})
    assert report.warnings == ()
    assert report.ids[-1] == old.id
    assert [space.engine.ledger.get(one).status for one in report.ids[-2:]] == ["active", "superseded"]


def test_superseding_what_was_superseded_before_is_no_change_of_words(space):
    old = recorded(space, LIMIT)
    space.crystallize("supersede", input={"id": old.id, "knowledge": {**LIMIT, "valid_from": "2026-06-01T00:00:00Z"}})
    with pytest.raises(treering.InvalidInput):
        space.crystallize("supersede", input={"id": old.id, "knowledge": {**LIMIT, "summary": "Again."}})
    assert space.engine.ledger.get(old.id).summary == ""
