"""Build the packages of a release and check them: `make packages` runs it in an environment that has what it needs.

Both are built twice, in folders of their own, and have to come out the same, byte for byte. The wheel is installed into
a new environment and used, and what that environment has besides is written down as CycloneDX.
"""

import os
import subprocess
import sys
import tempfile
import venv
from hashlib import sha256
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
BIN = "Scripts" if os.name == "nt" else "bin"


def main() -> None:
    """Fill `dist`, or end with what is wrong."""
    when = run("git", "log", "-1", "--format=%ct", capture=True).strip()
    with tempfile.TemporaryDirectory() as folder:
        first, again = build(Path(folder, "first"), when), build(Path(folder, "again"), when)
        if first != again:
            sys.exit(f"Two builds differ: {first} and {again}")
        DIST.mkdir(exist_ok=True)
        for old in DIST.iterdir():
            old.unlink()
        for package in Path(folder, "first").iterdir():
            package.replace(DIST / package.name)
        packages = sorted(map(str, DIST.iterdir()))
        run(sys.executable, "-m", "twine", "check", "--strict", *packages)
        (wheel,) = DIST.glob("*.whl")
        run(sys.executable, "-m", "check_wheel_contents", str(wheel))
        for package in packages:
            use(Path(folder, f"used-{Path(package).suffix}"), package)
        python = Path(folder, "used-.whl", BIN, "python")
        parts = Path(folder, f"{wheel.stem}.cdx.json")
        run(sys.executable, "-m", "cyclonedx_py", "environment", str(python), "--output-file", str(parts))
        (ROOT / "build").mkdir(exist_ok=True)
        parts.replace(ROOT / "build" / parts.name)
    for name, digest in first.items():
        sys.stdout.write(f"{digest}  {name}\n")


def build(folder: Path, when: str) -> dict[str, str]:
    """Build both packages into a folder; return their hashes by name."""
    run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT), environment={"SOURCE_DATE_EPOCH": when})
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def use(folder: Path, package: str) -> None:
    """Install a package into a new environment, and use it in an empty folder."""
    venv.create(folder, with_pip=True)
    python = str(folder / BIN / "python")
    run(python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", package)
    place = folder / "work"
    place.mkdir()
    (place / "README.md").write_text("# Acme\n\nAcme retries three times.\n", encoding="utf-8")
    for words in (("init",), ("ingest", ".", "--mode", "path"), ("query", "how often does acme retry?")):
        told = run(python, "-P", "-m", "treering", *words, folder=place, capture=True)
    if "Acme retries three times" not in told:
        sys.exit(f"{package} does not find what it read: {told}")


def run(*command: str, folder: Path = ROOT, environment: dict[str, str] | None = None, capture: bool = False) -> str:
    """Run a command to its end; end with it where it fails."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        text=True,
        stdout=subprocess.PIPE if capture else None,
    )
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout or ""


if __name__ == "__main__":
    main()
