"""Erasing a scope erases everything in it and below it, wherever it was written, and nothing else."""

import pytest

from space_parts import all_of, decide, note, read, status, task
from treering.core.errors import Denied, InvalidInput, NotFound
from treering.extensions.discussions.memory import DiscussionMemory
from treering.verbs.feedback import STATUS
from treering.verbs.ingest.turns import Message
from treering.verbs.lint import erasure

WORD = "zygomorphic"
ADA = "/users/ada"


@pytest.fixture
def space(open_space, tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    return open_space(f"sqlite:{tmp_path / 'space.db'}", channel="user", actor="ada")


@pytest.fixture
def filled(space):
    """A space with objects of a user, of another user and of everybody; the ids of the latter two."""
    text = f"Ada's {WORD} quarterdeck is blue."
    quote = note(space, text, origin="diary.md", scope=f"{ADA}/notes")
    decide(space, f"Paint the {WORD} deck", quote, scope=ADA)
    task(space, f"Buy {WORD} paint", scope=f"{ADA}/tasks")
    discussion = DiscussionMemory(space.engine, within=ADA).open("lamp")
    discussion.record([Message(role="user", content=f"My {WORD} lamp {at} is of oak.") for at in range(12)])
    discussion.update()
    discussion.edit_state(f"{discussion.state()}\n- The harbour closes at nine")
    other = note(space, "Ben's deck is red.", origin="ben.md", scope="/users/ada2")
    shared = note(space, "The office opens at nine.", origin="office.md")
    space.crystallize("feedback", scope=ADA, input={"question": "when does it open", "right": [shared["source_id"]]})
    return space, (other["source_id"], shared["source_id"])


def left_in(space):
    kinds = ("source", "node", "knowledge", "activity", "work_item")
    return [item for kind in kinds for item in all_of(space, kind)]


def test_erasing_a_scope_leaves_only_the_objects_of_others(filled, tmp_path):
    space, others = filled
    receipt = space.erase(scope=ADA, reason="asked")
    assert receipt.clean
    assert receipt.probes[-1].name == "objects of the scope"
    assert {item.id for item in left_in(space)} == {*others}
    assert status(space, *others) == ["active", "active"]
    assert space.perform(STATUS, scope=ADA).objects == 0
    space.close()
    files = b"".join(file.read_bytes() for file in tmp_path.glob("space.db*"))
    assert WORD.encode() not in files
    assert b"harbour" not in files


def test_erasing_a_scope_releases_the_leases_that_name_it(filled):
    space, _ = filled
    leases = space.engine.leases
    for name in (f"discussion:{ADA}", f"discussion:{ADA}/lamp:m1", f"discussion:{ADA}2", "work"):
        leases.take(name, "another process", seconds=600)
    space.erase(scope=ADA)
    assert {lease.name for lease in leases.held()} >= {f"discussion:{ADA}2", "work"}
    assert not [lease for lease in leases.held() if ADA in lease.name and f"{ADA}2" not in lease.name]


def test_no_similar_scope_is_suggested_for_an_erasure(filled):
    space, _ = filled
    with pytest.raises(NotFound) as error:
        space.erase(scope="/users/ad")
    assert ADA not in str(error.value.as_dict())


def test_statement_of_an_agent_elsewhere_is_erased_with_the_scope(filled):
    space, _ = filled
    (diary,) = (item for item in all_of(space, "source") if item.origin == "diary.md")
    quote = {"source_id": diary.id, "segment_id": diary.segments[0].segment_id}
    agent = space.with_actor("bot", channel="agent")
    made = decide(agent, "Decks", quote, status="candidate")
    by_person = decide(space, "Blue", quote)
    receipt = space.erase(scope=ADA)
    assert made in receipt.ids
    assert receipt.staled == (by_person,)
    assert read(space, by_person).status == "stale"


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({"scope": "/"}, InvalidInput, "whole space"),
        ({"scope": "users"}, InvalidInput, "not a valid scope"),
        ({"scope": "/users/ad"}, NotFound, "contains nothing"),
        ({"scope": ADA, "ids": ["src:x"]}, InvalidInput, "either ids or a scope"),
        ({}, InvalidInput, "No object ids"),
    ],
)
def test_a_wrong_scope_erases_nothing(filled, given, kind, message):
    space, _ = filled
    before = len(left_in(space))
    with pytest.raises(kind, match=message):
        space.erase(**given)
    assert len(left_in(space)) == before


def test_an_agent_may_not_erase_a_scope_or_its_feedback(filled):
    space, _ = filled
    before = len(left_in(space))
    with pytest.raises(Denied):
        erasure.erase_scope(space.with_actor("bot", channel="agent").engine, ADA, reason="")
    assert (len(left_in(space)), space.perform(STATUS, scope=ADA).objects) == (before, 1)
