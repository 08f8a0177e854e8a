"""Make a release of what lies in `changes/`: `make release VERSION=0.3.0`.

The changelog gets an entry that a person reads in two minutes: the summary in `changes/summary.md` where somebody wrote
one, else the fragments themselves. Every fragment becomes a line of `docs/releases/VERSION.md`, and is deleted. The
version is set wherever it stands, and what the release promises is written down for the next one to be compared with.
"""

import argparse
import re
import subprocess
import sys
from datetime import UTC, date, datetime
from pathlib import Path

import promises

ROOT = Path(__file__).resolve().parents[1]
KINDS = {"added": "Added", "changed": "Changed", "fixed": "Fixed", "removed": "Removed", "security": "Security"}
MOST_WORDS = 500
"""What a person reads in two minutes."""

VERSIONS = {
    "pyproject.toml": r'^(version = ")[^"]+(")',
    "src/treering/version.py": r'^(__version__ = ")[^"]+(")',
    "CITATION.cff": r"^(version: )\S+()",
    "docs/howto/check-pull-requests.md": r"^(\s+rev: v)\S+()",
    "tests/surfaces/http/openapi.json": r'^(\s+"default": ")\d+\.\d+\.\d+(")',
    "uv.lock": r'^(name = "treering"\nversion = ")[^"]+(")',
    "treering.cdx.json": r'("pkg:pypi/treering@|"name": "treering",\n\s+"version": ")[^"]+(")',
}
"""Where the version stands: by file, what stands before and behind it."""

Fragments = dict[str, list[tuple[str, str]]]
"""By kind: name and text."""


class NotReady(Exception):
    """What keeps a release from being made."""


def main() -> None:
    """Make the release that the command line names, or end with what is wrong. Nothing is committed."""
    asked = argparse.ArgumentParser(description=__doc__)
    asked.add_argument("version", help="such as 0.3.0")
    asked.add_argument("--date", type=date.fromisoformat, default=datetime.now(UTC).date(), help="by default today")
    given = asked.parse_args()
    if waiting := told_by("git", "status", "--porcelain"):
        sys.exit(f"Commit or stash these first, so that a release can be undone:\n{waiting}")
    try:
        release(ROOT, given.version, given.date)
    except NotReady as error:
        sys.exit(str(error))
    promises.write()
    subprocess.run(
        [sys.executable, "tests/docs/reference.py"], cwd=ROOT, check=True
    )  # a list of pages names the new one
    tag = f"v{given.version}"
    print(f"Release {given.version} is made. Read `git diff`, run `make check-all packages`, then:\n")
    print(f"  git add --all && git commit -m 'Release {given.version}'")
    print(f"  git tag --sign {tag} -m 'Treering {given.version}' && git push origin main {tag}")
    print("\nThe tag starts .github/workflows/release.yml, which builds, signs and publishes the packages.")


def release(root: Path, version: str, day: date) -> None:
    """Write the changelog, the page of the release and the version of a work tree, and delete its fragments.

    Raise `NotReady` where something is missing or wrong, before anything is written.
    """
    before = current_version(root)
    if number(version) <= number(before):
        raise NotReady(f"{version} is not later than {before}, the version that this tree has.")
    if (changelog := (root / "CHANGELOG.md").read_text(encoding="utf-8")).count("\n## ") == 0:
        raise NotReady("CHANGELOG.md has no entry ('## …') before which a new one would stand.")
    fragments = read_fragments(root)
    texts = {
        "CHANGELOG.md": entered(changelog, version, day, summary(root, version, fragments)),
        f"docs/releases/{version}.md": page(version, day, fragments),
        "mkdocs.yml": listed((root / "mkdocs.yml").read_text(encoding="utf-8"), version),
    }
    for name, pattern in VERSIONS.items():
        text, count = re.subn(
            pattern, rf"\g<1>{version}\g<2>", (root / name).read_text(encoding="utf-8"), flags=re.MULTILINE
        )
        if not count:
            raise NotReady(f"{name} has no line like {pattern}.")
        texts[name] = text
    for name, text in texts.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text, encoding="utf-8")
    for file in fragment_files(root):
        file.unlink()


