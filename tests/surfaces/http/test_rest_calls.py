from concurrent.futures import ThreadPoolExecutor

import pytest
from rest_parts import EXAMPLES, running

from treering.surfaces.python import operations
from treering.verbs.catalog import TOOLS

NOTE = {"items": [{"text": "Releases are cut on Tuesdays.", "origin": "note:releases"}]}
PLACES = {
    "project_memory_index": "/api/projects/acme/memory/index",
    "project_memory_retrieve": "/api/projects/acme/memory/retrieve",
    "project_memory_delete": "/api/projects/acme/memory/delete",
    "review_list": "/v1/review/list",
    "feedback_status": "/v1/feedback/status",
    **{f"wiki_{verb}": f"/v1/wiki/{verb}" for verb in TOOLS},
}
NEEDS_A_PERSON = {"feedback_on", "feedback_off", "feedback_erase"}
NEEDS_AN_ID = {"review_show", "review_apply", "review_reject", "revert", "erase"}


def ask(client, verb, mode="", given=None, **options):
    """Call a verb that has to answer; return its report."""
    body = {"mode": mode, "input": given or {}, "options": options}
    answer = client.post(f"/v1/wiki/{verb}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def memory(client, project, name, **body):
    """Call project memory, which has to answer; return its report."""
    answer = client.post(f"/api/projects/{project}/memory/{name}", json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_what_one_call_brings_in_another_finds(client):
    ingested = ask(client, "ingest", "source", NOTE)
    found = ask(client, "query", "search", {"text": "releases"}, limit=3)

    assert ingested["counts"] == {"created": 1}
    assert found["hits"][0]["object_id"] == ingested["items"][0]["source_id"]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("scope", [{}, {"path": "/"}, {"scope": "/"}, "/"])
@pytest.mark.parametrize("given", ["releases", {"query": "releases"}, {"text": "releases"}])
def test_the_scope_may_be_an_object_and_the_input_a_text(client, scope, given):
    source = ask(client, "ingest", "source", NOTE)["items"][0]["source_id"]
    body = {"mode": "search", "scope": scope, "input": given, "options": {}}
    answer = client.post("/v1/wiki/query", json=body)
    assert answer.status_code == 200, answer.text
    assert [hit["object_id"] for hit in answer.json()["hits"]] == [source]


@pytest.mark.parametrize(
    "wrong",
    [{"scope": {"x": "/"}}, {"scope": {"path": 5}}, {"input": 5}, {"input": ["releases"]}, {"input": {"query": 5}}],
)
def test_an_envelope_of_other_types_is_refused(client, wrong):
    answer = client.post("/v1/wiki/query", json={"mode": "search", "scope": {}, "input": "releases", **wrong})
    assert (answer.status_code, answer.json()["code"]) == (422, "invalid_input")


def test_every_mode_of_every_verb_answers_a_good_call(client, tmp_path):
    (tmp_path / "files" / "notes.md").write_text("# Notes\n\nWe retry three times.")
    source = ask(client, "ingest", "source", NOTE)["items"][0]["source_id"]
    evidence = {
        "source_id": source,
        "segment_id": ask(client, "query", "page", {"id": source})["object"]["segments"][0]["segment_id"],
    }
    facts = [
        {"kind": "fact", "title": title, "payload": {"subject": "api", "predicate": title, "value": 1.0}}
        for title in ("port", "retries")
    ]
    touched = [ask(client, "crystallize", "knowledge", {**fact, "evidence_refs": [evidence]})["ids"] for fact in facts]
    ids = [one for names in touched for one in names if one.startswith("know:")]
    asked = {
        ("ingest", "path"): {"path": "notes.md"},
        ("ingest", "status"): {},
        ("query", "context"): {"task": "cut a release"},
        ("query", "related"): {"id": source},
        ("query", "recent"): {},
        ("query", "brief"): {},
        ("query", "expand"): {"ids": [source]},
        ("crystallize", "activity"): {"title": "Looked around"},
        ("crystallize", "knowledge"): {"id": ids[0], "summary": "Where it listens"},
        ("crystallize", "work_item"): {"title": "Cut a release", "links": [{"type": "about", "target": ids[0]}]},
        ("crystallize", "promote"): {"ids": ids},
        ("crystallize", "supersede"): {"id": ids[0], "by": ids[1]},
        ("crystallize", "node"): {"kind": "service", "name": "api"},
        ("crystallize", "source"): {"id": source, "status": "invalid"},
        ("crystallize", "feedback"): {"question": "Where does the api listen?", "right": [source]},
        **{("lint", name): {} for name, mode in TOOLS["lint"].modes.items() if not mode.rights.needs_person},
    }

    for (verb, mode), given in asked.items():
        assert ask(client, verb, mode, given)["mode"] == mode

    reads = {("ingest", mode) for mode in ("source", "repo", "url", "adapter")}
    alone = {*reads, ("query", "search"), ("query", "page"), ("lint", "consolidate")}
    assert {(verb, mode) for verb, tool in TOOLS.items() for mode in tool.modes} == {*asked, *alone}


def test_every_operation_that_takes_a_body_has_examples():
    assert {*EXAMPLES} == {*PLACES, *NEEDS_A_PERSON, *NEEDS_AN_ID, "chat_completions"}


@pytest.mark.parametrize("operation", operations.EXAMPLES)
def test_an_example_of_an_operation_has_no_more_than_its_route_takes(operation):
    assert all({*body} <= {"input", "options"} for body in operations.EXAMPLES[operation].values())


@pytest.mark.parametrize("operation", PLACES)
def test_every_example_of_the_contract_is_answered(client, operation):
    ask(client, "ingest", "source", NOTE)
    memory(client, "acme", "index", docs=["Releases are cut on Tuesdays."])
    for what, body in EXAMPLES[operation].items():
        answer = client.post(PLACES[operation], json=body)
        assert answer.status_code == 200, (what, answer.text)


def test_what_is_written_is_written_by_an_agent(client):
    ask(client, "crystallize", "activity", {"title": "Looked around"})

    (event,) = ask(client, "lint", "audit")["events"]

    assert "(agent) created act:" in event


def test_a_read_of_a_space_that_is_not_there_makes_none(client, tmp_path):
    answer = client.post("/v1/wiki/query", json={"input": {"task": "anything"}})

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")
    assert not (tmp_path / "space.db").exists()


def test_neither_reading_nor_deleting_makes_a_project(client, tmp_path):
    assert memory(client, "acme", "retrieve", queries=["program"]) == [
        {"question": "program", "docs": [], "doc_scores": []}
    ]
    assert memory(client, "acme", "delete", docs=["x"])["counts"] == {"unknown": 1}
    assert not (tmp_path / "projects").exists()


def test_agent_learns_who_may_erase(client):
    memory(client, "acme", "index", docs=["A note."])
    answer = client.post("/api/projects/acme/memory/delete", json={"docs": ["A note."], "erase": True})
    assert (answer.status_code, answer.json()["code"]) == (403, "denied")
    assert "erasing_channels" in answer.json()["hint"]


def test_documents_are_kept_found_and_taken_out(client):
    docs = ["Ada wrote the first program.", "Charles built engines."]

    indexed = memory(client, "acme", "index", docs=docs)
    found = memory(client, "acme", "retrieve", queries=["Who wrote the first program?", "engines"], num_to_retrieve=1)
    deleted = memory(client, "acme", "delete", docs=[docs[0], "never said"])
    left = memory(client, "acme", "retrieve", queries=["first program"])

    assert indexed["counts"] == {"created": 2}
    assert [one["question"] for one in found] == ["Who wrote the first program?", "engines"]
    assert [one["docs"] for one in found] == [[docs[0]], [docs[1]]]
    assert [len(one["doc_scores"]) for one in found] == [1, 1]
    assert [one["outcome"] for one in deleted["results"]] == ["deleted", "unknown"]
    assert docs[0] not in left[0]["docs"]


def test_a_document_indexed_twice_is_kept_once(client):
    memory(client, "acme", "index", docs=["Once."])

    assert memory(client, "acme", "index", docs=["Once."])["counts"] == {"unchanged": 1}


def test_projects_know_nothing_of_one_another(client):
    memory(client, "one", "index", docs=["Ada wrote the first program."])
    memory(client, "two", "index", docs=["Charles built engines."])

    assert memory(client, "two", "retrieve", queries=["program"])[0]["docs"] == []


def test_many_may_write_at_once(client):
    def write(number):
        memory(client, f"project-{number % 2}", "index", docs=[f"Document number {number}."])
        return ask(client, "ingest", "source", {"items": [{"text": f"Note number {number}."}]})["counts"]

    with ThreadPoolExecutor(8) as writers:
        counts = list(writers.map(write, range(16)))

    assert counts == [{"created": 1}] * 16
    assert ask(client, "lint", "audit")["verified"]
    assert ask(client, "lint", "reindex")["differences"] == []


def test_health_reports_the_version_and_readiness_whether_the_space_is_there(client):
    before = client.get("/ready").json()
    ask(client, "ingest", "source", NOTE)

    assert client.get("/health").json()["status"] == "ok"
    assert before == {"status": "ready", "space": "new"}
    assert client.get("/ready").json() == {"status": "ready", "space": "open"}


def test_a_space_that_has_become_unreadable_is_not_ready(tmp_path):
    with running(tmp_path) as client:
        (tmp_path / "space.db").write_bytes(b"no database at all" * 100)
        answer = client.get("/ready")

    assert answer.status_code == 503
    assert answer.json()["code"] == "unavailable"


def test_half_a_character_in_a_body_is_replaced(client):
    body = rb'{"mode": "search", "input": {"text": "bees \ud83d"}}'
    client.post("/v1/wiki/ingest", json={"mode": "source", "input": {"text": "Bees make honey."}})
    answer = client.post("/v1/wiki/query", content=body, headers={"Content-Type": "application/json"})

    assert answer.status_code == 200
    assert "a lone surrogate" in answer.json()["warnings"][-1]
