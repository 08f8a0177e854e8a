"""What models and clients write in place of leaving a field out."""

import json

import pytest

from treering.extensions.mcp.arguments import read_arguments
from treering.extensions.mcp.dispatcher import ToolDispatcher
from treering.ports.adapter import NoFiles

BUOY = {"text": "The buoy at the north pier blinks twice."}
LIGHT = {"kind": "decision", "title": "Colour of the pier light", "payload": {"question": "Which colour?"}}


@pytest.fixture
def ask(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    dispatcher = ToolDispatcher(f"sqlite:{tmp_path / 'space.db'}", NoFiles())

    def call(verb, **arguments):
        return dispatcher.answer(verb, arguments, actor="ann", progress=lambda *_: None, check=lambda: None)

    assert not call("ingest", mode="source", input=BUOY).is_error
    yield call
    dispatcher.close()


@pytest.mark.parametrize(
    "arguments",
    [
        {"mode": "search", "input": {"text": "buoy"}, "scope": None, "options": None},
        {"mode": "search", "input": {"text": "buoy"}, "scope": "", "options": ""},
        {"mode": "search", "input": {"text": "buoy", "filter": None}, "options": "{}"},
        {"mode": "search", "input": {"text": "buoy"}, "options": {"limit": None, "filter": None, "as_of": ""}},
        {"mode": "search", "input": {"text": "buoy"}, "options": '{"limit": 3, "descend": null}'},
        {"mode": "search", "input": '{"text": "buoy"}', "options": "  {} "},
        {"mode": "search", "input": '{"query": "buoy"}'},
        {"mode": "search", "input": {"text": "buoy"}, "options": {"filter": '{"kind": "note"}', "limit": "", "at": ""}},
        {"mode": "expand", "input": {"ids": '["{source}"]', "around": None}},
        {"mode": None, "input": {"task": "buoy"}},
        {"mode": "", "input": {"task": "buoy"}},
    ],
)
def test_call_is_read_without_fields_omitted(ask, arguments):
    source = ask("query", mode="search", input={"text": "buoy"}).data["hits"][0]["object_id"]
    answer = ask("query", **json.loads(json.dumps(arguments).replace("{source}", source)))

    assert not answer.is_error, answer.text
    assert "blinks twice" in answer.text


@pytest.mark.parametrize(
    "given",
    [
        {**LIGHT, "evidence_refs": None, "status": None, "valid_from": "", "confidence": ""},
        {**LIGHT, "id": None, "revision": "", "payload": json.dumps(LIGHT["payload"])},
        {**LIGHT, "payload": {**LIGHT["payload"], "rationale": None, "alternatives": None}, "subject_refs": "[]"},
        json.dumps({**LIGHT, "derived_from": None}),
    ],
)
def test_new_knowledge_is_read_without_fields_omitted(ask, given):
    answer = ask("crystallize", mode="knowledge", input=given)

    assert not answer.is_error, answer.text
    page = ask("query", mode="page", input={"id": answer.data["ids"][0]})
    assert page.data["object"]["payload"]["question"] == "Which colour?"


def test_null_still_empties_a_field_of_an_object(ask):
    item = {"title": "Paint the pier", "due_at": "2026-03-01T00:00:00Z", "parent_ref": None}
    made = ask("crystallize", mode="work_item", input=item).data["ids"][0]

    emptied = ask("crystallize", mode="work_item", input={"id": made, "due_at": None})

    assert not emptied.is_error, emptied.text
    assert ask("query", mode="page", input={"id": made}).data["object"]["due_at"] is None


@pytest.mark.parametrize(
    "text", ['{"colour": "green"}', "[1, 2]", "{not json", '"quoted"', '{"text": "x", "colour": "green"}']
)
def test_text_that_is_no_input_is_stored_as_it_is(ask, text):
    answer = ask("ingest", mode="source", input=text)

    assert not answer.is_error, answer.text
    assert read_arguments("ingest", {"mode": "source", "input": text})["input"] == text


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"mode": "search", "input": {"text": None}}, "text"),
        ({"mode": "search", "input": {"text": "buoy"}, "options": "limit=3"}, "options"),
        ({"mode": "search", "input": {"text": "buoy"}, "options": {"limit": "many"}}, "limit"),
        ({"mode": "search", "input": {"text": "buoy"}, "options": "[" * 5_000}, "options"),
        ({"mode": "search", "input": None}, "text"),
        ({"mode": "search", "input": 7}, "input"),
    ],
)
def test_wrong_argument_is_still_named(ask, arguments, field):
    answer = ask("query", **arguments)

    assert answer.is_error
    assert answer.data["details"]["fields"][0]["field"] == field


