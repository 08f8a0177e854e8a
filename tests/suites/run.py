"""Run tests of other projects against Treering: `python tests/suites/run.py`, or `… langgraph_store` for one of them.

Each suite is the test folder of a public repository, at a commit. A plugin in `plugins/` puts our class in the place of
theirs, and leaves out the tests about what only theirs has. A test that is known to fail is named with its reason.
`TREERING_BENCH_CLONES` names a folder with clones; without it, they are fetched from GitHub.
"""

import os
import subprocess
import sys
import venv
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
HOME = ROOT / ".venv-frameworks" / "suites"
PATHS = (ROOT / "tests/suites/plugins", ROOT / "tests/surfaces/http")
ENVIRONMENTS = {
    "shared": (
        "anthropic,langgraph,openai-agents,server",
        "aiosqlite",
        "langgraph-checkpoint-postgres",
        "langgraph-checkpoint-sqlite",
        "openai",
        "psycopg[binary,pool]",
        "pycryptodome",
        "pytest",
        "pytest-asyncio",
        "pytest-mock",
        "redis",
        "respx",
        "syrupy",
    ),
    "crewai": ("crewai", "lancedb", "pytest", "qdrant-edge-py"),
    "google_adk": ("google-adk", "pytest", "pytest-asyncio"),
}
"""The extras and packages that the suites need, in the newest versions. CrewAI and Google ADK refuse the others."""


@dataclass(frozen=True)
class Suite:
    """Tests below `folder` of a repository; `known` has the names of those that fail, with the reason.

    `plugin`: another name than that of the suite.
    """

    repository: str
    commit: str
    tests: Sequence[str]
    folder: str = "."
    options: Sequence[str] = ()
    plugin: str = ""
    environment: str = "shared"
    known: Mapping[str, str] = field(default_factory=dict)


LANGGRAPH = ("langchain-ai/langgraph", "f09cfe8ff")
OWN_CONFIG = ("-c", os.devnull, "--rootdir=.")
"""For folders without a pytest configuration; otherwise pytest would use the one of Treering."""
SCORES = "scores are calibrated, not cosines"
OF_SQLITE = "about columns, migrations and SQL of the SQLite store"
TIMED = "compares times of a tenth of a second, which fails on a busy machine"
SUITES = {
    "anthropic_memory": Suite(
        "anthropics/anthropic-sdk-python",
        "009b0353",
        ["tests/lib/tools/memory_tools"],
        options=["--noconftest"],
        known={"test_view_error_for_files_with_too_many_lines": "a file that long is refused when it is created"},
    ),
    "crewai_memory": Suite(
        "crewAIInc/crewAI",
        "f4731f502",
        ["tests/memory"],
        "lib/crewai",
        options=OWN_CONFIG,
        environment="crewai",
        known={"test_touch_records": "reading is not a change: the time of the last access is not stored"},
    ),
    "google_adk_memory": Suite(
        "google/adk-python",
        "3f28e30",
        ["test_in_memory_memory_service.py"],
        "tests/unittests/memory",
        options=[*OWN_CONFIG, "-o", "asyncio_mode=auto"],
        environment="google_adk",
        known={
            "test_add_session_with_no_events_to_memory": "a session without events is not stored",
        },
    ),
    "langgraph_graphs": Suite(
        *LANGGRAPH,
        ["tests"],
        "libs/langgraph",
        known={
            "test_delta_channel_snapshot_version_based": "reads an attribute of the saver in memory",
            "test_imp_nested": "expects an order that 10 ms decide; fails with LangGraph's SQLite saver, too",
            "test_stream_buffering_single_node": TIMED,
            "test_stream_subgraphs_during_execution": TIMED,
            "test_weather_subgraph": "older than the release; fails with LangGraph's own savers, too",
        },
    ),
    "langgraph_agents": Suite(*LANGGRAPH, ["tests"], "libs/prebuilt", plugin="langgraph_graphs"),
    "langgraph_store": Suite(
        *LANGGRAPH,
        ["tests/test_store.py", "tests/test_async_store.py", "tests/test_ttl.py"],
        "libs/checkpoint-sqlite",
        known={
            "test_embed_with_path": SCORES,
            "test_scores": SCORES,
            "test_vector_store_initialization": OF_SQLITE,
            "test_nonnull_migrations": OF_SQLITE,
            "test_sql_injection_vulnerability": "any filter key is allowed: it is no part of a statement",
            "test_filter_keys_with_hyphens_and_digits": "keys with dots are names, as in LangGraph's store in memory",
            "test_no_running_loop": "the blocking methods may be called where a loop runs",
            "test_ttl_sweeper": "there is no thread that sweeps; `sweep_ttl` does it",
            "test_async_ttl_sweeper": "there is no thread that sweeps; `sweep_ttl` does it",
            "test_ttl_override_default": "reading refreshes unless `refresh_on_read` is false, as the interface says",
        },
    ),
    "openai_agents_sessions": Suite(
        "openai/openai-agents-python",
        "7f7a44f8d",
        ["tests/memory/test_session.py", "tests/memory/test_session_limit.py"],
    ),
    "openai_client": Suite(
        "openai/openai-python",
        "e43b4224",
        ["tests/api_resources/chat/test_completions.py", "tests/api_resources/test_models.py"],
        options=["-p", "no:respx"],
    ),
}


