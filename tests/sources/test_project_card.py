"""The project card states what the manifests of a repository state, and nothing else."""

import json

import pytest

from sources.git_scratch import Scratch
from treering.extensions.code.repository.repo import RepoAdapter
from treering.ports.adapter import AlreadyRead, ReadLimits, SourceDraft


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


def test_card_states_a_project_without_code(card_of):
    card = card_of({"Cargo.toml": '[package]\nname = "tiny"\nversion = "0.3.0"\n', "guide.md": "# Guide\n"})
    assert (card["name"], card["version"]) == ("tiny", "0.3.0")


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


DYNAMIC = '[project]\nname = "acme"\ndynamic = ["version"]\n'


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": DYNAMIC, "acme/__init__.py": '__version__ = "1.2.3"\n'},
        {"pyproject.toml": DYNAMIC, "src/acme/_version.py": "__version__: str = '1.2.3'\n"},
        {
            "pyproject.toml": f'{DYNAMIC}[tool.hatch.version]\npath = "acme/about.py"\n',
            "acme/about.py": 'VERSION = "1.2.3"',
        },
        {"setup.cfg": "[metadata]\nversion = attr: acme.__version__\n", "acme/__init__.py": "__version__ = '1.2.3'\n"},
        {"setup.cfg": "[metadata]\nversion = file: VERSION\n", "VERSION": "1.2.3\n", "acme/a.py": "a = 1\n"},
        {"setup.py": "setup(version=read_version())\n", "acme/__init__.py": "__version__ = '1.2.3'\n"},
        {"Cargo.toml": '[workspace.package]\nversion = "1.2.3"\n', "src/main.rs": "fn main() {}\n"},
        {"build.gradle": "version = '1.2.3'\n", "src/main/java/App.java": "class App {}\n"},
        {"pom.xml": "<project><parent><version>1.2.3</version></parent></project>", "App.java": "class App {}\n"},
        {"lerna.json": '{"version": "1.2.3"}', "src/app.ts": "export const a = 1\n"},
    ],
)
def test_version_comes_from_where_it_is_stated(card_of, files):
    assert card_of(files)["version"] == "1.2.3"


@pytest.mark.parametrize(
    "files",
    [
        {"pyproject.toml": f"{DYNAMIC}[tool.setuptools_scm]\n", "acme/__init__.py": '__version__ = "0.1"\n'},
        {
            "pyproject.toml": f'{DYNAMIC}[tool.hatch.version]\nsource = "vcs"\n',
            "acme/__init__.py": '__version__ = "0.1"',
        },
        {"pyproject.toml": DYNAMIC, "a/__init__.py": '__version__ = "1"\n', "b/__init__.py": '__version__ = "2"\n'},
        {"package.json": '{"version": "0.0.0-dev"}', "a.ts": "export const a = 1\n"},
    ],
)
def test_unknown_versions_are_omitted(card_of, files):
    assert "version" not in card_of(files)


def package(**fields):
    return json.dumps(fields)


def test_packages_in_folders_share_their_version(card_of):
    files = {f"packages/{name}/package.json": package(name=f"@x/{name}", version="2.0.0") for name in "abc"}
    files |= {f"packages/{name}/src/a.ts": "export const a = 1\n" for name in "abc"}
    card = card_of({"package.json": package(name="root", private=True), **files})
    assert (card["name"], card["version"]) == ("acme", "2.0.0")
    assert card["folders"] == [{"path": "packages/", "children": ["a", "b", "c"], "more": 0}]


def test_folders_give_commands_that_the_top_lacks(card_of):
    inside = {"web/package.json": package(scripts={"test": "vitest", "lint": "eslint"}), "web/a.ts": "let a = 1\n"}
    assert commands(card_of({**inside, "Makefile": "lint:\n\teslint .\n", "pnpm-lock.yaml": ""})) == {
        ("test", "cd web && pnpm test"),
        ("lint", "make lint"),
    }


def test_folders_with_odd_names_give_no_commands(card_of):
    scripts = package(scripts={"test": "vitest"})
    odd = {f"{name}/package.json": scripts for name in ("a; ls", "-x", "a b", "`id`", "examples", "bench")}
    assert commands(card_of({**odd, "a.ts": "let a = 1\n"})) == set()


WORKFLOW = """\
jobs:
  pytest:
    steps:
      - run: cargo clippy --all-targets -- -D warnings
      - run: cargo clippy
      - run: cargo clippy ${{ matrix.flags }}
      - run: |
          cargo fmt --check
          cargo build | tee log
      - name: cargo doc
"""


def test_steps_of_ci_are_the_last_resort(card_of):
    files = {"src/main.rs": "fn main() {}\n", "Cargo.toml": "[package]\n", ".github/workflows/ci.yml": WORKFLOW}
    assert commands(card_of(files)) == {
        ("test", "cargo test"),
        ("build", "cargo build"),
        ("lint", "cargo clippy"),
        ("format", "cargo fmt --check"),
    }
    assert ("lint", "make lint") in commands(card_of({"Makefile": "lint:\n\tcargo clippy -q\n"}))


def test_targets_that_run_removed_commands_are_omitted(card_of):
    makefile = "test:\n\tpython setup.py test\n\nbuild: clean\n\tpython setup.py sdist\n"
    assert commands(card_of({"Makefile": makefile, "acme.py": "a = 1\n"})) == {("build", "make build")}


