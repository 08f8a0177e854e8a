import hashlib
import os
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from git_scratch import Scratch
from hypothesis import given, settings
from hypothesis import strategies as st

from treering.core.characters import printable
from treering.core.errors import InvalidInput, NotFound, TimedOut, Unavailable
from treering.extensions.code.repository.change_statistics import changed_together, often_changed, telling_commits
from treering.extensions.code.repository.contents import RepositoryContents, TreeChange, TreeEntry
from treering.ports.runtime import interruptible
from treering.sources.git.process import run_git
from treering.sources.git.repository import without_credentials
from treering.system.git_start import isolated_environment


@pytest.fixture
def scratch(tmp_path: Path) -> Scratch:
    return Scratch(tmp_path / "web")


def test_a_work_tree_opens_at_its_top_and_remembers_the_folder_asked_for(scratch):
    scratch.commit({"src/app/a.py": "a = 1\n"})
    repository = RepositoryContents.open(scratch.folder / "src/app")
    assert repository.top == scratch.folder
    assert repository.prefix == "src/app"


def test_the_git_folder_of_a_work_tree_opens_that_work_tree(scratch):
    scratch.commit({"a.py": "a = 1\n"})
    assert RepositoryContents.open(scratch.folder / ".git").top == scratch.folder


def test_a_bare_repository_has_no_work_tree_and_is_never_dirty(scratch, tmp_path):
    commit = scratch.commit({"a.py": "a = 1\n"})
    scratch.git("clone", "-q", "--bare", ".", str(tmp_path / "web.git"))
    bare = RepositoryContents.open(tmp_path / "web.git")
    assert bare.top is None
    assert bare.head() == commit
    assert not bare.is_dirty()
    assert bare.work_changes() == []
    assert [entry.path for entry in bare.entries(commit)] == ["a.py"]


def test_a_linked_work_tree_is_read_at_its_own_head(scratch, tmp_path):
    first = scratch.commit({"a.py": "a = 1\n"})
    scratch.commit({"a.py": "a = 2\n"})
    scratch.git("worktree", "add", "-q", str(tmp_path / "linked"), first)
    assert RepositoryContents.open(tmp_path / "linked").head() == first


def test_folder_without_git_is_refused_with_a_hint(tmp_path):
    with pytest.raises(InvalidInput) as refused:
        RepositoryContents.open(tmp_path)
    assert "git init" in refused.value.hint


def test_a_file_is_refused(tmp_path):
    (tmp_path / "a.txt").write_text("a")
    with pytest.raises(InvalidInput, match="not a folder"):
        RepositoryContents.open(tmp_path / "a.txt")


