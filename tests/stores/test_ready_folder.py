"""The folder of the files kept ready for a space: whose it is, and what becomes of it."""

import os
import stat

import pytest
from index_stage import open_space

from treering.stores.sqlite.ready import ready_folder, remove_ready, sealed, unsealed


@pytest.fixture
def data(tmp_path, monkeypatch):
    """A data folder of its own."""
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    return tmp_path / "data"


def new_file(folder, name="space.db"):
    """Return the path of a file that stands for a space."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_bytes(b"space")
    return folder / name


def test_the_ready_folder_is_private_and_in_the_data_folder(data, tmp_path):
    space = new_file(tmp_path / "tree")
    folder = ready_folder(space, make=True)
    assert folder.is_relative_to(data)
    assert stat.S_IMODE(folder.stat().st_mode) == stat.S_IMODE(folder.parent.stat().st_mode) == 0o700
    (tmp_path / "link.db").symlink_to(space)
    assert ready_folder(tmp_path / "link.db") == folder
    assert ready_folder(new_file(tmp_path / "other")) != folder


@pytest.mark.skipif(os.name != "posix", reason="modes of POSIX")
@pytest.mark.parametrize("what", ["open to others", "link", "file", "open above", "of another user"])
def test_a_ready_folder_that_others_can_open_is_refused(data, tmp_path, monkeypatch, what):
    space = new_file(tmp_path / "tree")
    folder = ready_folder(space, make=True)
    (folder / "one").write_bytes(b"Tides")
    match what:
        case "open to others":
            folder.chmod(0o750)
        case "open above":
            folder.parent.chmod(0o755)
        case "link":
            folder.rename(tmp_path / "elsewhere")
            folder.symlink_to(tmp_path / "elsewhere")
        case "file":
            folder.rename(tmp_path / "elsewhere")
            folder.write_bytes(b"")
        case "of another user":
            monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(PermissionError, match="only this user can open"):
        ready_folder(space)
    if what.startswith("open"):
        assert [file.name for file in ready_folder(space, make=True).iterdir()] == ["space"]
    else:
        with pytest.raises(OSError, match=r"only this user can open|symbolic link|Not a directory|File exists"):
            ready_folder(space, make=True)
    open_space(str(tmp_path / "space.db")).ledger.close()


def test_a_line_with_a_changed_byte_is_not_read():
    whole = sealed({"text": "Tides", "deep": [[1]]})
    assert unsealed(whole) == {"text": "Tides", "deep": [[1]]}
    for damaged in (whole[:-1], whole[1:], whole.replace(b"Tides", b"Paint"), b"", b"[" * 50_000):
        assert unsealed(damaged) is None


def test_a_folder_left_beside_the_space_is_removed(data, tmp_path):
    space = new_file(tmp_path / "tree")
    beside, linked = tmp_path / "tree/space.db.ready", tmp_path / "mine"
    beside.mkdir()
    new_file(beside, "graph.table")
    ready_folder(space, make=True)
    assert not beside.exists()
    new_file(linked)
    beside.symlink_to(linked)
    remove_ready(space)
    assert (linked / "space.db").exists()


def test_erasing_empties_the_folder_and_those_of_lost_spaces(data, tmp_path):
    space, moved = new_file(tmp_path / "tree"), new_file(tmp_path / "moved")
    folders = ready_folder(space, make=True), ready_folder(moved, make=True)
    for folder in folders:
        (folder / "one").write_bytes(b"erased words")
    moved.rename(tmp_path / "tree/again.db")
    remove_ready(space)
    assert not any(file.is_file() and b"erased" in file.read_bytes() for file in data.rglob("*"))
    assert [folder.exists() for folder in folders] == [True, False]


def test_without_a_home_there_is_no_ready_folder(tmp_path, monkeypatch):
    for name in ("HOME", "TREERING_DATA_DIR", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(os, "getuid", lambda: 2**31 - 7)
    with pytest.raises(FileNotFoundError, match="no home folder"):
        ready_folder(tmp_path / "space.db")
