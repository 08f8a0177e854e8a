import os
import subprocess
import sys
from pathlib import Path

import pytest

from sources.git_scratch import Scratch
from treering.core.errors import InvalidInput
from treering.retrieval.text.time_zones import parse_zone
from treering.system.address import file_address
from treering.system.settings import Settings

HERE = Path("/home/ada/project")


def settings(folder=HERE, **given):
    return Settings.read({f"TREERING_{name.upper()}": value for name, value in given.items()}, folder=folder)


def test_without_an_environment_there_are_defaults():
    found = settings()
    assert (found.space, found.anchor, found.policy, found.threads) == ("", "", "", 1)
    assert found.background
    assert not found.underscore_names
    assert found.actor


def test_every_setting_has_its_variable():
    found = settings(space="team", data_dir="/data", actor="ada", anchor="/a", policy="/p", background="0", threads="4")
    assert (found.space, found.data_dir, found.actor, found.anchor) == ("team", Path("/data"), "ada", "/a")
    assert (found.policy, found.background, found.threads) == ("/p", False, 4)


@pytest.mark.parametrize(("text", "on"), [("0", False), ("false", False), ("No", False), ("off", False), ("1", True)])
def test_switches_understand_what_people_write(text, on):
    assert settings(background=text).background is on
    assert settings(mcp_underscore=text).underscore_names is on


@pytest.mark.parametrize("threads", ["0", "-1", "65", "many", "1.5"])
def test_a_number_of_threads_that_makes_no_sense_is_refused(threads):
    with pytest.raises(InvalidInput) as caught:
        settings(threads=threads)
    assert f"1 to 64, not {threads!r}" in caught.value.message


def test_named_spaces_live_under_the_data_folder():
    assert settings(data_dir="/data").space_address("team-1") == file_address("/data/team-1.db")
    assert Settings.read({"XDG_DATA_HOME": "/xdg"}, folder=HERE).data_dir == Path("/xdg/treering")


@pytest.mark.parametrize("address", [":memory:", "sqlite:/x/y.db", "mongodb://host/x"])
def test_addresses_stay_as_they_are(address):
    assert str(settings(data_dir="/data").space_address(address)) == address


@pytest.mark.parametrize("path", ["./space.db", "a/b", "space.db"])
def test_paths_stay_as_they_are(path):
    assert settings(data_dir="/data").space_address(path) == file_address(path)


def test_what_is_requested_comes_before_the_variable_and_that_before_the_folder():
    assert settings(space="sqlite:/env.db").space_address("sqlite:/mine.db") == file_address("/mine.db")
    assert settings(space="sqlite:/env.db").space_address() == file_address("/env.db")
    assert settings().space_address() == settings().own_space == file_address(HERE / ".treering/treering.db")


def test_the_nearest_folder_that_holds_a_space_is_used(tmp_path):
    (tmp_path / ".treering").mkdir()
    (tmp_path / ".treering" / "treering.db").touch()
    deeper = tmp_path / "a" / "b"
    (deeper / ".treering").mkdir(parents=True)  # holds no space
    assert settings(folder=deeper).space_address() == file_address(tmp_path / ".treering/treering.db")


def test_a_password_in_the_environment_is_not_printed_with_the_settings():
    found = settings(space="postgres://ada:hunter2@db/x")
    assert "hunter2" not in repr(found)
    assert found.space_address().password == "hunter2"


# The space of a folder inside git: one for a repository, wherever its work trees lie.


@pytest.fixture
def repository(tmp_path):
    found = Scratch(tmp_path / "main")
    found.commit({"src/app.py": "x = 1\n"})
    return found


def space_at(folder, **environment):
    return Settings.read(environment, folder=folder).space_choice()


def touch(address):
    address.file.parent.mkdir(parents=True, exist_ok=True)
    address.file.touch()


def test_all_work_trees_of_a_repository_use_one_space_wherever_they_are(repository, tmp_path):
    repository.git("worktree", "add", "-q", "-b", "feature/x", str(tmp_path / "elsewhere" / "x"))
    main = file_address(repository.folder / ".treering/treering.db")
    assert space_at(repository.folder / "src").address == main  # to be made
    touch(main)
    for folder in (repository.folder / "src", tmp_path / "elsewhere/x", tmp_path / "elsewhere/x/src"):
        assert space_at(folder).address == main
    assert str(repository.folder / ".git") in space_at(tmp_path / "elsewhere/x").why


