"""Test the adapters to frameworks that `dev` leaves out: `python tests/run_frameworks.py`, or `… llama_index strands`.

Each framework has an environment of its own below `.venv-frameworks`, because some are large and some want versions
that others refuse. Run there: the tests of the adapter, its how-to page, the facade, and those of the protocol for
agents, whose library is of an older release beside some frameworks.
"""

import subprocess
import sys
import tomllib
import venv
from pathlib import Path

from treering.frameworks import FRAMEWORKS

_ROOT = Path(__file__).parents[1]
_HOME = _ROOT / ".venv-frameworks"
_TOOLS = ("hypothesis", "pytest")
"""What the tests of adapters need besides; in the versions that `dev` names. Those of the pages need `server`, too."""


def main(names: list[str]) -> int:
    """Test the frameworks that are named, by default those that `dev` leaves out; return 1 where a test failed."""
    unknown = sorted(set(names) - set(FRAMEWORKS))
    if unknown:
        print(f"No framework is called {', '.join(unknown)}. There are: {', '.join(FRAMEWORKS)}.")  # noqa: T201
        return 2
    failed = [name for name in names or _left_out() if not _passes(name)]
    print(f"Failed: {', '.join(failed)}" if failed else "All passed.")  # noqa: T201
    return 1 if failed else 0


def _left_out() -> list[str]:
    """Return the frameworks whose extras are not among those of `dev`."""
    own, *_ = _extras()["dev"]
    installed = set(own.partition("[")[2].rstrip("]").split(","))
    return [name for name, framework in FRAMEWORKS.items() if framework.extra not in installed]


def _extras() -> dict[str, list[str]]:
    project = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    extras: dict[str, list[str]] = project["optional-dependencies"]
    return extras


def _passes(name: str) -> bool:
    framework, home = FRAMEWORKS[name], _HOME / name
    python = home / "bin" / "python"
    print(f"{framework.title}: {home}", flush=True)  # noqa: T201
    if not python.exists():
        venv.create(home, with_pip=True)
    tools = [one for one in _extras()["dev"] if one.startswith(_TOOLS) and not one.startswith("pytest-")]
    install = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wanted = ["--editable", f".[{framework.extra},server]", *tools]
    if subprocess.run([python, *install, *wanted], cwd=_ROOT, check=False).returncode:
        print(f"{framework.title} could not be installed; its adapter is not tested.", flush=True)  # noqa: T201
        return False
    all_of_them = ["-p", "no:cacheprovider", "-m", "not torture", "--hypothesis-profile=full"]
    done = subprocess.run([python, "-m", "pytest", *all_of_them, *_tests(name)], cwd=_ROOT, check=False)
    return done.returncode == 0


def _tests(name: str) -> list[str]:
    tests = sorted((_ROOT / "tests/frameworks").glob(f"test_{name}*.py"))
    imported = f"from treering.{name} import"
    pages = [page for page in (_ROOT / "docs/frameworks").glob("*.md") if imported in page.read_text(encoding="utf-8")]
    shown = [f"tests/docs/test_docs.py::test_what_a_page_shows_is_what_happens[{_named(page)}]" for page in pages]
    return [*map(_named, tests), *shown, "tests/surfaces/http/test_mcp_messages.py"]


def _named(path: Path) -> str:
    return str(path.relative_to(_ROOT))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