def test_without_git_on_the_machine_the_error_says_what_to_install(scratch, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(Unavailable) as refused:
        RepositoryContents.open(scratch.folder)
    assert "Install git" in refused.value.hint


def test_a_commit_resolves_from_branch_tag_and_short_id(scratch):
    commit = scratch.commit({"a.py": "a = 1\n"})
    scratch.git("tag", "v1")
    repository = RepositoryContents.open(scratch.folder)
    assert {repository.resolve(name) for name in ("main", "v1", commit[:8], "HEAD")} == {commit}


@pytest.mark.parametrize("name", ["nowhere", "0" * 40, "--output=x", "", "main\0", "HEAD:a.py"])
def test_what_names_no_commit_is_not_found(scratch, name):
    scratch.commit({"a.py": "a = 1\n"})
    with pytest.raises(NotFound):
        RepositoryContents.open(scratch.folder).resolve(name)
    assert not (scratch.folder / "x").exists()


def test_a_repository_without_commits_has_a_branch_but_no_head(scratch):
    repository = RepositoryContents.open(scratch.folder)
    assert repository.head() is None
    assert repository.branch() == "main"


def test_a_detached_head_has_no_branch(scratch):
    commit = scratch.commit({"a.py": "a = 1\n"})
    scratch.git("checkout", "-q", "--detach")
    repository = RepositoryContents.open(scratch.folder)
    assert repository.branch() is None
    assert repository.head() == commit


def test_files_links_and_submodules_are_told_apart(scratch, tmp_path):
    other = Scratch(tmp_path / "other")
    other.commit({"b.py": "b = 1\n"})
    scratch.commit({"a.py": "a = 1\n", "docs/two words.md": "# Two\n"})
    (scratch.folder / "link").symlink_to("/etc/passwd")
    scratch.git("submodule", "add", "-q", str(other.folder), "sub")
    commit = scratch.commit()
    found = {entry.path: (entry.kind, entry.size) for entry in RepositoryContents.open(scratch.folder).entries(commit)}
    assert found["a.py"] == ("file", 6)
    assert found["docs/two words.md"] == ("file", 6)
    assert found["link"] == ("symlink", 11)
    assert found["sub"] == ("submodule", 0)


def test_a_diff_tells_added_modified_deleted_and_renamed_files(scratch):
    long = "".join(f"line {n}\n" for n in range(40))
    before = scratch.commit({"kept.py": "a\n", "gone.py": "b\n", "old.py": long})
    scratch.git("rm", "-q", "gone.py")
    scratch.git("mv", "old.py", "new.py")
    after = scratch.commit({"kept.py": "c\n", "new.py": long + "more\n", "fresh.py": "d\n"})
    assert set(RepositoryContents.open(scratch.folder).diff(before, after)) == {
        TreeChange("added", "fresh.py", "fresh.py"),
        TreeChange("modified", "kept.py", "kept.py"),
        TreeChange("deleted", "gone.py", "gone.py"),
        TreeChange("renamed", "new.py", "old.py"),
    }


def test_changes_since_a_fork_leave_out_the_other_side(scratch):
    start = scratch.commit({"a.py": "a\n", "b.py": "b\n"})
    own = scratch.commit({"two words.py": "c\n"})
    scratch.git("checkout", "-q", "--detach", start)
    other = scratch.commit({"b.py": "d\n"})
    assert RepositoryContents.open(scratch.folder).changed_since_fork(other, own) == ["two words.py"]


def test_many_blobs_come_back_in_order_word_for_word(scratch):
    files = {f"f{n:03}.bin": os.urandom(n * 37) + b"\n\0\n" for n in range(150)}
    repository = RepositoryContents.open(scratch.folder)
    entries = list(repository.entries(scratch.commit(files)))
    read = {entry.path: data for entry, data in repository.blobs(entries)}
    assert read == files
    assert list(read) == [entry.path for entry in entries]


def test_a_missing_or_damaged_object_spoils_only_itself(scratch):
    repository = RepositoryContents.open(scratch.folder)
    commit = scratch.commit({f"f{n}.txt": f"text {n}\n" * 50 for n in range(5)})
    entries = list(repository.entries(commit))
    broken = scratch.folder / ".git/objects" / entries[2].blob[:2] / entries[2].blob[2:]
    broken.chmod(stat.S_IRUSR | stat.S_IWUSR)
    broken.write_bytes(broken.read_bytes()[:20] + b"\0" * 40)
    asked = [entries[0], TreeEntry("nowhere", "file", "0" * 40, 0), *entries[1:]]
    read = {entry.path: data for entry, data in repository.blobs(asked)}
    assert [path for path, data in read.items() if data is None] == ["nowhere", "f2.txt"]
    assert read["f4.txt"] == b"text 4\n" * 50


def test_a_repository_without_its_listing_is_unavailable_and_says_how_to_look_into_it(scratch):
    commit = scratch.commit({"a.py": "1\n"})
    tree = scratch.git("rev-parse", "HEAD^{tree}")
    (scratch.folder / ".git/objects" / tree[:2] / tree[2:]).unlink()
    with pytest.raises(Unavailable) as refused:
        RepositoryContents.open(scratch.folder).entries(commit)
    assert "git fsck" in refused.value.hint


def test_reading_blobs_may_stop_early(scratch):
    repository = RepositoryContents.open(scratch.folder)
    entries = repository.entries(scratch.commit({f"f{n}.txt": "x\n" * n for n in range(1, 9)}))
    reading = repository.blobs(entries)
    assert next(reading)[1] == b"x\n"
    reading.close()


def test_history_counts_changes_and_people_per_path(scratch):
    scratch.commit({"hot.py": "1\n", "cold.py": "1\n"})
    scratch.commit({"hot.py": "2\n"}, author="Bob")
    commit = scratch.commit({"hot.py": "3\n"}, author="Ada")
    hot, cold = often_changed(RepositoryContents.open(scratch.folder).history(commit))
    assert (hot.path, hot.changes, hot.authors) == ("hot.py", 3, 2)
    assert (cold.path, cold.changes, cold.authors) == ("cold.py", 1, 1)
    assert hot.last_changed == RepositoryContents.open(scratch.folder).committed_at(commit)


def test_files_that_commits_touch_together_are_paired_most_often_first(scratch):
    for number in range(3):
        scratch.commit(
            {"cart.py": f"{number}\n", "till.py": f"{number}\n", **({"doc.md": "1\n"} if not number else {})}
        )
    commit = scratch.commit({"cart.py": "9\n", "doc.md": "2\n", "gone.py": "1\n"})
    pairs = changed_together(RepositoryContents.open(scratch.folder).history(commit), {"cart.py", "till.py", "doc.md"})
    assert [(pair.one, pair.other, pair.commits) for pair in pairs] == [
        ("cart.py", "till.py", 3),
        ("cart.py", "doc.md", 2),
    ]
    assert pairs[1].last_changed == RepositoryContents.open(scratch.folder).committed_at(commit)


def test_a_commit_that_touches_very_many_files_says_nothing_of_which_belong_together(scratch):
    for number in range(3):
        commit = scratch.commit({f"f{at}.py": f"{number}\n" for at in range(31)})
    history = RepositoryContents.open(scratch.folder).history(commit)
    assert changed_together(history, {f"f{at}.py" for at in range(31)}) == []


def test_commits_tell_of_the_files_present_and_of_few_at_once(scratch):
    scratch.commit({"cart.py": "1\n", "gone.py": "1\n"}, message="Add the cart")
    scratch.commit({f"f{at}.py": "1\n" for at in range(31)}, message="Reformat everything")
    commit = scratch.commit({"notes.md": "1\n"}, message="Write notes")
    told = telling_commits(RepositoryContents.open(scratch.folder).history(commit), {"cart.py", "f1.py"})
    assert [(one.subject, one.paths) for one in told] == [("Add the cart", ("cart.py",))]


def test_a_merge_says_nothing_of_which_files_change_together(scratch):
    scratch.commit({"a.py": "1\n", "b.py": "1\n"})
    for number in range(2, 4):
        scratch.git("checkout", "-q", "-b", f"side{number}")
        scratch.commit({"a.py": f"{number}\n"})
        scratch.git("checkout", "-q", "-")
        scratch.commit({"b.py": f"{number}\n"})
        scratch.git("merge", "-q", "--no-ff", "-m", "merge", f"side{number}")
    commit = scratch.git("rev-parse", "HEAD").strip()
    assert changed_together(RepositoryContents.open(scratch.folder).history(commit), {"a.py", "b.py"}) == []


def test_in_a_shallow_clone_the_first_commit_is_no_change_and_hidden_commits_are_explained(scratch, tmp_path):
    first = scratch.commit({"a.py": "1\n", "b.py": "1\n"})
    scratch.commit({"a.py": "2\n"})
    commit = scratch.commit({"a.py": "3\n"})
    scratch.git("clone", "-q", "--depth=2", f"file://{scratch.folder}", str(tmp_path / "shallow"))
    shallow = RepositoryContents.open(tmp_path / "shallow")
    assert shallow.shallow
    assert [(one.path, one.changes) for one in often_changed(shallow.history(commit))] == [("a.py", 1)]
    with pytest.raises(NotFound) as refused:
        shallow.resolve(first)
    assert "--unshallow" in refused.value.hint


def test_a_partial_clone_says_that_its_files_are_elsewhere_and_fetches_nothing(scratch, tmp_path):
    commit = scratch.commit({"a.py": "1\n"})
    scratch.git("config", "uploadpack.allowFilter", "true")
    source = f"file://{scratch.folder}"
    scratch.git("clone", "-q", "--no-checkout", "--filter=blob:none", source, str(tmp_path / "partial"))
    with pytest.raises(Unavailable) as refused:
        list(RepositoryContents.open(tmp_path / "partial").entries(commit))
    assert "git fetch" in refused.value.hint


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://ada:s3cret@example.org/acme/web.git", "https://example.org/acme/web.git"),
        ("https://t0ken@example.org/acme/web?access=s3cret#x", "https://example.org/acme/web"),
        ("https://a@b:s3c@example.org/web", "https://example.org/web"),
        ("ssh://git@example.org:22/acme/web/", "ssh://example.org:22/acme/web"),
        ("git@example.org:acme/web.git", "example.org:acme/web.git"),
        ("/srv/git/web@2.git", "/srv/git/web@2.git"),
        ("file:///srv/web.git", "file:///srv/web.git"),
    ],
)
def test_a_remote_is_shown_without_credentials(scratch, url, shown):
    scratch.git("remote", "add", "backup", "https://example.org/backup.git")
    scratch.git("remote", "add", "origin", url)
    assert RepositoryContents.open(scratch.folder).remote() == shown
    assert without_credentials(shown) == shown


