"""What the command line prints, as a real process prints it: nothing that a terminal would obey."""

import ast
import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import treering
from treering.surfaces.python.logs import VisibleFormatter

STEERING = "\x1b]0;owned\x07 \x9b2J \x7f \u202eabc\u2066 \u2028x\u2029"
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
SOURCES = Path(treering.__file__).parent


def treering_process(folder: Path, *arguments: str, stdin: str = "", **options) -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, "TREERING_SPACE": "sqlite:s.db", "TREERING_BACKGROUND": "0", "PYTHONUTF8": "1"}
    return subprocess.run(
        [sys.executable, "-m", "treering", *arguments],
        cwd=folder,
        env=environment,
        input=stdin.encode(),
        timeout=120,
        check=False,
        **{"capture_output": True, **options},
    )


def on_a_terminal(folder: Path, *arguments: str) -> str:
    """Run with a pseudo-terminal as standard output and error; return what it got."""
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    try:
        treering_process(folder, *arguments, capture_output=False, stdout=theirs, stderr=theirs)
    finally:
        os.close(theirs)
    said = b""
    while True:
        try:
            part = os.read(ours, 65_536)
        except OSError:  # Linux says so at the end
            break
        if not part:
            break
        said += part
    os.close(ours)
    return said.decode()


def obeyed_in(text: str) -> list[str]:
    colours = re.sub(r"\x1b\[[0-9;]*m", "", text)
    return OBEYED.findall(colours.replace("\r\n", "\n"))


@pytest.fixture
def talk(tmp_path):
    """A folder with a discussion whose state document holds what a terminal would obey."""
    said = [{"role": "user", "content": "My name is Ada and I like green tea."}]
    (tmp_path / "chat.json").write_text(json.dumps(said))
    assert treering_process(tmp_path, "discussion", "record", "tea", "chat.json").returncode == 0
    document = f"# State\n\n- Ada likes {STEERING} tea\n"
    assert treering_process(tmp_path, "discussion", "state", "tea", "--edit", "-", stdin=document).returncode == 0
    return tmp_path


@pytest.mark.nightly
def test_a_state_document_cannot_steer_a_terminal(talk):
    shown = on_a_terminal(talk, "discussion", "state", "tea")
    assert "\\x1b]0;owned\\x07" in shown
    assert "\\u202eabc" in shown
    assert not obeyed_in(shown)


@pytest.mark.nightly
def test_a_state_document_in_a_pipe_is_written_out_too(talk):
    shown = treering_process(talk, "discussion", "state", "tea").stdout.decode()
    assert "\\x9b2J" in shown
    assert not obeyed_in(shown)


@pytest.mark.nightly
def test_a_state_document_written_to_a_file_keeps_its_bytes(talk):
    with (talk / "state.md").open("wb") as file:
        treering_process(talk, "discussion", "state", "tea", capture_output=False, stdout=file)
    kept = (talk / "state.md").read_bytes().decode()
    assert "\x1b]0;owned\x07 \x9b2J" in kept
    again = treering_process(talk, "discussion", "state", "tea", "--edit", "state.md").stdout.decode()
    assert again == "Nothing was changed.\n"


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    "arguments",
    [
        (STEERING,),
        ("query", f"--{STEERING}"),
        ("query", "--limit", STEERING, "x"),
        ("query", "--mode", STEERING, "x"),
        ("ingest", STEERING),
        ("review", "show", STEERING),
        ("review", STEERING),
        ("discussion", "show", STEERING),
        ("workflow", "run", STEERING),
        ("workflow", "examples", STEERING),
        ("supervise", STEERING, "--worker", "true", "--script", STEERING),
        ("export", STEERING, "--space", STEERING),
        ("crystallize", "--input", "{" + STEERING),
        ("query", "--option", STEERING, "x"),
        ("serve", "--host", STEERING),
        (STEERING, "--json"),
        ("ingest", STEERING, "--json"),
    ],
    ids=range(17),
)
def test_an_argument_that_is_echoed_cannot_steer_a_terminal(tmp_path, arguments):
    done = treering_process(tmp_path, *arguments)
    assert done.returncode != 0
    assert done.stderr
    assert not obeyed_in(done.stdout.decode() + done.stderr.decode())


def test_json_escapes_what_a_terminal_obeys_and_stays_equal(tmp_path):
    title = f"Tea {STEERING}".replace("\u2028x\u2029", "")
    treering_process(tmp_path, "ingest", "-", "--title", "x", "--origin", "note:tea", stdin=f"{title} is green.")
    answer = treering_process(tmp_path, "query", "--mode", "search", "tea green", "--json").stdout.decode()
    assert not obeyed_in(answer)
    assert "\\u009b2J" in answer
    assert title in json.loads(answer)["hits"][0]["text"]


def test_progress_of_a_workflow_cannot_steer_a_terminal(tmp_path):
    steps = [{"type": "StaticResponse", "title": STEERING, "content": f"a {STEERING} b"}]
    (tmp_path / "flow.json").write_text(json.dumps(steps))
    done = treering_process(tmp_path, "workflow", "run", "flow.json")
    assert done.returncode == 0, done.stderr
    assert not obeyed_in(done.stdout.decode() + done.stderr.decode())


def test_a_line_of_the_log_and_its_traceback_cannot_steer_a_terminal():
    error = ValueError(STEERING)
    record = logging.LogRecord("x", logging.WARNING, "", 1, "%s", (STEERING,), (ValueError, error, None))
    line = VisibleFormatter().format(record)
    assert line.count("\\x1b]0;owned\\x07") == 2
    assert not obeyed_in(line)


def test_the_message_of_an_unforeseen_error_cannot_steer_a_terminal(tmp_path):
    program = (
        "import treering.surfaces.cli as cli\n"
        "import treering.surfaces.cli.commands as commands\n"
        f"def crash(*_, **__): raise RuntimeError({STEERING!r})\n"
        "commands.command_line = lambda first: crash\n"
        "cli.main(['query', 'x'])\n"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=tmp_path, capture_output=True, timeout=60, check=False)
    assert b"RuntimeError" in done.stderr
    assert not obeyed_in(done.stderr.decode())


def test_nothing_else_in_the_package_prints():
    places = {
        f"{path.relative_to(SOURCES).as_posix()}:{ast.unparse(node.func)}"
        for path in SOURCES.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.Call) and _prints(node.func)
    }
    assert sorted(places) == [
        # hooks of coding agents load nothing of the command line; both are cleaned
        "extensions/coding_agents/session_hooks.py:sys.stderr.write",
        "extensions/coding_agents/session_hooks.py:sys.stdout.write",
        "extensions/mcp/listing.py:sys.stdout.write",  # our own listing, for the repository
        "extensions/resident/client.py:sys.stderr.write",  # a sentence of ours alone
        "extensions/sharing/proof_checking.py:sys.stdout.write",  # only where it runs without Treering; cleaned
        "surfaces/cli/help.py:sys.stdout.write",  # our own listing, for the repository
        "surfaces/cli/printing.py:Console",
        "surfaces/cli/printing.py:console.print",
        "surfaces/cli/printing.py:typer.confirm",
        "surfaces/cli/printing.py:typer.echo",
    ]


def _prints(function: ast.expr) -> bool:
    called = ast.unparse(function)
    last = called.rpartition(".")[2]
    if last in {"echo", "secho", "prompt", "print_exc", "Console"} or called == "typer.confirm":
        return True
    return last in {"print", "write"} and called.startswith(("print", "console.", "sys.", "rich."))