def fragment_files(root: Path) -> list[Path]:
    """Return the files in `changes/` that a release uses up: all but its README."""
    return sorted(file for file in (root / "changes").glob("*.md") if file.name != "README.md")


def read_fragments(root: Path) -> Fragments:
    """Return the fragments by kind; raise `NotReady` naming those of another form, and if there is none."""
    found: Fragments = {kind: [] for kind in KINDS}
    wrong = []
    for file in fragment_files(root):
        text = " ".join(file.read_text(encoding="utf-8").split())
        match file.name.split("."):
            case ["summary", "md"]:
                continue
            case [name, kind, "md"] if kind in KINDS and text:
                found[kind].append((name, text))
            case _:
                wrong.append(file.name)
    if wrong:
        raise NotReady(
            f"Not a fragment `<name>.<kind>.md` with a text: {', '.join(wrong)}; kinds are {', '.join(KINDS)}."
        )
    if not any(found.values()):
        raise NotReady("changes/ holds no fragment: there is nothing to release.")
    return found


def summary(root: Path, version: str, fragments: Fragments) -> str:
    """Return the body of the changelog's entry."""
    written = root / "changes" / "summary.md"
    if written.exists():
        body = moved(written.read_text(encoding="utf-8").strip(), "")
    else:
        body = moved(lines(fragments, "###"), "")
    if (words := len(body.split())) > MOST_WORDS:
        raise NotReady(
            f"The entry for {version} has {words} words; {MOST_WORDS} can be read in two minutes. "
            "Write what matters most to changes/summary.md; every fragment still gets its line in docs/releases."
        )
    return f"{body}\n\n[Every change](docs/releases/{version}.md)."


def lines(fragments: Fragments, heading: str) -> str:
    """Return a line for each fragment, below headings of kinds."""
    parts = [
        f"{heading} {KINDS[kind]}\n\n" + "\n".join(f"- {text}" for _, text in texts)
        for kind, texts in fragments.items()
        if texts
    ]
    return "\n\n".join(parts)


def page(version: str, day: date, fragments: Fragments) -> str:
    """Return the page that has a line for every change."""
    count = sum(map(len, fragments.values()))
    told = f"All {count} changes, by kind. The short account is in `CHANGELOG.md`."
    return f"# Treering {version}\n\n{day.isoformat()}. {told}\n\n{moved(lines(fragments, '##'), '../../')}\n"


def moved(text: str, root: str) -> str:
    """Return a text of `changes/` with the links that it needs elsewhere; `root` is the way to the repository there.

    Pages of the documentation are a site of their own: to what lies outside of them there is no link.
    """
    text = re.sub(r"\]\(\.\./", f"]({root}", text)
    if root:
        text = text.replace(f"]({root}docs/", "](../")
        text = re.sub(rf"\[([^\]]+)\]\({re.escape(root)}[^)]+\)", r"`\1`", text)
    return text


def entered(changelog: str, version: str, day: date, body: str) -> str:
    """Return the changelog with a new entry before the others."""
    head, _, rest = changelog.partition("\n## ")
    return f"{head}\n## {version} ({day.isoformat()})\n\n{body}\n\n## {rest}"


def listed(site: str, version: str) -> str:
    """Return the navigation of the documentation with the page of a release, the newest first."""
    line = f"      - releases/{version}.md\n"
    if "  - Releases:\n" in site:
        return site.replace("  - Releases:\n", f"  - Releases:\n{line}")
    return f"{site.rstrip()}\n  - Releases:\n{line}"


def current_version(root: Path) -> str:
    """Return the version that a work tree has."""
    text = (root / "src/treering/version.py").read_text(encoding="utf-8")
    return text.partition('__version__ = "')[2].partition('"')[0]


def number(version: str) -> tuple[int, ...]:
    """Return the parts of a version `X.Y.Z`, which compare as versions do."""
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise NotReady(f"A version has the form X.Y.Z, got {version!r}.")
    return tuple(map(int, version.split(".")))


def told_by(*command: str) -> str:
    """Return what a command prints."""
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    main()
