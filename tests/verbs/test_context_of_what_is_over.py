"""Knowledge past `valid_until` and archived work, by every way that leads into a context pack."""

from dataclasses import replace
from datetime import timedelta

import pytest

from space_parts import decide, note, only_id, state_fact, task
from treering.testing.fakes import SteppingClock
from treering.verbs.catalog import call
from treering.verbs.envelope import READS, Envelope

PAST = "2026-01-01T00:00:00Z"
ASKED = "Deploy the Billing service although deploys are frozen"


def context(space, what, **options):
    return space.query("context", input={"task": what}, options=options).pack


def context_later(space, what, days):
    """Return the pack for a task that is asked for after so many days."""
    clock = SteppingClock(space.engine.clock.now() + timedelta(days=days))
    asked = Envelope(mode="context", input={"task": what})
    return call(replace(space.engine, clock=clock), "query", asked, granted=READS).pack


def ids(pack):
    return [item.object_id for item in pack.items]


@pytest.fixture
def service(space):
    """A node that a task names."""
    made = space.crystallize("activity", input={"title": "Met", "nodes": [{"kind": "service", "name": "Billing"}]})
    return only_id(made, "node:")


def test_knowledge_past_its_validity_does_not_come_along_with_a_node(space, service):
    frozen = decide(space, "Freeze", note(space, "Freeze."), subject_refs=[service], valid_until=PAST)
    assert frozen not in ids(context(space, ASKED))
    assert frozen in ids(context(space, ASKED, withdrawn=True))


def test_archived_work_does_not_come_along_with_a_node(space, service):
    work = task(space, "Round", links=[{"type": "about", "target": service}])
    assert work in ids(context(space, ASKED))
    space.crystallize("work_item", input={"id": work, "lifecycle_state": "archived"})
    assert work not in ids(context(space, ASKED))
    assert work not in str(context(space, ASKED).recommended_next_reads)


def test_knowledge_past_its_validity_does_not_come_along_with_its_evidence(space):
    quote = note(space, "The flux compensator needs 1.21 gigawatts.")
    over = decide(space, "Buy a bigger battery", quote, valid_until=PAST)
    assert over not in ids(context(space, "flux compensator gigawatts"))


def test_a_claim_past_its_validity_contradicts_nothing(space):
    one = state_fact(space, "api", "port", 80, note(space, "The port of the api is 80.", origin="a"))
    until = (space.engine.clock.now() + timedelta(days=1)).isoformat()
    quote = note(space, "The port of the api is 81.", origin="b")
    two = state_fact(space, "api", "port", 81, quote, valid_until=until)
    (conflict,) = context(space, "change the port of the api").conflicts
    assert set(conflict.ids) == {one, two}
    later = context_later(space, "change the port of the api", days=2)
    assert one in ids(later)
    assert two not in ids(later)
    assert later.conflicts == ()
    assert "unresolved" not in later.summary
