"""Reads that name a kind, scope, discussion or session that does not exist."""

import pytest

import treering
from treering.client import BlockingMemoryClient, MemoryConfig
from treering.testing import HashingEmbedder


@pytest.fixture(scope="module")
def space():
    with treering.open(":memory:", background=False, embedder=HashingEmbedder()) as opened:
        opened.decide("Bees get sugar in winter")
        opened.discussions().open("garden").append([treering.Message(content="The bees are home.", role="user")])
        yield opened


@pytest.mark.parametrize("mode", ["search", "context"])
@pytest.mark.parametrize(
    "where",
    [
        {"kind": "decisions"},
        {"kind": ["decision", "decisions"]},
        {"not": {"kind": "decisions"}},
        {"kind": {"ne": "decisions"}},
        {"or": [{"title": "x"}, {"and": [{"kind": "decisions"}]}]},
    ],
)
def test_unknown_kind_in_filter_lists_the_kinds(space, mode, where):
    with pytest.raises(treering.InvalidInput, match="Unknown kind 'decisions'") as error:
        space.query(mode, input="bees", options={"filter": where})
    assert "decision, constraint" in error.value.hint


@pytest.mark.parametrize(
    ("field", "value"),
    [("type", "rule"), ("status", "activ"), ("channel", "robot"), ("role", "tests"), ("kind", 5)],
)
def test_unknown_value_of_closed_field_is_refused(space, field, value):
    with pytest.raises(treering.InvalidInput, match=f"Unknown {field}"):
        space.query("search", input="bees", options={"filter": {field: value}})


def test_search_by_unknown_kind_is_refused(space):
    with pytest.raises(treering.InvalidInput, match="Unknown kind 'rule'"):
        space.search("bees", kind="rule")
    assert [hit.shown.kind for hit in space.search("bees", kind="decision")] == ["decision"]


@pytest.mark.parametrize(("mode", "given"), [("search", "bees"), ("context", "bees"), ("brief", None), ("recent", {})])
def test_read_of_unknown_scope_warns(space, mode, given):
    (warning, *_) = space.query(mode, scope="/nowhere", input=given).warnings
    assert warning.startswith("The scope /nowhere and the scopes below it are empty")
    known = space.query(mode, scope="/discussion/garden", input=given).warnings
    assert not any("are empty" in one for one in known)


def test_search_in_unknown_discussion_warns(space):
    memory, options = space.discussions(), treering.DiscussionSearch(what="turns")
    assert memory.open("garten").search("bees", options).warnings == ("No discussion is stored in /discussion/garten.",)
    assert memory.open("garden").search("bees", options).warnings == ()
    assert memory.open("garden").search("wasps", options).warnings == ()


def test_retrieve_in_unknown_session_warns():
    config = MemoryConfig.read({"backend": "in_memory"})
    with BlockingMemoryClient(config, background=False, embedder=HashingEmbedder()) as client:
        client.store("Bees make honey", {"session_id": "first"})
        client.store("Bees sleep in winter")
        warning = "No memory is stored in this session."
        assert warning in client.retrieve("bees", session_id="frist").trace["warnings"]
        assert warning not in client.retrieve("bees", session_id="first").trace["warnings"]
        assert warning not in client.retrieve("bees").trace["warnings"]