def test_without_origin_the_first_remote_counts_and_a_relative_one_is_made_absolute(scratch):
    assert RepositoryContents.open(scratch.folder).remote() is None
    scratch.git("remote", "add", "upstream", "../web.git")
    assert RepositoryContents.open(scratch.folder).remote() == (scratch.folder.parent / "web.git").as_posix()


def test_the_work_tree_tells_what_changed_was_added_and_is_gone(scratch):
    scratch.commit({"kept.py": "1\n", "edited.py": "1\n", "gone.py": "1\n", ".gitignore": "*.log\n"})
    repository = RepositoryContents.open(scratch.folder)
    assert not repository.is_dirty()
    scratch.write("edited.py", "2\n")
    scratch.write("new/fresh.py", "1\n")
    scratch.write("noise.log", "1\n")
    (scratch.folder / "gone.py").unlink()
    assert repository.is_dirty()
    found = {(change.path, change.deleted) for change in repository.work_changes()}
    assert found == {("edited.py", False), ("new/fresh.py", False), ("gone.py", True)}


def test_a_file_staged_as_deleted_and_written_again_is_there(scratch):
    scratch.commit({"a.py": "1\n"})
    scratch.git("rm", "-q", "--cached", "a.py")
    assert [change.deleted for change in RepositoryContents.open(scratch.folder).work_changes()] == [False]


