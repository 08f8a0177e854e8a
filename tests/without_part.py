"""Use Treering without one of its parts, in this process: `python without_part.py PART FOLDER`.

The part is not in the table, and nothing of its package can be imported. Prints what was seen, as JSON.
"""

import io
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from contextlib import redirect_stderr, redirect_stdout
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

README = """\
# Acme

Acme retries three times.
"""
MESSAGES = [{"role": "user", "content": "The lamp costs 20 euros."}, {"role": "assistant", "content": "Noted."}]
FILES = {
    "README.md": README,
    "acme.py": "RETRIES = 3\n\n\ndef retries():\n    return RETRIES\n",
    "tickets.yaml": "- title: Document the cache\n",
    "script.yaml": "- complete: false\n  next_prompt: Write\n- complete: true\n  summary: Done\n",
    "flow.yaml": "- type: StaticResponse\n  content: Hello\n",
    "messages.json": json.dumps(MESSAGES),
    "questions.yaml": "- ask: How often does acme retry?\n  must: [README.md]\n",
}
COMMANDS = {
    "supervise": "supervise tickets.yaml --worker true --script script.yaml --no-memory",
    "discussion record": "discussion record lamp messages.json",
    "discussion search": "discussion search lamp euros",
    "exam run": "exam run --exam questions.yaml --no-keep",
    "wiki build": "wiki build",
    "wiki status": "wiki status",
    "workflow run": "workflow run flow.yaml",
    "workflow run on messages": "workflow run flow.yaml --messages messages.json",
    "sync": "sync ./shared",
    "export": "export files",
    "query --proof": "query retries --proof answer.proof",
    "hook install": "hook install",
    "hook install --sync": "hook install --sync ./shared",
    "connect": "connect claude-code --print",
    "session keep": "session keep --now messages.json",
}
"""Commands that parts bring: a line of each that does something."""


class Missing(MetaPathFinder):
    """Finds nothing of a package, and notes what was asked for."""

    def __init__(self, package: str) -> None:
        self.package = package
        self.asked: list[str] = []

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,
    ) -> ModuleSpec | None:
        if fullname == self.package or fullname.startswith(f"{self.package}."):
            self.asked.append(fullname)
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def told(arguments: Sequence[str]) -> dict[str, Any]:
    """Run a command: its exit code and what it says."""
    from treering.surfaces.cli import run

    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(arguments)
    return {"code": code, "out": out.getvalue(), "err": err.getvalue()}


def over_http() -> dict[str, Any]:
    """Ask a server: its health, a query, the start page and the contract."""
    from starlette.testclient import TestClient

    from treering.extensions.server.app import Serving, build_app

    space = f"sqlite:{Path.cwd() / '.treering' / 'treering.db'}"
    app = build_app(Serving(space=space, background=False))
    with TestClient(app, base_url="http://127.0.0.1:8420") as client:
        query = client.post("/v1/wiki/query", json={"mode": "search", "input": {"query": "retries"}})
        home, contract = client.get("/"), client.get("/openapi.json")
        return {
            "health": client.get("/healthz").status_code,
            "query": [query.status_code, query.text],
            "home": [home.status_code, home.text],
            "openapi": [contract.status_code, sorted(contract.json()["paths"])],
        }


def use_without(part: str) -> dict[str, Any]:
    """Take a part out, and use the rest."""
    from treering.registry import EXTENSIONS, extensions

    missing = Missing(f"treering.extensions.{part}")
    sys.meta_path.insert(0, missing)
    assert part not in EXTENSIONS.built_in
    missing.asked.clear()
    seen: dict[str, Any] = {"parts": [one.name for one in extensions()], "help": told(["--help"])}
    for line in (
        "init",
        "ingest . --worktree",
        "query --mode search retries",
        "crystallize --kind fact --title Retries --subject acme --predicate retries --value 3",
        "lint",
    ):
        seen[line.split()[0]] = told(line.split())
    from treering.extensions.mcp.listing import tool_listing

    seen["tools"] = [tool["name"] for tool in tool_listing()]
    seen["http"] = over_http()
    import treering
    from treering.verbs.catalog import TOOLS

    seen["verbs"], seen["names"] = [*TOOLS], len(treering.__all__)
    seen["asked_for_the_part"] = [*missing.asked]
    seen["commands"] = {name: told(line.split()) for name, line in COMMANDS.items()}
    seen["client"] = _remembers()
    return seen


def _remembers() -> bool:
    try:
        from treering.client import BlockingMemoryClient, MemoryConfig
    except ImportError:
        return False
    with BlockingMemoryClient(MemoryConfig(backend="in_memory")) as client:
        client.store("The lamp costs 20 euros.", {})
        return bool(client.retrieve("lamp", top_k=1))


def main() -> None:
    """Make a small repository in the folder, and tell what was seen there."""
    part, folder = sys.argv[1], Path(sys.argv[2])
    os.chdir(folder)
    os.environ |= {"TREERING_BACKGROUND": "0", "TREERING_DATA_DIR": str(folder / "data")}
    for name, text in FILES.items():
        (folder / name).write_text(text)
    subprocess.run(["git", "init", "--quiet"], check=True)
    subprocess.run(["git", "add", "--all"], check=True)
    who = ["-c", "user.name=Ada", "-c", "user.email=ada@example.org"]
    subprocess.run(["git", *who, "commit", "--quiet", "-m", "First"], check=True)
    sys.stdout.write(json.dumps(use_without(part)) + "\n")


if __name__ == "__main__":
    main()
