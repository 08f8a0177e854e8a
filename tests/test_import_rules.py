import ast
import sys
import tomllib
from collections import defaultdict
from pathlib import Path

ROOT = Path(__file__).parents[1]
COMPUTING = {"Stemmer", "numpy", "pydantic", "pydantic_core"}
"""Packages that only compute, which every layer may use."""


def test_every_package_that_is_imported_only_computes_or_is_kept_to_the_edges():
    kept = set(contract("Drivers and file formats stay at the edges")["forbidden_modules"])
    modules = [path for path in (ROOT / "src").rglob("*.py") if "testing" not in path.parts]
    imported = {name for path in modules for name in imports(path)}
    assert "apsw" in imported
    assert imported - sys.stdlib_module_names - {"treering"} - COMPUTING <= kept


def test_no_two_public_classes_have_the_same_name():
    homes = defaultdict(list)
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                homes[node.name].append(str(path.relative_to(ROOT)))
    assert len(homes) > 500
    assert {name: found for name, found in homes.items() if len(found) > 1} == {}


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
