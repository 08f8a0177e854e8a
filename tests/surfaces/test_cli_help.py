import os
import re
import subprocess
import sys
from functools import partial
from importlib import resources
from pathlib import Path

import pytest
import typer
from cli_stage import Stage

from treering.surfaces.cli import run
from treering.surfaces.cli.commands import command_line
from treering.surfaces.cli.help import command_groups, examples, rendered_modes
from treering.verbs.catalog import TOOLS

GOLDEN = Path(__file__).parent / "golden"
COMMANDS = ["", "review", "workflow", "discussion", "postgres", *examples()]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_each_command_reads_as_it_was_approved(stage: Stage, command: str) -> None:
    told = stage.done(*command.split(), "--help")
    path = GOLDEN / f"help{'-' if command else ''}{command.replace(' ', '-')}.txt"
    if os.environ.get("REWRITE_GOLDEN"):
        path.write_text(told.out, encoding="utf-8")
    approved = path.read_text(encoding="utf-8") if path.exists() else ""
    assert told.out == approved, f"If this is meant, run this test with REWRITE_GOLDEN=1 to write {path.name}."


@pytest.mark.sampled(12)
@pytest.mark.parametrize("command", COMMANDS)
def test_help_fits_80_columns(stage: Stage, command: str) -> None:
    told = stage.done(*command.split(), "--help")
    help_text = told.out.partition("Examples:")[0]
    assert max(map(len, help_text.splitlines())) <= 80


@pytest.mark.parametrize("verb", TOOLS)
def test_the_help_of_a_verb_names_every_mode_of_the_catalogue(stage: Stage, verb: str) -> None:
    text = " ".join(stage.done(verb, "--help").out.split())
    for mode in TOOLS[verb].modes.values():
        assert f"{mode.name} {mode.summary}" in text


def test_every_example_is_a_command_line_that_exists(stage: Stage) -> None:
    flags: dict[str, str] = {name: stage.done(*name.split(), "--help").out for name in examples()}
    for name, lines in examples().items():
        for _, example in lines:
            for flag in re.findall(r"--[a-z-]+", example):
                known = "".join(flags.values()) if "&&" in example else flags[name]
                assert flag in known, example


def test_every_command_is_in_one_help_group(stage: Stage) -> None:
    grouped = [name for names in command_groups().values() for name in names]
    hint = "Name each command once in `_GROUPS` of surfaces/cli/help.py, or in the `HELP` of its extension."
    assert sorted(grouped) == sorted(typer.main.get_command(command_line()).commands), hint
    told = stage.done("--help").out
    assert all(f"{title}:\n" in told or f"\n  {title}  " in told for title in command_groups())


def test_without_a_command_the_help_is_shown(stage: Stage) -> None:
    assert stage.done().out == stage.done("--help").out


def test_the_version_is_a_command_and_a_flag(stage: Stage) -> None:
    assert stage.done("version").out == stage.done("--version").out


def test_the_modes_that_the_help_tells_are_those_of_the_catalogue() -> None:
    shipped = resources.files("treering.surfaces.cli").joinpath("modes.json").read_text(encoding="utf-8")
    again = "render it anew: python -m treering.surfaces.cli.help > src/…/cli/modes.json"
    assert shipped == rendered_modes(), again


