import json
import socket
import subprocess

import pytest
from rest_parts import running

from treering.extensions.server.callers import Bounds
from treering.testing.fakes import HashingEmbedder

JSON = {"Content-Type": "application/json"}
SEARCH = {"mode": "search", "input": {"text": "x"}}
SHAPE = {"code", "message", "hint", "details"}


@pytest.fixture(scope="module")
def standing(tmp_path_factory):
    """A client of one server for all requests that are refused for what they are."""
    with running(tmp_path_factory.mktemp("standing")) as client:
        yield client


def refused(answer, status, code):
    """Check that an answer is an error in the one shape; return it."""
    data = answer.json()
    assert (answer.status_code, data["code"]) == (status, code), data
    assert set(data) == SHAPE
    assert answer.headers["content-type"] == "application/json"
    assert "Traceback" not in answer.text
    return data


@pytest.mark.parametrize(
    ("verb", "body", "field", "hint"),
    [
        ("query", {"input": {"tsk": "retry"}}, "input.task", "Did you mean 'task'?"),
        ("query", {**SEARCH, "options": {"limt": 3}}, "options.limt", "Did you mean 'limit'?"),
        ("query", {**SEARCH, "text": "x"}, "text", "Known:"),
        ("query", {**SEARCH, "options": {"limit": "5"}}, "options.limit", "See"),
        ("query", {**SEARCH, "options": {"semantic": "yes"}}, "options.semantic", "See"),
        ("query", {"scope": "here", "input": {"task": "x"}}, "scope", "See"),
        ("ingest", {"mode": "source", "input": {"items": [{"text": 5}]}}, "input.items.0.text", "See"),
        ("crystallize", {"mode": "knowledge", "input": {"kind": "fact", "title": "t"}}, "payload.subject", "See"),
        ("crystallize", {"mode": "work_item", "input": {"title": 5}}, "input.title", "See"),
    ],
)
def test_a_wrong_field_is_named(standing, verb, body, field, hint):
    data = refused(standing.post(f"/v1/wiki/{verb}", json=body), 422, "invalid_input")

    assert data["details"]["fields"][0]["field"] == field
    assert data["hint"].startswith(hint)


def test_an_unknown_mode_is_refused_with_the_nearest(standing):
    data = refused(standing.post("/v1/wiki/query", json={"mode": "contxt"}), 422, "invalid_input")

    assert data["hint"] == "Did you mean 'context'?"


@pytest.mark.parametrize("path", ["/nothing", "/v1/erased"])
def test_unknown_path_without_similar_one_gets_no_guess(standing, path):
    assert refused(standing.get(path), 404, "not_found")["hint"] == "/openapi.json lists all paths."


@pytest.mark.parametrize("path", ["/webs", "/v1/wiki/quer", "/heath"])
def test_hint_never_names_the_path_that_was_asked(standing, path):
    data = refused(standing.get(path), 404, "not_found")

    assert f"'{path}'" not in data["hint"]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("project", ["..", "a..b", ".hidden", "a b", "x" * 65, "ä", "%00", "a%2Fb", "%2E%2E"])
def test_a_project_id_that_could_be_a_path_is_refused(client, project, tmp_path):
    answer = client.post(f"/api/projects/{project}/memory/index", json={"docs": ["x"]})

    assert answer.status_code in {404, 422}
    assert set(answer.json()) == SHAPE
    if answer.status_code == 422:
        assert answer.json()["details"]["fields"][0]["field"] == "project_id"
    assert not (tmp_path / "projects").exists()


@pytest.mark.parametrize(
    ("name", "body", "field"),
    [
        ("index", {"docs": "one text"}, "docs"),
        ("index", {"docs": ["a", " "]}, "docs.1"),
        ("index", {"docs": ["a"], "triples": []}, "triples"),
        ("index", {"documents": ["a"]}, "docs"),
        ("retrieve", {"queries": ["a"], "num_to_retrieve": 0}, "num_to_retrieve"),
        ("retrieve", {"queries": ["a"], "num_to_retrieve": True}, "num_to_retrieve"),
        ("retrieve", {"queries": ["a"] * 101}, "queries"),
        ("delete", {"docs": [None]}, "docs.0"),
    ],
)
def test_a_wrong_field_of_project_memory_is_named(standing, name, body, field):
    data = refused(standing.post(f"/api/projects/acme/memory/{name}", json=body), 422, "invalid_input")

    assert data["details"]["fields"][0]["field"] == field


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b'{"input": NaN}', b"[" * 100_000])
def test_a_body_that_is_no_json_is_refused(standing, body):
    data = refused(standing.post("/v1/wiki/query", content=body, headers=JSON), 422, "invalid_input")

    assert "not JSON" in data["message"]


