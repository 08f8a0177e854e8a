"""Files are read below the folder that was named, and nowhere else, also where a repository leads elsewhere."""

import os
from pathlib import Path

import pytest
from attacks.hostile_repositories import SECRET, WAYS_OUT, git, private, repository, way_out
from git_scratch import Scratch

from treering.core.errors import Denied, InvalidInput, TreeringError
from treering.extensions.code.repository.repo import RepoAdapter
from treering.ports.adapter import AlreadyRead, FileAccess, NoFiles, ReadLimits, SourceDraft
from treering.sources.path import PathAdapter
from treering.sources.reading.access import AnyFile, FilesBelow, files_below, files_of_server

OPTIONS = ({}, {"worktree": True})
# Without a root these lead nowhere, or to less than a text: to an id, to names of files, to an address.
_TOLD_LESS = {"core.worktree", "a linked ref", "a linked index", "a linked configuration"}
_ONLY_WITH_A_ROOT = {"alternates in quotation marks", "alternates named beside a link"}


def readings(target: Path | str, access: FileAccess, **options: bool) -> list[SourceDraft]:
    adapter = RepoAdapter(access=access)
    adapter.origin(str(target))
    found = adapter.read(str(target), known=AlreadyRead(), limits=ReadLimits(), options=options)
    return [one for one in found if isinstance(one, SourceDraft)]


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", [name for name in WAYS_OUT if name != "core.worktree"])
@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_repository_that_leads_out_of_the_root_is_denied(tmp_path, name, options):
    way = way_out(tmp_path, WAYS_OUT[name])
    with pytest.raises(Denied) as denied:
        readings(way.target, files_below(way.root), **options)
    assert str(way.root) in denied.value.message
    assert denied.value.hint


@pytest.mark.parametrize("name", [name for name in WAYS_OUT if name not in _TOLD_LESS | _ONLY_WITH_A_ROOT])
def test_without_a_root_the_same_repository_is_read_as_git_reads_it(tmp_path, name):
    way = way_out(tmp_path, WAYS_OUT[name])
    assert SECRET in repr(readings(way.target, AnyFile()))


def test_the_denial_names_what_leads_where(tmp_path):
    way = way_out(tmp_path, WAYS_OUT["alternates"])
    with pytest.raises(Denied) as denied:
        readings(way.target, files_below(way.root))
    assert denied.value.message.startswith(
        f"{way.target}/.git/objects/info/alternates points to {tmp_path}/outside/0/private"
    )


def test_a_work_tree_named_elsewhere_is_not_looked_at(tmp_path):
    way = way_out(tmp_path, WAYS_OUT["core.worktree"])
    assert SECRET not in repr(readings(way.target, files_below(way.root)))
    with pytest.raises(InvalidInput, match=r"core\.worktree"):
        readings(way.target, files_below(way.root), worktree=True)
    with pytest.raises(InvalidInput, match=r"core\.worktree"):
        readings(way.target, AnyFile(), worktree=True)


def test_a_repository_above_the_root_is_not_read(tmp_path):
    scratch = Scratch(tmp_path / "web")
    scratch.commit({"docs/a.md": "# A\n"})
    with pytest.raises(Denied):
        readings(".", files_below(scratch.folder / "docs"))
    assert readings("docs", files_below(scratch.folder))


def test_what_is_below_the_root_may_point_within_it(tmp_path):
    scratch = Scratch(tmp_path / "web")
    scratch.commit({"a.md": f"# A\n\n{SECRET}\n"})
    scratch.git("init", "-q", "--separate-git-dir", str(tmp_path / "apart"))
    scratch.git("worktree", "add", "-q", str(tmp_path / "linked"))
    scratch.git("clone", "-q", "--shared", ".", str(tmp_path / "shared"))
    for folder in ("web", "linked", "shared", "apart"):
        for options in OPTIONS if folder != "apart" else OPTIONS[:1]:
            assert SECRET in repr(readings(folder, files_below(tmp_path), **options))


