from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

import treering
from treering.core.errors import InvalidInput, TreeringError, UnknownProject
from treering.extensions.projects.spaces import ProjectSpaces
from treering.testing.fakes import HashingEmbedder


@pytest.fixture
def spaces(tmp_path):
    opened = ProjectSpaces(tmp_path / "projects", background=False, embedder=HashingEmbedder(), most_open=2)
    yield opened
    opened.close()


def is_open(engine):
    try:
        engine.ledger.sequence()
    except TreeringError:
        return False
    return True


def test_each_project_is_a_file_of_its_own(spaces, tmp_path):
    for project in ("acme", "other.one"):
        with spaces.engine(project) as engine:
            assert engine.ledger.sequence() == 0
    assert {file.name for file in (tmp_path / "projects").glob("*.db")} == {"acme.db", "other.one.db"}


def test_a_project_stays_open_between_two_uses(spaces):
    with spaces.engine("acme") as first, spaces.engine("acme") as second:
        assert first is second
    with spaces.engine("acme") as third:
        assert third is first


def test_the_projects_longest_unused_are_closed(spaces):
    engines = {}
    for project in ("a", "b", "a", "c"):
        with spaces.engine(project) as engine:
            engines[project] = engine
    assert {project: is_open(engine) for project, engine in engines.items()} == {"a": True, "b": False, "c": True}
    with spaces.engine("b") as again:
        assert is_open(again)


def test_a_project_in_use_is_not_closed_however_many_there_are(spaces):
    with spaces.engine("a") as first:
        for project in ("b", "c", "d"):
            with spaces.engine(project):
                assert is_open(first)


def test_closing_waits_for_whoever_uses_a_project_and_lends_no_more(spaces):
    with spaces.engine("a") as engine:
        spaces.close()
        assert is_open(engine)
        with pytest.raises(InvalidInput, match="closed"), spaces.engine("a"):
            pass
    assert not is_open(engine)


def test_a_project_that_could_not_be_opened_can_be_opened_later(spaces, tmp_path):
    (tmp_path / "projects").mkdir()
    (tmp_path / "projects" / "acme.db").write_text("this is not a database, whatever it says " * 40)
    for _ in range(2):
        with pytest.raises(TreeringError), spaces.engine("acme"):
            pass
    (tmp_path / "projects" / "acme.db").unlink()
    with spaces.engine("acme") as engine:
        assert is_open(engine)


@pytest.mark.parametrize("project", ["../acme", "a/b", "", "x" * 65, "a..b"])
def test_no_project_id_leaves_the_folder(spaces, project, tmp_path):
    with pytest.raises(InvalidInput, match="project_id"), spaces.engine(project):
        pass
    assert list(tmp_path.iterdir()) == []


def test_missing_project_is_not_created_by_a_read(spaces, tmp_path):
    with pytest.raises(UnknownProject, match="'acme'") as unknown, spaces.engine("acme", create=False):
        pass
    assert "index something" in unknown.value.hint
    assert list(tmp_path.iterdir()) == []
    with spaces.engine("acme") as made, spaces.engine("acme", create=False) as found:
        assert found is made


def test_asking_for_projects_that_are_not_there_closes_none_that_is_open(spaces):
    with spaces.engine("acme") as first:
        pass
    for n in range(5):
        with pytest.raises(UnknownProject), spaces.engine(f"no-{n}", create=False):
            pass
    assert is_open(first)


def test_each_project_keeps_the_head_of_its_audit_log_in_a_file_of_its_own(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_ANCHOR", str(tmp_path / "elsewhere" / "anchor"))
    for _ in range(2):
        with treering.open_projects(tmp_path, background=False, embedder=HashingEmbedder()) as memory:
            for project in ("acme", "other.one"):
                memory.index(project, ["A note.", f"A note of {project}."])
                with memory.engine(project) as engine:
                    assert engine.ledger.verify()
    assert {file.name for file in (tmp_path / "elsewhere").iterdir()} == {"anchor.acme", "anchor.other.one"}


def test_many_threads_use_many_projects_at_once(tmp_path):
    everybody = Barrier(4)
    with treering.open_projects(tmp_path, background=False, embedder=HashingEmbedder(), most_open=1) as memory:

        def work(number):
            everybody.wait(30)
            for n in range(6):
                memory.index(f"p{(number + n) % 3}", [f"Note {n} of thread {number}."])

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        kept = [memory.retrieve(f"p{n}", ["note of thread"], 50)[0]["docs"] for n in range(3)]
    assert sorted(doc for docs in kept for doc in docs) == sorted(
        f"Note {n} of thread {number}." for n in range(6) for number in range(4)
    )


def test_projects_default_to_the_data_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("TREERING_DATA_DIR", str(tmp_path / "data"))
    with treering.open_projects(background=False, embedder=HashingEmbedder()) as memory:
        memory.index("acme", ["A note."])
    assert (tmp_path / "data" / "projects" / "acme.db").is_file()
    with treering.open_projects(background=False, embedder=HashingEmbedder()) as memory:
        assert memory.retrieve("acme", ["note"])[0]["docs"] == ["A note."]
