"""Remotes, shared folders, shipped caches and clones that run a command as whoever syncs, or checks a proof."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from attacks.attack import Attack, Count
from attacks.hostile_remotes import REMOTES, bare, clone_that_fetches, shipped_cache
from attacks.hostile_repositories import git, repository

_TREERING = (sys.executable, "-P", "-m", "treering")
_SECONDS = 60.0
_NOTES = {"notes.md": "# Notes\n\nWe retry three times.\n"}


def shipped_caches(folder: Path) -> Count:
    """Clone a repository that brings along what an earlier version of Treering copied from a remote, and sync."""
    made = [folder / name for name in ("default", "origin", "folder")]
    for place, remote in zip(made, ("", "origin", str(folder / "team")), strict=True):
        web = repository(place / "web", **_NOTES)
        git(place, "init", "-q", "--bare", "up.git")
        git(web, "remote", "add", "origin", str(place / "up.git"))
        shipped_cache(web / ".treering" / "treering.db.sync" / "git", place / "ran")
        (folder / "team").mkdir(exist_ok=True)
        for words in (("init",), ("ingest", "notes.md"), ("sync", *filter(None, [remote])), ("sync",)):
            _run(web, folder / "data", *words)
    return _ran(made)


def repositories(folder: Path) -> Count:
    """Sync with repositories of one's own machine that name commands in every way."""
    made = [folder / str(number) for number in range(len(REMOTES))]
    for place, arm in zip(made, REMOTES.values(), strict=True):
        team = bare(place / "team", arm, place / "ran")
        web = repository(place / "web", **_NOTES)
        git(web, "remote", "add", "origin", str(team))
        for words in (("ingest", "notes.md"), ("sync", str(team)), ("sync", team.as_uri()), ("sync",)):
            _run(web, folder / "data", *words)
    return _ran(made, list(REMOTES))


def shared_folders(folder: Path) -> Count:
    """Turn a shared folder into a repository after the first sync."""
    made = [folder / str(number) for number in range(len(REMOTES))]
    for place, arm in zip(made, REMOTES.values(), strict=True):
        web = repository(place / "web", **_NOTES)
        (place / "team").mkdir()
        for words in (("ingest", "notes.md"), ("sync", "../team")):
            _run(web, folder / "data", *words)
        bare(place / "team", arm, place / "ran")
        (web / "notes.md").write_text("# Notes\n\nWe retry four times.\n")
        for words in (("ingest", "notes.md"), ("sync", "../team")):
            _run(web, folder / "data", *words)
    return _ran(made, list(REMOTES))


def remotes_that_are_commands(folder: Path) -> Count:
    """Sync with a remote that is a command, where the user's own settings allow such ones elsewhere."""
    (folder / ".gitconfig").write_text('[protocol]\n\tallow = always\n[protocol "ext"]\n\tallow = always\n')
    allowing = {"HOME": str(folder), "GIT_ALLOW_PROTOCOL": "ext:file"}
    made = [folder / name for name in ("named", "given")]
    for place in made:
        web = repository(place / "web", **_NOTES)
        address = f"ext::sh -c touch% {place / 'ran'}"
        git(web, "remote", "add", "origin", address)
        _run(web, folder / "data", "ingest", "notes.md")
        _run(web, folder / "data", "sync", *(() if place.name == "named" else (address,)), **allowing)
    return _ran(made)


def clones_of_proofs(folder: Path) -> Count:
    """Check a proof against a clone that lacks the file and names a command to fetch it: here, and by the program."""
    web = repository(folder / "web", **_NOTES)
    proof = folder / "proof.json"
    _run(web, folder / "data", "ingest", ".")
    _run(web, folder / "data", "query", "how often do we retry", "--proof", str(proof))
    checker = _run(web, folder / "data", "verify", "--checker")
    (folder / "check.py").write_text(checker)
    made = [folder / name for name in ("verify", "program")]
    for place in made:
        clone = clone_that_fetches(place / "clone", place / "ran", **_NOTES)
        if place.name == "verify":
            _run(web, folder / "data", "verify", str(proof), "--clone", str(clone))
        else:
            command = [sys.executable, "-I", str(folder / "check.py"), str(proof), "--clone", str(clone)]
            subprocess.run(command, capture_output=True, timeout=_SECONDS)
    # A proof that was never written would be no attack.
    return _ran(made) if proof.is_file() else Count(len(made), len(made), "there is no proof")


def shipped_spaces(folder: Path) -> Count:
    """Clone a repository that tracks a space, and ask it: as it is, in an index without whole names, by a link."""
    web = repository(folder / "web", **_NOTES)
    _run(web, folder / "data", "init")
    _run(web, folder / "data", "ingest", "notes.md")
    git(web, "add", "-f", ".treering/treering.db")
    git(web, "commit", "-q", "-m", "Ship")
    made = [folder / name for name in ("plain", "short names", "link")]
    for place in made:
        git(folder, "clone", "-q", str(web), str(place))
    git(made[1], "update-index", "--index-version", "4")
    git(made[2], "rm", "-rq", "--cached", ".treering")
    (made[2] / ".treering").rename(made[2] / "other")
    (made[2] / ".treering").symlink_to("other")
    git(made[2], "add", "-f", ".treering")
    reached = ["three times" in _run(place, folder / "data", "query", "how often do we retry") for place in made]
    is_one = "three times" in _run(web, folder / "data", "query", "how often do we retry", "--trust")
    # A space that holds nothing would be no attack.
    return Count(len(made), sum(reached) if is_one else len(made), "" if is_one else "the space holds nothing")


ATTACKS: Sequence[Attack] = (
    Attack("a shipped cache of a remote runs a command", shipped_caches),
    Attack("a repository that is synced with runs a command", repositories),
    Attack("a shared folder becomes a repository", shared_folders),
    Attack("a space that a repository ships is asked", shipped_spaces),
    Attack("a remote is a command", remotes_that_are_commands),
    Attack("a clone fetches from a command when a proof is checked", clones_of_proofs),
)


def _ran(made: Sequence[Path], names: Sequence[str] = ()) -> Count:
    reached = [(place / "ran").exists() for place in made]
    named = names or [place.name for place in made]
    return Count(len(made), sum(reached), ", ".join(name for name, yes in zip(named, reached, strict=True) if yes))


def _run(folder: Path, data: Path, *arguments: str, **environment: str) -> str:
    own: Mapping[str, str] = {"TREERING_BACKGROUND": "0", "TREERING_RESIDENT": "0", "TREERING_DATA_DIR": str(data)}
    surroundings = {**os.environ, **own, **environment}
    command = [*_TREERING, *arguments]
    done = subprocess.run(command, cwd=folder, env=surroundings, capture_output=True, text=True, timeout=_SECONDS)
    return done.stdout
