"""Operations on the space over HTTP: what a server offers is what its operator grants."""

import json

import pytest
from rest_parts import running

from treering.core.errors import InvalidInput
from treering.extensions.server.served import allowed

POLICY = 'direct_channels = ["user", "adapter", "system"]\n'
TABS = {"kind": "preference", "title": "Tabs", "payload": {"statement": "Use tabs"}}
LOOKING = ("review/list", "review/show", "feedback/status")
DECIDING = ("review/apply", "review/reject", "revert", "feedback/on", "feedback/off", "feedback/erase")


@pytest.fixture
def serve(tmp_path):
    """Serve a space whose policy asks for review of what agents write."""
    (tmp_path / "space.policy.toml").write_text(POLICY)

    def serve_with(*allow):
        return running(tmp_path, allow=frozenset(allow))

    return serve_with


def propose(client):
    """Have a patch wait; return its id."""
    answer = client.post("/v1/wiki/crystallize", json={"mode": "knowledge", "input": TABS})
    assert answer.json()["status"] == "proposed", answer.text
    return answer.json()["ids"][0]


def offered(client):
    """Return the operations on spaces that the contract names."""
    paths = client.get("/openapi.json").json()["paths"]
    return {path.removeprefix("/v1/") for path in paths if path.startswith("/v1/")} - {
        *(path.removeprefix("/v1/") for path in paths if path.startswith(("/v1/wiki/", "/v1/jobs/"))),
        "chat/completions",
        "models",
    }


def test_everybody_may_see_what_waits(serve):
    with serve() as client:
        patch = propose(client)
        (waiting,) = client.post("/v1/review/list", json={}).json()
        (change,) = client.post("/v1/review/show", json={"input": {"patch_id": patch}}).json()
    assert (waiting["id"], waiting["status"]) == (patch, "proposed")
    assert change["title"] == "Tabs"


def test_what_a_person_decides_is_not_offered_unless_it_is_allowed(serve):
    with serve() as client:
        patch = propose(client)
        asked = {"input": {"patch_id": patch}}
        answers = [client.post(f"/v1/{name}", json=asked) for name in (*DECIDING, "erase", "export", "import")]
        assert {answer.status_code for answer in answers} == {404}
        *deciding, erasing, _, _ = (answer.json()["hint"] for answer in answers)
        assert {hint.rpartition("--")[2] for hint in deciding} == {"allow review."}
        assert (
            erasing
            == "Use the command line or a key with the right admin, or start `treering serve` with --allow erase."
        )
        assert client.post("/v1/review/list", json={}).json()[0]["id"] == patch
        assert offered(client) == {*LOOKING}


def test_callers_who_may_review_decide_as_a_person(serve):
    with serve("review") as client:
        patch = propose(client)
        applied = client.post("/v1/review/apply", json={"input": {"patch_id": patch}})
        assert applied.status_code == 200, applied.text
        assert client.post("/v1/review/list", json={}).json() == []
        taken = client.post(
            "/v1/revert", json={"input": {"patch_id": applied.json()["patch_id"]}, "options": {"reason": "No"}}
        )
        assert taken.status_code == 200, taken.text
        events = client.post("/v1/wiki/lint", json={"mode": "audit"}).json()["events"]
        assert offered(client) == {*LOOKING, *DECIDING}
    assert "(user)" in events[-1]


def test_a_proposal_is_turned_down_with_its_reason(serve):
    with serve("review") as client:
        asked = {"input": {"patch_id": propose(client)}, "options": {"reason": "We use spaces"}}
        assert client.post("/v1/review/reject", json=asked).json()["status"] == "rejected"


def test_erasing_is_offered_where_it_is_allowed_and_proves_itself(serve):
    with serve("erase") as client:
        note = {"items": [{"text": "My number is 555-1234."}]}
        client.post("/v1/wiki/ingest", json={"mode": "source", "input": note})
        patch = client.post("/v1/review/list", json={}).json()[0]["id"]
        assert client.post("/v1/review/apply", json={"input": {"patch_id": patch}}).status_code == 200
        hits = client.post("/v1/wiki/query", json={"mode": "search", "input": {"text": "number"}}).json()["hits"]
        erased = client.post("/v1/erase", json={"input": {"ids": [hits[0]["object_id"]]}})
        assert erased.status_code == 200, erased.text
        assert all(probe["found"] == 0 for probe in erased.json()["probes"])
        assert offered(client) == {*LOOKING, *DECIDING, "erase"}


def test_everything_in_a_scope_is_erased(serve):
    with serve("erase") as client:
        for scope in ("/users/ada", "/users/ben"):
            work = {"mode": "work_item", "scope": scope, "input": {"title": "Call"}}
            assert client.post("/v1/wiki/crystallize", json=work).status_code == 200
        patches = [{"input": {"patch_id": one["id"]}} for one in client.post("/v1/review/list", json={}).json()]
        assert all(client.post("/v1/review/apply", json=patch).status_code == 200 for patch in patches)
        erased = client.post("/v1/erase", json={"input": {"scope": "/users/ada"}})
        assert (erased.status_code, len(erased.json()["ids"])) == (200, 1)
        assert client.post("/v1/erase", json={"input": {"scope": "/users/ada"}}).status_code == 404
        assert client.post("/v1/erase", json={"input": {"scope": "/users/ben"}}).status_code == 200


def test_a_wrong_field_is_named(serve):
    with serve("review") as client:
        answer = client.post("/v1/review/apply", json={"input": {"patch": "patch:x"}})
        missing = client.post("/v1/review/show", json={"input": {"patch_id": "patch:01k00000000000000000000000"}})
    assert (answer.status_code, answer.json()["hint"]) == (422, "Did you mean 'patch_id'?")
    assert missing.status_code == 404


def test_unknown_right_cannot_be_granted():
    assert allowed(["erase", "review"]) == {"review", "erase"}
    with pytest.raises(InvalidInput, match="--allow 'reviews' is not known"):
        allowed(["reviews"])


def test_the_contract_of_a_server_that_allows_everything_is_whole(serve):
    with serve("review", "erase") as client:
        told = client.get("/openapi.json").text
        names = set(json.loads(told)["components"]["schemas"])
    references = {part.partition('"')[0] for part in told.split('"#/components/schemas/')[1:]}
    assert references <= names
    assert {
        "ReviewApplyRequest",
        "RevertRequest",
        "EraseRequest",
        "ErasureReceipt",
        "Receipt",
        "Proposals",
        "PatchPreview",
    } <= names