@pytest.mark.parametrize("body", [b"5", b"null", b'"text"', b"[]"])
def test_a_body_that_is_no_object_is_refused(standing, body):
    refused(standing.post("/v1/wiki/query", content=body, headers=JSON), 422, "invalid_input")


@pytest.mark.parametrize("label", ["text/plain", "application/x-www-form-urlencoded", ""])
def test_only_what_is_labelled_as_json_is_read(standing, label):
    answer = standing.post("/v1/wiki/query", content=b'{"input": {"task": "x"}}', headers={"Content-Type": label})

    refused(answer, 415, "unsupported_media_type")


@pytest.mark.parametrize("times", [1, 3, 10])
def test_oversized_body_is_refused_with_or_without_a_length(tmp_path, times):
    body = json.dumps({"docs": ["x" * 100_000 * times]}).encode()
    with running(tmp_path, bounds=Bounds(max_body_bytes=100_000)) as client:
        told = client.post("/api/projects/acme/memory/index", content=body, headers=JSON)
        chunked = client.post("/api/projects/acme/memory/index", content=iter([body]), headers=JSON)
        assert refused(chunked, 413, "too_large") == told.json()

    assert refused(told, 413, "too_large")["details"] == {"max_bytes": 100_000}


@pytest.mark.parametrize(
    ("length", "begun"),
    [("Content-Length: 200000000", b""), ("Transfer-Encoding: chunked", b"186a1\r\n" + b" " * 100_001)],
    ids=["declared", "chunked"],
)
def test_oversized_body_is_refused_before_the_rest_arrives(tmp_path, length, begun):
    bounds = Bounds(max_body_bytes=100_000, body_seconds=600.0)
    with running(tmp_path, bounds=bounds) as client:
        host, port = client.base_url.host, client.base_url.port
        with socket.create_connection((host, port), timeout=60) as connection:
            head = f"POST /v1/wiki/query HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n{length}\r\n\r\n"
            connection.sendall(head.encode() + begun)
            assert connection.recv(65_536).startswith(b"HTTP/1.1 413 ")


def test_a_path_there_is_not_is_reported_with_the_nearest(standing):
    assert (
        refused(standing.post("/v1/wiki/qery", json={}), 404, "not_found")["hint"] == "Did you mean '/v1/wiki/query'?"
    )


@pytest.mark.parametrize("path", ["/docs", "/redoc", "/health/", "/v1/wiki"])
def test_there_are_no_pages_and_no_redirects(standing, path):
    refused(standing.get(path), 404, "not_found")


