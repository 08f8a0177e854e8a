from pathlib import Path

import pytest

from treering.core.errors import InvalidInput
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


@pytest.mark.parametrize("threads", ["0", "-1", "65", "many", "1.5", ""])
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


def test_what_is_asked_for_comes_before_the_variable_and_that_before_the_folder():
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