def test_nulls_inside_data_of_the_caller_stay():
    items = [{"text": "x", "origin": None, "metadata": {"colour": None, "size": ""}}]

    read = read_arguments("ingest", {"mode": "source", "input": {"items": items}})

    assert read["input"]["items"] == [{"text": "x", "metadata": {"colour": None, "size": ""}}]


@pytest.mark.parametrize("verb", ["ingest", "query", "crystallize", "lint"])
def test_help_and_unknown_modes_are_read_without_nulls(verb):
    assert read_arguments(verb, {"mode": "help", "input": {"mode": None}, "options": None}) == {
        "mode": "help",
        "input": {},
    }
    assert read_arguments(verb, {"mode": "zzz", "options": "{}", "input": "{}"}) == {
        "mode": "zzz",
        "options": {},
        "input": "{}",
    }


@pytest.mark.parametrize("kind", [["decision"], {"a": 1}, 7, "opinion"])
def test_wrong_kind_is_named(ask, kind):
    answer = ask("crystallize", mode="knowledge", input={**LIGHT, "kind": kind})

    assert answer.is_error
    assert answer.data["details"]["fields"][0]["field"] == "kind"


@pytest.mark.parametrize(
    ("arguments", "mode"),
    [
        ({"task": "buoy"}, "context"),
        ({"query": "buoy"}, "context"),
        ({"text": "buoy", "limit": 2}, "search"),
        ({"input": {"text": "buoy"}}, "search"),
        ({"input": '{"text": "buoy"}', "limit": 2}, "search"),
        ({"text": "buoy", "options": '{"limit": 2}', "max_tokens": 500}, "search"),
        ({"ids": ["{source}"]}, "expand"),
        ({"id": "{source}"}, "page"),
        ({"since": "2020-01-01"}, "recent"),
        ({"mode": "search", "text": "buoy", "input": {}}, "search"),
    ],
)
def test_fields_beside_the_input_are_read(ask, arguments, mode):
    source = ask("query", mode="search", input={"text": "buoy"}).data["hits"][0]["object_id"]
    answer = ask("query", **json.loads(json.dumps(arguments).replace("{source}", source)))

    assert not answer.is_error, answer.text
    assert answer.data["mode"] == mode
    assert "buoy" in answer.text


@pytest.mark.parametrize(
    ("arguments", "mode", "prefix"),
    [
        ({"question": "Which colour?", "outcome": "Green", "because": "note:1"}, "knowledge", "know:"),
        (
            {"kind": "fact", "title": "Twice", "subject": "buoy", "predicate": "blinks", "value": 2},
            "knowledge",
            "know:",
        ),
        ({"rule": "Never paint at night"}, "knowledge", "know:"),
        ({"statement": "Green paint", "evidence": '["note:1"]'}, "knowledge", "know:"),
        ({"title": "Painted the pier", "outcome": "success"}, "activity", "act:"),
        ({"title": "Paint the pier", "priority": "high"}, "work_item", "work:"),
        ({"kind": "concept", "name": "Brush", "aliases": ["brushes"]}, "node", "node:"),
    ],
)
def test_mode_is_the_one_that_takes_the_fields(ask, arguments, mode, prefix):
    assert not ask("ingest", text="The buoy blinks twice.", origin="note:1").is_error
    answer = ask("crystallize", **arguments)

    assert not answer.is_error, answer.text
    assert answer.data["mode"] == mode
    assert any(one.startswith(prefix) for one in answer.data["ids"])


@pytest.mark.parametrize("nested", [False, True])
def test_replacement_takes_flat_fields(ask, nested):
    old = ask(
        "crystallize",
        question="Which colour?",
        outcome="Red",
        because='"The buoy at the north pier blinks twice."',
        status="active",
    )
    (identity,) = old.data["ids"]
    because = json.dumps(['"The buoy at the north pier blinks twice."'])
    new = {"question": "Which colour?", "outcome": "Green", "because": because}
    given = {"id": identity, "knowledge": new} if nested else {"id": identity, **new}
    answer = ask("crystallize", mode="supersede", **({"input": given} if nested else given))

    assert not answer.is_error, answer.text
    assert ask("query", mode="page", id=identity).data["object"]["status"] == "superseded"


def test_correction_takes_flat_fields(ask):
    (identity,) = ask("crystallize", question="Which colour?", outcome="Red", title="Colour").data["ids"]
    answer = ask("crystallize", id=identity, outcome="Green")

    assert not answer.is_error, answer.text
    payload = ask("query", mode="page", id=identity).data["object"]["payload"]
    assert (payload["question"], payload["outcome"]) == ("Which colour?", "Green")


