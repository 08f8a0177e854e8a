"""The old path of a renamed file leads to the new one."""

import pytest

from sources.git_scratch import Scratch
from space_parts import open_space
from treering.core.errors import NotFound

RETRY = "# Retry\n\nLIMIT = 3\n\nWAIT = 9\n"


@pytest.fixture
def repository(tmp_path):
    made = Scratch(tmp_path / "acme")
    made.commit({"retry.py": RETRY, "README.md": "# Acme\n"})
    return made


@pytest.fixture
def space(repository):
    with open_space() as opened:
        here = opened.asked_from(repository.folder)
        here.ingest("repo", input={"path": str(repository.folder)})
        yield here


def hint(space, place):
    with pytest.raises(NotFound) as refused:
        space.decide("Calls are limited", because=[place])
    return refused.value.hint


@pytest.mark.parametrize("place", ["retry.py", "retry.py:3"])
@pytest.mark.parametrize("edit", ["", "TOTAL = 5\n"])
def test_old_path_names_the_new_one(space, repository, place, edit):
    repository.git("mv", "retry.py", "limits.py")
    repository.commit({"limits.py": RETRY + edit})
    space.ingest("repo", input={"path": str(repository.folder)})
    assert hint(space, place) == 'It was renamed to "limits.py".'


def test_path_before_two_renames_names_the_last(space, repository):
    for old, new in [("retry.py", "second.py"), ("second.py", "third.py")]:
        repository.git("mv", old, new)
        repository.commit()
    space.ingest("repo", input={"path": str(repository.folder)})
    assert hint(space, "retry.py") == 'It was renamed to "third.py".'


def test_path_of_a_file_deleted_before_it_was_read_names_none(space, repository):
    repository.commit({"gone.py": "X = 1\n"})
    repository.git("rm", "-q", "gone.py")
    repository.commit()
    assert "renamed" not in hint(space, "gone.py")


@pytest.mark.parametrize("name", ["a\0b.py", "../retry.py", "/retry.py", ":(glob)*.py", "-x.py"])
def test_odd_names_are_unknown_paths(space, name):
    assert "renamed" not in hint(space, name)


def test_file_renamed_since_it_was_read_is_shown_with_its_new_path(space, repository):
    repository.git("mv", "retry.py", "limits.py")
    report = space.query("page", input={"name": "retry.py"})
    assert "the file was renamed to limits.py" in str(report)
