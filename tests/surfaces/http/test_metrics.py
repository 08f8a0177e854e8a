"""What a server tells of itself to Prometheus, and whom."""

from threading import Thread

import pytest
from key_parts import guarded
from prometheus_client.parser import text_string_to_metric_families
from rest_parts import keep_bees, running
from test_stopping import Held

from treering.extensions.server.callers import Bounds

SEARCH = {"mode": "search", "input": {"text": "zebras"}}


def metrics_of(client, **headers):
    """Read all samples, by their name and labels."""
    answer = client.get("/metrics", headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain")
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def requests(method, route, status):
    return ("treering_requests_total", ("method", method), ("route", route), ("status", str(status)))


def test_requests_are_counted_by_route_and_status_without_what_was_asked(tmp_path):
    with running(tmp_path) as client:
        client.post("/v1/wiki/crystallize", json={"input": {"title": "Zebras"}})
        for _ in range(2):
            client.post("/v1/wiki/query", json=SEARCH)
        client.post("/api/projects/zebras/memory/index", json={"docs": ["Zebras."]})
        client.post("/api/projects/zebras/memory/index", json={"wrong": 1})
        client.get("/zebras")
        client.request("ZEBRA", "/health")
        found = metrics_of(client)
        text = client.get("/metrics").text

    assert found[requests("POST", "/v1/wiki/query", 200)] == 2
    assert found[requests("POST", "/api/projects/{project_id}/memory/index", 200)] == 1
    assert found[requests("POST", "/api/projects/{project_id}/memory/index", 422)] == 1
    assert found[requests("GET", "other", 404)] == 1
    assert found["treering_request_seconds_count", ("route", "/v1/wiki/query")] == 2
    assert found["treering_requests_in_progress",] == 1  # the one that asks
    assert "zebra" not in text.lower()


def test_the_spaces_that_are_open_and_the_vectors_they_wait_for_are_reported(tmp_path):
    with running(tmp_path) as client:
        assert metrics_of(client)["treering_spaces_open",] == 0
        client.post("/v1/wiki/crystallize", json={"input": {"title": "Zebras have stripes"}})
        client.post("/api/projects/acme/memory/index", json={"docs": ["Oaks are trees."]})
        found = metrics_of(client)

    assert found["treering_spaces_up",] == 1
    assert found["treering_spaces_open",] == 2
    assert found["treering_waiting_vectors",] >= 2  # nothing makes them behind this server's work


def test_a_call_that_runs_is_told_while_it_runs(tmp_path):
    embedder = Held()
    keep_bees(tmp_path)
    with running(tmp_path, embedder=embedder) as client:
        assert metrics_of(client)["treering_jobs_running",] == 0
        asking = Thread(target=lambda: client.post("/v1/wiki/query", json=SEARCH))
        asking.start()
        assert embedder.started.wait(60)
        assert metrics_of(client)["treering_jobs_running",] == 1
        embedder.go.set()
        asking.join()


def test_requests_that_are_not_let_in_are_counted_by_their_reason(tmp_path):
    with guarded(tmp_path, bounds=Bounds(requests_per_minute=2)) as server:
        reader, admin = server.key("read"), server.key("admin")
        for _ in range(4):
            server.verb(reader, "query", **SEARCH)
        server.verb("", "query", **SEARCH)
        found = metrics_of(server.client, Authorization=f"Bearer {admin}")

    assert found["treering_refused_total", ("reason", "too_many_requests")] == 2
    assert found["treering_refused_total", ("reason", "unauthorized")] == 1


def test_metrics_name_the_right_they_need(tmp_path):
    with guarded(tmp_path) as server:
        error = server.ask(server.key("read", name="ci"), "GET", "/metrics").json()
    assert error["message"] == "/metrics needs a key with the right admin; the key 'ci' has the right read."
    assert error["hint"] == "Create one with `treering key create NAME --right admin`."


def test_metrics_need_admin_unless_public(tmp_path):
    with guarded(tmp_path) as server:
        told = [server.ask(key, "GET", "/metrics").status_code for key in ("", server.key("review"))]
        assert told == [401, 403]
        assert server.ask(server.key("admin"), "GET", "/metrics").status_code == 200
    with guarded(tmp_path, metrics_to_all=True) as server:
        assert server.ask("", "GET", "/metrics").status_code == 200
        assert server.verb("", "query", **SEARCH).status_code == 401


@pytest.mark.parametrize("path", ["/metrics", "/health"])
def test_a_server_that_lets_nothing_in_still_reports_how_it_is(tmp_path, path):
    with running(tmp_path, bounds=Bounds(most_at_once=0, requests_per_minute_without_key=1)) as client:
        assert [client.get(path).status_code for _ in range(3)] == [200] * 3
