"""Only one function starts git, and every other program is started at a known place."""

import ast
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from attacks.hostile_remotes import shipped_cache
from attacks.hostile_repositories import TRAPS, repository, trap

import treering
from treering.sources.git.process import hooks_folder
from treering.system import git_start

SOURCE = Path(treering.__file__).parent
STARTS = {
    "Popen run call check_call check_output getoutput getstatusoutput": "subprocess",
    "system popen startfile posix_spawn posix_spawnp fork forkpty": "os",
    "create_subprocess_exec create_subprocess_shell subprocess_exec subprocess_shell": "asyncio",
}
KNOWN = {
    "system/git_start.py start_git": "git",
    "system/machine.py start_behind": "Treering itself",
    "extensions/resident/client.py start_resident": "Treering itself",
    "extensions/resident/process.py _fork": "Treering itself",
    "extensions/resident/process.py _start_encoder": "Treering itself",
    "sources/reading/bounded_process.py _started": "Treering itself",
    "extensions/projects/shell_worker.py _start": "what the user configured",
    "surfaces/cli/printing.py page": "the pager of the user",
    "extensions/sharing/proof.py signed": "ssh-keygen",
    "extensions/sharing/proof_checking.py check_signature": "ssh-keygen",
}
"""Every place that starts a program, and which. Another one that starts git is a mistake, whatever it is called."""
MAY_START = re.compile(rb"subprocess|\bos\b|asyncio")
GIT_LIBRARIES = re.compile(rb"^\s*(?:from|import) (?:git|pygit2|dulwich|sh|plumbum|pexpect|pty)\b", re.MULTILINE)


def starts(tree: ast.Module) -> Iterator[str]:
    """Yield the functions that start a program, or name what does under another name."""
    names = {name: module for known, module in STARTS.items() for name in known.split()}
    for function in [tree, *(one for one in ast.walk(tree) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef))]:
        for node in own_nodes(function):
            match node:
                case ast.Attribute(value=ast.Name(id="os"), attr=name):
                    is_start = name.startswith(("exec", "spawn")) or names.get(name) == "os"
                case ast.Attribute(value=ast.Name(id=module), attr=name):
                    is_start = names.get(name) == module or names.get(name) == "asyncio"
                case ast.ImportFrom(module=module, names=imported):
                    is_start = any(names.get(one.name) == module for one in imported)
                case ast.Import(names=imported):
                    is_start = any(one.name in ("subprocess", "os", "asyncio") and one.asname for one in imported)
                case _:
                    is_start = False
            if is_start:
                yield getattr(function, "name", "")


def own_nodes(function: ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.AST]:
    """Yield what is in a function, without the functions in it and without annotations."""
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        yield node
        inner = ast.iter_child_nodes(node)
        waiting += [one for one in inner if one is not getattr(node, "annotation", None)]


def found_in(path: Path) -> set[str]:
    text = path.read_bytes()
    if not MAY_START.search(text):
        return set()
    return {f"{path.relative_to(SOURCE).as_posix()} {name}" for name in starts(ast.parse(text))}


def test_every_start_of_a_program_is_known() -> None:
    assert {one for path in SOURCE.rglob("*.py") for one in found_in(path)} == set(KNOWN)


def test_no_library_that_runs_git_is_imported() -> None:
    for path in SOURCE.rglob("*.py"):
        assert not GIT_LIBRARIES.search(path.read_bytes()), path


@pytest.mark.parametrize(
    "code",
    [
        "def f():\n    subprocess.run(['git', 'status'])",
        "def f():\n    start = subprocess.Popen\n    start('git status', shell=True)",
        "from subprocess import check_output as ask\nask(['git'])",
        "import subprocess as s\ns.call(['git'])",
        "async def f():\n    await asyncio.create_subprocess_exec('git')",
        "def f():\n    os.execvp('git', ['git'])",
        "class A:\n    def f(self):\n        os.system('git status')",
    ],
)
def test_a_start_under_another_name_is_found(code: str) -> None:
    assert [*starts(ast.parse(code))]


def test_git_of_a_relative_folder_is_not_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "git").write_text("#!/bin/sh\ntouch ran\n")
    (tmp_path / "git").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", f".{os.pathsep}{os.pathsep}bin")
    with pytest.raises(FileNotFoundError):
        git_start.start_git(["--version"], git_start.isolated_environment(), tmp_path)


@pytest.mark.parametrize("name", ["GIT_DIR", "GIT_CONFIG_PARAMETERS", "GIT_EXEC_PATH", "GIT_ALLOW_PROTOCOL"])
def test_variables_that_lead_git_elsewhere_are_omitted(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "/elsewhere")
    for environment in (git_start.isolated_environment(), git_start.user_environment(), git_start.remote_environment()):
        assert environment.get(name) != "/elsewhere"


@pytest.mark.parametrize("way", ["a monitor of the file system", "a pager and aliases", "an included configuration"])
def test_asking_for_the_folder_of_hooks_runs_nothing(way: str, tmp_path: Path) -> None:
    made = trap(tmp_path / "trap", TRAPS[way])
    assert hooks_folder(made.folder) == made.folder / ".git" / "hooks"
    assert not made.sprung


def test_asking_for_the_folder_of_hooks_reaches_no_remote(tmp_path: Path) -> None:
    web = repository(tmp_path / "web")
    shipped_cache(tmp_path / "cache", tmp_path / "ran")
    with (web / ".git" / "config").open("a") as config:
        config.write((tmp_path / "cache" / "config").read_text())
    assert hooks_folder(web) == tmp_path / "cache" / "hooks"
    assert not (tmp_path / "ran").exists()
