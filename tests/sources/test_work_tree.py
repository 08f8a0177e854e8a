"""Comparing a work tree with what is committed gives what git itself says, whose configuration is not read."""

import os
import sys
from pathlib import Path

import pytest
from git_scratch import Scratch

from treering.extensions.code.repository.contents import RepositoryContents


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path / "web")


@pytest.fixture(autouse=True)
def no_configuration(monkeypatch, tmp_path):
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "xdg"))
    (tmp_path / "gitconfig").touch()


def changed(scratch: Scratch) -> dict[str, bool]:
    """Return the paths that differ, and whether each is gone."""
    repository: RepositoryContents = RepositoryContents.open(scratch.folder)
    found = {one.path: one.deleted for one in repository.work_changes()}
    assert repository.is_dirty() is bool(found)
    return found


def age(scratch: Scratch, *paths: str) -> None:
    """Make git look into files, as it does when their times changed."""
    for path in paths:
        os.utime(scratch.folder / path, (1, 1))


def test_line_ends_that_the_repository_translates_are_no_change(scratch):
    scratch.git("config", "core.autocrlf", "true")
    scratch.commit({"a.txt": "one\r\ntwo\r\n"})
    age(scratch, "a.txt")
    assert scratch.git("cat-file", "-p", "HEAD:a.txt") == "one\ntwo"
    assert changed(scratch) == {}


def test_line_ends_that_the_user_translates_are_no_change(scratch, tmp_path):
    scratch.git("-c", "core.autocrlf=true", "add", str(scratch.write("a.txt", "one\r\ntwo\r\n")))
    scratch.git("commit", "-q", "-m", "First")
    age(scratch, "a.txt")
    assert changed(scratch) == {"a.txt": False}
    (tmp_path / "gitconfig").write_text("[core]\n\tautocrlf = true\n")
    assert changed(scratch) == {}


@pytest.mark.parametrize("name", ["info/attributes", "../.gitattributes"])
def test_attributes_that_translate_line_ends_count(scratch, name):
    scratch.commit({"a.txt": "one\ntwo\n"})
    scratch.write(f".git/{name}", "*.txt eol=crlf\n")
    (scratch.folder / "a.txt").unlink()
    scratch.git("checkout", "--", "a.txt")
    assert (scratch.folder / "a.txt").read_bytes() == b"one\r\ntwo\r\n"
    age(scratch, "a.txt")
    assert "a.txt" not in changed(scratch)


def test_a_link_and_the_right_to_run_a_file_are_compared_as_the_repository_says(scratch):
    scratch.write("run.sh", "true\n")
    (scratch.folder / "link").symlink_to("run.sh")
    scratch.commit()
    (scratch.folder / "run.sh").chmod(0o755)
    (scratch.folder / "link").unlink()
    (scratch.folder / "link").symlink_to("elsewhere")
    assert changed(scratch) == {"run.sh": False, "link": False}
    scratch.git("config", "core.fileMode", "false")
    assert changed(scratch) == {"link": False}


def test_files_that_a_sparse_checkout_omits_are_no_change(scratch):
    scratch.commit({"kept/a.py": "a = 1\n", "left/b.py": "b = 1\n"})
    scratch.git("sparse-checkout", "set", "--cone", "kept")
    assert not (scratch.folder / "left").exists()
    assert changed(scratch) == {}
    scratch.git("sparse-checkout", "reapply", "--sparse-index")
    assert changed(scratch) == {}
    scratch.write("kept/a.py", "a = 2\n")
    assert changed(scratch) == {"kept/a.py": False}


def test_an_index_in_two_files_is_read_whole(scratch):
    scratch.commit({f"f{n}.py": f"{n}\n" for n in range(30)})
    scratch.git("update-index", "--split-index")
    scratch.commit({"f3.py": "changed\n"})
    assert list((scratch.folder / ".git").glob("sharedindex.*"))
    assert changed(scratch) == {}
    scratch.write("f4.py", "x\n")
    assert changed(scratch) == {"f4.py": False}


def test_a_file_changed_in_the_moment_it_was_added_is_a_change(scratch):
    """git tells such a file by its time, which is that of the index: a copy of the index has to keep its own."""
    scratch.commit({"a.py": "one\n"})
    file, index = scratch.folder / "a.py", scratch.folder / ".git/index"
    added = file.stat()
    scratch.write("a.py", "two\n")
    os.utime(file, ns=(added.st_atime_ns, added.st_mtime_ns))
    os.utime(index, ns=(added.st_mtime_ns, added.st_mtime_ns))
    scratch.git("config", "core.trustctime", "false")
    assert changed(scratch) == {"a.py": False}


