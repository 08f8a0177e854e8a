"""Every route of the server with every right, with keys of other spaces and with keys that open nothing.

The routes are those the app has. One that `NEEDED` does not name fails here: say who may ask it.
"""

import pytest
from key_parts import RIGHTS, guarded
from rest_parts import EXAMPLES

from treering.extensions.projects.routes import ServedProjects
from treering.extensions.server.app import Serving, build_app
from treering.spaces.wiring import open_access_keys
from treering.system.address import file_address
from treering.testing.fakes import HashingEmbedder
from treering.verbs.catalog import TOOLS

HEALTH = {"/health", "/healthz", "/ready", "/readyz"}
PAGES = {"/", "/web"}
"""What people see has tests of its own: `web/test_web_with_keys.py`."""
OPEN = {*HEALTH, "/sign-in", "/sign-out"}
NEEDED = {
    "/openapi.json": ("any", "read"),
    "/v1/wiki/ingest": ("space", "write"),
    "/v1/wiki/query": ("space", "read"),
    "/v1/wiki/crystallize": ("space", "write"),
    "/v1/wiki/lint": ("space", "read"),
    "/v1/wiki/ingest/upload": ("space", "write"),
    "/v1/jobs/{job_id}": ("space", "write"),
    "/v1/jobs/{job_id}/resume": ("space", "write"),
    "/v1/jobs/{job_id}/events": ("space", "write"),
    "/v1/review/list": ("whole space", "read"),
    "/v1/review/show": ("whole space", "read"),
    "/v1/review/apply": ("whole space", "review"),
    "/v1/review/reject": ("whole space", "review"),
    "/v1/revert": ("whole space", "review"),
    "/v1/feedback/status": ("whole space", "read"),
    "/v1/feedback/on": ("whole space", "review"),
    "/v1/feedback/off": ("whole space", "review"),
    "/v1/feedback/erase": ("whole space", "review"),
    "/v1/erase": ("whole space", "admin"),
    "/api/projects/{project_id}/memory/index": ("project", "write"),
    "/api/projects/{project_id}/memory/retrieve": ("project", "read"),
    "/api/projects/{project_id}/memory/delete": ("project", "write"),
    "/v1/chat/completions": ("space", "write"),
    "/v1/models": ("space", "read"),
    "/mcp": ("space", "read"),
    "/metrics": ("whole space", "admin"),
}
"""Whose key may ask for the first example of each, with which right at least. Modes are looked at one by one, below."""

MODES = [(tool.name, mode) for tool in TOOLS.values() for mode in tool.modes.values()]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with guarded(tmp_path_factory.mktemp("guarded")) as server:
        yield server


@pytest.fixture(scope="module")
def keys(server):
    """Keys by what they open and with which right."""
    return {
        (what, right): server.key(right, **options)
        for right in RIGHTS
        for what, options in {
            "this space": {},
            "a scope": {"scope": "/team"},
            "another space": {"space": "other.db"},
            "this project": {"project": "acme"},
            "another project": {"project": "other"},
        }.items()
    }


def routes_of(folder):
    """Return method, path and an example of the body of every route that a server with keys has."""
    keys = file_address(folder / "keys.db")
    open_access_keys(keys, create=True).close()
    app = build_app(
        Serving(
            space=f"sqlite:{folder / 'space.db'}",
            keys=keys,
            parts={"projects": ServedProjects(folder / "projects")},
            allow=frozenset({"review", "erase"}),
            background=False,
            embedder=HashingEmbedder(),
        )
    )
    found = []
    for route in app.routes:
        if route.path in PAGES:
            continue
        body = next(iter(EXAMPLES.get(name_in(app, route.path), {}).values()), None)
        found += [(method, route.path, body) for method in sorted(route.methods - {"HEAD"})]
    return found


def name_in(app, path):
    described = app.openapi()["paths"].get(path, {})
    return next((one["operationId"] for one in described.values()), "")


def opens(what, reach):
    """Tell whether a key of something opens routes of a reach."""
    return {
        "any": True,
        "space": what in {"this space", "a scope"},
        "whole space": what == "this space",
        "project": what == "this project",
    }[reach]


def ask(server, key, method, path, body):
    return server.ask(key, method, path.format(project_id="acme", job_id="job:none"), json=body).status_code


def test_every_route_says_who_may_ask_it(tmp_path):
    assert {path for _, path, _ in routes_of(tmp_path)} == {*NEEDED, *OPEN}


def test_every_route_answers_exactly_the_keys_that_may_ask_it(server, keys, tmp_path):
    wrong = []
    for method, path, body in routes_of(tmp_path):
        if path in OPEN:
            continue
        reach, least = NEEDED[path]
        for (what, right), key in keys.items():
            may = opens(what, reach) and RIGHTS.index(right) >= RIGHTS.index(least)
            status = ask(server, key, method, path, body)
            if (status == 403) is may or status == 401:
                wrong.append((method, path, what, right, status))
    assert wrong == []


def test_no_route_answers_a_key_that_opens_nothing(server, tmp_path):
    let_in = []
    dead = server.dead_keys()
    for method, path, body in routes_of(tmp_path):
        for why, key in dead.items():
            if path not in OPEN and ask(server, key, method, path, body) != 401:
                let_in.append((method, path, why))
    assert let_in == []


def test_every_mode_of_a_verb_answers_exactly_the_rights_that_it_needs(server, keys):
    wrong = []
    for verb, mode in MODES:
        least = "review" if mode.rights.needs_person else "write" if mode.rights.writes else "read"
        least = "admin" if mode.whole_space else least
        for (what, right), key in keys.items():
            may = opens(what, "whole space" if mode.whole_space else "space")
            may &= RIGHTS.index(right) >= RIGHTS.index(least)
            may &= not (mode.rights.reads_files or mode.rights.fetches)  # it has no --files, and none fetches
            status = server.verb(key, verb, mode=mode.name).status_code
            if (status == 403) is may or status == 401:
                wrong.append((verb, mode.name, what, right, status))
    assert wrong == []


@pytest.mark.parametrize("path", ["/docs", "/v1/wiki/query/", "/v1//wiki/query", "/nowhere", "/static/x.css"])
def test_a_path_that_no_route_declares_is_closed(server, keys, path):
    assert server.ask("", "GET", path).status_code == 401
    assert server.ask(keys["this space", "admin"], "GET", path).status_code == 404


def test_health_is_public(server):
    assert [server.ask("", "GET", path).status_code for path in HEALTH] == [200] * 4


def test_another_method_of_a_path_needs_the_same_key(server, keys):
    assert server.ask("", "GET", "/v1/erase").status_code == 401
    assert server.ask(keys["this space", "read"], "GET", "/v1/erase").status_code == 403
    assert server.ask(keys["this space", "admin"], "GET", "/v1/erase").status_code == 405
    assert server.ask("", "OPTIONS", "/v1/wiki/query").status_code == 401
