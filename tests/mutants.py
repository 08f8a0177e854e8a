"""Test the mutants of modules: `python tests/mutants.py core/scope.py verbs/envelope.py`.

mutmut changes each module in small ways and runs the tests that reach what was changed. It is told of these modules
and of the tests that decide about them alone, in a copy of the repository that is made anew (`mutants/`): told of
everything, it takes an hour before it begins, and it keeps files of an earlier copy. What lives is listed at the end,
and `mutmut show NAME` in `mutants/` shows it.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_COPY = _ROOT / "mutants"
_PACKAGE = "src/treering"
_HEADER = "[tool.mutmut]\n"

_STORES = "tests/stores"
_LEDGER = f"{_STORES}/test_memory_ledger.py"
_REST = "tests/surfaces/http"
_SCOPED_VERBS = "tests/verbs/test_scoped_verbs.py"
_DECIDING = {
    "core": ("tests/core", _LEDGER),
    "retrieval": ("tests/retrieval", "tests/toy_store/test_toy_store.py", "tests/verbs/test_query.py"),
    "ports": (_LEDGER, "tests/toy_store/test_toy_store.py"),
    **dict.fromkeys(
        ("extensions/server/confined_ledger.py", "verbs/scoped_ledger.py"), (_SCOPED_VERBS, f"{_REST}/test_keys.py")
    ),
    "verbs/envelope.py": ("tests/surfaces/test_rights.py", "tests/verbs"),
    "verbs/lint/erasure.py": ("tests/verbs/test_erasure.py",),
    "verbs": ("tests/verbs",),
    "stores/sqlite": tuple(
        f"{_STORES}/test_sqlite_{name}.py"
        for name in ("ledger", "index", "index_contract", "reading", "vectors", "graph", "days", "leases")
    ),
    "surfaces/http": tuple(
        f"{_REST}/test_{name}.py" for name in ("keys", "key_limits", "keys_of_routes", "sign_in", "mcp_over_http")
    ),
}
"""By module or folder: the tests that decide, without those that start processes or break files."""


def main(modules: list[str]) -> int:
    """Test the mutants of modules, named by their paths in the package; 1 where any lives."""
    wrong = [module for module in modules if not (_ROOT / _PACKAGE / module).is_file()]
    if wrong or not modules:
        raise SystemExit(f"Name modules by their paths in {_PACKAGE}, such as core/scope.py, got {wrong or 'none'}.")
    shutil.rmtree(_COPY, ignore_errors=True)
    for folder in ("src", "tests"):
        shutil.copytree(_ROOT / folder, _COPY / folder, ignore=shutil.ignore_patterns("__pycache__"))
    tests = list(dict.fromkeys(test for module in modules for test in _tests_of(module)))
    (_COPY / "pyproject.toml").write_text(_configuration(modules, tests), encoding="utf-8")
    ended = _mutmut("run", "--max-children", os.environ.get("MUTANTS_AT_ONCE", "1"))
    if ended.returncode:
        return ended.returncode
    listed = _mutmut("results", kept=True).stdout
    sys.stdout.write(listed or "None lives.\n")
    return 1 if listed else 0


def _tests_of(module: str) -> tuple[str, ...]:
    folder = next((one for one in _DECIDING if module == one or module.startswith(f"{one}/")), None)
    if folder is None:
        raise SystemExit(f"No tests are named for {module}: add its folder to {Path(__file__).name}.")
    own = sorted((_ROOT / "tests").rglob(f"test_{Path(module).stem}.py"))
    return (*_DECIDING[folder], *(str(path.relative_to(_ROOT)) for path in own))


def _configuration(modules: list[str], tests: list[str]) -> str:
    """Return the configuration of pytest as it is, and what mutmut is to change and to run."""
    written = (_ROOT / "pyproject.toml").read_text(encoding="utf-8")
    before, header, after = written.partition(_HEADER)
    if not header:
        raise SystemExit(f"pyproject.toml has no line {_HEADER.strip()}.")
    chosen = {
        "only_mutate": [f"{_PACKAGE}/{module}" for module in modules],
        "pytest_add_cli_args_test_selection": tests,
    }
    return before + header + "".join(f"{name} = {value!r}\n" for name, value in chosen.items()) + after


def _mutmut(*arguments: str, kept: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mutmut", *arguments]
    return subprocess.run(command, cwd=_COPY, check=False, text=True, stdout=subprocess.PIPE if kept else None)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
