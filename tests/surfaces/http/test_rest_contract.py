import json
import os
import re
from pathlib import Path

import pytest
from rest_parts import running
from schemathesis_run import check

from treering import __version__
from treering.extensions.projects.routes import IndexRequest, RetrieveRequest, ServedProjects
from treering.extensions.server.app import Serving, build_app
from treering.extensions.server.contract import misfits

GOLDEN = Path(__file__).with_name("openapi.json")
DECIMAL = r'\n *"pattern": "\^\(\?!\^\[-\+\.\]\*\$\).*",'
"""The pattern of a decimal number in text, which only some releases of pydantic write."""


def test_the_contract_reads_as_it_was_approved(tmp_path):
    with running(tmp_path) as client:
        told = client.get("/openapi.json").json()
    assert told["info"].pop("version") == __version__
    text = json.dumps(told, indent=1, ensure_ascii=False) + "\n"
    text = re.sub(DECIMAL, "", text)
    if os.environ.get("REWRITE_GOLDEN"):
        GOLDEN.write_text(text, encoding="utf-8")
    assert text == GOLDEN.read_text(encoding="utf-8"), "If this is meant, run the tests with REWRITE_GOLDEN=1."


def test_every_path_that_is_served_but_the_web_page_is_in_the_contract(tmp_path):
    app = build_app(Serving(space=":memory:", parts={"projects": ServedProjects(tmp_path)}))

    besides = {"/openapi.json", "/mcp", "/metrics", "/sign-in", "/sign-out", "/", "/web"}
    assert {route.path for route in app.routes} == {*app.openapi()["paths"], *besides}


def test_every_reference_of_the_contract_leads_somewhere(tmp_path):
    document = build_app(Serving(space=":memory:", parts={"projects": ServedProjects(tmp_path)})).openapi()

    def references(data):
        match data:
            case {"$ref": str(target)}:
                yield target
            case dict():
                for part in data.values():
                    yield from references(part)
            case list():
                for part in data:
                    yield from references(part)

    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references(document)) <= known


def test_types_are_those_of_the_schema_and_no_others():
    assert misfits(RetrieveRequest, {"queries": ["a"], "num_to_retrieve": 5.0}) == []
    assert misfits(IndexRequest, {"docs": ["a"], "triples": None, "wait": True}) == []
    assert [one["field"] for one in misfits(RetrieveRequest, {"queries": ["a"], "num_to_retrieve": "5"})] == [
        "num_to_retrieve"
    ]
    assert [one["field"] for one in misfits(IndexRequest, {"docs": ["a"], "wait": 1})] == ["wait"]


@pytest.mark.parametrize(
    ("phases", "examples"),
    [
        ("examples,fuzzing", 1),
        pytest.param("examples,coverage,fuzzing,stateful", 5, marks=pytest.mark.nightly),
    ],
)
def test_schemathesis_finds_nothing_in_any_phase(tmp_path, phases, examples):
    done = check(tmp_path, "--seed", "1", "--max-examples", str(examples), "--phases", phases)

    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