WRONG = [
    ("query", {"mode": "search", "input": {"txt": "buoy"}, "options": {"limt": 3}}),
    ("query", {"mode": "search", "inputs": {"text": "buoy"}}),
    ("query", {"mode": "serach", "input": {"text": "buoy"}}),
    ("query", {"mode": "search", "input": {"text": "buoy"}, "options": {"limit": "many", "group": "file"}}),
    ("query", {"mode": "recent", "input": {"limit": 0}}),
    ("query", {"input": 7}),
    ("query", {}),
    ("crystallize", {"mode": "knowledge", "input": {"kind": "decision", "titel": "Green"}}),
    ("crystallize", {"mode": "knowledge", "input": {"kind": "opinion", "title": "Green", "payload": {}}}),
    ("crystallize", {"mode": "knowledge", "input": {"kind": "fact", "title": "x", "payload": {"subjekt": "buoy"}}}),
    ("crystallize", {"mode": "work_item", "input": {"tittle": "Paint", "priority": "huge"}}),
    ("crystallize", {"mode": "knowledge", "input": {**LIGHT, "outcome": "Green", "valid_from": "soon"}}),
    ("crystallize", {"mode": "work_item", "input": {"title": "Paint", "due_at": "soon", "priority": "high"}}),
    ("crystallize", {"mode": "node", "input": {"kind": "tool", "name": "Brush"}}),
    ("crystallize", {"mode": "activity", "input": {"title": "", "knowledge": [{}]}}),
    ("ingest", {"mode": "source", "input": {"items": [{"txt": "buoy"}]}}),
    ("lint", {"mode": "audit", "input": {"foo": 1}}),
]


@pytest.mark.parametrize(("verb", "arguments"), WRONG)
def test_error_shows_a_call_that_works(ask, verb, arguments):
    refused = ask(verb, **arguments)
    assert refused.is_error

    answer = ask(verb, **refused.data["details"]["example"])
    assert not answer.is_error, answer.text


def test_example_of_a_change_leaves_refused_fields_out(ask):
    (identity,) = ask("crystallize", title="Paint", priority="high").data["ids"]
    refused = ask("crystallize", id=identity, input={"colour": "red", "priority": "huge", "title": "Paint it"})
    assert refused.data["details"]["example"] == {"mode": "work_item", "input": {"id": identity, "title": "Paint it"}}
    assert not ask("crystallize", **refused.data["details"]["example"]).is_error


def test_example_repeats_the_fields_of_the_caller(ask):
    refused = ask("query", mode="search", input={"txt": "buoy", "colour": "red"}, options={"limt": 3, "descend": "x"})
    assert refused.data["details"]["example"] == {"mode": "search", "input": {"text": "buoy"}, "options": {"limit": 3}}
    assert '"text": "buoy"' in refused.text


def test_example_is_short_and_without_markers(ask):
    refused = ask("query", mode="search", input={"txt": "<<treering:end>>" + "buoy" * 5_000})
    assert len(refused.text) < 2_000
    assert "<<treering" not in refused.text


def test_unknown_mode_is_named_before_unknown_fields(ask):
    error = ask("query", mode="serch", text="paging").data
    assert (error["message"], error["hint"]) == ("query has no mode 'serch'.", "Did you mean 'search'?")


@pytest.mark.parametrize("mode", [{}, {"mode": "knowledge"}])
def test_rule_is_a_name_of_the_kind_of_rules(ask, mode):
    ask("crystallize", kind="rule", rule="Buoys are never moved by hand", **mode)
    options = {"filter": {"kind": "constraint"}}
    (hit,) = ask("query", mode="search", text="who moves buoys", options=options).data["hits"]
    assert hit["title"] == "Buoys are never moved by hand"
    assert "rule" in ask("crystallize", kind="rule", title="x").text


def test_unknown_kind_is_answered_with_all_kinds_nearest_first(ask):
    error = ask("crystallize", kind="decission", title="x", payload={"outcome": "y"}).data
    assert error["hint"] == "Did you mean 'decision'?"
    known = error["details"]["known"]
    assert known[0] == "decision"
    assert {"task", "episode", "service"} <= set(known)


def test_scope_of_a_rule_without_a_root_is_its_files(ask):
    given = {"kind": "constraint", "title": "Never print in tests", "rule": "Never print in tests", "scope": "tests/"}
    (made,) = ask("crystallize", **given).data["ids"]
    item = ask("query", mode="expand", ids=[made]).data["items"][0]["object"]
    assert (item["scope"], item["payload"]["scope"]) == ("/", "tests/")
