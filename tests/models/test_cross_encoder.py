"""A cross-encoder from a folder: a real network in the real runtime, small enough to be written by the test."""

import shutil
import subprocess
import sys

import pytest
from counting_network import SHIPPED, counting_network, write_cross_encoder

from treering.core.errors import InvalidInput
from treering.extensions.encoder.onnx import open_reranker
from treering.testing.model_contracts import RerankerContract

QUESTION = "Who flushed the cache?"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_cross_encoder(tmp_path_factory.mktemp("models") / "counting")


class TestCrossEncoder(RerankerContract):
    @pytest.fixture
    def reranker(self, folder):
        return open_reranker(f"onnx:{folder}")


def test_the_question_and_the_text_are_read_together_as_one_pair(folder):
    scores = open_reranker(f"onnx:{folder}").score(QUESTION, ["Nobody.", "The cache was flushed.", "The plants."])
    one_pair = 1  # the mark at the end of each part
    assert list(scores - one_pair) == [0, 3, 1]


def test_threads_change_no_score(folder):
    texts = [f"The cache of house {number}." for number in range(20)]
    alone, beside = open_reranker(f"onnx:{folder}"), open_reranker(f"onnx:{folder}", threads=4)
    assert list(alone.score(QUESTION, texts)) == list(beside.score(QUESTION, texts))


def test_it_is_named_by_its_folder_and_its_network(folder):
    assert open_reranker(f"onnx:{folder}").model_id == "counting/model.onnx"


def test_naming_one_loads_nothing(folder):
    program = (
        "import sys; from treering.extensions.encoder.onnx import open_reranker; "
        f"open_reranker({f'onnx:{folder}'!r}).model_id; "
        "sys.exit(any(name in sys.modules for name in ('onnxruntime', 'tokenizers')))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def test_the_network_may_lie_in_onnx_below_the_folder_and_of_several_the_quantised_one_is_taken(tmp_path):
    folder = write_cross_encoder(tmp_path, network="onnx/model_quantized.onnx")
    (folder / "onnx" / "model.onnx").write_bytes(b"not read")
    reranker = open_reranker(f"onnx:{folder}")
    assert reranker.model_id.endswith("/model_quantized.onnx")
    assert list(reranker.score(QUESTION, ["cache"])) == [2]


def test_several_networks_are_refused_by_their_names(tmp_path):
    write_cross_encoder(tmp_path, network="a.onnx")
    write_cross_encoder(tmp_path, network="b.onnx")
    with pytest.raises(InvalidInput, match=r"contains several networks: a\.onnx, b\.onnx"):
        open_reranker(f"onnx:{tmp_path}")


@pytest.mark.parametrize(("left_out", "named"), [("tokenizer.json", r"tokenizer\.json"), ("model.onnx", r"\*\.onnx")])
def test_a_folder_that_lacks_a_file_is_refused_when_it_is_named(tmp_path, left_out, named):
    (write_cross_encoder(tmp_path) / left_out).unlink()
    with pytest.raises(InvalidInput, match=named):
        open_reranker(f"onnx:{tmp_path}")


@pytest.mark.parametrize("place", ["", "onnx:", "fastembed:minilm", "/models/minilm"])
def test_another_form_is_refused_with_the_right_one(place):
    with pytest.raises(InvalidInput, match="onnx:FOLDER"):
        open_reranker(place)


def test_an_embedder_is_refused_as_a_reranker(tmp_path):
    for name in ("tokenizer.json", "model_quantized.onnx"):
        with (SHIPPED / name).open("rb") as shipped, (tmp_path / name).open("wb") as copy:
            shutil.copyfileobj(shipped, copy)
    with pytest.raises(InvalidInput, match="not a single score"):
        open_reranker(f"onnx:{tmp_path}").score(QUESTION, ["The cache."])


@pytest.mark.parametrize("broken", ["tokenizer.json", "model.onnx"])
def test_a_file_that_cannot_be_read_is_named_an_error_of_the_input(tmp_path, broken):
    (write_cross_encoder(tmp_path) / broken).write_bytes(b"{}")
    with pytest.raises(InvalidInput, match="cannot be read"):
        open_reranker(f"onnx:{tmp_path}").score(QUESTION, ["The cache."])


def test_a_network_that_asks_for_something_else_is_refused(tmp_path):
    folder = write_cross_encoder(tmp_path)
    (folder / "model.onnx").write_bytes(counting_network().replace(b"input_ids", b"inputs_id"))
    with pytest.raises(InvalidInput, match="requires unknown inputs: inputs_id"):
        open_reranker(f"onnx:{folder}").score(QUESTION, ["The cache."])
