"""The project card states what the manifests of a repository state, and nothing else."""

import json

import pytest

from sources.git_scratch import Scratch
from treering.ports.adapter import AlreadyRead, ReadLimits, SourceDraft
from treering.sources.repository.repo import RepoAdapter


@pytest.fixture
def card_of(tmp_path):
    def card(files):
        scratch = Scratch(tmp_path / "acme")
        scratch.commit(files)
        readings = RepoAdapter().read(str(scratch.folder), known=AlreadyRead(), limits=ReadLimits(), options={})
        return next(one for one in readings if isinstance(one, SourceDraft)).payload["card"]

    return card


def commands(card):
    return {(one["job"], one["run"]) for one in card.get("commands", ())}


def test_card_states_a_python_project(card_of):
    card = card_of(
        {
            "pyproject.toml": '[project]\nname = "acme"\nversion = "1.2"\ndescription = "Sells anvils."\n'
            'requires-python = ">=3.10"\n[tool.pytest.ini_options]\n',
            "Makefile": "PYTHON := python3\n.PHONY: test\ntest:\n\tpytest\nlint: install\n\truff check\n",
            "src/acme/__init__.py": "",
            "src/acme/anvils/__init__.py": "WEIGHT = 1\n",
            "tests/test_anvils.py": "def test_it(): ...\n",
            "docs/index.md": "# Acme\n",
        }
    )
    assert (card["name"], card["version"], card["purpose"]) == ("acme", "1.2", "Sells anvils")
    assert (card["languages"], card["requires"]) == (["Python"], ["Python ≥ 3.10"])
    assert commands(card) == {("test", "make test"), ("test", "pytest"), ("lint", "make lint")}
    assert card["folders"] == [{"path": "src/acme/", "children": ["anvils"], "more": 0}]
    assert (card["tests"], card["docs"]) == (["tests/"], ["docs/"])


@pytest.mark.parametrize(
    ("lock", "declared", "test", "lint"),
    [
        ("package-lock.json", {}, "npm test", "npm run lint"),
        ("pnpm-lock.yaml", {}, "pnpm test", "pnpm lint"),
        ("bun.lock", {}, "bun run test", "bun run lint"),
        ("package-lock.json", {"packageManager": "yarn@4.1.0"}, "yarn test", "yarn lint"),
    ],
)
def test_scripts_run_with_the_package_manager(card_of, lock, declared, test, lint):
    manifest = {"name": "acme", "scripts": {"test": "vitest", "lint": "eslint ."}, **declared}
    card = card_of({"package.json": json.dumps(manifest), lock: "{}", "src/app.ts": "export const a = 1\n"})
    assert commands(card) == {("test", test), ("lint", lint)}


def test_placeholder_scripts_are_no_commands(card_of):
    script = 'echo "Error: no test specified" && exit 1'
    card = card_of({"package.json": json.dumps({"scripts": {"test": script}}), "app.js": "let a = 1\n"})
    assert commands(card) == set()


def test_private_packages_do_not_name_the_project(card_of):
    card = card_of({"package.json": '{"name": "root", "private": true}', "src/app.ts": "export const a = 1\n"})
    assert card["name"] == "acme"


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"go.mod": "module example.org/acme/v2\n\ngo 1.22\n", "main.go": "package main\n"}, "go test ./..."),
        ({"Cargo.toml": '[package]\nname = "acme"\n', "src/main.rs": "fn main() {}\n"}, "cargo test"),
        ({"pom.xml": "<project/>", "src/main/java/App.java": "class App {}\n"}, "mvn test"),
        ({"noxfile.py": "import nox\n@nox.session(python='3.12')\ndef tests(session): ...\n"}, "nox -s tests"),
        ({"tox.ini": "[tox]\nenv_list = py312\n", "acme.py": "a = 1\n"}, "tox"),
        ({"scripts/test": "#!/bin/sh\npytest\n", "acme.py": "a = 1\n"}, "scripts/test"),
        ({"justfile": "default := 'x'\ntest *args:\n  pytest\n", "acme.py": "a = 1\n"}, "just test"),
    ],
)
def test_build_tools_and_runners_give_the_test_command(card_of, files, expected):
    assert ("test", expected) in commands(card_of(files))


def test_build_files_of_minor_languages_are_ignored(card_of):
    code = "def f(): return 1\n" * 200
    card = card_of({"Cargo.toml": '[package]\nname = "helper"\n', "src/lib.rs": "fn a() {}\n", "acme/app.py": code})
    assert card["name"] == "acme"
    assert commands(card) == set()


def test_broken_manifests_state_nothing(card_of):
    card = card_of({"package.json": '{"name": ' + "[" * 50_000, "pyproject.toml": "[project", "a.py": "a = 1\n"})
    assert card["name"] == "acme"
    assert "commands" not in card


def test_tests_next_to_code_are_a_pattern(card_of):
    files = {f"src/{name}.ts": "export const a = 1\n" for name in "abc"}
    card = card_of(files | {f"src/{name}.test.ts": "test('a', () => {})\n" for name in "abc"})
    assert card["tests"] == ["**/*.test.ts"]


def test_folders_named_like_tests_may_hold_helpers(card_of):
    files = {f"t/unit/test_{name}.py": "def test_it(): ...\n" for name in "abcdefgh"}
    card = card_of(files | {"t/unit/case.py": "class Case: ...\n", "acme/app.py": "a = 1\n"})
    assert card["tests"] == ["t/"]


def test_purpose_comes_from_the_package_or_the_readme(card_of):
    readme = "# Acme\n\n[![build](x.svg)](y)\n\n**Acme** sells [anvils](https://example.org). It ships fast.\n"
    files = {"README.md": readme, "setup.py": "NAME = 'acme'\nsetup(name=NAME)\n", "acme/app.py": "a = 1\n"}
    assert card_of(files)["purpose"] == "Acme sells anvils"
    assert card_of({"acme/__init__.py": '"""Anvils for everybody."""\n'})["purpose"] == "Anvils for everybody"


def test_files_that_agents_load_themselves_are_named(card_of):
    card = card_of({"AGENTS.md": "# Rules\n", ".cursor/rules/a.mdc": "a", "docs/AGENTS.md": "x", "a.py": "a = 1\n"})
    assert card["client_files"] == [".cursor/rules/", "AGENTS.md"]


@pytest.mark.parametrize(
    "files",
    [
        {"noxfile.py": "@nox.session(name=\n" * 20_000},
        {"noxfile.py": "@session\n" * 100_000},
        {"justfile": "a" * 200_000},
        {"package.json": '{"scripts": ' + '{"a":' * 50_000},
        {"pyproject.toml": f"{'a.' * 20_000}b = 1\n"},
    ],
)
def test_hostile_task_files_declare_nothing(card_of, files):
    assert commands(card_of({**files, "acme.py": "a = 1\n"})) == set()