def test_no_program_a_repository_names_is_run(scratch, tmp_path):
    marker = tmp_path / "it-ran"
    trap = scratch.write("trap.sh", f"#!/bin/sh\necho ran >> {marker}\ncat\n")
    trap.chmod(0o755)
    before = scratch.commit({"a.py": "1\n", ".gitattributes": "*.py filter=trap diff=trap\n"})
    after = scratch.commit({"a.py": "2\n"})
    scratch.write(".git/hooks/post-index-change", trap.read_text()).chmod(0o755)
    for key in (
        *("core.fsmonitor", "diff.external", "diff.trap.command", "diff.trap.textconv"),
        *("filter.trap.clean", "filter.trap.process", "gpg.program", "core.sshCommand", "core.pager"),
    ):
        scratch.git("config", key, str(trap))
    scratch.git("config", "filter.trap.required", "true")
    scratch.git("config", "log.showSignature", "true")
    scratch.write("a.py", "3\n")
    repository = RepositoryContents.open(scratch.folder)
    repository.diff(before, after)
    repository.history(after)
    repository.committed_at(after)
    list(repository.blobs(repository.entries(after)))
    assert repository.is_dirty()
    assert [change.path for change in repository.work_changes()] == ["a.py"]
    scratch.write("b.py", (scratch.folder / "a.py").read_text())
    (scratch.folder / "a.py").unlink()
    repository.renames_in_work_tree(after)
    assert not marker.exists()


