import pytest

from treering.core.evidence import Definition, segment_hash
from treering.testing.builders import Builder
from treering.testing.fakes import SteppingClock
from treering.verbs.ingest.segments import moved_refs

OLD = "PORT = 8080\n\ndef run(server):\n    server.listen(PORT)\n\ndef stop(server):\n    server.close()"
PARTS = (Definition(name="Web.run", first=3, last=4), Definition(name="Web.stop", first=6, last=7))


def followed(text, new, *, definitions=PARTS, payload=None):
    """Return whether evidence for what somebody says of `OLD` moves to a segment that reads `new`."""
    make = Builder(SteppingClock())
    source = make.source(OLD)
    (old,) = source.segments
    before = source.model_copy(update={"segments": (old.model_copy(update={"definitions": definitions}),)})
    now = old.model_copy(update={"segment_id": "seg_new", "excerpt": new, "hash": segment_hash(new, salt=source.salt)})
    kind, said = ("fact", payload) if payload else ("constraint", {"rule": text})
    item = make.knowledge(kind, said, make.evidence(source), title=text)
    (ref,) = moved_refs(item, before, [now], gone=frozenset({old.segment_id}))
    assert ref.segment_id in (old.segment_id, "seg_new")
    return ref.segment_id == "seg_new"


OTHER_STOP = OLD.replace("close()", "halt()")
OTHER_PORT = OLD.replace("8080", "9090")


@pytest.mark.parametrize(
    "said", ["run() listens", "Call `run` to listen", "Web.run( listens", "listening is done early"]
)
def test_what_is_about_one_definition_follows_it_when_another_changes(said):
    assert followed(said, OTHER_STOP)


@pytest.mark.parametrize("said", ["stop() ends it", "run() and stop() come in pairs", "servers run until closed", "x"])
def test_what_is_about_a_changed_definition_or_about_none_does_not_follow(said):
    assert not followed(said, OTHER_STOP)


def test_what_is_about_the_lines_between_definitions_does_not_follow():
    assert not followed("listening happens at 8080", OTHER_PORT)
    assert followed("run() needs a server", OTHER_PORT)


def test_a_fact_is_about_its_subject():
    payload = {"subject": "Web.run", "predicate": "closes", "value": False}
    assert followed("the server is not closed", OTHER_STOP, payload=payload)


def test_without_definitions_nothing_follows():
    assert not followed("run() listens", OTHER_STOP, definitions=())


def test_a_definition_that_is_indented_otherwise_has_changed():
    assert not followed("run() listens", OLD.replace("def run", "  def run"))


def test_evidence_of_other_sources_and_other_segments_stays():
    make = Builder(SteppingClock())
    source, other = make.source(OLD, "Kept."), make.source("Elsewhere.", origin="other.md")
    refs = [make.evidence(source, 1), make.evidence(other), make.evidence(source, 0, role="contradicts")]
    item = make.knowledge("constraint", {"rule": "run() listens"}, *refs)
    gone = frozenset({source.segments[0].segment_id})
    assert moved_refs(item, source, source.segments[1:], gone=gone) == tuple(refs)