def test_a_file_that_is_only_meant_to_be_added_is_a_change(scratch):
    scratch.commit({"a.py": "1\n"})
    scratch.write("b.py", "2\n")
    scratch.git("add", "--intent-to-add", "b.py")
    assert changed(scratch) == {"b.py": False}


def test_a_submodule_is_never_looked_into(scratch, tmp_path):
    other = Scratch(tmp_path / "other")
    other.commit({"b.py": "1\n"})
    scratch.git("submodule", "add", "-q", str(other.folder), "sub")
    scratch.commit()
    scratch.write("sub/b.py", "2\n")
    assert changed(scratch) == {}
    inside = Scratch(scratch.folder / "sub")
    assert changed(inside) == {"b.py": False}
    assert RepositoryContents.open(inside.folder).top == inside.folder


def test_a_linked_work_tree_is_compared_with_its_own_index(scratch, tmp_path):
    scratch.commit({"a.py": "1\n"})
    scratch.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "linked"))
    linked = Scratch(tmp_path / "linked")
    linked.commit({"b.py": "1\n"})
    linked.write("b.py", "2\n")
    assert changed(linked) == {"b.py": False}
    assert changed(scratch) == {}
    assert RepositoryContents.open(linked.folder).branch() == "side"


def test_settings_of_one_work_tree_count_for_it_alone(scratch, tmp_path):
    scratch.commit({"run.sh": "true\n"})
    scratch.git("worktree", "add", "-q", str(tmp_path / "linked"))
    scratch.git("config", "extensions.worktreeConfig", "true")
    linked = Scratch(tmp_path / "linked")
    linked.git("config", "--worktree", "core.fileMode", "false")
    for one in (scratch, linked):
        (one.folder / "run.sh").chmod(0o755)
    assert changed(scratch) == {"run.sh": False}
    assert changed(linked) == {}


def test_names_the_user_ignores_everywhere_are_ignored(scratch, tmp_path):
    scratch.commit({"a.py": "1\n"})
    scratch.write(".DS_Store", "x")
    scratch.write("b.orig", "x")
    scratch.write(".git/info/exclude", "*.orig\n")
    assert changed(scratch) == {".DS_Store": False}
    (tmp_path / "xdg/git").mkdir(parents=True)
    (tmp_path / "xdg/git/ignore").write_text(".DS_Store\n")
    assert changed(scratch) == {}
    (tmp_path / 'names "to" ignore').write_text("nothing\n")
    named = str(tmp_path / 'names "to" ignore').replace('"', '\\"')
    (tmp_path / "gitconfig").write_text(f'[core]\n\texcludesFile = "{named}"\n')
    assert changed(scratch) == {".DS_Store": False}


@pytest.mark.skipif(os.name == "nt" or sys.platform == "darwin", reason="file systems that refuse such names")
def test_a_folder_whose_name_is_no_text_is_compared_and_read(tmp_path):
    scratch = Scratch(Path(os.fsdecode(os.fsencode(tmp_path) + b'/caf\xe9 "quoted":x\n')))
    commit = scratch.commit({"a.py": "1\n"})
    assert changed(scratch) == {}
    scratch.write("b.py", "1\n")
    assert changed(scratch) == {"b.py": False}
    assert [entry.path for entry in RepositoryContents.open(scratch.folder).entries(commit)] == ["a.py"]


def test_what_a_filter_of_the_user_would_change_back_is_a_change(scratch, tmp_path):
    """No filter runs, the user's own neither: which one runs is said by the repository."""
    (tmp_path / "gitconfig").write_text(f'[filter "upper"]\n\tclean = "echo ran > {tmp_path}/it-ran; cat"\n')
    scratch.commit({"a.py": "1\n", ".gitattributes": "*.py filter=upper\n"})
    age(scratch, "a.py")
    assert changed(scratch) == {}
    assert not (tmp_path / "it-ran").exists()


def test_large_files_kept_elsewhere_are_no_change_while_their_times_say_so(scratch):
    """git's own copy is a pointer of another size; only the times in the index tell that the file is as it was."""
    pointer = "version https://git-lfs.github.com/spec/v1"
    scratch.git("config", "filter.lfs.clean", f"echo '{pointer}'")
    scratch.git("config", "filter.lfs.smudge", "echo 'a large film'")
    scratch.commit({"film.mp4": "a large film\n", ".gitattributes": "*.mp4 filter=lfs\n"})
    age(scratch, "film.mp4", ".gitattributes")
    scratch.git("update-index", "--refresh")
    assert scratch.git("cat-file", "-p", "HEAD:film.mp4") == pointer
    assert changed(scratch) == {}
    scratch.write("film.mp4", "another film\n")
    assert changed(scratch) == {"film.mp4": False}