def test_renames_in_the_work_tree_are_found_before_a_commit(scratch):
    lines = "".join(f"line {number}\n" for number in range(20))
    before = scratch.commit({"a.txt": lines, "b.txt": lines[:100], ".gitignore": "ignored/\n"})
    scratch.git("mv", "a.txt", "staged [1].txt")
    scratch.write("staged [1].txt", f"{lines}more\n")
    scratch.write("deep/unstaged \u00fc*.txt", f"{lines[:100]}more\n")
    (scratch.folder / "b.txt").unlink()
    scratch.write("ignored/b.txt", lines)
    index = (scratch.folder / ".git/index").read_bytes()
    moved = RepositoryContents.open(scratch.folder).renames_in_work_tree(before)
    assert moved == {"a.txt": "staged [1].txt", "b.txt": "deep/unstaged \u00fc*.txt"}
    assert (scratch.folder / ".git/index").read_bytes() == index


def test_renames_are_found_if_temporary_files_are_in_the_work_tree(scratch, monkeypatch):
    first = scratch.commit({"old.py": "".join(f"line_{number} = {number}\n" for number in range(20))})
    temporary = scratch.folder / "tmp"
    temporary.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    (scratch.folder / "old.py").rename(scratch.folder / "new.py")
    assert RepositoryContents.open(scratch.folder).renames_in_work_tree(first) == {"old.py": "new.py"}


def test_renames_are_found_next_to_a_nested_repository_and_in_a_sparse_checkout(scratch, tmp_path):
    lines = "".join(f"line {number}\n" for number in range(20))
    before = scratch.commit({"in/a.txt": lines, "out/b.txt": "left out\n"})
    scratch.git("sparse-checkout", "set", "in")
    scratch.git("mv", "in/a.txt", "in/c.txt")
    Scratch(scratch.folder / "in/nested").commit({"a.txt": lines})
    scratch.write("other/new.txt", "outside of the sparse checkout\n")
    assert RepositoryContents.open(scratch.folder).renames_in_work_tree(before) == {"in/a.txt": "in/c.txt"}


def test_a_work_tree_named_by_configuration_outside_the_folder_is_not_taken(scratch):
    scratch.commit({"a.py": "1\n"})
    scratch.write("../private.txt", "mine\n")
    scratch.git("config", "core.worktree", str(scratch.folder.parent))
    assert RepositoryContents.open(scratch.folder).top is None


def test_the_environment_of_a_hook_does_not_redirect_the_reading(scratch, tmp_path, monkeypatch):
    other = Scratch(tmp_path / "other")
    other.commit({"b.py": "1\n"})
    commit = scratch.commit({"a.py": "1\n"})
    monkeypatch.setenv("GIT_DIR", str(other.folder / ".git"))
    assert RepositoryContents.open(scratch.folder).head() == commit


def test_a_file_name_that_is_no_text_becomes_printable():
    assert printable(b"caf\xe9.py") == "caf\\xe9.py"
    assert printable("café\n\u202e.py".encode()) == "café\\n\\u202e.py"


@settings(max_examples=50)
@given(st.binary(max_size=40))
def test_any_file_name_becomes_one_printable_line_of_valid_text(name):
    shown = printable(name)
    assert shown == printable(name)
    assert len(shown.splitlines()) <= 1
    assert shown.encode("utf-8", "strict").decode() == shown


