"""The envelope of the four tools, word for word: `{"mode": "...", "scope": {}, "input": {}, "options": {}}`."""

import pytest

from space_parts import decide, note, open_space
from treering.core.errors import InvalidInput
from treering.verbs.envelope import Envelope

TOOLS = {
    "ingest": ("source", {"text": "Releases are cut on Tuesdays.", "origin": "releases"}),
    "query": ("search", {"text": "releases"}),
    "crystallize": ("activity", {"title": "Cut a release"}),
    "lint": ("all", {}),
}


@pytest.fixture
def space():
    with open_space(channel="user") as opened:
        note(opened, "Releases are cut on Tuesdays.", origin="releases")
        yield opened


@pytest.mark.parametrize("verb", TOOLS)
def test_an_empty_scope_is_the_root(space, verb):
    mode, given = TOOLS[verb]
    envelope = Envelope.model_validate({"mode": mode, "scope": {}, "input": given, "options": {}})
    report = space.call(verb, envelope)
    assert (report.mode, report.scope) == (mode, "/")
    assert report.status != "failed"


@pytest.mark.parametrize("scope", ["/repo/acme", {"path": "/repo/acme"}, {"scope": "/repo/acme"}])
def test_a_scope_is_a_path_or_an_object_that_names_it(space, scope):
    known = decide(space, "Cut on Tuesdays", scope=scope)
    assert space.query("page", scope, {"id": known}).object["scope"] == "/repo/acme"
    assert space.query("search", {}, "Tuesdays").scope == "/"


@pytest.mark.parametrize("scope", [{"repo": "/a"}, {"path": "/a", "scope": "/b"}, {"path": 5}, {"path": "a"}, 5, None])
def test_a_scope_that_names_no_path_is_refused(space, scope):
    with pytest.raises(InvalidInput, match="scope"):
        space.query("search", scope, "releases")


@pytest.mark.parametrize("given", ["releases", {"query": "releases"}])
def test_a_question_may_be_a_plain_text_or_be_called_query(space, given):
    assert space.query("search", input=given).hits[0].origin == "releases"
    assert space.query(input=given).pack.task == "releases"


@pytest.mark.parametrize("wrap", [str, lambda text: {"query": text}])
def test_an_id_or_a_name_may_be_a_plain_text_or_be_called_query(space, wrap):
    quote = note(space, "The release train leaves on Tuesdays.", origin="train")
    known = decide(space, "Cut on Tuesdays", quote)
    space.crystallize("activity", input={"title": "Met", "nodes": [{"kind": "service", "name": "Release train"}]})
    assert space.query("page", input=wrap(known)).title == "Cut on Tuesdays"
    assert space.query("page", input=wrap("Release train")).object["kind"] == "service"
    assert space.query("related", input=wrap(known)).ids == (quote["source_id"],)
    assert space.query("expand", input=wrap(known)).ids == (known,)


def test_what_is_said_beside_a_query_counts(space):
    quote = note(space, "The release train leaves on Tuesdays.", origin="train")
    first = decide(space, "Cut on Tuesdays", quote)
    second = decide(space, "Tag on Tuesdays", derived_from=[first])
    found = space.query("related", input={"query": quote["source_id"], "depth": 2})
    assert found.ids == (first, second)


def test_a_plain_text_is_imported_as_a_note_or_read_as_a_path(space, tmp_path):
    assert space.ingest("source", input="We ship on Fridays.").counts == {"created": 1}
    (tmp_path / "notes.md").write_text("# Notes\n\nWe retry three times.\n")
    assert space.ingest("path", input=str(tmp_path / "notes.md")).counts == {"created": 1}


@pytest.mark.parametrize(
    ("verb", "mode", "given"),
    [
        ("query", "recent", "releases"),
        ("query", "expand", ""),
        ("ingest", "source", ""),
        ("query", "search", {"query": "releases", "text": "trains"}),
        ("query", "search", {"query": 5}),
        ("query", "search", ["releases"]),
        ("crystallize", "knowledge", "We ship on Fridays."),
        ("crystallize", "work_item", {"query": "Ship it"}),
        ("ingest", "path", {"query": "notes.md"}),
        ("lint", "structure", "releases"),
    ],
)
def test_what_could_mean_several_things_or_nothing_is_refused(space, verb, mode, given):
    with pytest.raises(InvalidInput):
        getattr(space, verb)(mode, input=given)
