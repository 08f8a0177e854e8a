"""What is synced with cannot run a command, and stays what it was when it was first synced with."""

import json
import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest
from attacks.hostile_remotes import REMOTES, bare, clone_that_fetches, shipped_cache
from attacks.hostile_repositories import git, repository

import treering
from space_parts import note
from treering.core.errors import Denied, InvalidInput, NotFound, TreeringError, Unavailable
from treering.extensions.sharing.sync_home import home_of_syncs, make_own_folder
from treering.surfaces.python.space import Space
from treering.system.git_start import objects_of

Opens = Callable[..., Space]

PLACE = "b" * 32


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    return tmp_path / "data"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    place = tmp_path / "web" / ".treering" / "treering.db"
    place.parent.mkdir(parents=True)
    return place


def synced(file: Path, remote: str, *, says: str = "", folder: Path | None = None) -> set[str]:
    """Sync, with a new note first, and return the words of the space."""
    with treering.open(str(file), background=False) as space:
        if says:
            note(space, says, origin=f"{says}.md")
        space.sync(remote, folder=folder)
        found = space.query("search", "/", {"text": "word"}, {"limit": 20})
        return {hit.text.split()[-1] for hit in found.hits}


def named_place(data: Path, file: Path, name: str = PLACE) -> Path:
    """Give the copy a name that a hostile remote knows."""
    home = home_of_syncs(data, file, "")
    (home / "state.json").write_text(json.dumps({"replica": name, "read": {}}))
    return home


@pytest.mark.parametrize("way", REMOTES)
def test_a_repository_synced_with_runs_nothing(way: str, tmp_path: Path, data: Path, file: Path) -> None:
    named_place(data, file)
    team = bare(tmp_path / "team", REMOTES[way], tmp_path / "ran")
    refused = way in ("a promisor", "a work tree")
    for remote in (str(team), team.as_uri()):
        with pytest.raises(TreeringError) if refused else nullcontext():
            synced(file, remote, says=f"A word {remote}")
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("way", REMOTES)
def test_a_shared_folder_stays_a_folder(way: str, tmp_path: Path, data: Path, file: Path) -> None:
    named_place(data, file)
    team = tmp_path / "team"
    team.mkdir()
    synced(file, str(team), says="A word seagull")
    bare(team, REMOTES[way], tmp_path / "ran")
    with treering.open(str(file), background=False) as space:
        note(space, "A word heron", origin="heron.md")
        assert "looks like a git repository" in space.sync(str(team)).warnings[0]
    assert not (tmp_path / "ran").exists()
    assert len(list((team / PLACE).glob("*.bundle"))) == 2
    other = tmp_path / "other.db"
    assert synced(other, str(team)) == {"seagull", "heron"}  # a folder to who meets it now, too


def test_a_path_that_was_missing_gets_its_kind_later(tmp_path: Path, data: Path, file: Path) -> None:
    with pytest.raises(TreeringError):
        synced(file, str(tmp_path / "disk" / "team.git"), says="A word seagull")
    team = bare(tmp_path / "disk" / "team.git", lambda _folder, _marker: None, tmp_path / "ran")
    synced(file, str(team))
    assert git(team, "for-each-ref", "refs/treering")


def test_a_git_remote_stays_git(tmp_path: Path, data: Path, file: Path) -> None:
    team = bare(tmp_path / "team.git", lambda _folder, _marker: None, tmp_path / "ran")
    synced(file, str(team), says="A word seagull")
    shutil.rmtree(team)
    (team / PLACE).mkdir(parents=True)
    with pytest.raises(Unavailable, match="git fetch failed") as raised:
        synced(file, str(team))
    assert "fatal: " in raised.value.message
    assert "\\n" not in raised.value.message, "the lines of git are joined"


def test_a_link_to_another_folder_does_not_change_the_kind(tmp_path: Path, data: Path, file: Path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "team").symlink_to("one")
    synced(file, str(tmp_path / "team"), says="A word seagull")
    (tmp_path / "team").unlink()
    bare(tmp_path / "two", REMOTES["hooks"], tmp_path / "ran")
    (tmp_path / "team").symlink_to("two")
    synced(file, str(tmp_path / "team"), says="A word heron")
    assert not (tmp_path / "ran").exists()


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_another_user_is_named_by_its_address(tmp_path: Path, data: Path, file: Path) -> None:
    team = bare(tmp_path / "team", lambda _folder, _marker: None, tmp_path / "ran")
    os.chown(team / "HEAD", 12345, 12345)
    with pytest.raises(Denied, match="another user") as refused:
        synced(file, str(team), says="A word seagull")
    assert team.as_uri() in (refused.value.hint or "")


@pytest.mark.parametrize("remote", ["", "origin", "ext::sh -c touch% ran", "fd::7"])
def test_a_remote_that_is_a_command_is_refused(
    remote: str, tmp_path: Path, data: Path, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "gitconfig").write_text('[protocol]\n\tallow = always\n[protocol "ext"]\n\tallow = always\n')
    web = repository(tmp_path / "clone")
    git(web, "remote", "add", "origin", f"ext::sh -c touch% {tmp_path / 'ran'}")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Unavailable, match="not allowed"):
        synced(file, remote, says="A word seagull", folder=web)
    assert not (tmp_path / "ran").exists()