def test_a_work_tree_that_is_removed_takes_no_memory_along(repository, tmp_path):
    repository.git("worktree", "add", "-q", "-b", "x", str(tmp_path / "x"))
    chosen = space_at(tmp_path / "x").address
    touch(chosen)
    repository.git("worktree", "remove", "--force", str(tmp_path / "x"))
    assert chosen.file.is_file()


def test_a_space_of_a_work_tree_of_its_own_goes_on_working(repository, tmp_path):
    repository.git("worktree", "add", "-q", "-b", "x", str(tmp_path / "x"))
    touch(file_address(repository.folder / ".treering/treering.db"))
    own = file_address(tmp_path / "x/.treering/treering.db")
    touch(own)
    assert space_at(tmp_path / "x/src").address == own


def test_a_space_above_a_repository_without_one_goes_on_working(repository, tmp_path):
    above = file_address(tmp_path / ".treering/treering.db")
    touch(above)
    assert space_at(repository.folder / "src").address == above
    repository.git("worktree", "add", "-q", "-b", "x", str(tmp_path / "inside"))
    touch(file_address(repository.folder / ".treering/treering.db"))
    assert space_at(tmp_path / "inside").address == file_address(repository.folder / ".treering/treering.db")


def test_a_bare_repository_and_its_work_trees_have_their_space_in_its_git_folder(repository, tmp_path):
    repository.git("clone", "-q", "--bare", str(repository.folder), str(tmp_path / "shared.git"))
    repository.git("--git-dir", str(tmp_path / "shared.git"), "worktree", "add", "-q", str(tmp_path / "w"), "-b", "w")
    inside = file_address(tmp_path / "shared.git/treering/treering.db")
    assert space_at(tmp_path / "shared.git").address == inside
    assert space_at(tmp_path / "w/src").address == inside


def test_a_submodule_is_a_repository_of_its_own(repository, tmp_path):
    outer = Scratch(tmp_path / "outer")
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository.folder), "parts/inner")
    assert space_at(outer.folder / "parts/inner").address == file_address(
        outer.folder / ".git/modules/parts/inner/treering/treering.db"
    )


def test_the_repository_that_git_names_for_a_hook_is_the_one_that_counts(repository, tmp_path):
    repository.git("worktree", "add", "-q", "-b", "x", str(tmp_path / "x"))
    main = file_address(repository.folder / ".treering/treering.db")
    named = {"GIT_DIR": str(repository.folder / ".git/worktrees/x")}
    assert space_at(tmp_path / "x", **named).address == main
    assert (
        space_at(tmp_path, GIT_DIR=str(repository.folder / ".git"), GIT_WORK_TREE=str(repository.folder)).address
        == main
    )
    assert space_at(repository.folder, GIT_DIR=".git").address == main


def test_a_git_folder_that_is_none_is_passed_over(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "a/.git").write_text("gitdir: /nowhere\n")
    assert space_at(tmp_path / "a").address == file_address(tmp_path / "a/.treering/treering.db")


def test_settings_are_read_without_heavy_modules():
    code = (
        "import sys; from treering.system.settings import Settings; Settings.read(); print('pydantic' in sys.modules)"
    )

    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert told.stdout.strip() == "False"


@pytest.mark.parametrize("name", ["Pacific/Kiritimati", "-08:00", ""])
def test_setting_of_the_time_zone_is_read(name):
    assert Settings.read({"TREERING_TIMEZONE": name}).time_zone == parse_zone(name)


# What leads elsewhere: a folder that came from others must not choose the space of another one.


@pytest.fixture
def clone(repository, tmp_path):
    """A folder from others, beside a repository with a space and a work tree."""
    touch(file_address(repository.folder / ".treering/treering.db"))
    repository.git("worktree", "add", "-q", "-b", "x", str(tmp_path / "x"))
    (tmp_path / "clone/deep").mkdir(parents=True)
    return tmp_path / "clone"


def link_space(clone, main):
    (clone / ".treering").symlink_to(main / ".treering")


def link_space_file(clone, main):
    (clone / ".treering").mkdir()
    (clone / ".treering/treering.db").symlink_to(main / ".treering/treering.db")


def link_to_no_space_yet(clone, main):
    Scratch(clone)
    (clone / ".treering").symlink_to(main / "src")


def link_git(clone, main):
    (clone / ".git").symlink_to(main / ".git")


def git_file(clone, main):
    (clone / ".git").write_text(f"gitdir: {main}/.git\n")


def git_file_to_work_tree(clone, main):
    (clone / ".git").write_text(f"gitdir: {main}/.git/worktrees/x\n")


