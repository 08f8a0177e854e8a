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


def retry_notes(space):
    """Return by place the notes of the hits of a search."""
    hits = space.query("search", input={"text": "LIMIT retry WAIT"}).hits
    return {hit.place.partition("#")[0]: (hit.note, hit.current) for hit in hits if hit.first_line}


@pytest.mark.parametrize("commit", [False, True])
@pytest.mark.parametrize("branch", ["", "unread"])
@pytest.mark.parametrize(
    ("new", "edit", "note"),
    [
        ("limits.py", "", ("renamed to limits.py", True)),
        ("limits.py", "MORE = 1\n", ("renamed to limits.py", True)),
        ("", "", ("changed since: retry.py is no longer in the work tree", False)),
        ("retry.py", "MORE = 1\n", ("", True)),
    ],
)
def test_search_marks_files_that_left_their_path(space, repository, branch, commit, new, edit, note):
    if branch:
        repository.git("checkout", "-q", "-b", branch)
    (repository.folder / "retry.py").unlink()
    if new:
        (repository.folder / new).write_text(RETRY + edit)
    if commit:
        repository.commit()
    assert retry_notes(space)["retry.py"] == note


def test_unread_branch_leaves_out_files_that_others_added(space, repository):
    first = repository.git("rev-parse", "HEAD")
    repository.commit({"later.py": "RETRY_LIMIT = WAIT = 3\n"})
    space.ingest("repo", input={"path": str(repository.folder)})
    repository.git("checkout", "-q", "-b", "unread", first)
    repository.commit({"retry.py": RETRY + "MORE = 1\n"})
    assert retry_notes(space) == {"retry.py": ("", True)}


def test_context_marks_renamed_files(space, repository):
    repository.git("mv", "retry.py", "limits.py")
    pack = space.query("context", input={"task": "Change the retry LIMIT and WAIT"}).pack
    assert [one.flags for one in pack.items if one.title.startswith("retry.py")] == [("renamed to limits.py",)]
