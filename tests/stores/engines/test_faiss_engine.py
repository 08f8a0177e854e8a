"""FAISS in files: it passes the contracts with the real library, and refuses files that are not what was written."""

import errno
import os
from hashlib import blake2b
from itertools import count

import numpy as np
import pytest

from treering.core.errors import Corrupt, InvalidInput, Unavailable
from treering.extensions.engines.engine_address import parse_engine_address
from treering.extensions.engines.faiss_engine import FaissEngine, VectorFile, open_faiss
from treering.ports.vector_engine import EngineState, VectorChanges
from treering.testing.index_contract import EMBEDDER, IndexContract, LateIndexContract
from treering.testing.vector_engine_contract import VectorEngineContract, found, nearest_of, some_vectors, take_over

KINDS = ("flat", "hnsw")


@pytest.fixture(params=KINDS)
def kind(request):
    return request.param


def engine_in(folder, kind="flat"):
    return FaissEngine(VectorFile(folder), EMBEDDER.dimension, kind)


class TestFaissEngine(VectorEngineContract):
    @pytest.fixture
    def open_engine(self, tmp_path, kind):
        return lambda: engine_in(tmp_path / "vectors", kind)


@pytest.fixture
def open_new_engine(tmp_path, kind):
    numbers = count()
    return lambda: engine_in(tmp_path / str(next(numbers)), kind)


class TestIndexWithFaiss(IndexContract):
    @pytest.fixture
    def kind(self):
        return "flat"

    @pytest.fixture
    def open_index(self, open_composed):
        return open_composed


class TestLateIndexWithFaiss(LateIndexContract):
    @pytest.fixture
    def open_index(self, open_late):
        return open_late


@pytest.fixture
def folder(tmp_path, kind):
    """A folder with the vectors of an engine."""
    take_over(engine_in(tmp_path / "v", kind), some_vectors(100))
    return tmp_path / "v"


def the(folder):
    [path] = folder.iterdir()
    return path


def test_truncated_file_is_refused_with_a_hint(folder):
    path = the(folder)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    with pytest.raises(Corrupt) as refused:
        engine_in(folder).state()
    assert "treering index rebuild" in refused.value.hint
    assert str(folder) in refused.value.message


def test_a_flipped_bit_anywhere_in_a_file_is_refused(folder):
    path = the(folder)
    whole = path.read_bytes()
    for place in np.linspace(0, len(whole) - 1, 12).astype(int):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(Corrupt):
            engine_in(folder).state()
    path.write_bytes(whole)
    assert engine_in(folder).state().moment == "m1"


def test_a_file_that_grew_is_refused(folder):
    path = the(folder)
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(Corrupt):
        engine_in(folder).state()


def test_a_file_of_another_program_is_refused(folder):
    for content in ("", "[]", "x" * 100, sealed("[]\n"), sealed("{}\n"), sealed('{"format": 3}\n'), sealed("none")):
        the(folder).write_bytes(content.encode())
        with pytest.raises(Corrupt):
            engine_in(folder).state()


def sealed(text):
    """Put the checksum of a text in front of it."""
    return blake2b(text.encode(), digest_size=32).hexdigest() + text


def test_files_of_an_earlier_version_are_replaced(tmp_path, kind):
    for name in ("vectors-0123456789ab", "keys-0123456789ab"):
        (tmp_path / name).write_bytes(b"earlier")
    (tmp_path / "manifest.json").write_text('{"told": {"state": {"mark": "m", "loaded": null}}, "checksum": "…"}')
    engine = engine_in(tmp_path, kind)
    assert engine.state() is None
    assert list(tmp_path.iterdir()) == []
    take_over(engine, some_vectors(10))
    assert engine_in(tmp_path, kind).state().count == 10


def test_files_of_other_programs_stay(tmp_path, kind):
    for name in ("manifest.json", "vectors-of-mine", "notes.part"):
        (tmp_path / name).write_text("{}")
    engine = engine_in(tmp_path, kind)
    take_over(engine, some_vectors(10))
    engine.drop()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["manifest.json", "notes.part", "vectors-of-mine"]


def test_failed_write_leaves_the_file_unchanged(folder, kind, monkeypatch):
    engine = engine_in(folder, kind)
    engine.state()
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", no_space)
        with pytest.raises(Unavailable, match="No space left"):
            engine.apply(VectorChanges("m2", (1,)), EngineState("a-space", "m2"))
    assert engine.state() == EngineState("a-space", "m1", count=100)


def no_space(_file):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_engine_begins_without_earlier_files(folder, kind):
    the(folder).write_bytes(b"nothing")
    engine = engine_in(folder, kind)
    take_over(engine, some_vectors(50))
    assert engine_in(folder, kind).state().count == 50
    assert len(list(folder.iterdir())) == 1


def test_a_write_that_ended_half_way_leaves_the_vectors_of_before(folder, kind):
    (folder / f"{the(folder).name}.part").write_bytes(b"half")
    engine = engine_in(folder, kind)
    assert engine.state().moment == "m1"
    engine.apply(VectorChanges("m2", (1,)), EngineState("a-space", "m2"))
    assert engine_in(folder, kind).state().moment == "m2"
    assert len(list(folder.iterdir())) == 1


def test_a_vector_that_was_removed_is_in_no_file(tmp_path, kind):
    engine = engine_in(tmp_path, kind)
    vectors = some_vectors(100)
    take_over(engine, vectors)
    assert vectors[7].tobytes() in the(tmp_path).read_bytes()
    engine.apply(VectorChanges("m2", (7,)), EngineState("a-space", "m2"))
    assert vectors[7].tobytes() not in the(tmp_path).read_bytes()


def test_the_files_are_their_owners_alone(folder):
    assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}


def test_a_graph_finds_nearly_all_of_the_nearest_and_all_where_a_filter_is_narrow(tmp_path):
    rng = np.random.default_rng(5)
    centres = rng.normal(size=(40, EMBEDDER.dimension))
    made = (centres[rng.integers(0, 40, 4_000)] + 0.5 * rng.normal(size=(4_000, EMBEDDER.dimension))).astype("f4")
    made /= np.linalg.norm(made, axis=1, keepdims=True)
    vectors = dict(enumerate(made))
    engine = engine_in(tmp_path, "hnsw")
    take_over(engine, vectors)
    queries = made[::100]
    shared = [len(set(found(engine, q, 10)) & set(nearest_of(vectors, q, 10))) for q in queries]
    assert sum(shared) > 0.95 * 10 * len(queries)
    allowed = np.arange(3, 4_000, 100)
    few = {int(key): vectors[int(key)] for key in allowed}
    assert all(engine.search(q, 10, allowed).tolist() == nearest_of(few, q, 10) for q in queries)


def test_an_option_that_there_is_not_is_refused(tmp_path):
    for options in ("?kind=tree", "?sort=flat"):
        with pytest.raises(InvalidInput, match="option"):
            open_faiss(parse_engine_address(f"faiss:{tmp_path}{options}"), "mark", 4)
