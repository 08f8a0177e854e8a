from pathlib import Path

import client_parts
import pytest

from treering.client import BlockingMemoryClient, MemoryConfig, MemorySystemClient
from treering.testing import HashingEmbedder

pytestmark = pytest.mark.usefixtures("own_folder")


@pytest.fixture
def folders(tmp_path):
    """Two repositories, and a folder that is none."""
    for name in ("flask", "typer", "notes"):
        (tmp_path / name / "src").mkdir(parents=True)
    for name in ("flask", "typer"):
        git = tmp_path / name / ".git"
        for part in ("objects", "refs"):
            (git / part).mkdir(parents=True)
        (git / "HEAD").write_text("ref: refs/heads/main\n")
    return tmp_path


@pytest.fixture
def stored_in(monkeypatch):
    """Store and recall in a folder by a client of its own, and return the memories and the file they are in."""

    def store(folder, text, **config):
        monkeypatch.chdir(folder)
        with client_parts.blocking(MemoryConfig.read(config)) as client:
            client.store(text)
            found = client.retrieve("note", profile=client_parts.EVERYTHING)
            return sorted(client_parts.texts(found)), Path(client.config.sqlite.path)

    return store


def test_each_project_has_a_file_of_its_own(folders, stored_in):
    assert stored_in(folders / "flask", "Note of Flask")[0] == ["Note of Flask"]
    assert stored_in(folders / "typer", "Note of Typer")[0] == ["Note of Typer"]
    assert stored_in(folders / "notes", "Note of notes")[0] == ["Note of notes"]


def test_programs_of_one_project_share_its_file(folders, stored_in):
    _, file = stored_in(folders / "flask", "Note one")
    assert stored_in(folders / "flask" / "src", "Note two") == (["Note one", "Note two"], file)
    assert file.is_file()
    assert file.parent == folders / "data" / "memories"
    assert file.name.startswith("flask-")


def test_a_treering_folder_marks_a_project_outside_git(folders, stored_in):
    (folders / "notes" / ".treering").mkdir()
    _, file = stored_in(folders / "notes" / "src", "Note one")
    assert stored_in(folders / "notes", "Note two") == (["Note one", "Note two"], file)


def test_the_shared_file_of_earlier_versions_is_found(folders, stored_in):
    stored_in(folders / "flask", "Note of old", sqlite={"path": "memory"})
    found, file = stored_in(folders / "typer", "Note of new")
    assert found == ["Note of new", "Note of old"]
    assert file == folders / "data" / "memory.db"


def test_a_project_does_not_name_the_file_of_another(folders, stored_in):
    _, file = stored_in(folders / "flask", "Note of Flask")
    (folders / "notes" / ".git").write_text(f"gitdir: {folders / 'flask' / '.git'}\n")
    found, other = stored_in(folders / "notes", "Note of notes")
    assert (found, other == file) == (["Note of notes"], False)


def test_projects_may_have_other_embedding_models(folders, stored_in, monkeypatch):
    stored_in(folders / "flask", "Note of Flask")
    monkeypatch.chdir(folders / "typer")
    with BlockingMemoryClient(background=False, embedder=HashingEmbedder(64)) as client:
        client.store("Note of Typer")
        assert client_parts.texts(client.retrieve("Note")) == ["Note of Typer"]


def test_a_client_keeps_its_file_in_another_folder(folders, monkeypatch):
    monkeypatch.chdir(folders / "flask")
    client = MemorySystemClient(background=False)
    monkeypatch.chdir(folders / "typer")
    pickled = client.sync.pickled[0]
    assert Path(pickled.sqlite.path).name.startswith("flask-")
    client.sync.store("Note of Flask")
    client.sync.close()
    assert Path(pickled.sqlite.path).is_file()


def test_disabled_client_resolves_no_file(folders, monkeypatch):
    monkeypatch.chdir(folders / "flask")
    assert BlockingMemoryClient({"enabled": False}).config.sqlite.path is None
    assert BlockingMemoryClient({"backend": "in_memory"}).config.sqlite.path is None
    assert BlockingMemoryClient({"sqlite": {"path": "own"}}).config.sqlite.path == "own"
