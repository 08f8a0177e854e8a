"""The built-in embedder, with its real weights."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha256
from importlib.resources import files
from pathlib import Path

import numpy as np
import pytest

from treering.core.errors import Corrupt, InvalidInput
from treering.extensions.encoder.onnx import QUERY_PREFIX, BgeSmall
from treering.models import shipped as shipped_files
from treering.ports.models import Embedder

SHIPPED = files("treering.models") / "bge_small_en_v1_5_int8"
TEXTS = [
    "The cache is flushed before the writer process is forked.",
    "",
    "def commit(self, patch): ...",
    "Sourdough needs a starter, flour, water, salt and a day of patience. " * 30,
    "決定: 台帳は追記のみとする",
    "ok",
]


@pytest.fixture(scope="module")
def model() -> Embedder:
    return BgeSmall()


def test_construction_imports_neither_the_runtime_nor_the_tokenizer():
    program = (
        "import sys; from treering.extensions.encoder.onnx import BgeSmall; BgeSmall().model_id; "
        "sys.exit(any(name in sys.modules for name in ('onnxruntime', 'tokenizers')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_a_question_is_nearest_to_the_text_that_answers_it(model):
    documents = [
        "Writes are retried three times with exponential back-off.",
        "The office plants are watered on Mondays.",
        "Our logo uses a shade of green.",
    ]
    cosines = model.embed_documents(documents) @ model.embed_query("what happens when saving fails?")
    assert int(cosines.argmax()) == 0


def test_vectors_are_of_unit_length_and_of_the_dimension_announced(model):
    vectors = model.embed_documents(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), model.dimension)
    np.testing.assert_allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-5)


def test_a_vector_does_not_depend_on_the_texts_beside_it_nor_on_their_order(model):
    together = model.embed_documents(TEXTS)
    alone = [model.embed_documents([text])[0] for text in TEXTS]
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_array_equal(model.embed_documents(TEXTS[::-1]), together[::-1])


def test_the_number_of_threads_changes_neither_vectors_nor_their_order_nor_the_model_id(model):
    parallel = BgeSmall(threads=3)
    np.testing.assert_array_equal(parallel.embed_documents(TEXTS * 3), model.embed_documents(TEXTS * 3))
    assert parallel.model_id == model.model_id


def test_first_use_from_many_threads_at_once_gives_the_one_right_answer(model):
    fresh = BgeSmall()
    with ThreadPoolExecutor(6) as pool:
        answers = list(pool.map(fresh.embed_query, ["who holds the lock?"] * 6))
    for answer in answers:
        np.testing.assert_array_equal(answer, model.embed_query("who holds the lock?"))


def test_a_query_is_embedded_with_its_prefix_and_a_document_without(model):
    prefixed = model.embed_documents([QUERY_PREFIX + "who decided?", "who decided?"])
    query = model.embed_query("who decided?")
    np.testing.assert_array_equal(query, prefixed[0])
    assert not np.array_equal(query, prefixed[1])


def test_no_text_gives_no_vectors(model):
    assert model.embed_documents([]).shape == (0, model.dimension)


@pytest.mark.parametrize("text", ["", " \n\t", "\ud800 undecodable \udcff", "\x00", "🦑" * 50])
def test_odd_texts_are_embedded_like_any_other(model, text):
    assert np.isfinite(model.embed_query(text)).all()
    assert np.isfinite(model.embed_documents([text])).all()


def test_only_the_first_tokens_of_a_long_text_count():
    short = BgeSmall(max_tokens=16)
    start = "one two three four five six seven eight nine ten eleven twelve thirteen fourteen "
    a, b = short.embed_documents([start + "about ships", start + "about bread " * 100_000])
    np.testing.assert_array_equal(a, b)


def test_how_much_of_a_text_is_read_is_part_of_the_model_id(model):
    assert BgeSmall(max_tokens=128).model_id != model.model_id
    assert {"bge-small-en-v1.5", "int8", "384"} <= set(model.model_id.split(":"))


@pytest.mark.parametrize("options", [{"threads": 0}, {"max_tokens": 2}, {"max_tokens": 513}])
def test_settings_outside_what_the_model_can_do_are_refused(options):
    with pytest.raises(InvalidInput) as refusal:
        BgeSmall(**options)
    assert refusal.value.hint


@pytest.mark.parametrize("name", [shipped_files.TOKENIZER, shipped_files.WEIGHTS])
def test_a_changed_or_missing_model_file_is_reported_with_what_to_do(tmp_path: Path, name: str):
    for shipped in shipped_files.SHA256:
        (tmp_path / shipped).write_bytes((SHIPPED / shipped).read_bytes())
    with (tmp_path / name).open("r+b") as file:
        file.seek(1_000)
        file.write(b"\x00changed\x00")
    with pytest.raises(Corrupt, match="modified") as changed:
        BgeSmall(folder=tmp_path).embed_query("anything")
    assert "Reinstall treering" in changed.value.hint
    (tmp_path / name).unlink()
    with pytest.raises(Corrupt, match="missing"):
        BgeSmall(folder=tmp_path).embed_query("anything")


def test_the_notices_name_the_very_bytes_that_are_shipped():
    notices = (Path(__file__).parents[2] / "THIRD_PARTY_NOTICES.md").read_text(encoding="utf-8")
    for name in shipped_files.SHA256:
        assert f"`{sha256((SHIPPED / name).read_bytes()).hexdigest()}`" in notices


def test_embedding_writes_and_sends_no_telemetry(tmp_path):
    script = "from treering.extensions.encoder.onnx import BgeSmall; BgeSmall().embed_query('tea')"
    hidden = ("XDG_CACHE_HOME", "ORT_DISABLE_TELEMETRY")
    env = {name: value for name, value in os.environ.items() if name not in hidden} | {"HOME": str(tmp_path)}
    subprocess.run([sys.executable, "-c", script], env=env, check=True)
    assert not list(tmp_path.rglob("*onnxruntime*"))