def test_a_root_that_is_a_link_is_the_folder_it_leads_to(tmp_path):
    repository(tmp_path / "one" / "web")
    (tmp_path / "link").symlink_to(tmp_path / "one")
    access = files_below(tmp_path / "link")
    assert readings("web", access)
    assert readings(tmp_path / "link" / "web", access)
    with pytest.raises(InvalidInput):
        files_below(tmp_path / "nowhere")


def test_the_git_folder_itself_as_root_gives_no_work_tree(tmp_path):
    web = repository(tmp_path / "web")
    access = files_below(web / ".git")
    assert readings(".", access)
    with pytest.raises(InvalidInput):
        readings(".", access, worktree=True)


def test_a_repository_within_another_is_denied_where_it_leads_out(tmp_path):
    hidden = private(tmp_path)
    web = repository(tmp_path / "root" / "web")
    git(web, "-c", "protocol.file.allow=always", "submodule", "add", "-q", str(hidden), "sub")
    assert SECRET in repr(readings(web / "sub", files_below(tmp_path / "root")))
    with pytest.raises(Denied):
        readings(".", files_below(web / "sub"))


@pytest.mark.parametrize("target", ["../secret.txt", "link.txt", "/", "\x00", "~", "no-such-user/../../secret.txt"])
def test_a_path_out_of_the_root_is_denied(tmp_path, target):
    (tmp_path / "root").mkdir()
    (tmp_path / "secret.txt").write_text(SECRET)
    (tmp_path / "root" / "link.txt").symlink_to(tmp_path / "secret.txt")
    adapter = PathAdapter(access=files_below(tmp_path / "root"))
    with pytest.raises(Denied):
        adapter.origin(target)
    with pytest.raises(Denied):
        adapter.count(target, {})
    with pytest.raises(Denied):
        adapter.read(target, known=AlreadyRead(), limits=ReadLimits(), options={})


def test_where_no_files_are_read_every_path_is_denied(tmp_path):
    repository(tmp_path / "web")
    for adapter in (PathAdapter(access=NoFiles()), RepoAdapter(access=NoFiles())):
        with pytest.raises(Denied, match="may not read files"):
            adapter.origin(str(tmp_path / "web"))


def test_a_server_reads_below_the_folder_it_is_started_in_unless_that_holds_all_a_person_has(tmp_path, monkeypatch):
    home = tmp_path / "home" / "ada"
    (home / "web").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("USERPROFILE", str(home))
    assert files_of_server(None, home / "web") == FilesBelow(home / "web")
    assert files_of_server(None, tmp_path / "elsewhere") == FilesBelow(tmp_path / "elsewhere")
    for much in (home, tmp_path / "home", Path(home.anchor)):
        assert files_of_server(None, much) == NoFiles()
        assert files_of_server(much, home / "web") == FilesBelow(much)


@pytest.mark.parametrize("access", [AnyFile(), FilesBelow(Path(os.sep))], ids=["any", "below"])
def test_a_loop_of_links_is_refused(tmp_path, access):
    (tmp_path / "web").mkdir()
    (tmp_path / "web" / ".git").symlink_to(tmp_path / "web" / ".git")
    with pytest.raises(TreeringError):
        readings(tmp_path / "web", access)


@pytest.mark.skipif(os.name == "nt", reason="file systems that refuse such names")
def test_a_denial_is_one_line_of_text_whatever_the_names_are(tmp_path):
    outside = Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9 \x1b[31m\n"))
    outside.mkdir()
    (tmp_path / "root" / "web").mkdir(parents=True)
    (tmp_path / "root" / "web" / ".git").symlink_to(outside)
    with pytest.raises(Denied) as denied:
        readings("web", files_below(tmp_path / "root"))
    assert "caf\\xe9 \\x1b[31m\\n" in denied.value.message
    assert denied.value.message.isprintable()
