"""What shells complete: commands, paths, titles and ids, also in real shells."""

import shutil
import subprocess
import sys

import pytest

from treering.surfaces.cli.completing import SCRIPTS

FILLED = {"complete_func": "_complete", "prog_name": "treering", "autocomplete_var": "_TREERING_COMPLETE"}


@pytest.fixture
def acme(stage, monkeypatch):
    monkeypatch.setenv("TREERING_BACKGROUND", "0")
    stage.write({"README.md": "# Acme\n", "src/retry.py": "LIMIT = 3\n", "a b.md": "# Two words\n"})
    stage.done("init")
    return stage


def rows(acme, line):
    """Return the candidates for a line as scripts get them: words, and descriptions behind a tab."""
    with acme.monkeypatch.context() as patch:
        patch.setenv("_TREERING_COMPLETE", "rows")
        patch.setenv("_TYPER_COMPLETE_ARGS", f"treering {line}")
        return dict(one.split("\t") if "\t" in one else (one, "") for one in acme.done().out.splitlines())


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("sho", "show"),
        ("decide x --bec", "--because"),
        ("decide x --because src/r", "src/retry.py"),
        ("show sr", "src/"),
        ("log READ", "README.md"),
        ("query --mode exp", "expand"),
    ],
)
def test_words_are_completed(acme, line, word):
    assert list(rows(acme, line)) == [word]


def test_titles_are_completed_without_case(acme):
    acme.done("decide", "Retries are bounded")
    acme.done("task", "Write the docs")
    assert rows(acme, "replace retr") == {"retries are bounded": "decision, active"}
    assert rows(acme, "show Wri") == {"Write the docs": "task, open"}
    assert rows(acme, "done Retr") == {}


def test_ids_are_completed_with_their_titles(acme):
    work = next(one for one in acme.json("task", "Write the docs")["ids"] if one.startswith("work:"))
    assert rows(acme, "done ") == {f"work:…{work[-7:]}": "Write the docs (task)"}
    assert rows(acme, f"done {work[:20]}") == {work: "Write the docs (task)"}


def test_resolved_and_replaced_items_are_not_completed(acme):
    acme.done("task", "Write the docs")
    acme.done("done", "Write the")
    acme.done("decide", "Three retries")
    acme.done("replace", "Three retries", "Five retries")
    assert rows(acme, "done Wri") == rows(acme, "show Three") == {}


def test_nothing_is_completed_without_a_space(stage):
    assert rows(stage, "done ") == {}


def test_titles_are_not_given_to_scripts_that_evaluate_them(acme):
    acme.done("decide", "$(touch stolen)")
    acme.monkeypatch.setenv("_TREERING_COMPLETE", "complete_bash")
    acme.monkeypatch.setenv("COMP_WORDS", "treering replace $")
    acme.monkeypatch.setenv("COMP_CWORD", "2")
    with pytest.raises(SystemExit):
        acme.run()
    assert "stolen" not in acme.capsys.readouterr().out


@pytest.mark.parametrize("shell", SCRIPTS)
def test_scripts_are_valid(shell, tmp_path):
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    (tmp_path / "script").write_text(SCRIPTS[shell] % FILLED)
    subprocess.run([program, "-n", str(tmp_path / "script")], check=True)


@pytest.mark.skipif(shutil.which("bash") is None, reason="bash is not installed")
@pytest.mark.parametrize(
    ("words", "reply"),
    [
        (["replace", "retr"], [r"retries\ \$\(touch\ stolen\)"]),
        (["replace", '"retr'], ["retries $(touch stolen)"]),
        (["show", "src/r"], ["src/retry.py"]),
        (["ingest", "src/r"], []),  # bash itself completes files
    ],
)
def test_bash_completes(acme, words, reply):
    acme.done("decide", "Retries $(touch stolen)")
    program = acme.folder / "treering-here"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m treering "$@"\n')
    program.chmod(0o755)
    line = " ".join(["treering", *words])
    script = f"""{SCRIPTS["bash"] % FILLED}
        COMP_LINE='{line}' COMP_POINT={len(line)} COMP_TYPE=9 COMP_CWORD={len(words)}
        COMP_WORDS=(treering {" ".join(f"'{one}'" for one in words)})
        _complete "{program}"
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    ran = subprocess.run(["bash", "-c", script], cwd=acme.folder, capture_output=True, text=True, check=True)
    assert [one for one in ran.stdout.splitlines() if one] == reply
    assert not (acme.folder / "stolen").exists()