def test_a_shipped_cache_is_not_used(tmp_path: Path, data: Path, file: Path) -> None:
    old = file.with_name("treering.db.sync")
    shipped_cache(old / "git", tmp_path / "ran")
    team = bare(tmp_path / "team", lambda _folder, _marker: None, tmp_path / "ran")
    assert synced(file, str(team), says="A word seagull") == {"seagull"}
    assert not (tmp_path / "ran").exists()
    assert not old.exists()
    for folder in ((data / "sync"), *(one for one in (data / "sync").iterdir() if one.is_dir())):
        assert folder.stat().st_mode & 0o777 == 0o700


def test_a_link_in_place_of_the_old_cache_stays(tmp_path: Path, data: Path, file: Path) -> None:
    for name, link in (("one", "treering.db.sync"), ("two", "treering.db.sync/git")):
        (tmp_path / name / "git").mkdir(parents=True)
        (tmp_path / name / "git" / "mine").write_text("Mine.")
        place = file.parent / link
        place.parent.mkdir(exist_ok=True)
        place.symlink_to(tmp_path / name)
        home_of_syncs(data, file, "log")
        assert (tmp_path / name / "git" / "mine").read_text() == "Mine."
        place.unlink()


def test_the_name_of_a_copy_is_taken_over(data: Path, file: Path) -> None:
    old = file.with_name("treering.db.sync")
    old.mkdir()
    (old / "state.json").write_text(json.dumps({"replica": PLACE, "read": {"/team": ["f" * 64]}}))
    home = home_of_syncs(data, file, "log")
    assert json.loads((home / "state.json").read_text()) == {"replica": PLACE, "read": {}}
    assert not old.exists()


def test_a_moved_space_keeps_its_name_at_the_remote(tmp_path: Path, data: Path, file: Path) -> None:
    team = tmp_path / "team"
    team.mkdir()
    synced(file, str(team), says="A word seagull")
    moved = tmp_path / "moved.db"
    file.rename(moved)
    synced(moved, str(team), says="A word heron")
    assert len([one for one in team.iterdir() if one.is_dir()]) == 1


def test_a_space_made_in_the_place_of_another_reads_again(tmp_path: Path, data: Path, file: Path) -> None:
    team = tmp_path / "team"
    team.mkdir()
    synced(tmp_path / "bob.db", str(team), says="A word heron")
    for _ in range(2):
        assert synced(file, str(team)) == {"heron"}
        for one in file.parent.glob("treering.db*"):
            one.unlink() if one.is_file() else shutil.rmtree(one)


def test_a_space_restored_from_a_copy_reads_again(tmp_path: Path, data: Path, file: Path) -> None:
    team = tmp_path / "team"
    team.mkdir()
    synced(file, str(team), says="A word seagull")
    shutil.copytree(file.parent, tmp_path / "copy")
    synced(tmp_path / "bob.db", str(team), says="A word heron")
    assert synced(file, str(team)) == {"seagull", "heron"}
    shutil.rmtree(file.parent)
    shutil.copytree(tmp_path / "copy", file.parent)
    assert synced(file, str(team)) == {"seagull", "heron"}


@pytest.mark.skipif(os.name == "nt", reason="modes are those of POSIX")
def test_a_data_folder_others_can_write_is_refused(tmp_path: Path, data: Path, file: Path) -> None:
    (data / "sync").mkdir(parents=True)
    (data / "sync").chmod(0o777)
    with pytest.raises(Denied, match="Other users can write"):
        home_of_syncs(data, file, "log")
    shutil.rmtree(data / "sync")
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    (data / "sync").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(Denied, match=r"is a (symbolic )?link"):
        make_own_folder(data / "sync")


def test_the_objects_of_a_clone_are_read_without_its_configuration(tmp_path: Path) -> None:
    files = {"notes.md": "We retry three times.\n", "second.md": "A heron.\n"}
    clone = clone_that_fetches(tmp_path / "clone", tmp_path / "ran", **files)
    commit, blob = git(clone, "rev-parse", "HEAD"), git(clone, "rev-parse", "HEAD:notes.md")
    with objects_of(clone) as ask:
        assert ask("cat-file", "blob", blob)[0] != 0
        assert ask("rev-parse", "--verify", f"{commit}:notes.md") == (0, f"{blob}\n".encode())
    assert not (tmp_path / "ran").exists()


def test_the_objects_of_an_added_work_tree_and_of_sha256_are_read(tmp_path: Path) -> None:
    one = repository(tmp_path / "one")
    git(one, "worktree", "add", "-q", str(tmp_path / "tree"))
    (tmp_path / "two").mkdir()
    git(tmp_path / "two", "init", "-q", "--object-format=sha256")
    (tmp_path / "two" / "a.py").write_text("answer = 42\n")
    git(tmp_path / "two", "add", "a.py")
    for place, is_sha256 in ((tmp_path / "tree", False), (tmp_path / "two", True), (one / ".git", False)):
        blob = git(place if place.name != ".git" else one, "rev-parse", ":a.py")
        with objects_of(place, sha256=is_sha256) as ask:
            assert ask("cat-file", "blob", blob) == (0, b"answer = 42\n")


def test_nothing_is_sent_to_a_missing_folder_or_one_with_other_files(tmp_path: Path, data: Path, file: Path) -> None:
    with pytest.raises(NotFound, match="does not exist"):
        synced(file, str(tmp_path / "missing"), says="A word seagull")
    used = tmp_path / "used"
    used.mkdir()
    (used / "letter.txt").write_text("Dear Ben")
    with pytest.raises(InvalidInput, match="contains other files"):
        synced(file, str(used))
    assert not (tmp_path / "missing").exists()
    assert [one.name for one in used.iterdir()] == ["letter.txt"]
