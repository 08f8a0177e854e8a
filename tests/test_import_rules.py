import ast
import subprocess
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGE = ROOT / "src" / "treering"
COMPUTING = {"Stemmer", "numpy", "pydantic", "pydantic_core"}
"""Packages that only compute, which every layer may use."""
OPENS = set("read_text read_bytes write_text write_bytes iterdir glob rglob scandir listdir fdopen".split())
"""Methods that reach the file system. `open` of an object is not among them: a discussion is opened, too."""


def test_every_package_that_is_imported_only_computes_or_is_kept_to_the_edges():
    kept = set(contract("Drivers and file formats stay at the edges")["forbidden_modules"])
    modules = [path for path in (ROOT / "src").rglob("*.py") if "testing" not in path.parts]
    imported = {name for path in modules for name in imports(path)}
    assert "apsw" in imported
    assert imported - sys.stdlib_module_names - {"treering"} - COMPUTING <= kept


def test_no_two_public_classes_have_the_same_name():
    homes = defaultdict(list)
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(ROOT)))
    assert len(homes) > 500
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


def test_what_is_below_the_edges_opens_no_file():
    """A mode gets the paths that `Call.files` allows; one that opened a name of its own would be asked by nobody."""
    layers = ("core", "ports", "retrieval", "verbs")
    modules = [path for layer in layers for path in (ROOT / "src" / "treering" / layer).rglob("*.py")]
    assert len(modules) > 80
    opening = [f"{path.relative_to(ROOT)}:{line}" for path in modules for line in openings(path)]
    assert opening == []


def test_recording_a_decision_needs_little_beside_core_and_ports():
    modules = [
        path for path in closure("treering.verbs.crystallize.knowledge") if path.parts[0] not in ("core", "ports")
    ]
    assert len(modules) > 10
    assert {path.as_posix() for path in modules if path.parts[0] != "verbs"} <= {"retrieval/text/time_zones.py"}
    assert len(modules) <= 25
    assert sum(len((PACKAGE / path).read_text(encoding="utf-8").splitlines()) for path in modules) <= 5_000


def closure(module):
    """Return the files of our package that a module imports when it is loaded, and those that these import."""
    seen, pending = set(), [module]
    while pending:
        path = Path(*pending.pop().split(".")[1:]).with_suffix(".py")
        if path.suffix and path not in seen and (PACKAGE / path).is_file():
            seen.add(path)
            pending += ours_at_load(ast.parse((PACKAGE / path).read_text(encoding="utf-8")))
    return seen


def ours_at_load(node):
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.FunctionDef() | ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("treering."):
                yield module
                yield from (f"{module}.{alias.name}" for alias in names)
            case _:
                yield from ours_at_load(child)


def openings(path):
    """Return the lines of a module that open a file, or list a folder."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Call(func=ast.Name(id="open" | "Path")):
                yield node.lineno
            case ast.Call(func=ast.Attribute(attr=name)) if name in OPENS:
                yield node.lineno


def contract(name):
    rules = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    [found] = [rule for rule in rules if rule["name"] == name]
    return found


def imports(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        match node:
            case ast.Import(names):
                yield from (alias.name.partition(".")[0] for alias in names)
            case ast.ImportFrom(module=str(module)):
                yield module.partition(".")[0]


@pytest.mark.parametrize("which", [[], pytest.param(["all"], marks=pytest.mark.nightly)], ids=["ours", "all"])
def test_every_module_is_imported_and_a_space_is_used_without_what_windows_lacks(which, tmp_path):
    program = Path(__file__).with_name("as_windows.py")
    done = subprocess.run([sys.executable, program, *which], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.returncode == 0, done.stderr
    assert "Acme retries three times." in done.stdout
