"""Which engine a space uses is kept in the space, and whatever becomes of the engine, its answers stay the same."""

import os
import shutil

import pytest

import space_parts
from treering.core.errors import InvalidInput
from treering.testing.fakes import HashingEmbedder

TEXTS = ("Bees hum in summer.", "Ants dig in sand.", "Moths fly at night.", "Wasps sting in autumn.")
QUESTION = "what hums in summer"


@pytest.fixture
def file(tmp_path):
    return tmp_path / "space.db"


@pytest.fixture
def told(open_space, file):
    """A space with a few texts and their vectors."""
    space = open_space(str(file), channel="user")
    for text in TEXTS:
        tell(space, text)
    space.perform("vectors")
    return space


@pytest.fixture
def faiss(tmp_path):
    return f"faiss:{tmp_path / 'vectors'}"


def tell(space, text):
    return space_parts.note(space, text, origin=text, title=text)["source_id"]


def nearest(space, question=QUESTION):
    report = space.query("search", input={"query": question})
    return [(hit.title, round(hit.score, 6)) for hit in report.hits]


def status(space):
    return space.perform("index status")


def test_space_has_no_engine_by_default(told):
    assert status(told).state == "none"


def test_an_engine_takes_the_vectors_over_and_answers_as_the_space_did(told, faiss):
    before = nearest(told)
    used = told.perform("index use", input={"address": faiss})
    assert (used.state, used.vectors, used.total, used.kind) == ("ready", 4, 4, "FAISS flat")
    assert nearest(told) == before


def test_every_process_uses_the_engine_that_the_space_names(told, faiss, open_space, file):
    told.perform("index use", input={"address": faiss})
    other = open_space(str(file))
    assert (status(other).state, status(other).address) == ("ready", faiss)
    other.perform("index drop")
    assert status(told).state == "none"


def test_changes_missing_in_the_engine_are_reported_and_found(told, faiss):
    told.perform("index use", input={"address": faiss})
    tell(told, "Crickets hum in summer evenings.")
    told.perform("vectors")
    late = status(told)
    assert (late.state, late.vectors, late.total) == ("following", 4, 5)
    assert late.waiting > 0
    found = nearest(told, "crickets")
    assert found[0][0] == "Crickets hum in summer evenings."
    told.perform("index drop")
    assert nearest(told, "crickets") == found


def test_an_engine_that_was_left_to_later_answers_through_the_space_meanwhile(told, faiss):
    before = nearest(told)
    assert told.perform("index use", input={"address": faiss}, options={"wait": False}).state == "loading"
    assert nearest(told) == before


def test_space_answers_if_the_engine_is_damaged(told, faiss, tmp_path, open_space, file, caplog):
    before = nearest(told)
    told.perform("index use", input={"address": faiss})
    told.close()
    [path] = (tmp_path / "vectors").iterdir()
    path.write_bytes(path.read_bytes()[:100])
    again = open_space(str(file))
    assert nearest(again) == before
    assert "is unavailable" in caplog.text
    failing = status(again)
    assert failing.state == "failing"
    assert "was modified" in failing.problem
    assert "treering index rebuild" in failing.hint
    assert any("cannot be used" in one for one in again.lint("reindex").differences)
    assert again.perform("index rebuild").state == "ready"
    assert nearest(again) == before


def test_an_engine_that_is_gone_is_filled_again(told, faiss, tmp_path, open_space, file):
    told.perform("index use", input={"address": faiss})
    told.close()
    shutil.rmtree(tmp_path / "vectors")
    again = open_space(str(file))
    assert status(again).state == "loading"
    assert nearest(again)[0][0] == TEXTS[0]
    assert again.perform("index rebuild").state == "ready"


def test_erasure_reaches_the_engine(told, faiss, tmp_path):
    secret = tell(told, "The password of the hive is honey.")
    told.perform("vectors")
    told.perform("index use", input={"address": faiss})
    before = (tmp_path / "vectors" / "vectors.treering").read_bytes()
    report = told.perform("erase", input={"ids": [secret]})
    assert [probe.found for probe in report.probes if probe.name == "index rows"] == [0]
    assert (tmp_path / "vectors" / "vectors.treering").read_bytes() != before
    assert (status(told).state, status(told).vectors) == ("ready", 4)