def test_packed_and_loose_refs_tags_and_refs_to_refs_resolve(scratch):
    first = scratch.commit({"a.py": "1\n"})
    scratch.git("tag", "-a", "-m", "One", "v1")
    scratch.git("branch", "old")
    scratch.git("pack-refs", "--all")
    second = scratch.commit({"a.py": "2\n"})
    scratch.git("symbolic-ref", "refs/remotes/origin/HEAD", "refs/heads/old")
    repository = RepositoryContents.open(scratch.folder)
    assert {name: repository.resolve(name) for name in ("v1", "old", "origin", "main", "HEAD", "main~1")} == {
        **dict.fromkeys(("v1", "old", "origin", "main~1"), first),
        **dict.fromkeys(("main", "HEAD"), second),
    }


def test_a_repository_that_borrows_its_objects_is_read(scratch, tmp_path):
    commit = scratch.commit({"a.py": "1\n"})
    scratch.git("clone", "-q", "--shared", ".", str(tmp_path / "one"))
    Scratch(tmp_path / "one").git("clone", "-q", "--shared", ".", str(tmp_path / "two"))
    repository = RepositoryContents.open(tmp_path / "two")
    assert [data for _, data in repository.blobs(repository.entries(commit))] == [b"1\n"]


def test_a_repository_with_long_object_ids_is_read(tmp_path):
    (tmp_path / "web").mkdir()
    subprocess.run(["git", "init", "-q", "--object-format=sha256", tmp_path / "web"], check=True)
    scratch = Scratch(tmp_path / "web")
    commit = scratch.commit({"a.py": "1\n"})
    repository = RepositoryContents.open(scratch.folder)
    assert len(commit) == 64
    assert repository.head() == commit
    assert [data for _, data in repository.blobs(repository.entries(commit))] == [b"1\n"]
    assert not repository.is_dirty()


def test_a_repository_apart_from_its_work_tree_is_read(scratch, tmp_path):
    scratch.commit({"a.py": "1\n"})
    scratch.git("init", "-q", "--separate-git-dir", str(tmp_path / "apart"))
    assert RepositoryContents.open(scratch.folder).top == scratch.folder
    assert RepositoryContents.open(tmp_path / "apart").top is None


def test_a_git_file_that_leads_nowhere_is_refused(tmp_path):
    (tmp_path / ".git").write_text("gitdir: nowhere\n")
    with pytest.raises(InvalidInput, match="not a git repository"):
        RepositoryContents.open(tmp_path)
    (tmp_path / ".git").write_text("nowhere\n")
    with pytest.raises(InvalidInput, match="does not name a git folder"):
        RepositoryContents.open(tmp_path)


def test_a_repository_is_seen_as_it_stood_when_it_was_opened(scratch):
    first = scratch.commit({"a.py": "1\n"})
    repository = RepositoryContents.open(scratch.folder)
    assert repository.head() == first
    scratch.commit({"a.py": "2\n"})
    assert repository.head() == first


def test_git_ends_with_the_work_it_is_for(scratch, tmp_path, monkeypatch):
    # Such as one that a pattern in a `.gitattributes` keeps busy: here one that never answers.
    scratch.commit({"a.py": "a = 1\n"})
    repository, folder, started = RepositoryContents.open(scratch.folder), tmp_path / "bin", tmp_path / "started"
    folder.mkdir()
    slow = folder / "git"
    slow.write_text(f"#!/bin/sh\necho $$ > {started}\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    def end_once_it_runs():
        if started.exists():
            raise TimedOut("The call took too long.")

    with pytest.raises(TimedOut), interruptible(end_once_it_runs):
        repository.head()
    with pytest.raises(ProcessLookupError):
        os.kill(int(started.read_text()), 0)


def test_git_gets_all_of_a_large_input_however_slowly_it_reads(tmp_path, monkeypatch):
    monkeypatch.setattr("treering.sources.git.process._LOOKING_SECONDS", 0.001)
    text = b"x" * 20_000_000
    done = run_git(("hash-object", "--stdin"), isolated_environment(), folder=tmp_path, given=text, seconds=60)
    blob = hashlib.sha1(b"blob %d\0" % len(text) + text, usedforsecurity=False)
    assert done.stdout.decode().strip() == blob.hexdigest()
