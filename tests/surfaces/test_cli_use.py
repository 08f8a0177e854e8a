"""Errors and answers of the command line that tell what to do next."""

import re
import shutil
import subprocess
import sys

import pytest
from cli_stage import README, Stage

from treering.surfaces.cli.flags import known_kinds


def test_a_kind_that_there_is_not_lists_all_kinds(stage: Stage) -> None:
    stage.done("init")
    told = stage.run("crystallize", "--kind", "decison", "--title", "x")
    assert told.code == 2
    assert "Did you mean 'decision'?" in told.err
    words = set(re.findall(r"\w+", told.err))
    assert {kind for kinds in known_kinds().values() for kind in kinds} <= words


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
    assert "Cannot read this as an export: id: Field required" in told.err
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
    text = stage.done("search", "what was decided about the SQLite file", "-v").out
    assert f"{hit['object_id']} {hit['segment_id']}" in text
    cited = ["--evidence", f"{hit['object_id']} {hit['segment_id']}"]
    decision = ["--kind", "decision", "--title", "One file", "--question", "Where?", "--outcome", "In one SQLite file"]
    stage.done("crystallize", *decision, *cited)
    pack = stage.done("query", "what was decided about the SQLite file").out
    assert "README.md#L5-L7" in pack
    assert (
        'Decided: One file again (README.md:5-7: "We decided to keep a space in one SQLite file'
        in stage.done("decide", "One file again", "--because", "README.md#L5-L7").out
    )


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("treering query --mode ", {"context", "search", "page", "related", "recent", "expand", "brief"}),
        ("treering query --mode re", {"related", "recent"}),
        ("treering ingest --mode p", {"path"}),
        ("treering lint ", {"all", "structure", "semantic", "repair", "reindex", "audit"}),
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


@pytest.mark.parametrize("mode", ["context", "search", "recent"])
def test_a_scope_in_which_nothing_lies_is_reported(stage: Stage, mode: str) -> None:
    stage.done("ingest", "-", "--scope", "/acme/web", stdin="Releases are cut on Tuesdays.")
    stage.done("ingest", "-", stdin="Releases need two reviews.")
    words = [] if mode == "recent" else ["releases"]
    told = {scope: stage.done("query", "--mode", mode, "--scope", scope, *words) for scope in ("/nope", "/acme", "/")}
    said = "The scope /nope and the scopes below it are empty; these results are from scopes above it."
    assert said in told["/nope"].out + told["/nope"].err
    assert all("are empty; these results" not in told[scope].out + told[scope].err for scope in ("/acme", "/"))


def test_a_folder_that_git_does_not_know_names_the_mode_that_reads_it(stage: Stage) -> None:
    stage.commit({"README.md": README})
    stage.write({"notes/a.md": "# Bees\n\nThey dance.\n"})
    stage.done("init")
    told = stage.run("ingest", "notes")
    assert told.code == 2
    assert "--mode path" in told.err
    assert stage.json("ingest", "notes", "--mode", "path")["counts"]["created"] == 1


@pytest.fixture
def keys(stage: Stage) -> Stage:
    """A space with some notes about keys: of a small one nobody expects that it knows many words."""
    stage.write(
        {f"d/{n}.md": f"# Part {n}\n\nAccess keys of part {n} are kept in capital letters.\n" for n in range(60)}
    )
    stage.done("ingest", "d", "--mode", "path")
    return stage


def test_words_that_are_not_known_are_named_and_those_that_are(keys: Stage) -> None:
    told = " ".join(keys.run("query", "rotate the AWS KMS keys").out.split())
    assert 'No indexed text mentions "rotate", "AWS", "KMS". Known here: "keys".' in told
    assert 'Not known here: "rotate", "AWS", "KMS". Known here: "keys".' in told
    assert 'Not known here: "zorbl", "frobnicate".' in keys.run("query", "zorbl frobnicate").out


def test_an_empty_space_asks_for_sources_instead_of_other_words(stage: Stage) -> None:
    stage.done("init")
    for command in ("search", "ask"):
        told = stage.run(command, "where are cookies parsed").out
        assert "No text is indexed yet. Add sources that mention it: treering add PATH" in told
    assert "treering add PATH" in stage.run("brief").out


def test_weak_hits_are_reported_as_closest_matches(keys: Stage) -> None:
    foreign = keys.json("query", "--mode", "search", "the capital of Mongolia and its oldest monastery")
    assert foreign["hits"]
    assert foreign["warnings"][0] == (
        "No result answers the question; these are the closest matches. "
        'Not known here: "Mongolia", "oldest", "monastery". Known here: "capital".'
    )
    own = keys.json("query", "--mode", "search", "where are access keys kept")
    assert not any(one.startswith("No result answers") for one in own["warnings"])


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["query", "x", "--limit", "-3"], "'--limit': it must be at least 1."),
        (["query", "x", "--limit", "many"], "'--limit': it must be a whole number."),
        (["query", "x", "--option", "limit=-3"], "options.limit: must be at least 1"),
        (["query", "x", "--option", "limit=1000"], "options.limit: must be at most 200"),
        (["init?"], "Did you mean 'init', 'lint'?\n"),
    ],
)
def test_what_is_wrong_is_said_in_plain_words(stage: Stage, words: list[str], said: str) -> None:
    stage.done("init")
    told = stage.run(*words)
    assert told.code == 2
    assert said in told.err


def test_a_rule_of_lint_is_found_in_whatever_mode_it_is(stage: Stage) -> None:
    stage.done("init")
    assert [one["mode"] for one in stage.json("lint", "--rule", "stale")] == ["semantic"]
    assert [one["mode"] for one in stage.json("lint", "--rule", "stale", "--rule", "cycle")] == [
        "structure",
        "semantic",
    ]
    assert "It belongs to mode semantic." in stage.run("lint", "structure", "--rule", "stale").err
    told = stage.run("lint", "--rule", "nope").err
    assert "structure: dangling-reference" in told
    assert "semantic: contradiction" in told