@pytest.mark.parametrize("arguments", [("--help",), ("version",), ("--version",)])
def test_asking_for_help_loads_nothing_heavy(arguments: tuple[str, ...]) -> None:
    program = (
        "import sys; from treering.surfaces.cli import run; run(sys.argv[1:]);"
        "print(sorted({'numpy', 'pydantic', 'tree_sitter', 'onnxruntime', 'mcp', 'apsw', 'scipy', 'importlib.metadata'}"
        " & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]", "Import these in the functions of the commands, not in their module."


@pytest.mark.parametrize("verb", TOOLS)
def test_the_help_of_a_verb_loads_no_tools(verb: str) -> None:
    program = (
        "import sys; from treering.surfaces.cli import run; run(sys.argv[1:]);"
        "print(sorted({'numpy', 'apsw', 'tree_sitter', 'treering.verbs.catalog'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program, verb, "--help"], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


FEATURES = tuple(
    f"treering.extensions.{name}."
    for name in "checks client coding_agents discussions exams mcp projects server sharing wiki workflows".split()
)


@pytest.mark.parametrize("argument", ["version", "--version"])
def test_the_version_is_reported_without_loading_the_commands(argument: str) -> None:
    program = (
        "import sys; from treering.surfaces.cli import run; run(sys.argv[1:]);"
        "places = ('treering.surfaces.cli.commands', 'treering.extensions.');"
        "print([name for name in sys.modules if name.startswith(places)])"
    )
    done = subprocess.run([sys.executable, "-c", program, argument], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


def test_asking_a_space_loads_no_discussions_and_nothing_that_draws_bars(tmp_path: Path) -> None:
    program = (
        "import sys; from treering.surfaces.cli import run; run(sys.argv[1:]);"
        "print([name for name in sys.modules if name.startswith('rich.progress')"
        f" or name.startswith({FEATURES!r}) and not name.endswith(('.commands', '.extension'))])"
    )
    space = ["--space", f"sqlite:{tmp_path / 'space.db'}"]
    for arguments in (["init", *space], ["query", "--mode", "search", *space, "bees"]):
        done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


NOT_FOR_QUESTIONS = (
    "treering.verbs.crystallize",
    "treering.verbs.ingest",
    "treering.verbs.lint",
    "treering.core.secrets",
    "treering.surfaces.cli.rendering_changes",
    *FEATURES,
    "treering.extensions.code.parsing",
    "treering.extensions.code.repository",
    "treering.extensions.engines.host",
    "asyncio",
    "numpy.ma.",
    "onnxruntime",
    "tokenizers",
)


@pytest.mark.parametrize("mode", ["search", "context"])
def test_asking_a_space_loads_nothing_that_writes_checks_or_serves(tmp_path: Path, mode: str) -> None:
    program = (
        "import sys; from treering.surfaces.cli import run; run(sys.argv[1:]);"
        f"print(sorted(name for name in sys.modules if name.startswith({NOT_FOR_QUESTIONS!r})"
        " and not name.endswith('.extension')))"
    )
    space = ["--space", f"sqlite:{tmp_path / 'space.db'}"]
    environment = {**os.environ, "TREERING_EMBEDDER": "static"}
    note = ["ingest", "-", *space, "--no-background"]
    process = partial(subprocess.run, capture_output=True, text=True, check=True, env=environment)
    process([sys.executable, "-m", "treering", *note], input="Ada Lovelace met Charles Babbage in London.")
    done = process([sys.executable, "-c", program, "query", "--mode", mode, *space, "Who met Ada Lovelace?"])
    assert "Babbage" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_every_mode_is_where_the_catalogue_says_and_has_its_name() -> None:
    named = {(tool.name, name): mode.name for tool in TOOLS.values() for name, mode in tool.modes.items()}
    assert all(name == told for (_, name), told in named.items())


def test_a_verb_takes_no_other_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert [*typer.main.get_command(command_line("query")).commands] == ["ingest", "query", "crystallize", "lint"]
    assert run(["query", "--no-such-flag"]) == 2
    assert "--no-such-flag" in capsys.readouterr().err


NOT_FOR_WRITING = (
    "treering.verbs.lint",
    "treering.verbs.query.context",
    "treering.retrieval.packing",
    "treering.retrieval.search.relevance",
    "treering.extensions.sharing.merging",
    "treering.extensions.sharing.sync",
    "treering.surfaces.cli.rendering_queries",
)


@pytest.mark.parametrize(
    "command", [("decide", "Use SQLite", "--no-background"), ("ingest", "notes.md", "--no-background"), ("hook", "run")]
)
def test_writing_loads_nothing_that_answers_or_checks(tmp_path: Path, command: tuple[str, ...]) -> None:
    program = (
        "import sys; from treering.surfaces.cli import run; run(sys.argv[1:]);"
        f"print(sorted(name for name in sys.modules if name.startswith({NOT_FOR_WRITING!r})"
        " and not name.endswith('.extension')))"
    )
    address = f"sqlite:{tmp_path / 'space.db'}"
    environment = {**os.environ, "TREERING_EMBEDDER": "static", "TREERING_SPACE": address}
    process = partial(subprocess.run, cwd=tmp_path, capture_output=True, text=True, check=True, env=environment)
    (tmp_path / "notes.md").write_text("Ada Lovelace met Charles Babbage in London.")
    process(["git", "init", "--quiet"])
    process([sys.executable, "-m", "treering", "init", "--space", address])
    done = process([sys.executable, "-c", program, *command])
    assert done.stdout.splitlines()[-1] == "[]"