def main(names: list[str]) -> int:
    """Run the suites that are named, by default all; return 1 if a test fails without a known reason."""
    unknown = sorted(set(names) - set(SUITES))
    if unknown:
        print(f"Unknown suite: {', '.join(unknown)}. Available: {', '.join(SUITES)}.")  # noqa: T201
        return 2
    chosen = {name: SUITES[name] for name in names or SUITES}
    pythons = {name: installed(name) for name in dict.fromkeys(suite.environment for suite in chosen.values())}
    failed = [name for name, suite in chosen.items() if not passes(name, suite, pythons[suite.environment])]
    print(f"Failed: {', '.join(failed)}" if failed else "All passed.")  # noqa: T201
    return 1 if failed else 0


def installed(environment: str) -> Path:
    """Make an environment of suites, and return its Python."""
    home = HOME / environment
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
    extras, *packages = ENVIRONMENTS[environment]
    command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--upgrade"]
    subprocess.run([*command, "--editable", f"{ROOT}[{extras}]", *packages], check=True)
    return python


def passes(name: str, suite: Suite, python: Path) -> bool:
    """Run a suite, print its score, and return whether every failure is a known one."""
    clone = cloned(suite)
    report = HOME / f"{name}.xml"
    report.unlink(missing_ok=True)
    options = ["-q", "--tb=short", "-W", "ignore", "-o", "markers=flaky: another plugin's mark"]
    command = [
        python,
        "-m",
        "pytest",
        "-p",
        suite.plugin or name,
        *options,
        f"--junitxml={report}",
        *suite.options,
        *suite.tests,
    ]
    place = {"PYTHONPATH": os.pathsep.join(map(str, PATHS)), "NO_DOCKER": "true", "OPENAI_API_KEY": "none"}
    done = subprocess.run(command, cwd=clone / suite.folder, env={**os.environ, **place}, check=False)
    if done.returncode not in (0, 1):
        return False
    cases = [case for case in ElementTree.parse(report).iter("testcase") if case.find("skipped") is None]
    failed = [
        case.get("name", "") for case in cases if case.find("failure") is not None or case.find("error") is not None
    ]
    unexpected = [test for test in failed if test.partition("[")[0] not in suite.known]
    print(f"{name}: {len(cases) - len(failed)} of {len(cases)} pass; unexpected: {', '.join(unexpected) or 'none'}")  # noqa: T201
    return not unexpected


def cloned(suite: Suite) -> Path:
    """Return a work tree with the folder of a suite at its commit."""
    owner, _, name = suite.repository.partition("/")
    tree = HOME / "clones" / name
    clones = os.environ.get("TREERING_BENCH_CLONES")
    source = Path(clones) / f"{owner}+{name}" / "repo" if clones else f"https://github.com/{suite.repository}"
    if not tree.exists():
        subprocess.run(["git", "clone", "--quiet", "--no-checkout", source, tree], check=True)
    subprocess.run(["git", "-C", tree, "checkout", "--quiet", suite.commit, "--", suite.folder], check=True)
    return tree


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
