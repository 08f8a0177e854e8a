"""Errors and answers of the command line that tell what to do next."""

import re
import shutil
import subprocess
import sys

import pytest
from cli_stage import README, Stage

from treering.edges.surfaces.cli.kinds import KINDS


def test_a_kind_that_there_is_not_lists_all_kinds(stage: Stage) -> None:
    stage.done("init")
    told = stage.run("crystallize", "--kind", "decison", "--title", "x")
    assert told.code == 2
    assert "Did you mean 'decision'?" in told.err
    words = set(re.findall(r"\w+", told.err))
    assert {kind for kinds in KINDS.values() for kind in kinds} <= words


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("decision", "--question"),
        ("fact", "--subject and --predicate"),
        ("procedure", "--step"),
        ("constraint", "--rule"),
        ("preference", "--statement"),
    ],
)
def test_what_a_kind_needs_is_named_by_its_option(stage: Stage, kind: str, options: str) -> None:
    stage.done("init")
    told = stage.run("crystallize", "--kind", kind, "--title", "x")
    assert told.code == 2
    assert options in told.err
    assert f"payload.{options.split()[0].removeprefix('--')}" in told.err
    assert stage.json("lint", "audit")["head"]["seq"] == 0


def test_what_is_not_there_is_exit_code_3_whatever_the_mode(stage: Stage) -> None:
    stage.done("init")
    for mode in ("expand", "page", "related"):
        assert stage.run("query", "--mode", mode, "know:01k00000000000000000000000").code == 3, mode
    stage.done("ingest", "-", stdin="Releases are cut on Tuesdays.")
    source = stage.json("query", "--mode", "search", "releases")["hits"][0]["object_id"]
    told = stage.run("query", "--mode", "expand", source, "know:01k00000000000000000000000")
    assert told.code == 3
    assert "Releases are cut on Tuesdays." in told.out
    assert "not found: know:01k00000000000000000000000" in told.out + told.err


def test_an_import_that_fails_leaves_no_space_behind(stage: Stage) -> None:
    stage.done("ingest", "-", stdin="Releases are cut on Tuesdays.")
    stage.done("export", "whole")
    before = set(stage.folder.iterdir())
    assert stage.run("import", "nowhere", "--space", "sqlite:new.db").code == 3
    assert set(stage.folder.iterdir()) == before

    shutil.copytree(stage.folder / "whole", stage.folder / "damaged")
    with (stage.folder / "damaged" / "events.jsonl").open("a") as events:
        events.write('{"a": 1}\n')
    told = stage.run("import", "damaged", "--space", "sqlite:new.db")
    assert told.code == 2
    assert "This cannot be read as an export: id: Field required" in told.err
    assert "pydantic" not in told.err
    assert {path.name for path in stage.folder.iterdir()} == {path.name for path in before} | {"damaged"}

    stage.done("import", "whole", "--space", "sqlite:new.db")
    assert stage.json("lint", "audit", "--space", "sqlite:new.db")["verified"]


def test_a_space_that_is_there_is_kept_where_an_import_fails(stage: Stage) -> None:
    stage.done("ingest", "-", stdin="Releases are cut on Tuesdays.")
    stage.done("export", "whole")
    assert stage.run("import", "whole").code == 4
    assert "Tuesdays" in stage.done("query", "releases").out


def test_a_text_to_read_shows_the_segment_to_cite(stage: Stage) -> None:
    stage.commit({"README.md": README})
    stage.done("ingest", ".")
    hit = stage.json("query", "--mode", "search", "what was decided about the SQLite file")["hits"][0]
    text = stage.done("query", "--mode", "search", "what was decided about the SQLite file").out
    assert f"{hit['object_id']} {hit['segment_id']}" in text
    cited = ["--evidence", f"{hit['object_id']} {hit['segment_id']}"]
    decision = ["--kind", "decision", "--title", "One file", "--question", "Where?", "--outcome", "In one SQLite file"]
    stage.done("crystallize", *decision, *cited)
    pack = stage.done("query", "what was decided about the SQLite file").out
    assert f"`{hit['object_id']} {hit['segment_id']}`" in pack


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("treering query --mode ", {"context", "search", "page", "related", "recent", "expand"}),
        ("treering query --mode re", {"related", "recent"}),
        ("treering ingest --mode p", {"path"}),
        ("treering lint ", {"structure", "semantic", "repair", "reindex", "audit"}),
        ("treering crystallize --kind dec", {"decision"}),
    ],
)
def test_a_shell_completes_modes_and_kinds(line: str, found: set[str], stage: Stage) -> None:
    words = line.split(" ")
    shell = {"_TREERING_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    for name, value in shell.items():
        stage.monkeypatch.setenv(name, value)
    told = subprocess.run([sys.executable, "-m", "treering"], capture_output=True, text=True, timeout=60, check=False)
    assert set(told.stdout.split()) == found
