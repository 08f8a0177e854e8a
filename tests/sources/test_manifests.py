import json
from typing import Any

import pytest

from treering.core.objects import PAYLOADS
from treering.extensions.code.manifest_format import project_facts
from treering.ports.adapter import KnowledgeDraft, SegmentDraft
from treering.sources.reading.text import segment_text


def segments_of(path: str, text: str) -> list[SegmentDraft]:
    return segment_text(path, text, commit=None, max_chars=4_000)


def stated(path: str, text: str) -> tuple[KnowledgeDraft, ...]:
    found = tuple(project_facts(path, text, segments_of(path, text)))
    for draft in found:
        PAYLOADS[draft.kind].model_validate(dict(draft.payload))
    return found


def payloads(path: str, text: str) -> list[dict[str, Any]]:
    return [dict(draft.payload) for draft in stated(path, text)]


def test_a_python_manifest_states_its_facts_and_needs() -> None:
    text = """[project]
name = "acme"
version = "1.4.0"
license = "MIT"
requires-python = ">=3.11"
dependencies = ["numpy>=2,<3", "rich[jupyter]", "tomli>=1; python_version<'3.11'", "tomli>=2; python_version>='3.11'"]
"""
    facts = {(one["subject"], one["predicate"]): one["value"] for one in payloads("pyproject.toml", text)}
    assert facts == {
        ("pyproject.toml", "package name"): "acme",
        ("acme", "version"): "1.4.0",
        ("acme", "license"): "MIT",
        ("acme", "requires python"): ">=3.11",
        ("acme", "depends on numpy"): ">=2,<3",
        ("acme", "depends on rich"): "any version",
        ("acme", "depends on tomli"): ">=1; python_version<'3.11' | >=2; python_version>='3.11'",
    }


def test_manifests_of_other_languages_state_theirs() -> None:
    package = {"name": "web", "version": "2.0.0", "engines": {"node": ">=22"}, "dependencies": {"left": "^1"}}
    cargo = """[package]
name = "core"
version = "0.3.0"
rust-version = "1.80"
[dependencies]
serde = { version = "1" }
"""
    go = """module example.org/tool

go 1.24

require (
	example.org/a/b v1.2.3
	example.org/c/d v0.1.0 // indirect
)
"""

    def lines(path: str, text: str) -> list[str]:
        return [f"{one['predicate']}={one['value']}" for one in payloads(path, text)]

    assert lines("package.json", json.dumps(package)) == [
        *("package name=web", "version=2.0.0", "requires node=>=22", "depends on left=^1")
    ]
    assert lines("Cargo.toml", cargo) == [
        *("package name=core", "version=0.3.0", "requires rust=1.80", "depends on serde=1")
    ]
    assert lines("go.mod", go) == [
        *("package name=example.org/tool", "requires go=1.24", "depends on example.org/a/b=v1.2.3")
    ]


def test_at_most_sixty_dependencies_are_stated() -> None:
    manifest = {"name": "web", "version": "1", "dependencies": {f"package-{number}": "1" for number in range(100)}}
    assert len(payloads("package.json", json.dumps(manifest))) == 62


def test_each_fact_points_at_the_segment_with_its_line() -> None:
    scripts = {f"script-{number}": "run " * 20 for number in range(40)}
    text = json.dumps({"name": "web", "version": "1", "scripts": scripts, "dependencies": {"left": "^1"}}, indent=2)
    segments = segments_of("package.json", text)
    needs = stated("package.json", text)[-1]
    assert '"left"' in segments[needs.segment].text


@pytest.mark.parametrize("text", ["{", "[" * 100_000, "[]", '{"name": 7, "version": []}', "name = 'x'"])
def test_a_broken_manifest_states_nothing(text: str) -> None:
    assert stated("package.json", text) == ()
    assert stated("Cargo.toml", text) == ()
    assert stated("pyproject.toml", text) == ()


@pytest.mark.parametrize(
    "path",
    ["examples/app/pyproject.toml", "benchmarks/jsx/package.json", "tests/fixtures/go.mod", "crates/a/Cargo.toml"],
)
def test_manifests_below_the_root_state_nothing(path: str) -> None:
    texts = {
        "pyproject.toml": '[project]\nname = "a"\n',
        "package.json": '{"name": "a", "version": "1"}',
        "go.mod": "module a\n",
        "Cargo.toml": '[package]\nname = "a"\n',
    }
    name = path.rpartition("/")[2]
    assert stated(path, texts[name]) == ()
    assert stated(name, texts[name]) != ()


def test_the_root_of_npm_workspaces_states_nothing() -> None:
    assert stated("package.json", '{"name": "root", "private": true, "dependencies": {"eslint": "^9"}}') == ()