def link_git_file(clone, main):
    (clone / ".git").symlink_to(main.parent / "x/.git")


def hard_link_git_file(clone, main):
    (clone / ".git").hardlink_to(main.parent / "x/.git")


def common_folder(clone, main):
    Scratch(clone)
    (clone / ".git/commondir").write_text(f"{main}/.git\n")


def common_folder_of_bare(clone, main):
    for name in ("objects", "refs"):
        (clone / name).mkdir()
    (clone / "HEAD").write_text("ref: refs/heads/main\n")
    (clone / "commondir").write_text("../main/.git\n")


def git_file_to_own_folder(clone, main):
    Scratch(clone / "deep")
    (clone / "deep/.git").rename(clone / "git")
    (clone / "git/config").write_text("[core]\n[[[\n\tworktree = /nowhere\n" * 1_000)
    (clone / "git/commondir").write_text(f"{main}/.git\n")
    (clone / ".git").write_text("gitdir: git\n")


LEADING = (
    *(link_space, link_space_file, link_to_no_space_yet, link_git, git_file, git_file_to_work_tree, link_git_file),
    *(hard_link_git_file, common_folder, common_folder_of_bare, git_file_to_own_folder),
)


@pytest.mark.parametrize("lead", LEADING)
def test_a_folder_that_leads_to_another_space_is_refused(clone, repository, lead):
    lead(clone, repository.folder)
    for folder in (clone, clone / "deep"):
        with pytest.raises(InvalidInput, match=r"outside|does not list it") as caught:
            space_at(folder)
        assert "TREERING_SPACE" in caught.value.hint
        named = str(repository.folder / ".treering/treering.db")
        assert space_at(folder, TREERING_SPACE=named).address == file_address(named)
    with pytest.raises(InvalidInput, match=r"outside|does not list it"):
        _ = Settings.read({}, folder=clone).new_space


def test_links_within_a_repository_go_on_working(clone, repository, tmp_path):
    tree = tmp_path / "x"
    (tree / ".treering").symlink_to(repository.folder / ".treering")
    assert space_at(tree).address.file.samefile(repository.folder / ".treering/treering.db")
    (repository.folder / "src/.treering").symlink_to("../.treering")
    assert space_at(repository.folder / "src").address == file_address(repository.folder / "src/.treering/treering.db")
    (tmp_path / "by link").symlink_to(repository.folder)
    assert space_at(tmp_path / "by link/src").address.file.samefile(repository.folder / ".treering/treering.db")


def test_a_git_folder_elsewhere_works_if_it_names_its_work_tree(tmp_path):
    here = Scratch(tmp_path / "here")
    here.git("init", "-q", "--separate-git-dir", str(tmp_path / "there"))
    with pytest.raises(InvalidInput, match="does not list it"):
        space_at(here.folder)
    here.git("config", "core.worktree", str(here.folder))
    assert space_at(here.folder).address == file_address(tmp_path / "there/treering/treering.db")


def test_a_submodule_with_configuration_of_its_own_goes_on_working(repository, tmp_path):
    outer = Scratch(tmp_path / "outer")
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository.folder), "inner")
    inner = Scratch(outer.folder / "inner")
    place = file_address(outer.folder / ".git/modules/inner/treering/treering.db")
    for command in (["sparse-checkout", "set", "src"], ["worktree", "add", "-q", "-b", "y", str(tmp_path / "y")]):
        inner.git(*command)
        assert space_at(inner.folder).address == place
    assert space_at(tmp_path / "y").address == place


@pytest.mark.skipif(os.name != "posix", reason="owners of POSIX")
@pytest.mark.parametrize(("mode", "refused"), [(0o1777, True), (0o777, True), (0o2775, False), (0o755, False)])
def test_a_space_of_another_user_is_refused_where_all_can_write(tmp_path, monkeypatch, mode, refused):
    above = file_address(tmp_path / "tmp/.treering/treering.db")
    touch(above)
    (tmp_path / "tmp/mine").mkdir()
    (tmp_path / "tmp").chmod(mode)
    assert space_at(tmp_path / "tmp/mine").address == above
    owner = above.file.stat().st_uid
    if owner == 0:
        os.chown(above.file, 4_321, -1)
    else:
        monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    if refused:
        with pytest.raises(InvalidInput, match="belongs to another user"):
            space_at(tmp_path / "tmp/mine")
    else:
        assert space_at(tmp_path / "tmp/mine").address == above