def test_wrong_method_lists_the_allowed_ones(standing):
    answer = standing.get("/v1/wiki/query")

    refused(answer, 405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"


def test_a_stale_revision_is_a_conflict(standing):
    made = standing.post("/v1/wiki/crystallize", json={"mode": "work_item", "input": {"title": "Cut a release"}}).json()
    (identity,) = (one for one in made["ids"] if one.startswith("work:"))
    change = {"mode": "work_item", "input": {"id": identity, "revision": 1, "summary": "Soon"}}
    standing.post("/v1/wiki/crystallize", json=change)

    data = refused(
        standing.post("/v1/wiki/crystallize", json={**change, "input": {**change["input"], "summary": "Now"}}),
        409,
        "conflict",
    )

    assert data["details"]["current"] == 2


class BrokenEmbedder(HashingEmbedder):
    """An embedder of somebody else that fails in a way of its own."""

    def embed_documents(self, texts):
        raise RuntimeError("the model in /srv/models is broken")


def test_unexpected_failure_reveals_no_internals(tmp_path, caplog):
    items = [{"text": "Bees hum.", "origin": "b"}]
    with running(tmp_path, embedder=BrokenEmbedder()) as client:
        known = {"mode": "source", "input": {"items": items}, "options": {"wait": True}}
        answer = client.post("/v1/wiki/ingest", json=known)

    data = refused(answer, 500, "error")
    assert "/srv/models" not in answer.text
    assert data["hint"]
    assert "/srv/models" in caplog.text


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "10.0.0.1", "[", "", "localhost.evil.example:80"]
)
def test_a_host_that_is_not_this_machine_is_refused(standing, host):
    refused(standing.get("/health", headers={"Host": host}), 403, "denied")


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:1234", "127.0.0.1:80", "[::1]:8420"])
def test_this_machine_may_be_asked_under_any_of_its_names(standing, host):
    assert standing.get("/health", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost:1", ""])
def test_a_page_of_another_site_is_refused(standing, origin):
    refused(standing.post("/v1/wiki/lint", json={}, headers={"Origin": origin}), 403, "denied")


def test_a_page_of_this_server_may_ask_it_and_no_other_is_invited(standing):
    own = str(standing.base_url).rstrip("/")
    answer = standing.get("/health", headers={"Origin": own})

    assert answer.status_code == 200
    assert not [name for name in answer.headers if name.startswith("access-control")]


def test_files_are_read_only_below_the_folder_that_was_named(client, tmp_path):
    outside = tmp_path / "secret.txt"
    outside.write_text("A secret.")
    (tmp_path / "files" / "link.txt").symlink_to(outside)

    for path in (str(outside), "../secret.txt", "link.txt", "/", "\x00"):
        for mode in ("path", ""):
            refused(client.post("/v1/wiki/ingest", json={"mode": mode, "input": {"path": path}}), 403, "denied")


def test_a_path_is_relative_to_that_folder_and_a_repository_above_it_is_not_read(client, tmp_path):
    (tmp_path / "files" / "notes.md").write_text("Releases are cut on Tuesdays.")
    subprocess.run(["git", "init", "-q", "--template=", str(tmp_path)], check=True)

    read = client.post("/v1/wiki/ingest", json={"input": {"path": "notes.md"}})
    above = client.post("/v1/wiki/ingest", json={"mode": "repo", "input": {"path": "."}})

    assert read.json()["counts"] == {"created": 1}
    refused(above, 403, "denied")


def test_without_such_a_folder_no_file_is_read(tmp_path):
    with running(tmp_path) as client:
        answer = client.post("/v1/wiki/ingest", json={"mode": "repo", "input": {"path": str(tmp_path)}})

    assert "--files" in refused(answer, 403, "denied")["hint"]


def test_excess_requests_get_a_retry_time(tmp_path):
    with running(tmp_path, bounds=Bounds(most_at_once=0)) as client:
        answers = [client.get("/openapi.json"), client.post("/v1/wiki/lint", json={})]
        apart = [client.get("/health"), client.get("/ready")]

    for answer in answers:
        refused(answer, 503, "unavailable")
        assert answer.headers["retry-after"] == "1"
    assert [answer.status_code for answer in apart] == [200, 200]


def test_a_client_that_hangs_up_in_the_middle_is_no_failure(tmp_path, caplog):
    with running(tmp_path) as client:
        with socket.create_connection((client.base_url.host, client.base_url.port)) as hasty:
            head = "POST /v1/wiki/lint HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json"
            hasty.sendall(f"{head}\r\nContent-Length: 100\r\n\r\n{{".encode())
        answer = client.get("/ready")

    assert answer.status_code == 200
    assert not caplog.records


def test_an_answer_to_a_wrong_body_is_short_however_much_of_it_is_wrong(client):
    many = client.post("/v1/wiki/query", json={"mode": "search", "input": {f"k{n}": 1 for n in range(10_000)}})
    long = client.post("/v1/wiki/query", json={"mode": "x" * 1_000_000})

    assert len(refused(many, 422, "invalid_input")["details"]["fields"]) == 100
    assert "and 9999 more" in many.json()["message"] or "and 10000 more" in many.json()["message"]
    refused(long, 422, "invalid_input")
    assert max(len(many.content), len(long.content)) < 50_000


@pytest.mark.parametrize("body", [{"mode": ["x"] * 200_001}, {"input": {f"k{n}": n for n in range(200_001)}}])
def test_a_body_of_very_many_values_is_refused_as_a_whole(client, body):
    assert refused(client.post("/v1/wiki/query", json=body), 422, "invalid_input")["details"] == {"most": 200_000}


def test_wrong_bodies_are_described_without_words_of_a_library(client):
    shape = refused(client.post("/v1/wiki/query", json=[1]), 422, "invalid_input")
    unknown = refused(client.post("/v1/wiki/query", json={"mode": "search", "texts": 1}), 422, "invalid_input")
    note = {"mode": "source", "input": {"items": [{"text": ""}]}}
    empty = client.post("/v1/wiki/ingest", json=note).json()["items"][0]

    assert "must be an object" in shape["message"]
    assert "texts: unknown field" in unknown["message"]
    assert "neither text nor messages" in str(empty)
