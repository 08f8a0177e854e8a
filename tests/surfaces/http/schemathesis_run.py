"""Schemathesis against a running server, all phases. For a long run by hand:

python tests/surfaces/http/schemathesis_run.py --max-examples 300 --seed 7
"""

import subprocess
import sys
import tempfile
from pathlib import Path

from rest_parts import running

CONFIG = Path(__file__).with_name("schemathesis.toml")


def check(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Check a server over an empty folder; what was found is in the output, and the exit code is 0 for nothing."""
    files = folder / "files"
    files.mkdir()
    (files / "notes.md").write_text("Releases are cut on Tuesdays.", encoding="utf-8")
    with running(folder, files=files, allow=frozenset({"review", "erase"})) as client:
        program = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(CONFIG)]
        where = [f"{client.base_url}/openapi.json", "--no-color", "--generation-database", "none"]
        command = [*program, "run", *where, *arguments]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        done = check(Path(name), *sys.argv[1:])
    sys.stdout.write(done.stdout + done.stderr)
    raise SystemExit(done.returncode)