def test_make_target_that_serves_a_missing_folder_is_omitted(card_of):
    makefile = "docs:\n\tnpx docsify-cli serve ./docs\n\nbuild:\n\tmkdir -p out && cd out && cmake ..\n"
    assert commands(card_of({"Makefile": makefile, "acme.py": "a = 1\n"})) == {("build", "make build")}
    there = {"Makefile": makefile, "docs/index.html": "<p>Acme</p>\n"}
    assert ("docs", "make docs") in commands(card_of(there))


def test_tasks_of_invoke_come_before_pytest(card_of):
    linters, tests = "@task\ndef linters(c):\n    pass\n", "@task(\n    help={}\n)\ndef tests(c):\n    pass\n"
    tasks = f"from invoke import task\n\n\n{linters}\n\n{tests}"
    card = card_of({"tasks.py": tasks, "pyproject.toml": "[tool.pytest.ini_options]\n", "acme.py": "a = 1\n"})
    runs = [one["run"] for one in card["commands"]]
    assert runs == ["invoke tests", "pytest", "invoke linters"]
    celery = tasks.replace("invoke", "celery")
    assert commands(card_of({"tasks.py": celery})) == {("test", "pytest")}


def test_pytest_runs_in_the_locked_environment(card_of):
    card = card_of({"pyproject.toml": "[tool.pytest.ini_options]\n", "uv.lock": "", "acme.py": "a = 1\n"})
    assert commands(card) == {("test", "uv run pytest")}


def test_workspaces_are_tested_as_a_whole(card_of):
    files = {"Cargo.toml": '[workspace]\nmembers = ["crates/*"]\n', ".cargo/config.toml": '[alias]\nlint = "clippy"\n'}
    files |= {f"crates/{name}/Cargo.toml": f'[package]\nname = "{name}"\nversion = "3.1"\n' for name in ("acme", "b")}
    card = card_of(files | {f"crates/{name}/src/lib.rs": "fn a() {}\n" for name in ("acme", "b")})
    assert ("test", "cargo test --workspace") in commands(card)
    assert ("lint", "cargo lint") in commands(card)
    assert (card["name"], card["version"]) == ("acme", "3.1")


def test_code_at_the_top_is_a_folder(card_of):
    card = card_of(
        {"go.mod": "module example.org/acme\n", "acme.go": "package acme\n", "acme_test.go": "package acme\n"}
    )
    assert card["folders"] == [{"path": "./", "children": [], "more": 0}]
    assert card["tests"] == ["**/*_test.go"]


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


@pytest.mark.parametrize(
    ("files", "docs", "folders"),
    [
        ({"doc/man.go": "package doc\n", "doc/yaml.go": "package doc\n", "doc/README.md": "x"}, None, ["./", "doc/"]),
        ({"docs/conf.py": "a = 1\n", "docs/index.md": "# A\n", "docs/use.md": "# B\n"}, ["docs/"], ["./"]),
    ],
)
def test_folder_of_code_called_doc_is_no_documentation(card_of, files, docs, folders):
    card = card_of({"app.go": "package app\n", **files})
    assert card.get("docs") == docs
    assert [one["path"] for one in card["folders"]] == folders


def test_purpose_comes_from_the_package_or_the_readme(card_of):
    readme = "# Acme\n\n[![build](x.svg)](y)\n\n**Acme** sells [anvils](https://example.org). It ships fast.\n"
    files = {"README.md": readme, "setup.py": "NAME = 'acme'\nsetup(name=NAME)\n", "acme/app.py": "a = 1\n"}
    assert card_of(files)["purpose"] == "Acme sells anvils"
    assert card_of({"acme/__init__.py": '"""Anvils for everybody."""\n'})["purpose"] == "Anvils for everybody"


@pytest.mark.parametrize(
    "notice", ["**News**: try the online editor!", "Note: version 2 is out.", "WARNING: unstable."]
)
def test_a_notice_in_the_readme_is_not_the_purpose(card_of, notice):
    assert card_of({"README.md": f"# Acme\n\n{notice}\n\nAcme sells anvils.\n"})["purpose"] == "Acme sells anvils"


def test_folders_of_decision_records_are_counted(card_of):
    files = {f"docs/decisions/{number:04}-use.md": "# Use it\n" for number in range(3)}
    card = card_of(files | {"docs/decisions/template.md": "# Title\n", "a.py": "a = 1\n"})
    assert card["decisions"] == [{"path": "docs/decisions/", "records": 3}]


def test_folder_without_numbered_records_is_no_decisions(card_of):
    assert "decisions" not in card_of({"proposals/index.md": "# Proposals\n", "proposals/a.md": "# A\n"})


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
        {"pyproject.toml": '[tool.hatch.envs."{x}; ls {0}".scripts]\ntest = "pytest"\n'},
        {"Makefile": "clean:\n" + "\tsetup.py " * 50_000},
        {".github/workflows/ci.yml": "- run: uv run " + "-a " * 50_000},
        {"pyproject.toml": f"{'a.' * 20_000}b = 1\n"},
    ],
)
def test_hostile_task_files_declare_nothing(card_of, files):
    assert commands(card_of({**files, "acme.py": "a = 1\n"})) == set()
