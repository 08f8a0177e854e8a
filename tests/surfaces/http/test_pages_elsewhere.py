"""A page of another site, open in the browser of whoever runs a server without keys, can neither write nor read.

A page can have a browser send forms and plain texts to any address without asking first, and it can have its own name
resolve to 127.0.0.1.
"""

import pytest
from rest_parts import EXAMPLES, running

SENT_UNASKED = {
    "a form": "application/x-www-form-urlencoded",
    "a form with files": "multipart/form-data; boundary=x",
    "plain text": "text/plain",
    "text that says it is JSON": "text/plain; application/json",
    "nothing": None,
}
"""What a browser sends to another site without a preflight, by its label."""


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with running(tmp_path_factory.mktemp("served"), allow=frozenset({"review", "erase"})) as client:
        yield client


def paths(server):
    described = server.get("/openapi.json").json()["paths"]
    return [
        (
            method.upper(),
            path.replace("{project_id}", "acme"),
            next(iter(EXAMPLES.get(one["operationId"], {}).values()), None),
        )
        for path, methods in described.items()
        for method, one in methods.items()
    ]


@pytest.mark.parametrize("label", SENT_UNASKED)
def test_no_route_takes_what_a_browser_sends_without_asking(server, label):
    kind = SENT_UNASKED[label]
    body = '{"mode": "source", "input": {"text": "Planted."}}'
    taken = []
    for method, path, _ in paths(server):
        if method == "POST":
            answer = server.post(path, content=body, headers={"Content-Type": kind} if kind else {})
            if answer.status_code == 404 and "{job_id}" in path:
                continue  # it is told of an id, which no page can guess
            if answer.status_code not in {415, 422} or (answer.status_code == 422 and "upstream" not in answer.text):
                taken.append((path, answer.status_code))
    assert taken == []


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:1", "http://localhost"])
def test_no_route_answers_a_page_of_another_origin(server, origin):
    answered = [
        (method, path)
        for method, path, body in paths(server)
        if server.request(method, path, json=body, headers={"Origin": origin}).status_code != 403
    ]
    assert answered == []


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "[::2]", ""])
def test_routes_reject_rebound_host_names(server, host):
    answered = [
        (method, path)
        for method, path, body in paths(server)
        if server.request(method, path, json=body, headers={"Host": host}).status_code not in {400, 403}
    ]
    assert answered == []


def test_cors_preflight_is_refused(server):
    asked = {"Origin": "https://evil.example", "Access-Control-Request-Method": "POST"}
    for _, path, _ in paths(server):
        answer = server.options(path, headers=asked)
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control-")]
