"""Build the packages of a release and check them: `make packages` runs it in an environment that has what it needs.

Both are built twice, in folders of their own, and have to come out the same, byte for byte. The wheel is installed into
a new environment and used, and what that environment has besides is written down as CycloneDX.

The wheel carries a bill of materials, `treering.cdx.json`: the files of others in it, and the packages that it needs.
`python tools/packages.py --bill` writes it anew after a change of either.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from hashlib import sha256
from pathlib import Path
from typing import Any
from zipfile import ZipFile

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
BIN = "Scripts" if os.name == "nt" else "bin"
BILL = "treering.cdx.json"
SOURCE = "src/treering/"

BGE = {"type": "machine-learning-model", "name": "bge-small-en-v1.5", "purl": "pkg:huggingface/BAAI/bge-small-en-v1.5"}
CARRIED: tuple[tuple[dict[str, Any], tuple[str, ...]], ...] = (
    (
        {
            **BGE,
            "supplier": {"name": "Beijing Academy of Artificial Intelligence"},
            "licenses": [{"expression": "MIT AND Apache-2.0"}],  # the vocabulary of the tokenizer has the second
        },
        ("models/bge_small_en_v1_5_int8/model_quantized.onnx", "models/bge_small_en_v1_5_int8/tokenizer.json"),
    ),
    (
        {
            "type": "machine-learning-model",
            "name": "static-bge-small",
            "description": "A table fitted to bge-small-en-v1.5; THIRD_PARTY_NOTICES.md names its sources.",
            "pedigree": {"ancestors": [BGE]},
        },
        ("models/static_bge_small/vectors.npy", "models/static_bge_small/weights.npy"),
    ),
    (
        {
            "type": "library",
            "name": "htmx.org",
            "version": "4.0.1",
            "purl": "pkg:npm/htmx.org@4.0.1",
            "licenses": [{"license": {"id": "0BSD"}}],
        },
        ("extensions/server/web/static/htmx.min.js",),
    ),
)
"""What the wheel carries that is not written for Treering, with its files; THIRD_PARTY_NOTICES.md tells of each."""


def main() -> None:
    """Write the bill of materials, or fill `dist`; end with what is wrong."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("--bill", action="store_true", help=f"write {BILL} anew, and build nothing")
    if asked.parse_args().bill:
        (ROOT / BILL).write_text(bill(ROOT), encoding="utf-8", newline="\n")
    else:
        make()


def bill(root: Path) -> str:
    """Return the bill of materials of the wheel that a work tree makes, as CycloneDX 1.7.

    It has no time and no number of its own: the same tree gives the same bytes.
    """
    project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    name, version = project["name"], project["version"]
    needed = [needs(requirement) for requirement in project["dependencies"]]
    whole = {
        "type": "library",
        "bom-ref": name,
        "name": name,
        "version": version,
        "purl": f"pkg:pypi/{name}@{version}",
        "licenses": [{"license": {"id": project["license"]}}],
    }
    told = {
        "$schema": "http://cyclonedx.org/schema/bom-1.7.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.7",
        "version": 1,
        "metadata": {"component": whole},
        "components": [*(carries(root, component, files) for component, files in CARRIED), *needed],
        "dependencies": [{"ref": name, "dependsOn": [one["bom-ref"] for one in needed]}],
    }
    return json.dumps(told, indent=1) + "\n"


def carries(root: Path, component: dict[str, Any], files: tuple[str, ...]) -> dict[str, Any]:
    """Return a component that is in the wheel, with the hash of each of its files."""
    hashes = {file: sha256((root / SOURCE / file).read_bytes()).hexdigest() for file in files}
    parts = [
        {"type": "file", "name": f"treering/{file}", "hashes": [{"alg": "SHA-256", "content": digest}]}
        for file, digest in hashes.items()
    ]
    return {**component, "components": parts}


def needs(requirement: str) -> dict[str, Any]:
    """Return a component that is installed beside the wheel, with the range of its versions."""
    found = re.fullmatch(r"(?P<name>[\w.-]+)(?P<range>[<>=!~][^;\[\]]+)", requirement)
    if not found:
        sys.exit(f"A requirement of a form that the bill of materials does not tell: {requirement}")
    name, versions = found["name"], found["range"].replace(",", "|")
    return {
        "type": "library",
        "bom-ref": f"pkg:pypi/{name}",
        "name": name,
        "versionRange": f"vers:pypi/{versions}",
        "isExternal": True,
        "purl": f"pkg:pypi/{name}",
    }


def make() -> None:
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
        check_bill(wheel)
        run(sys.executable, "-m", "check_wheel_contents", str(wheel))
        for package in packages:
            use(Path(folder, f"used-{Path(package).suffix}"), package)
        python = Path(folder, "used-.whl", BIN, "python")
        parts = Path(folder, f"{wheel.stem}.cdx.json")
        run(
            *(sys.executable, "-m", "cyclonedx_py", "environment", str(python), "--output-file", str(parts)),
            *("--output-reproducible", "--pyproject", str(ROOT / "pyproject.toml")),
            environment={"SOURCE_DATE_EPOCH": when},
        )
        (ROOT / "build").mkdir(exist_ok=True)
        parts.replace(ROOT / "build" / parts.name)
    for name, digest in first.items():
        sys.stdout.write(f"{digest}  {name}\n")


def build(folder: Path, when: str) -> dict[str, str]:
    """Build both packages into a folder; return their hashes by name."""
    run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT), environment={"SOURCE_DATE_EPOCH": when})
    return {file.name: sha256(file.read_bytes()).hexdigest() for file in sorted(folder.iterdir())}


def check_bill(wheel: Path) -> None:
    """End where the wheel lacks the bill of materials of this tree, or where it is no CycloneDX."""
    from cyclonedx.schema import SchemaVersion  # only where packages are made
    from cyclonedx.validation.json import JsonStrictValidator

    told = bill(ROOT)
    with ZipFile(wheel) as packed:
        carried = [
            packed.read(name).decode() for name in packed.namelist() if name.endswith(f".dist-info/sboms/{BILL}")
        ]
    if carried != [told]:
        sys.exit(f"The wheel does not carry the bill of materials of this tree: run `{Path(__file__).name} --bill`.")
    if wrong := JsonStrictValidator(SchemaVersion.V1_7).validate_str(told):
        sys.exit(f"{BILL} is not CycloneDX 1.7: {wrong}")


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