def test_index_rebuild_refills_the_engine(told, faiss):
    told.perform("index use", input={"address": faiss})
    before = nearest(told)
    told.lint("reindex", options={"apply": True, "wait": True})
    assert nearest(told) == before
    assert (status(told).state, status(told).vectors) == ("ready", 4)
    assert list(told.lint("reindex").differences) == []


def test_another_engine_takes_over_and_the_first_keeps_nothing(told, faiss, tmp_path):
    before = nearest(told)
    told.perform("index use", input={"address": faiss})
    second = told.perform("index use", input={"address": f"faiss:{tmp_path / 'graph'}?kind=hnsw"})
    assert (second.state, second.kind) == ("ready", "FAISS hnsw")
    assert not (tmp_path / "vectors").exists()
    assert nearest(told) == before


def test_the_vectors_of_another_space_are_left_alone(told, faiss, open_space, tmp_path):
    told.perform("index use", input={"address": faiss})
    other = open_space(str(tmp_path / "other.db"))
    tell(other, "Something else.")
    with pytest.raises(InvalidInput, match="another space"):
        other.perform("index use", input={"address": faiss})
    assert (status(other).state, status(told).state) == ("none", "ready")


def test_restored_copy_finds_its_own_content(told, faiss, open_space, tmp_path, file):
    told.perform("index use", input={"address": faiss})
    told.backup(tmp_path / "copy.db")
    tell(told, "Beetles crawl in spring.")
    told.perform("vectors")
    told.perform("index rebuild")
    told.close()
    shutil.copy(tmp_path / "copy.db", file)
    for end in ("-wal", "-shm"):
        file.with_name(file.name + end).unlink(missing_ok=True)
    back = open_space(str(file))
    for text in ("Spiders weave webs.", "Ticks wait in grass."):
        tell(back, text)
    back.perform("vectors")
    assert nearest(back, "spiders weave webs")[0][0] == "Spiders weave webs."
    assert all("Beetles" not in title for title, _ in nearest(back, "beetles crawl in spring"))
    back.perform("index rebuild")
    assert (status(back).state, status(back).vectors) == ("ready", 6)


def test_another_model_searches_its_own_vectors(told, faiss, file):
    told.perform("index use", input={"address": faiss})
    other = space_parts.open_space(str(file), embedder=HashingEmbedder(32))
    other.perform("vectors")
    assert nearest(other)[0][0] == TEXTS[0]
    assert (status(other).state, "another model" in status(other).problem) == ("failing", True)
    assert not other.engine.selection.is_due()
    other.close()
    assert (status(told).vectors, status(told).problem) == (4, "")


def test_a_space_that_stays_open_updates_its_engine_in_the_background(faiss, open_space, file):
    space = open_space(str(file), channel="user", background=True)
    tell(space, TEXTS[0])
    space.perform("vectors")
    assert space.perform("index use", input={"address": faiss}).vectors == 1
    many = [f"Text number {number} of many." for number in range(300)]
    space.ingest("source", input={"items": [{"text": text, "origin": text} for text in many]})
    space.perform("vectors")
    assert (status(space).state, status(space).vectors) == ("ready", 301)


def test_a_password_in_the_address_of_an_engine_is_never_shown(told, caplog):
    with pytest.raises(InvalidInput) as refused:
        told.perform("index use", input={"address": "nothing://me:hunter2@host/0"})
    assert "hunter2" not in str(refused.value) + refused.value.hint + caplog.text


@pytest.mark.parametrize("address", ["", "faiss:", "somewhere", "faiss:/a?kind=tree"])
def test_an_address_of_no_engine_is_refused_and_nothing_changes(told, address):
    with pytest.raises(InvalidInput):
        told.perform("index use", input={"address": address})
    assert status(told).state == "none"


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX systems")
def test_a_relative_folder_is_kept_whole(told, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert told.perform("index use", input={"address": "faiss:here"}).address == f"faiss:{tmp_path / 'here'}"
